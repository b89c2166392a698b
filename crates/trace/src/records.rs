//! The layout of `records/*.parquet`: rows to columns and back.

use std::collections::HashMap;

use parquet::data_type::ByteArray;
use xweave_wire::record::{Kind, MAX_VALUES};

use crate::{
    damage::Damage,
    meanings::{BLOCK, Meanings, Seen},
    row::Row,
    segments::{Line, domain_numbers},
    table::{Column, InTurn, Values, Wanted},
};

impl Line for Row {
    const FOLDER: &'static str = "records";
    const SCHEMA: &'static str = "message record {
    required int64 time_ns (INTEGER(64,true));
    required binary domain (STRING);
    required int32 cpu (INTEGER(32,true));
    required int32 pid (INTEGER(32,true));
    required int32 tid (INTEGER(32,true));
    required binary comm (STRING);
    required int32 site (INTEGER(32,false));
    required binary kind (STRING);
    optional int64 flow (INTEGER(64,false));
    optional int64 v1 (INTEGER(64,false));
    optional int64 v2 (INTEGER(64,false));
    optional int64 v3 (INTEGER(64,false));
    optional int64 v4 (INTEGER(64,false));
    optional int64 v5 (INTEGER(64,false));
    optional int64 v6 (INTEGER(64,false));
    optional int64 v7 (INTEGER(64,false));
}";

    const SEQUENTIAL: &'static [&'static str] = &["time_ns"];
    type Texts = ();

    fn columns(domain: &str, rows: &[Self], (): &()) -> Vec<Column> {
        to_columns(domain, rows)
    }
}

/// The column of times.
pub(crate) const TIME: &str = "time_ns";

/// Columns that any table of records has, in the order in which [`from_columns`] takes them.
pub(crate) const REQUIRED: [&str; 8] = ["time_ns", "domain", "cpu", "pid", "tid", "comm", "site", "kind"];

/// Columns that follow them, which a table that another program made may lack.
pub(crate) const OPTIONAL: [&str; 1 + MAX_VALUES] = ["flow", "v1", "v2", "v3", "v4", "v5", "v6", "v7"];

/// The columns of one domain's rows, in the schema's order.
fn to_columns(domain: &str, rows: &[Row]) -> Vec<Column> {
    let int32 = |get: fn(&Row) -> u32| {
        Column::all(Values::I32(rows.iter().map(|row| get(row).cast_signed()).collect()))
    };
    let domain = ByteArray::from(domain);
    let kinds: HashMap<Kind, ByteArray> =
        (0..=u8::MAX).map_while(Kind::from_byte).map(|kind| (kind, ByteArray::from(kind.name()))).collect();
    let mut comms: HashMap<[u8; 16], ByteArray> = HashMap::new();
    let comm = |row: &Row| {
        let text = || ByteArray::from(&*String::from_utf8_lossy(row.raw_comm()));
        comms.entry(row.comm).or_insert_with(text).clone()
    };
    let mut columns = vec![
        Column::all(Values::I64(rows.iter().map(|row| row.time_ns).collect())),
        Column::all(Values::Text(vec![domain; rows.len()])),
        int32(|row| row.cpu),
        int32(|row| row.pid),
        int32(|row| row.tid),
        Column::all(Values::Text(rows.iter().map(comm).collect())),
        int32(|row| row.site),
        Column::all(Values::Text(rows.iter().map(|row| kinds[&row.kind].clone()).collect())),
        int64(rows.iter().map(|row| (row.flow != 0).then_some(row.flow))),
    ];
    columns
        .extend((0..MAX_VALUES).map(|at| int64(rows.iter().map(move |row| row.values().get(at).copied()))));
    columns
}

fn int64(rows: impl Iterator<Item = Option<u64>> + Clone) -> Column {
    Column::some(rows, |values| Values::I64(values.map(u64::cast_signed).collect()))
}

/// Rows of the columns that [`REQUIRED`] and [`OPTIONAL`] name. `number` gives the number of a domain's name.
pub(crate) fn from_columns(
    columns: &[Column],
    count: usize,
    number: impl Fn(&str) -> Option<u8>,
) -> Result<Vec<Row>, Damage> {
    let columns = Wanted { columns, names: (&REQUIRED, &OPTIONAL), rows: count };
    let (numbers, placed) = (|at| columns.numbers(at), |at| columns.places(at));

    let (mut times, mut cpus, mut pids, mut tids) = (numbers(0)?, numbers(2)?, numbers(3)?, numbers(4)?);
    let (mut sites, mut flows) = (numbers(6)?, numbers(8)?);
    let ((domains, domain_of), (kinds, kind_of)) = (placed(1)?, placed(7)?);
    let comms = columns.bytes(5)?;
    let mut stored = (9..9 + MAX_VALUES).map(numbers).collect::<Result<Vec<_>, _>>()?;

    let (mut numbers_of_domains, mut kinds_of) = (Meanings::of(domains), Meanings::of(kinds));
    let mut names = Seen::default();
    let mut domain_number = domain_numbers("records", number);
    let mut rows = vec![Row::nothing(); count];
    for (rows, first) in rows.chunks_mut(BLOCK).zip((0..).step_by(BLOCK)) {
        let mut narrow = |numbers: &mut InTurn<'_>, at: usize, set| {
            numbers.give_narrow(rows, set).map_err(|wrong| columns.wrong(at, wrong))
        };
        narrow(&mut cpus, 2, |row, cpu| row.cpu = cpu)?;
        narrow(&mut pids, 3, |row, pid| row.pid = pid)?;
        narrow(&mut tids, 4, |row, tid| row.tid = tid)?;
        narrow(&mut sites, 6, |row, site| row.site = site)?;
        times.give(rows, |row, time| row.time_ns = time.cast_signed());
        flows.give(rows, |row, flow| row.flow = flow);
        for (at, values) in stored.iter_mut().enumerate() {
            // Up to the first that is null.
            values.give_some(rows, |row, value| {
                if usize::from(row.count) == at {
                    row.stored[at] = value;
                    row.count += 1;
                }
            });
        }
        for (row, at) in rows.iter_mut().zip(first..) {
            row.domain = numbers_of_domains.get(domain_of[at], &mut domain_number)?;
            let named = |text: &[u8]| str::from_utf8(text).ok().and_then(Kind::from_name).ok_or(Damage::Kind);
            row.kind = kinds_of.get(kind_of[at], named)?;
            let name = comms[at].unwrap_or_default();
            row.comm = names.get(name, || padded(name));
        }
    }
    Ok(rows)
}

/// A name as the kernel keeps it: at most 16 bytes, cut between characters.
fn padded(name: &[u8]) -> [u8; 16] {
    let mut padded = [0; 16];
    let mut end = name.len().min(padded.len());
    while end < name.len() && end > 0 && name[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    padded[..end].copy_from_slice(&name[..end]);
    padded
}
