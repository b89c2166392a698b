//! The objects of a trace: what each is, and with which it is told as one. What they are called is for who shows them.

use rustc_hash::FxHashMap;
use xweave_replay::CpuId;
use xweave_trace::{
    Trace,
    event::{Name, Names, Refusal},
};

use crate::{
    ThreadId,
    breakdown::{self, Object},
    connection::Refused,
    disk::DiskNames,
    exit::ExitReason,
    group::{ThreadFacts, service},
    guests::Guests,
    held::{Holder, QdiscId},
    machine::Machine,
    power::Power,
    wait::WaitedFor,
};

pub use crate::group::ObjectGroup;

/// A number of [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectNumber(u32);

/// The domain whose time something is; of what lies between two, both.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DomainRef {
    /// A domain, by its name.
    One(String),
    /// What goes from the first to the second.
    Between(String, String),
}

impl DomainRef {
    /// The domain's name, if it is one.
    pub fn one(&self) -> Option<&str> {
        match self {
            Self::One(name) => Some(name),
            Self::Between(..) => None,
        }
    }
}

/// Kinds of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ObjectKind {
    /// A disk.
    Disk,
    /// Interrupts of a processor.
    Interrupts,
    /// What lies between the two ends of a connection.
    Link,
    /// A lock of the kernel.
    Lock,
    /// The other end of a connection, of which there are no events.
    Peer,
    /// Next hops whose link-layer addresses were asked for.
    Neigh,
    /// A queueing discipline of a network device.
    Qdisc,
    /// What TCP was given to send.
    SendQueue,
    /// A thread.
    Thread,
    /// A vCPU as its guest has it: the time is the host's.
    Vcpu,
}

impl ObjectKind {
    /// As documents call it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Which of its group an object is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Member {
    /// The only one.
    Only,
    /// A thread.
    Thread {
        /// Its number.
        tid: u32,
        /// Its whole name, where that says more than its group.
        name: Option<String>,
    },
    /// A guest's vCPU, by its number.
    Vcpu(u32),
    /// A lock.
    Lock {
        /// Its address.
        address: u64,
        /// Who held it.
        holder: Box<Member>,
    },
    /// A processor's.
    Cpu(u32),
}

/// An object, as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// Whose time it takes.
    pub domain: DomainRef,
    /// What it is.
    pub kind: ObjectKind,
    /// Those that it is told as one with.
    pub group: ObjectGroup,
    /// Which of these it is.
    pub member: Member,
}

/// What more is known of why: as [`breakdown::Cause`], with the thread's number among [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// This thread, or vCPU, had the processor.
    Had(ObjectNumber),
    /// The same, and that is of the same process.
    HadByOwn(ObjectNumber),
    /// It was sent again so many times.
    Repeated(usize),
    /// The same, because it was not answered.
    Refused(usize, Refused),
    /// A thread waited for the futex at this address meanwhile.
    Futex(u64),
    /// The same, and that is a lock, which the thread that ended the wait had held.
    HeldFutex(u64),
    /// A thread waited meanwhile for data in the pipe of this inode number, which this one writes to.
    Data(u64, ObjectNumber),
    /// The same for room in a pipe, which this one reads.
    Room(u64, ObjectNumber),
    /// The same for a page of a file that it has mapped.
    PageOf(Name),
    /// The same for a page that was swapped out.
    Swapped,
    /// It had not yet received what it then took up, and did not wait for it.
    Earlier,
    /// This thread had received the request.
    Moved(ObjectNumber),
    /// So many times something was sent before the answer came.
    Ahead(usize),
    /// The processor saved power.
    Power(Power),
    /// Interrupts of the host ran above the vCPU's thread.
    Interrupted,
    /// The vCPU had come out of its guest, for this reason as an event's `code`.
    Exited(i32),
}

/// A [cause](Cause), of all objects that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Another of these threads, or vCPUs, had the processor.
    Had(ObjectGroup),
    /// The same, and that is of the same process.
    HadByOwn(ObjectGroup),
    /// It was sent again, as no answer came.
    Repeated,
    /// It was sent again, as it was refused.
    Refused(Refusal),
    /// The futex at this address was waited for meanwhile.
    Futex(u64),
    /// The same, and that is a lock, which had been held.
    HeldFutex(u64),
    /// Data in a pipe was waited for, which these write.
    PipeData(ObjectGroup),
    /// Room in a pipe was waited for, which these read.
    PipeRoom(ObjectGroup),
    /// A page of a file was waited for, which is called so, if that is known.
    PageFault(Option<String>),
    /// A page was waited for that was swapped out.
    SwapIn,
    /// It had not yet received what it then took up, and did not wait for it.
    Earlier,
    /// Another of these threads had received the request.
    Moved(ObjectGroup),
    /// So many times something was sent before the answer came.
    Ahead(usize),
    /// The processor saved power.
    Power(Power),
    /// Interrupts of the host ran above a vCPU's thread.
    Interrupted,
    /// The vCPU had come out of its guest for this reason.
    Exited(ExitReason),
}

