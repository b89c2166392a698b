//! Requests and frames through the back ends that people run: followed from end to end, and how many of them.

use std::collections::HashSet;

use serde_json::Value;

use crate::{
    frames::is_whole,
    rebuilt::Rebuilt,
    world::{DOMAINS, World, assert_sound, hops},
};

/// A disk of the second guest, and how the host's side of its requests is done.
struct Disk {
    /// As the guest calls it.
    name: &'static str,
    what: &'static str,
    /// Options of QEMU's, behind the image's file.
    drive: &'static str,
    device: &'static str,
    /// Where the host takes up what is written, and what is read.
    takes: [&'static str; 2],
}

const DISKS: [Disk; 6] = [
    Disk {
        name: "vdb",
        what: "aio=native",
        drive: "format=raw,cache=none,aio=native",
        device: "virtio-blk-pci",
        takes: ["aio_write", "aio_read"],
    },
    Disk {
        name: "vdc",
        what: "aio=io_uring",
        drive: "format=raw,cache=none,aio=io_uring",
        device: "virtio-blk-pci",
        takes: ["io_write", "io_read"],
    },
    Disk {
        name: "vdd",
        what: "aio=io_uring, cached",
        drive: "format=raw,cache=writeback,aio=io_uring",
        device: "virtio-blk-pci",
        takes: ["io_write", "io_read"],
    },
    Disk {
        name: "vde",
        what: "qcow2",
        drive: "format=qcow2",
        device: "virtio-blk-pci",
        takes: ["vfs_write", "vfs_read"],
    },
    Disk {
        name: "vdf",
        what: "packed ring",
        drive: "format=raw",
        device: "virtio-blk-pci,packed=on",
        takes: ["vfs_write", "vfs_read"],
    },
    Disk {
        name: "sda",
        what: "virtio-scsi, aio=io_uring",
        drive: "format=raw,cache=none,aio=io_uring",
        device: "scsi-hd,bus=scsi.0",
        takes: ["io_write", "io_read"],
    },
];

/// Where, in 4 MiB, more is written and read at once than a request has room for: QEMU puts together what comes so.
const LARGE: usize = 4;

/// Requests that write, and as many that read, of each disk.
const COUNT: usize = 32;

/// An image of 64 MiB in which nothing is written: the header of qcow2's version 2, one table of reference counts, of
/// which the first four clusters have one, and an empty table of clusters (docs/interop/qcow2.txt of QEMU).
const QCOW2: &str = r"
put() { dd of=/root/vde.disk bs=65536 seek=$1 conv=notrunc status=none; }
rm -f /root/vde.disk && truncate -s 262144 /root/vde.disk
printf 'QFI\373\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\20\0\0\0\0\4\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\0\0\1' | put 0
printf '\0\0\0\0\0\2\0\0' | put 1
printf '\0\1\0\1\0\1\0\1' | put 2
";

#[test]
#[ignore = "minutes: make lab-test"]
fn requests_of_each_back_end_of_disks_are_followed_to_the_host_and_back() {
    let Some(world) = World::find("back ends of disks") else { return };
    world.run("host", QCOW2);
    let mut devices = "-device virtio-scsi-pci,id=scsi".to_owned();
    for Disk { name, drive, device, what, .. } in &DISKS {
        if *what != "qcow2" {
            world.run("host", &format!("truncate -s 64M /root/{name}.disk"));
        }
        let file = format!("if=none,id={name},file=/root/{name}.disk,{drive}");
        devices += &format!(" -drive {file} -device {device},drive={name}");
    }
    let rebuilt = Rebuilt::new(&world, &format!("s#-device \"vhost-vsock-pci#{devices} &#"));
    let recording = world.record("virtio-blk --domain vm2=vsock:4 -o /tmp/back-ends");
    for (nth, Disk { name, .. }) in DISKS.iter().enumerate() {
        let (at, large) = (64 * (nth + 1), LARGE + 2 * nth);
        world.run(
            "vm2",
            &format!(
                "dd if=/dev/zero of=/dev/{name} bs=4k seek={at} count={COUNT} oflag=direct &&
                 dd if=/dev/{name} of=/dev/null bs=4k skip={at} count={COUNT} iflag=direct &&
                 for turn in 1 2; do
                     dd if=/dev/zero of=/dev/{name} bs=4M seek={large} count=2 oflag=direct &&
                     dd if=/dev/{name} of=/dev/null bs=4M skip={large} count=2 iflag=direct || exit
                 done"
            ),
        );
    }
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/back-ends", &dir.path().join("trace"));
    let report = world.flows(&dir.path().join("trace"));
    drop(rebuilt);
    world.run("host", "rm -f /root/vd?.disk /root/sda.disk");

    let summary = &report["summary"];
    assert_sound(&report);
    let flows = report["flows"].as_array().unwrap();
    for (nth, Disk { name, what, takes, .. }) in DISKS.iter().enumerate() {
        let whole = |flow: &&Value| flow["complete"] == true && flow["crossings"] == 2;
        // (vfs_writev, where there are several parts)
        let is_taken = |hop: &Value| {
            takes.iter().any(|function| hop["function"].as_str().unwrap().starts_with(function))
        };
        let taken = |flow: &&Value| hops(flow, "host", "xout").into_iter().any(is_taken);
        // One by one, and several at once.
        let (small, large) = (64 * (nth + 1) * 8, (LARGE + 2 * nth) * 8192);
        let areas = [(small..small + COUNT * 8, 2 * COUNT), (large..large + 2 * 8192, 8)];
        for (area, least) in areas {
            let issued = |flow: &&Value| {
                hops(flow, "vm2", "hop").iter().any(|hop| {
                    let sector = usize::try_from(hop["values"][0].as_u64().unwrap()).unwrap();
                    hop["function"] == "block_rq_issue" && area.contains(&sector)
                })
            };
            let requests: Vec<&Value> = flows.iter().filter(issued).collect();
            let followed = requests.iter().copied().filter(whole).filter(taken).count();
            println!("{name} ({what}): {followed} of {} requests", requests.len());
            assert!(requests.len() >= least, "{name} ({what}): {} requests; {summary}", requests.len());
            let example = || requests.iter().find(|flow| !whole(flow) || !taken(flow));
            assert!(followed * 100 >= requests.len() * 99, "{name} ({what}): {:?}", example());
        }
    }
    // Of those that QEMU puts together, the first alone is what the system call is for.
    let other =
        |flow: &&Value| !hops(flow, "host", "xout").is_empty() && hops(flow, "host", "hop").is_empty();
    let others = flows.iter().filter(other).count();
    println!("{others} requests behind others in one call");
    // How many depends on how many wait when QEMU looks.
    assert!(others > 0, "{summary}");
}

/// A device beside the bridge, through which the second guest has another network: what is sent to it comes from a
/// network namespace.
const MACVTAP: &str = "
modprobe -a macvtap veth
ip netns add beside && ip link add mv0 type veth peer name mv1 && ip link set mv1 netns beside
ip link add link mv0 name macvtap0 type macvtap mode bridge
ip link set mv0 up && ip link set macvtap0 address 52:54:00:78:00:02 up
ip -n beside addr add 10.78.0.1/24 dev mv1 && ip -n beside link set mv1 up
";

/// The guest's end, and a server there.
const SERVER: &str = "ip addr add 10.78.0.2/24 dev eth1 && ip link set eth1 up && mkdir -p /tmp/beside &&
     head -c 300000 /dev/urandom >/tmp/beside/page && busybox httpd -p 8092 -h /tmp/beside";

/// Takes the device away again.
const NO_MACVTAP: &str = "ip link del macvtap0; ip netns del beside";

/// The second guest with that device and server; edited otherwise, too, and the device with more options of QEMU's. `None` if
/// KVM has ended it, as that of Linux 7.3 may at the guest's first access to this device.
fn with_macvtap<'w>(world: &'w World, edit: &str, netdev: &str, device: &str) -> Option<Rebuilt<'w>> {
    world.run("host", MACVTAP);
    let (netdev, device) = (
        format!("tap,id=n1,fd=9{netdev}"),
        format!("virtio-net-pci,netdev=n1,mac=52:54:00:78:00:02,romfile={device}"),
    );
    let rebuilt = Rebuilt::new(
        world,
        &format!(
            "s#^exec #exec 9<>/dev/tap$(cat /sys/class/net/macvtap0/ifindex)\\n&#
             {edit}
             s#-device \"vhost-vsock-pci#-netdev {netdev} -device {device} &#"
        ),
    );
    let served = world.try_run("vm2", SERVER);
    if !served.status.success() && world.is_ended_by_kvm("vm2") {
        println!("SKIPPED: frames of a device beside the bridge: KVM of this kernel ends the emulated guest");
        drop(rebuilt);
        world.run("host", NO_MACVTAP);
        return None;
    }
    assert!(served.status.success(), "{}", String::from_utf8_lossy(&served.stderr));
    Some(rebuilt)
}

