//! Views in SQL, for DuckDB: a trace as threads, waits, virtual machines and flows.
//!
//! The trace's own files stay where they are, and the views read them. They are not kept in the trace: DuckDB's scripts run
//! commands of the shell, and a trace may be anybody's.

use std::{collections::BTreeMap, io, path::Path};

use xweave_trace::{Domain, Trace};

/// Why there are no views of a trace.
#[derive(Debug, thiserror::Error)]
pub enum ViewsError {
    /// SQL is text, and the trace's path is none.
    #[error("the path of {0} is not text in UTF-8 without control characters and backslashes: rename it")]
    Path(String),
    /// The trace's directory cannot be resolved.
    #[error("cannot tell where {0} is: {1}")]
    Directory(String, io::Error),
}

/// Returns the SQL that makes views of a trace: `domains`, `vms`; `events`, `threads`, `thread_states`, `waits`, `vm_exits`
/// and `vm_halts`, if it has events; `sites`, `records`, `flows` and `flow_times`, if it has records.
///
/// # Errors
/// [`ViewsError`], of the trace's directory.
pub fn sql(trace: &Trace) -> Result<String, ViewsError> {
    let dir = trace.dir();
    let told = || dir.display().to_string();
    let dir = std::path::absolute(dir).map_err(|error| ViewsError::Directory(told(), error))?;
    let files = |pattern: &str| files(&dir, pattern).ok_or_else(|| ViewsError::Path(told()));
    let mut text = domains(trace);
    if trace.manifest().events > 0 {
        text += &include_str!("views/events.sql").replace("{events}", &files("events/*.parquet")?);
    }
    if trace.manifest().records > 0 {
        let records = include_str!("views/records.sql").replace("{sites}", &files("sites.parquet")?);
        text += &records.replace("{records}", &files("records/*.parquet")?);
    }
    Ok(text)
}

/// The domains of the trace, and the virtual machines of its hosts with the domains that were recorded of them.
fn domains(trace: &Trace) -> String {
    let all = &trace.manifest().domains;
    let domain = |domain: &Domain| {
        format!(
            "({}, {}, {}, {}, {})",
            domain.number,
            quoted(&domain.name),
            quoted(&domain.hostname),
            quoted(&domain.kernel),
            domain.cpus
        )
    };
    // By host and process: what its user calls it, and what it was recorded as.
    let mut vms: BTreeMap<(&str, u32), [Option<&str>; 2]> = BTreeMap::new();
    for host in all {
        for vm in &host.vms {
            vms.entry((&host.name, vm.pid)).or_default()[0] =
                Some(&vm.name).filter(|name| !name.is_empty()).map(|name| &**name);
        }
    }
    for guest in all {
        if let Some(vm) = &guest.vm {
            vms.entry((&vm.host, vm.pid)).or_default()[1] = Some(&guest.name);
        }
    }
    let vm = |((host, pid), names): (&(&str, u32), &[Option<&str>; 2])| {
        let [name, guest] = names.map(|name| name.map_or_else(|| "null".to_owned(), quoted));
        format!("({}, {pid}, {name}, {guest})", quoted(host))
    };
    let domains: Vec<String> = all.iter().map(domain).collect();
    let vms: Vec<String> = vms.iter().map(vm).collect();
    "-- Views of a trace of xweave: duckdb -init THIS-FILE\n\n-- The kernels that were recorded.\n".to_owned()
        + &table("domains", &["number", "domain", "hostname", "kernel", "cpus"], &domains)
        + "\n-- The virtual machines of the hosts; domain is the one that was recorded in it.\n"
        + &table("vms", &["host", "pid", "name", "domain"], &vms)
}

/// A view of these rows, which are SQL.
fn table(name: &str, columns: &[&str], rows: &[String]) -> String {
    let (names, none) = (columns.join(", "), vec!["null"; columns.len()].join(", "));
    let (rows, filter) = match rows {
        [] => (format!("({none})"), " where false"),
        rows => (rows.join(",\n    "), ""),
    };
    format!("create or replace view {name} as select * from (values\n    {rows}\n) as t({names}){filter};\n")
}

/// The files of a pattern in a directory whose own name is none; none, if that is no text.
fn files(dir: &Path, pattern: &str) -> Option<String> {
    let mut path = String::new();
    for letter in dir.to_str()?.chars() {
        match letter {
            // DuckDB takes a backslash for a separator.
            letter if letter.is_control() || letter == '\\' => return None,
            '*' | '?' | '[' => path.extend(['[', letter, ']']),
            letter => path.push(letter),
        }
    }
    Some(quoted(&format!("{path}/{pattern}")))
}

/// A string of SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths_stay_text() {
        assert_eq!(quoted("it's"), "'it''s'");
        assert_eq!(files(Path::new("/t/a*[b]"), "x").unwrap(), "'/t/a[*][[]b]/x'");
        assert_eq!(files(Path::new("/t/a\n.sh id"), "x"), None);
        assert!(table("vms", &["pid"], &[]).ends_with("(null)\n) as t(pid) where false;\n"));
    }
}
