//! What executes the emulated host's instructions: hardware, or software.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What executes the emulated host's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// Hardware virtualization, with nesting for the guests.
    Kvm,
    /// QEMU's software emulation: real events, unreal times.
    Tcg,
}

impl Accelerator {
    /// QEMU's arguments for a machine with so many processors.
    ///
    /// Several emulated processors take turns in one thread. What the kernel does between them is what it does
    /// on a real machine (locks are held and waited for, interrupts are sent, text is patched under the feet of
    /// the others), at the speed of one; in threads of their own, kernels die: see [`Self::processors`].
    pub fn arguments(self, processors: u32) -> &'static [&'static str] {
        match (self, processors) {
            (Self::Kvm, _) => &["-accel", "kvm"],
            (Self::Tcg, 0 | 1) => &["-accel", "tcg,thread=multi"],
            (Self::Tcg, _) => &["-accel", "tcg,thread=single"],
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

    /// How many processors the emulated host has unless it is said.
    ///
    /// In software, one: with two, kernels died of it, in about one run of the tests in three; of thirty
    /// runs with one, in none (QEMU 7.2 and 10.0). The likely cause: one processor translates code while the
    /// other is patching it, as attaching probes and static keys do, and the outdated translation stays. In
    /// 10.0's source, whether a page holds code is looked up outside the lock in `tlb_set_page_full`, and
    /// pages are marked only after they were translated. Two worlds at once use two processors as well.
    pub fn processors(self) -> u32 {
        match self {
            Self::Kvm => 2,
            Self::Tcg => 1,
        }
    }

    /// Kernel arguments that make time steady.
    pub fn kernel_arguments(self) -> String {
        match self {
            Self::Kvm => String::new(),
            // The emulated TSC is the machine's own, and steady; but a kernel that compares it with emulated
            // timers on a busy machine gets its speed wrong or doubts it, and KVM then shifts the guests'
            // clocks at every switch. Told the speed, it need not measure.
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
    fn several_emulated_processors_take_turns_in_one_thread() {
        assert_eq!(Accelerator::Tcg.arguments(1), ["-accel", "tcg,thread=multi"]);
        assert_eq!(Accelerator::Tcg.arguments(2), ["-accel", "tcg,thread=single"]);
        assert_eq!(Accelerator::Kvm.arguments(4), ["-accel", "kvm"]);
    }
}
