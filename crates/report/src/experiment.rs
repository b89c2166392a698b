//! What an experiment has shown: first what each setting changed, then the figures; and which knobs there are.

use xweave_record::DomainKnobs;
use xweave_text::argument;
use xweave_vary::experiment::{
    Evaluation,
    evaluate::{AWAKE, Change, Effect, ON_CPUS, Observed},
    shift::ENOUGH,
    stored::{Held, Value},
};

use crate::{
    View,
    folded::{self, Column},
    next,
    number::{count, counted, percent, span},
    table,
    words::causes,
};

/// Requests of a block below which its p99 is that of its slowest.
const HUNDRED: u64 = 100;

/// All of it. `dir` is the experiment's folder, as commands name it.
pub fn text(evaluation: &Evaluation, dir: &str, view: View) -> String {
    let mut text = String::new();
    for effect in &evaluation.effects {
        text += &table::paragraph(&headline(evaluation, effect), view);
    }
    for effect in &evaluation.effects {
        text += &format!("\n{}", figures(evaluation, effect, view));
        let observed: Vec<_> = effect.observed.iter().map(|observed| told(evaluation, observed)).collect();
        if !observed.is_empty() {
            text += &format!("\nAs recorded:\n{}", table::lines(&observed, view));
        }
    }
    let read = read_back(evaluation);
    if !read.is_empty() {
        text += &format!("\nAs the kernels read back what was set:\n{}", table::lines(&read, view));
    }
    text += "\n";
    for line in notes(evaluation, dir) {
        text += &table::paragraph(&line, view);
    }
    text
}

/// The knobs whose values differ, with both.
fn tried<'a>(evaluation: &'a Evaluation, effect: &Effect) -> Vec<(&'a Held, [String; 2])> {
    let experiment = &evaluation.experiment;
    let (first, other) = (&experiment.settings[0].values, &experiment.settings[effect.setting].values);
    let knobs = experiment.knobs.iter().zip(first.iter().zip(other));
    let differing = knobs.filter(|(_, (first, other))| first != other);
    let value = |held, value| Value { held, value }.to_string();
    differing.map(|(held, (first, other))| (held, [value(held, first), value(held, other)])).collect()
}

/// What is tried, without what stays: `halt_poll_ns@host 0 → 200000`.
fn name(evaluation: &Evaluation, effect: &Effect) -> String {
    let one = |(held, [first, other]): &(&Held, [String; 2])| format!("{} {first} → {other}", held.name());
    tried(evaluation, effect).iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What a setting changed, in a sentence.
fn headline(evaluation: &Evaluation, effect: &Effect) -> String {
    let name = name(evaluation, effect);
    let rounds = counted(effect.rounds as u64, "round", "rounds");
    let confidence = effect.p99.difference.confidence;
    let figures = [("p99", &effect.p99), ("p50", &effect.p50)];
    if effect.rounds + 1 < ENOUGH {
        let told = figures.map(|(what, change)| format!("{what} {}", relative(change)));
        return format!(
            "{name}: {rounds} cannot tell an effect from chance ({}). Give --rounds {ENOUGH} or more: intervals of 95 % \
             need them",
            told.join(", ")
        );
    }
    let mut told: Vec<String> = Vec::new();
    let (seen, unseen): (Vec<_>, Vec<_>) = figures.into_iter().partition(|(_, change)| change.is_seen());
    told.extend(seen.iter().map(|(what, change)| format!("{what} {}", relative(change))));
    if !unseen.is_empty() {
        let one = |(what, change): &(&str, &Change)| {
            let visible = change.ratio.map(|ratio| ratio.high.ln() / 2.0 - ratio.low.ln() / 2.0);
            let visible = visible.map_or_else(
                || span_of(change.difference.visible()),
                |visible| unsigned(visible.exp() - 1.0),
            );
            format!("{what} ({}; one of {visible} would have been)", interval(change))
        };
        told.push(format!(
            "no effect seen on {}",
            unseen.iter().map(one).collect::<Vec<_>>().join(" nor on ")
        ));
    }
    let cpus: Vec<_> = effect.cpus.iter().filter(|(_, change)| change.is_seen()).collect();
    told.extend(
        cpus.iter().map(|(domain, change)| format!("{domain} {} CPUs", cpus_of(change.difference.estimate))),
    );
    if cpus.is_empty() && !effect.cpus.is_empty() {
        told.push("CPU use as before".to_owned());
    }
    let no_effect = effect.observed.iter().filter(|observed| !observed.holds);
    told.extend(no_effect.map(|observed| format!("but {}: {}", observed.vm, short(observed))));
    format!("{name}: {}; {rounds}, {} intervals", told.join("; "), percent(confidence))
}

/// What an observation means, in few words.
fn short(observed: &Observed) -> &'static str {
    match observed.what {
        ON_CPUS => "not all of it ran where it was pinned to",
        _ => "the setting had no effect on its halts",
    }
}

