//! Two sides of transactions: how much longer one's took, and what that was spent on.

use std::cmp::Reverse;

use xweave_model::{
    Contrast,
    contrast::{By, Cause, Part, Side},
    delay::DelayKind,
    recorded::LeftOut,
};

use crate::{
    View, comparison,
    folded::{self, Column},
    number, table,
    words::{causes as words, objects},
};

/// Causes that the headline names, and names of who is behind each in the table.
const NAMED: usize = 3;
const OFFENDERS: usize = 5;

/// A change of a smaller share of the difference is not told one by one.
const TELLING: f64 = 0.01;

/// What the second column says.
const NOISE: &str = "±: two standard errors; a smaller change is noise.\n";

/// What the two sides are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sides {
    /// Typical and slow transactions of one run.
    OfRun,
    /// Typical transactions of two runs.
    OfRuns,
}

impl Sides {
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::OfRun => ["typical", "slow"],
            Self::OfRuns => ["first", "second"],
        }
    }
}

/// How much longer they took, and why; and which transactions were looked at.
pub fn headline(contrast: &Contrast, sides: Sides, what: &str, view: View) -> String {
    let [a, b] = contrast.sides.each_ref().map(|side| number::span(side.mean_ns));
    let by = number::span(contrast.difference_ns.unsigned_abs());
    let who = match sides {
        Sides::OfRun => format!("Slow transactions ({what})"),
        Sides::OfRuns => format!("Typical transactions ({what}) of the second run"),
    };
    let took = match contrast.difference_ns {
        _ if !contrast.differs => {
            let noise = number::span(contrast.error_ns.saturating_mul(2));
            format!("{who} took as long within ±{noise}: {a} → {b}")
        }
        0.. => format!("{who} took {by} longer, {a} → {b}{}", named(contrast)),
        _ => format!("{who} took {by} less, {a} → {b}{}", named(contrast)),
    };
    let looked_at = table::paragraph(&looked_at(&contrast.sides, sides), view);
    let left_out = contrast.left_out.iter().map(|left| table::paragraph(&left_out(left), view));
    table::paragraph(&took, view) + &looked_at + &left_out.collect::<String>()
}

/// What is different because one of the runs did not record it.
fn left_out(left: &LeftOut) -> String {
    let what = match left.events {
        "sched" => "who ran, was ready or waited is unknown",
        "block" => "waits for disks are waits for nothing that is known",
        "net" => "waits for the other ends of connections are waits for nothing that is known",
        _ => "what vCPUs were outside their guests is the guests' time",
    };
    format!("{}: there, {what}, and what differs by that says nothing", comparison::lacks(left))
}

/// What changed most in the direction of the difference, beyond noise: by kinds, so that a wait of many threads is not behind
/// what one of them did.
fn named(contrast: &Contrast) -> String {
    let same = |cause: &&Cause| cause.difference_ns.signum() == contrast.difference_ns.signum();
    let telling = |cause: &&Cause| cause.differs && share(contrast, cause.difference_ns) >= TELLING;
    let mut kinds: Vec<(DelayKind, Vec<&Cause>)> = Vec::new();
    for cause in contrast.causes.iter().filter(same).filter(telling) {
        match kinds.iter_mut().find(|(kind, _)| *kind == cause.delay.kind) {
            Some((_, causes)) => causes.push(cause),
            None => kinds.push((cause.delay.kind, vec![cause])),
        }
    }
    let sum = |causes: &[&Cause]| causes.iter().map(|cause| cause.difference_ns).sum::<i64>();
    kinds.sort_by_key(|(_, causes)| Reverse(sum(causes).unsigned_abs()));
    let one = |cause: &Cause| {
        format!("{} {}{}", words::delay(&cause.delay), change(cause.difference_ns), mostly_by(cause))
    };
    let told = kinds.iter().take(NAMED).map(|(kind, causes)| match &causes[..] {
        [cause] => one(cause),
        several => {
            let each: Vec<_> = several.iter().take(NAMED).map(|cause| one(cause)).collect();
            format!("{} {} ({})", words::delay_kind(*kind), change(sum(several)), each.join(", "))
        }
    });
    let told: Vec<_> = told.collect();
    if told.is_empty() { String::new() } else { format!(": {}", told.join("; ")) }
}

/// Who is behind most of a cause's change, if anybody is.
fn mostly_by(cause: &Cause) -> String {
    let most = |by: &&By| by.difference_ns.unsigned_abs() * 2 >= cause.difference_ns.unsigned_abs();
    let by = cause.by.first().filter(most);
    by.map_or_else(String::new, |by| format!(" by {}", objects::offender(&by.who)))
}

