//! What objects are called, in documents and tables.

use rustc_hash::FxHashMap;
use xweave_trace::{
    Trace,
    event::{Name, Names, Refusal},
};

use crate::{
    ThreadId,
    breakdown::{self, Object},
    called::{Like, served},
    connection::Refused,
    disk::DiskNames,
    guests::Guests,
    machine::Machine,
    power::Power,
    vcpu::{CpuId, exit_reason},
    wait::WaitedFor,
};

pub use crate::called::{RECORDER, Role};

/// A number of [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectNumber(u32);

/// An object, as people know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The domain whose time it takes; of what lies between two, both.
    pub domain: String,
    /// What it is called there: `nginx/812`, `disk 254:0`, `vCPU 0 of vm1`.
    pub name: String,
    /// What it is called together with those that are like it: `nginx`.
    pub group: String,
    /// What it is: `thread`, `disk`, `lock`, `interrupts`, `vcpu`, `link` or `peer`.
    pub kind: &'static str,
    /// What it is for, with those that are like it.
    pub role: Role,
}

/// What more is known of why: as [`breakdown::Cause`], with the thread's number among [`Objects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// This thread, or vCPU, had the processor.
    Had(ObjectNumber),
    /// It was sent again so many times.
    Repeated(usize),
    /// The same, because it was not answered.
    Refused(usize, Refused),
    /// A thread waited for the futex at this address meanwhile.
    Futex(u64),
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
    /// The vCPU had come out of its guest for this reason.
    Exited(i32),
}

