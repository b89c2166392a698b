//! What it would give back to hold once what guests hold twice, what merging it has given back, and which memory KSM may merge.

use xweave_merge::{
    Estimate, Host, Outcome, Status,
    estimate::{OfFile, OfGuest},
    host::{Ksm, VmMemory},
    outcome,
    release::Released,
    reserve::{Event, State},
    status::OfVm,
    ways::Way,
};
use xweave_text::size;
use xweave_wire::pages::{LookedAt, PAGE};

use crate::{
    View,
    folded::{self, Column},
    number,
};

const NO_VMS: &str = "This host runs no virtual machine that KVM's debugfs shows (/sys/kernel/debug/kvm).";

/// What stays of `--numa-local`, told when it ends.
pub const STAYS_WITHIN: &str = "KSM goes on merging within NUMA nodes only (merge_across_nodes is 0), as the kernel changes \
    that only while nothing is merged: xweave merge release puts it back when nothing is any more, or xweave doctor";

/// The most bytes of a path: guests may call files anything.
const PATH: usize = 160;

/// First the answer, then each guest's part, and the files that give back most: so many. Of each guest: what was looked at,
/// and whether KSM may merge most of its memory, if that is known.
pub fn estimate(
    of: &Estimate,
    looked_at: &[LookedAt],
    may_merge: &[Option<bool>],
    files: usize,
    view: View,
) -> String {
    let mut text = String::new();
    for line in said(of) {
        text += &crate::table::paragraph(&line, view);
    }
    let guests_with = of.guests.iter().zip(may_merge);
    let barred: Vec<&str> =
        guests_with.filter(|(_, may)| **may == Some(false)).map(|(guest, _)| &*guest.name).collect();
    if !barred.is_empty() {
        let line = format!(
            "KSM may not merge most memory of {} as it runs now: xweave merge doctor says why.",
            barred.join(", ")
        );
        text += &crate::table::paragraph(&line, view);
    }
    text += &not_all(of.guests.iter().map(|guest| &*guest.name), looked_at, view);
    text += &format!("\n{}", guests(&of.guests, view));
    if !of.by_file.is_empty() {
        text += &format!("\n{}", by_file(&of.by_file[..files.min(of.by_file.len())], view));
    }
    text + &more(of.by_file.len(), files)
}

/// Of which guests not all files were looked at, and why.
fn not_all<'n>(guests: impl Iterator<Item = &'n str>, looked_at: &[LookedAt], view: View) -> String {
    let line = |(name, LookedAt { cut, .. }): (&str, &LookedAt)| {
        let why = cut.as_ref()?;
        let line = format!("{name}: not all files were looked at: {why}. Name fewer folders (--include).");
        Some(crate::table::paragraph(&line, view))
    };
    guests.zip(looked_at).filter_map(line).collect()
}

/// That there are more files than are shown.
fn more(all: usize, shown: usize) -> String {
    if all <= shown {
        return String::new();
    }
    let more = number::counted((all - shown) as u64, "more file", "more files");
    format!("… and {more}: --limit shows them\n")
}

/// First what was given back, and what it took; then each guest's part, and the files that gave back most: so many.
pub fn outcome(of: &Outcome, looked_at: &[LookedAt], files: usize, view: View) -> String {
    let mut text: String =
        said_of_outcome(of).iter().map(|line| crate::table::paragraph(line, view)).collect();
    text += &not_all(of.guests.iter().map(|guest| &*guest.name), looked_at, view);
    let column = |of_guest: &dyn Fn(&outcome::OfGuest) -> String| of.guests.iter().map(of_guest).collect();
    let about = [Column::names("Guest", column(&|of| of.name.clone()))];
    let columns = [
        Column::numbers("Cached", column(&|of| pages(of.hinted))),
        Column::numbers("Others hold too", column(&|of| pages(of.shared))),
        Column::numbers("Marked", column(&|of| pages(of.marked.pages))),
        Column::numbers("Merged", column(&|of| pages(of.merged))),
    ];
    text += &format!("\n{}", folded::text(&about, &columns, view));
    let shown = &of.files[..files.min(of.files.len())];
    if !shown.is_empty() {
        let column = |of: &dyn Fn(&outcome::OfFile) -> String| shown.iter().map(of).collect();
        let about = [Column::prose("File", column(&|of| path(&of.path)))];
        let columns = [
            Column::numbers("Held by several", column(&|of| pages(of.shared))),
            Column::numbers("Given back", column(&|of| pages(of.saved))),
        ];
        text += &format!("\n{}", folded::text(&about, &columns, view));
    }
    text + &more(of.files.len(), files)
}

