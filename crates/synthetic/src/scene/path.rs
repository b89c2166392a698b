//! The way of a request: from a client in the host over the guest's tap, vhost and vCPU to a server in the guest, or over the
//! loopback device to one in the same kernel; and back.

use xweave_trace::event::{Connection, Context, Event, Kind, Quota, Sending, State};

use super::{
    mechanism::{Mechanism, Strike},
    on_way::Frames,
    stage::{Bringer, Dispatch, EXIT_NPF, GUEST, Place, SOFT_NET_RX, Stage, TIMER, guest, host},
    threads::{CLIENT, HOG, KSOFTIRQD, NAMESAKE, NAPI, OTHER, SERVER, SIBLING, VHOST},
};

/// The port that is looked at, and the one of a server's other clients.
pub(super) const PORT: u64 = 80;
pub(super) const OTHER_PORT: u64 = 81;

/// What a translation of addresses changes of a connection: addresses, and the client's port.
const TRANSLATED: u64 = 0x0aff_0203 << 32 | 0x0155;

/// The number of the interrupt of the guest's network device.
pub(super) const VIRTIO_NET: u64 = 25;

/// Bytes of a request and of an answer.
pub(super) const REQUEST: u64 = 240;
const ANSWER: u64 = 3_000;

/// A thread that asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) tid: u32,
    pub(super) home: Place,
    /// The connection to the server, as this end calls it.
    pub(super) connection: Connection,
    /// Since when it has been in the call that receives.
    call: i64,
}

/// How the server reads what it has asked others for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// One after the other, in this order, and waits for each.
    InOrder([usize; 3]),
    /// Whatever comes.
    AsTheyCome,
}

/// How requests go.
pub(super) struct Scene {
    pub(super) stage: Stage,
    /// Both ends are in the host's kernel.
    pub(super) local: bool,
    /// Where the server runs, and its other threads.
    pub(super) server: Place,
    pub(super) beside: Place,
    /// Threads wait within the call that receives; else in one that tells of whatever comes.
    blocking: bool,
    /// Requests and answers are datagrams.
    pub(super) datagrams: bool,
    /// The CPU of the guest that takes the network's interrupts.
    pub(super) irq_home: Place,
    /// In which context vhost gives frames to the host's kernel.
    deliver: Context,
    clients: Vec<Client>,
    /// Since when the server has been in the call that receives.
    call: i64,
    /// The last number of what was held back.
    pub(super) next_frame: u32,
    /// What a discipline is called, by its number among the names.
    pub(super) qdisc: &'static str,
    /// How the server reads what it has asked others for.
    pub(super) reads: Reads,
    /// Frames, and what was recorded of them.
    pub(super) frames: Frames,
    /// The guest has another address, and sees another port of its clients.
    pub(super) translated: bool,
}

/// vhost's CPU.
pub(super) const VHOST_HOME: Place = host(2);

impl Scene {
    pub(super) fn new(mut stage: Stage, local: bool, blocking: bool) -> Self {
        let deliver = if stage.random.percent(50) { Context::Task } else { Context::Softirq };
        let address = if local { 0 } else { 0x0a4d_0003 };
        let client = |nth: u32, port: u64| Client {
            tid: CLIENT + nth,
            // The first ones share no CPU with anything; those of batches neither.
            home: host(if nth == 0 { 0 } else { 7 + nth }),
            connection: Connection(address << 32 | (40_000 + u64::from(nth)) << 16 | port),
            call: 0,
        };
        let clients = (0..12).map(|nth| client(nth, if nth == 11 { OTHER_PORT } else { PORT })).collect();
        let (server, beside) = if local { (host(1), host(3)) } else { (guest(0), guest(1)) };
        let (call, next_frame, qdisc) = (0, 0x77, "tbf");
        let irq_home = if !local && stage.random.percent(30) { beside } else { server };
        let orders = [
            Reads::AsTheyCome,
            Reads::InOrder([0, 1, 2]),
            Reads::InOrder([1, 0, 2]),
            Reads::InOrder([2, 0, 1]),
        ];
        let reads = orders[stage.random.place(orders.len())];
        let (datagrams, translated) = (false, false);
        Self {
            stage,
            local,
            server,
            beside,
            blocking,
            datagrams,
            irq_home,
            deliver,
            clients,
            call,
            next_frame,
            qdisc,
            reads,
            frames: Frames::default(),
            translated,
        }
    }

