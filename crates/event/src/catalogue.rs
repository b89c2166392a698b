//! The catalogue: an entry for each kind of event.
//!
//! An entry has the kind's number (in the protocol), its name (in traces), its group (of `record --events`; none if it comes
//! with all of them, or with none), what happened, and its members, in the order in which they lie behind the header. Of
//! each member: its type, and what it holds.
//!
//! | type | |
//! |---|---|
//! | `u32`, `i32`, `u64`, `text` | lies behind the header; of a member that is larger, `u32` has the low half |
//! | `i8` | lies in the header |
//! | `added` | is no part of what probes write: the controller adds it |
//! | `maybe …` | 0 says that it is not known |
//!
//! A kind may have the members of another one (`as DiskQueue`).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    group::Group,
    member::{Field, Member, field},
};

/// Size of an event's header in bytes.
pub const HEADER: usize = 16;

/// Place of a member of that type, and whether it is always known.
macro_rules! place {
    (maybe $type:ident) => {
        (place!($type).0, false)
    };
    (i8) => {
        (0, true)
    };
    (added) => {
        (0, true)
    };
    (u32) => {
        (4, true)
    };
    (i32) => {
        (4, true)
    };
    (u64) => {
        (8, true)
    };
    (text) => {
        (16, false)
    };
}

macro_rules! member {
    (other) => {
        Member::Other
    };
    (object) => {
        Member::Object
    };
    (position) => {
        Member::Position
    };
    (bytes) => {
        Member::Bytes
    };
    (code) => {
        Member::Code
    };
    (name) => {
        Member::Name
    };
}

/// Members of a kind.
macro_rules! fields {
    (as $same:ident) => {
        Self::$same.fields()
    };
    ($($member:ident: $($type:ident)+ = $meaning:expr;)*) => {
        const { &[$(field(member!($member), place!($($type)+), $meaning)),*] }
    };
}

macro_rules! group {
    (none) => {
        None
    };
    ($group:ident) => {
        Some(Group::$group)
    };
}

macro_rules! catalogue {
    ($($number:literal $kind:ident $name:literal $group:ident $about:literal { $($members:tt)* })*) => {
        /// Kind of an event. Members that it does not have are 0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = $about] $kind = $number,)*
        }

        impl Kind {
            /// All kinds, in the order of their numbers.
            pub const ALL: [Self; COUNT] = in_order([$(Self::$kind),*]);

            /// Name in traces.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Group of events (`record --events`); none if it is recorded with all of them, or with none.
            pub const fn group(self) -> Option<Group> {
                match self { $(Self::$kind => group!($group),)* }
            }

            /// Meaning, for documents.
            pub(crate) const fn about(self) -> &'static str {
                match self { $(Self::$kind => $about,)* }
            }

            /// Members, in the order in which they follow the header.
            pub const fn fields(self) -> &'static [Field] {
                match self {
                    $(Self::$kind => fields! { $($members)* },)*
                }
            }
        }

        const COUNT: usize = [$($name),*].len();
    };
}

const PID: &str = "the thread's process";
const DISK: &str = "the disk (major << 20 \\| minor)";
const SECTOR: &str = "the first sector, of 512 bytes";
const ACCESS: &str = "[`Access`]";
const BIO: &str = "what the kernel knows the access by, among those under way: the address of its first `struct bio` / 64, low \
                   32 bits";
const SOCKET: &str = "the socket";
const CONNECTION: &str = "the connection";
const NETWORK: &str = "the network namespace";
const SENT: &str = "how many";
const SENDING: &str = "when: [`Sending`]";
const CALL: &str = "how long ago the call began, in ns, at most 2,147,483,647";
const INODE: &str = "its inode number";
const DEVICE: &str = "the device of its file system (major << 20 \\| minor)";
const DEVICE_NUMBER: &str = "the device's number (ifindex)";
const FRAME: &str =
    "what the frame is known by while it waits: the address of its `struct sk_buff` / 64, low 32 bits";
const NEIGHBOUR: &str =
    "what the next hop is known by: the address of its `struct neighbour` / 64, low 32 bits";
const INTERRUPT: &str = "its number; 65536 plus the vector for those of the local timer and from other CPUs";
const SOFTIRQ: &str = "its number";
const LOCK: &str = "the lock's address";
const VCPU: &str = "the vCPU";
const VM: &str = "the process that runs the virtual machine, as in `domains[].vm.pid` and `domains[].vms[].pid` of `trace.json`";
const MAJOR: &str = "1 if the page had to be read (a major fault), 0 if the thread slept although it had not";
const FAULT: &str = "how long ago the fault began, in ns, at most 2,147,483,647";

