//! The library's aspects follow what their headers say: a small load, and each flow begins and ends where it
//! should.

use std::collections::HashSet;

use serde_json::Value;

use crate::world::World;

/// What one recording of aspects of the library holds.
struct Recorded(Value);

impl Recorded {
    /// Weaves, runs the load, and takes the recording home.
    fn of(world: &World, arguments: &str, load: impl FnOnce()) -> Self {
        let recording = world.record(&format!("{arguments} -o /tmp/library"));
        load();
        recording.finish_well();
        let dir = tempfile::tempdir().unwrap();
        world.pull("host", "/tmp/library", &dir.path().join("trace"));
        let report = world.flows(&dir.path().join("trace"));
        println!("{arguments}: {}", report["summary"]);
        assert_eq!(report["summary"]["lost"], 0, "{}", report["summary"]);
        assert_eq!(report["summary"]["negative_gaps"], 0, "{}", report["summary"]);
        Self(report)
    }

    /// The flows of this name in whose records these come, in this order: `host:bio_split.split`, `vm1:vfs_%`.
    fn with(&self, name: &str, records: &[&str]) -> Vec<&Value> {
        let flows = self.0["flows"].as_array().unwrap().iter();
        let found: Vec<_> = flows
            .filter(|flow| {
                let mut hops = flow["hops"].as_array().unwrap().iter();
                flow["name"] == name && records.iter().all(|record| hops.any(|hop| is(hop, record)))
            })
            .collect();
        println!("{} {name} flows with {records:?}", found.len());
        found
    }

    /// How many datagrams a domain's kernel dropped for a reason; all of them in functions that are called so, or so: with `|`
    /// between, as one may be inlined into the other.
    fn dropped(&self, domain: &str, reason: &str, function: &str) -> u64 {
        let of = self.with("datagram", &[&format!("{domain}:kfree_skb.quit")]);
        let of: Vec<&Value> = of.into_iter().filter(|flow| flow["dropped"]["reason"] == reason).collect();
        for flow in &of {
            let found = (&flow["complete"], &flow["incomplete"]);
            assert_eq!(found, (&false.into(), &"dropped".into()), "{flow}");
            assert_eq!(flow["dropped"]["domain"], domain, "{flow}");
            let place = flow["dropped"]["function"].as_str().unwrap_or_default();
            assert!(function.split('|').any(|name| place.contains(name)), "dropped elsewhere: {flow}");
        }
        of.len() as u64
    }

    /// Of how many requests to the disk what a read asked for at one place, and had at another, was made: each of them over by
    /// then.
    fn parts_within(&self, read: &Value, asked: &str, had: &str) -> usize {
        let hops = |flow: &'_ Value| flow["hops"].as_array().unwrap().clone();
        let time = |hop: &Value| hop["t_ns"].as_i64().unwrap();
        let of_read = hops(read);
        let asked = of_read.iter().find(|hop| is(hop, asked)).unwrap();
        let end = of_read.iter().rev().find(|hop| is(hop, had)).map(time).unwrap();
        let [sector, bytes] = [0, 1].map(|nth| asked["values"][nth].as_u64().unwrap());
        let requests = self.0["flows"].as_array().unwrap().iter().filter(|flow| flow["name"] == "request");
        let parts = requests.map(hops).filter(|request| {
            request.iter().any(|hop| {
                is(hop, "host:block_rq_issue.hop")
                    && (time(asked)..end).contains(&time(hop))
                    && (sector..sector + bytes / 512).contains(&hop["values"][0].as_u64().unwrap())
            })
        });
        let over = |request: Vec<Value>| {
            let over = request.iter().find(|hop| is(hop, "block_rq_complete")).map(time).unwrap();
            assert!(over <= end, "a part was read after the end: {request:?} of {read}");
        };
        parts.map(over).count()
    }

