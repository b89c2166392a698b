//! What it would give back to hold once what guests hold twice, and which memory KSM may merge.

use xweave_merge::{
    Estimate, Host,
    estimate::{OfFile, OfGuest},
    host::{Ksm, VmMemory},
};
use xweave_text::size;
use xweave_wire::pages::{LookedAt, PAGE};

use crate::{
    View,
    folded::{self, Column},
    number,
};

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
    for (guest, LookedAt { cut, .. }) in of.guests.iter().zip(looked_at) {
        if let Some(why) = cut {
            let line = format!(
                "{}: not all files were looked at: {why}. Name fewer folders (--include).",
                guest.name
            );
            text += &crate::table::paragraph(&line, view);
        }
    }
    text += &format!("\n{}", guests(&of.guests, view));
    if !of.by_file.is_empty() {
        text += &format!("\n{}", by_file(&of.by_file[..files.min(of.by_file.len())], view));
    }
    if of.by_file.len() > files {
        let more = number::counted((of.by_file.len() - files) as u64, "more file", "more files");
        text += &format!("… and {more}: --limit shows them\n");
    }
    text
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

fn by_file(all: &[OfFile], view: View) -> String {
    let column = |of: &dyn Fn(&OfFile) -> String| all.iter().map(of).collect();
    let path = |of: &OfFile| {
        let mut path = of.path.clone();
        xweave_text::cut(&mut path, PATH);
        path
    };
    let about = [Column::prose("File", column(&path))];
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
        0 => "This host runs no virtual machine that KVM's debugfs shows (/sys/kernel/debug/kvm).".to_owned(),
        vms => format!(
            "KSM may merge {} of the {} of memory that {}.",
            bytes(mergeable),
            bytes(held),
            number::counted(vms as u64, "virtual machine holds", "virtual machines hold")
        ),
    }];
    said.push(match of.ksm {
        None => "This kernel has no KSM: it was built without CONFIG_KSM.".to_owned(),
        Some(Ksm { run: 1, pages_sharing, .. }) => {
            format!("It is running, and has given back {}.", pages(pages_sharing))
        }
        Some(_) => "It is not running: echo 1 >/sys/kernel/mm/ksm/run starts it.".to_owned(),
    });
    if of.ksm.is_some_and(|ksm| !ksm.merge_across_nodes) {
        said.push("It merges pages of one NUMA node only (merge_across_nodes is 0).".to_owned());
    }
    let mut text: String = said.iter().map(|line| crate::table::paragraph(line, view)).collect();
    if !of.vms.is_empty() {
        text += &format!("\n{}", vms(&of.vms, view));
    }
    text
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
