//! A page for a browser: self-contained, without scripts, light or dark as the reader's system is.

use std::fmt::Write as _;

use xweave_flow::{Flow, Flows, Segment};

use crate::{closing, hops, number, segments};

/// Kinds of flow that have a table: those that most flows are of.
const KINDS: usize = 20;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #e0e1e6; --paper: #fcfcfd;
  --card: #fff; --main: #0588f0; --side: #b9bbc6; --warn: #ab6400; --warn-paper: #fff7c2; }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #b0b4ba; --line: #363a3f;
  --paper: #111113; --card: #18191b; --main: #3b9eff; --side: #5a6169; --warn: #ffca16; --warn-paper: #302008; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 1.25rem; } h2 { font-size: 1.15rem; margin: 2.25rem 0 .35rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .35rem; }
p { margin: 0 0 .75rem; color: var(--soft); max-width: 46rem; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .75rem; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem; }
.facts b { display: block; font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.facts span { color: var(--soft); font-size: .85rem; }
.remarks { margin: 1rem 0 0; padding: .7rem 1rem .7rem 2rem; border-radius: .6rem; color: var(--warn);
  background: var(--warn-paper); }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; }
table { border-collapse: collapse; width: 100%; font-size: .87rem; }
th, td { padding: .38rem .8rem; text-align: left; white-space: nowrap; border-top: 1px solid var(--line); }
thead th { border-top: 0; color: var(--soft); font-weight: 600; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.code { font-family: ui-monospace, monospace; font-size: .82rem; }
tr.off td { color: var(--soft); } tr.cross td { border-top: 2px dashed var(--main); }
.bar { display: inline-block; vertical-align: middle; height: .7rem; min-width: 1px; border-radius: .2rem;
  background: var(--main); }
td.share { min-width: 14rem; } td.share span { color: var(--soft); margin-left: .4rem; font-size: .8rem; }
.strip { display: flex; height: 1.6rem; border-radius: .4rem; overflow: hidden; margin: .75rem 0; gap: 1px; }
.strip i { background: var(--main); } .strip i:nth-child(even) { opacity: .62; } .strip i.cross { background: var(--warn); }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .8rem; }
";