    /// The one that asks at the other port.
    pub(super) const ELSEWHERE: usize = 11;

    pub(super) fn client(&self, nth: usize) -> Client {
        self.clients[nth]
    }

    fn fill_end(&self, place: Place, connection: Connection) -> impl Fn(&mut Event) + use<> {
        let other = if self.translated && place.domain == GUEST { TRANSLATED } else { 0 };
        let connection = Connection(connection.0 ^ other);
        move |event: &mut Event| {
            event.object = 0xffff_8880_0000_0000 | connection.0 & 0xffff_ffff | u64::from(place.domain) << 40;
            (event.position, event.other) = (connection.0, 0xf000_0000 + u32::from(place.domain));
        }
    }

    pub(super) fn put_message(
        &mut self,
        kind: Kind,
        place: Place,
        at: i64,
        of: Connection,
        bytes: u64,
        code: i64,
    ) -> i64 {
        let end = self.fill_end(place, of);
        self.stage.put(place, at, kind, |event| {
            end(event);
            event.bytes = bytes;
            event.code = i32::try_from(code).unwrap_or(i32::MAX);
        })
    }

    fn put_send(&mut self, place: Place, at: i64, of: Connection, bytes: u64) -> i64 {
        self.put_message(Kind::Send, place, at, of, bytes, Sending::Begins.code().into())
    }

    /// How long a call that receives has lasted.
    fn call_duration(&self, at: i64, call: i64) -> i64 {
        match (self.datagrams, self.blocking) {
            (true, _) => 0,
            (false, true) => at - call + 200,
            (false, false) => 350,
        }
    }

    /// The client is woken by a timer, unless it runs, and begins to send so much. Returns when.
    pub(super) fn begin_request(&mut self, nth: usize, at: i64, bytes: u64) -> i64 {
        let Client { tid, home, connection, .. } = self.clients[nth];
        let mut at = at;
        if self.stage.current_thread(home) != tid {
            at = self.stage.run_other(home, at, tid);
        }
        let at = at + self.stage.draw(2_000, 8_000);
        let at = self.put_send(home, at, connection, bytes);
        self.begin_frame(nth, true, home, at, bytes);
        at
    }

    /// The client has sent, and waits for the answer.
    pub(super) fn wait_for_answer(&mut self, nth: usize, at: i64) -> i64 {
        let home = self.clients[nth].home;
        let at = at + self.stage.draw(1_500, 4_000);
        self.clients[nth].call = at;
        self.stage.put_to_sleep(home, at + 900, State::Sleeping)
    }

    /// What runs on a CPU of the host passes a frame for the server on. Returns when vhost has it, or the server, unless this
    /// runs already.
    fn forward_request(&mut self, from: (Place, i64, Context), strike: Strike) -> i64 {
        let (place, at, _) = from;
        if self.local {
            self.bring_frames(true, place, at);
            let how = strike.server_dispatch();
            return if self.stage.current_thread(self.server) == SERVER {
                at
            } else {
                self.stage.wake_and_run(from, SERVER, self.server, how)
            };
        }
        if self.stage.current_thread(VHOST_HOME) == VHOST {
            return at + 300;
        }
        self.stage.wake_and_run(from, VHOST, VHOST_HOME, strike.vhost_dispatch())
    }

    /// The client's frames set out at that time, in its own context. Returns as [`forward_request`](Self::forward_request).
    pub(super) fn transmit_request(&mut self, nth: usize, at: i64, strike: Strike) -> i64 {
        let home = self.clients[nth].home;
        if !self.local {
            return self.forward_request((home, at + 1_800, Context::Task), strike);
        }
        let mut run = 0;
        self.run_softirq(home, at + 900, None, (SOFT_NET_RX, Context::Task), |scene, at| {
            run = scene.forward_request((home, at, Context::Softirq), strike);
            at + 300
        });
        run
    }

    /// Does something in a softirq: of an interrupt, or raised by the thread below.
    pub(super) fn run_softirq(
        &mut self,
        place: Place,
        at: i64,
        irq: Option<u64>,
        (number, raised): (u64, Context),
        does: impl FnOnce(&mut Self, i64) -> i64,
    ) -> i64 {
        let at = match irq {
            Some(irq) => {
                let at = self.stage.put(place, at, Kind::IrqEnter, |event| event.object = irq);
                let at = at + self.stage.draw(300, 900);
                self.stage.put(place, at, Kind::IrqExit, |event| event.object = irq) + 150
            }
            None => at,
        };
        let enters = |event: &mut Event| (event.object, event.code) = (number, raised.code());
        let at = self.stage.put(place, at, Kind::SoftirqEnter, enters);
        let at = at + self.stage.draw(400, 1_500);
        let at = does(self, at);
        self.stage.put(place, at + 400, Kind::SoftirqExit, |event| event.object = number)
    }