catalogue! {
    0 Switch "switch" Sched "The CPU switched from `tid` to `other`." {
        other: u32 = "the thread that runs from now on";
        code: i8 = "the state that `tid` is left in: [`State`]";
    }
    1 Wake "wake" Sched "`tid`, or an interrupt on top of it, woke `other`." {
        other: u32 = "the thread that is woken";
        object: maybe u32 = "the CPU that `other` waits for, plus 1";
        code: maybe i8 = "in which context ([`Context`]), plus [`Quota`]";
    }
    2 Fork "fork" Sched "`tid` created a thread." {
        other: u32 = "the new thread";
        object: u32 = PID;
        name: text = "its name";
    }
    3 Thread "thread" none "A thread has this name: recorded when it is first seen, and when its name changes." {
        other: u32 = "the thread";
        object: u32 = PID;
        name: text = "its name";
    }
    4 Exit "exit" Sched "`tid` exited." {}
    5 DiskQueue "disk_queue" Block "`tid` requested an access to a disk." {
        position: u64 = SECTOR;
        bytes: u32 = SENT;
        object: u32 = DISK;
        other: maybe u32 = BIO;
        code: i8 = ACCESS;
    }
    6 DiskIssue "disk_issue" Block "An access was issued to the disk; if several were as one, `other` is the first." { as DiskQueue }
    7 DiskMerge "disk_merge" Block "An access was merged with a waiting one: `position` and `bytes` are what was added." { as DiskQueue }
    8 DiskComplete "disk_complete" Block "The disk has done an access; with `bytes` 0, the one identified by `other` as a whole." { as DiskQueue }
    9 Send "send" Net "`tid` sent `bytes`." {
        object: u64 = SOCKET;
        position: u64 = CONNECTION;
        bytes: u32 = SENT;
        code: i32 = SENDING;
        other: maybe u32 = NETWORK;
    }
    10 Receive "receive" Net "`tid` received `bytes`." {
        object: u64 = SOCKET;
        position: u64 = CONNECTION;
        bytes: u32 = SENT;
        code: maybe i32 = CALL;
        other: maybe u32 = NETWORK;
    }
    11 Socket "socket" Net "The TCP state of a socket changed." {
        object: u64 = SOCKET;
        position: u64 = CONNECTION;
        other: maybe u32 = NETWORK;
        code: i8 = "its state from now on (`TCP_SYN_SENT` is 2: include/net/tcp_states.h)";
    }
    12 Accept "accept" Net "`tid` accepted a connection." {
        object: u64 = "the socket that it got";
        position: u64 = CONNECTION;
        other: maybe u32 = NETWORK;
    }
    13 Retransmit "retransmit" Net "TCP retransmitted." {
        object: u64 = SOCKET;
        position: u64 = CONNECTION;
        other: maybe u32 = NETWORK;
        bytes: maybe u32 = "how long ago it began to, in ns, at most 2,147,483,647: what arrives may be received before the kernel \
                            tells of it";
        code: maybe i8 = "TCP's state";
    }
    14 SynDrop "syn_drop" Net "TCP dropped a SYN." {
        object: u64 = "the listening socket";
        position: u64 = CONNECTION;
        bytes: maybe u32 = "the number of connections waiting to be accepted";
        other: maybe u32 = NETWORK;
        code: i8 = "why: [`Refusal`]";
    }
    15 IrqEnter "irq_enter" Sched "An interrupt began, on top of whatever ran." { object: u32 = INTERRUPT; }
    16 IrqExit "irq_exit" Sched "The interrupt ended." { object: u32 = INTERRUPT; }
    17 SoftirqEnter "softirq_enter" Sched "A softirq began." {
        object: u32 = SOFTIRQ;
        code: maybe i8 = "the context that raised it: [`Context`]";
    }
    18 SoftirqExit "softirq_exit" Sched "The softirq ended." { object: u32 = SOFTIRQ; }
    19 LockWait "lock_wait" Sched "`tid` waits for a lock." { object: u64 = LOCK; }
    20 LockAcquired "lock_acquired" Sched "`tid` stopped waiting for a lock." {
        object: u64 = LOCK;
        code: i32 = "0 if it was woken";
    }
    21 LockWake "lock_wake" Sched "`tid` hands a lock to a waiter." { object: u64 = LOCK; }
    22 SyscallEnter "syscall_enter" Syscalls "`tid` entered a system call." { object: u32 = "its number"; }
    23 SyscallExit "syscall_exit" Syscalls "The system call returned." {
        bytes: u64 = "what it returned, as 64 bits";
        object: u32 = "its number";
    }
    24 VmEnter "vm_enter" Vm "The vCPU that `tid` runs entered its guest." {
        object: u32 = VCPU;
        other: maybe added = VM;
    }
    25 VmExit "vm_exit" Vm "The vCPU came out of its guest." {
        object: u32 = VCPU;
        code: i32 = "the hardware's exit reason; from 0x01000000 on, why a PV guest entered Xen \
                     ([`crates/trace/src/xen.rs`](../crates/trace/src/xen.rs))";
        other: maybe added = VM;
    }
    26 VmHalt "vm_halt" Vm "The vCPU was halted until now." {
        bytes: u64 = "for how long, in ns";
        object: u32 = VCPU;
        code: i8 = "1 polling, 0 asleep";
        other: maybe added = VM;
    }
    27 VmInject "vm_inject" Vm "An interrupt was injected into the vCPU." {
        object: u32 = VCPU;
        position: u32 = "the interrupt's vector";
        other: maybe added = VM;
    }
    28 Migrate "migrate" Sched "`other` was moved to another CPU. After `wake` at once, that is the CPU it was woken for." {
        other: u32 = "the thread";
        object: u32 = "the CPU that it has to wait for from now on";
        position: maybe u32 = "the CPU that it may have waited for";
    }
    29 DiskRemap "disk_remap" Block "An access, or a part of it, goes on as one to another disk." {
        position: u64 = "its first sector there";
        bytes: u64 = "its first sector on the disk that was asked";
        object: u32 = "the disk that it goes to (major << 20 \\| minor)";
        other: u32 = "the disk that was asked";
        code: i32 = "its size, in sectors";
    }
    30 PipeWrite "pipe_write" Net "`tid` writes to a pipe or FIFO, which `ls -l /proc/PID/fd` shows as `pipe:[INODE]`." {
        object: u64 = INODE;
        position: u32 = DEVICE;
        bytes: u32 = SENT;
        code: i32 = SENDING;
    }
    31 PipeRead "pipe_read" Net "`tid` read from a pipe or FIFO: 0 bytes if nobody can write to it any more." {
        object: u64 = INODE;
        position: u32 = DEVICE;
        bytes: u32 = SENT;
        code: maybe i32 = CALL;
    }
    32 PipeFull "pipe_full" Net "`tid` slept in a write to a pipe or FIFO that is now over." {
        object: u64 = INODE;
        position: u32 = DEVICE;
        bytes: maybe u32 = CALL;
    }
    33 PageFault "page_fault" Block "`tid` faulted on a page of a mapped file." {
        object: u64 = INODE;
        position: u32 = DEVICE;
        bytes: maybe u32 = FAULT;
        name: text = "its name, without its folder, at most 15 bytes";
        code: i8 = MAJOR;
    }
    34 SwapIn "swap_in" Block "`tid` faulted on a page of its memory that was swapped out." {
        bytes: maybe u32 = FAULT;
        code: i8 = MAJOR;
    }
    35 Key "key" Net "`tid` sent or received a message with a key (`record --key`)." {
        object: u64 = "a hash of the key (FNV-1a, 64 bits)";
        position: u64 = "its first 8 bytes (little-endian), 0 where it ends";
        bytes: u32 = "the message's size";
        code: i32 = "1 sent, 0 received";
        other: maybe u32 = "a hash of the message's first 64 bytes, by which one that is sent again is known";
    }
    36 CpuIdle "cpu_idle" Power "The CPU enters an idle state, or has left it." {
        code: i8 = "the state, as its cpuidle driver numbers it (1 without a driver, 0 polling); -1: it has left it";
    }
    37 CpuIdleMiss "cpu_idle_miss" Power "The idle state that the CPU has left was not the right one." {
        object: u32 = "1 if it was too shallow, 0 if it was too deep";
        code: i8 = "the state";
    }
    38 CpuFrequency "cpu_frequency" Power "The frequency of a CPU changed." {
        object: u32 = "the CPU";
        bytes: u32 = "its frequency from now on, in kHz";
    }
    39 QdiscEnqueue "qdisc_enqueue" Net "A frame was put into the queueing discipline of a network device." {
        position: maybe u64 = "the connection of TCP or UDP, as the frame's sender calls it";
        object: u32 = DEVICE_NUMBER;
        other: u32 = FRAME;
        name: text = "the discipline's kind (`tbf`)";
    }
    40 QdiscDequeue "qdisc_dequeue" Net "A frame came out of the queueing discipline of a network device, to be sent." {
        object: u32 = DEVICE_NUMBER;
        other: u32 = FRAME;
        name: text = "the device's name";
    }
    41 NeighEnqueue "neigh_enqueue" Net "A frame waits until the link-layer address of its next hop is known (ARP, NDP)." {
        position: maybe u64 = "the connection of TCP or UDP, as the frame's sender calls it";
        other: u32 = NEIGHBOUR;
        bytes: u32 = "how many frames wait for it now";
        name: text = "the device's name";
    }
    42 NeighDequeue "neigh_dequeue" Net "The link-layer address of a next hop is known: the frames that waited for it are sent." {
        other: u32 = NEIGHBOUR;
    }
    43 TcpHold "tcp_hold" Net "TCP holds back what it was given to send." {
        position: u64 = "the connection, as the sender calls it";
        bytes: u32 = "how much";
        code: i8 = "why: [`HoldReason`]";
    }
    44 TcpRelease "tcp_release" Net "TCP holds nothing back any more, or for none of these reasons." {
        position: u64 = "the connection, as the sender calls it";
        bytes: u32 = "how long ago it began to send that, in ns";
    }
    45 Lost "lost" none "Events of this CPU were lost. A CPU tells of a loss with its next event, which may be long after." {
        object: maybe u64 = "how long ago the last of them was, in ns";
        position: maybe u64 = "how long ago the first of them was, in ns";
        bytes: maybe u64 = "how many";
    }
    46 Other "other" none "An event of another kind, which no probe of xweave's records." {
        name: maybe added = "what its recorder calls it";
    }
}

