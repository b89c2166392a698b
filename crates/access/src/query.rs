//! A pointcut as it is asked of the tables: what an index knows of each atom, in a function and at an instruction.

use std::borrow::Cow;
use std::cell::OnceCell;

use rustc_hash::FxHashMap;
use xweave_aspect::syntax::{Access, FunctionName, How, Ident, Pointcut, Renamed};

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
    /// Each arg().
    arguments: Vec<(*const Pointcut, &'q Renamed)>,
    parameter: Option<Box<Parameter<'q>>>,
    /// The numbers of the names of further variables.
    variables: Vec<u32>,
}

/// What a parameter is called: see [`Query::with_parameters`].
type Parameter<'q> = dyn Fn(&str, Option<&str>, &str) -> Option<String> + 'q;

/// A pointcut in one function.
struct Inside<'a, 'q, M> {
    query: &'a Query<'q, M>,
    function: u32,
    /// For each local_var() and arg() that is a variable of the function: that variable.
    named: FxHashMap<*const Pointcut, Variable<'q>>,
    /// Those of [`Query::with_variables`], by their names.
    others: OnceCell<Vec<(&'q str, Variable<'q>)>>,
}

/// Where a function's variables with one name are, in the order of sites.
struct Variable<'q>(Vec<Located<'q>>);

impl<'q> Variable<'q> {
    /// None if the function has none with a name of this number.
    fn new(tables: &'q Tables, function: u32, name: u32) -> Option<Self> {
        tables.has_variable(function, name).then(|| Self(tables.located(function, name)))
    }

    /// What can be read at a site.
    fn at(&self, site: u32) -> Option<&Located<'q>> {
        let nth = self.0.partition_point(|located| located.first <= site).checked_sub(1)?;
        self.0.get(nth).filter(|located| site < located.end)
    }

    /// The same, called `name`.
    fn binding(&self, name: &'q str, row: &Row) -> Option<Binding<'q>> {
        let &Located { type_, place, .. } = self.at(row.number)?;
        Some(Binding { name, target: false, type_: Cow::Borrowed(type_), place })
    }
}

impl<'q, M: Fn(Option<&Ident>) -> bool> Query<'q, M> {
    /// `meant` tells whether what is written after `@` (or nothing) means the domain that is asked.
    pub(crate) fn new(pointcut: &'q Pointcut, tables: &'q Tables, meant: M) -> Self {
        let (mut paths, mut names, mut arguments) = (FxHashMap::default(), FxHashMap::default(), Vec::new());
        pointcut.atoms(&mut |atom| match atom {
            Pointcut::Access(Access { structure, member, domain, .. }) if meant(domain.as_ref()) => {
                paths.insert(std::ptr::from_ref(atom), tables.touching(structure, member));
            }
            Pointcut::LocalVar(of) => {
                names
                    .extend(tables.name_number(&of.of.text).map(|number| (std::ptr::from_ref(atom), number)));
            }
            Pointcut::Arg(of) => arguments.push((std::ptr::from_ref(atom), of)),
            _ => {}
        });
        let (parameter, variables) = (None, Vec::new());
        Self { pointcut, tables, meant, paths, names, arguments, parameter, variables }
    }

    /// Binds variables with these names as well, by their own names, where the pointcut gives those to nothing else.
    #[must_use]
    pub fn with_variables(mut self, names: impl IntoIterator<Item = &'q str>) -> Self {
        self.variables.extend(names.into_iter().filter_map(|name| self.tables.name_number(name)));
        self
    }

    /// Answers arg(), which is not the index's to say otherwise: `parameter` tells by a function's name, its module (as
    /// of [`Site::module`]) and a parameter's name, or number from 0, what that parameter is called.
    #[must_use]
    pub fn with_parameters(
        mut self,
        parameter: impl Fn(&str, Option<&str>, &str) -> Option<String> + 'q,
    ) -> Self {
        self.parameter = Some(Box::new(parameter));
        self
    }

