//! The result: put together from what units say, and asked.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::lines::Lines;
use super::shapes::Made;
use super::units::{Fault, Units};
use super::walk::Found;
use super::{Damage, Definition, Function, Inlined, Live, NameId, Object, REASONS, Reason};
use crate::types::{Type, Types};

/// What DWARF says of code.
#[derive(Default)]
pub struct Debug {
    lives: Vec<Live>,
    /// For each [`BLOCK`] of lives, behind the last address of any in it; and of any in it or before it.
    ends: Vec<(u64, u64)>,
    objects: Vec<Object>,
    functions: Vec<Function>,
    /// By what is called, and by what it is inlined into.
    inlined: Vec<Inlined>,
    names: Names,
    units: Vec<Box<str>>,
    skipped: [u64; REASONS],
    damaged: Vec<Damage>,
    damaged_units: usize,
    pub(super) lines: Lines,
}

/// So many lives are gone over one by one.
const BLOCK: usize = 64;
/// So many units that were left out are told of.
const TOLD: usize = 100;
/// So much text are all names of any program, each once; a file that means harm can have more than it is long.
const NAMES: usize = 1 << 28;

#[derive(Default)]
struct Names {
    text: String,
    /// Where each begins; it ends where the next one begins.
    starts: Vec<usize>,
}

impl Names {
    fn get(&self, id: NameId) -> &str {
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        let Some(start) = self.starts.get(index) else { return "" };
        let end = self.starts.get(index.saturating_add(1)).copied().unwrap_or(self.text.len());
        self.text.get(*start..end).unwrap_or("")
    }

    fn add<'d>(&mut self, known: &mut HashMap<Cow<'d, str>, NameId>, name: Cow<'d, str>) -> NameId {
        if let Some(known) = known.get(&name) {
            return *known;
        }
        let id = NameId(u32::try_from(self.starts.len()).unwrap_or(u32::MAX));
        self.starts.push(self.text.len());
        if self.text.len() + name.len() <= NAMES {
            self.text.push_str(&name);
        }
        known.insert(name, id);
        id
    }
}

impl Debug {
    pub(super) fn new(units: &Units<'_>, found: Vec<Found<'_>>, made: &Made, types: &Types) -> Self {
        let mut debug = Self::default();
        debug.lives.reserve_exact(found.iter().map(|found| found.lives.len()).sum());
        let mut known = HashMap::new();
        // Most of what is inlined is so wherever it is called: nobody asks for that.
        let functions = found.iter().flat_map(|found| &found.functions);
        let entered: HashSet<Definition> = functions.filter_map(|function| function.definition).collect();
        for (number, found) in (0..).zip(found) {
            debug.add(number, found, &mut known, &entered, made, types);
        }
        if let Some(fault) = &units.fault {
            let end = units.headers.last().and_then(|last| {
                let start = last.debug_info_offset()?.0;
                start.checked_add(last.length_including_self())
            });
            debug.damage(end.unwrap_or(0), fault);
        }
        debug.sort();
        // The same one may be described with each function that it is inlined in.
        debug.objects.sort_by_key(|object| (object.address, object.name));
        debug.objects.dedup_by_key(|object| (object.address, object.name));
        debug.functions.sort_by_key(|function| function.from);
        debug.functions.dedup_by_key(|function| function.from);
        debug.inlined.sort_unstable_by_key(|of| (of.definition, of.into));
        debug.inlined.dedup_by_key(|of| (of.definition, of.into));
        debug.inlined.shrink_to_fit();
        debug.lines.sort();
        debug
    }

    fn sort(&mut self) {
        self.lives.par_sort_by_key(|live| live.from);
        let mut end = 0;
        self.ends.extend(self.lives.chunks(BLOCK).map(|block| {
            let here = block.iter().map(|live| live.to).max().unwrap_or(0);
            end = here.max(end);
            (here, end)
        }));
    }

