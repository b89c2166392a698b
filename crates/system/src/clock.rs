//! Reading the TSC and the kernel's clocks together.

use xweave_wire::message::ClockSample;

/// Attempts at a sample: an interrupt between two reads makes the bracket wide; one of several attempts is not interrupted,
/// except on an overloaded machine.
const ATTEMPTS: usize = 12;

/// Width of a bracket that is narrow enough, in TSC ticks: some tens of nanoseconds.
const NARROW: u64 = 200;

/// Reads the time-stamp counter, after all earlier instructions have completed.
pub fn tsc() -> u64 {
    // SAFETY: both instructions exist on every x86-64 processor and touch no memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let now = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        now
    }
}

/// Reads the TSC and the clocks as close together as a few attempts allow.
pub fn sample() -> ClockSample {
    let mut best: Option<ClockSample> = None;
    for _ in 0..ATTEMPTS {
        let tsc_before = tsc();
        let mono_ns = read(libc::CLOCK_MONOTONIC);
        let tsc_after = tsc();
        let width = tsc_after.wrapping_sub(tsc_before);
        if best.is_none_or(|b| width < b.tsc_after.wrapping_sub(b.tsc_before)) {
            best = Some(ClockSample { tsc_before, mono_ns, tsc_after, real_ns: read(libc::CLOCK_REALTIME) });
        }
        if width <= NARROW {
            break;
        }
    }
    best.unwrap_or(ClockSample { tsc_before: 0, mono_ns: 0, tsc_after: 0, real_ns: 0 })
}

/// Measures the TSC frequency in Hz, over 20 ms: accurate to a few parts per million.
pub fn tsc_hz() -> u64 {
    let first = sample();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let second = sample();
    let ticks = u128::from(second.tsc_before.wrapping_sub(first.tsc_before));
    let ns = u128::from(second.mono_ns.saturating_sub(first.mono_ns)).max(1);
    u64::try_from(ticks * 1_000_000_000 / ns).unwrap_or(0)
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a timespec of this frame.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(failed, 0, "both clocks exist on every Linux");
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_bracket_the_clock_and_go_forward() {
        let first = sample();
        let second = sample();
        assert!(first.tsc_before < first.tsc_after);
        assert!(first.tsc_after < second.tsc_before);
        assert!(first.mono_ns <= second.mono_ns);
    }

    #[test]
    fn the_tsc_rate_is_that_of_a_processor() {
        let hz = tsc_hz();
        assert!((100_000_000..20_000_000_000).contains(&hz), "{hz} Hz");
    }
}
