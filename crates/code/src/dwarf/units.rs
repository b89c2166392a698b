//! The units of `.debug_info`, each with its abbreviations, and what their first entries say.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use gimli::{AttributeValue, EndianSlice, LittleEndian, SectionId};

pub(super) type Bytes<'d> = EndianSlice<'d, LittleEndian>;
pub(super) type Value<'d> = AttributeValue<Bytes<'d>>;
pub(super) type Header<'d> = gimli::UnitHeader<Bytes<'d>>;

/// What is wrong with a debug section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The file does not have it.
    #[error("there is none")]
    Missing,
    /// It is there, and empty.
    #[error("there are no units")]
    NoUnits,
    /// There are more units than any program has.
    #[error("too many units")]
    ManyUnits,
    /// A unit is of another machine.
    #[error("addresses of other than 64 bits")]
    Addresses,
    /// A unit is in another file.
    #[error("split DWARF: what it describes is in a .dwo file")]
    Split,
    /// A reference leads to no entry.
    #[error("a reference leads to no entry")]
    Dangling,
    /// Entries lead to each other in circles, or in more ways than there is time for.
    #[error("entries that refer to each other without end")]
    Circles,
    /// Types have more entries than there is time for.
    #[error("types without end")]
    Types,
    /// Blocks lie too deep in each other.
    #[error("code that nests too deep")]
    Deep,
    /// Lists of ranges tell of more than they have bytes for.
    #[error("more ranges than the file has room for")]
    Ranges,
    /// Lists of locations tell of more than they have bytes for.
    #[error("more locations than it has room for")]
    Locations,
    /// It is no DWARF.
    #[error("{0}")]
    Malformed(#[from] gimli::Error),
}

/// Why a unit cannot be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) section: &'static str,
    pub(super) flaw: Flaw,
}

impl Fault {
    pub(super) fn new(section: &'static str, flaw: impl Into<Flaw>) -> Self {
        Self { section, flaw: flaw.into() }
    }

    /// A reference leads to no entry.
    pub(super) fn dangling() -> Self {
        Flaw::Dangling.into()
    }

    /// For `map_err`.
    pub(super) fn within(section: &'static str) -> impl Fn(gimli::Error) -> Self {
        move |error| Self::new(section, error)
    }
}

/// Of `.debug_info`.
impl From<Flaw> for Fault {
    fn from(flaw: Flaw) -> Self {
        Self::new(".debug_info", flaw)
    }
}

impl From<gimli::Error> for Fault {
    fn from(error: gimli::Error) -> Self {
        Flaw::from(error).into()
    }
}

/// A unit with what is needed to read its entries.
pub(super) struct Unit<'d> {
    pub(super) unit: gimli::Unit<Bytes<'d>>,
    /// Where it begins in the section.
    pub(super) start: usize,
    /// Behind its end.
    pub(super) end: usize,
    /// Of its source.
    pub(super) name: &'d str,
    /// That the compiler ran in.
    pub(super) folder: &'d str,
    /// Where its line program is.
    pub(super) lines: Option<usize>,
    /// Where its code is.
    pub(super) code: Code<'d>,
}

/// Where the code of an entry is, as it says so.
#[derive(Clone, Copy, Default)]
pub(super) struct Code<'d> {
    pub(super) low: Option<Value<'d>>,
    pub(super) high: Option<Value<'d>>,
    pub(super) ranges: Option<Value<'d>>,
}

impl<'d> Unit<'d> {
    pub(super) fn encoding(&self) -> gimli::Encoding {
        self.unit.encoding()
    }

    /// Another entry that an attribute refers to, by its offset in the section.
    pub(super) fn reference(&self, value: Value<'d>) -> Option<usize> {
        match value {
            AttributeValue::UnitRef(offset) => self.start.checked_add(offset.0),
            AttributeValue::DebugInfoRef(offset) => Some(offset.0),
            _ => None,
        }
    }
}

/// Goes over a unit's entries.
pub(super) struct Cursor<'u, 'd> {
    pub(super) unit: &'u Unit<'d>,
    pub(super) entries: gimli::EntriesRaw<'u, Bytes<'d>>,
    /// Of the entry where `entries` began.
    base: isize,
}

impl<'u, 'd> Cursor<'u, 'd> {
    /// From this offset in the section on.
    pub(super) fn new(unit: &'u Unit<'d>, at: usize) -> Result<Self, Fault> {
        let offset = at.checked_sub(unit.start).ok_or_else(Fault::dangling)?;
        let entries = unit.unit.entries_raw(Some(gimli::UnitOffset(offset)))?;
        Ok(Self { unit, entries, base: 0 })
    }

    /// Where the next entry is.
    pub(super) fn at(&self) -> usize {
        self.unit.start.saturating_add(self.entries.next_offset().0)
    }

    /// How deep the next entry is below the first.
    pub(super) fn depth(&self) -> isize {
        self.base.saturating_add(self.entries.next_depth())
    }

