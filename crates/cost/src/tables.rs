//! The tables for a terminal: groups by their medians, what is marked, every figure, and the forms.

use xweave_report::{
    View,
    folded::{self, Column},
    number::{counted, median},
    table,
};

use crate::{
    comparison::{Comparison, Row},
    forms,
    line::Kind,
    table::Form,
};

/// So many marked figures are shown where not all are asked for.
const MARKED: usize = 20;

/// And so many impossible ones are named.
const IMPOSSIBLE: usize = 4;

/// Why a figure is impossible.
const MEANING: &str = "it took no time (emulators leave out what has no effect), or a guest is faster than the machine under \
                       it";

/// The median of each group's figures, what is marked, and how to see the rest.
pub fn summary(comparison: &Comparison, rows: &[Row], view: View) -> String {
    let figures = counted(rows.len() as u64, "figure", "figures");
    let mut text = medians(comparison, rows, view);
    let (impossible, mut marked): (Vec<&Row>, Vec<&Row>) =
        rows.iter().filter(|row| row.is_marked()).partition(|row| row.is_impossible());
    if !impossible.is_empty() {
        text.push_str(&format!("\n{}", table::paragraph(&not_to_be_believed(&impossible, &figures), view)));
    }
    if !marked.is_empty() {
        let first = if marked.len() > MARKED { format!("; the first {MARKED}") } else { String::new() };
        text.push_str(&format!("\nMarked: {} of {figures}{first}\n\n", marked.len()));
        marked.truncate(MARKED);
        text.push_str(&rows_of(comparison, &marked, view));
        let unexpected = marked.iter().any(|row| row.unexpected.contains(&true));
        text.push_str(&legend(unexpected, false, view));
    }
    text.push_str(&format!("\n--all lists all {figures}, --group NAME those of a group\n"));
    text
}

/// How many figures cannot be, and the first of them: under emulation they are many, and say nothing of what is measured.
fn not_to_be_believed(rows: &[&Row], of: &str) -> String {
    let named = |row: &&Row| format!("{} ({})", forms()[row.form].name, row.kind.name());
    let first: Vec<_> = rows.iter().take(IMPOSSIBLE).map(named).collect();
    let more = if rows.len() > IMPOSSIBLE { ", …; --all marks them !!" } else { "" };
    format!("Impossible: {} of {of}, in no median: {MEANING}: {}{more}", rows.len(), first.join(", "))
}

/// Each form's cycles in each environment, and ratios.
pub fn all(comparison: &Comparison, rows: &[Row], view: View) -> String {
    let unexpected = rows.iter().any(|row| row.unexpected.contains(&true));
    rows_of(comparison, &rows.iter().collect::<Vec<_>>(), view)
        + &legend(unexpected, rows.iter().any(Row::is_impossible), view)
}

/// The forms with their code.
pub fn catalogue(view: View) -> String {
    let forms = forms();
    let column = |of: fn(&Form) -> String| forms.iter().map(of).collect();
    let about = [
        Column::names("Group", once_each(forms.iter().map(|form| &*form.group))),
        Column::names("Instruction", column(|form| form.name.clone())),
    ];
    let columns = [
        Column::names("needs", column(|form| form.needs.join(" "))),
        Column::prose("code", column(|form| form.code.clone())),
    ];
    format!(
        "{} of instructions; --json has their code as it is assembled\n\n{}",
        counted(forms.len() as u64, "form", "forms"),
        folded::text(&about, &columns, view)
    )
}

/// What marks mean, if there are any.
fn legend(unexpected: bool, impossible: bool, view: View) -> String {
    let mut lines = Vec::new();
    if unexpected {
        lines.push(("!".to_owned(), "far from what was to be expected".to_owned()));
    }
    if impossible {
        lines.push(("!!".to_owned(), format!("impossible, and in no median: {MEANING}")));
    }
    if lines.is_empty() { String::new() } else { format!("\n{}", table::lines(&lines, view)) }
}

/// The rows of one kind of a group.
struct Group<'a> {
    name: &'a str,
    kind: Kind,
    rows: Vec<&'a Row>,
}

