//! What serves the devices of virtual machines, in words: where what they send and receive cannot be followed from guest
//! to host, the recording and `xweave doctor` say so.

use xweave_wire::message::{BackEnd, Vm};

use crate::session::Session;

/// What cannot be followed of a virtual machine for that back end, and what can; none if all can.
fn unseen(back_end: BackEnd) -> Option<&'static str> {
    match back_end {
        // A recording says whether it joins them.
        BackEnd::VhostNet | BackEnd::EmulatedNet => None,
        BackEnd::VhostUser => Some(
            "a device of it is served by another process (vhost-user: OVS-DPDK, SPDK, virtiofsd): what goes through it \
             passes no host kernel, and is followed in the guest only",
        ),
        BackEnd::Vdpa => Some(
            "a device of it is hardware (vDPA): what goes through it passes no host kernel, and is followed in the guest \
             only",
        ),
        BackEnd::Vfio => Some(
            "a device is passed through to it (VFIO, as SR-IOV): what goes through it passes no host kernel, and is \
             followed in the guest only",
        ),
    }
}

const NOT_JOINED: &str = "its network device is emulated by its own process, and none of virtio: frames are followed in \
     the guest and in the host, but not joined; a virtio-net device joins them";

/// Of virtual machines of a host, what cannot be followed.
pub(crate) fn of_host(vms: &[Vm]) -> Vec<String> {
    let of_one = |vm: &Vm| {
        let name = format!("{}/{}", vm.comm, vm.pid);
        let told = vm.back_ends.iter().filter_map(|&of| unseen(of));
        told.map(|told| format!("{name}: {told}")).collect::<Vec<_>>()
    };
    vms.iter().flat_map(of_one).collect()
}

/// The same of those that are domains of a recording, if any is known to be one.
pub(crate) fn warnings<'v>(sessions: &[Session], vm: impl Fn(u8) -> Option<&'v Vm>) -> Vec<String> {
    let of_one = |session: &Session| {
        let name = session.name().to_owned();
        let back_ends = vm(session.number).map(|vm| vm.back_ends.as_slice()).unwrap_or_default();
        let apart = back_ends.contains(&BackEnd::EmulatedNet) && !session.emulated;
        let unseen = back_ends.iter().filter_map(|&of| unseen(of)).chain(apart.then_some(NOT_JOINED));
        unseen.map(|unseen| format!("{name}: {unseen}")).collect::<Vec<_>>()
    };
    sessions.iter().flat_map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_kernel_sees_is_named_with_its_machine() {
        let vm = |pid, back_ends: &[BackEnd]| Vm {
            pid,
            comm: "qemu".into(),
            back_ends: back_ends.to_vec(),
            ..Vm::default()
        };
        let told = of_host(&[vm(7, &[BackEnd::VhostNet]), vm(8, &[BackEnd::VhostUser, BackEnd::Vfio])]);
        assert_eq!(told.len(), 2);
        assert!(told[0].starts_with("qemu/8: ") && told[0].contains("vhost-user"), "{told:?}");
        assert!(told[1].starts_with("qemu/8: ") && told[1].contains("SR-IOV"), "{told:?}");
    }
}