/// That so many bytes are available, and no less than are enough: nothing is to be given back.
pub fn plenty(available: u64, enough: u64) -> String {
    let [available, enough] = [available, enough].map(|bytes| size(bytes as f64));
    format!("{available} of memory are available: nothing is merged until it is less than {enough}")
}

/// What was given back, in a line: where it is done again and again.
pub fn line(of: &Outcome) -> String {
    let waits = match of.taken.made {
        0 if !of.is_enough() => ": no pass of KSM is worth it yet",
        _ => "",
    };
    let reserve = of.reserve.map_or_else(String::new, |State { wanted, held, .. }| {
        format!("; {} of {} held in reserve", size(held as f64), size(wanted as f64))
    });
    format!(
        "{} given back, {} of it now; {} of the {} that several hold is merged{waits}{reserve}",
        pages(of.saved),
        pages(of.saved.saturating_sub(of.saved_before)),
        pages(of.merged),
        pages(of.shared)
    )
}

/// What happens to the reserve, in a line.
pub fn event(of: &Event) -> String {
    match of {
        Event::LetGo(bytes) => {
            format!("memory is short: the {} held in reserve are let go", size(*bytes as f64))
        }
        Event::Untold(why) => format!(
            "the kernel does not tell when memory gets short ({why}; psi=1 has it do so): it is looked each second what is \
             available"
        ),
    }
}

/// What was held for what guests write to, at the end.
fn said_of_reserve(State { wanted, held, let_go, times }: State) -> String {
    let [wanted, held, let_go] = [wanted, held, let_go].map(|bytes| size(bytes as f64));
    let mut said = format!(
        "{held} of the {wanted} wanted were held in reserve for what guests write to, and are let go now."
    );
    if times > 0 {
        let times = number::counted(times, "time", "times");
        said += &format!(" Memory got short {times}, for which {let_go} were let go.");
    }
    said
}

fn said_of_outcome(of: &Outcome) -> Vec<String> {
    let apart: u64 = of.guests.iter().map(|of| of.apart).sum();
    let apart = (apart > 0).then(|| {
        format!(
            "{} that several hold is left, as it is on other NUMA nodes: KSM merges within nodes only (merge_across_nodes is 0).",
            pages(apart)
        )
    });
    if of.shared == 0 {
        let on = if apart.is_some() { " on the same NUMA node" } else { "" };
        let mut said = vec![format!(
            "No two of these guests hold the same page of a file{on}, as far as it is known where: there is nothing to merge."
        )];
        said.extend(apart);
        return said;
    }
    let mut said = vec![format!(
        "{} of memory given back: {} of the {} that several of these guests hold of the same files is merged.",
        pages(of.saved),
        pages(of.merged),
        pages(of.shared),
    )];
    if of.saved_before > 0 {
        said.push(format!("{} of that had been given back before.", pages(of.saved_before)));
    }
    if of.taken.cut {
        said.push("It was ended before KSM was through with them.".to_owned());
    }
    let ratio = |of: Option<f64>| of.map_or_else(|| "none".to_owned(), |of| format!("{of:.2}"));
    said.push(match of.taken.made {
        0 if of.is_enough() => "KSM was not made to look: nearly all of it is merged already.".to_owned(),
        0 => "KSM was not made to look: what is new was not worth a pass yet.".to_owned(),
        made => format!(
            "KSM visited {} in {}, with {:.2} s of CPU time: {} pages given back for each visit, {} for each that did not \
             only take a checksum.",
            number::counted(of.taken.visited, "page", "pages"),
            number::counted(made, "pass", "passes"),
            of.taken.ksmd.as_secs_f64(),
            ratio(of.saved_per_visit()),
            ratio(of.saved_per_productive_visit()),
        ),
    });
    said.extend(of.waited.map(|waited| {
        format!("It was merged within {:.1} s of when the guests told of it.", waited.as_secs_f64())
    }));
    said.extend(apart);
    let lost: u64 = of.guests.iter().map(|of| of.lost).sum();
    if lost > 0 {
        said.push(format!(
            "{} left out, as it is not known where they are: they had gone, or the guest said what is not its memory.",
            number::counted(lost, "page was", "pages were")
        ));
    }
    let by = |way: Way| {
        let of: Vec<&str> = of.guests.iter().filter(|of| of.marked.way == way).map(|of| &*of.name).collect();
        (!of.is_empty()).then(|| format!("of {} {}", of.join(", "), way.words()))
    };
    let marked: Vec<String> = Way::ALL.into_iter().filter_map(by).collect();
    if !marked.is_empty() {
        said.push(format!(
            "Memory was marked for KSM: {}. It stays so, and KSM's settings are as they were before: what is merged stays so \
             until it is written to.",
            marked.join("; ")
        ));
    }
    said.extend(of.reserve.map(said_of_reserve));
    said
}

