//! Requests and their answers, as tables and as a document.

use std::net::SocketAddr;

use crate::snapshot::{assert_looks, views};
use xweave_flow::{
    Exchange,
    exchange::{Connection, Part, Resent, Side, Threads, services},
};
use xweave_report::{View, exchanges};

const PLAIN: View = View { width: 120, color: false };

fn exchange(client: (&str, &str), server: (&str, &str), parts: &[(&str, i64)]) -> Exchange {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let ns = |parts: &[(&str, i64)]| parts.iter().map(|(_, ns)| ns).sum::<i64>();
    Exchange {
        connection: Connection { protocol: "TCP", client: address(client.1), server: address(server.1) },
        client_domain: client.0.into(),
        server_domain: server.0.into(),
        start_ns: 1_000_000,
        end_ns: 1_000_000 + ns(parts),
        inside: None,
        made: Vec::new(),
        key: None,
        repeats: 0,
        complete: true,
        lacks: None,
        resent: Resent::default(),
        request: Side { bytes: 30, flows: vec![0xa1] },
        answer: Side { bytes: 4_096, flows: vec![0xa2, 0xa3] },
        parts: parts
            .iter()
            .map(|(name, ns)| Part { name: (*name).into(), domain: None, crosses: false, ns: *ns })
            .collect(),
        way: Vec::new(),
        answered_by: 0,
        threads: Threads::default(),
    }
}

/// A client on the host asks vm1, which asks vm2.
fn asked() -> Vec<Exchange> {
    let outer = [("request in host", 100_000), ("server in vm1", 800_000), ("answer in vm1", 100_000)];
    let inner = [("request in vm1", 50_000), ("server in vm2", 150_000)];
    let mut all = vec![
        exchange(("host", "10.0.0.9:4000"), ("vm1", "10.0.0.1:80"), &outer),
        exchange(("vm1", "10.0.0.1:5000"), ("vm2", "10.0.0.2:80"), &inner),
    ];
    all[1].inside = Some(0);
    all
}

#[test]
fn what_a_server_asks_meanwhile_is_shown_within() {
    let all = asked();
    let text = exchanges::typical(&services(&all)[0], &all, PLAIN).unwrap();
    assert_eq!(
        text.lines().collect::<Vec<_>>(),
        [
            "Time (µs)    Share  One request, and what was asked meanwhile",
            "  1 000.0  100.0 %  TCP 10.0.0.9:4000 → 10.0.0.1:80, 30 bytes asked, 4 096 answered",
            "    100.0   10.0 %  · request in host",
            "    800.0   80.0 %  · server in vm1",
            "    200.0   20.0 %  · · TCP 10.0.0.1:5000 → 10.0.0.2:80, 30 bytes asked, 4 096 answered",
            "     50.0    5.0 %  · · · request in vm1",
            "    150.0   15.0 %  · · · server in vm2",
            "    100.0   10.0 %  · answer in vm1",
        ],
        "{text}"
    );
}

#[test]
fn a_made_up_multitude_inside_is_cut_off() {
    let mut all = asked();
    for _ in 0..10_000 {
        let mut more = all[1].clone();
        more.inside = Some(all.len() - 1);
        all.push(more);
    }
    for _ in 0..10_000 {
        all.push(all[1].clone());
    }
    let text = exchanges::typical(&services(&all[..1])[0], &all, PLAIN).unwrap();
    assert!(text.lines().count() < 500, "{}", text.lines().count());
}

#[test]
fn servers_and_their_parts_are_listed() {
    let all = asked();
    let services = services(&all);
    let text = exchanges::services(&services, 1, PLAIN);
    assert!(text.contains("TCP, host → 10.0.0.1:80 (vm1)      1         1   1 000.0"), "{text}");
    assert!(text.ends_with("… and 1 other server: --all shows them\n"), "{text}");
    let text = exchanges::parts(&services[0], PLAIN);
    assert!(text.contains("server in vm1        1     800.0     800.0     800.0   80 % "), "{text}");
    let text = exchanges::list(all.iter(), PLAIN);
    assert!(text.contains("server in vm1: 800.0") && text.contains("0xa1"), "{text}");
}

#[test]
fn names_are_whole_and_bars_of_one_line() {
    let long = [
        ("request, frames before its last", 1_782_300),
        ("request, host → vm1", 7_741_000),
        ("server in vm1", 1_090_932_200),
        ("answer, frames after its first", 172_121_100),
    ];
    let all = [exchange(("host", "10.77.0.254:38318"), ("vm1", "10.77.0.1:80"), &long)];
    let services = services(&all);
    for view in views() {
        let text = exchanges::services(&services, 9, view) + "\n" + &exchanges::parts(&services[0], view);
        assert_looks(&text, "connection", view);
    }
}