    /// All flows of this name, which must be complete, begin at one of `starts` and end at one of `ends`.
    fn all(&self, name: &str, starts: &[&str], ends: &[&str]) {
        let flows = self.with(name, &[]);
        assert!(!flows.is_empty(), "no {name} flows");
        // What becomes a part of another ends there, and there is no record of it.
        let merged: HashSet<u64> = self
            .with(name, &[".merge"])
            .iter()
            .flat_map(|flow| flow["parents"].as_array().unwrap())
            .filter_map(Value::as_u64)
            .collect();
        for flow in flows {
            assert_eq!(flow["complete"], true, "{flow}");
            let hops = flow["hops"].as_array().unwrap();
            let any = |hop: Option<&Value>, names: &[&str]| {
                hop.is_some_and(|hop| names.iter().any(|name| is(hop, &format!("%:{name}"))))
            };
            assert!(any(hops.first(), starts), "begins elsewhere: {flow}");
            let ended = any(hops.last(), ends) || merged.contains(&flow["id"].as_u64().unwrap());
            assert!(ended, "ends elsewhere: {flow}");
        }
    }
}

/// Whether a record is of this domain, function and kind; `%` and what is not said is any.
fn is(hop: &Value, record: &str) -> bool {
    let (place, kind) = record.split_once('.').unwrap_or((record, ""));
    let (domain, function) = place.split_once(':').unwrap_or(("%", place));
    let like = |value: &Value, pattern: &str| {
        let value = value.as_str().unwrap_or_default();
        pattern.is_empty()
            || value == pattern
            || pattern.strip_suffix('%').is_some_and(|begin| value.starts_with(begin))
    };
    like(&hop["domain"], domain) && like(&hop["function"], function) && like(&hop["kind"], kind)
}

/// How many parents a flow has.
fn parents(flow: &Value) -> usize {
    flow["parents"].as_array().unwrap().len()
}

#[test]
fn a_wake_up_is_followed_from_the_waker_to_the_switch() {
    let Some(world) = World::find("library: sched") else { return };
    let recorded = Recorded::of(&world, "sched --domain vm1=vsock:3", || {
        world.run("vm1", "for i in 1 2 3 4 5; do sleep 0.1; done");
        world.run("host", "for i in 1 2 3 4 5; do sleep 0.1; done");
    });
    for domain in ["host", "vm1"] {
        let record = |function: &str| format!("{domain}:{function}");
        let path = [record("sched_waking.start"), record("sched_wakeup.hop"), record("sched_switch.quit")];
        let whole = recorded.with("wakeup", &path.each_ref().map(String::as_str));
        assert!(whole.len() >= 3, "{domain}: {}", whole.len());
        // The same thread all the way.
        for flow in whole {
            let hops = flow["hops"].as_array().unwrap().iter().filter(|hop| hop["kind"] == "hop");
            let mut whom: Vec<_> = hops.map(|hop| hop["values"][0].as_u64()).collect();
            whom.dedup();
            assert_eq!(whom.len(), 1, "{flow}");
        }
    }
}

