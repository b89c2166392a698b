//! The layout of `events/*.parquet`: events to columns and back.

use std::sync::Arc;

use parquet::data_type::ByteArray;
use rustc_hash::FxHashMap;
use xweave_event::Member;
use xweave_text as text;

use crate::{
    damage::Damage,
    event::{Event, Kind, Name, Names},
    meanings::{BLOCK, Meanings, Seen},
    segments::{Line, domain_numbers},
    table::{Column, InTurn, Values, Wanted},
};

/// Columns that any table of events has, in the order in which [`from_columns`] takes them.
pub(crate) const REQUIRED: [&str; 5] = ["time_ns", "domain", "cpu", "kind", "tid"];

/// Bytes of a name: a tracepoint's, with its system, is the longest.
const NAME: usize = 256;

/// Columns that follow them, which a table that another program made may lack.
pub(crate) const OPTIONAL: [&str; 6] = ["other", "object", "position", "bytes", "code", "name"];

/// Members of each kind in which 0 says something, by its number.
const MEMBERS: [u8; Kind::ALL.len()] = {
    let mut members = [0; Kind::ALL.len()];
    let mut at = 0;
    while at < members.len() {
        members[at] = Kind::ALL[at].known();
        at += 1;
    }
    members
};

impl Line for Event {
    const FOLDER: &'static str = "events";
    const SCHEMA: &'static str = "message event {
        required int64 time_ns (INTEGER(64,true));
        required binary domain (STRING);
        required int32 cpu (INTEGER(32,true));
        required binary kind (STRING);
        required int32 tid (INTEGER(32,true));
        optional int32 other (INTEGER(32,true));
        optional int64 object (INTEGER(64,false));
        optional int64 position (INTEGER(64,false));
        optional int64 bytes (INTEGER(64,false));
        optional int32 code (INTEGER(32,true));
        optional binary name (STRING);
    }";
    const SEQUENTIAL: &'static [&'static str] =
        &["time_ns", "cpu", "tid", "other", "object", "position", "bytes", "code"];
    type Texts = Names;

    fn columns(domain: &str, events: &[Self], names: &Names) -> Vec<Column> {
        let picked =
            |words: Vec<ByteArray>, places: Vec<u32>| Values::Picked { words: Arc::new(words), places };
        let kinds: Vec<ByteArray> = Kind::ALL.iter().map(|kind| ByteArray::from(kind.name())).collect();
        // Only the names that occur: a trace may have very many more.
        let (mut texts, mut places) = (Vec::new(), FxHashMap::default());
        let mut place = |name: Name| {
            *places.entry(name).or_insert_with(|| {
                texts.push(ByteArray::from(names.text(name)));
                u32::try_from(texts.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let count = events.len();
        let (mut times, mut cpus, mut tids) = (Field::of(count), Field::of(count), Field::of(count));
        let (mut others, mut codes) = (Field::of(count), Field::of(count));
        let (mut objects, mut positions, mut sizes) = (Field::of(count), Field::of(count), Field::of(count));
        let (mut kinds_of, mut named) = (Field::of(count), Field::of(count));
        for events in events.chunks(BLOCK) {
            times.all(events, |event| event.time_ns);
            cpus.all(events, |event| event.cpu.cast_signed());
            kinds_of.all(events, |event| event.kind as u32);
            tids.all(events, |event| event.tid.cast_signed());
            others.some(events, Member::Other as u8, |event| event.other.cast_signed());
            objects.some(events, Member::Object as u8, |event| event.object.cast_signed());
            positions.some(events, Member::Position as u8, |event| event.position.cast_signed());
            sizes.some(events, Member::Bytes as u8, |event| event.bytes.cast_signed());
            codes.some(events, Member::Code as u8, |event| event.code);
            named.some(events, 0, |event| event.name);
        }
        let named = named.map(&mut place);
        vec![
            times.column(Values::I64),
            Column::all(picked(vec![ByteArray::from(domain)], vec![0; count])),
            cpus.column(Values::I32),
            kinds_of.column(|places| picked(kinds, places)),
            tids.column(Values::I32),
            others.column(Values::I32),
            objects.column(Values::I64),
            positions.column(Values::I64),
            sizes.column(Values::I64),
            codes.column(Values::I32),
            named.column(|places| picked(texts, places)),
        ]
    }
}

/// A column as it is gathered: the values that are there, and, if any may lack, per row whether it has one.
struct Field<T> {
    levels: Option<Vec<i16>>,
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Field<T> {
    fn of(rows: usize) -> Self {
        Self { levels: None, values: Vec::with_capacity(rows) }
    }

    fn all(&mut self, events: &[Event], get: impl Fn(&Event) -> T) {
        self.values.extend(events.iter().map(get));
    }

    /// What a kind does not have, a member, is 0, which is null in the file.
    fn some(&mut self, events: &[Event], member: u8, get: impl Fn(&Event) -> T) {
        let capacity = self.values.capacity();
        let levels = self.levels.get_or_insert_with(|| Vec::with_capacity(capacity));
        let mut end = self.values.len();
        self.values.resize(end + events.len(), T::default());
        // Without a branch: which kinds follow each other cannot be foretold.
        for event in events {
            let value = get(event);
            let there = (value != T::default()) | (MEMBERS[event.kind as usize] & member != 0);
            self.values[end] = value;
            end += usize::from(there);
            levels.push(there.into());
        }
        self.values.truncate(end);
    }

    fn map<U>(self, of: impl FnMut(T) -> U) -> Field<U> {
        Field { levels: self.levels, values: self.values.into_iter().map(of).collect() }
    }
}

impl<T> Field<T> {
    fn column(self, values: impl FnOnce(Vec<T>) -> Values) -> Column {
        Column::of(self.levels, values(self.values))
    }
}

/// Events of the columns that [`REQUIRED`] and [`OPTIONAL`] name. Kinds that are not known become [`Kind::Other`],
/// called as they are in the table. `number` gives the number of a domain's name; new names take places of `room`.
pub(crate) fn from_columns(
    columns: &[Column],
    count: usize,
    number: impl Fn(&str) -> Option<u8>,
    names: &mut Names,
    room: &mut usize,
) -> Result<Vec<Event>, Damage> {
    let columns = Wanted { columns, names: (&REQUIRED, &OPTIONAL), rows: count };
    let (numbers, placed) = (|at| columns.numbers(at), |at| columns.places(at));

    let (mut times, mut cpus, mut tids) = (numbers(0)?, numbers(2)?, numbers(4)?);
    let (mut others, mut objects, mut positions) = (numbers(5)?, numbers(6)?, numbers(7)?);
    let (mut sizes, mut codes) = (numbers(8)?, numbers(9)?);
    let ((domains, domain_of), (kinds, kind_of)) = (placed(1)?, placed(3)?);
    let called = columns.bytes(10)?;

    let (mut numbers_of_domains, mut kinds_of) = (Meanings::of(domains), Meanings::of(kinds));
    let mut texts = Seen::default();
    let mut domain_number = domain_numbers("events", number);
    let mut events = vec![Event::new(Kind::Other, 0, 0, 0, 0); count];
    for (events, first) in events.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
        let mut narrow = |numbers: &mut InTurn<'_>, at: usize, set| {
            numbers.give_narrow(events, set).map_err(|wrong| columns.wrong(at, wrong))
        };
        narrow(&mut cpus, 2, |event, cpu| event.cpu = cpu)?;
        narrow(&mut tids, 4, |event, tid| event.tid = tid)?;
        narrow(&mut others, 5, |event, other| event.other = other)?;
        narrow(&mut codes, 9, |event, code| event.code = code.cast_signed())?;
        times.give(events, |event, time| event.time_ns = time.cast_signed());
        objects.give(events, |event, object| event.object = object);
        positions.give(events, |event, position| event.position = position);
        sizes.give(events, |event, bytes| event.bytes = bytes);
        for (event, at) in events.iter_mut().zip(first..) {
            event.domain = numbers_of_domains.get(domain_of[at], &mut domain_number)?;
            let named = |text: &[u8]| Ok(str::from_utf8(text).ok().and_then(Kind::named));
            let kind = kinds_of.get(kind_of[at], named)?;
            event.kind = kind.unwrap_or(Kind::Other);
            let name = called[at].unwrap_or(if kind.is_none() { kinds_of.word(kind_of[at]) } else { b"" });
            if !name.is_empty() {
                let mut give = |text: &str| names.give_within(text, room);
                let found = texts.get(name, || give(&text::printable_bytes(name, NAME)));
                event.name = found.ok_or(Damage::Names)?;
            }
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_null_only_where_a_kind_has_no_such_member() {
        let switch = Event::new(Kind::Switch, 1, 5, 0, 7);
        let enter = Event::new(Kind::VmEnter, 1, 6, 0, 71);
        let wake = Event { object: 3, ..Event::new(Kind::Wake, 1, 7, 0, 7) };
        let columns = Event::columns("host", &[switch, enter, wake], &Names::default());
        let numbers = |at: usize| columns[at].numbers(3).ok();
        // `other`: nothing ran after the switch; what runs the vCPU is not known. `object`: vCPU 0.
        assert_eq!(numbers(5), Some(vec![Some(0), None, Some(0)]));
        assert_eq!(numbers(6), Some(vec![None, Some(0), Some(3)]));
        assert_eq!(numbers(7), Some(vec![None, None, None]));
        assert_eq!(numbers(9), Some(vec![Some(0), None, None]));
    }
}
