//! Guests that are not there, or not as they should be, before anything is recorded: the others are recorded without them.
//!
//! What such a guest has done to the others is undone by starting over: each is connected to, asked and woven anew, and
//! numbers are given as if the guest had not been named.

use xweave_weave::Role;

use crate::{DomainSpec, Error};

/// A guest that was named and is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub domain: String,
    /// What is wrong with it: a line that names it.
    pub reason: String,
}

/// The domains that are still to be reached, of those that were named.
#[derive(Clone, Debug)]
pub struct Remaining {
    domains: Vec<DomainSpec>,
    left_out: Vec<LeftOut>,
    required: Required,
    fewest: usize,
}

/// Which domains there is no going on without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Required {
    /// All of them.
    All,
    /// Hosts, and guests of these names.
    Named(Vec<String>),
}

impl Required {
    /// All domains, or hosts alone.
    pub fn all_if(all: bool) -> Self {
        if all { Self::All } else { Self::Named(Vec::new()) }
    }
}

impl Remaining {
    /// All of these. There have to be `fewest` guests at least, where that many were named.
    pub fn of(domains: Vec<DomainSpec>, required: Required, fewest: usize) -> Self {
        Self { domains, left_out: Vec::new(), required, fewest }
    }

    /// Those that are left.
    pub fn domains(&self) -> &[DomainSpec] {
        &self.domains
    }

    /// Those that are not, in the order in which they were left out.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Leaves out those that an error is about. Gives what people should know, a line for each.
    ///
    /// # Errors
    /// The same error, if there is no going on without them.
    pub fn leave_out(&mut self, error: Error) -> Result<Vec<String>, Error> {
        match error {
            Error::Interrupted { .. } => return Err(error),
            // That came of it.
            _ if xweave_interrupt::pending() => return Err(Error::Interrupted { woven: false }),
            _ => {}
        }
        let about = error.of_domains();
        let is_about = |spec: &DomainSpec| about.iter().any(|of| of.of_domain() == Some(&spec.name));
        let (out, rest): (Vec<_>, Vec<_>) = self.domains.iter().cloned().partition(is_about);
        let needed = out.iter().any(|spec| self.needs(spec));
        // A host that is there without being named is none of them.
        if out.len() < about.len() || out.is_empty() || needed || guests(&rest) < self.fewest {
            return Err(error);
        }
        let before = self.left_out.len();
        self.left_out.extend(about.iter().filter_map(|error| {
            Some(LeftOut { domain: error.of_domain()?.to_owned(), reason: reason(error) })
        }));
        self.domains = rest;
        let told = |left: &LeftOut| format!("{}; {} is left out", left.reason, left.domain);
        Ok(self.left_out[before..].iter().map(told).collect())
    }

    fn needs(&self, spec: &DomainSpec) -> bool {
        match &self.required {
            Required::All => true,
            Required::Named(names) => spec.role() == Role::Host || names.contains(&spec.name),
        }
    }
}

/// The longest reason, in bytes.
const REASON: usize = 2 << 10;

/// What is wrong with a domain, in a line that names it. It becomes part of the trace, and of pages that are passed on: by what
/// command the domain is reached, where there may be a password, is not in it.
fn reason(error: &Error) -> String {
    let told = match error {
        Error::Unreachable { domain, reason, .. } => format!("domain {domain}: no agent answers: {reason}"),
        Error::Refused { domain, mistake, .. } => format!("domain {domain}: {mistake}"),
        error => error.to_string(),
    };
    let mut line = told.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    xweave_text::cut(&mut line, REASON);
    line
}

/// How many of them are guests.
fn guests(domains: &[DomainSpec]) -> usize {
    domains.iter().filter(|spec| spec.role() == Role::Guest).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<DomainSpec> {
        let of = |text| DomainSpec::parse(text).unwrap();
        vec![of("host=local"), of("vm1=vsock:3"), of("vm2=vsock:4"), of("vm3=vsock:5")]
    }

    fn lost(domain: &str) -> Error {
        Error::Lost { domain: domain.to_owned(), reason: "it is silent\nand more".to_owned() }
    }

    fn names(remaining: &Remaining) -> Vec<&str> {
        remaining.domains().iter().map(|spec| spec.name.as_str()).collect()
    }

    #[test]
    fn guests_are_left_out_one_by_one_and_several_at_once_until_too_few_are_left() {
        let mut remaining = Remaining::of(specs(), Required::all_if(false), 1);
        let told = remaining.leave_out(lost("vm2")).unwrap();
        assert_eq!(told, ["domain vm2: the agent went away: it is silent and more; vm2 is left out"]);
        assert_eq!(names(&remaining), ["host", "vm1", "vm3"]);
        let error = remaining.leave_out(Error::Several(vec![lost("vm1"), lost("vm3")])).unwrap_err();
        assert!(matches!(error, Error::Several(_)), "{error}");
        assert_eq!(remaining.leave_out(lost("vm1")).unwrap().len(), 1);
        remaining.leave_out(lost("vm3")).unwrap_err();
        assert_eq!(names(&remaining), ["host", "vm3"]);
        assert_eq!(remaining.left_out().iter().map(|left| &*left.domain).collect::<Vec<_>>(), ["vm2", "vm1"]);

        let mut remaining = Remaining::of(specs(), Required::all_if(false), 1);
        let told = remaining.leave_out(Error::Several(vec![lost("vm3"), lost("vm1")])).unwrap();
        assert_eq!((told.len(), names(&remaining)), (2, vec!["host", "vm2"]));
    }

    #[test]
    fn by_what_command_a_guest_is_reached_is_not_told() {
        let mut remaining = Remaining::of(specs(), Required::all_if(false), 1);
        let error = Error::Unreachable {
            domain: "vm1".to_owned(),
            transport: "sshpass -pSECRET ssh vm1".to_owned(),
            reason: "it said nothing".into(),
        };
        let told = remaining.leave_out(error).unwrap();
        assert_eq!(told, ["domain vm1: no agent answers: it said nothing; vm1 is left out"]);
    }

    #[test]
    fn what_is_also_about_a_domain_that_was_not_named_ends_it() {
        let guests = specs().split_off(1);
        let mut remaining = Remaining::of(guests, Required::all_if(false), 1);
        remaining.leave_out(Error::Several(vec![lost("vm1"), lost("host")])).unwrap_err();
        assert_eq!(remaining.domains().len(), 3);
    }

    #[test]
    fn hosts_those_that_are_required_and_what_is_about_no_domain_end_it() {
        let ends = |required, fewest, error| {
            let mut remaining = Remaining::of(specs(), required, fewest);
            let ends = remaining.leave_out(error).is_err();
            assert_eq!(remaining.domains().len(), if ends { 4 } else { 3 });
            ends
        };
        let hosts = || Required::all_if(false);
        assert!(!ends(hosts(), 2, lost("vm1")));
        assert!(ends(hosts(), 3, lost("vm1")));
        assert!(ends(hosts(), 1, lost("host")));
        assert!(ends(hosts(), 1, Error::Several(vec![lost("vm1"), lost("host")])));
        assert!(ends(hosts(), 1, Error::NoEvents(String::new())));
        assert!(ends(Required::all_if(true), 1, lost("vm1")));
        assert!(ends(Required::Named(vec!["vm1".to_owned()]), 1, lost("vm1")));
        assert!(!ends(Required::Named(vec!["vm1".to_owned()]), 1, lost("vm2")));
    }
}
