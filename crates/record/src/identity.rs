//! Which machine each domain turned out to be, in words: told before anything is woven, so that a name which was given to
//! another machine than was meant is noticed then, and not in the results.

use xweave_weave::Role;
use xweave_wire::message::{DomainInfo, Vm, XenDomain};

use crate::{DomainSpec, Error, Transport};

/// The first CID that is a guest's: below it are those of this machine itself, and of its host (`linux/vm_sockets.h`).
const FIRST_GUEST: u32 = 3;

/// A domain as it was given, and what its agent says it is.
#[derive(Clone, Copy)]
pub(crate) struct Answered<'a> {
    pub(crate) spec: &'a DomainSpec,
    pub(crate) facts: &'a DomainInfo,
    /// Which of Xen's domains it is, where that is known.
    pub(crate) domid: Option<u16>,
}

/// Refuses two names for one kernel. The host comes first.
pub(crate) fn check(domains: &[Answered<'_>]) -> Result<(), Error> {
    for (nth, second) in domains.iter().enumerate() {
        if let Some(first) = domains[..nth].iter().find(|first| first.is_one_with(second)) {
            let how = format!("both have the boot ID {}", second.facts.boot_id);
            let (first, second) = (first.spec.name.clone(), second.spec.name.clone());
            return Err(Error::SameKernel { first, second, how });
        }
    }
    Ok(())
}

/// A line of each domain: what it is, and where.
pub(crate) fn lines(domains: &[Answered<'_>]) -> Vec<String> {
    let vms = vms(domains);
    domains.iter().map(|domain| domain.line(vms)).collect()
}

/// What does not look as it was meant.
pub(crate) fn warnings(domains: &[Answered<'_>]) -> Vec<String> {
    let vms = vms(domains);
    let mut warnings: Vec<_> = domains.iter().filter_map(|domain| domain.misnamed(domains)).collect();
    for (nth, second) in domains.iter().enumerate() {
        warnings.extend(domains[..nth].iter().find_map(|first| first.maybe_one_with(second)));
    }
    let guests = || domains.iter().filter(|domain| domain.spec.role() == Role::Guest);
    match domains.first() {
        Some(Answered { spec, facts, .. })
            if spec.role() == Role::Host && facts.xen.is_none() && guests().next().is_some() =>
        {
            let host = &spec.name;
            let shown = match vms {
                [] => Some(
                    "KVM shows no virtual machine there, though guests are recorded: whose they are and their clocks",
                ),
                // They are known by their processes.
                _ if vms.iter().all(|vm| vm.tsc_offsets.is_empty()) => {
                    Some("KVM does not show the clocks of its virtual machines: those of guests")
                }
                _ => None,
            };
            warnings.extend(shown.map(|shown| {
                format!(
                    "{host}: {shown} are then only estimated. If they run on {host}: mount -t debugfs none \
                     /sys/kernel/debug"
                )
            }));
            warnings.extend(guests().filter_map(|guest| guest.unknown_to(&spec.name, vms)));
        }
        _ => {}
    }
    warnings.extend(domains.iter().filter_map(|domain| {
        let kind = domain.facts.xen.filter(|kind| *kind != XenDomain::Pv)?.name();
        Some(format!(
            "{}: a {kind} domain of Xen: its TSC is not dom0's, so its times are exact to the messages that are exchanged \
             with it only; xen-net and xen-blk were tested with paravirtual domains",
            domain.spec.name
        ))
    }));
    warnings
}

/// The processes of this machine that run these domains, where that is known.
pub(crate) fn pids(domains: &[Answered<'_>]) -> Vec<Option<u32>> {
    let host_is_here = domains.first().is_some_and(|host| host.spec.transport == Transport::Local);
    let vms = if host_is_here { vms(domains) } else { &[] };
    domains.iter().map(|domain| domain.vm(vms).map(|vm| vm.pid)).collect()
}

/// The virtual machines of the host.
fn vms<'a>(domains: &[Answered<'a>]) -> &'a [Vm] {
    domains.first().map(|host| host.facts.vms.as_slice()).unwrap_or_default()
}

impl<'a> Answered<'a> {
    fn cid(&self) -> Option<u32> {
        match self.spec.transport {
            Transport::Vsock { cid, .. } => Some(cid),
            Transport::Local | Transport::Command(_) => None,
        }
    }

    /// Whether both say that they are one boot of one kernel. Machines that were restored from one snapshot say so too, and
    /// a guest may say anything.
    fn has_boot_of(&self, other: &Self) -> bool {
        !self.facts.boot_id.is_empty() && self.facts.boot_id == other.facts.boot_id
    }

    /// Whether that cannot be so, as how they are reached shows: two CIDs are two machines, and this one is no guest of its
    /// own. None where anything may be behind a command.
    fn is_apart_from(&self, other: &Self) -> Option<bool> {
        use Transport::{Command, Local, Vsock};
        match (&self.spec.transport, &other.spec.transport) {
            (Vsock { cid: one, .. }, Vsock { cid: two, .. }) => Some(one != two),
            (Local, Vsock { cid, .. }) | (Vsock { cid, .. }, Local) => Some(*cid >= FIRST_GUEST),
            (Local, Local | Command(_)) | (Command(_), Local) => Some(false),
            (Command(_), Command(_) | Vsock { .. }) | (Vsock { .. }, Command(_)) => None,
        }
    }

    fn is_one_with(&self, other: &Self) -> bool {
        self.has_boot_of(other) && self.is_apart_from(other) == Some(false)
    }

    /// That they may be one kernel, where nothing shows that they are not.
    fn maybe_one_with(&self, other: &Self) -> Option<String> {
        (self.has_boot_of(other) && self.is_apart_from(other).is_none()).then(|| {
            let (one, two) = (&self.spec.name, &other.spec.name);
            format!(
                "{one} and {two} have the same boot ID: they are one kernel under two names, which doubles what is \
                 recorded of it, or two that were restored from one snapshot"
            )
        })
    }

    fn line(&self, vms: &[Vm]) -> String {
        let facts = self.facts;
        let mut parts = match self.spec.transport {
            Transport::Local => vec!["this machine".to_owned()],
            Transport::Vsock { cid, .. } => vec![format!("CID {cid}")],
            Transport::Command(_) => Vec::new(),
        };
        if !facts.hostname.is_empty() {
            parts.push(format!("hostname {}", facts.hostname));
        }
        parts.extend(self.domid.map(|domid| format!("domain {domid} of Xen")));
        parts.extend(self.vm(vms).map(|vm| format!("{} pid {}", program(&vm.comm), vm.pid)));
        parts.push(format!("Linux {}", facts.kernel));
        parts.push(counted(u64::from(facts.cpus), "CPU"));
        if self.spec.role() == Role::Host && !facts.vms.is_empty() {
            parts.push(counted(facts.vms.len() as u64, "VM"));
        }
        format!("{}: {}", self.spec.name, parts.join(", "))
    }

    /// The virtual machine that has its CID, if only one has.
    fn vm<'v>(&self, vms: &'v [Vm]) -> Option<&'v Vm> {
        let cid = self.cid()?;
        let mut of_cid = vms.iter().filter(|vm| vm.cid == Some(cid));
        of_cid.next().filter(|_| of_cid.next().is_none())
    }

    /// That its name is not that of the machine.
    fn misnamed(&self, domains: &[Self]) -> Option<String> {
        let (name, facts) = (&self.spec.name, self.facts);
        if self.spec.transport == Transport::Local {
            // A guest that runs guests is a host here, too, whatever it is called.
            let other_host = domains.iter().any(|of| of.spec.name != *name && of.spec.role() == Role::Host);
            let odd = Role::of(name) == Role::Guest && !is_called(facts, name) && !other_host;
            return odd.then(|| {
                format!(
                    "{name} is this machine itself, and recorded as a host: a guest is given by how its agent is \
                     reached, as {name}=vsock:3"
                )
            });
        }
        let others = domains.iter().filter(|of| of.spec.name != *name && is_called(facts, &of.spec.name));
        let other = others.map(|of| &of.spec.name).next().filter(|_| !is_called(facts, name))?;
        let address = self.cid().map_or(String::new(), |cid| format!(" (CID {cid})"));
        Some(format!(
            "{name}{address} has the hostname {}, and {other} is another domain: are their addresses exchanged?",
            facts.hostname
        ))
    }

    /// That its address is none of the host's virtual machines', where all of these tell theirs.
    fn unknown_to(&self, host: &str, vms: &[Vm]) -> Option<String> {
        let cid = self.cid()?;
        let all_tell = !vms.is_empty() && vms.iter().all(|vm| vm.cid.is_some());
        (all_tell && vms.iter().all(|vm| vm.cid != Some(cid))).then(|| {
            let name = &self.spec.name;
            format!("{name}: no virtual machine of {host} has the CID {cid}: is {host} the machine that it runs on?")
        })
    }
}

