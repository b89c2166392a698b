//! What holds messages back on their way: a queueing discipline, an address that is asked for, TCP's send queue.

use xweave_trace::event::{Connection, Context, Event, HoldReason, Kind};

use super::{
    mechanism::Strike,
    path::{Client, REQUEST, Scene, VHOST_HOME, VIRTIO_NET},
    stage::{Bringer, Place, SOFT_NET_RX, SOFT_NET_TX, SOFT_TIMER, Stage, TIMER},
};

impl Scene {
    /// The client's frame is put into a queueing discipline, and comes out after so long.
    pub(super) fn hold_in_qdisc(&mut self, nth: usize, at: i64, ns: i64) -> i64 {
        let Client { home, connection, .. } = self.client(nth);
        let (frame, object) = (self.number_frame(), 4);
        let [kind, device] = [self.qdisc, "tap0"].map(|text| self.stage.names.give(text));
        let at = self.stage.put(home, at + 900, Kind::QdiscEnqueue, |event| {
            (event.position, event.object, event.other) = (connection.0, object, frame);
            event.name = kind;
        });
        let waits = self.wait_for_answer(nth, at);
        self.release_by_timer(nth, (at + ns).max(waits + 2_000), SOFT_NET_TX, |stage, home, at| {
            stage.put(home, at, Kind::QdiscDequeue, |event| {
                (event.object, event.other) = (object, frame);
                event.name = device;
            })
        })
    }

    /// A number by which events tell a frame, or a next hop, from others.
    fn number_frame(&mut self) -> u32 {
        self.next_frame += 5;
        self.next_frame
    }

    /// The host's TCP holds back what the client has just sent. Returns when the client goes on.
    pub(super) fn hold_request_back(&mut self, nth: usize, at: i64, reason: HoldReason) -> i64 {
        let Client { home, connection, .. } = self.client(nth);
        self.put_hold(home, at + 900, connection, reason) + 300
    }

    /// The guest's TCP holds back the end of an answer. Returns when the server goes on.
    pub(super) fn hold_answer_back(&mut self, nth: usize, at: i64) -> i64 {
        self.put_hold(self.server, at + 300, self.client(nth).connection.peer(), HoldReason::Nagle) + 300
    }

    fn put_hold(&mut self, place: Place, at: i64, of: Connection, reason: HoldReason) -> i64 {
        self.stage.put(place, at, Kind::TcpHold, |event| {
            (event.position, event.bytes, event.code) = (of.0, REQUEST / 2, reason.code());
        })
    }

    /// Tells that TCP holds nothing of a client's request back any more.
    pub(super) fn fill_release(&self, nth: usize) -> impl Fn(&mut Event) + use<> {
        let connection = self.client(nth).connection;
        move |event: &mut Event| event.position = connection.0
    }

    /// The address of the guest's device has to be asked for first, and the first question is lost: it is asked again after so
    /// long, and the frame goes out with the answer. Returns when the server runs.
    pub(super) fn resolve_address_late(&mut self, nth: usize, at: i64, ns: i64) -> i64 {
        let Client { home, connection, .. } = self.client(nth);
        let (hop, device) = (self.number_frame(), self.stage.names.give("tap0"));
        let at = self.stage.put(home, at + 900, Kind::NeighEnqueue, |event| {
            (event.position, event.other, event.bytes, event.name) = (connection.0, hop, 1, device);
        });
        let waits = self.wait_for_answer(nth, at);
        let run = self.release_by_timer(nth, waits + ns, SOFT_TIMER, |_, _, at| at + 700);
        let run = self.reply_from_softirq(run, |_, _, at| at);
        let at = run + self.stage.draw(1_500, 3_500);
        // The host's kernel sends what was held as it takes the answer: vhost runs, and sees it next.
        let at = self.run_host_rx(at, |scene, at, _| {
            scene.stage.put(VHOST_HOME, at + 700, Kind::NeighDequeue, |event| event.other = hop) + 800
        });
        self.deliver_request(at + 600, Strike::NONE)
    }

    /// The guest's delayed acknowledgement comes after so long, and with it the host sends the rest. Returns when the server
    /// runs.
    pub(super) fn acknowledge_request_late(&mut self, nth: usize, at: i64, ns: i64) -> i64 {
        let place = self.server;
        let released = self.fill_release(nth);
        let at = self.stage.bring_interrupt(place, at + ns, Bringer::Timer);
        let mut run = 0;
        let at = self.run_softirq(place, at, Some(TIMER), (SOFT_TIMER, Context::Hard), |scene, at| {
            let [at, runs] = scene.kick_vhost(place, at + 1_000, Strike::NONE);
            run = runs;
            at
        });
        self.stage.idle_again(place, at + 600);
        let at = run + self.stage.draw(1_500, 3_500);
        let at = self.run_host_rx(at, |scene, at, _| {
            scene.stage.put(VHOST_HOME, at + 700, Kind::TcpRelease, released) + 800
        });
        self.deliver_request(at + 600, Strike::NONE)
    }

    /// The host's delayed acknowledgement comes after so long, and with it the guest's kernel sends the rest. Returns when the
    /// client runs.
    pub(super) fn acknowledge_answer_late(&mut self, nth: usize, at: i64, ns: i64) -> i64 {
        let run = self.release_by_timer(nth, at + ns, SOFT_TIMER, |_, _, at| at + 700);
        let of = self.client(nth).connection.peer();
        let run = self.reply_from_softirq(run, |stage, place, at| {
            stage.put(place, at, Kind::TcpRelease, |event| event.position = of.0)
        });
        self.deliver_answer(nth, run, Strike::NONE)
    }

    /// A frame that no program waits for goes to the guest, which answers it in its softirq, where `tells` puts what it does
    /// besides. Returns when vhost has that.
    fn reply_from_softirq(&mut self, run: i64, tells: impl FnOnce(&mut Stage, Place, i64) -> i64) -> i64 {
        let at = self.run_vhost_rx(run, Strike::NONE);
        let place = self.irq_home;
        let mut runs = 0;
        let at = self.run_softirq(place, at, Some(VIRTIO_NET), (SOFT_NET_RX, Context::Hard), |scene, at| {
            let at = tells(&mut scene.stage, place, at + 300);
            let [at, run] = scene.kick_vhost(place, at + 700, Strike::NONE);
            runs = run;
            at
        });
        self.stage.idle_again(place, at + 600);
        runs
    }
}
