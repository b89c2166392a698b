//! The file of `xentrace`: the trace buffers of Xen, of all physical CPUs. `xen/include/public/trace.h` and
//! `tools/xentrace/xentrace.c` of Xen 4.17.
//!
//! `record` is a record and what it says, `cpu` reads those of one CPU, `order` gives those of all in the order of their
//! times; `survey` goes over the first of them for what all depend on, `stay` says what of a PV guest's time is Xen's,
//! and `hypervisor` makes events.

mod clock;
mod cpu;
mod hypervisor;
mod names;
mod order;
mod record;
mod stay;
mod survey;

use xweave_trace::{TscLine, VmName};

use crate::{
    dat::Options,
    error::{Error, ErrorKind},
    input::Input,
    kernel::Kernel,
    merge::Early,
    sink::Sink,
};

use clock::Clock;
use hypervisor::Hypervisor;
use order::Order;
use record::Vcpu;
pub use survey::CPU_HZ;
use survey::Survey;

/// What every file of xentrace begins with: records of a CPU.
pub(crate) const MAGIC: &[u8] = &order::HEADER.to_le_bytes();

/// The name of the domain that its events are of.
pub(crate) const NAME: &str = "xen";

/// How to learn how fast the TSC counts.
const LEARN: &str = "say how fast with --cpu-hz, as `xl info | grep cpu_mhz` on that host tells, or \
                     `xl dmesg | grep 'Detected .* MHz processor'`: --cpu-hz 2596.097M";

/// So many records are taken before it is asked again whether more are wanted.
const PORTION: u64 = 4096;

/// A difference between what is said and what was recorded that is told, as one part of so many.
const APART: u64 = 100;

/// A file of xentrace: what is known before its records are read.
pub(crate) struct Xentrace {
    /// What trace-cmd's files say in options.
    pub options: Options,
    /// What there is to know of it, in words.
    pub warnings: Vec<String>,
    survey: Survey,
    clock: Clock,
}

/// What came of the records.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Records that Xen had no room for.
    pub lost: u64,
    /// Records whose time was before that of one that had gone on already: they got its time.
    pub early: Early,
    /// What is wrong with the file; of more places than are told, how many.
    pub damage: Vec<Error>,
    pub untold: u64,
    /// The domains, as virtual machines.
    pub guests: Vec<VmName>,
    /// Records of times that the trace does not tell.
    pub outside: u64,
}

impl Xentrace {
    /// Looks at the first records. `cpu_hz` is how fast the TSC counts, if the user says it.
    pub(crate) fn open(input: &Input, cpu_hz: Option<u64>) -> Result<Self, Error> {
        if let Some(hz) = cpu_hz.filter(|hz| !CPU_HZ.contains(hz)) {
            let what = format!("has times of a TSC, and none counts {hz} in a second: {LEARN}");
            return Err(Error::new(ErrorKind::Foreign, what));
        }
        let survey = Survey::of(input, survey::BYTES, &|_| true);
        let mut warnings = Vec::new();
        let (hz, from) = match (cpu_hz, survey.hz) {
            (Some(said), found) => {
                if let Some(found) = found.filter(|found| found.abs_diff(said) > said / APART) {
                    warnings.push(format!(
                        "its vCPUs ran for as long as Xen says if the TSC counts {}, not {} as --cpu-hz says: {LEARN}",
                        mhz(found),
                        mhz(said),
                    ));
                }
                (said, "as --cpu-hz says")
            }
            (None, Some(found)) => (found, "as the run times tell that Xen's scheduler recorded"),
            (None, None) => {
                let what = "has times of a TSC, and too few records of Xen's scheduler (switch_infprev) to tell how \
                            fast it counts";
                return Err(Error::new(ErrorKind::Foreign, format!("{what}: {LEARN}")));
            }
        };
        Ok(Self::with(Clock::new(hz), survey, warnings, from))
    }

    /// The same of a recording that was going on: the TSC is told by its trace.
    pub(crate) fn beside(input: &Input, line: &TscLine) -> Result<Self, Error> {
        let Some(clock) = Clock::of(line) else {
            return Err(Error::new(
                ErrorKind::Foreign,
                "cannot be placed: what trace.json says of the TSC cannot be",
            ));
        };
        let tells = clock.tells();
        let survey = Survey::of(input, input.len(), &|tsc| tells.contains(&clock.ns(tsc)));
        let mut warnings = Vec::new();
        if let Some(found) = survey.hz.filter(|found| found.abs_diff(clock.hz()) > clock.hz() / APART) {
            warnings.push(format!(
                "its vCPUs ran for as long as Xen says if the TSC counts {}; that of the trace counts {}: is it of the \
                 same host, and not recorded before it was booted again?",
                mhz(found),
                mhz(clock.hz()),
            ));
        }
        Ok(Self::with(clock, survey, warnings, "as the trace tells"))
    }

    fn with(clock: Clock, survey: Survey, mut warnings: Vec<String>, from: &str) -> Self {
        if survey.records > 0 && !survey.runstates {
            let what = "it does not say when which vCPU ran: record with `xentrace -e all`, or with -e 0x21000 \
                        (TRC_SCHED_MIN) besides";
            warnings.push(what.to_owned());
        }
        let hz = clock.hz();
        let options = Options {
            called: Some(NAME),
            rate: clock.rate(),
            clock: format!("the TSC, {} {from}", mhz(hz)),
            nanoseconds: true,
            tsc_hz: hz,
            ..Options::default()
        };
        Self { options, warnings, survey, clock }
    }

    /// Writes the records as events.
    pub(crate) fn replay(
        &self,
        input: &Input,
        kernel: &mut Kernel,
        out: &mut impl Sink,
    ) -> Result<Replay, Error> {
        let mut replay = Replay::default();
        let mut order = Order::of(input, input.len());
        let tells = self.clock.tells();
        let mut hypervisor = Hypervisor::new(kernel, out, &self.clock, &self.survey.begin);
        let (mut last, mut records) = (i64::MIN, 0_u64);
        while let Some(next) = order.next() {
            let time = self.clock.ns(next.record.tsc);
            if records % PORTION == 0 {
                hypervisor.goes_on()?;
            }
            records += 1;
            if !tells.contains(&time) {
                replay.outside += 1;
                continue;
            }
            replay.early.take(time, last);
            last = last.max(time);
            hypervisor.record(last, &next)?;
        }
        (replay.lost, replay.guests) = (hypervisor.lost, hypervisor.guests());
        (replay.damage, replay.untold) = order.damage();
        Ok(replay)
    }
}

/// The process that a domain of Xen's is, of the domain `xen` of a trace.
pub(crate) fn process(domain: u16) -> u32 {
    Vcpu { domain, number: 0 }.process()
}

fn mhz(hz: u64) -> String {
    format!("{}.{:03} MHz", hz / 1_000_000, hz / 1000 % 1000)
}