    /// A timer of the host lets frames go on that were held, from a softirq of it. `told` is put there first.
    pub(super) fn release_by_timer(
        &mut self,
        nth: usize,
        at: i64,
        softirq: u64,
        told: impl FnOnce(&mut Stage, Place, i64) -> i64,
    ) -> i64 {
        let home = self.clients[nth].home;
        let mut run = 0;
        self.run_softirq(home, at, Some(TIMER), (softirq, Context::Hard), |scene, at| {
            let at = told(&mut scene.stage, home, at);
            run = scene.forward_request((home, at + 900, Context::Softirq), Strike::NONE);
            at + 1_600
        });
        run
    }

    /// vhost, which runs since then, brings frames to the guest, whose softirq wakes the server if that waits. Returns when the
    /// server runs; or has it in its socket. In one kernel it does already.
    pub(super) fn deliver_request(&mut self, run: i64, strike: Strike) -> i64 {
        if self.local {
            return run;
        }
        let brought = self.run_vhost_rx(run, strike);
        self.run_guest_rx(brought, strike)
    }

    /// vhost brings frames, and sleeps. Returns when the guest takes the interrupt.
    pub(super) fn run_vhost_rx(&mut self, run: i64, strike: Strike) -> i64 {
        let mut at = run + self.stage.draw(1_500, 4_000);
        if let Some((Mechanism::VhostPreempted, ns)) = strike.0 {
            at = self.stage.preempt_thread(VHOST_HOME, at, HOG, ns) + 1_200;
        }
        self.put_frames(true, VHOST_HOME, at - 200);
        let brought = match strike.0 {
            Some((Mechanism::InterruptsOff | Mechanism::ConsoleOutput, ns)) => {
                self.stage.take_interrupt_late(
                    self.server,
                    at,
                    ns,
                    strike.0.is_some_and(|of| of.0 == Mechanism::ConsoleOutput),
                )
            }
            Some((Mechanism::VcpuPreemptedBefore, ns)) => {
                self.stage.resume_preempted(self.server, at, HOG, ns)
            }
            Some((Mechanism::IrqVcpuPreempted, ns)) => {
                self.stage.resume_preempted(self.irq_home, at, HOG, ns)
            }
            _ => self.interrupt_for_frames(at, strike),
        };
        self.put_vhost_to_sleep(at + 2_500);
        brought
    }

    /// vhost raises the interrupt of the guest's network device. Returns when the guest takes it.
    fn interrupt_for_frames(&mut self, at: i64, strike: Strike) -> i64 {
        let place = self.interrupt_home(strike);
        if let Some((Mechanism::QemuFrozen, ns)) = strike.0
            && ns % 2 != 0
            && let Some(at) = self.stage.resume_frozen(place, at, ns)
        {
            return at;
        }
        let by = Bringer::From(VHOST_HOME, Context::Task);
        self.stage.bring_interrupt_when(place, at, by, strike.vcpu_dispatch())
    }

    /// The CPU of the guest that takes what comes: the server's, where that is what the mechanism is about.
    fn interrupt_home(&self, strike: Strike) -> Place {
        if Self::find_occupant(strike).is_some() { self.server } else { self.irq_home }
    }

    pub(super) fn put_vhost_to_sleep(&mut self, at: i64) {
        let at = at.max(self.stage.last_time(VHOST_HOME) + 800);
        if self.stage.current_thread(VHOST_HOME) == VHOST {
            self.stage.put_to_sleep(VHOST_HOME, at, State::Sleeping);
        }
    }

