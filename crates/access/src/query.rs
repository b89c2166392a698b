//! A pointcut as it is asked of the tables.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::access_path::Level;
use crate::cfg::to_usize;
use crate::file::{Located, Row, Tables};
use crate::pointcut::{How, Pointcut};
use crate::site::{Binding, Place, Site};

/// A pointcut, and what of it is the same for all functions. Its parts are known by where they lie in memory.
pub(crate) struct Query<'p> {
    pointcut: &'p Pointcut,
    tables: &'p Tables,
    /// For each access(): for each access path whether it is one.
    paths: HashMap<*const Pointcut, Vec<bool>>,
    /// For each local_var(): the number of the name, if anything has it.
    names: HashMap<*const Pointcut, Option<u32>>,
}

/// A pointcut in one function.
pub(crate) struct Inside<'a, 'p> {
    query: &'a Query<'p>,
    function: u32,
    /// For each local_var(): where the variable is.
    located: HashMap<*const Pointcut, Vec<Located<'p>>>,
}

impl<'p> Query<'p> {
    pub(crate) fn new(pointcut: &'p Pointcut, tables: &'p Tables) -> Self {
        let mut query = Self { pointcut, tables, paths: HashMap::new(), names: HashMap::new() };
        query.prepare(pointcut);
        query
    }

    fn prepare(&mut self, of: &Pointcut) {
        match of {
            Pointcut::Access { structure, member, .. } => {
                let matching =
                    self.tables.paths().iter().map(|path| path.touches(structure, member)).collect();
                self.paths.insert(std::ptr::from_ref(of), matching);
            }
            Pointcut::Variable { name, .. } => {
                self.names.insert(std::ptr::from_ref(of), self.tables.name_number(name));
            }
            Pointcut::And(a, b) | Pointcut::Or(a, b) => {
                self.prepare(a);
                self.prepare(b);
            }
            Pointcut::Not(a) => self.prepare(a),
            Pointcut::Function(_) | Pointcut::File(_) | Pointcut::Target(_) => {}
        }
    }

    /// Whether sites of a function match by their function alone; none if that depends.
    pub(crate) fn in_function(&self, function: u32) -> Option<bool> {
        self.part_in(self.pointcut, function)
    }

    fn part_in(&self, of: &Pointcut, function: u32) -> Option<bool> {
        match of {
            Pointcut::Access { .. } | Pointcut::Target(_) => None,
            Pointcut::Variable { .. } => {
                let name = self.names.get(&std::ptr::from_ref(of)).copied().flatten();
                let there = name.is_some_and(|name| self.tables.has_variable(function, name));
                if there { None } else { Some(false) }
            }
            Pointcut::Function(_) | Pointcut::File(_) => Some(self.within(of, function)),
            Pointcut::And(a, b) => match (self.part_in(a, function), self.part_in(b, function)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                _ => None,
            },
            Pointcut::Or(a, b) => match (self.part_in(a, function), self.part_in(b, function)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                _ => None,
            },
            Pointcut::Not(a) => self.part_in(a, function).map(|inside| !inside),
        }
    }

    fn within(&self, of: &Pointcut, function: u32) -> bool {
        match of {
            Pointcut::Function(pattern) => xweave_text::matches(pattern, whole(self.tables.name(function))),
            Pointcut::File(pattern) => self.tables.file(function).is_some_and(|file| in_file(pattern, file)),
            _ => false,
        }
    }

    /// The pointcut in a function; none if nothing of that can match.
    pub(crate) fn of(&self, function: u32) -> Option<Inside<'_, 'p>> {
        if self.in_function(function) == Some(false) {
            return None;
        }
        let located = |(part, name): (&*const Pointcut, &Option<u32>)| {
            Some((*part, self.tables.located(function, (*name)?)))
        };
        Some(Inside { query: self, function, located: self.names.iter().filter_map(located).collect() })
    }
}

