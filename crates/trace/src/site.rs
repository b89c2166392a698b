//! One line of `sites.parquet`: a join point as woven.

use xweave_wire::record::MAX_VALUES;

use crate::{
    damage::{Damage, Wrong},
    table::{Column, Values},
};

/// Where records come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    /// The number that records carry: unique in the trace.
    pub site: u32,
    /// Name of the domain it lies in.
    pub domain: String,
    /// Name of the aspect that was woven there.
    pub aspect: String,
    /// The advice: the clause's name.
    pub advice: String,
    /// The function.
    pub function: String,
    /// Bytes from the function's beginning.
    pub offset: u64,
    /// Address in the running kernel; 0 where it is hidden.
    pub address: u64,
    /// The module the function lives in; none for the kernel image.
    pub module: Option<String>,
    /// Source file, where debug information tells.
    pub file: Option<String>,
    /// Its line.
    pub line: Option<u32>,
    /// What the site does to flows: `start`, `move`, `copy`, `quit`, `xin`, `xout`; `advice` if it only stores.
    pub action: String,
    /// The flow definition it belongs to.
    pub xflow: Option<String>,
    /// The carrier that it puts flows on or takes them off.
    pub carrier: Option<String>,
    /// How it is hooked: `fentry`, `fexit`, `tracepoint`, `kprobe`, `kretprobe`, `uprobe`, `uretprobe`; none if the trace
    /// does not tell.
    pub hook: Option<String>,
    /// What the values that its records store are called, by their places; fewer, or none, if the trace does not tell.
    pub values: Vec<String>,
}

/// Bytes of a name: a function's is the longest (`KSYM_NAME_LEN` in `include/linux/kallsyms.h`, 6.12).
const NAME: usize = 512;

/// Bytes of a file's name (`PATH_MAX` in `include/uapi/linux/limits.h`).
const PATH: usize = 4096;

impl Site {
    /// Whether it is hooked by a probe that older kernels skip without counting: below another one on the same processor.
    pub fn is_probe(&self) -> bool {
        let probes = ["kprobe", "kretprobe", "uprobe", "uretprobe"];
        self.hook.as_deref().is_some_and(|hook| probes.contains(&hook))
    }

    /// Bytes of all its texts.
    pub(crate) fn text_len(&self) -> usize {
        let texts = [&self.domain, &self.aspect, &self.advice, &self.function, &self.action];
        let maybe = [&self.module, &self.file, &self.xflow, &self.carrier, &self.hook];
        texts.into_iter().chain(maybe.into_iter().flatten()).chain(&self.values).map(String::len).sum()
    }
}

/// The table's layout, as Parquet writes it down.
pub(crate) const SCHEMA: &str = "message site {
    required int32 site (INTEGER(32,false));
    required binary domain (STRING);
    required binary aspect (STRING);
    required binary advice (STRING);
    required binary function (STRING);
    required int64 offset (INTEGER(64,false));
    required int64 address (INTEGER(64,false));
    optional binary module (STRING);
    optional binary file (STRING);
    optional int32 line (INTEGER(32,false));
    required binary action (STRING);
    optional binary xflow (STRING);
    optional binary carrier (STRING);
    optional binary hook (STRING);
    optional binary values (STRING);
}";

/// Columns that any table of sites has, in the order in which [`from_columns`] takes them.
pub(crate) const REQUIRED: [&str; 4] = ["site", "domain", "function", "offset"];

/// Columns that follow them, which a table that another program made may lack.
pub(crate) const OPTIONAL: [&str; 11] =
    ["aspect", "advice", "address", "module", "file", "line", "action", "xflow", "carrier", "hook", "values"];

