//! The layout of `records/*.parquet`: rows to columns and back.

use std::collections::HashMap;

use parquet::data_type::ByteArray;
use xweave_wire::record::{Kind, MAX_VALUES};

use crate::{
    damage::{Damage, Wrong},
    row::Row,
    segments::{Line, domain_numbers},
    table::{Column, Values},
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
    let name = |at: usize| REQUIRED.iter().chain(&OPTIONAL).nth(at).copied().unwrap_or("?");
    let column = |at: usize| columns.get(at).ok_or(Damage::NoColumn(name(at)));
    let wrong = |at: usize| move |wrong| Damage::Column { name: name(at), wrong };
    let numbers = |at: usize| column(at)?.numbers(count).map_err(wrong(at));
    let bytes = |at: usize| column(at)?.bytes(count).map_err(wrong(at));
    let null = |at: usize| wrong(at)(Wrong::Null);
    let narrow = |value: Option<u64>, at: usize| {
        let value = value.ok_or_else(|| null(at))?;
        u32::try_from(value).map_err(|_| wrong(at)(Wrong::Wide(value)))
    };

    let (time, cpu, pid, tid, site) = (numbers(0)?, numbers(2)?, numbers(3)?, numbers(4)?, numbers(6)?);
    let (domain, comm, kind) = (bytes(1)?, bytes(5)?, bytes(7)?);
    let flow = numbers(8)?;
    let values = (9..9 + MAX_VALUES).map(numbers).collect::<Result<Vec<_>, _>>()?;

    let mut numbers_of_domains = domain_numbers("records", number);
    let mut rows = Vec::with_capacity(count);
    for at in 0..count {
        let number = numbers_of_domains(domain[at].ok_or_else(|| null(1))?)?;
        let kind = kind[at].ok_or_else(|| null(7))?;
        let kind = std::str::from_utf8(kind).ok().and_then(Kind::from_name);
        let mut stored = [0; MAX_VALUES];
        let mut stored_count = 0;
        for column in &values {
            let Some(value) = column[at] else { break };
            stored[usize::from(stored_count)] = value;
            stored_count += 1;
        }
        rows.push(Row {
            time_ns: time[at].ok_or_else(|| null(0))?.cast_signed(),
            flow: flow[at].unwrap_or(0),
            site: narrow(site[at], 6)?,
            pid: narrow(pid[at], 3)?,
            tid: narrow(tid[at], 4)?,
            cpu: narrow(cpu[at], 2)?,
            comm: padded(comm[at].unwrap_or(b"")),
            domain: number,
            kind: kind.ok_or(Damage::Kind)?,
            count: stored_count,
            stored,
        });
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