/// `−38 % (−45 … −29 %)`.
fn relative(change: &Change) -> String {
    let estimate = change
        .ratio
        .map_or_else(|| signed_span(change.difference.estimate), |ratio| signed(ratio.estimate - 1.0));
    format!("{estimate} ({})", interval(change))
}

/// `−45 … −29 %`.
fn interval(change: &Change) -> String {
    match change.ratio {
        Some(ratio) => {
            let low = signed(ratio.low - 1.0);
            format!("{} … {}", low.trim_end_matches(" %"), signed(ratio.high - 1.0))
        }
        None => format!("{} … {}", signed_span(change.difference.low), signed_span(change.difference.high)),
    }
}

fn sign(of: f64) -> &'static str {
    if of < 0.0 { "−" } else { "+" }
}

/// With its sign, unless nothing is left of it.
fn with_sign(of: f64, text: &str) -> String {
    let is_none = !text.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    format!("{}{text}", if is_none { "" } else { sign(of) })
}

/// A change as a share: of less than a tenth, with a digit after the point.
fn signed(share: f64) -> String {
    with_sign(share, &unsigned(share))
}

fn unsigned(share: f64) -> String {
    let percents = 100.0 * share.abs();
    if percents < 9.95 { format!("{percents:.1} %") } else { format!("{percents:.0} %") }
}

fn span_of(ns: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float's conversion saturates"
    )]
    let ns = ns.abs().round() as u64;
    span(ns)
}

fn signed_span(ns: f64) -> String {
    with_sign(ns, &span_of(ns))
}

fn cpus_of(cpus: f64) -> String {
    with_sign(cpus, &format!("{:.2}", cpus.abs()))
}

/// The figures of a setting, beside those of the first.
fn figures(evaluation: &Evaluation, effect: &Effect, view: View) -> String {
    let ns = |change: &Change| {
        let Change { first, other, difference, .. } = *change;
        let interval = format!("{} … {}", signed_span(difference.low), signed_span(difference.high));
        [span_of(first), span_of(other), signed_span(difference.estimate), interval]
    };
    let cpus = |change: &Change| {
        let Change { first, other, difference, .. } = *change;
        let interval = format!("{} … {}", cpus_of(difference.low), cpus_of(difference.high));
        [format!("{first:.2}"), format!("{other:.2}"), cpus_of(difference.estimate), interval]
    };
    let transaction = &evaluation.chosen.spec;
    let mut rows = vec![
        (format!("{transaction}, p99"), &effect.p99, ns(&effect.p99)),
        (format!("{transaction}, p50"), &effect.p50, ns(&effect.p50)),
        (format!("{transaction}, mean"), &effect.mean, ns(&effect.mean)),
    ];
    rows.extend(
        effect
            .causes
            .iter()
            .map(|(delay, change)| (format!("  {}", causes::delay(delay)), change, ns(change))),
    );
    rows.extend(
        effect.cpus.iter().map(|(domain, change)| (format!("CPUs busy in {domain}"), change, cpus(change))),
    );
    let column = |at: usize| rows.iter().map(|row| row.2[at].clone()).collect::<Vec<String>>();
    let seen = |change: &Change| if change.is_seen() { "yes" } else { "no" }.to_owned();
    // What one knob is set to stands above the figures; of several it would be too long.
    let (about, [first, other]) = match &*tried(evaluation, effect) {
        [(held, values)] => (held.name(), values.clone()),
        _ => (name(evaluation, effect), ["First", "Other"].map(str::to_owned)),
    };
    let about = [Column::names(about, rows.iter().map(|row| row.0.clone()).collect())];
    let columns = [
        Column::numbers(first, column(0)),
        Column::numbers(other, column(1)),
        Column::numbers("Difference", column(2)),
        Column::numbers(format!("{} interval", percent(effect.p99.difference.confidence)), column(3)),
        Column::names("Seen", rows.iter().map(|row| seen(row.1)).collect()),
    ];
    folded::text(&about, &columns, view)
}