/// Its page, and how many bytes came.
const GET: &str =
    r"exec 3<>/dev/tcp/10.78.0.2/8092 && printf 'GET /page HTTP/1.0\r\n\r\n' >&3 && cat <&3 | wc -c";

/// The flows from one address to another.
fn between<'f>(flows: &'f [Value], source: &str, target: &str) -> Vec<&'f Value> {
    let is_of = |flow: &&Value| flow["frame"]["source"] == source && flow["frame"]["target"] == target;
    flows.iter().filter(is_of).collect()
}

/// At least so many frames from one address to another went from guest to host or back, and 99.9 % of all are followed
/// from end to end.
fn assert_followed(flows: &[Value], source: &str, target: &str, least: usize) {
    let all = between(flows, source, target);
    let whole = |flow: &&&Value| is_whole(flow);
    let crossed = all.iter().filter(whole).filter(|flow| flow["crossings"].as_u64() >= Some(1)).count();
    // What was cut off or put together has its crossing in another flow.
    let parents: HashSet<&Value> =
        flows.iter().flat_map(|flow| flow["parents"].as_array().unwrap()).collect();
    let related =
        |flow: &&&Value| !flow["parents"].as_array().unwrap().is_empty() || parents.contains(&flow["id"]);
    let followed = |flow: &&&Value| whole(flow) && (flow["crossings"].as_u64() >= Some(1) || related(flow));
    let count = all.iter().filter(followed).count();
    println!("{source} → {target}: {count} of {} frames, {crossed} crossed", all.len());
    assert!(crossed >= least, "{source} → {target}: {crossed} of {} frames crossed", all.len());
    let example = || all.iter().find(|flow| !followed(flow));
    assert!(
        count * 1000 >= all.len() * 999,
        "{source} → {target}: {count} of {}: {:?}",
        all.len(),
        example()
    );
}