/// All objects that were met, each told once.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    domains: FxHashMap<u8, String>,
    disks: DiskNames,
    /// Who runs each guest.
    hosts: FxHashMap<u8, String>,
    all: Vec<Named>,
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

    /// What an object is called.
    pub fn named(&self, number: ObjectNumber) -> &Named {
        // Numbers are given by this table only.
        &self.all[number.0 as usize]
    }

    /// What the domain is called that runs a guest; none, if it is no guest.
    pub fn host(&self, guest: &str) -> Option<&str> {
        let number = self.domains.iter().find(|(_, name)| *name == guest)?.0;
        self.hosts.get(number).map(String::as_str)
    }

    /// What a domain is called.
    pub fn domain(&self, number: u8) -> &str {
        self.domains.get(&number).map_or("?", |name| name)
    }

    /// A cause in words.
    pub fn why(&self, cause: Cause) -> String {
        match cause {
            Cause::Had(thread) => format!("{} had the CPU", self.named(thread).name),
            Cause::Moved(thread) => format!("{} had received the request", self.named(thread).name),
            Cause::Data(pipe, writer) => data_in(&format!("pipe {pipe}"), &self.named(writer).name),
            Cause::Room(pipe, reader) => room_in(&format!("pipe {pipe}"), &self.named(reader).name),
            Cause::Repeated(times) => format!("sent again {}, without an answer before", again(times)),
            Cause::Refused(times, Refused { why, waiting }) => {
                let waited = match why {
                    Refusal::AcceptQueue => format!(", {waiting} connections waited"),
                    Refusal::TimeWait | Refusal::Other => String::new(),
                };
                format!("sent again {}: {}{waited}", again(times), refused(why))
            }
            _ => self.why_such(cause),
        }
    }

    /// The same, told of all such.
    pub fn why_such(&self, cause: Cause) -> String {
        match cause {
            Cause::Had(thread) => format!("{} had the CPU", self.named(thread).group),
            Cause::Moved(thread) => {
                format!("another thread ({}) had received the request", self.named(thread).group)
            }
            Cause::Earlier => "before it took this up, perhaps for others".to_owned(),
            Cause::Ahead(times) => {
                format!("sent {times} times before the answer: requests are not told apart")
            }
            Cause::Repeated(_) => "sent again, without an answer before".to_owned(),
            Cause::Refused(_, Refused { why, .. }) => format!("sent again: {}", refused(why)),
            Cause::Futex(address) => format!("futex {address:#x} was waited for"),
            Cause::Data(_, writer) => data_in("a pipe", &self.named(writer).group),
            Cause::Room(_, reader) => room_in("a pipe", &self.named(reader).group),
            Cause::PageOf(file) => match self.files.get(&file).filter(|name| !name.is_empty()) {
                Some(name) => format!("page fault: a page of the file {name} was waited for"),
                None => "page fault: a page of a file was waited for".to_owned(),
            },
            Cause::Power(power) => power.to_string(),
            Cause::Interrupted => "interrupts of the host ran on its CPU".to_owned(),
            Cause::Exited(reason) => format!("{} exits", exit_reason(reason)),
            Cause::Swapped => "swap-in: a page that was swapped out was waited for".to_owned(),
        }
    }

    pub(crate) fn number(&mut self, object: Object, machine: &Machine, names: &Names) -> ObjectNumber {
        let thread = match object {
            Object::Thread(id) | Object::Lock { holder: id, .. } => Some(id),
            _ => None,
        };
        let name = thread.and_then(|id| Some(machine.threads.get(id)?.name)).unwrap_or_default();
        let vcpu = thread.and_then(|id| machine.vcpus.which(id));
        if let Some(known) = self.numbers.get(&(object, name, vcpu)) {
            return *known;
        }
        let number = ObjectNumber(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        let called = self.called(thread, names.text(name), vcpu, machine);
        self.all.push(self.name(object, called));
        self.numbers.insert((object, name, vcpu), number);
        number
    }

    /// A thread, and those like it, as users know them: of a guest's process, what it does for which guest.
    fn called(&self, thread: Option<ThreadId>, text: &str, vcpu: Option<CpuId>, machine: &Machine) -> Called {
        if let Some(vcpu) = vcpu {
            let guest = self.domain(vcpu.domain);
            return Called {
                one: format!("vCPU {} of {guest}", vcpu.cpu),
                all: format!("vCPUs of {guest}"),
                role: Role::Vcpus(guest.to_owned()),
            };
        }
        let tid = thread.map_or(0, |id| id.tid);
        if text.is_empty() {
            let all = "threads without a name".to_owned();
            return Called { one: format!("thread {tid}"), all, role: Role::Other };
        }
        let process = thread.and_then(|id| Some(machine.threads.get(id)?.process)).unwrap_or(0);
        let domain = thread.map_or(0, |id| id.domain);
        let served = served(text);
        let guest = machine.vcpus.guest(domain, served.map_or(process, |(_, process)| process));
        let guest = guest.map(|guest| self.domain(guest));
        // One that is called as if it served a guest, and serves none that is known, is called as it is.
        let serve = served.map(|(is, _)| is);
        let like = Like { name: text, vcpus: false, guest, serve };
        let (all, one) = (like.called().into_owned(), format!("{}/{tid}", like.one()));
        let records = guest.is_none() && machine.recorders.has(domain, process, text);
        match records {
            true => Called { one, all: RECORDER.to_owned(), role: Role::Recorder },
            false => Called { one, all, role: like.role() },
        }
    }

    pub(crate) fn cause(&mut self, cause: breakdown::Cause, machine: &Machine, names: &Names) -> Cause {
        match cause {
            // A vCPU has the name that users know.
            breakdown::Cause::Had(thread) => {
                let vcpu = machine.vcpus.which(thread).map(Object::Vcpu);
                Cause::Had(self.number(vcpu.unwrap_or(Object::Thread(thread)), machine, names))
            }
            breakdown::Cause::Repeated(times) => Cause::Repeated(times),
            breakdown::Cause::Refused(times, refused) => Cause::Refused(times, refused),
            breakdown::Cause::Futex(address) => Cause::Futex(address),
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

    fn name(&self, object: Object, thread: Called) -> Named {
        let domain = |number| self.domain(number).to_owned();
        let named = |domain, kind, name: String, group: String| {
            let role = Role::Other;
            Named { domain, name, group, kind, role }
        };
        match object {
            Object::Thread(id) => {
                let Called { one, all, role } = thread;
                Named { role, ..named(domain(id.domain), "thread", one, all) }
            }
            Object::Disk(disk) => {
                let name = self.disks.called(disk);
                named(domain(disk.domain), "disk", name.clone(), name)
            }
            Object::Lock { address, holder } => {
                let name = format!("lock {address:#x} of {}", thread.one);
                named(domain(holder.domain), "lock", name, format!("locks of {}", thread.all))
            }
            Object::Interrupts(cpu) => {
                let name = format!("interrupts of CPU {}", cpu.cpu);
                named(domain(cpu.domain), "interrupts", name, "interrupts".to_owned())
            }
            Object::Vcpu(cpu) => {
                let name = format!("vCPU {} of {}", cpu.cpu, domain(cpu.domain));
                let group = format!("vCPUs of {}", domain(cpu.domain));
                let host = self.hosts.get(&cpu.domain).cloned().unwrap_or_default();
                Named { role: Role::Vcpus(domain(cpu.domain)), ..named(host, "vcpu", name, group) }
            }
            Object::Link { from, to, service } => {
                let name = format!("connection to :{service}");
                named(format!("{} → {}", domain(from), domain(to)), "link", name.clone(), name)
            }
            Object::Remote { domain: of, service } => {
                let name = format!("peer at :{service}");
                named(domain(of), "peer", name.clone(), name)
            }
        }
    }
}

fn data_in(pipe: &str, writer: &str) -> String {
    format!("data in {pipe} was waited for, written by {writer}")
}

fn room_in(pipe: &str, reader: &str) -> String {
    format!("room in {pipe} was waited for, read by {reader}")
}

fn again(times: usize) -> String {
    if times == 1 { "once".to_owned() } else { format!("{times} times") }
}

fn refused(why: Refusal) -> &'static str {
    match why {
        Refusal::AcceptQueue => "the accept queue was full",
        Refusal::TimeWait => "the port's last connection was in TIME_WAIT at the server",
        Refusal::Other => "TCP did not answer",
    }
}

/// A thread's name, and of those like it, and what these are for.
struct Called {
    one: String,
    all: String,
    role: Role,
}