impl<'a> Group<'a> {
    /// All, in the order of the table of forms.
    fn all(rows: &'a [Row]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for row in rows {
            let (name, kind) = (&*forms()[row.form].group, row.kind);
            match groups.iter_mut().find(|group| (group.name, group.kind) == (name, kind)) {
                Some(group) => group.rows.push(row),
                None => groups.push(Self { name, kind, rows: vec![row] }),
            }
        }
        // A group's first form may be of another kind than the next group's.
        groups.sort_by_key(|group| rows.iter().position(|row| forms()[row.form].group == group.name));
        groups
    }

    fn median(&self, of: impl Fn(&Row) -> Option<f64>) -> String {
        let median = median(self.rows.iter().filter_map(|row| of(row)).collect());
        median.map_or_else(|| "–".to_owned(), |median| format!("{median:.2}"))
    }

    fn marked(&self) -> String {
        let marked = self.rows.iter().filter(|row| row.is_marked()).count();
        if marked == 0 { String::new() } else { marked.to_string() }
    }
}

fn medians(comparison: &Comparison, rows: &[Row], view: View) -> String {
    let groups = Group::all(rows);
    let column = |of: &dyn Fn(&Group<'_>) -> String| groups.iter().map(of).collect::<Vec<_>>();
    let about = [
        Column::names("Median of", once_each(groups.iter().map(|group| group.name))),
        Column::names("", column(&|group| group.kind.name().to_owned())),
    ];
    let mut columns = vec![Column::numbers("figures", column(&|group| group.rows.len().to_string()))];
    for (at, one) in comparison.measured.iter().enumerate() {
        columns.push(Column::numbers(
            one.environment.name(),
            column(&|group| group.median(|row| row.cycles[at].filter(|_| !row.impossible[at]))),
        ));
    }
    for (at, name) in ratios(comparison) {
        columns.push(Column::numbers(
            name,
            column(&|group| group.median(|row| row.ratio[at].filter(|_| !row.impossible[at]))),
        ));
    }
    if rows.iter().any(Row::is_marked) {
        columns.push(Column::numbers("marked", column(&|group| group.marked())));
    }
    folded::text(&about, &columns, view)
}

fn rows_of(comparison: &Comparison, rows: &[&Row], view: View) -> String {
    let column = |of: &dyn Fn(&Row) -> String| rows.iter().map(|row| of(row)).collect::<Vec<_>>();
    let about = [
        Column::names("Group", once_each(rows.iter().map(|row| &*forms()[row.form].group))),
        Column::names("Instruction", column(&|row| forms()[row.form].name.clone())),
        Column::names("", column(&|row| row.kind.name().to_owned())),
    ];
    let mut columns = Vec::new();
    for (at, one) in comparison.measured.iter().enumerate() {
        columns.push(Column::numbers(one.environment.name(), column(&|row| cycles(row, at))));
    }
    for (at, name) in ratios(comparison) {
        columns.push(Column::numbers(name, column(&|row| ratio(row, at))));
    }
    if rows.iter().any(|row| row.did.iter().any(Option::is_some)) {
        columns.push(Column::prose("What the hypervisor did", column(&|row| deeds(comparison, row))));
    }
    folded::text(&about, &columns, view)
}

fn cycles(row: &Row, at: usize) -> String {
    match (row.cycles[at], &row.instead[at]) {
        (Some(cycles), _) => format!("{cycles:.2}{}", if row.impossible[at] { " !!" } else { "" }),
        (None, Some(instead)) => instead.clone(),
        (None, None) => "–".to_owned(),
    }
}

fn ratio(row: &Row, at: usize) -> String {
    let mark = if row.unexpected[at] { " !" } else { "" };
    row.ratio[at].map_or_else(String::new, |ratio| format!("{ratio:.3}{mark}"))
}

fn deeds(comparison: &Comparison, row: &Row) -> String {
    let environments = comparison.measured.iter().map(|one| one.environment.name());
    let did = environments.zip(&row.did).filter_map(|(name, did)| Some(format!("{name}: {}", did.as_ref()?)));
    did.collect::<Vec<_>>().join("; ")
}

/// The environments that have a machine under them which was measured as well, and what their ratios are called.
fn ratios(comparison: &Comparison) -> impl Iterator<Item = (usize, String)> + '_ {
    let name = |at: usize| comparison.measured[at].environment.name();
    let others = (0..comparison.measured.len()).filter(|at| comparison.base(*at) != *at);
    others.map(move |at| (at, format!("{}/{}", name(at), name(comparison.base(at)))))
}

/// A name stands where it begins.
fn once_each<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut before = "";
    let mut first = |name| if std::mem::replace(&mut before, name) == name { "" } else { name };
    names.map(|name| first(name).to_owned()).collect()
}
