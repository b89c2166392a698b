//! The path from a structure to some bytes in it, in words.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use xweave_code::types::{Leaf, RecordId, Step, Tag, TypeId, Types, Visit};

/// A structure or union around the bytes that an instruction touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// `struct sk_buff`, `union x`, or the name of a typedef for an unnamed one.
    pub type_: Arc<str>,
    /// The first byte that is touched.
    pub start: u32,
    /// Behind the last.
    pub end: u32,
    /// It lies over what is declared there, by a convention (`TCP_SKB_CB`): possible, never certain.
    pub overlay: bool,
    /// The names of members from here to the bytes, with dots between; several where members overlap.
    /// Empty if the whole of it is meant.
    pub members: Vec<Arc<str>>,
}

impl Level {
    /// Its name without `struct` or `union`.
    pub fn name(&self) -> &str {
        without_tag(&self.type_)
    }
}

/// A type's name without `struct` or `union`.
pub(crate) fn without_tag(type_: &str) -> &str {
    type_.strip_prefix("struct ").or_else(|| type_.strip_prefix("union ")).unwrap_or(type_)
}

/// Whether this member of this structure (`%` stands for anything), or something in it, is touched at a level with
/// this name and these members: `sock.__sk_common` is by what touches `sock_common.skc_family` in a `sock`.
pub(crate) fn is_touched<'p, P: Iterator<Item = &'p str>>(
    structure: &str,
    member: &str,
    name: &str,
    members: impl FnOnce() -> P,
) -> bool {
    let matches = xweave_text::matches;
    let below = |path| member_and_around(path).any(|beginning| matches(member, beginning));
    matches(structure, name) && (member == "%" || members().any(below))
}

/// A member's path and those of the members around it: `a.b` is in `a`.
pub(crate) fn member_and_around(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('.').map(|(at, _)| &path[..at]).chain([path])
}

/// What an instruction touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessPath {
    /// Every named structure and union around the bytes, the outermost first. Members of a union that
    /// overlap are all there.
    pub levels: Vec<Level>,
}

impl AccessPath {
    /// The outermost structure's name.
    pub fn structure(&self) -> &str {
        self.levels.first().map_or("", Level::name)
    }

    /// The member of it that is touched: the first of those that overlap.
    pub fn member(&self) -> &str {
        self.levels.first().and_then(|level| level.members.first()).map_or("", |member| member)
    }

    /// The outermost level at which this member of this structure (`%` stands for anything), or something in it, is
    /// touched.
    pub fn level(&self, structure: &str, member: &str) -> Option<&Level> {
        let touched = |level: &&Level| {
            is_touched(structure, member, level.name(), || level.members.iter().map(|path| &**path))
        };
        self.levels.iter().find(touched)
    }
}

/// Access paths that were asked for, each once.
#[derive(Default)]
pub(crate) struct AccessPaths {
    known: FxHashMap<Key, u32>,
    pub(crate) paths: Vec<AccessPath>,
}

/// So many bytes there in something of this type, and what is laid over it, and where in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) of: TypeId,
    pub(crate) at: u32,
    pub(crate) size: u32,
    pub(crate) overlay: Option<(TypeId, u32)>,
}

impl AccessPaths {
    /// The number of a path; none if there is no named structure around the bytes.
    pub(crate) fn number(&mut self, types: &Types, key: Key) -> Option<u32> {
        let Self { known, paths } = self;
        let number = *known.entry(key).or_insert_with(|| match find(types, key) {
            Some(path) => {
                paths.push(path);
                crate::cfg::to_u32(paths.len() - 1)
            }
            None => u32::MAX,
        });
        (number != u32::MAX).then_some(number)
    }
}

/// How many overlapping members are told: a union has no more that a person would name.
const OVERLAPPING: usize = 16;

fn find(types: &Types, key: Key) -> Option<AccessPath> {
    let mut levels = walk(types, key.of, key.at, key.size, false);
    if levels.is_empty() {
        return None;
    }
    if let Some((of, at)) = key.overlay {
        levels.extend(walk(types, of, at, key.size, true));
    }
    Some(AccessPath { levels })
}

fn walk(types: &Types, of: TypeId, at: u32, size: u32, overlay: bool) -> Vec<Level> {
    let whole = types.size(of);
    // What goes over the end of the structure, an access of several words at once does.
    let size = if at < whole { size.min(whole - at) } else { size };
    let mut walk = Walk { types, overlay, levels: Vec::new(), known: Vec::new(), open: Vec::new() };
    types.walk(of, at, size, &mut walk);
    walk.levels
}

/// `struct sk_buff`, `union x`, `atomic_t`
fn name(types: &Types, record: RecordId) -> Arc<str> {
    let record = types.record(record);
    match record.tag {
        Tag::Struct => format!("struct {}", record.name).into(),
        Tag::Union => format!("union {}", record.name).into(),
        _ => (&*record.name).into(),
    }
}

struct Walk<'t> {
    types: &'t Types,
    overlay: bool,
    levels: Vec<Level>,
    /// Which structures the levels are, and where in them.
    known: Vec<(RecordId, u32)>,
    /// Each structure around, its level, and the member of it that is being walked.
    open: Vec<(Option<usize>, Option<Step>)>,
}

impl Visit for Walk<'_> {
    fn enter(&mut self, record: RecordId, start: u32, end: u32) {
        let named = self.types.record(record).tag.named();
        let level = named.then(|| {
            self.known.iter().position(|known| *known == (record, start)).unwrap_or_else(|| {
                let (type_, overlay) = (name(self.types, record), self.overlay);
                self.known.push((record, start));
                self.levels.push(Level { type_, start, end, overlay, members: Vec::new() });
                self.levels.len() - 1
            })
        });
        self.open.push((level, None));
    }

    fn member(&mut self, step: Step) {
        if let Some((_, member)) = self.open.last_mut() {
            *member = Some(step);
        }
    }

    fn leaf(&mut self, _: Leaf) {
        // From the inside out, so that each level's path is what is known so far.
        let mut path = String::new();
        for (level, step) in self.open.iter().rev() {
            let member = step.and_then(|step| {
                let members = &self.types.record(step.record).members;
                members.get(usize::try_from(step.member).ok()?)
            });
            if let Some(member) = member.filter(|member| !member.name.is_empty()) {
                path =
                    if path.is_empty() { member.name.to_string() } else { format!("{}.{path}", member.name) };
            }
            if let Some(level) = level.and_then(|level| self.levels.get_mut(level))
                && !path.is_empty()
                && level.members.len() < OVERLAPPING
                && !level.members.iter().any(|known| **known == *path)
            {
                level.members.push(path.as_str().into());
            }
        }
    }

    fn leave(&mut self, _: RecordId) {
        self.open.pop();
    }
}
