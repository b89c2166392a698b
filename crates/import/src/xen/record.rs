//! A record of Xen's trace buffers, and what it says: `xen/include/public/trace.h` of Xen 4.17, and for what its words are
//! the places in Xen that write them.

use xweave_bytes::{read_le, split_le};
use xweave_trace::{
    event::State,
    xen::{Exit, Hypercall},
};

/// Bytes of the longest: a header, a time, seven words.
pub(super) const LONGEST: usize = 4 + 8 + 4 * WORDS;

/// `TRACE_EXTRA_MAX`
const WORDS: usize = 7;

/// `DOMID_IDLE`: its vCPUs are what physical CPUs run that have nothing to do.
const IDLE: u16 = 0x7fff;

/// `TRC_TRACE_WRAP_BUFFER`: fills the end of a buffer.
pub(super) const WRAP_BUFFER: u32 = 0x0001_f002;
/// `TRC_TRACE_CPU_CHANGE`: written by xentrace itself, before the records of a CPU.
pub(super) const CPU_CHANGE: u32 = 0x0001_f003;
/// `TRC_HW_IRQ_HANDLED`
const IRQ_HANDLED: u32 = 0x0080_2008;
/// Not Xen's, whose numbers have 28 bits: the handler began that [`IRQ_HANDLED`] tells the end of.
const IRQ_BEGAN: u32 = 1 << 28;
/// `TRC_64_FLAG`: addresses have 64 bits.
const WIDE: u32 = 0x100;

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The TSC when it was made; of those that have none, that of the one before.
    pub tsc: u64,
    /// Its number.
    pub event: u32,
    /// How many words it has.
    pub len: usize,
    /// These words; 0 behind the last.
    pub words: [u32; WORDS],
}

/// A vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vcpu {
    pub domain: u16,
    pub number: u16,
}

/// `RUNSTATE_*` of `xen/include/public/vcpu.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runstate {
    Running,
    Runnable,
    Blocked,
    Offline,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// So many records found no room, the first of them at this time; who runs there now.
    Lost { count: u32, since: u64, current: Vcpu },
    /// A vCPU went from one state to another.
    Runstate { vcpu: Vcpu, from: Runstate, to: Runstate },
    /// The scheduler goes on with the vCPU that it had.
    Continues(Vcpu),
    /// The scheduler has chosen another one: the vCPU before has run for so many nanoseconds (modulo 2³²), by Xen's time.
    Leaves { vcpu: Vcpu, ran_ns: u32 },
    /// The rest of what is told of a switch: [`What::Runstate`] says the same.
    Switch,
    /// A scheduler begins to choose.
    Schedules,
    /// Something else that one did.
    Scheduler,
    /// A vCPU is woken.
    Wake,
    /// A vCPU is put to sleep, or gives up its CPU.
    Rests,
    /// A PV guest entered Xen.
    Entry(Exit),
    /// A call within a `multicall`.
    Subcall(Hypercall),
    /// Something that hypercalls do: grants, memory, domains.
    Service,
    /// An HVM guest goes on.
    VmEntry,
    /// It was left for this reason, as the hardware numbers it.
    VmExit(u32),
    /// This interrupt was put into it.
    Inject(u32),
    /// The handler of this interrupt began.
    IrqBegan(u32),
    /// It is over.
    IrqHandled(u32),
    /// The CPU goes into this idle state.
    IdleEnters(u32),
    /// It has come out of it.
    IdleExits,
    /// It runs at so many MHz.
    Frequency(u32),
    /// Anything else.
    Other,
}

impl Vcpu {
    /// The number that it has as a thread of the domain `xen`: 0 if it is idle.
    pub(super) fn tid(self) -> u32 {
        match self.domain {
            IDLE => 0,
            domain => (u32::from(domain) << 16 | u32::from(self.number)).saturating_add(1),
        }
    }

    /// The number that its domain has as a process: that of its first vCPU.
    pub(super) fn process(self) -> u32 {
        Self { number: 0, ..self }.tid()
    }

    /// As most records name one: `{ vcpu:16, domain:16 }`.
    fn packed(word: u32) -> Self {
        let [a, b, c, d] = word.to_le_bytes();
        Self { number: u16::from_le_bytes([a, b]), domain: u16::from_le_bytes([c, d]) }
    }

    /// As others do: a word each.
    fn words(domain: u32, number: u32) -> Self {
        let short = |word| u16::try_from(word).unwrap_or(u16::MAX);
        Self { domain: short(domain), number: short(number) }
    }
}

impl Runstate {
    fn of(bits: u32) -> Self {
        match bits & 3 {
            0 => Self::Running,
            1 => Self::Runnable,
            2 => Self::Blocked,
            _ => Self::Offline,
        }
    }

    pub(super) fn runs(self) -> bool {
        self == Self::Running
    }

