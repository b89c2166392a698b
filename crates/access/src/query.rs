//! A pointcut as it is asked of the tables: what an index knows of each atom, in a function and at an instruction.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use xweave_aspect::syntax::{Access, FunctionName, How, Ident, Pointcut};

use crate::access_path::Level;
use crate::cfg::to_usize;
use crate::file::{Located, Row, Tables};
use crate::site::{Binding, Place, Site, Unresolved, whole};

/// A pointcut asked of an index. Its atoms are known by where they lie in memory.
pub struct Query<'q, M> {
    pointcut: &'q Pointcut,
    tables: &'q Tables,
    /// Whether a name of a domain, or none, is this one's.
    meant: M,
    /// For each access() of this domain: for each access path whether it is one.
    paths: FxHashMap<*const Pointcut, Vec<bool>>,
    /// For each local_var() with a name that some variable has: that name's number.
    names: FxHashMap<*const Pointcut, u32>,
}

/// A pointcut in one function.
struct Inside<'a, 'q, M> {
    query: &'a Query<'q, M>,
    function: u32,
    /// For each local_var(): where the variable is.
    located: FxHashMap<*const Pointcut, Vec<Located<'q>>>,
}

impl<'q, M: Fn(Option<&Ident>) -> bool> Query<'q, M> {
    /// `meant` tells whether what is written after `@` (or nothing) means the domain that is asked.
    pub(crate) fn new(pointcut: &'q Pointcut, tables: &'q Tables, meant: M) -> Self {
        let (mut paths, mut names) = (FxHashMap::default(), FxHashMap::default());
        pointcut.atoms(&mut |atom| match atom {
            Pointcut::Access(Access { structure, member, domain, .. }) if meant(domain.as_ref()) => {
                let matching = tables.paths().iter().map(|path| path.touches(structure, member)).collect();
                paths.insert(std::ptr::from_ref(atom), matching);
            }
            Pointcut::LocalVar(of) => {
                names
                    .extend(tables.name_number(&of.of.text).map(|number| (std::ptr::from_ref(atom), number)));
            }
            _ => {}
        });
        Self { pointcut, tables, meant, paths, names }
    }

    /// The instructions that the pointcut selects, as [`Query::each`] visits them.
    pub fn sites(&self) -> Vec<Site<'q>> {
        let mut sites = Vec::new();
        self.each(|site, _| sites.push(site));
        sites
    }

    /// Visits the instructions that the pointcut selects, in the order of addresses within the image: those included
    /// of which it is not the index's to say. What is given besides tells of an atom whether it selects the
    /// instruction; none where that is what the index does not know: what an argument is called, and what is known
    /// only when the instruction is executed.
    pub fn each(&self, mut visit: impl FnMut(Site<'q>, &dyn Fn(&Pointcut) -> Option<bool>)) {
        for function in 0..self.tables.functions() {
            if self.in_function(function) == Some(false) {
                continue;
            }
            let inside = self.inside(function);
            for row in self.tables.sites_of(function) {
                let Some(path) = row.path else { continue };
                let decides = |atom: &Pointcut| inside.decides(atom, &row, path);
                if self.pointcut.decide(&decides) != Some(false)
                    && let Some(mut site) = self.tables.site(function, &row)
                {
                    site.touched = inside.touched(self.pointcut, &row, &site);
                    inside.bind(self.pointcut, &row, None, &mut site);
                    visit(site, &decides);
                }
            }
        }
    }

    /// Instructions of which it is not known what they touch, in functions that the pointcut allows.
    pub fn unresolved(&self) -> Vec<Unresolved<'q>> {
        let mut unresolved = Vec::new();
        for function in 0..self.tables.functions() {
            if self.in_function(function) == Some(false) {
                continue;
            }
            let name = self.tables.name(function);
            for site in self.tables.sites_of(function) {
                let Some(reason) = site.reason else { continue };
                let address = self.tables.address(function).wrapping_add(site.offset.into());
                unresolved.push(Unresolved { function: name, offset: site.offset, address, reason });
            }
        }
        unresolved
    }

    /// Whether sites of a function are selected by their function alone; none if that depends.
    fn in_function(&self, function: u32) -> Option<bool> {
        self.pointcut.decide(&|atom| self.function_decides(atom, function))
    }

    fn function_decides(&self, atom: &Pointcut, function: u32) -> Option<bool> {
        let key = &std::ptr::from_ref(atom);
        match atom {
            Pointcut::Access(_) if self.paths.contains_key(key) => None,
            Pointcut::LocalVar(_) => {
                let number = self.names.get(key);
                let there = number.is_some_and(|number| self.tables.has_variable(function, *number));
                if there { None } else { Some(false) }
            }
            Pointcut::WithinFunction(names) => {
                let function = whole(self.tables.name(function));
                Some(self.any(names, |name| xweave_text::matches(&name.pattern, function)))
            }
            Pointcut::WithinFile(names) => {
                let file = self.tables.file(function);
                Some(file.is_some_and(|file| self.any(names, |name| in_file(&name.path(), file))))
            }
            Pointcut::Access(_)
            | Pointcut::Execution(_)
            | Pointcut::Returning(_)
            | Pointcut::Tracepoint(_)
            | Pointcut::User(_) => Some(false),
            _ => None,
        }
    }

    /// Whether one of these names is this domain's and fits.
    fn any(&self, names: &[FunctionName], fits: impl Fn(&FunctionName) -> bool) -> bool {
        names.iter().any(|name| (self.meant)(name.domain.as_ref()) && fits(name))
    }

    fn inside(&self, function: u32) -> Inside<'_, 'q, M> {
        let located = self.names.iter().map(|(atom, name)| (*atom, self.tables.located(function, *name)));
        Inside { query: self, function, located: located.collect() }
    }
}