    /// Begins an entry; none where a list of children ends.
    pub(super) fn next(&mut self) -> Result<Option<&'u gimli::Abbreviation>, Fault> {
        Ok(self.entries.read_abbreviation()?)
    }

    /// Goes over the attributes of the entry.
    pub(super) fn skip(&mut self, abbreviation: &gimli::Abbreviation) -> Result<(), Fault> {
        Ok(self.entries.skip_attributes(abbreviation.attributes())?)
    }

    /// Goes on behind the children of an entry of this depth, if it said where that is.
    pub(super) fn jump(&mut self, sibling: Option<usize>, depth: isize) -> Result<(), Fault> {
        if let Some(to) = sibling.filter(|to| self.at() < *to && *to < self.unit.end) {
            *self = Self { base: depth, ..Self::new(self.unit, to)? };
        }
        Ok(())
    }
}

/// All units of a file.
pub(super) struct Units<'d> {
    pub(super) dwarf: gimli::Dwarf<Bytes<'d>>,
    pub(super) headers: Vec<Header<'d>>,
    /// Where each unit begins.
    starts: Vec<usize>,
    /// Where abbreviations begin, in order. One table reaches to where the next begins, so that reading all
    /// takes no longer than the section is, wherever units that mean harm say that theirs are.
    tables: Vec<usize>,
    /// Those that several units use.
    shared: HashMap<usize, OnceLock<Arc<gimli::Abbreviations>>>,
    /// What stopped the search for units.
    pub(super) fault: Option<Fault>,
}

/// No program has more.
const MAX_UNITS: usize = 1 << 20;
/// Longer names are cut off: scanning for their ends would cost more than the file is long.
const MAX_NAME: usize = 1024;

impl<'d> Units<'d> {
    pub(super) fn new(section: impl Fn(SectionId) -> &'d [u8]) -> Self {
        let load = |id| Ok::<_, gimli::Error>(EndianSlice::new(section(id), LittleEndian));
        let dwarf = gimli::Dwarf::load(load).unwrap_or_default();
        let (mut headers, mut fault) = (Vec::new(), None);
        let mut iterator = dwarf.units();
        loop {
            match iterator.next() {
                Ok(Some(header)) if headers.len() < MAX_UNITS => headers.push(header),
                Ok(None) => break,
                Ok(Some(_)) => {
                    fault = Some(Flaw::ManyUnits.into());
                    break;
                }
                Err(error) => {
                    fault = Some(error.into());
                    break;
                }
            }
        }
        let start = |header: &Header<'d>| header.debug_info_offset().map_or(0, |offset| offset.0);
        let starts = headers.iter().map(start).collect();
        let mut tables: Vec<_> = headers.iter().map(|header| header.debug_abbrev_offset().0).collect();
        tables.sort_unstable();
        let twice = tables.windows(2).filter(|pair| pair[0] == pair[1]);
        let shared = twice.map(|pair| (pair[0], OnceLock::new())).collect();
        tables.dedup();
        Self { dwarf, headers, starts, tables, shared, fault }
    }

    /// Where a unit begins.
    pub(super) fn start(&self, index: usize) -> usize {
        self.starts.get(index).copied().unwrap_or(0)
    }

    /// The number of the unit that has this offset of the section.
    pub(super) fn holding(&self, at: usize) -> Option<usize> {
        let index = self.starts.partition_point(|start| *start <= at).checked_sub(1)?;
        let end = self.starts[index].saturating_add(self.headers[index].length_including_self());
        (at < end).then_some(index)
    }

    fn abbreviations(&self, header: &Header<'d>) -> Result<Arc<gimli::Abbreviations>, Fault> {
        let from = header.debug_abbrev_offset().0;
        let shared = self.shared.get(&from);
        if let Some(known) = shared.and_then(OnceLock::get) {
            return Ok(Arc::clone(known));
        }
        let within = Fault::within(".debug_abbrev");
        let next = self.tables.partition_point(|table| *table <= from);
        let section = gimli::Section::reader(&self.dwarf.debug_abbrev).slice();
        let end = self.tables.get(next).copied().unwrap_or(section.len()).min(section.len());
        let table = gimli::DebugAbbrev::new(&section[..end], LittleEndian);
        let abbreviations = Arc::new(table.abbreviations(header.debug_abbrev_offset()).map_err(within)?);
        if let Some(shared) = shared {
            let _ = shared.set(Arc::clone(&abbreviations));
        }
        Ok(abbreviations)
    }

