//! What functions take: as declared, and whether this one is called so.

use std::rc::Rc;

use gimli::AttributeValue;

use super::{FoundFunction, Walk, locations_section};
use crate::dwarf::entry::Entry;
use crate::dwarf::shapes::Prototype;
use crate::dwarf::units::Fault;
use crate::dwarf::{Definition, Place, Reason};

/// A function with code of its own.
pub(super) struct Function<'d> {
    pub(super) entry: Entry<'d>,
    pub(super) definition: Option<Definition>,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Its parameters' origins (or the entries themselves), types, and where they are when it is entered.
    pub(super) params: Vec<Param<'d>>,
    pub(super) variadic: bool,
}

pub(super) struct Param<'d> {
    origin: Option<usize>,
    name: &'d str,
    type_: Option<usize>,
    start: Option<Result<Place, Reason>>,
}

/// The hardware's numbers of the registers that the first whole numbers and pointers are passed in.
const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];

impl<'d> Walk<'_, 'd, '_> {
    /// Notes a parameter of the function that is being read.
    pub(super) fn parameter(&mut self, at: usize, depth: isize, entry: &Entry<'d>) -> Result<(), Fault> {
        let (units, unit, frame) = (self.units, Rc::clone(&self.unit), self.frame());
        let Some(from) = self.function(depth).map(|function| function.from) else { return Ok(()) };
        let start = match entry.location {
            Some(AttributeValue::Exprloc(expression)) => Some(expression),
            Some(list) => {
                let section = locations_section(&unit);
                let mut first =
                    units.dwarf.attr_locations(&unit.unit, list).map_err(Fault::within(section))?;
                let first = first.as_mut().and_then(|list| list.next().transpose());
                let first = first.transpose().map_err(Fault::within(section))?;
                first.filter(|first| first.range.begin == from).map(|first| first.data)
            }
            None => None,
        };
        let start = start.map(|start| self.place(start, frame));
        let start = start.or(entry.constant.map(|_| Err(Reason::Nowhere)));
        let (origin, name, type_) = match entry.origin {
            Some(origin) => (Some(origin), "", None),
            None => (Some(at), entry.name.map_or("", |name| units.text(&unit, name)), entry.type_),
        };
        if let Some(function) = self.function(depth) {
            function.params.push(Param { origin, name, type_, start });
        }
        Ok(())
    }

    /// All of a function has been read.
    pub(super) fn finish(&mut self, function: Function<'d>) -> Result<(), Fault> {
        let Function { entry, definition, from, to, params, mut variadic } = function;
        let (name, returns) = self.about(entry.name, entry.type_, entry.origin)?;
        let returns = self.typing.resolve(returns)?;
        // What was declared: with the abstract instance, or here.
        let mut declared: Vec<(Option<usize>, &'d str, Option<usize>)> = Vec::new();
        match entry.origin {
            None => declared.extend(params.iter().map(|param| (param.origin, param.name, param.type_))),
            Some(origin) => {
                for child in self.typing.children(origin)? {
                    match child.tag {
                        gimli::DW_TAG_formal_parameter => {
                            declared.push((Some(child.at), child.name, child.type_))
                        }
                        gimli::DW_TAG_unspecified_parameters => variadic = true,
                        _ => {}
                    }
                }
            }
        }
        let mut exact = !entry.no_call;
        if let (Some(linkage), Some(_)) = (entry.linkage_name, entry.origin) {
            exact &= self.units.text(&self.unit, linkage) == name;
        }
        // A clone lacks some parameters, or has them in another order.
        let own = params.iter().map(|param| param.origin);
        exact &= !entry.instance || own.eq(declared.iter().map(|declared| declared.0));
        let mut types = Vec::with_capacity(declared.len());
        let mut passed = Some(0);
        for (nth, (_, name, type_)) in declared.iter().enumerate() {
            types.push((*name, self.typing.resolve(*type_)?));
            // As long as all before it are passed in the registers in order, so is this one.
            if !self.typing.in_register(*type_)? {
                passed = None;
            }
            if let Some(number) = &mut passed {
                let expected = ARGUMENTS.get(*number).copied();
                *number += 1;
                if let (true, Some(register), Some(param)) = (entry.instance, expected, params.get(nth)) {
                    // One that is kept in memory from the beginning was passed as all are.
                    exact &= match param.start {
                        Some(Ok(Place::Register { register: found, add })) => found == register && add == 0,
                        Some(Ok(Place::Memory { .. } | Place::Frame { .. } | Place::Address(_))) => true,
                        Some(Ok(Place::FrameAddress { .. } | Place::Value(_) | Place::Hiding) | Err(_))
                        | None => false,
                    };
                }
            }
        }
        let prototype = Prototype { params: types.into(), returns, variadic };
        let proto = self.typing.function(prototype);
        let name = self.number(name);
        self.found.functions.push(FoundFunction { name, definition, proto, exact, from, to });
        Ok(())
    }
}