#[test]
fn disk_requests_are_followed_through_page_cache_block_layer_and_boundary() {
    let Some(world) = World::find("library: block, page-cache, virtio-blk") else { return };
    world.run("host", "dd if=/dev/urandom of=/root/library bs=1M count=4 && sync /root/library");
    let recorded = Recorded::of(&world, "block page-cache virtio-blk --domain vm1=vsock:3", || {
        // Too large for one request; then from the disk in pages; then from memory.
        world.run(
            "host",
            "cd /root && dd if=library of=/dev/null bs=4M iflag=direct && echo 1 >/proc/sys/vm/drop_caches && \
             dd if=library of=/dev/null bs=64k && dd if=library of=/dev/null bs=64k && \
             dd if=/dev/zero of=library bs=4k count=64 && sync library",
        );
        // Small files lie side by side, and are written together.
        world.run(
            "host",
            "cd /root && mkdir small && for one in $(seq 32); do echo $one >small/$one; done && sync -f small && rm -r small",
        );
        // What is read ahead at once is more than a request may have.
        let largest = |kilobytes: u32| {
            let of_each = "for disk in /sys/block/vd*/queue; do echo";
            world.run("host", &format!("{of_each} {kilobytes} >$disk/max_sectors_kb; done"));
        };
        largest(64);
        world.run(
            "host",
            "cd /root && dd if=/dev/urandom of=library bs=1M count=2 && sync library && \
             echo 1 >/proc/sys/vm/drop_caches && dd if=library of=/dev/null bs=64k && rm library",
        );
        largest(1280);
        world.run(
            "vm1",
            "dd if=/dev/zero of=/dev/vda bs=4k count=8 oflag=direct && dd if=/dev/vda of=/dev/null bs=64k count=8 iflag=direct",
        );
    });
    recorded.all(
        "request",
        &["block_bio_queue.start", "bio_split.split", "bio_attempt_%.merge", "attempt_merge.merge"],
        &["block_rq_complete.quit", "block_bio_complete.quit"],
    );
    let split = recorded.with("request", &["host:bio_split.split", "host:block_rq_issue.hop"]);
    assert!(!split.is_empty() && split.iter().all(|flow| parents(flow) == 1), "{split:?}");
    let merged = recorded.with("request", &["host:bio_attempt_back_merge.merge", "host:block_rq_complete"]);
    assert!(!merged.is_empty() && merged.iter().all(|flow| parents(flow) == 2), "{merged:?}");

    let path =
        ["ext4_file_read_iter.start", "page_cache_sync_ra", "block_bio_queue", "ext4_file_read_iter.quit"];
    assert!(!recorded.with("read", &path).is_empty());
    let found = ["filemap_get_read_batch", "folio_mark_accessed", "ext4_file_read_iter.quit"];
    let missed =
        |flow: &&&Value| flow["hops"].as_array().unwrap().iter().any(|hop| is(hop, "block_bio_queue"));
    assert!(recorded.with("read", &found).iter().filter(|flow| !missed(flow)).count() >= 60);
    let ahead = ["page_cache_async_ra.split", "block_bio_queue", "bio_endio", "bio_put.quit"];
    let ahead = recorded.with("read", &ahead);
    assert!(!ahead.is_empty() && ahead.iter().all(|flow| parents(flow) == 1), "{ahead:?}");
    // One that was split ends when all of it was read.
    let split = |flow: &&Value| recorded.parts_within(flow, "block_bio_queue.hop", "bio_put") > 1;
    assert!(ahead.iter().any(split), "{ahead:?}");

    for call in ["host:vfs_write%", "host:vfs_read%"] {
        let path =
            ["vm1:block_rq_issue.start", "vm1:virtqueue_add_sgs.xin", call, "vm1:block_rq_complete.quit"];
        let crossed = recorded.with("disk", &path);
        assert_eq!(crossed.len(), 8, "{}", recorded.0["summary"]);
        assert!(crossed.iter().all(|flow| flow["complete"] == true && flow["crossings"] == 2), "{crossed:?}");
    }
}

#[test]
fn segments_and_datagrams_are_followed_through_one_kernel() {
    let Some(world) = World::find("library: tcp, udp") else { return };
    // So that large segments are cut in software.
    world.run("host", "ethtool -K br0 tso off && ethtool -K tap1 tso off");
    let recorded = Recorded::of(&world, "tcp udp --domain vm1=vsock:3", || {
        let server = world.start("vm1", "exec xweave lab load tcp-serve --port 7001");
        let receiver =
            world.start("vm1", "exec xweave lab load udp-recv --port 9009 --count 12 --idle-timeout 60");
        world.until("vm1", "grep -q :2331 /proc/net/udp && grep -q :1B59 /proc/net/tcp");
        let get = "xweave lab load tcp-get --to 10.77.0.1:7001 --requests 5 --request-size 20000 --size 3000";
        world.run("host", get);
        let send = "xweave lab load udp-send --to 10.77.0.1:9009 --rate 50";
        world.run("host", &format!("{send} --count 10 --size 100 && {send} --count 12 --size 5000"));
        receiver.finish_well();
        drop(server);
    });
    world.run("host", "ethtool -K br0 tso on && ethtool -K tap1 tso on");

    let sent = ["host:tcp_skb_entail.start", "host:__tcp_transmit_skb", "host:net_dev_queue", "host:%.quit"];
    assert!(!recorded.with("segment", &sent).is_empty());
    let cut =
        recorded.with("segment", &["host:__skb_gso_segment.split", "host:net_dev_start_xmit", "host:%.quit"]);
    assert!(cut.len() >= 5 && cut.iter().all(|flow| parents(flow) == 1), "{cut:?}");
    let received = ["vm1:tcp_v4_rcv", "vm1:tcp_queue_rcv"];
    assert!(recorded.with("segment", &received).len() >= 5);

    let sent = ["host:udp_sendmsg.start", "host:udp_send_skb.move", "host:net_dev_start_xmit", "host:%.quit"];
    assert_eq!(recorded.with("datagram", &sent).len(), 22);
    let fragments =
        recorded.with("datagram", &["host:ip_frag%.split", "host:net_dev_start_xmit", "host:%.quit"]);
    assert_eq!(fragments.len(), 12 * 3);
    let received = ["vm1:%.start", "vm1:__udp_enqueue_schedule_skb", "vm1:skb_consume_udp.quit"];
    assert!(recorded.with("datagram", &received).len() >= 10);
    let whole = ["vm1:inet_frag_queue_insert.merge", "vm1:udp_queue_rcv_one_skb", "vm1:skb_consume_udp"];
    assert!(recorded.with("datagram", &whole).len() >= 10);
}