    /// The state that a vCPU is left in by a switch.
    pub(super) fn state(self) -> State {
        match self {
            Self::Running | Self::Runnable => State::Runnable,
            Self::Blocked => State::Sleeping,
            Self::Offline => State::Stopped,
        }
    }
}

impl Record {
    /// The record that bytes begin with, and how many it has; none if they are too few. `last` is the TSC of the one
    /// before.
    pub(super) fn parse(bytes: &[u8], last: u64) -> Option<(Self, usize)> {
        let (header, mut rest) = split_le::<u32>(bytes)?;
        let (len, timed) = ((header >> 28 & 7) as usize, header >> 31 != 0);
        let mut tsc = last;
        if timed {
            let (low, behind) = split_le::<u32>(rest)?;
            let (high, behind) = split_le::<u32>(behind)?;
            (tsc, rest) = (u64::from(high) << 32 | u64::from(low), behind);
        }
        let mut words = [0; WORDS];
        for to in &mut words[..len] {
            (*to, rest) = split_le(rest)?;
        }
        let record = Self { tsc, event: header & 0x0fff_ffff, len, words };
        Some((record, bytes.len() - rest.len()))
    }

    /// Whether it has a time of its own.
    pub(super) fn timed(bytes: &[u8]) -> bool {
        read_le::<u32>(bytes, 0).is_some_and(|header| header >> 31 != 0)
    }

    /// What it says.
    pub(super) fn what(&self) -> What {
        let [a, b, c, d, ..] = self.words;
        match self.event {
            0x0001_f001 => {
                let [did, vid] = [b & 0xffff, b >> 16];
                What::Lost {
                    count: a,
                    since: u64::from(d) << 32 | u64::from(c),
                    current: Vcpu::words(did, vid),
                }
            }
            0x0002_1002 => What::Continues(Vcpu::packed(a)),
            event if event & !0x330 == 0x0002_1001 => {
                let (from, to) = (Runstate::of(event >> 8), Runstate::of(event >> 4));
                What::Runstate { vcpu: Vcpu::packed(a), from, to }
            }
            // TRC_*_SCHEDULE of credit, credit2, rtds and null: xen/common/sched.
            0x0002_2009 | 0x0002_2215 | 0x0002_2806 | 0x0002_2a05 => What::Schedules,
            0x0002_2000..=0x0002_2fff => What::Scheduler,
            0x0002_800e => What::Leaves { vcpu: Vcpu::words(a, b), ran_ns: c },
            // SWITCH, SWITCH_INFNEXT, SWITCH_INFCONT.
            0x0002_800a | 0x0002_800f | 0x0002_8011 => What::Switch,
            0x0002_8004 => What::Wake,
            // SLEEP, YIELD, BLOCK, SHUTDOWN, SHUTDOWN_CODE.
            0x0002_8003 | 0x0002_8005..=0x0002_8007 | 0x0002_8010 => What::Rests,
            0x0004_1000..=0x0004_1fff | 0x0010_f000..=0x0010_ffff | 0x0002_8001 | 0x0002_8002 => {
                What::Service
            }
            0x0008_1001 => What::VmEntry,
            // Both of before Xen 4.18; and SVM's since then.
            0x0008_1002 | 0x0008_1003 | 0x0008_1102 | 0x0008_1103 => What::VmExit(a),
            // INJ_VIRQ, REINJ_VIRQ.
            0x0008_2004 | 0x0008_2005 => What::Inject(a),
            0x0020_200e => What::Subcall(self.hypercall()),
            event @ 0x0020_1000..=0x0020_1fff => match self.entry(event & !WIDE) {
                Some(exit) => What::Entry(exit),
                None => What::Other,
            },
            0x0080_1001 => What::Frequency(b),
            0x0080_1002 => What::IdleEnters(a),
            0x0080_1003 => What::IdleExits,
            IRQ_HANDLED => What::IrqHandled(a),
            IRQ_BEGAN => What::IrqBegan(a),
            _ => What::Other,
        }
    }

    /// Of one that says that a handler is over, one that says when it began; none if it does not know.
    pub(super) fn began(&self) -> Option<Self> {
        let [irq, low, _, ..] = self.words;
        if self.event != IRQ_HANDLED || low == 0 {
            return None;
        }
        // The low half of a TSC that was read less than 2³² before.
        let before = self.tsc.wrapping_sub(low.into()) & 0xffff_ffff;
        let tsc = self.tsc.checked_sub(before)?;
        Some(Self { tsc, event: IRQ_BEGAN, len: 1, words: [irq, 0, 0, 0, 0, 0, 0] })
    }

