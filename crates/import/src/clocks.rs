//! Which file is whose: names, hosts and guests, and how their times come onto one line.

use std::path::Path;

use xweave_trace::{Clock, Domain, DomainVm, Exit, Method, Role};

use crate::{
    dat::{self, Guest, Options},
    xen,
};

/// A file's part in the trace.
pub(crate) struct Part {
    pub domain: Domain,
    pub clock: Clock,
    /// Threads that run the guest's processors, if its host's file tells: `(name of the host's domain, threads)`.
    pub threads: Option<(String, Vec<u32>)>,
    /// The rate of the host's clock, for a guest whose times are on the host's.
    rate: Option<dat::Rate>,
}

impl Part {
    /// That of a domain of a trace, as far as that has it.
    pub(crate) fn of(domain: Domain, clock: Clock) -> Self {
        Self { domain, clock, threads: None, rate: None }
    }
}

/// The units of these clocks of the kernel are nanoseconds.
const NANOSECONDS: [&str; 8] = ["local", "global", "perf", "mono", "mono_raw", "boot", "tai", "tsc2nsec"];

/// The parts of files, in their order; and what there is to know of them, in words.
pub(crate) fn parts(files: &[(&Path, &Options)]) -> (Vec<Part>, Vec<String>) {
    let mut warnings = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let host = |file: &Options| {
        let peer = file.shifts.as_ref()?.peer;
        files.iter().position(|(_, host)| host.id == Some(peer))
    };
    // Of which file's guests a file is one.
    let guest = |file: &Options| {
        let id = file.id?;
        files
            .iter()
            .enumerate()
            .find_map(|(at, (_, host))| Some((at, host.guests.iter().find(|guest| guest.id == id)?)))
    };
    let is_guest = |file: &Options| file.shifts.is_some() || guest(file).is_some() || file.domid.is_some();
    // That of the hypervisor itself.
    let xen = files.iter().position(|(_, file)| file.called.is_some());
    let reference = files.iter().position(|(_, file)| !is_guest(file)).unwrap_or(0);
    let mut names: Vec<String> = Vec::new();
    for (path, options) in files {
        let called = match guest(options) {
            None if let Some(called) = options.called => called.to_owned(),
            Some((_, guest)) if cid(guest).is_none() && !guest.name.is_empty() => guest.name.clone(),
            _ if !is_guest(options) && files.iter().filter(|(_, file)| !is_guest(file)).count() == 1 => {
                "host".into()
            }
            _ => Some(options.uname(1))
                .filter(|name| !["", "?"].contains(name))
                .map_or_else(|| stem(path), str::to_owned),
        };
        names.push(unique(called, &names));
    }
    for (at, (path, options)) in files.iter().enumerate() {
        let known = guest(options);
        let host_file = host(options).or(known.map(|(host, _)| host)).filter(|host| *host != at);
        let vm = known.zip(host_file).map(|((_, guest), host)| DomainVm {
            host: names[host].clone(),
            pid: guest.threads.first().copied().unwrap_or(0),
            cid: cid(guest),
        });
        let of_xen = options.domid.zip(xen);
        let vm = vm.or(of_xen.map(|(domid, xen)| DomainVm {
            host: names[xen].clone(),
            pid: xen::process(domid),
            cid: None,
        }));
        let threads =
            known.zip(host_file).map(|((_, guest), host)| (names[host].clone(), guest.threads.clone()));
        let host_rate = host(options).and_then(|host| files[host].1.rate);
        let xen_rate = of_xen.and_then(|(_, xen)| files[xen].1.rate);
        let rate = host_rate.or(xen_rate).or(options.rate);
        let file = path.display();
        let nanoseconds = options.nanoseconds
            || NANOSECONDS.contains(&options.clock())
            || options.clock() == "x86-tsc" && rate.is_some();
        if !nanoseconds {
            warnings.push(format!(
                "{file}: what a unit of its clock {:?} is, it does not say; it was taken for a nanosecond \
                 (record with -C mono, or with -C x86-tsc --tsc2nsec)",
                options.clock(),
            ));
        }
        if options.shifts.is_some() && host(options).is_none() {
            warnings.push(format!(
                "{file}: its times are those of a host whose file is not given: give both, and they are one trace"
            ));
        }
        let (method, detail) = if at == reference {
            (Method::Reference, format!("the clock that it was recorded with: {}", options.clock()))
        } else if let Some(domid) = options.domid {
            (Method::CommonTsc, format!("domain {domid} reads the TSC that Xen's records have"))
        } else if let Some(shifts) = &options.shifts {
            let same =
                shifts.cpus.iter().all(|cpu| cpu.windows(2).all(|pair| pair[0].offset == pair[1].offset));
            let samples: usize = shifts.cpus.iter().map(Vec::len).sum();
            let found =
                "trace-cmd found how far the guest's clock is from its host's; how exactly, it does not say";
            let by = if same && !shifts.interpolate { Method::TscOffset } else { Method::Exchange };
            (by, format!("{found} ({samples} samples)"))
        } else {
            let alike = options.uname(1) == files[reference].1.uname(1)
                && options.uname(2) == files[reference].1.uname(2)
                && options.clock() == files[reference].1.clock();
            if !alike {
                warnings.push(format!(
                    "{file}: nothing says how far its clock is from that of {}: the domains are not on one time line \
                     (record host and guest together: `trace-cmd record -A GUEST`)",
                    files[reference].0.display(),
                ));
            }
            (Method::Exchange, "its own clock, as it is".to_owned())
        };
        let error_ns = match () {
            () if at == reference => 0,
            // Ticks become nanoseconds in the same way; that CPUs' TSCs agree, Xen sees to.
            () if of_xen.is_some() => 1,
            () => u64::MAX,
        };
        let tsc_hz = options.rate.filter(|_| options.tsc_hz == 0).map_or(options.tsc_hz, dat::Rate::hz);
        let cpus = options.buffers.iter().flat_map(|buffer| &buffer.cpus).map(|place| place.cpu + 1).max();
        let domain = Domain {
            name: names[at].clone(),
            number: u8::try_from(at + 1).unwrap_or(u8::MAX),
            role: if is_guest(options) { Role::Guest } else { Role::Host },
            hostname: options.uname(1).to_owned(),
            kernel: options.uname(2).to_owned(),
            cpus: if options.cpus == 0 { cpus.unwrap_or(0) } else { options.cpus },
            tsc_hz,
            vm,
            exit: Some(Exit::Stopped),
            ..Domain::default()
        };
        let clock = Clock { domain: names[at].clone(), method, error_ns, detail, ..Clock::default() };
        parts.push(Part { domain, clock, threads, rate });
    }
    (parts, warnings)
}

impl Part {
    /// How times of a processor come onto the time line.
    pub(crate) fn line(&self, options: &Options, cpu: u32) -> dat::Clock {
        let shifts = options.shifts.as_ref();
        let own = shifts.and_then(|shifts| shifts.cpus.get(cpu as usize));
        dat::Clock {
            shifts: own.cloned().unwrap_or_default(),
            interpolate: shifts.is_some_and(|shifts| shifts.interpolate),
            rate: self.rate,
            offset: options.offset,
        }
    }
}

/// The context ID of the guest's vsock device: trace-cmd calls a guest so if nothing has a better name for it.
fn cid(guest: &Guest) -> Option<u32> {
    guest.name.parse().ok()
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "trace".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The name, with a number behind it if it is taken.
fn unique(name: String, taken: &[String]) -> String {
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    free.unwrap_or(name)
}
