//! What weaving asks of an index besides the join points of pointcuts.

use crate::index::Index;
use crate::site::{InlinedCalls, Site};

impl Index {
    /// The numbers of the instructions that have always touched the same structure (by the same pointer)
    /// before this one does: the nearest first.
    pub fn earlier(&self, site: &Site<'_>) -> impl Iterator<Item = u32> {
        // Each comes before the other: in a damaged file they may not.
        let next = |number: &u32| self.tables.earlier(*number).filter(|earlier| earlier != number);
        std::iter::successors(next(&site.number), next).take(MOST)
    }

    /// The names of all functions, those of parts and those that several have included.
    pub fn function_names(&self) -> impl Iterator<Item = &str> {
        (0..self.tables.functions()).map(|function| self.tables.name(function))
    }

    /// A function of the kernel's image that begins before a site, mostly the nearest, of which `wanted` says so;
    /// and how far the site is from its beginning, in bytes.
    pub fn before(&self, site: &Site<'_>, wanted: impl Fn(&str) -> bool) -> Option<(&str, u64)> {
        let tables = &self.tables;
        (0..site.function_number).rev().find_map(|function| {
            let name = tables.name(function);
            let distance = site.address.checked_sub(tables.address(function))?;
            (tables.module(function).is_none() && wanted(name)).then_some((name, distance))
        })
    }

    /// The source file that a site's function is from, where there is debug information.
    pub fn file_of(&self, site: &Site<'_>) -> Option<&str> {
        self.tables.file(site.function_number)
    }

    /// The source file that a function with this name is from, where there is debug information: of the first one
    /// whose module, as of [`Site::module`], is the one that is meant.
    pub fn file_of_function(&self, name: &str, meant: impl Fn(Option<&str>) -> bool) -> Option<&str> {
        self.tables.file(self.function(name, meant)?)
    }

    /// The source file and line at which such a function begins, where there is debug information.
    pub fn line_of_function(&self, name: &str, meant: impl Fn(Option<&str>) -> bool) -> Option<(&str, u32)> {
        self.tables.line(self.function(name, meant)?)
    }

    /// The calls of such a function that are inlined, where there is debug information; those in code that runs only
    /// while a kernel boots or a module is loaded are not counted.
    pub fn inlined(&self, name: &str, meant: impl Fn(Option<&str>) -> bool) -> Option<InlinedCalls<'_>> {
        self.tables.inlined(self.function(name, meant)?)
    }

    fn function(&self, name: &str, meant: impl Fn(Option<&str>) -> bool) -> Option<u32> {
        self.tables.functions_named(name).find(|function| meant(self.tables.module(*function)))
    }
}

/// No function has so many instructions that touch one structure.
const MOST: usize = 1 << 16;
