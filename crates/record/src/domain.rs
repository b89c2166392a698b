//! Naming the domains of a recording.

use std::{collections::HashSet, path::PathBuf};

use xweave_weave::Role;

use crate::{Error, Transport};

/// A domain as the user gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainSpec {
    /// Its name, in every report.
    pub name: String,
    /// How its agent is reached.
    pub transport: Transport,
}

impl DomainSpec {
    /// Parses `NAME=TRANSPORT`.
    ///
    /// # Errors
    /// When there is no `=`, or either side of it is empty or malformed.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::DomainSyntax(text.to_owned());
        let (name, transport) = text.split_once('=').ok_or_else(wrong)?;
        let named = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if !named {
            return Err(wrong());
        }
        let transport = Transport::parse(transport).ok_or_else(wrong)?;
        if let Transport::Command(command) = &transport
            && let Some(meant) = misspelt(command)
        {
            return Err(Error::TransportName { domain: name.to_owned(), given: command.clone(), meant });
        }
        Ok(Self { name: name.to_owned(), transport })
    }

    /// A host runs the others: it is the machine that the controller runs on, or called as one.
    pub fn role(&self) -> Role {
        if self.transport == Transport::Local { Role::Host } else { Role::of(&self.name) }
    }
}

/// What was meant instead of a command, where that is no command but nearly another transport: `vosck:3`, `locla`.
fn misspelt(command: &str) -> Option<String> {
    let (word, address) = command.split_at(command.find(':').unwrap_or(command.len()));
    if !word.chars().all(char::is_alphanumeric) {
        return None;
    }
    let transport = if address.is_empty() { "local" } else { "vsock" };
    let near = xweave_text::nearest(&word.to_lowercase(), std::iter::once(transport), 1);
    near.first().map(|near| format!("{near}{address}"))
}

/// Parses `NAME=FILE`: a domain, and a file of the kernel that it runs.
///
/// # Errors
/// When there is no `=`, or nothing on either side of it.
pub fn symbols(text: &str) -> Result<(String, PathBuf), Error> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.to_owned(), file.into())),
        _ => Err(Error::SymbolsSyntax(text.to_owned())),
    }
}

/// The domains of a recording: those given, and this machine as `host` unless it is among them.
pub(crate) fn complete(given: &[DomainSpec]) -> Result<Vec<DomainSpec>, Error> {
    let mut domains = Vec::new();
    if !given.iter().any(|domain| domain.role() == Role::Host) {
        domains.push(DomainSpec { name: "host".to_owned(), transport: Transport::Local });
    }
    domains.extend_from_slice(given);
    let mut seen = HashSet::new();
    if let Some(twice) = domains.iter().find(|domain| !seen.insert(domain.name.as_str())) {
        return Err(Error::DomainTwice(twice.name.clone()));
    }
    distinct(&domains)?;
    // The reference, domain 1, is a host where there is one.
    domains.sort_by_key(|domain| domain.role() != Role::Host);
    if domains.len() > 255 {
        return Err(Error::TooManyDomains(domains.len()));
    }
    Ok(domains)
}

/// Refuses debug information of a kernel that is not recorded.
pub(crate) fn check_symbols(symbols: &[(String, PathBuf)], domains: &[DomainSpec]) -> Result<(), Error> {
    let known = |name: &str| domains.iter().any(|domain| domain.name == name);
    let Some((domain, _)) = symbols.iter().find(|(domain, _)| !known(domain)) else { return Ok(()) };
    let names: Vec<_> = domains.iter().map(|domain| domain.name.as_str()).collect();
    Err(Error::SymbolsDomain { domain: domain.clone(), domains: names.join(", ") })
}

/// Refuses what the addresses alone tell to be wrong: a guest that is called the host, one kernel under two names.
fn distinct(domains: &[DomainSpec]) -> Result<(), Error> {
    let mut seen: Vec<(&DomainSpec, String)> = Vec::new();
    for domain in domains {
        let one = match domain.transport {
            Transport::Command(_) => continue,
            Transport::Local => "both are this machine".to_owned(),
            Transport::Vsock { cid, .. } if domain.role() == Role::Host => {
                return Err(Error::GuestAsHost { domain: domain.name.clone(), cid });
            }
            Transport::Vsock { cid, .. } => format!("both have the CID {cid}"),
        };
        if let Some((first, how)) = seen.iter().find(|(_, other)| *other == one) {
            let (first, second) = (first.name.clone(), domain.name.clone());
            return Err(Error::SameKernel { first, second, how: how.clone() });
        }
        seen.push((domain, one));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_contradict_the_names_are_refused_before_anybody_is_asked() {
        let refused = |texts: &[&str]| {
            let given: Vec<_> = texts.iter().map(|text| DomainSpec::parse(text).unwrap()).collect();
            complete(&given).unwrap_err().to_string()
        };
        assert_eq!(
            refused(&["host=vsock:3"]),
            "host=vsock:3 is a guest of this machine, and `host` is what a host is called: name it otherwise, as \
             vm1=vsock:3 (this machine is added as `host` by itself)"
        );
        assert_eq!(
            refused(&["vm1=vsock:3", "vm2=vsock:3:7391"]),
            "vm1 and vm2 are one kernel (both have the CID 3): a kernel is recorded under one name, so give one of \
             them, or the other machine"
        );
        assert!(
            refused(&["host=local", "vm1=local"])
                .contains("host and vm1 are one kernel (both are this machine)")
        );
    }

    #[test]
    fn a_domain_is_a_name_and_a_transport() {
        let domain = DomainSpec::parse("vm1=ssh -o A=b root@vm1 xweave agent --stdio").unwrap();
        assert_eq!(domain.name, "vm1");
        assert_eq!(domain.transport, Transport::Command("ssh -o A=b root@vm1 xweave agent --stdio".into()));
        assert_eq!(
            DomainSpec::parse("a=vsock:3:99").unwrap().transport,
            Transport::Vsock { cid: 3, port: 99 }
        );
        for wrong in ["vm1", "=x", "vm1=", "vm 1=local", "a=vsock:x", "a=vsock:3:"] {
            assert!(DomainSpec::parse(wrong).is_err(), "{wrong}");
        }
        for (given, meant) in
            [("vosck:3", "vsock:3"), ("vsok:3:99", "vsock:3:99"), ("VSOCK:3", "vsock:3"), ("locla", "local")]
        {
            let said = DomainSpec::parse(&format!("a={given}")).unwrap_err().to_string();
            assert!(said.contains(&format!("did you mean --domain a={meant}?")), "{said}");
        }
        for command in ["ssh vm1", "./connect:3", "agent.sh", "false"] {
            assert!(DomainSpec::parse(&format!("a={command}")).is_ok(), "{command}");
        }
    }

    #[test]
    fn this_machine_is_the_host_unless_told_otherwise() {
        let guest = DomainSpec::parse("vm1=vsock:3").unwrap();
        let names = |domains: &[DomainSpec]| {
            complete(domains).map(|all| all.into_iter().map(|d| d.name).collect::<Vec<_>>())
        };
        assert_eq!(names(std::slice::from_ref(&guest)).unwrap(), ["host", "vm1"]);
        let host = DomainSpec::parse("l1=local").unwrap();
        assert_eq!(names(&[guest.clone(), host]).unwrap(), ["l1", "vm1"]);
        let dom0 = DomainSpec::parse("dom0=ssh dom0 xweave agent --stdio").unwrap();
        assert_eq!(names(&[guest.clone(), dom0]).unwrap(), ["dom0", "vm1"]);
        assert!(matches!(names(&[guest.clone(), guest]), Err(Error::DomainTwice(_))));
    }
}
