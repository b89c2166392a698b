//! Which virtual machine a guest is, by its TSC.

use xweave_wire::message::Vm;

/// A guest's TSC as readings bound it: at host TSC `host.0` it was at most `guest.1`, at `host.1`
/// at least `guest.0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The host's TSC before and after.
    pub host: (u64, u64),
    /// The guest's TSC in between: read before and after its clock.
    pub guest: (u64, u64),
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// The one machine that fits all sightings.
    One(&'a Vm),
    /// None fits.
    None,
    /// Several fit.
    Several(usize),
}

/// A machine whose TSC is the host's.
pub fn unchanged() -> Vm {
    Vm { pid: 0, comm: String::new(), tsc_offsets: vec![0], tsc_scaling: (1, 0), ..Vm::default() }
}

/// Finds the one machine whose TSC, computed from the host's, passes through all sightings.
/// `slack` ticks are allowed on each side.
pub fn identify<'a>(vms: impl Iterator<Item = &'a Vm>, sightings: &[Sighting], slack: u64) -> Found<'a> {
    let mut fitting = vms.filter(|vm| sightings.iter().all(|sighting| fits(vm, sighting, slack)));
    match (fitting.next(), fitting.count()) {
        (None, _) => Found::None,
        (Some(vm), 0) => Found::One(vm),
        (Some(_), more) => Found::Several(more + 1),
    }
}

/// Whether a machine's TSC passes through a sighting, with `slack` ticks on each side.
pub fn fits(vm: &Vm, sighting: &Sighting, slack: u64) -> bool {
    // Counters wrap, so only differences have a sign.
    let reaches =
        |from: u64, to: u64| to.wrapping_sub(from).cast_signed() >= -i64::try_from(slack).unwrap_or(0);
    !vm.tsc_offsets.is_empty()
        && vm.tsc_offsets.iter().all(|&offset| {
            reaches(guest_tsc(vm, offset, sighting.host.0), sighting.guest.1)
                && reaches(sighting.guest.0, guest_tsc(vm, offset, sighting.host.1))
        })
}

/// What a vCPU's TSC is at a host TSC: scaled, then moved by its offset, modulo 2⁶⁴.
pub fn guest_tsc(vm: &Vm, offset: i64, host: u64) -> u64 {
    let (ratio, fraction) = vm.tsc_scaling;
    let scaled = (u128::from(host) * u128::from(ratio)) >> fraction.min(127);
    low(scaled).wrapping_add_signed(offset)
}

/// The first host TSC at which a vCPU's TSC is `guest`; none for a scaling that cannot be.
pub fn host_tsc(vm: &Vm, offset: i64, guest: u64) -> Option<u64> {
    let (ratio, fraction) = vm.tsc_scaling;
    let scaled = u128::from(guest.wrapping_sub(offset.cast_unsigned()));
    if ratio == 0 || fraction > 63 {
        return None;
    }
    Some(low((scaled << fraction).div_ceil(u128::from(ratio))))
}

/// The machine's offset, and how far from it another vCPU's is.
pub fn offset(vm: &Vm) -> Option<(i64, u64)> {
    let (least, most) = (vm.tsc_offsets.iter().min()?, vm.tsc_offsets.iter().max()?);
    Some((*least, most.abs_diff(*least)))
}

/// The low 64 bits: what a 64-bit counter keeps.
fn low(wide: u128) -> u64 {
    u64::try_from(wide & u128::from(u64::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vm(pid: u32, offset: i64, scaling: (u64, u32)) -> Vm {
        Vm {
            pid,
            comm: "qemu".into(),
            tsc_offsets: vec![offset, offset],
            tsc_scaling: scaling,
            ..Vm::default()
        }
    }

    #[test]
    fn scaling_is_undone() {
        for scaling in [(1, 0), (5 << 46, 48), ((1 << 32) / 3, 32)] {
            let vm = vm(1, -77_000_000_000, scaling);
            let host = 123_456_789_012;
            let guest = guest_tsc(&vm, -77_000_000_000, host);
            let back = host_tsc(&vm, -77_000_000_000, guest).unwrap();
            assert!(back.abs_diff(host) <= 3 && back <= host, "{scaling:?} {back}");
            assert_eq!(guest_tsc(&vm, -77_000_000_000, back), guest);
        }
    }

    #[test]
    fn the_machine_is_found_among_others() {
        let vms = [vm(1, -1_000_000, (1, 0)), vm(2, -1_200_000, (1, 0)), vm(3, 5, (3 << 47, 48))];
        let seen = |vm: &Vm, host: u64| {
            let guest = guest_tsc(vm, vm.tsc_offsets[0], host + 30_000);
            Sighting { host: (host, host + 60_000), guest: (guest - 20, guest + 20) }
        };
        for vm in &vms {
            let sightings = [seen(vm, 5_000_000), seen(vm, 9_000_000)];
            assert_eq!(identify(vms.iter(), &sightings, 100), Found::One(vm));
        }
        let wide = Sighting { host: (5_000_000, 5_900_000), guest: (4_500_000, 4_500_040) };
        assert_eq!(identify(vms.iter(), &[wide], 100), Found::Several(2));
        let far = Sighting { host: (5_000_000, 5_000_100), guest: (77, 99) };
        assert_eq!(identify(vms.iter(), &[far], 100), Found::None);
    }
}