/// Checks that the kinds are in the order of their numbers 0, 1, …
const fn in_order(listed: [Kind; COUNT]) -> [Kind; COUNT] {
    let mut at = 0;
    while at < COUNT {
        assert!(listed[at] as usize == at, "the catalogue is in the order of its numbers");
        at += 1;
    }
    listed
}

impl Kind {
    /// The kind with this number; none if there is none.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// The kind that a table calls so; none if there is none. Traces of schema 1 called three of them otherwise.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "disk_done" => Some(Self::DiskComplete),
            "lock_done" => Some(Self::LockAcquired),
            "refuse" => Some(Self::SynDrop),
            _ => Self::ALL.into_iter().find(|kind| kind.name() == name),
        }
    }

    /// Name of its group, as [`Kind::group`].
    pub fn group_name(self) -> Option<&'static str> {
        self.group().map(Group::name)
    }

    /// Size of an event of this kind in bytes, a multiple of 8; none if no probe writes it.
    pub const fn size(self) -> Option<usize> {
        if matches!(self, Self::Other) {
            return None;
        }
        let (mut size, mut at) = (HEADER, 0);
        while at < self.fields().len() {
            size += self.fields()[at].size;
            at += 1;
        }
        Some(size.next_multiple_of(8))
    }

    /// Reports whether it has a name.
    pub fn has_name(self) -> bool {
        self.fields().iter().any(|field| field.member == Member::Name)
    }

    /// Members in which 0 is a value, not "not recorded": bits of [`Member`].
    pub const fn known(self) -> u8 {
        let (mut known, mut at) = (0, 0);
        while at < self.fields().len() {
            let field = self.fields()[at];
            if field.known {
                known |= field.member as u8;
            }
            at += 1;
        }
        known
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_name_and_by_its_older_one() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
        }
        assert_eq!(Kind::named("disk_done"), Some(Kind::DiskComplete));
        assert_eq!(Kind::named("disk"), None);
    }

    #[test]
    fn a_kind_has_each_member_once() {
        for kind in Kind::ALL {
            let members: Vec<_> = kind.fields().iter().map(|field| field.member).collect();
            let mut once = members.clone();
            once.dedup();
            assert!(
                once.len() == members.len()
                    && once.iter().all(|of| members.iter().filter(|m| *m == of).count() == 1)
            );
        }
    }
}