fn said(of: &Estimate) -> Vec<String> {
    if of.hinted == 0 {
        return vec!["None of these guests has pages of such files in its page cache.".to_owned()];
    }
    if of.saved == 0 {
        return vec![
            "No two of these guests hold the same page of a file: there is nothing to give back.".to_owned(),
        ];
    }
    let mut said = vec![format!(
        "{} would be given back if pages of the same files were held once: {} of the {} that these guests have cached of \
         the files looked at.",
        pages(of.saved),
        number::percent(of.saved as f64 / of.hinted as f64),
        pages(of.hinted)
    )];
    if let Some(compared) = of.compared {
        said.push(format!(
            "{} of that is equal indeed, page by page. All equal pages, whatever files they are of, would give back {}: \
             the same files are {} of that.",
            number::percent(compared.equal as f64 / of.saved as f64),
            pages(compared.all),
            number::percent(compared.equal as f64 / compared.all.max(1) as f64)
        ));
    }
    said
}

fn pages(count: u64) -> String {
    size(count.saturating_mul(PAGE) as f64)
}

fn guests(all: &[OfGuest], view: View) -> String {
    let column = |of: &dyn Fn(&OfGuest) -> String| all.iter().map(of).collect();
    let about = [Column::names("Guest", column(&|of| of.name.clone()))];
    let columns = [
        Column::numbers("Files", column(&|of| number::count(of.files))),
        Column::numbers("Cached", column(&|of| pages(of.hinted))),
        Column::numbers("Others hold too", column(&|of| pages(of.shared))),
        Column::numbers("Would give back", column(&|of| size(of.saved_bytes as f64))),
    ];
    folded::text(&about, &columns, view)
}

/// A path, as long as there is room for.
fn path(of: &str) -> String {
    let mut path = of.to_owned();
    xweave_text::cut(&mut path, PATH);
    path
}

fn by_file(all: &[OfFile], view: View) -> String {
    let column = |of: &dyn Fn(&OfFile) -> String| all.iter().map(of).collect();
    let about = [Column::prose("File", column(&|of| path(&of.path)))];
    let mut columns = vec![
        Column::numbers("Guests", column(&|of| number::count(of.guests))),
        Column::numbers("Held by several", column(&|of| pages(of.pages))),
        Column::numbers("Would give back", column(&|of| pages(of.saved))),
    ];
    if all.iter().any(|of| of.equal.is_some()) {
        let share = |of: &OfFile| {
            of.equal.map_or_else(String::new, |equal| number::percent(equal as f64 / of.saved as f64))
        };
        columns.push(Column::numbers("Equal", column(&share)));
    }
    folded::text(&about, &columns, view)
}

/// First how much KSM may merge, and whether it runs; then each virtual machine with what keeps KSM from its memory.
pub fn host(of: &Host, view: View) -> String {
    let (held, mergeable) = of.held();
    let bytes = |bytes: u64| size(bytes as f64);
    let mut said = vec![match of.vms.len() {
        0 => NO_VMS.to_owned(),
        vms => format!(
            "KSM may merge {} of the {} of memory that {}.",
            bytes(mergeable),
            bytes(held),
            number::counted(vms as u64, "virtual machine holds", "virtual machines hold")
        ),
    }];
    said.push(runs(of.ksm));
    said.extend(of.ksm.map(across));
    let mut text: String = said.iter().map(|line| crate::table::paragraph(line, view)).collect();
    if !of.vms.is_empty() {
        text += &format!("\n{}", vms(&of.vms, view));
    }
    text
}

