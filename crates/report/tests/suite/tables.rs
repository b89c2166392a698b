//! Tables and page of a made-up trace.

use crate::made_up;
use xweave_flow::Flows;
use xweave_report::{View, closing, hops, hops::Steps, segments};
use xweave_trace::{Trace, Writer};
use xweave_wire::record::{Kind, Record};

const PLAIN: View = View { width: 140, color: false };

fn flows(lines: bool) -> (tempfile::TempDir, Flows) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let flows = Flows::of(&made_up::write(dir.path(), 100, lines));
    (dir, flows)
}

#[test]
fn hops_are_shown_as_in_the_paper() {
    let (_dir, flows) = flows(true);
    let flow = flows.typical().unwrap();
    let text = hops::table(&flows, flow, Steps::All, PLAIN);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][0], "virtio_tx");
    assert_eq!(lines[1], ["Time", "(µs)", "+µs", "Domain", "Source", "Function", "Kind", "Process", "CPU"]);
    assert_eq!(lines[2][..6], ["0.0", "0.0", "vm1", "net/core/skbuff.c:661", "__alloc_skb", "start"]);
    assert_eq!(
        lines[7][2..],
        ["host", "drivers/vhost/vhost.c:2490", "vhost_get_vq_desc", "xout", "vhost-4002/100", "1"]
    );
    assert_eq!(lines.len(), 2 + 13);
}

#[test]
fn a_narrow_terminal_leaves_columns_out_and_breaks_no_line() {
    let (_dir, flows) = flows(true);
    let flow = flows.typical().unwrap();
    for width in [60, 80, 100] {
        let text = hops::table(&flows, flow, Steps::All, View { width, color: false });
        assert!(!text.contains("Process"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
        let text = segments::table(flows.segments(), View { width, color: false });
        assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
    }
}

#[test]
fn without_debug_information_functions_stand_alone() {
    let (_dir, flows) = flows(false);
    let text = hops::table(&flows, flows.typical().unwrap(), Steps::OfPath, PLAIN);
    assert!(!text.contains("Source") && text.contains("tun_get_user"), "{text}");
}

#[test]
fn segments_have_bars_that_add_up() {
    let (_dir, flows) = flows(true);
    let shares: f64 = segments::shares(flows.segments()).iter().flatten().sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let text = segments::table(flows.segments(), PLAIN);
    assert!(text.lines().any(|line| line.contains("host:tun_get_user") && line.contains('█')), "{text}");
    assert_eq!(segments::table(&[], PLAIN), "");
}

#[test]
fn what_is_missing_is_said() {
    let (_dir, flows) = flows(true);
    let text = closing::line(flows.summary(), PLAIN);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("100 flows followed, 86 complete, 100 crossed; "), "{text}");
    assert!(first.ends_with("(0 lost); 0 negative gaps; clocks within 210 ns"), "{text}");
    assert!(text.contains("! 14 incomplete flows: 14 were not seen to arrive"), "{text}");
    assert!(text.contains("! carrier virtqueue: 186 joined; 14 only put on (xin)"), "{text}");
}

#[test]
fn where_and_why_a_flow_was_dropped_is_in_the_table_the_closing_lines_and_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), made_up::with_drops()).unwrap();
    for (nth, reason) in [(1, 3), (2, 3), (3, 6)] {
        for (time_ns, kind, values) in
            [(100, Kind::Start, vec![7]), (900, Kind::Quit, vec![7, reason, 0xabc])]
        {
            let (flow, comm) = (1 << 56 | nth, [0; 16]);
            let record = Record { time_ns, flow, site: 1, pid: 1, tid: 1, cpu: 0, kind, comm, values };
            writer.append(1, time_ns.cast_signed(), &record).unwrap();
        }
    }
    writer.finish().unwrap();
    let flows = Flows::of(&Trace::open(dir.path()).unwrap());
    let told = "DROPPED: <NO>_SOCKET at host:__udp4_lib_rcv+0x1f";
    assert!(
        hops::table(&flows, &flows.flows()[0], Steps::OfPath, PLAIN).lines().next().unwrap().ends_with(told)
    );
    let text = closing::line(flows.summary(), PLAIN);
    assert!(text.contains("! 3 incomplete flows: 3 were dropped\n"), "{text}");
    assert!(text.contains("! dropped by the kernel: 2 <NO>_SOCKET, 1 reason 6\n"), "{text}");
}

#[test]
fn colour_is_there_only_when_asked_for() {
    let (_dir, flows) = flows(true);
    let flow = flows.typical().unwrap();
    let color = View { color: true, ..PLAIN };
    assert!(hops::table(&flows, flow, Steps::OfPath, color).contains("\x1b["));
    assert!(closing::line(flows.summary(), color).contains("\x1b["));
    let plain = hops::table(&flows, flow, Steps::All, PLAIN) + &segments::table(flows.segments(), PLAIN);
    assert!(!plain.contains('\x1b'));
}
