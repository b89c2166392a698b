//! What one unit says of code: where its variables are, and what its functions take.

mod functions;
mod inlining;

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use super::budget::Budget;
use super::entry::Entry;
use super::place::{self, Frame};
use super::shapes::{Ref, Shapes};
use super::typing::{Offsets, Typing};
use super::units::{Bytes, Code, Cursor, Fault, Flaw, Unit, Units, Value};
use super::{Definition, Inlined, Place, REASONS, Reason};
use functions::Function;
use inlining::Within;

/// What was found, with types and names that are not yet those of the result.
#[derive(Default)]
pub(super) struct Found<'d> {
    pub(super) lives: Vec<FoundLive>,
    pub(super) objects: Vec<(u64, Ref, u32)>,
    pub(super) functions: Vec<FoundFunction>,
    pub(super) inlined: Vec<Inlined>,
    /// The names that the numbers stand for.
    pub(super) names: Vec<Cow<'d, str>>,
    pub(super) skipped: [u64; REASONS],
    /// Of the unit's source.
    pub(super) name: &'d str,
    /// That the compiler ran in.
    pub(super) folder: &'d str,
    /// Where it begins in its section.
    pub(super) start: usize,
    pub(super) code: Vec<(u64, u64)>,
    pub(super) lines: Option<usize>,
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy)]
pub(super) struct FoundLive {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) place: Place,
    pub(super) type_: Ref,
    pub(super) spelling: u32,
    pub(super) name: u32,
    pub(super) depth: u16,
    pub(super) parameter: bool,
}

pub(super) struct FoundFunction {
    pub(super) name: u32,
    pub(super) definition: Option<Definition>,
    pub(super) proto: Ref,
    pub(super) exact: bool,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Something that code belongs to: a function, an inlined one, a block.
struct Scope<'d> {
    /// Of its entry.
    depth: isize,
    code: Code<'d>,
    /// Its code, once something asked for it.
    ranges: Option<Rc<[(u64, u64)]>>,
    frame: Frame,
    function: Option<Box<Function<'d>>>,
    within: Within,
    /// The names of its own variables.
    names: Vec<u32>,
}

impl Scope<'_> {
    fn has_code(&self) -> bool {
        self.code.ranges.is_some() || self.code.high.is_some()
    }
}

/// A variable that is said more of elsewhere.
#[derive(Clone, Copy)]
struct Variable {
    type_: Ref,
    spelling: u32,
    name: u32,
}

/// So many lives are asked for at a time.
const BATCH: usize = 16;
/// So many pieces of a scope are looked at for each entry of a list.
const PIECES: usize = 64;
/// Code nests no deeper.
const NESTING: usize = 4096;
pub(super) struct Walk<'s, 'd, 't> {
    typing: Typing<'s, 'd, 't>,
    units: &'s Units<'d>,
    unit: Rc<Unit<'d>>,
    budget: &'s Budget,
    scopes: Vec<Scope<'d>>,
    /// How many lives may be added before asking again.
    allowed: usize,
    variables: Offsets<Variable>,
    /// By the number of a name: how many variables have it in the scopes that are open.
    open: Vec<usize>,
    numbers: HashMap<Cow<'d, str>, u32>,
    /// The numbers of types' spellings.
    spellings: Offsets<u32>,
    definitions: Offsets<Option<Definition>>,
    found: Found<'d>,
}

/// Reads a unit.
pub(super) fn walk<'d>(
    units: &Units<'d>,
    shapes: &Shapes<'d, '_>,
    budget: &Budget,
    index: usize,
) -> Found<'d> {
    let damaged = |fault| Found { fault: Some(fault), start: units.start(index), ..Found::default() };
    let unit = match units.open(index) {
        Ok(unit) => unit,
        Err(fault) => return damaged(fault),
    };
    let typing = Typing::new(units, shapes, unit, index);
    let mut walk = Walk {
        units,
        unit: Rc::clone(&typing.unit),
        typing,
        budget,
        scopes: Vec::new(),
        allowed: 0,
        variables: Offsets::default(),
        open: Vec::new(),
        numbers: HashMap::new(),
        spellings: Offsets::default(),
        definitions: Offsets::default(),
        found: Found::default(),
    };
    let outcome = walk.unit();
    let described = walk.typing.describe();
    match outcome.and(described) {
        Ok(()) => walk.found,
        // Half of what it says may be worse than nothing.
        Err(fault) => damaged(fault),
    }
}