/// Whether KSM merges pages of several NUMA nodes.
fn across(Ksm { merge_across_nodes, nodes, .. }: Ksm) -> String {
    match (nodes, merge_across_nodes) {
        (..=1, true) => "This host has one NUMA node.".to_owned(),
        (..=1, false) => "This host has one NUMA node; on more, KSM would merge within each only (merge_across_nodes is 0).".to_owned(),
        (nodes, true) => format!("This host has {nodes} NUMA nodes, and KSM merges across them (merge_across_nodes is 1)."),
        (nodes, false) => {
            format!("This host has {nodes} NUMA nodes, and KSM merges within each only (merge_across_nodes is 0).")
        }
    }
}

/// Whether KSM runs.
fn runs(ksm: Option<Ksm>) -> String {
    match ksm {
        None => "This kernel has no KSM: it was built without CONFIG_KSM.".to_owned(),
        Some(Ksm { run: 1, pages_sharing, .. }) => {
            format!("KSM is running, and has given back {}.", pages(pages_sharing))
        }
        // It did run, or others merged by it, as `xweave merge` does.
        Some(Ksm { run: 0, pages_sharing: pages_sharing @ 1.., .. }) => format!(
            "KSM scans nothing by itself, which what xweave merges does not need; it has given back {}.",
            pages(pages_sharing)
        ),
        Some(_) => "KSM is not running: echo 1 >/sys/kernel/mm/ksm/run starts it.".to_owned(),
    }
}

fn vms(all: &[VmMemory], view: View) -> String {
    /// A machine's first row has its name and sums; each thing that keeps KSM from its memory has one.
    type Row = [String; 5];
    let bytes = |bytes: u64| size(bytes as f64);
    let mut rows: Vec<Row> = Vec::new();
    for vm in all {
        let mut of = [format!("{} ({})", vm.name, vm.pid), bytes(vm.held()), bytes(vm.mergeable)];
        let mut kept: Vec<[String; 2]> = (vm.kept.iter())
            .map(|kept| [format!("{}: {}", bytes(kept.bytes), kept.why.reason()), kept.why.fix().to_owned()])
            .collect();
        if kept.is_empty() {
            kept.push([String::new(), String::new()]);
        }
        for [why, fix] in kept {
            let [name, held, mergeable] = std::mem::take(&mut of);
            rows.push([name, held, mergeable, why, fix]);
        }
    }
    let column = |at: usize| rows.iter().map(|row| row[at].clone()).collect();
    let about = [Column::names("VM", column(0))];
    let columns = [
        Column::numbers("Holds", column(1)),
        Column::numbers("May be merged", column(2)),
        Column::prose("May not", column(3)),
        Column::prose("Fix", column(4)),
    ];
    folded::text(&about, &columns, view)
}

/// First how much is given back, and whether KSM runs; then what is merged of each virtual machine.
pub fn status(of: &Status, view: View) -> String {
    let mut said = vec![format!("{} of memory is given back.", pages(of.saved)), runs(of.ksm)];
    if of.saved > 0 {
        let enough = of.available / PAGE > of.saved;
        said.push(format!(
            "If guests wrote to all of it at once, it would be needed again: {}{} of this host is available{}.",
            if enough { "" } else { "only " },
            size(of.available as f64),
            if enough { "" } else { ", it would swap or run out of memory" }
        ));
    }
    let mut text: String = said.iter().map(|line| crate::table::paragraph(line, view)).collect();
    if of.vms.is_empty() {
        return text + &crate::table::paragraph(NO_VMS, view);
    }
    let column = |of_vm: &dyn Fn(&OfVm) -> String| of.vms.iter().map(of_vm).collect();
    let about = [Column::names("VM", column(&|vm| format!("{} ({})", vm.name, vm.pid)))];
    let columns = [
        Column::numbers("Holds", column(&|vm| size(vm.held as f64))),
        Column::numbers("Marked", column(&|vm| size(vm.marked as f64))),
        Column::numbers("Merged", column(&|vm| pages(vm.merged))),
    ];
    text += &format!("\n{}", folded::text(&about, &columns, view));
    text
}

/// A line for each virtual machine that was released, with the size of its merged memory.
pub fn released(all: &[Released], view: View) -> String {
    let line = |Released { vm, merged }: &Released| {
        let line = match merged {
            0 => format!("Nothing of {} was merged.", vm.name),
            merged => format!("{} of {} that was merged is its own again.", pages(*merged), vm.name),
        };
        crate::table::paragraph(&line, view)
    };
    all.iter().map(line).collect()
}