impl<'p> Inside<'_, 'p> {
    /// Whether a site with this access path matches.
    pub(crate) fn matches(&self, row: &Row, path: u32) -> bool {
        self.part(self.query.pointcut, row, path)
    }

    fn part(&self, of: &Pointcut, row: &Row, path: u32) -> bool {
        match of {
            Pointcut::Access { how, .. } => {
                let wanted = match how {
                    None => true,
                    Some(How::Read) => row.reads,
                    Some(How::Write) => row.writes,
                };
                let paths = self.query.paths.get(&std::ptr::from_ref(of));
                wanted && paths.and_then(|paths| paths.get(to_usize(path))).copied().unwrap_or(false)
            }
            Pointcut::Target(_) => row.base.is_some(),
            Pointcut::Variable { .. } => self.variable(of, row).is_some(),
            Pointcut::Function(_) | Pointcut::File(_) => self.query.within(of, self.function),
            Pointcut::And(a, b) => self.part(a, row, path) && self.part(b, row, path),
            Pointcut::Or(a, b) => self.part(a, row, path) || self.part(b, row, path),
            Pointcut::Not(a) => !self.part(a, row, path),
        }
    }

    fn variable(&self, of: &Pointcut, row: &Row) -> Option<&Located<'p>> {
        let located = self.located.get(&std::ptr::from_ref(of))?;
        let nth = located.partition_point(|located| located.first <= row.number).checked_sub(1)?;
        located.get(nth).filter(|located| row.number < located.end)
    }

    /// What has a name at a site that matches.
    pub(crate) fn bindings(&self, row: &Row, site: &Site<'p>) -> Vec<Binding<'p>> {
        let mut bindings = Vec::new();
        self.bind(self.query.pointcut, row, site, None, &mut bindings);
        bindings
    }

    /// Adds what a part gives names to. `touched` is what an access() beside it is about.
    fn bind(
        &self,
        of: &'p Pointcut,
        row: &Row,
        site: &Site<'p>,
        touched: Option<&'p Level>,
        bindings: &mut Vec<Binding<'p>>,
    ) {
        let (name, type_, place) = match of {
            Pointcut::And(a, b) => {
                let touched = self.touched(of, row, site).or(touched);
                self.bind(a, row, site, touched, bindings);
                return self.bind(b, row, site, touched, bindings);
            }
            Pointcut::Or(a, b) => {
                for part in [a, b] {
                    if row.path.is_some_and(|path| self.part(part, row, path)) {
                        self.bind(part, row, site, touched, bindings);
                    }
                }
                return;
            }
            Pointcut::Target(name) => {
                let (Some(level), Some(base)) = (touched, site.base) else { return };
                let outermost = site.path.levels.first().map_or(0, |level| level.start);
                let ahead = i64::from(outermost) - i64::from(level.start);
                let Ok(add) = i32::try_from(i64::from(base.1) + ahead) else { return };
                (name, Cow::Owned(format!("{} *", level.type_)), Place::Register { register: base.0, add })
            }
            Pointcut::Variable { bound, .. } => {
                let Some(located) = self.variable(of, row) else { return };
                (bound, Cow::Borrowed(located.type_), located.place)
            }
            Pointcut::Access { .. } | Pointcut::Function(_) | Pointcut::File(_) | Pointcut::Not(_) => return,
        };
        // Two alternatives that a site matches may give the same name.
        if !bindings.iter().any(|binding| binding.name == name) {
            bindings.push(Binding { name, type_, place });
        }
    }

    /// The structure that the first access() is about which a site matches.
    fn touched(&self, of: &Pointcut, row: &Row, site: &Site<'p>) -> Option<&'p Level> {
        match of {
            Pointcut::Access { structure, member, .. } => {
                let matches = row.path.is_some_and(|path| self.part(of, row, path));
                site.path.level(structure, member).filter(|_| matches)
            }
            Pointcut::And(a, b) | Pointcut::Or(a, b) => {
                self.touched(a, row, site).or_else(|| self.touched(b, row, site))
            }
            _ => None,
        }
    }
}

/// The function that a part of it belongs to.
pub(crate) fn whole(name: &str) -> &str {
    name.split(".cold").next().unwrap_or(name)
}

/// Whether a file's path, or an end of it that begins at a folder, is what the pattern says, in which `%` stands for any
/// characters.
pub fn in_file(pattern: &str, file: &str) -> bool {
    let ends = file.match_indices('/').map(|(at, _)| &file[at + 1..]);
    std::iter::once(file).chain(ends).any(|end| xweave_text::matches(pattern, end))
}
