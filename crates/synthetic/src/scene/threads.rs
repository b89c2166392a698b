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
    add(server, OTHER, OTHER, "backup");
    add(server, NAMESAKE, NAMESAKE, "server");
    add(server, KSOFTIRQD, KSOFTIRQD, "ksoftirqd/0");
    add(server, NAPI, NAPI, "napi/eth0-8193");
    all
}