impl<'d> Walk<'_, 'd, '_> {
    fn unit(&mut self) -> Result<(), Fault> {
        let unit = Rc::clone(&self.unit);
        (self.found.name, self.found.folder) = (unit.name, unit.folder);
        self.found.lines = unit.lines;
        self.found.code = self.units.ranges(&unit, &unit.code, self.budget.ranges.left())?;
        self.budget.ranges.spend(self.found.code.len());
        if matches!(unit.unit.header.type_(), gimli::UnitType::Type { .. }) {
            return Ok(());
        }
        let root = unit.start + unit.unit.header.root_offset().0;
        let mut cursor = Cursor::new(&unit, root)?;
        // What is behind the unit's own entry, if anything, is padding.
        loop {
            let (at, depth) = (cursor.at(), cursor.depth());
            if cursor.entries.is_empty() {
                break;
            }
            let Some(abbreviation) = cursor.next()? else {
                self.leave(cursor.depth())?;
                continue;
            };
            match abbreviation.tag() {
                tag @ (gimli::DW_TAG_subprogram
                | gimli::DW_TAG_inlined_subroutine
                | gimli::DW_TAG_lexical_block
                | gimli::DW_TAG_try_block
                | gimli::DW_TAG_catch_block) => {
                    let entry = Entry::read(&mut cursor, abbreviation)?;
                    self.enter(entry, (at, tag), depth)?;
                    if !abbreviation.has_children() {
                        self.leave(depth)?;
                    }
                }
                tag @ (gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter) => {
                    let entry = Entry::read(&mut cursor, abbreviation)?;
                    self.variable(at, depth, entry, tag == gimli::DW_TAG_formal_parameter)?;
                }
                gimli::DW_TAG_unspecified_parameters => {
                    cursor.skip(abbreviation)?;
                    if let Some(function) = self.function(depth) {
                        function.variadic = true;
                    }
                }
                gimli::DW_TAG_structure_type
                | gimli::DW_TAG_class_type
                | gimli::DW_TAG_union_type
                | gimli::DW_TAG_enumeration_type
                | gimli::DW_TAG_array_type
                | gimli::DW_TAG_subroutine_type
                | gimli::DW_TAG_call_site
                | gimli::DW_TAG_GNU_call_site
                    if abbreviation.has_children() =>
                {
                    let mut sibling = None;
                    for spec in abbreviation.attributes() {
                        if spec.name() == gimli::DW_AT_sibling {
                            sibling = unit.reference(cursor.entries.read_attribute(*spec)?.value());
                        } else {
                            cursor.entries.skip_attributes(std::slice::from_ref(spec))?;
                        }
                    }
                    cursor.jump(sibling, depth)?;
                }
                _ => cursor.skip(abbreviation)?,
            }
        }
        self.leave(isize::MIN)?;
        self.count_inlined();
        Ok(())
    }