    /// Why a PV guest entered Xen.
    fn entry(&self, event: u32) -> Option<Exit> {
        let wide = self.event & WIDE != 0;
        Some(match event & 0xfff {
            0x001 => {
                let op = u8::try_from(self.words[if wide { 2 } else { 1 }]).unwrap_or(u8::MAX);
                Exit::Hypercall(Hypercall { op, command: None })
            }
            0x003 => {
                let [number, ..] = self.words[if wide { 2 } else { 1 }].to_le_bytes();
                Exit::Trap(number)
            }
            0x004 => Exit::PageFault,
            0x005 => Exit::ForcedInvalidOp,
            0x006 => Exit::EmulatePrivop,
            0x007 => Exit::Emulate4G,
            0x008 => Exit::MathStateRestore,
            0x009 => Exit::PagingFixup,
            0x00a => Exit::GdtLdtMappingFault,
            0x00b | 0x00c => Exit::PtwrEmulation,
            0x00d => Exit::Hypercall(self.hypercall()),
            _ => return None,
        })
    }

    /// The hypercall in the format `TRC_PV_HYPERCALL_V2`, with its command where the first argument is one.
    fn hypercall(&self) -> Hypercall {
        let [head, first, ..] = self.words;
        let op = u8::try_from(head & 0x000f_ffff).unwrap_or(u8::MAX);
        let told = head >> 20 & 3 != 0;
        let commands = [Hypercall::SCHED_OP, Hypercall::GRANT_TABLE_OP, Hypercall::VCPU_OP].contains(&op);
        let command = (told && commands).then(|| u8::try_from(first).unwrap_or(254).min(254));
        Hypercall { op, command }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: u32, words: &[u32]) -> Record {
        let mut all = [0; WORDS];
        all[..words.len()].copy_from_slice(words);
        Record { tsc: 1 << 40, event, len: words.len(), words: all }
    }

    #[test]
    fn records_have_times_or_those_of_the_one_before() {
        let mut bytes = (0x0002_1021u32 | 1 << 28 | 1 << 31).to_le_bytes().to_vec();
        bytes.extend((7u64 << 32 | 5).to_le_bytes());
        bytes.extend(0x0001_0002u32.to_le_bytes());
        let (timed, len) = Record::parse(&bytes, 3).unwrap();
        assert_eq!((timed.tsc, timed.event, timed.len, len), (7 << 32 | 5, 0x0002_1021, 1, 16));
        let (from, to) = (Runstate::Running, Runstate::Blocked);
        assert_eq!(timed.what(), What::Runstate { vcpu: Vcpu { domain: 1, number: 2 }, from, to });
        assert_eq!(Record::parse(&bytes[..15], 3), None);
        let bytes = (0x0008_2013u32 | 1 << 28).to_le_bytes();
        assert_eq!(Record::parse(&[bytes, [1, 0, 0, 0]].concat(), 3).unwrap().0.tsc, 3);
        assert_eq!(Record::parse(&bytes, 3), None);
    }

    #[test]
    fn hypercalls_have_the_commands_that_are_traced() {
        let of = |words: &[u32]| record(0x0020_100d, words).what();
        let exit = |op, command| What::Entry(Exit::Hypercall(Hypercall { op, command }));
        assert_eq!(of(&[1 << 20 | 29, 1]), exit(29, Some(1)));
        assert_eq!(of(&[1 << 20 | 1 << 24 | 20, 5, 1]), exit(20, Some(5)));
        assert_eq!(of(&[20]), exit(20, None));
        // What is counted is no command: mmuext_op.
        assert_eq!(of(&[1 << 22 | 26, 2]), exit(26, None));
        assert_eq!(of(&[0x000f_ffff]), exit(255, None));
        assert_eq!(record(0x0020_1103, &[1, 2, 0x8000 | 13]).what(), What::Entry(Exit::Trap(13)));
    }

    #[test]
    fn an_interrupt_began_less_than_a_turn_of_32_bits_before() {
        let handled = |tsc, low| Record { tsc, ..record(IRQ_HANDLED, &[16, low, 0]) };
        let began = handled(5 << 32 | 100, 90).began().unwrap();
        assert_eq!((began.tsc, began.what()), (5 << 32 | 90, What::IrqBegan(16)));
        assert_eq!(
            handled(5 << 32 | 100, u32::MAX).began().map(|began| began.tsc),
            Some(4 << 32 | 0xffff_ffff)
        );
        assert_eq!(handled(100, 200).began(), None);
        assert_eq!(handled(5 << 32, 0).began(), None);
    }

    #[test]
    fn vcpus_have_numbers_of_their_own_and_idle_ones_have_none() {
        let tid = |domain, number| Vcpu { domain, number }.tid();
        assert_eq!([tid(0, 0), tid(0, 1), tid(1, 0), tid(IDLE, 3)], [1, 2, 0x0001_0001, 0]);
        assert_eq!(
            (tid(u16::MAX, u16::MAX), Vcpu { domain: 1, number: 9 }.process()),
            (u32::MAX, 0x0001_0001)
        );
    }
}
