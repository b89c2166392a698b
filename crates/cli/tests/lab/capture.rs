//! What tcpdump saw: the independent witness.

use crate::world::{Running, World};

/// Captures that run on devices of the host.
pub struct Captures<'w> {
    world: &'w World,
    host: &'static str,
    name: String,
    running: Vec<(String, Running)>,
}

impl<'w> Captures<'w> {
    /// Of what a filter selects at these devices; each with what its command begins with, to run it in a namespace. No
    /// others of that name may run.
    pub fn start(world: &'w World, name: &str, devices: &[(&str, &str)], filter: &str) -> Self {
        Self::start_in(world, "host", name, devices, filter)
    }

    /// The same of a host of that name.
    pub fn start_in(
        world: &'w World,
        host: &'static str,
        name: &str,
        devices: &[(&str, &str)],
        filter: &str,
    ) -> Self {
        let start = |&(device, run): &(&str, &str)| {
            let dump = format!("exec {run}tcpdump --immediate-mode -i {device} -s 128 -U");
            let mut capture = world.start(host, &format!("{dump} -w /tmp/{name}-{device}.pcap '{filter}'"));
            capture.wait_for("listening on");
            (device.to_owned(), capture)
        };
        Self { world, host, name: name.to_owned(), running: devices.iter().map(start).collect() }
    }

    /// Ends them, and gives the frames that were seen at each device.
    pub fn finish(self) -> Vec<(String, Vec<Words>)> {
        let Self { world, host, name, running } = self;
        // What was sent last has been captured, and come to its end then.
        // (The brackets keep the shell itself from being meant.)
        let these = format!("-f '[t]cpdump.*/tmp/{name}-'");
        world.run(host, &format!("sleep 2; pkill -INT {these}; while pgrep {these}; do sleep 0.1; done"));
        let dir = tempfile::tempdir().unwrap();
        let seen = |(device, capture): (String, Running)| {
            drop(capture);
            let file = dir.path().join(&device);
            world.pull(host, &format!("/tmp/{name}-{device}.pcap"), &file);
            (device, frames(&std::fs::read(&file).unwrap()))
        };
        running.into_iter().map(seen).collect()
    }
}

/// The sequence numbers that `xweave lab load udp-send` wrote into the datagrams of a pcap file.
pub fn sequence_numbers(pcap: &[u8]) -> Vec<u64> {
    const MAGIC: &[u8] = b"XWSEQ001";
    // Ethernet, IPv4 without options, UDP.
    let number = |packet: &[u8]| {
        let payload = packet.get(14 + 20 + 8..).filter(|payload| payload.starts_with(MAGIC))?;
        Some(u64::from_le_bytes(payload[8..16].try_into().unwrap()))
    };
    packets(pcap).filter_map(number).collect()
}

/// A frame in the words of `bpf/frame.h`.
pub type Words = [u64; 7];

/// The frames of a pcap file: IPv4 without options, and ARP.
fn frames(pcap: &[u8]) -> Vec<Words> {
    packets(pcap).filter_map(words).collect()
}

fn words(packet: &[u8]) -> Option<Words> {
    let half = |at: usize| Some(u64::from(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?)));
    let word = |at: usize| Some(half(at)? << 16 | half(at + 2)?);
    let address = |at: usize| Some(u64::from(u32::from_le_bytes(packet.get(at..at + 4)?.try_into().ok()?)));
    let byte = |at: usize| packet.get(at).map(|byte| u64::from(*byte));
    let what =
        |bytes: u64, kind: u64, protocol: u64, flags: u64| bytes << 32 | kind << 16 | protocol << 8 | flags;
    match half(12)? {
        kind @ 0x0806 => Some([what(0, kind, byte(21)?, 0), address(28)?, 0, address(38)?, 0, 0, 0]),
        kind @ 0x0800 if byte(14)? == 0x45 => {
            let (total, protocol, fragment) = (half(16)?, byte(23)?, half(20)? & 0x3fff);
            let (mut header, mut flags, mut sequence, mut ports) = (20, 0, 0, 0);
            if fragment & 0x1fff == 0 {
                match protocol {
                    1 => {
                        (header, flags) = (28, byte(34)?);
                        sequence = if [0, 8].contains(&flags) { word(38)? << 32 } else { 0 };
                    }
                    6 => {
                        (header, flags, ports) = (20 + (byte(46)? >> 4) * 4, byte(47)?, word(34)?);
                        sequence = word(38)? << 32 | word(42)?;
                    }
                    17 => (header, ports) = (28, word(34)?),
                    _ => {}
                }
            }
            let ports = half(18)? << 48 | fragment << 32 | ports;
            let what = what(total - header, kind, protocol, flags);
            Some([what, address(26)?, 0, address(30)?, 0, sequence, ports])
        }
        _ => None,
    }
}

/// The bytes of each packet, as far as they were kept.
fn packets(pcap: &[u8]) -> impl Iterator<Item = &[u8]> {
    assert_eq!(pcap[..4], 0xa1b2_c3d4_u32.to_le_bytes(), "a little-endian pcap file");
    let mut rest = &pcap[24..];
    std::iter::from_fn(move || {
        let length = u32::from_le_bytes(rest.get(8..12)?.try_into().ok()?) as usize;
        // The file may have been cut while its last packet was written.
        let packet = rest.get(16..16 + length)?;
        rest = &rest[16 + length..];
        Some(packet)
    })
}