#[test]
fn what_a_kernel_drops_says_where_and_why() {
    let Some(world) = World::find("library: drops") else { return };
    let receiver = "xweave lab load udp-recv --port 9778";
    let recorded = Recorded::of(&world, "udp --domain vm1=vsock:3", || {
        let send = "xweave lab load udp-send --rate 200 --size 64";
        // Nobody has this port; somebody has the other, and does not read from it.
        world.run("host", &format!("{send} --to 10.77.0.1:9777 --count 20"));
        let mut reading =
            world.start("vm1", &format!("exec {receiver} --count 1000 --buffer 4096 --idle-timeout 300"));
        reading.wait_for("ready");
        world.signal("vm1", receiver, "STOP");
        world.run("host", &format!("{send} --to 10.77.0.1:9778 --count 40"));
        world.signal("vm1", receiver, "CONT");
        world.until("vm1", "grep -q ':2632 .* 00000000:00000000 ' /proc/net/udp");
        world.kill("vm1", receiver);
        reading.finish();
    });
    let dropped = |reason, function| recorded.dropped("vm1", reason, function);
    let (no_socket, no_room) =
        (dropped("NO_SOCKET", "udp4_lib_rcv|udp_rcv"), dropped("SOCKET_RCVBUFF", "udp_queue_rcv"));
    // A refusal that came back makes the sender try once more.
    assert!((20..=40).contains(&no_socket) && (20..40).contains(&no_room), "{no_socket}, {no_room}");
    let summary = &recorded.0["summary"]["dropped"];
    let counted = |reason: &str| {
        let of = summary.as_array().unwrap().iter().find(|of| of["reason"] == reason);
        of.map_or(0, |of| of["flows"].as_u64().unwrap())
    };
    assert!(counted("NO_SOCKET") >= no_socket && counted("SOCKET_RCVBUFF") >= no_room, "{summary}");
    // The others waited to be read, and were.
    let read = recorded.with("datagram", &["vm1:__udp_enqueue_schedule_skb", "vm1:skb_consume_udp.quit"]);
    assert_eq!(read.len() as u64, 40 - no_room);
    assert!(read.iter().all(|flow| flow["complete"] == true && flow["dropped"].is_null()), "{read:?}");
}