/// The columns of all sites, in the schema's order.
pub(crate) fn to_columns(sites: &[Site]) -> Vec<Column> {
    let values: Vec<_> =
        sites.iter().map(|site| (!site.values.is_empty()).then(|| site.values.join(","))).collect();
    let text = |get: fn(&Site) -> &String| Column::all(Values::texts(sites.iter().map(get)));
    vec![
        Column::all(Values::I32(sites.iter().map(|s| s.site.cast_signed()).collect())),
        text(|s| &s.domain),
        text(|s| &s.aspect),
        text(|s| &s.advice),
        text(|s| &s.function),
        Column::all(Values::I64(sites.iter().map(|s| s.offset.cast_signed()).collect())),
        Column::all(Values::I64(sites.iter().map(|s| s.address.cast_signed()).collect())),
        maybe(sites.iter().map(|s| s.module.as_ref())),
        maybe(sites.iter().map(|s| s.file.as_ref())),
        Column::some(sites.iter().map(|s| s.line), |lines| {
            Values::I32(lines.map(u32::cast_signed).collect())
        }),
        text(|s| &s.action),
        maybe(sites.iter().map(|s| s.xflow.as_ref())),
        maybe(sites.iter().map(|s| s.carrier.as_ref())),
        maybe(sites.iter().map(|s| s.hook.as_ref())),
        maybe(values.iter().map(Option::as_ref)),
    ]
}

fn maybe<'a>(texts: impl Iterator<Item = Option<&'a String>> + Clone) -> Column {
    Column::some(texts, |texts| Values::texts(texts))
}

/// Sites of the columns that [`REQUIRED`] and [`OPTIONAL`] name.
pub(crate) fn from_columns(columns: &[Column], count: usize) -> Result<Vec<Site>, Damage> {
    let name = |at: usize| REQUIRED.iter().chain(&OPTIONAL).nth(at).copied().unwrap_or("?");
    let column = |at: usize| columns.get(at).ok_or(Damage::NoColumn(name(at)));
    let wrong = |at: usize| move |wrong| Damage::Column { name: name(at), wrong };
    let numbers = |at: usize| column(at)?.numbers(count).map_err(wrong(at));
    let texts = |at: usize| {
        let most = if name(at) == "file" { PATH } else { NAME };
        column(at)?.texts(count, most).map_err(wrong(at))
    };

    let (site, offset, address, line) = (numbers(0)?, numbers(3)?, numbers(6)?, numbers(9)?);
    let mut text: Vec<_> = Vec::new();
    for at in [1, 4, 5, 2, 7, 8, 10, 11, 12, 13, 14] {
        text.push(texts(at)?.into_iter());
    }
    let mut next = |column: usize| text[column].next().flatten();
    let narrow = |wide: u64| u32::try_from(wide).map_err(|_| Damage::Wide(wide));
    let mut sites = Vec::with_capacity(count);
    for row in 0..count {
        sites.push(Site {
            site: narrow(site[row].ok_or_else(|| wrong(0)(Wrong::Null))?)?,
            domain: next(0).unwrap_or_default(),
            aspect: next(1).unwrap_or_default(),
            advice: next(2).unwrap_or_default(),
            function: next(3).unwrap_or_default(),
            offset: offset[row].unwrap_or(0),
            address: address[row].unwrap_or(0),
            module: next(4),
            file: next(5),
            line: line[row].map(narrow).transpose()?,
            action: next(6).unwrap_or_default(),
            xflow: next(7),
            carrier: next(8),
            hook: next(9),
            values: next(10).map(|names| called(&names)).unwrap_or_default(),
        });
    }
    Ok(sites)
}

/// What values are called: names as C has them, as many as a record has values. What is none is called by its place.
fn called(names: &str) -> Vec<String> {
    let is_name = |name: &&str| {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        !name.is_empty() && name.bytes().all(word)
    };
    let called = |(name, nth): (&str, usize)| {
        Some(name).filter(is_name).map_or_else(|| format!("v{nth}"), str::to_owned)
    };
    names.split(',').zip(1..=MAX_VALUES).map(called).collect()
}