/// What events show of a setting.
fn told(evaluation: &Evaluation, observed: &Observed) -> (String, String) {
    let Observed { knob, vm, what, first, other, note, .. } = observed;
    let figure = |of: f64| if matches!(*what, AWAKE | ON_CPUS) { unsigned(of) } else { format!("{of:.1}") };
    let note = note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    let knob = &evaluation.experiment.knobs[*knob].knob;
    (vm.clone(), format!("{what} ({knob}): {} → {}{note}", figure(*first), figure(*other)))
}

/// What was read back of knobs of which events show nothing.
fn read_back(evaluation: &Evaluation) -> Vec<(String, String)> {
    let is_shown = |place: usize| {
        evaluation.effects.iter().flat_map(|effect| &effect.observed).any(|observed| observed.knob == place)
    };
    let knobs = evaluation.experiment.knobs.iter().enumerate().filter(|(place, _)| !is_shown(*place));
    let one = |(_, held): (usize, &Held)| {
        let same = |read: &&Held| (read.knob, &read.domain, &read.vm) == (held.knob, &held.domain, &held.vm);
        let blocks = evaluation.blocks.iter().map(|looked| &looked.block);
        let mut read: Vec<&str> =
            blocks.flat_map(|block| block.read.iter().filter(same)).map(|read| &*read.now).collect();
        read.sort_unstable();
        let times = read.len();
        read.dedup();
        let told = format!("{} in {}", read.join(", "), counted(times as u64, "block", "blocks"));
        (times > 0).then(|| (held.name(), told))
    };
    knobs.filter_map(one).collect()
}

/// What is to be known besides.
fn notes(evaluation: &Evaluation, dir: &str) -> Vec<String> {
    let (experiment, spec) = (&evaluation.experiment, evaluation.chosen.spec.to_string());
    let measured = || evaluation.blocks.iter().filter_map(|looked| looked.measured.as_ref().ok());
    let mut notes = Vec::new();
    for looked in &evaluation.blocks {
        if let Err(why) = &looked.measured {
            notes.push(format!("Not counted, with its round: block {}: {why}", looked.block.number));
        }
    }
    let few = measured().map(|measured| measured.requests).min().unwrap_or(0);
    if (1..HUNDRED).contains(&few) {
        let few = counted(few, "transaction", "transactions");
        notes.push(format!("Blocks have {few} at least: with fewer than {HUNDRED}, p99 is the slowest one"));
    }
    let lost = measured().map(|measured| measured.lost).fold(0, u64::saturating_add);
    if lost > 0 {
        notes.push(format!("{} were lost: figures are too low", counted(lost, "record", "records")));
    }
    let transactions = measured().map(|measured| measured.requests).fold(0, u64::saturating_add);
    notes.push(format!(
        "{} of the kind {} in {} of {}, in an order drawn with --seed {}. One of them: xweave explain {dir}/block-1 \
         --transaction {}",
        count(transactions),
        spec,
        counted(measured().count() as u64, "block", "blocks"),
        counted(u64::from(experiment.rounds), "round", "rounds"),
        experiment.seed,
        argument(&spec),
    ));
    notes.extend(next::other_services(&evaluation.chosen));
    notes
}

/// Which knobs there are, how they stand, and why some cannot be set.
pub fn knobs(domains: &[DomainKnobs], view: View) -> String {
    let rows: Vec<[String; 4]> = domains
        .iter()
        .flat_map(|domain| domain.knobs.iter().map(move |state| (domain, state)))
        .map(|(domain, state)| {
            let vm = state.vm.iter().map(|vm| format!(":{vm}")).collect::<String>();
            let can = if state.unavailable.is_none() { "yes" } else { "no" }.to_owned();
            let about = match (&state.unavailable, &*state.choices) {
                (Some(why), _) => why.clone(),
                (None, []) => String::new(),
                (None, choices) => format!("one of {}", choices.join(", ")),
            };
            [format!("{}@{}{vm}", state.knob, domain.domain), state.value.clone(), can, about]
        })
        .collect();
    let column = |at: usize| rows.iter().map(|row| row[at].clone()).collect();
    let about = [Column::names("Knob", column(0))];
    let columns = [
        Column::numbers("Now", column(1)),
        Column::names("Can be set", column(2)),
        Column::prose("", column(3)),
    ];
    folded::text(&about, &columns, view)
}
