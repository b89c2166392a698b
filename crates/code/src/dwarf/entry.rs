//! One entry's attributes, as far as any of them matters here.

use gimli::AttributeValue;

use super::units::{Bytes, Code, Cursor, Fault, Flaw, Unit, Units, Value};

/// An entry that describes code or data.
#[derive(Default)]
pub(super) struct Entry<'d> {
    pub(super) name: Option<Value<'d>>,
    pub(super) linkage_name: Option<Value<'d>>,
    pub(super) type_: Option<usize>,
    /// The abstract instance, or the declaration, that the rest is said of.
    pub(super) origin: Option<usize>,
    /// It is an instance of that, not its definition.
    pub(super) instance: bool,
    pub(super) location: Option<Value<'d>>,
    pub(super) constant: Option<Value<'d>>,
    pub(super) frame_base: Option<gimli::Expression<Bytes<'d>>>,
    pub(super) code: Code<'d>,
    pub(super) entry: Option<Value<'d>>,
    /// Its convention is none that a debugger could call it by: its parameters are not the declared ones.
    pub(super) no_call: bool,
}

impl<'d> Entry<'d> {
    pub(super) fn read(
        cursor: &mut Cursor<'_, 'd>,
        abbreviation: &gimli::Abbreviation,
    ) -> Result<Self, Fault> {
        let (unit, entries) = (cursor.unit, &mut cursor.entries);
        let mut entry = Self::default();
        for spec in abbreviation.attributes() {
            let place = match spec.name() {
                gimli::DW_AT_name => &mut entry.name,
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => &mut entry.linkage_name,
                gimli::DW_AT_location => &mut entry.location,
                gimli::DW_AT_const_value => &mut entry.constant,
                gimli::DW_AT_low_pc => &mut entry.code.low,
                gimli::DW_AT_high_pc => &mut entry.code.high,
                gimli::DW_AT_ranges => &mut entry.code.ranges,
                gimli::DW_AT_entry_pc => &mut entry.entry,
                gimli::DW_AT_type => {
                    entry.type_ = unit.reference(entries.read_attribute(*spec)?.value());
                    continue;
                }
                name @ (gimli::DW_AT_abstract_origin | gimli::DW_AT_specification) => {
                    entry.instance |= name == gimli::DW_AT_abstract_origin;
                    entry.origin = unit.reference(entries.read_attribute(*spec)?.value());
                    continue;
                }
                gimli::DW_AT_frame_base => {
                    entry.frame_base = entries.read_attribute(*spec)?.value().exprloc_value();
                    continue;
                }
                gimli::DW_AT_calling_convention => {
                    let value = entries.read_attribute(*spec)?.value();
                    entry.no_call = matches!(value, AttributeValue::CallingConvention(gimli::DW_CC_nocall));
                    continue;
                }
                _ => {
                    entries.skip_attributes(std::slice::from_ref(spec))?;
                    continue;
                }
            };
            *place = Some(entries.read_attribute(*spec)?.value());
        }
        Ok(entry)
    }
}

/// An entry that describes a type, or a part of one.
#[derive(Clone)]
pub(super) struct TypeEntry<'d> {
    pub(super) at: usize,
    pub(super) tag: gimli::DwTag,
    pub(super) name: &'d str,
    pub(super) type_: Option<usize>,
    pub(super) size: Option<u64>,
    /// Declared only; or, of a member, static.
    pub(super) declaration: bool,
    /// Of a member, in bytes.
    pub(super) offset: u64,
    pub(super) bit_size: u64,
    /// From the beginning of the record.
    pub(super) data_bit_offset: Option<u64>,
    /// From the storage unit's end: DWARF 2 to 4.
    pub(super) bit_offset: Option<u64>,
    /// Of a number: it is no floating point number.
    pub(super) whole: bool,
    /// Of an array's dimension; none if not known.
    pub(super) count: Option<u64>,
}

impl<'d> TypeEntry<'d> {
    pub(super) fn new(at: usize, tag: gimli::DwTag) -> Self {
        Self {
            at,
            tag,
            name: "",
            type_: None,
            size: None,
            declaration: false,
            offset: 0,
            bit_size: 0,
            data_bit_offset: None,
            bit_offset: None,
            whole: true,
            count: None,
        }
    }