#[test]
#[ignore = "minutes: make lab-test"]
fn frames_through_macvtap_and_those_that_xdp_redirects_are_followed() {
    let Some(world) = World::find("macvtap, XDP") else { return };
    let Some(rebuilt) = with_macvtap(&world, "", ",vhost=on", "") else { return };
    // What comes from the first guest, the second gets without the bridge.
    world.write(
        "host",
        "/tmp/redirect.c",
        "static long (*redirect)(unsigned to, unsigned long long flags) = (void *)23;
         __attribute__((section(\"xdp\"), used)) int pass(void *frame) { return redirect(TO, 0); }",
    );
    world.run(
        "host",
        "cd /tmp && clang-14 -O2 -g -target bpf -DTO=$(cat /sys/class/net/tap2/ifindex) -c redirect.c -o redirect.o",
    );
    let recording = world.record("virtio-net --domain vm1=vsock:3 --domain vm2=vsock:4 -o /tmp/beside");
    let beside = "ip netns exec beside";
    world.run("host", &format!("{beside} ping -c 20 -i 0.1 10.78.0.2"));
    world.run("host", &format!("{beside} bash -c \"{GET}\" | grep -qx '300[0-9]*'"));
    world.run("host", "ip link set dev tap1 xdpdrv obj /tmp/redirect.o sec xdp");
    let pinged = world.try_run("vm1", "ping -c 20 -i 0.1 10.77.0.2");
    world.run("host", "ip link set dev tap1 xdpdrv off; sleep 1");
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/beside", &dir.path().join("trace"));
    let report = world.flows(&dir.path().join("trace"));
    drop(rebuilt);
    world.run("host", NO_MACVTAP);

    assert_sound(&report);
    let flows = report["flows"].as_array().unwrap();
    assert_followed(flows, "10.78.0.1", "10.78.0.2", 25);
    assert_followed(flows, "10.78.0.2", "10.78.0.1", 25);
    let echoes = between(flows, "10.77.0.1", "10.77.0.2");
    let echoes: Vec<_> =
        echoes.into_iter().filter(|flow| flow["frame"]["kind"] == "ICMP echo request").collect();
    let redirected = |flow: &&&Value| {
        flow["complete"] == true
            && flow["crossings"] == 2
            && !flow["hops"].as_array().unwrap().iter().any(|hop| hop["function"] == "br_handle_frame_finish")
    };
    let crossed = echoes.iter().filter(redirected).count();
    println!("XDP: {crossed} of {} echo requests; {pinged:?}", echoes.len());
    assert!(crossed >= 20 && crossed == echoes.len(), "{crossed} of {}: {:?}", echoes.len(), echoes.first());
}

#[test]
#[ignore = "minutes: make lab-test"]
fn frames_of_network_devices_that_qemu_emulates_are_followed() {
    let Some(world) = World::find("vhost=off") else { return };
    let Some(rebuilt) = with_macvtap(&world, "s#vhost=on#vhost=off#", "", ",packed=on") else { return };
    let receiver =
        world.start("vm2", "exec xweave lab load udp-recv --port 9041 --count 100000 --idle-timeout 120");
    world.until("vm2", "grep -q :2351 /proc/net/udp");
    let recording = world.record(&format!("virtio-net {DOMAINS} -o /tmp/emulated"));
    let beside = "ip netns exec beside";
    world.run("host", &format!("{beside} ping -c 20 -i 0.1 10.78.0.2"));
    world.run("host", &format!("{beside} bash -c \"{GET}\" | grep -qx '300[0-9]*'"));
    // From the other guest, whose device vhost serves, through both devices. What sockets send that are not connected
    // says the same again and again.
    world.run(
        "vm1",
        "ping -c 20 -i 0.1 10.77.0.2 &&
         busybox wget -q -O /dev/null http://10.77.0.2:8092/page &&
         xweave lab load udp-send --to 10.77.0.2:9041 --count 400 --rate 400 --senders 2 --unconnected",
    );
    world.run("host", "sleep 1");
    recording.finish_well();
    drop(receiver);
    let dir = tempfile::tempdir().unwrap();
    world.pull("host", "/tmp/emulated", &dir.path().join("trace"));
    let report = world.flows(&dir.path().join("trace"));
    let manifest = std::fs::read_to_string(dir.path().join("trace/trace.json")).unwrap();
    drop(rebuilt);
    world.run("host", NO_MACVTAP);

    assert_sound(&report);
    assert!(!manifest.contains("not joined"), "{manifest}");
    let flows = report["flows"].as_array().unwrap();
    let of_page =
        [("10.78.0.1", "10.78.0.2", 25), ("10.78.0.2", "10.78.0.1", 25), ("10.77.0.2", "10.77.0.1", 25)];
    for (source, target, least) in of_page {
        assert_followed(flows, source, target, least);
    }
    assert_followed(flows, "10.77.0.1", "10.77.0.2", 425);
    let alike = between(flows, "10.77.0.1", "10.77.0.2");
    let alike = alike.iter().filter(|flow| flow["frame"]["target_port"] == 9041);
    let whole = alike.clone().filter(|flow| flow["complete"] == true && flow["crossings"] == 2).count();
    println!("datagrams that say the same: {whole}");
    assert_eq!((whole, alike.count()), (400, 400));
}