    /// The function whose own parameter an entry of this depth would be.
    fn function(&mut self, depth: isize) -> Option<&mut Function<'d>> {
        let scope = self.scopes.last_mut().filter(|scope| scope.depth + 1 == depth)?;
        scope.function.as_deref_mut()
    }

    fn enter(
        &mut self,
        entry: Entry<'d>,
        (at, tag): (usize, gimli::DwTag),
        depth: isize,
    ) -> Result<(), Fault> {
        if self.scopes.len() == NESTING {
            return Err(Flaw::Deep.into());
        }
        let is_function = tag == gimli::DW_TAG_subprogram;
        let (frame, within) = match (is_function, self.scopes.last()) {
            (false, Some(around)) => (around.frame, around.within),
            _ => {
                let frame = Frame::new(entry.frame_base.map(|base| self.place(base, Frame::Unknown)));
                (frame, Within::default())
            }
        };
        let (code, names) = (entry.code, Vec::new());
        let mut scope = Scope { depth, code, ranges: None, frame, function: None, within, names };
        if tag == gimli::DW_TAG_inlined_subroutine {
            scope.within = self.inlined(entry.origin, within)?;
        }
        if is_function {
            let ranges = self.code(&entry.code)?;
            // Cold parts lie elsewhere; it is entered where it says, or where its first part begins.
            let start = entry.entry.and_then(|start| match start.udata_value() {
                Some(offset) => ranges.first()?.0.checked_add(offset),
                None => self.units.dwarf.attr_address(&self.unit.unit, start).ok().flatten(),
            });
            let first =
                ranges.iter().find(|range| start.is_none_or(|start| (range.0..range.1).contains(&start)));
            if let Some((from, to)) = first.copied() {
                let definition = self.definition(entry.origin.unwrap_or(at))?;
                let from = start.unwrap_or(from);
                scope.within = Within { definition, entered: Some(from) };
                let params = Vec::new();
                let function = Function { entry, definition, from, to, params, variadic: false };
                scope.function = Some(Box::new(function));
            }
            scope.ranges = Some(ranges);
        }
        self.scopes.push(scope);
        Ok(())
    }

    fn code(&self, code: &Code<'d>) -> Result<Rc<[(u64, u64)]>, Fault> {
        let ranges = self.units.ranges(&self.unit, code, self.budget.ranges.left())?;
        self.budget.ranges.spend(ranges.len());
        Ok(ranges.into())
    }

    /// Leaves the scopes of this depth and deeper.
    fn leave(&mut self, depth: isize) -> Result<(), Fault> {
        while let Some(mut scope) = self.scopes.pop_if(|scope| scope.depth >= depth) {
            for name in scope.names {
                if let Some(count) = self.open.get_mut(index(name)) {
                    *count -= 1;
                }
            }
            if let Some(function) = scope.function.take() {
                self.finish(*function)?;
            }
        }
        Ok(())
    }

    /// The code of the innermost scope.
    fn scope(&mut self) -> Result<Rc<[(u64, u64)]>, Fault> {
        let Some(at) = self.scopes.iter().rposition(Scope::has_code) else { return Ok(Rc::default()) };
        if let Some(known) = &self.scopes[at].ranges {
            return Ok(Rc::clone(known));
        }
        let ranges = self.code(&self.scopes[at].code)?;
        self.scopes[at].ranges = Some(Rc::clone(&ranges));
        Ok(ranges)
    }

    fn number(&mut self, name: impl Into<Cow<'d, str>>) -> u32 {
        let (name, next) = (name.into(), u32::try_from(self.found.names.len()).unwrap_or(u32::MAX));
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.found.names.push(name.clone());
            next
        })
    }

    fn spelling(&mut self, at: Option<usize>) -> Result<u32, Fault> {
        let known = at.and_then(|at| self.spellings.get(&at));
        if let Some(known) = known {
            return Ok(*known);
        }
        let spelling = self.typing.spell(at, 0)?;
        let number = self.number(spelling);
        at.map(|at| self.spellings.insert(at, number));
        Ok(number)
    }

    /// The name and type of what an entry says itself, or else of what it refers to.
    fn about(
        &mut self,
        name: Option<Value<'d>>,
        type_: Option<usize>,
        mut origin: Option<usize>,
    ) -> Result<(&'d str, Option<usize>), Fault> {
        let mut text = name.map(|name| self.units.text(&self.unit, name));
        let mut type_ = type_;
        // An inlined one refers to the abstract one, that to its declaration.
        for _ in 0..4 {
            let Some(at) = origin.filter(|_| text.is_none() || type_.is_none()) else { break };
            self.typing.spend(1)?;
            let unit = self.typing.unit_of(at)?;
            let mut cursor = Cursor::new(&unit, at)?;
            let abbreviation = cursor.next()?.ok_or_else(Fault::dangling)?;
            let entry = Entry::read(&mut cursor, abbreviation)?;
            text = text.or_else(|| entry.name.map(|name| self.units.text(&unit, name)));
            type_ = type_.or(entry.type_);
            origin = entry.origin;
        }
        Ok((text.unwrap_or(""), type_))
    }

    fn known(&mut self, entry: &Entry<'d>) -> Result<Variable, Fault> {
        if let (None, None, Some(origin)) = (entry.name, entry.type_, entry.origin)
            && let Some(known) = self.variables.get(&origin)
        {
            return Ok(*known);
        }
        let (name, type_) = self.about(entry.name, entry.type_, entry.origin)?;
        let (type_, spelling) = (self.typing.resolve(type_)?, self.spelling(type_)?);
        let variable = Variable { type_, spelling, name: self.number(name) };
        if let (None, None, Some(origin)) = (entry.name, entry.type_, entry.origin) {
            self.variables.insert(origin, variable);
        }
        Ok(variable)
    }

    fn variable(&mut self, at: usize, depth: isize, entry: Entry<'d>, parameter: bool) -> Result<(), Fault> {
        if parameter && self.function(depth).is_some() {
            self.parameter(at, depth, &entry)?;
        }
        self.hide(&entry, parameter)?;
        if let Some(expression) = entry.location.and_then(|location| location.exprloc_value()) {
            let frame = self.frame();
            match self.place(expression, frame) {
                Ok(Place::Address(address)) => {
                    let variable = self.known(&entry)?;
                    self.found.objects.push((address, variable.type_, variable.name));
                    return Ok(());
                }
                place => self.whole_scope(&entry, place, parameter)?,
            }
        } else if let Some(list) = entry.location {
            let variable = self.known(&entry)?;
            self.list(list, variable, parameter)?;
        } else if let Some(constant) = entry.constant {
            let value = constant.udata_value().or_else(|| constant.sdata_value().map(i64::cast_unsigned));
            // A constant that fits in a register, or not.
            self.whole_scope(&entry, value.map(Place::Value).ok_or(Reason::Arithmetic), parameter)?;
        }
        Ok(())
    }

    /// Where a variable is in scope, none of those around is meant by its name, even if it has no place.
    fn hide(&mut self, entry: &Entry<'d>, parameter: bool) -> Result<(), Fault> {
        // A function as it is inlined elsewhere has none.
        if !self.scopes.first().is_some_and(Scope::has_code) {
            return Ok(());
        }
        let variable = self.known(entry)?;
        self.open.resize(self.open.len().max(self.found.names.len()), 0);
        let Some(count) = self.open.get_mut(index(variable.name)) else { return Ok(()) };
        *count += 1;
        let hides = *count > 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.push(variable.name);
        }
        if hides {
            self.whole_scope(entry, Ok(Place::Hiding), parameter)?;
        }
        Ok(())
    }

    fn place(&self, expression: gimli::Expression<Bytes<'d>>, frame: Frame) -> Result<Place, Reason> {
        let unit = &self.unit.unit;
        let address = |index| self.units.dwarf.address(unit, index).ok();
        place::place(expression, unit.encoding(), frame, address)
    }

    fn frame(&self) -> Frame {
        self.scopes.last().map_or(Frame::Unknown, |scope| scope.frame)
    }

    /// One that is in the same place for as long as it is in scope.
    fn whole_scope(
        &mut self,
        entry: &Entry<'d>,
        place: Result<Place, Reason>,
        parameter: bool,
    ) -> Result<(), Fault> {
        if self.scopes.is_empty() {
            return Ok(());
        }
        let variable = self.known(entry)?;
        match place {
            Ok(place) => {
                let depth = self.depth();
                for (from, to) in self.scope()?.iter() {
                    self.live(*from, *to, place, variable, parameter, depth);
                }
            }
            Err(reason) => self.found.skipped[reason.index()] += 1,
        }
        Ok(())
    }

    fn list(&mut self, list: Value<'d>, variable: Variable, parameter: bool) -> Result<(), Fault> {
        let unit = Rc::clone(&self.unit);
        let (section, frame) = (locations_section(&unit), self.frame());
        let locations = self.units.dwarf.attr_locations(&unit.unit, list).map_err(Fault::within(section))?;
        let Some(mut locations) = locations else { return Ok(()) };
        let mut last: Option<(u64, u64, Place)> = None;
        let (most, mut count) = (self.budget.locations.left(), 0);
        while let Some(location) = locations.next().map_err(Fault::within(section))? {
            count += 1;
            if count > most {
                return Err(Fault::new(section, Flaw::Locations));
            }
            let (from, to) = (location.range.begin, location.range.end);
            match self.place(location.data, frame) {
                // A list may be split where a view of the source changes, and nothing else.
                Ok(place) => match &mut last {
                    Some((_, end, before)) if *end == from && *before == place => *end = to,
                    _ => {
                        if let Some(last) = last.replace((from, to, place)) {
                            self.located(last, variable, parameter)?;
                        }
                    }
                },
                Err(reason) => self.found.skipped[reason.index()] += 1,
            }
        }
        self.budget.locations.spend(count);
        if let Some(last) = last {
            self.located(last, variable, parameter)?;
        }
        Ok(())
    }

    /// One entry of a list, which may go on where the variable is out of scope.
    fn located(
        &mut self,
        (from, to, place): (u64, u64, Place),
        variable: Variable,
        parameter: bool,
    ) -> Result<(), Fault> {
        let (scope, depth) = (self.scope()?, self.depth());
        let mut inside: Vec<_> = scope
            .iter()
            .take(PIECES)
            .map(|(lo, hi)| (from.max(*lo), to.min(*hi)))
            .filter(|(lo, hi)| lo < hi)
            .collect();
        inside.sort_unstable();
        let mut at = from;
        for (lo, hi) in inside {
            if at < lo {
                self.live(at, lo, place, variable, parameter, 0);
            }
            if at.max(lo) < hi {
                self.live(at.max(lo), hi, place, variable, parameter, depth);
            }
            at = at.max(hi);
        }
        if at < to {
            self.live(at, to, place, variable, parameter, 0);
        }
        Ok(())
    }

    /// That of what is declared here.
    fn depth(&self) -> u16 {
        u16::try_from(self.scopes.len()).unwrap_or(u16::MAX)
    }

    fn live(&mut self, from: u64, to: u64, place: Place, variable: Variable, parameter: bool, depth: u16) {
        // Threads should not have to agree on each.
        if self.found.lives.len().is_multiple_of(BATCH) {
            self.allowed = self.budget.lives.left().min(BATCH);
            self.budget.lives.spend(self.allowed);
        }
        let Some(allowed) = self.allowed.checked_sub(1) else {
            self.found.skipped[Reason::TooMany.index()] += 1;
            return;
        };
        self.allowed = allowed;
        let Variable { type_, spelling, name } = variable;
        self.found.lives.push(FoundLive { from, to, place, type_, spelling, name, depth, parameter });
    }
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn locations_section(unit: &Unit<'_>) -> &'static str {
    if unit.encoding().version < 5 { ".debug_loc" } else { ".debug_loclists" }
}
