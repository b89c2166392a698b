//! The threads of the machines: their numbers, processes and names.

use super::stage::{GUEST, HOST};

/// The first of those that ask; each has a process of its own.
pub(super) const CLIENT: u32 = 100;
/// QEMU: its main thread, and those of two vCPUs and of the disk.
pub(super) const QEMU: u32 = 50;
pub(super) const VCPUS: [u32; 2] = [51, 52];
pub(super) const IOTHREAD: u32 = 53;
/// The thread that carries the guest's frames.
pub(super) const VHOST: u32 = 60;
/// A program of the host, which takes CPUs.
pub(super) const HOG: u32 = 70;
/// The server, and other threads of its process.
pub(super) const SERVER: u32 = 200;
pub(super) const SIBLING: u32 = 201;
pub(super) const HOLDER: u32 = 202;
pub(super) const WORKER: u32 = 203;
/// Another program beside the server.
pub(super) const OTHER: u32 = 300;
/// A process of its own that has the server's name.
pub(super) const NAMESAKE: u32 = 301;
/// Threads of the kernel beside the server.
pub(super) const KSOFTIRQD: u32 = 14;
pub(super) const NAPI: u32 = 80;
/// Threads that do little, and have nothing to do with requests.
pub(super) const KWORKER: u32 = 90;
/// Threads of the kernel that do I/O for the server's process, and the one that handles the disk's interrupt.
pub(super) const IO_WORKER: u32 = 210;
pub(super) const IO_POLLER: u32 = 211;
pub(super) const HANDLER: u32 = 20;
/// A thread of the kernel that brings what a device has, and those of a machine that is not recorded.
pub(super) const BRINGER: u32 = 91;
pub(super) const OTHER_QEMU: u32 = 900;
pub(super) const OTHER_VCPU: u32 = 910;
pub(super) const OTHER_VHOST: u32 = 960;
/// The server's threads that collect garbage.
pub(super) const VM_THREAD: u32 = 220;
pub(super) const COLLECTOR: u32 = 221;
/// Those that the server asks: the one in the middle is slow.
pub(super) const BACKENDS: [u32; 3] = [400, 401, 402];
/// The shell that stops others.
pub(super) const SHELL: u32 = 310;

/// A thread of a domain: its number, process and name. `server` is the domain that has the server.
pub(super) fn all(server: u8, vhost_in_qemu: bool) -> Vec<(u8, u32, u32, String)> {
    let mut all = Vec::new();
    let mut add = |domain: u8, tid: u32, process: u32, name: &str| {
        all.push((domain, tid, process, name.to_owned()));
    };
    for nth in 0..12 {
        add(HOST, CLIENT + nth, CLIENT + nth, "client");
    }
    add(HOST, HOG, HOG, "sh");
    add(HOST, SHELL, SHELL, "bash");
    add(HOST, KWORKER, KWORKER, "kworker/1:1");
    if server == GUEST {
        add(HOST, QEMU, QEMU, "qemu-system-x86");
        add(HOST, VCPUS[0], QEMU, "CPU 0/KVM");
        add(HOST, VCPUS[1], QEMU, "CPU 1/KVM");
        add(HOST, IOTHREAD, QEMU, "IO iothread");
        add(HOST, VHOST, if vhost_in_qemu { QEMU } else { VHOST }, "vhost-50");
        add(GUEST, KWORKER, KWORKER, "kworker/0:2");
        add(GUEST, SHELL, SHELL, "bash");
    }
    for tid in [SERVER, SIBLING, HOLDER, WORKER] {
        add(server, tid, SERVER, "server");
    }
    add(server, IO_WORKER, SERVER, "iou-wrk-200");
    add(server, IO_POLLER, SERVER, "iou-sqp-200");
    add(server, HANDLER, HANDLER, "irq/27-virtio1");
    add(HOST, BRINGER, BRINGER, "kworker/20:1");
    add(HOST, OTHER_QEMU, OTHER_QEMU, "qemu-system-x86");
    add(HOST, OTHER_VCPU, OTHER_QEMU, "CPU 0/KVM");
    add(HOST, OTHER_VHOST, OTHER_VHOST, "vhost-900");
    add(server, VM_THREAD, SERVER, "VM Thread");
    add(server, COLLECTOR, SERVER, "GC Thread#0");
    for (tid, name) in BACKENDS.into_iter().zip(["fastdb", "slowdb", "fastdb"]) {
        add(server, tid, tid, name);
    }
    add(server, OTHER, OTHER, "backup");
    add(server, NAMESAKE, NAMESAKE, "server");
    add(server, KSOFTIRQD, KSOFTIRQD, "ksoftirqd/0");
    add(server, NAPI, NAPI, "napi/eth0-8193");
    all
}