/// The page of a trace: what was followed, a typical flow, and where the time of all goes.
pub fn page(flows: &Flows, title: &str) -> String {
    let mut page = String::new();
    let title = escape(title);
    page.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    // There are neither scripts nor anything from elsewhere: were a name to bring some in, a browser would not take it.
    page.push_str("<meta http-equiv=\"Content-Security-Policy\" ");
    page.push_str("content=\"default-src 'none'; style-src 'unsafe-inline'\">\n");
    push(
        &mut page,
        format_args!("<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"),
    );
    push(&mut page, format_args!("<h1>{title}</h1>\n"));
    summary(&mut page, flows);
    segment_tables(&mut page, flows);
    if let Some(flow) = flows.typical() {
        hop_table(&mut page, flows, flow);
    }
    push(&mut page, format_args!("<footer>xweave {}</footer>\n", env!("CARGO_PKG_VERSION")));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn summary(page: &mut String, flows: &Flows) {
    let summary = flows.summary();
    let error = match summary.clock_error_ns {
        u64::MAX => "unknown".to_owned(),
        error => number::span(error),
    };
    let facts = [
        ("flows followed", number::count(summary.flows)),
        ("complete", number::count(summary.complete)),
        ("crossed a boundary", number::count(summary.crossed)),
        ("records", number::count(summary.records)),
        ("records lost", number::count(summary.lost)),
        ("negative gaps", number::count(summary.negative_gaps)),
        ("clock error", error),
    ];
    page.push_str("<div class=\"facts\">\n");
    for (name, value) in facts {
        push(page, format_args!("<div><b>{value}</b><span>{name}</span></div>\n"));
    }
    page.push_str("</div>\n");
    let remarks = closing::remarks(summary);
    if !remarks.is_empty() {
        page.push_str("<ul class=\"remarks\">\n");
        for remark in remarks {
            push(page, format_args!("<li>{}</li>\n", escape(&remark)));
        }
        page.push_str("</ul>\n");
    }
}

fn segment_tables(page: &mut String, flows: &Flows) {
    if flows.segments().is_empty() {
        return;
    }
    page.push_str(
        "<h2>Where the time goes</h2>\n<p>Time between each two consecutive steps, by kind of flow. ",
    );
    page.push_str("Bars show a step's share of the sum of the medians on the kind's commonest path.</p>\n");
    for kind in flows.kinds().iter().take(KINDS) {
        let flows_of = number::counted(kind.flows, "flow", "flows");
        push(page, format_args!("<h3>{}: {flows_of}</h3>\n", escape(&kind.name)));
        segment_table(page, flows.segments_of(kind));
    }
    let left = flows.kinds().len().saturating_sub(KINDS);
    if left > 0 {
        let left = number::counted(left as u64, "other kind", "other kinds");
        push(
            page,
            format_args!("<p>{left} of flow: <code>xweave flows --all --steps</code> shows them.</p>\n"),
        );
    }
}

fn segment_table(page: &mut String, all: &[Segment]) {
    let shares = segments::shares(all);
    page.push_str("<div class=\"strip\">");
    for (segment, share) in all.iter().zip(&shares) {
        let Some(share) = share else { continue };
        let class = if crosses(segment) { " class=\"cross\"" } else { "" };
        let (from, to) = (escape(&segment.from), escape(&segment.to));
        let median = number::micros(segment.p50_ns);
        push(
            page,
            format_args!("<i{class} style=\"flex:{share:.5}\" title=\"{from} → {to}: {median} µs\"></i>"),
        );
    }
    page.push_str("</div>\n<div class=\"scroll\"><table>\n<thead><tr><th>From</th><th>To</th><th class=\"n\">Count</th>");
    for name in ["min", "p50", "p99", "max"] {
        push(page, format_args!("<th class=\"n\">{name} (µs)</th>"));
    }
    page.push_str("<th>Share</th></tr></thead>\n<tbody>\n");
    for (segment, share) in all.iter().zip(shares) {
        let class = if segment.main { "" } else { " class=\"off\"" };
        let (from, to) = (escape(&segment.from), escape(&segment.to));
        push(page, format_args!("<tr{class}><td class=\"code\">{from}</td><td class=\"code\">{to}</td>"));
        push(page, format_args!("<td class=\"n\">{}</td>", number::count(segment.count)));
        for ns in [segment.min_ns, segment.p50_ns, segment.p99_ns, segment.max_ns] {
            push(page, format_args!("<td class=\"n\">{}</td>", number::micros(ns)));
        }
        match share.map(|share| share * 100.0) {
            Some(share) => push(
                page,
                format_args!(
                    "<td class=\"share\"><i class=\"bar\" style=\"width:{:.1}%\"></i><span>{share:.0} %</span></td>",
                    share * 0.75
                ),
            ),
            None => page.push_str("<td></td>"),
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn hop_table(page: &mut String, flows: &Flows, flow: &Flow) {
    page.push_str("<h2>A typical flow</h2>\n");
    push(page, format_args!("<p>{}</p>\n", escape(&hops::title(flow))));
    page.push_str("<div class=\"scroll\"><table>\n<thead><tr><th class=\"n\">Time (µs)</th><th>Domain</th><th>Source</th>");
    page.push_str(
        "<th>Function</th><th>Kind</th><th class=\"n\">CPU</th><th>Process</th></tr></thead>\n<tbody>\n",
    );
    for hop in flows.hops(flow) {
        let class = match (hop.on_path, hop.kind) {
            (false, _) => " class=\"off\"",
            (true, "xout") => " class=\"cross\"",
            _ => "",
        };
        let time = number::micros(hop.t_ns.saturating_sub(flow.start_ns));
        push(page, format_args!("<tr{class}><td class=\"n\">{time}</td><td>{}</td>", escape(hop.domain)));
        push(page, format_args!("<td class=\"code\">{}</td>", escape(&hops::place(&hop))));
        push(page, format_args!("<td class=\"code\">{}</td><td>{}</td>", escape(&hop.function), hop.kind));
        push(
            page,
            format_args!("<td class=\"n\">{}</td><td>{}/{}</td></tr>\n", hop.cpu, escape(&hop.comm), hop.tid),
        );
    }
    page.push_str("</tbody>\n</table></div>\n");
}

/// Whether a segment leads from one domain to another.
fn crosses(segment: &Segment) -> bool {
    segment.from.split(':').next() != segment.to.split(':').next()
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = page.write_fmt(text);
}

/// Names come from guests, who may call a process `<script>`.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
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