    /// The instructions that the pointcut selects, as [`Query::each`] visits them.
    pub fn sites(&self) -> Vec<Site<'q>> {
        let mut sites = Vec::new();
        self.each(|site, _| sites.push(site));
        sites
    }

    /// Visits the instructions that the pointcut selects, in the order of addresses within the image: those included
    /// of which it is not the index's to say. What is given besides tells of an atom whether it selects the
    /// instruction; none where that is not known before the instruction is executed, and of arg() without
    /// [`Query::with_parameters`].
    pub fn each(&self, mut visit: impl FnMut(Site<'q>, &dyn Fn(&Pointcut) -> Option<bool>)) {
        let candidates = self.candidates();
        let mut left = &candidates[..];
        while let Some(site) = left.first() {
            let Some(function) = self.tables.function_of(*site) else { break };
            let end = self.tables.sites_of(function).end;
            let (here, others) = left.split_at(left.partition_point(|site| *site < end));
            left = others;
            if self.in_function(function) == Some(false) {
                continue;
            }
            let inside = self.inside(function);
            for row in here.iter().filter_map(|site| self.tables.row(*site)) {
                let Some(path) = row.path else { continue };
                let decides = |atom: &Pointcut| inside.decides(atom, &row, path);
                if self.pointcut.decide(&decides) != Some(false)
                    && let Some(mut site) = self.tables.site(function, &row)
                {
                    site.touched = inside.touched(self.pointcut, &row, &site);
                    inside.bind(self.pointcut, &row, None, &mut site);
                    inside.bind_others(&row, &mut site);
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
            for site in self.tables.sites_of(function).filter_map(|site| self.tables.row(site)) {
                let Some(reason) = site.reason else { continue };
                let address = self.tables.address(function).wrapping_add(site.offset.into());
                unresolved.push(Unresolved { function: name, offset: site.offset, address, reason });
            }
        }
        unresolved
    }

    /// The sites with an access path that the pointcut may select, in order.
    fn candidates(&self) -> Vec<u32> {
        let may_select = |path: &u32| {
            let decides = |atom: &Pointcut| {
                let paths = self.paths.get(&std::ptr::from_ref(atom))?;
                if paths.get(to_usize(*path)) == Some(&true) { None } else { Some(false) }
            };
            self.pointcut.decide(&decides) != Some(false)
        };
        let paths = (0..self.tables.paths()).filter(may_select);
        let mut sites: Vec<u32> = paths.flat_map(|path| self.tables.sites_with(path)).collect();
        sites.sort_unstable();
        sites
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
                let is_named = |name: &FunctionName| {
                    name.patterns().any(|pattern| xweave_text::matches(pattern, function))
                };
                Some(self.any(names, is_named))
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
        let variable = |name| Variable::new(self.tables, function, name);
        let local = self.names.iter().filter_map(|(atom, name)| Some((*atom, variable(*name)?)));
        let argument = |(atom, of): &(*const Pointcut, &Renamed)| {
            let called = self.parameter(function, &of.of.text)?;
            Some((*atom, variable(self.tables.name_number(&called)?)?))
        };
        let named = local.chain(self.arguments.iter().filter_map(argument)).collect();
        Inside { query: self, function, named, others: OnceCell::new() }
    }

    fn parameter(&self, function: u32, of: &str) -> Option<String> {
        let parameter = self.parameter.as_ref()?;
        parameter(whole(self.tables.name(function)), self.tables.module(function), of)
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
            Pointcut::LocalVar(_) => Some(self.named(atom).is_some_and(|of| of.at(row.number).is_some())),
            Pointcut::Arg(_) if self.query.parameter.is_some() => Some(self.named(atom).is_some()),
            other => self.query.function_decides(other, self.function),
        }
    }

    /// The variable that a local_var() or arg() names.
    fn named(&self, atom: &Pointcut) -> Option<&Variable<'q>> {
        self.named.get(&std::ptr::from_ref(atom))
    }

    /// Whether a part may select the site.
    fn selects(&self, part: &Pointcut, row: &Row) -> bool {
        row.path.is_some_and(|path| part.decide(&|atom| self.decides(atom, row, path)) != Some(false))
    }

    /// Gives the site what a part gives names to. `touched` is what an access() beside it is about.
    fn bind(&self, of: &'q Pointcut, row: &Row, touched: Option<&'q Level>, site: &mut Site<'q>) {
        match of {
            Pointcut::And(parts) => {
                let touched = self.touched(of, row, site).or(touched);
                parts.iter().for_each(|part| self.bind(part, row, touched, site));
            }
            Pointcut::Or(parts) => {
                let parts = parts.iter().filter(|part| self.selects(part, row));
                parts.for_each(|part| self.bind(part, row, touched, site));
            }
            Pointcut::Target(name) => {
                let Some((level, (register, add))) = touched.and_then(|of| Some((of, site.address_of(of)?)))
                else {
                    return;
                };
                let (type_, place) = (format!("{} *", level.type_).into(), Place::Register { register, add });
                give(site, &name.text, |name| Some(Binding { name, target: true, type_, place }));
            }
            Pointcut::LocalVar(renamed) | Pointcut::Arg(renamed) => {
                let Some(variable) = self.named(of) else { return };
                give(site, &renamed.given().text, |name| variable.binding(name, row));
            }
            _ => {}
        }
    }

    /// The same for the variables of [`Query::with_variables`].
    fn bind_others(&self, row: &Row, site: &mut Site<'q>) {
        let Query { tables, variables, .. } = self.query;
        let others = self.others.get_or_init(|| {
            let other =
                |name: &u32| Some((tables.name_of(*name)?, Variable::new(tables, self.function, *name)?));
            variables.iter().filter_map(other).collect()
        });
        for (name, variable) in others {
            give(site, name, |name| variable.binding(name, row));
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

/// Gives a name at a site to what `binding` finds. Two alternatives that the site matches may give the same name: the
/// first does.
fn give<'q>(site: &mut Site<'q>, name: &'q str, binding: impl FnOnce(&'q str) -> Option<Binding<'q>>) {
    if site.bindings.iter().any(|binding| binding.name == name) || site.unreadable.contains(&name) {
        return;
    }
    match binding(name) {
        Some(binding) => site.bindings.push(binding),
        None => site.unreadable.push(name),
    }
}

/// Whether a file's path, or an end of it that begins at a folder, is what the pattern says, in which `%` stands for any
/// characters.
pub fn in_file(pattern: &str, file: &str) -> bool {
    let ends = file.match_indices('/').map(|(at, _)| &file[at + 1..]);
    std::iter::once(file).chain(ends).any(|end| xweave_text::matches(pattern, end))
}
