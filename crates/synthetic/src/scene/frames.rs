//! Records of the frames that carry requests and answers, as the aspect `virtio-net` writes them: where each one is put
//! together, is on a ring, comes to a socket, and is read.

use xweave_trace::Site;
use xweave_wire::record::{Kind, Record};

use super::{
    on_way::{OnWay, Reached},
    path::{PORT, Scene},
    stage::{GUEST, HOST, Place},
    threads::QEMU,
};

/// Where a record is made; their sites have these numbers, a guest's ten more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spot {
    /// The frame is put together.
    Made = 1,
    /// It is put on the ring, and taken off it.
    Put = 2,
    Taken = 3,
    /// It comes to the socket.
    Socket = 4,
    /// It is read.
    Read = 5,
}

/// The sites of a domain, which is called so.
pub(super) fn list_sites(domain: &str, number: u8, datagrams: bool) -> Vec<Site> {
    let socket = if datagrams { "__udp_enqueue_schedule_skb" } else { "tcp_queue_rcv" };
    let [put, taken] = if number == HOST {
        ["vhost_add_used_and_signal_n", "vhost_get_vq_desc"]
    } else {
        ["virtqueue_add_outbuf", "virtqueue_get_buf_ctx"]
    };
    let all = [
        (Spot::Made, "__alloc_skb", Kind::Start),
        (Spot::Put, put, Kind::Xin),
        (Spot::Taken, taken, Kind::Xout),
        (Spot::Socket, socket, Kind::Hop),
        (Spot::Read, "kfree_skb_reason", Kind::Quit),
    ];
    let site = |(spot, function, kind): (Spot, &str, Kind)| Site {
        site: find_site(number, spot),
        domain: domain.into(),
        aspect: "virtio-net".into(),
        function: function.into(),
        action: kind.name().into(),
        xflow: Some("virtio_tx".into()),
        carrier: matches!(kind, Kind::Xin | Kind::Xout).then(|| "virtqueue".into()),
        ..Site::default()
    };
    all.into_iter().map(site).collect()
}

fn find_site(domain: u8, spot: Spot) -> u32 {
    spot as u32 + if domain == GUEST { 10 } else { 0 }
}

impl Scene {
    fn record(&mut self, place: Place, at: i64, spot: Spot, kind: Kind, flow: u64, values: Vec<u64>) {
        let tid = self.stage.current_thread(place);
        let record = Record {
            time_ns: at.unsigned_abs(),
            flow,
            site: find_site(place.domain, spot),
            pid: tid,
            tid,
            cpu: u16::try_from(place.cpu).unwrap_or(0),
            kind,
            comm: [0; 16],
            values,
        };
        self.frames.records.push((place.domain, record));
    }

    /// A client, or the server for it, sends so many bytes.
    pub(super) fn begin_frame(&mut self, client: usize, to_server: bool, place: Place, at: i64, bytes: u64) {
        self.frames.made += 1;
        let number = self.frames.made;
        let flow = u64::from(place.domain) << 56 | number;
        let sent = self.frames.bytes.entry((client, to_server)).or_default();
        let sequence = 100 + *sent;
        *sent += bytes;
        let seen = self.frames.bytes.get(&(client, !to_server)).map_or(0, |seen| 100 + *seen);
        // The exclusive or of both is what events have.
        let asks = if self.local { 0x0100_007f } else { 0x0107_a8c0 };
        let answers = asks ^ self.client(client).connection.0 >> 32;
        let ports = [40_000 + client as u64, PORT + u64::from(client == Self::ELSEWHERE)];
        let mut ends = [(asks, ports[0]), (answers, ports[1])];
        if !to_server {
            ends.reverse();
        }
        let [from, to] = ends;
        let (protocol, sequences) =
            if self.datagrams { (17 << 8, 0) } else { (6 << 8 | 16, sequence << 32 | seen) };
        let what = bytes << 32 | 0x0800 << 16 | protocol;
        let words = vec![what, from.0, 0, to.0, 0, sequences, from.1 << 16 | to.1];
        self.record(place, at + 100, Spot::Made, Kind::Start, flow, vec![number]);
        self.record(place, at + 200, Spot::Made, Kind::Frame, flow, words);
        self.frames.on_way.push(OnWay { client, to_server, flow, number, reached: Reached::Stack });
    }

    /// Frames that are on their way in a direction and have come so far, by their places.
    fn find_frames(&self, to_server: bool, reached: Reached) -> Vec<usize> {
        let all = self.frames.on_way.iter().enumerate();
        let here = all.filter(|(_, frame)| frame.to_server == to_server && frame.reached == reached);
        here.map(|(at, _)| at).collect()
    }

    fn ring_key(place: Place, OnWay { number, to_server, .. }: OnWay) -> Vec<u64> {
        let peer = if place.domain == HOST { u64::from(QEMU) } else { 0 };
        vec![0x1000 + u64::from(to_server), number & 0xffff, number & 0xff, peer]
    }

    /// What runs on a CPU puts frames on the ring.
    pub(super) fn put_frames(&mut self, to_server: bool, place: Place, at: i64) {
        for nth in self.find_frames(to_server, Reached::Stack) {
            let frame = self.frames.on_way[nth];
            self.record(place, at, Spot::Put, Kind::Xin, frame.flow, Self::ring_key(place, frame));
            self.frames.on_way[nth].reached = Reached::Ring;
        }
    }

    /// What runs on a CPU takes frames off the ring, and brings them to their sockets.
    pub(super) fn take_frames(&mut self, to_server: bool, place: Place, at: i64) {
        self.take_off_ring(to_server, place, at - 150);
        self.bring_frames(to_server, place, at);
    }

    /// What runs on a CPU takes frames off the ring.
    pub(super) fn take_off_ring(&mut self, to_server: bool, place: Place, at: i64) {
        for nth in self.find_frames(to_server, Reached::Ring) {
            let frame = self.frames.on_way[nth];
            let flow = u64::from(place.domain) << 56 | 0x10_0000 | frame.number;
            self.record(place, at, Spot::Taken, Kind::Xout, flow, Self::ring_key(place, frame));
            (self.frames.on_way[nth].flow, self.frames.on_way[nth].reached) = (flow, Reached::Stack);
        }
    }

    /// What runs on a CPU brings frames to sockets of the same kernel.
    pub(super) fn bring_frames(&mut self, to_server: bool, place: Place, at: i64) {
        for nth in self.find_frames(to_server, Reached::Stack) {
            self.bring_frame(nth, place, at - 60);
        }
    }

    fn bring_frame(&mut self, nth: usize, place: Place, at: i64) {
        let flow = self.frames.on_way[nth].flow;
        self.record(place, at, Spot::Socket, Kind::Hop, flow, vec![flow & 0xff]);
        self.frames.on_way[nth].reached = Reached::Socket;
    }

    /// What runs on a CPU reads all that is there of a client, or for it.
    pub(super) fn read_frames(&mut self, client: usize, to_server: bool, place: Place, at: i64) {
        for nth in self.find_frames(to_server, Reached::Socket).into_iter().rev() {
            if self.frames.on_way[nth].client == client {
                let frame = self.frames.on_way.remove(nth);
                self.record(place, at - 60, Spot::Read, Kind::Quit, frame.flow, vec![frame.number]);
            }
        }
    }
}
