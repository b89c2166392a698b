//! Execution of the emulated host's instructions: by hardware, or by software.

use serde::{Deserialize, Serialize};
use std::num::NonZero;
use std::time::{Duration, Instant};

/// Execution of the emulated host's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// Hardware virtualization, with nesting for the guests.
    Kvm,
    /// QEMU's software emulation: real events, unreal times.
    Tcg,
}

impl Accelerator {
    /// Returns QEMU's arguments. With `threads`, each emulated processor has a thread of its own, which takes an emulator
    /// that is fit for it (`Emulator::is_fit`); else they take turns in one.
    pub fn arguments(self, threads: bool) -> &'static [&'static str] {
        match (self, threads) {
            (Self::Kvm, _) => &["-accel", "kvm"],
            (Self::Tcg, true) => &["-accel", "tcg,thread=multi"],
            (Self::Tcg, false) => &["-accel", "tcg,thread=single"],
        }
    }

    /// QEMU's arguments for a machine whose clocks, and TSC of 1 GHz, count instructions that are emulated: two nanoseconds
    /// each. However busy this machine is, the same work takes the same time there, and nothing takes any while it waits.
    pub fn steady() -> &'static [&'static str] {
        &["-accel", "tcg,thread=single", "-icount", "shift=1,sleep=off", "-rtc", "base=2026-01-01,clock=vm"]
    }

    /// A processor for a host that runs guests by hardware virtualization.
    pub fn nesting_processor(self) -> &'static [&'static str] {
        match self {
            Self::Kvm => &["-cpu", "host"],
            // AMD's SVM is the virtualization that software emulation can nest.
            Self::Tcg => &["-cpu", "EPYC-Rome,+svm,+npt"],
        }
    }

    /// Returns the number of processors of a host for which none is given: two, which are as many as show what one cannot. In
    /// software one, unless they have `threads` of their own, and this machine has a processor for each.
    pub fn processors(self, threads: bool) -> u32 {
        let available = std::thread::available_parallelism().map_or(1, NonZero::get);
        match self {
            Self::Kvm => 2,
            Self::Tcg if threads && available > 1 => 2,
            Self::Tcg => 1,
        }
    }

    /// Kernel arguments that make time steady.
    pub fn kernel_arguments(self) -> String {
        match self {
            Self::Kvm => String::new(),
            // The emulated TSC is the machine's own, and steady; but a kernel that compares it with emulated
            // timers on a busy machine gets its speed wrong or doubts it, and KVM then shifts the guests'
            // clocks at every switch. With the speed as an argument, it need not measure.
            //
            // Emulated SVM loses a timer interrupt once in a while. A timer that is armed anew at each
            // interrupt then never fires again on that processor (seen: "rcu_preempt kthread timer
            // wakeup didn't happen", for minutes); a periodic one loses a tick.
            Self::Tcg => {
                let khz = tsc_khz();
                let lpj = khz * 1000 / KERNEL_HZ;
                format!("tsc=reliable tsc_early_khz={khz} lpj={lpj} no_timer_check nohz=off highres=off")
            }
        }
    }
}

/// Debian's CONFIG_HZ.
const KERNEL_HZ: u64 = 250;

/// The speed of this machine's time stamp counter, measured against its clock.
fn tsc_khz() -> u64 {
    let sample = || {
        // The counter is read between two looks at the clock; the closest pair of many is the best.
        (0..50)
            .map(|_| {
                let before = Instant::now();
                // SAFETY: reading the time stamp counter has no conditions on x86-64, and the lab runs on nothing else.
                let counter = unsafe { std::arch::x86_64::_rdtsc() };
                (before.elapsed(), before, counter)
            })
            .min_by_key(|(gap, ..)| *gap)
            .map_or((Instant::now(), 0), |(_, at, counter)| (at, counter))
    };
    let (begun, first) = sample();
    // Not a wait for anything: the longer the stretch, the more exact the quotient.
    std::thread::sleep(Duration::from_millis(100));
    let (ended, last) = sample();
    let nanoseconds = (ended - begun).as_nanos().max(1);
    u64::try_from(u128::from(last - first) * 1_000_000 / nanoseconds).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_processors_are_one_without_threads() {
        assert_eq!(Accelerator::Kvm.processors(false), 2);
        assert_eq!(Accelerator::Tcg.processors(false), 1);
        let available = std::thread::available_parallelism().unwrap().get();
        assert_eq!(Accelerator::Tcg.processors(true), if available > 1 { 2 } else { 1 });
    }

    #[test]
    fn emulated_processors_have_threads_if_asked_for() {
        assert_eq!(Accelerator::Tcg.arguments(true), ["-accel", "tcg,thread=multi"]);
        assert_eq!(Accelerator::Tcg.arguments(false), ["-accel", "tcg,thread=single"]);
        assert_eq!(Accelerator::Kvm.arguments(false), ["-accel", "kvm"]);
    }
}