    fn read(
        units: &Units<'d>,
        at: usize,
        cursor: &mut Cursor<'_, 'd>,
        abbreviation: &gimli::Abbreviation,
    ) -> Result<(Self, Option<usize>), Fault> {
        let (unit, entries) = (cursor.unit, &mut cursor.entries);
        let mut entry = Self::new(at, abbreviation.tag());
        let mut sibling = None;
        for spec in abbreviation.attributes() {
            let name = spec.name();
            match name {
                gimli::DW_AT_name
                | gimli::DW_AT_type
                | gimli::DW_AT_byte_size
                | gimli::DW_AT_declaration
                | gimli::DW_AT_external
                | gimli::DW_AT_data_member_location
                | gimli::DW_AT_bit_size
                | gimli::DW_AT_data_bit_offset
                | gimli::DW_AT_bit_offset
                | gimli::DW_AT_count
                | gimli::DW_AT_upper_bound
                | gimli::DW_AT_encoding
                | gimli::DW_AT_sibling => {}
                _ => {
                    entries.skip_attributes(std::slice::from_ref(spec))?;
                    continue;
                }
            }
            let value = entries.read_attribute(*spec)?.value();
            match name {
                gimli::DW_AT_name => entry.name = units.text(unit, value),
                gimli::DW_AT_type => entry.type_ = unit.reference(value),
                gimli::DW_AT_byte_size => entry.size = value.udata_value(),
                gimli::DW_AT_data_member_location => entry.offset = member_offset(unit, value),
                gimli::DW_AT_bit_size => entry.bit_size = value.udata_value().unwrap_or(0),
                gimli::DW_AT_data_bit_offset => entry.data_bit_offset = value.udata_value(),
                gimli::DW_AT_bit_offset => entry.bit_offset = value.udata_value(),
                gimli::DW_AT_count => entry.count = value.udata_value(),
                // -1, however wide it is written, is that of an array without elements.
                gimli::DW_AT_upper_bound => {
                    let last = value.udata_value().filter(|last| *last < u64::from(u32::MAX));
                    entry.count = last.map(|last| last + 1);
                }
                gimli::DW_AT_encoding => {
                    let float = AttributeValue::Encoding(gimli::DW_ATE_float);
                    let complex = AttributeValue::Encoding(gimli::DW_ATE_complex_float);
                    entry.whole = value != float && value != complex;
                }
                gimli::DW_AT_sibling => sibling = unit.reference(value),
                _ => entry.declaration |= value == AttributeValue::Flag(true),
            }
        }
        Ok((entry, sibling))
    }

    /// The entry there.
    pub(super) fn at(units: &Units<'d>, unit: &Unit<'d>, at: usize) -> Result<Self, Fault> {
        let mut cursor = Cursor::new(unit, at)?;
        let abbreviation = cursor.next()?.ok_or_else(Fault::dangling)?;
        Ok(Self::read(units, at, &mut cursor, abbreviation)?.0)
    }

    /// The entries that the one there is made of. Each entry that had to be gone over takes one of `left`.
    pub(super) fn children(
        units: &Units<'d>,
        unit: &Unit<'d>,
        at: usize,
        left: &mut usize,
    ) -> Result<Vec<Self>, Fault> {
        let mut children = Vec::new();
        let mut cursor = Cursor::new(unit, at)?;
        let first = cursor.next()?.ok_or_else(Fault::dangling)?;
        cursor.skip(first)?;
        while cursor.depth() > 0 {
            *left = left.checked_sub(1).ok_or(Flaw::Types)?;
            let (at, depth) = (cursor.at(), cursor.depth());
            let Some(abbreviation) = cursor.next()? else { continue };
            if depth > 1 {
                cursor.skip(abbreviation)?;
                continue;
            }
            let (child, sibling) = Self::read(units, at, &mut cursor, abbreviation)?;
            children.push(child);
            cursor.jump(sibling, depth)?;
        }
        Ok(children)
    }
}

/// Where a member begins: a constant, or (DWARF 2) an expression that adds one.
fn member_offset(unit: &Unit<'_>, value: Value<'_>) -> u64 {
    if let Some(offset) = value.udata_value() {
        return offset;
    }
    let Some(expression) = value.exprloc_value() else { return 0 };
    match expression.operations(unit.encoding()).next() {
        Ok(Some(gimli::Operation::PlusConstant { value })) => value,
        Ok(Some(gimli::Operation::UnsignedConstant { value })) => value,
        _ => 0,
    }
}