    /// The guest's CPU, which runs since then, takes frames in a softirq, or in a thread that does so instead.
    fn run_guest_rx(&mut self, at: i64, strike: Strike) -> i64 {
        let place = self.server;
        let waits = self.stage.current_thread(place) != SERVER;
        let (thread, context) = match strike.0 {
            Some((Mechanism::Ksoftirqd, _)) => (KSOFTIRQD, Context::Softirq),
            Some((Mechanism::ThreadedNapi, _)) => (NAPI, Context::Hard),
            _ => {
                if self.interrupt_home(strike) != place {
                    return self.run_guest_rx_beside(at, waits);
                }
                let softirq = (SOFT_NET_RX, Context::Hard);
                let at = self.run_softirq(place, at, Some(VIRTIO_NET), softirq, |scene, at| {
                    scene.take_frames(true, place, at);
                    if waits {
                        scene.stage.wake(place, at, Context::Softirq, SERVER, place, Quota::Left) + 400
                    } else {
                        at + 900
                    }
                });
                let soon = self.stage.draw(500, 1_500);
                return if waits {
                    self.stage.run_woken(place, at + soon, SERVER, strike.server_dispatch())
                } else {
                    at
                };
            }
        };
        // Another thread of the guest has the CPU, which the one that is to take frames waits for.
        let ns = strike.0.map_or(0, |of| of.1);
        let at = if context == Context::Hard {
            self.stage.wake_by_interrupt(place, at, VIRTIO_NET, thread)
        } else {
            self.run_softirq(place, at, Some(VIRTIO_NET), (SOFT_NET_RX, Context::Hard), |scene, at| {
                scene.stage.wake(place, at + 900, context, thread, place, Quota::Left)
            })
        };
        let at = self.stage.run_woken(place, at, thread, Dispatch::Behind(OTHER, ns));
        let at = if thread == KSOFTIRQD {
            self.run_softirq(place, at + 700, None, (SOFT_NET_RX, context), |scene, at| {
                scene.take_frames(true, place, at);
                scene.stage.wake(place, at, Context::Softirq, SERVER, place, Quota::Left)
            })
        } else {
            self.take_frames(true, place, at + 1_700);
            self.stage.wake(place, at + 1_900, Context::Task, SERVER, place, Quota::Left)
        };
        self.stage.switch(place, at + 1_200, SERVER, State::Sleeping)
    }

    /// Another CPU of the guest takes frames, and wakes the server on its own.
    fn run_guest_rx_beside(&mut self, at: i64, waits: bool) -> i64 {
        let (beside, server) = (self.irq_home, self.server);
        let mut runs = at;
        let at = self.run_softirq(beside, at, Some(VIRTIO_NET), (SOFT_NET_RX, Context::Hard), |scene, at| {
            scene.take_frames(true, beside, at);
            if !waits {
                return at + 900;
            }
            let [at, run] = scene.wake_from_context((beside, at, Context::Softirq), SERVER, server);
            runs = run;
            at
        });
        match self.stage.current_thread(beside) {
            OTHER => drop(self.stage.put_to_sleep(beside, at + 9_000, State::Sleeping)),
            _ => self.stage.idle_again(beside, at + 600),
        }
        if waits { runs } else { at }
    }

    /// The server, which runs, has received so much of a client's request.
    pub(super) fn receive_request(&mut self, nth: usize, at: i64, bytes: u64) -> i64 {
        let lasted = self.call_duration(at + 900, self.call);
        let of = self.clients[nth].connection.peer();
        let at = self.put_message(Kind::Receive, self.server, at + 900, of, bytes, lasted);
        self.read_frames(nth, true, self.server, at);
        at
    }

    /// The server has nothing to do.
    pub(super) fn wait_for_request(&mut self, at: i64) -> i64 {
        let at = at + self.stage.draw(1_000, 3_000);
        self.call = at;
        self.stage.put_to_sleep(self.server, at + 900, State::Sleeping)
    }

    /// The server sends an answer. Returns when it goes on, and when vhost has it, or the client.
    pub(super) fn send_answer(&mut self, nth: usize, at: i64, strike: Strike) -> [i64; 2] {
        let (place, of) = (self.server, self.clients[nth].connection.peer());
        let at = self.put_send(place, at, of, ANSWER);
        self.begin_frame(nth, false, place, at, ANSWER);
        if self.local {
            let (mut run, home, tid) = (0, self.clients[nth].home, self.clients[nth].tid);
            let at = self.run_softirq(place, at + 900, None, (SOFT_NET_RX, Context::Task), |scene, at| {
                scene.bring_frames(false, place, at);
                run = scene.stage.wake_and_run((place, at, Context::Softirq), tid, home, Dispatch::Fast);
                at + 300
            });
            return [at, run];
        }
        self.put_frames(false, place, at + 900);
        self.kick_vhost(place, at + 1_500, strike)
    }

