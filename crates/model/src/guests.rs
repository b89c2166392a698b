//! The guests of a trace's hosts: those that were recorded, and those that only their host tells of.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use xweave_trace::{Domain, Trace};

use crate::vcpu::Guest;

/// What the domains of a trace are to each other.
#[derive(Clone, Debug, Default)]
pub struct Guests {
    /// All guests whose host is in the trace. Those that were not recorded have numbers that no domain of it has.
    pub all: Vec<Guest>,
    /// What domains and guests are called, by their numbers.
    pub names: FxHashMap<u8, String>,
    /// By guests' numbers, what their hosts are called.
    pub hosts: FxHashMap<u8, String>,
}

impl Guests {
    /// Those of a trace.
    pub fn of(trace: &Trace) -> Self {
        let domains = &trace.manifest().domains;
        let mut guests = Self::default();
        for domain in domains {
            guests.names.insert(domain.number, domain.name.clone());
        }
        for domain in domains {
            let Some(vm) = &domain.vm else { continue };
            guests.hosts.insert(domain.number, vm.host.clone());
            if let Some(host) = domains.iter().find(|host| host.name == vm.host) {
                let process = u64::from(vm.pid);
                guests.all.push(Guest { domain: domain.number, host: host.number, process });
            }
        }
        domains.iter().for_each(|host| guests.add_unrecorded(host));
        guests
    }

    /// A host with few enough domains has numbers left for its other virtual machines.
    fn add_unrecorded(&mut self, host: &Domain) {
        let mut called: BTreeMap<&str, usize> = BTreeMap::new();
        host.vms.iter().for_each(|vm| *called.entry(&vm.name).or_default() += 1);
        for vm in &host.vms {
            let process = u64::from(vm.pid);
            if Guest::of_process(&self.all, host.number, process).is_some() {
                continue;
            }
            let Some(domain) = (1..=u8::MAX).rev().find(|number| !self.names.contains_key(number)) else {
                return;
            };
            let taken = called.get(&*vm.name) != Some(&1) || self.names.values().any(|name| *name == vm.name);
            let name = match &*vm.name {
                "" => format!("VM {process}"),
                name if taken => format!("{name}/{process}"),
                name => name.to_owned(),
            };
            self.all.push(Guest { domain, host: host.number, process });
            self.names.insert(domain, name);
            self.hosts.insert(domain, host.name.clone());
        }
    }
}