impl<'q, M: Fn(Option<&Ident>) -> bool> Inside<'_, 'q, M> {
    /// Whether an atom selects a site with this access path, as of [`Query::each`].
    fn decides(&self, atom: &Pointcut, row: &Row, path: u32) -> Option<bool> {
        match atom {
            Pointcut::Access(Access { how, .. }) => {
                let wanted = match how {
                    None => true,
                    Some(How::Read) => row.reads,
                    Some(How::Write) => row.writes,
                };
                let paths = self.query.paths.get(&std::ptr::from_ref(atom));
                Some(wanted && paths.and_then(|paths| paths.get(to_usize(path))).copied().unwrap_or(false))
            }
            Pointcut::Target(_) => Some(row.base.is_some()),
            Pointcut::LocalVar(_) => Some(self.variable(atom, row).is_some()),
            other => self.query.function_decides(other, self.function),
        }
    }

    fn variable(&self, atom: &Pointcut, row: &Row) -> Option<&Located<'q>> {
        let located = self.located.get(&std::ptr::from_ref(atom))?;
        let nth = located.partition_point(|located| located.first <= row.number).checked_sub(1)?;
        located.get(nth).filter(|located| row.number < located.end)
    }

    /// Whether a part may select the site.
    fn selects(&self, part: &Pointcut, row: &Row) -> bool {
        row.path.is_some_and(|path| part.decide(&|atom| self.decides(atom, row, path)) != Some(false))
    }

    /// Gives the site what a part gives names to. `touched` is what an access() beside it is about.
    fn bind(&self, of: &'q Pointcut, row: &Row, touched: Option<&'q Level>, site: &mut Site<'q>) {
        let (name, type_, place) = match of {
            Pointcut::And(parts) => {
                let touched = self.touched(of, row, site).or(touched);
                return parts.iter().for_each(|part| self.bind(part, row, touched, site));
            }
            Pointcut::Or(parts) => {
                let parts = parts.iter().filter(|part| self.selects(part, row));
                return parts.for_each(|part| self.bind(part, row, touched, site));
            }
            Pointcut::Target(name) => {
                let Some((level, (register, add))) = touched.and_then(|of| Some((of, site.address_of(of)?)))
                else {
                    return;
                };
                (name, Cow::Owned(format!("{} *", level.type_)), Place::Register { register, add })
            }
            Pointcut::LocalVar(renamed) => {
                let Some(located) = self.variable(of, row) else { return };
                (renamed.given(), Cow::Borrowed(located.type_), located.place)
            }
            _ => return,
        };
        // Two alternatives that a site matches may give the same name.
        if !site.bindings.iter().any(|binding| binding.name == name.text) {
            site.bindings.push(Binding { name: &name.text, type_, place });
        }
    }

    /// The structure that the first access() is about which selects a site.
    fn touched(&self, of: &Pointcut, row: &Row, site: &Site<'q>) -> Option<&'q Level> {
        match of {
            Pointcut::Access(Access { structure, member, .. }) => {
                site.path.level(structure, member).filter(|_| self.selects(of, row))
            }
            Pointcut::And(parts) | Pointcut::Or(parts) => {
                parts.iter().find_map(|part| self.touched(part, row, site))
            }
            _ => None,
        }
    }
}

/// Whether a file's path, or an end of it that begins at a folder, is what the pattern says, in which `%` stands for any
/// characters.
pub fn in_file(pattern: &str, file: &str) -> bool {
    let ends = file.match_indices('/').map(|(at, _)| &file[at + 1..]);
    std::iter::once(file).chain(ends).any(|end| xweave_text::matches(pattern, end))
}