    /// The guest tells vhost that there is a frame to send. Returns when it goes on, and when vhost runs.
    pub(super) fn kick_vhost(&mut self, place: Place, at: i64, strike: Strike) -> [i64; 2] {
        let mut run = 0;
        let at = self.stage.trap_to_host(place, at, EXIT_NPF, |stage, home, at| {
            run = if stage.current_thread(VHOST_HOME) == VHOST {
                at + 300
            } else {
                stage.wake_and_run((home, at, Context::Task), VHOST, VHOST_HOME, strike.vhost_dispatch())
            };
            at + 300
        });
        [at, run]
    }

    /// vhost, which runs since then, gives the answer's frames to the host's kernel, which wakes the client. Returns when the
    /// client runs.
    pub(super) fn deliver_answer(&mut self, nth: usize, run: i64, strike: Strike) -> i64 {
        if self.local {
            return run;
        }
        let Client { tid, home, .. } = self.clients[nth];
        let mut at = run + self.stage.draw(1_500, 4_000);
        if let Some((Mechanism::VhostPreempted, ns)) = strike.0 {
            at = self.stage.preempt_thread(VHOST_HOME, at, HOG, ns) + 1_200;
        }
        self.take_off_ring(false, VHOST_HOME, at);
        let mut runs = 0;
        let at = self.run_host_rx(at, |scene, at, context| {
            let from = (VHOST_HOME, at, context);
            scene.bring_frames(false, VHOST_HOME, at);
            runs = scene.stage.wake_and_run(from, tid, home, Dispatch::Fast);
            at + 500
        });
        self.put_vhost_to_sleep(at + 1_500);
        runs
    }

    /// What vhost does in the host's kernel with a frame that it gives it.
    pub(super) fn run_host_rx(&mut self, at: i64, does: impl FnOnce(&mut Self, i64, Context) -> i64) -> i64 {
        if self.deliver == Context::Task {
            return does(self, at + 900, Context::Task);
        }
        self.run_softirq(VHOST_HOME, at + 500, None, (SOFT_NET_RX, Context::Task), |scene, at| {
            does(scene, at, Context::Softirq)
        })
    }

    /// The client has received the answer, or a part of it: so many thirds.
    pub(super) fn receive_answer(&mut self, nth: usize, at: i64, thirds: u64) -> i64 {
        let Client { home, connection, call, .. } = self.clients[nth];
        let lasted = self.call_duration(at + 900, call);
        let at = self.put_message(Kind::Receive, home, at + 900, connection, ANSWER / 3 * thirds, lasted);
        self.read_frames(nth, false, home, at);
        at
    }

    /// The client does something until it asks again.
    pub(super) fn end_request(&mut self, nth: usize, at: i64) -> i64 {
        let at = at + self.stage.draw(2_000, 9_000);
        self.stage.put_to_sleep(self.clients[nth].home, at, State::Sleeping)
    }

    /// Tells that TCP sends the answer to a client again, as that began a moment ago.
    pub(super) fn fill_answer_again(&self, nth: usize) -> impl Fn(&mut Event) + use<> {
        let end = self.fill_end(self.server, self.clients[nth].connection.peer());
        move |event: &mut Event| {
            end(event);
            (event.bytes, event.code) = (600, 1);
        }
    }

    /// Tells that TCP sends a client's request again, as that began a moment ago.
    pub(super) fn fill_retransmit(&self, nth: usize) -> impl Fn(&mut Event) + use<> {
        let Client { home, connection, .. } = self.clients[nth];
        let end = self.fill_end(home, connection);
        move |event: &mut Event| {
            end(event);
            (event.bytes, event.code) = (600, 1);
        }
    }

    /// The request's size.
    pub(super) const BYTES: u64 = REQUEST;

    /// Threads of the guest that may have the server's CPU.
    pub(super) fn find_occupant(strike: Strike) -> Option<u32> {
        match strike.0?.0 {
            Mechanism::RunQueue | Mechanism::Ksoftirqd | Mechanism::ThreadedNapi => Some(OTHER),
            Mechanism::VcpuPreemptedBefore | Mechanism::InterruptsOff | Mechanism::ConsoleOutput => {
                Some(OTHER)
            }
            Mechanism::OwnThreads => Some(SIBLING),
            Mechanism::Namesake => Some(NAMESAKE),
            _ => None,
        }
    }
}
