//! The page for a browser: a document, and the program of `web/` that shows it, in one file that needs
//! nothing else.
//!
//! [`contents`] is the document of a trace: what `flows`, `explain` and `compare` print with `--json`, as far as there is room, with
//! levels of detail of what there is too much of: the structures of `xweave_document::page`. Modules: `flows`, `transactions` (with `levels`: `grid`, `over_time`),
//! `machines`, `usage`, `variation` and `comparison` (with `contrast`) are its parts,
//! `findings` the answer in words. [`cost`] is the document of what instructions cost; `bounded` cuts lists so that either stays small, and `written` that what
//! is in it is never anything but text.

mod bounded;
mod comparison;
pub mod contents;
mod contrast;
pub mod cost;
mod findings;
mod flows;
mod grid;
mod levels;
mod machines;
mod over_time;
mod recording;
mod transactions;
mod usage;
mod variation;
mod written;

pub use contents::Contents;
use serde::Serialize;
use written::written;

/// What `make page` built of `web/`.
const PROGRAM: &str = include_str!("../../../web/dist/page.html");

/// Where the title and the document go: once each, in this order.
const TITLE: &str = "<title>xweave</title>";
const DOCUMENT: &str = "<script type=\"application/json\" id=\"document\">";

/// Writes the page of a document: a [`TracePage`](xweave_document::page::TracePage) or a
/// [`CostPage`](xweave_document::page::CostPage).
pub fn html(title: &str, document: &impl Serialize) -> String {
    fill(title, &written(document))
}

fn fill(title: &str, json: &str) -> String {
    let place = |mark: &str| PROGRAM.find(mark).map(|at| (at, at + mark.len()));
    let (Some((title_at, behind_title)), Some((_, document_at))) = (place(TITLE), place(DOCUMENT)) else {
        // The tests see that it has both.
        return PROGRAM.to_owned();
    };
    let title = format!("<title>{}</title>", escape(title));
    let parts =
        [&PROGRAM[..title_at], &*title, &PROGRAM[behind_title..document_at], json, &PROGRAM[document_at..]];
    parts.concat()
}

/// Names come from guests, who may call a process `<script>`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in xweave_text::printable(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