impl Reason {
    /// As documents call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Had(_) | Self::HadByOwn(_) => "cpu_taken",
            Self::Repeated => "sent_again",
            Self::Refused(_) => "refused",
            Self::Futex(_) | Self::HeldFutex(_) => "futex",
            Self::PipeData(_) => "pipe_data",
            Self::PipeRoom(_) => "pipe_room",
            Self::PageFault(_) => "page_fault",
            Self::SwapIn => "swap_in",
            Self::Earlier => "earlier",
            Self::Moved(_) => "moved",
            Self::Ahead(_) => "ahead",
            Self::Power(_) => "power",
            Self::Interrupted => "interrupted",
            Self::Exited(_) => "exited",
        }
    }
}

/// All objects that were met, each once.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    domains: FxHashMap<u8, String>,
    disks: DiskNames,
    /// Who runs each guest.
    hosts: FxHashMap<u8, String>,
    all: Vec<ObjectRef>,
    /// Files of which pages were waited for.
    files: FxHashMap<Name, Box<str>>,
    /// A thread that goes on under another name, or turns out to be a vCPU, is another object.
    numbers: FxHashMap<(Object, Name, Option<CpuId>), ObjectNumber>,
}

impl Objects {
    /// None yet, of the domains of a trace.
    pub fn of(trace: &Trace) -> Self {
        let Guests { names: domains, hosts, .. } = Guests::of(trace);
        Self { domains, disks: DiskNames::of(trace), hosts, ..Self::default() }
    }

    /// The object of a number.
    pub fn get(&self, number: ObjectNumber) -> &ObjectRef {
        // Numbers are given by this table only.
        &self.all[number.0 as usize]
    }

    /// The name of the domain that runs a guest; none, if it is no guest.
    pub fn host(&self, guest: &str) -> Option<&str> {
        let number = self.domains.iter().find(|(_, name)| *name == guest)?.0;
        self.hosts.get(number).map(String::as_str)
    }

    /// A domain's name.
    pub fn domain(&self, number: u8) -> &str {
        self.domains.get(&number).map_or("?", |name| name)
    }

    /// A file's name, if it is known and pages of the file were waited for.
    pub fn file(&self, name: Name) -> Option<&str> {
        self.files.get(&name).map(|name| &**name).filter(|name| !name.is_empty())
    }

    /// The reason that a cause is one of.
    pub fn reason(&self, cause: Cause) -> Reason {
        let group = |number| self.get(number).group.clone();
        match cause {
            Cause::Had(other) => Reason::Had(group(other)),
            Cause::HadByOwn(other) => Reason::HadByOwn(group(other)),
            Cause::Repeated(_) => Reason::Repeated,
            Cause::Refused(_, Refused { why, .. }) => Reason::Refused(why),
            Cause::Futex(address) => Reason::Futex(address),
            Cause::HeldFutex(address) => Reason::HeldFutex(address),
            Cause::Data(_, writer) => Reason::PipeData(group(writer)),
            Cause::Room(_, reader) => Reason::PipeRoom(group(reader)),
            Cause::PageOf(file) => Reason::PageFault(self.file(file).map(str::to_owned)),
            Cause::Swapped => Reason::SwapIn,
            Cause::Earlier => Reason::Earlier,
            Cause::Moved(other) => Reason::Moved(group(other)),
            Cause::Ahead(times) => Reason::Ahead(times),
            Cause::Power(power) => Reason::Power(power),
            Cause::Interrupted => Reason::Interrupted,
            Cause::Exited(code) => Reason::Exited(ExitReason::of(code)),
        }
    }