    /// The unit of this number. gimli's own way would read its line program's header besides.
    pub(super) fn open(&self, index: usize) -> Result<Unit<'d>, Fault> {
        let header = self.headers.get(index).copied().ok_or(gimli::Error::MissingUnitDie)?;
        if header.address_size() != 8 {
            return Err(Flaw::Addresses.into());
        }
        let split = || Flaw::Split.into();
        if matches!(header.type_(), gimli::UnitType::Skeleton(_) | gimli::UnitType::SplitCompilation(_)) {
            return Err(split());
        }
        let (encoding, main) = (header.encoding(), gimli::DwarfFileType::Main);
        let mut unit = gimli::Unit {
            abbreviations: self.abbreviations(&header)?,
            name: None,
            comp_dir: None,
            low_pc: 0,
            str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, main),
            addr_base: gimli::DebugAddrBase(0),
            loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, main),
            rnglists_base: gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, main),
            line_program: None,
            dwo_id: None,
            header,
        };
        let (mut name, mut folder, mut lines, mut code) = (None, None, None, Code::default());
        let root = unit.header.root_offset();
        let mut entries = unit.header.entries_raw(&unit.abbreviations, Some(root))?;
        let first = entries.read_abbreviation()?.ok_or(gimli::Error::MissingUnitDie)?;
        for spec in first.attributes() {
            let value = entries.read_attribute(*spec)?.value();
            match (spec.name(), value) {
                (gimli::DW_AT_name, value) => name = Some(value),
                (gimli::DW_AT_comp_dir, value) => folder = Some(value),
                (gimli::DW_AT_low_pc, value) => code.low = Some(value),
                (gimli::DW_AT_high_pc, value) => code.high = Some(value),
                (gimli::DW_AT_ranges, value) => code.ranges = Some(value),
                (gimli::DW_AT_stmt_list, AttributeValue::DebugLineRef(offset)) => lines = Some(offset.0),
                (_, AttributeValue::DebugStrOffsetsBase(base)) => unit.str_offsets_base = base,
                (_, AttributeValue::DebugAddrBase(base)) => unit.addr_base = base,
                (_, AttributeValue::DebugLocListsBase(base)) => unit.loclists_base = base,
                (_, AttributeValue::DebugRngListsBase(base)) => unit.rnglists_base = base,
                (gimli::DW_AT_GNU_dwo_id | gimli::DW_AT_GNU_dwo_name | gimli::DW_AT_dwo_name, _) => {
                    return Err(split());
                }
                _ => {}
            }
        }
        if let Some(low) = code.low {
            let low = self.dwarf.attr_address(&unit, low).map_err(Fault::within(".debug_addr"))?;
            unit.low_pc = low.unwrap_or(0);
        }
        let start = self.starts[index];
        let end = start.saturating_add(header.length_including_self());
        let mut unit = Unit { unit, start, end, name: "", folder: "", lines, code };
        let text = |value: Option<_>| value.map_or("", |value| self.text(&unit, value));
        (unit.name, unit.folder) = (text(name), text(folder));
        Ok(unit)
    }

    /// A name; empty for what is none.
    pub(super) fn text(&self, unit: &Unit<'d>, value: Value<'d>) -> &'d str {
        let from = |section: Bytes<'d>, offset: usize| section.slice().get(offset..).unwrap_or_default();
        let strings = |offset: usize| from(*gimli::Section::reader(&self.dwarf.debug_str), offset);
        let bytes = match value {
            AttributeValue::String(text) => text.slice(),
            AttributeValue::DebugStrRef(offset) => strings(offset.0),
            AttributeValue::DebugLineStrRef(offset) => {
                from(*gimli::Section::reader(&self.dwarf.debug_line_str), offset.0)
            }
            AttributeValue::DebugStrOffsetsIndex(index) => {
                self.dwarf.string_offset(&unit.unit, index).map_or(&[][..], |offset| strings(offset.0))
            }
            _ => &[],
        };
        let bytes = bytes.get(..MAX_NAME).unwrap_or(bytes);
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..length]).unwrap_or("")
    }

    /// The non-empty ranges of an entry's code, in the order in which they are given; at most `most`.
    pub(super) fn ranges(
        &self,
        unit: &Unit<'d>,
        code: &Code<'d>,
        most: usize,
    ) -> Result<Vec<(u64, u64)>, Fault> {
        let section = if unit.encoding().version < 5 { ".debug_ranges" } else { ".debug_rnglists" };
        let mut ranges = Vec::new();
        if let Some(list) = code.ranges {
            let found = self.dwarf.attr_ranges(&unit.unit, list).map_err(Fault::within(section))?;
            let Some(mut found) = found else { return Ok(ranges) };
            while let Some(range) = found.next().map_err(Fault::within(section))? {
                if ranges.len() == most {
                    return Err(Fault::new(section, Flaw::Ranges));
                }
                if range.begin < range.end {
                    ranges.push((range.begin, range.end));
                }
            }
            return Ok(ranges);
        }
        let address = |value| {
            let found = self.dwarf.attr_address(&unit.unit, value);
            found.map_err(Fault::within(".debug_addr"))
        };
        if let (Some(low), Some(high)) = (code.low, code.high)
            && let Some(low) = address(low)?
        {
            let high = match high.udata_value() {
                Some(length) => low.checked_add(length),
                None => address(high)?,
            };
            ranges.extend(high.filter(|high| low < *high).map(|high| (low, high)));
        }
        Ok(ranges)
    }
}
