//! What it would give back to hold once what guests hold twice.

use xweave_merge::{
    Estimate,
    estimate::{OfFile, OfGuest},
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

/// First the answer, then each guest's part, and the files that give back most.
pub fn estimate(of: &Estimate, looked_at: &[LookedAt], files: usize, view: View) -> String {
    let mut text = String::new();
    for line in said(of) {
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