    pub(crate) fn number(&mut self, object: Object, machine: &Machine, names: &Names) -> ObjectNumber {
        let thread = match object {
            Object::Thread(id) | Object::Lock { holder: id, .. } => Some(id),
            _ => None,
        };
        let name = thread.and_then(|id| Some(machine.threads().get(id)?.name)).unwrap_or_default();
        let vcpu = thread.and_then(|id| machine.vcpus.which(id));
        if let Some(known) = self.numbers.get(&(object, name, vcpu)) {
            return *known;
        }
        let number = ObjectNumber(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let described = self.describe(object, names.text(name), vcpu, machine, names);
        self.all.push(described);
        self.numbers.insert((object, name, vcpu), number);
        number
    }

    fn describe(
        &self,
        object: Object,
        name: &str,
        vcpu: Option<CpuId>,
        machine: &Machine,
        names: &Names,
    ) -> ObjectRef {
        let own = |domain, kind, group, member| ObjectRef {
            domain: DomainRef::One(self.domain(domain).to_owned()),
            kind,
            group,
            member,
        };
        match object {
            Object::Thread(id) => {
                let (group, member) = self.thread(id, name, vcpu, machine);
                own(id.domain, ObjectKind::Thread, group, member)
            }
            Object::Disk(disk) => {
                let group = ObjectGroup::Disk(self.disks.name(disk));
                own(disk.domain, ObjectKind::Disk, group, Member::Only)
            }
            Object::Lock { address, holder } => {
                let (group, member) = self.thread(holder, name, vcpu, machine);
                let member = Member::Lock { address, holder: Box::new(member) };
                own(holder.domain, ObjectKind::Lock, ObjectGroup::Locks(Box::new(group)), member)
            }
            Object::Holder(Holder::Qdisc(QdiscId { domain, kind, device })) => {
                let text = |name| names.text(name).to_owned();
                let group = ObjectGroup::Qdisc { kind: text(kind), device: text(device) };
                own(domain, ObjectKind::Qdisc, group, Member::Only)
            }
            Object::Holder(Holder::Neigh { domain, device }) => {
                let group = ObjectGroup::Neigh { device: names.text(device).to_owned() };
                own(domain, ObjectKind::Neigh, group, Member::Only)
            }
            Object::Holder(Holder::SendQueue { domain, reason }) => {
                own(domain, ObjectKind::SendQueue, ObjectGroup::SendQueue { reason }, Member::Only)
            }
            Object::Interrupts(cpu) => {
                own(cpu.domain, ObjectKind::Interrupts, ObjectGroup::Interrupts, Member::Cpu(cpu.cpu))
            }
            Object::Vcpu(cpu) => ObjectRef {
                domain: DomainRef::One(self.hosts.get(&cpu.domain).cloned().unwrap_or_default()),
                kind: ObjectKind::Vcpu,
                group: ObjectGroup::Vcpus { guest: self.domain(cpu.domain).to_owned() },
                member: Member::Vcpu(cpu.cpu),
            },
            Object::Link { from, to, service } => ObjectRef {
                domain: DomainRef::Between(self.domain(from).to_owned(), self.domain(to).to_owned()),
                kind: ObjectKind::Link,
                group: ObjectGroup::Link { service },
                member: Member::Only,
            },
            Object::Remote { domain, service } => {
                own(domain, ObjectKind::Peer, ObjectGroup::Peer { service }, Member::Only)
            }
        }
    }

    /// Which threads a thread is like, and which of them it is: of a guest's process, what it does for which guest.
    fn thread(
        &self,
        id: ThreadId,
        name: &str,
        vcpu: Option<CpuId>,
        machine: &Machine,
    ) -> (ObjectGroup, Member) {
        if let Some(vcpu) = vcpu {
            let guest = self.domain(vcpu.domain).to_owned();
            return (ObjectGroup::Vcpus { guest }, Member::Vcpu(vcpu.cpu));
        }
        let tid = id.tid;
        let process = machine.threads().process(id);
        let service = service(name);
        let guest = machine.vcpus.guest(id.domain, service.map_or(process, |(_, process)| process));
        let guest = guest.map(|guest| self.domain(guest));
        // One that is called as if it served a guest, and serves none that is known, is called as it is.
        let facts = ThreadFacts { name, is_vcpu: false, guest, serves: service.map(|(is, _)| is) };
        let member = Member::Thread { tid, name: facts.whole_name().map(str::to_owned) };
        let records = guest.is_none() && machine.recorders.has(id.domain, process, name);
        (if records { ObjectGroup::Recorder } else { facts.group() }, member)
    }

    pub(crate) fn cause(&mut self, cause: breakdown::Cause, machine: &Machine, names: &Names) -> Cause {
        match cause {
            // A vCPU has the name that users know.
            breakdown::Cause::Had(thread) => {
                let vcpu = machine.vcpus.which(thread).map(Object::Vcpu);
                Cause::Had(self.number(vcpu.unwrap_or(Object::Thread(thread)), machine, names))
            }
            breakdown::Cause::HadByOwn(thread) => {
                Cause::HadByOwn(self.number(Object::Thread(thread), machine, names))
            }
            breakdown::Cause::Repeated(times) => Cause::Repeated(times),
            breakdown::Cause::Refused(times, refused) => Cause::Refused(times, refused),
            breakdown::Cause::Futex(address) => Cause::Futex(address),
            breakdown::Cause::HeldFutex(address) => Cause::HeldFutex(address),
            breakdown::Cause::Awaited(awaited) => match awaited {
                WaitedFor::Data { pipe, writer } => {
                    Cause::Data(pipe, self.number(Object::Thread(writer), machine, names))
                }
                WaitedFor::Room { pipe, reader } => {
                    Cause::Room(pipe, self.number(Object::Thread(reader), machine, names))
                }
                WaitedFor::PageOf(file) => {
                    self.files.entry(file).or_insert_with(|| names.text(file).into());
                    Cause::PageOf(file)
                }
                WaitedFor::Swapped => Cause::Swapped,
            },
            breakdown::Cause::Earlier => Cause::Earlier,
            breakdown::Cause::Moved(thread) => {
                Cause::Moved(self.number(Object::Thread(thread), machine, names))
            }
            breakdown::Cause::Ahead(times) => Cause::Ahead(times),
            breakdown::Cause::Power(power) => Cause::Power(power),
            breakdown::Cause::Interrupted => Cause::Interrupted,
            breakdown::Cause::Exited(reason) => Cause::Exited(reason),
        }
    }
}