    fn add<'d>(
        &mut self,
        unit: u32,
        found: Found<'d>,
        known: &mut HashMap<Cow<'d, str>, NameId>,
        entered: &HashSet<Definition>,
        made: &Made,
        types: &Types,
    ) {
        self.units.push(found.name.into());
        if let Some(fault) = &found.fault {
            self.damage(found.start, fault);
        }
        for (all, skipped) in self.skipped.iter_mut().zip(found.skipped) {
            *all += skipped;
        }
        let names: Vec<_> = found.names.into_iter().map(|name| self.names.add(known, name)).collect();
        let name = |number: u32| {
            let index = usize::try_from(number).unwrap_or(usize::MAX);
            names.get(index).copied().unwrap_or(NameId(u32::MAX))
        };
        self.lives.extend(found.lives.iter().map(|live| Live {
            from: live.from,
            to: live.to,
            place: live.place,
            type_: made.get(live.type_),
            spelling: name(live.spelling),
            name: name(live.name),
            depth: live.depth,
            parameter: live.parameter,
        }));
        self.objects.extend(found.objects.iter().map(|(address, type_, number)| Object {
            address: *address,
            type_: made.get(*type_),
            name: name(*number),
        }));
        for function in &found.functions {
            let Type::Function(proto) = types.get(made.get(function.proto)) else { continue };
            let (from, to, exact) = (function.from, function.to, function.exact);
            let (name, definition) = (name(function.name), function.definition);
            self.functions.push(Function { name, definition, proto, exact, from, to, unit });
        }
        self.inlined.extend(found.inlined.iter().filter(|of| entered.contains(&of.definition)));
        self.lines.add(found.lines, found.folder, &found.code);
    }

    fn damage(&mut self, unit: usize, fault: &Fault) {
        self.damaged_units += 1;
        if self.damaged.len() < TOLD {
            let unit = u64::try_from(unit).unwrap_or(u64::MAX);
            self.damaged.push(Damage { unit, section: fault.section, reason: fault.flaw });
        }
    }

    /// All places of variables and parameters, of inlined functions too, by their first addresses. A variable
    /// with a fixed address is an object instead.
    pub fn lives(&self) -> &[Live] {
        &self.lives
    }

    /// Those that overlap `lo..hi`.
    pub fn lives_in(&self, lo: u64, hi: u64) -> impl Iterator<Item = &Live> {
        let first = self.ends.partition_point(|(_, all)| *all <= lo);
        let blocks = self.lives.chunks(BLOCK).zip(&self.ends).skip(first);
        blocks
            .take_while(move |(block, _)| block.first().is_some_and(|live| live.from < hi))
            .filter(move |(_, (here, _))| lo < *here)
            .flat_map(|(block, _)| block)
            .filter(move |live| live.from < hi && lo < live.to)
    }

    /// Static and global variables with addresses, by these.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// All functions with code of their own, by where they are entered.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The calls of a function that are inlined, by where the functions are entered that its code is in. None of a
    /// function that has no code of its own besides.
    pub fn inlined(&self, definition: Definition) -> &[Inlined] {
        let first = self.inlined.partition_point(|of| of.definition < definition);
        let of_it = self.inlined[first..].partition_point(|of| of.definition == definition);
        &self.inlined[first..first + of_it]
    }

    /// The function that is entered at this address.
    pub fn function(&self, address: u64) -> Option<&Function> {
        let at = self.functions.binary_search_by_key(&address, |function| function.from).ok()?;
        self.functions.get(at)
    }

    /// What the name is.
    pub fn name(&self, id: NameId) -> &str {
        self.names.get(id)
    }

    /// The source file that a unit was compiled from.
    pub fn unit(&self, unit: u32) -> Option<&str> {
        self.units.get(usize::try_from(unit).ok()?).map(|name| &**name)
    }

    /// The source file and line that the instruction at this address is of. The first question about a unit
    /// reads its lines.
    pub fn line(&self, address: u64) -> Option<(&str, u32)> {
        self.lines.line(address)
    }

    /// The source file and line of the function that begins at this address.
    pub fn function_line(&self, address: u64) -> Option<(&str, u32)> {
        self.lines.function_line(address)
    }

    /// The addresses of what comes from source files that are wanted, as separate ranges in order. Files are
    /// called as they were when they were compiled, from the folder that the compiler ran in if inside it.
    pub fn within_files(&self, wanted: impl Fn(&str) -> bool + Sync) -> Vec<(u64, u64)> {
        self.lines.within(&wanted)
    }

    /// How many places of variables are not told, by reason.
    pub fn skipped(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.iter().copied().zip(self.skipped)
    }

    /// The first of the units that were left out.
    pub fn damaged(&self) -> &[Damage] {
        &self.damaged
    }

    /// How many units were left out.
    pub fn damaged_units(&self) -> usize {
        self.damaged_units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dwarf::Place;

    #[test]
    fn lives_that_overlap() {
        let mut debug = Debug::default();
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % limit
        };
        debug.lives.extend((0..1000).map(|_| {
            let from = below(100_000);
            // A few are long.
            let length = if below(50) == 0 { below(50_000) } else { below(100) };
            let (place, type_, name) = (Place::Value(0), Types::VOID, NameId(0));
            Live { from, to: from + length, place, type_, spelling: name, name, depth: 0, parameter: false }
        }));
        debug.sort();
        for _ in 0..300 {
            let (lo, length) = (below(160_000), below(300));
            let expected = debug.lives.iter().filter(|live| live.from < lo + length && lo < live.to);
            assert!(debug.lives_in(lo, lo + length).eq(expected), "{lo} {length}");
        }
        assert_eq!(
            debug.lives_in(0, u64::MAX).count(),
            debug.lives.iter().filter(|live| live.to > 0).count()
        );
        assert_eq!(debug.name(NameId(7)), "");
    }
}