/// By a packet filter, a queueing discipline, a checksum, and a guest that does not take what its tap device has: told as often
/// as each of them counts itself.
#[test]
fn what_is_dropped_on_the_way_to_and_from_guests_says_where_and_why() {
    let Some(world) = World::find("library: drops on the way") else { return };
    let number = |domain: &str, script: &str| -> u64 {
        let said = world.run(domain, script);
        said.trim().parse().unwrap_or_else(|error| panic!("{script}: {error}: {said}"))
    };
    let send = "xweave lab load udp-send";
    let csum = "awk '/^Udp:/ && $2 ~ /[0-9]/ { print $8 }' /proc/net/snmp";
    let full = "cat /sys/class/net/tap2/statistics/tx_dropped";
    world.run("host", "ping -c 1 -W 60 10.77.0.1 && ping -c 1 -W 60 10.77.0.2");
    let (csum_before, full_before) = (number("vm1", csum), number("host", full));
    let (mut filtered, mut queue) = (0, 0);
    let recorded = Recorded::of(&world, "udp --domain vm1=vsock:3", || {
        world.run(
            "host",
            "nft add table ip xw && nft 'add chain ip xw inbound { type filter hook input priority 0 ; }' && \
             nft add rule ip xw inbound udp dport 9781 counter drop",
        );
        world.run("vm1", &format!("{send} --to 10.77.0.254:9781 --count 20 --rate 200"));
        let counter = "nft list table ip xw | sed -n 's/.*counter packets \\([0-9]*\\) .*/\\1/p'";
        world.until("host", &format!("[ \"$({counter})\" = 20 ]"));
        filtered = number("host", counter);
        world.run("host", "nft delete table ip xw");

        world.run("host", "tc qdisc add dev tap1 root netem delay 500ms limit 5");
        world.run("host", &format!("{send} --to 10.77.0.1:9782 --count 40"));
        let counter = "tc -s qdisc show dev tap1 | sed -n 's/.*(dropped \\([0-9]*\\),.*/\\1/p'";
        queue = number("host", counter);
        world.run("host", "tc qdisc replace dev tap1 root netem corrupt 100%");
        world.run("host", &format!("{send} --to 10.77.0.1:9783 --count 40 --rate 200 --size 1000"));
        world.run("host", "tc qdisc del dev tap1 root");

        world.run("host", "ip link set tap2 txqueuelen 50 && kill -STOP $(cat /run/lab/vm2/pid)");
        let sent = world.try_run("host", &format!("{send} --to 10.77.0.2:9784 --count 1000 --rate 2000"));
        world.run("host", "kill -CONT $(cat /run/lab/vm2/pid) && ip link set tap2 txqueuelen 1000");
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    });
    let checksum = number("vm1", csum) - csum_before;
    let full = number("host", full) - full_before;
    // Kernel 6.1 frees what a queueing discipline drops in a list, and tells of nobody else.
    for (domain, reason, function, counted, least) in [
        ("host", "NETFILTER_DROP", "nft_do_chain", filtered, 20),
        ("host", "QDISC_DROP", "", queue, 20),
        ("vm1", "UDP_CSUM", "udp4_lib_rcv|udp_rcv", checksum, 20),
        ("host", "FULL_RING", "tun_net_xmit", full, 100),
    ] {
        let told = recorded.dropped(domain, reason, function);
        println!("{reason}: {told} told, {counted} counted");
        assert!(told >= least, "{reason}: {told} told, {counted} counted: {}", recorded.0["summary"]);
        // Others' packets may be dropped there as well.
        assert!(told <= counted && told * 20 >= counted * 19, "{reason}: {told} told, {counted} counted");
    }
}

/// The numbers in a text.
pub fn numbers(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
    words.map(|word| word.parse().unwrap()).collect()
}

#[test]
fn the_library_is_woven_at_as_many_places_as_is_said() {
    let Some(world) = World::find("library: places") else { return };
    let told = world.run("host", "uname -r").starts_with("6.12");
    let table = include_str!("../../../../docs/language.md");
    // That of Xen's is in `xen_net`.
    for name in xweave_aspect::library_names().filter(|name| !name.starts_with("xen-")) {
        let text = xweave_aspect::library(name).unwrap().text;
        let woven = ["vm1", "host"].map(|domain| {
            let found =
                world.run(domain, &format!("xweave check {name} --no-compile --domain {domain}=live"));
            numbers(found.lines().last().unwrap())[0]
        });
        println!("{name}: {} in a guest, {} in the host", woven[0], woven[1]);
        let row = table.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        let cell = row.rsplit('|').nth(1).unwrap();
        // What an aspect says of itself, too: a sentence with the number before these words.
        let before = text.split_once(" sites in");
        let sentence = before.map(|(before, after)| {
            let number = before.rsplit_once(' ').unwrap().1;
            format!("{number} {}", after.split_once('.').unwrap().0)
        });
        for said in [Some(cell.to_owned()), sentence].into_iter().flatten().filter(|_| told) {
            let wanted = match numbers(&said)[..] {
                [each] => [each, each],
                [guest, host] => [guest, host],
                _ => panic!("{name}: {said}"),
            };
            assert_eq!(woven, wanted, "{name}: {said}");
        }
    }
}