fn looked_at(of: &[Side; 2], sides: Sides) -> String {
    let [a, b] = of;
    let [first, second] = sides.names();
    let number =
        |side: &Side| format!("{} of {}", number::count(side.chosen), number::count(side.transactions));
    let all = |side: &Side| format!("p50 {}, p99 {}", number::span(side.p50_ns), number::span(side.p99_ns));
    match sides {
        Sides::OfRun => format!(
            "Means of {} ({second}, {}) and of {} ({first}, {}). All: {}",
            words::share(b.share),
            number(b),
            words::share(a.share),
            number(a),
            all(a)
        ),
        Sides::OfRuns => format!(
            "Means of {} of each run: {first} {}, {second} {}. All, {first}: {}; {second}: {}",
            words::share(a.share),
            number(a),
            number(b),
            all(a),
            all(b)
        ),
    }
}

/// What kept them, what changed most first: at most so many, all if none is given.
pub fn causes(contrast: &Contrast, sides: Sides, limit: Option<usize>, view: View) -> String {
    // Where the whole does not differ, shares say nothing.
    let telling = |cause: &&Cause| match contrast.differs {
        _ if limit.is_none() => true,
        true => share(contrast, cause.difference_ns).abs() >= TELLING,
        false => cause.differs,
    };
    let shown: Vec<&Cause> =
        contrast.causes.iter().filter(telling).take(limit.unwrap_or(usize::MAX)).collect();
    let mut text = if shown.is_empty() { String::new() } else { table(contrast, &shown, sides, view) };
    let left = contrast.causes.len() - shown.len();
    if left > 0 {
        let told: i64 = shown.iter().map(|cause| cause.difference_ns).sum();
        let rest = change(contrast.difference_ns.saturating_sub(told));
        let causes = number::counted(left as u64, "other cause", "other causes");
        text.push_str(&format!("{causes}: {rest} together; --all shows all\n"));
    }
    text
}

fn table(contrast: &Contrast, shown: &[&Cause], sides: Sides, view: View) -> String {
    let column = |of: &dyn Fn(&Cause) -> String| shown.iter().map(|cause| of(cause)).collect::<Vec<_>>();
    let noise = |cause: &Cause| number::span(cause.error_ns.saturating_mul(2));
    let mut about = vec![
        Column::numbers("Change", column(&|cause| change(cause.difference_ns))),
        Column::numbers("±", column(&noise)),
    ];
    if contrast.differs {
        let of = |cause: &Cause| number::percent(share(contrast, cause.difference_ns));
        about.push(Column::numbers("Share", column(&of)));
    }
    about.push(Column::numbers(arrow(sides), both(shown.iter().map(|cause| cause.ns))));
    let what = column(&|cause| table::unbroken(&format!("{}{}", words::delay(&cause.delay), by(cause))));
    folded::text(&about, &[Column::prose("Cause", what)], view) + NOISE
}

/// Who is behind a cause, by how much.
fn by(cause: &Cause) -> String {
    let telling = |ns: i64| ns.unsigned_abs() as f64 >= TELLING * cause.difference_ns.unsigned_abs() as f64;
    let by = cause.by.iter().filter(|by| by.difference_ns != 0 && telling(by.difference_ns)).take(OFFENDERS);
    let by: Vec<_> =
        by.map(|by| format!("{} {}", objects::offender(&by.who), change(by.difference_ns))).collect();
    if by.is_empty() { String::new() } else { format!("; by {}", by.join(", ")) }
}

/// What the time was spent on, by object and state: what changed, and what did not.
pub fn parts(contrast: &Contrast, sides: Sides, view: View) -> String {
    let column = |of: &dyn Fn(&Part) -> String| contrast.parts.iter().map(of).collect::<Vec<_>>();
    let about = [
        Column::numbers("Change", column(&|part| change(part.difference_ns))),
        Column::names("Domain", column(&|part| objects::domain(&part.such.domain).to_string())),
        Column::names("Object", column(&|part| objects::group(&part.such.group).to_string())),
        Column::names("State", column(&|part| part.such.spent.name().to_owned())),
    ];
    let times = both(contrast.parts.iter().map(|part| part.ns));
    let why = |part: &Part| {
        part.such.reason.as_ref().map_or_else(String::new, |why| words::reason(why).to_string())
    };
    let why = column(&why);
    let columns = [Column::numbers(arrow(sides), times), Column::prose("Why", why)];
    folded::text(&about, &columns, view)
}

fn arrow(sides: Sides) -> String {
    sides.names().join(" → ")
}

/// Times on either side.
fn both(ns: impl Iterator<Item = [u64; 2]>) -> Vec<String> {
    folded::arrows(&ns.map(|pair| pair.map(number::span)).collect::<Vec<_>>())
}

fn share(contrast: &Contrast, ns: i64) -> f64 {
    if contrast.difference_ns == 0 { 0.0 } else { ns as f64 / contrast.difference_ns as f64 }
}

fn change(ns: i64) -> String {
    let sign = match ns.signum() {
        0 => "±",
        1 => "+",
        _ => "-",
    };
    format!("{sign}{}", number::span(ns.unsigned_abs()))
}