/// Whether that is a machine's name, with its network's or without.
fn is_called(facts: &DomainInfo, name: &str) -> bool {
    let host = facts.hostname.as_str();
    let short = host.split('.').next().unwrap_or(host);
    host.eq_ignore_ascii_case(name) || short.eq_ignore_ascii_case(name)
}

/// What people call the program that runs a virtual machine.
fn program(comm: &str) -> &str {
    if comm.starts_with("qemu") { "QEMU" } else { comm }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Domains(Vec<(DomainSpec, DomainInfo)>);

    impl Domains {
        fn answered(&self) -> Vec<Answered<'_>> {
            self.0.iter().map(|(spec, facts)| Answered { spec, facts, domid: None }).collect()
        }

        fn warnings(&self) -> Vec<String> {
            warnings(&self.answered())
        }
    }

    /// Domains as they are given, the first of them with these virtual machines, and their hostnames.
    fn domains(vms: &[(u32, u32)], given: &[(&str, &str)]) -> Domains {
        let one = |(nth, (spec, hostname)): (usize, &(&str, &str))| {
            let vm = |&(pid, cid): &(u32, u32)| Vm {
                pid,
                comm: "qemu-system-x86".to_owned(),
                cid: Some(cid).filter(|cid| *cid > 0),
                tsc_offsets: vec![-7],
                ..Vm::default()
            };
            let facts = DomainInfo {
                hostname: (*hostname).to_owned(),
                kernel: "6.12.9".to_owned(),
                boot_id: format!("boot-{nth}"),
                cpus: if nth == 0 { 1 } else { 2 },
                vms: if nth == 0 { vms.iter().map(vm).collect() } else { Vec::new() },
                ..DomainInfo::default()
            };
            (DomainSpec::parse(spec).unwrap(), facts)
        };
        Domains(given.iter().enumerate().map(one).collect())
    }

    #[test]
    fn what_was_found_is_told_in_a_line_of_each() {
        let vms = [(2114, 3), (2200, 4)];
        let given =
            [("host=local", "lab"), ("vm1=vsock:3", "web1"), ("vm2=ssh root@vm2 xweave agent --stdio", "")];
        let domains = domains(&vms, &given);
        assert_eq!(pids(&domains.answered()), [None, Some(2114), None]);
        let told = lines(&domains.answered());
        let expected = [
            "host: this machine, hostname lab, Linux 6.12.9, 1 CPU, 2 VMs",
            "vm1: CID 3, hostname web1, QEMU pid 2114, Linux 6.12.9, 2 CPUs",
            "vm2: Linux 6.12.9, 2 CPUs",
        ];
        assert_eq!(told, expected);
        assert_eq!(domains.warnings(), [""; 0]);
        assert!(check(&domains.answered()).is_ok());
    }

    #[test]
    fn two_names_for_one_kernel_are_refused_unless_two_addresses_are_two_machines() {
        let one_boot = |given: &[(&str, &str)], boot: &str| {
            let mut domains = domains(&[(1, 3), (2, 4)], given);
            domains.0.iter_mut().for_each(|(_, facts)| facts.boot_id = boot.to_owned());
            check(&domains.answered()).map(|()| domains.warnings()).map_err(|error| error.to_string())
        };
        let twice = [("host=local", "lab"), ("vm1=xweave agent --stdio", "lab")];
        assert_eq!(
            one_boot(&twice, "0f-1").unwrap_err(),
            "host and vm1 are one kernel (both have the boot ID 0f-1): a kernel is recorded under one name, so give one \
             of them, or the other machine"
        );
        assert!(one_boot(&twice, "").is_ok(), "who does not tell is not suspected");
        for one in [["vm1=vsock:3", "vm2=vsock:3"], ["host=local", "vm1=vsock:1"]] {
            assert!(one_boot(&one.map(|domain| (domain, "a")), "0f-1").is_err(), "{one:?}");
        }
        // Two guests of one snapshot; a guest that says that it is this machine.
        for two in [["vm1=vsock:3", "vm2=vsock:4"], ["host=local", "vm1=vsock:3"]] {
            assert_eq!(one_boot(&two.map(|domain| (domain, "")), "0f-1").unwrap(), [""; 0], "{two:?}");
        }
        // Who is behind a command is not known.
        for maybe in [
            ["vm1=ssh vm1 x", "vm2=ssh vm2 x"],
            ["vm1=vsock:3", "vm2=ssh vm2 x"],
            ["vm1=ssh vm1 x", "vm2=vsock:3"],
        ] {
            let said = one_boot(&maybe.map(|domain| (domain, "")), "0f-1").unwrap();
            assert_eq!(
                said,
                [
                    "vm1 and vm2 have the same boot ID: they are one kernel under two names, which doubles what is recorded \
                     of it, or two that were restored from one snapshot"
                ],
                "{maybe:?}"
            );
            assert_eq!(one_boot(&maybe.map(|domain| (domain, "")), "").unwrap(), [""; 0]);
        }
    }

    #[test]
    fn names_that_are_other_machines_are_told() {
        let vms = [(2114, 3), (2200, 4)];
        let exchanged = [("host=local", "lab"), ("vm1=vsock:4", "VM2.lan"), ("vm2=vsock:3", "vm1")];
        assert_eq!(
            domains(&vms, &exchanged).warnings(),
            [
                "vm1 (CID 4) has the hostname VM2.lan, and vm2 is another domain: are their addresses exchanged?",
                "vm2 (CID 3) has the hostname vm1, and vm1 is another domain: are their addresses exchanged?",
            ]
        );
        let local = |name, hostname| domains(&[], &[(name, hostname)]).warnings();
        assert_eq!(
            local("vm1=local", "lab"),
            [
                "vm1 is this machine itself, and recorded as a host: a guest is given by how its agent is reached, as \
              vm1=vsock:3"
            ]
        );
        assert_eq!(local("lab=local", "lab.example"), [""; 0]);
        assert_eq!(local("host=local", "lab"), [""; 0]);
    }

    #[test]
    fn a_host_that_shows_no_virtual_machine_or_not_that_one_is_told_of() {
        let given = [("host=local", "lab"), ("vm1=vsock:5", "web1")];
        assert_eq!(
            domains(&[], &given).warnings(),
            [
                "host: KVM shows no virtual machine there, though guests are recorded: whose they are and their clocks \
              are then only estimated. If they run on host: mount -t debugfs none /sys/kernel/debug"
            ]
        );
        assert_eq!(
            domains(&[(2114, 3)], &given).warnings(),
            ["vm1: no virtual machine of host has the CID 5: is host the machine that it runs on?"]
        );
        assert_eq!(domains(&[(2114, 3), (2200, 0)], &given).warnings(), [""; 0], "one does not tell");
        let mut by_process = domains(&[(2114, 5)], &given);
        by_process.0[0].1.vms[0].tsc_offsets.clear();
        assert_eq!(
            by_process.warnings(),
            [
                "host: KVM does not show the clocks of its virtual machines: those of guests are then only estimated. \
              If they run on host: mount -t debugfs none /sys/kernel/debug"
            ]
        );
        let mut xen = domains(&[], &given);
        xen.0[0].1.xen = Some(XenDomain::Pv);
        assert_eq!(xen.warnings(), [""; 0]);
        xen.0[1].1.xen = Some(XenDomain::Pvh);
        let said = "vm1: a PVH domain of Xen: its TSC is not dom0's, so its times are exact to the messages that are \
                    exchanged with it only; xen-net and xen-blk were tested with paravirtual domains";
        assert_eq!(xen.warnings(), [said]);
    }
}
