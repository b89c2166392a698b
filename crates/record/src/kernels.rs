//! Which kernels can be traced.

use xweave_wire::message::DomainInfo;

use crate::Error;

/// The oldest kernel with all that weaving uses (typed hooks with cookies in modules).
const OLDEST: (u32, u32) = (6, 1);

/// Refuses a domain that cannot be traced, with the reason.
pub(crate) fn check(domain: &str, facts: &DomainInfo) -> Result<(), Error> {
    let (domain, kernel) = (domain.to_owned(), facts.kernel.clone());
    if !is_new_enough(&kernel) {
        return Err(Error::OldKernel { domain, kernel });
    }
    if !facts.btf {
        return Err(Error::NoBtf { domain, kernel });
    }
    if !facts.privileged {
        return Err(Error::NotPermitted { domain });
    }
    Ok(())
}

/// Whether a release (`uname -r`) is one that xweave traces.
pub(crate) fn is_new_enough(release: &str) -> bool {
    is_at_least(release, OLDEST)
}

/// Whether a release is this version or a later one.
pub(crate) fn is_at_least(release: &str, version: (u32, u32)) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(kernel: &str) -> DomainInfo {
        DomainInfo { kernel: kernel.to_owned(), privileged: true, btf: true, ..DomainInfo::default() }
    }

    #[test]
    fn what_cannot_be_traced_is_refused_with_the_reason() {
        assert!(check("vm1", &facts("6.1.0-56-cloud-amd64")).is_ok());
        assert!(check("vm1", &facts("7.0")).is_ok());
        for old in ["5.10.0-8", "6.0.19", "weird"] {
            assert!(matches!(check("vm1", &facts(old)), Err(Error::OldKernel { .. })), "{old}");
        }
        let blind = DomainInfo { btf: false, ..facts("6.12") };
        assert!(matches!(check("vm1", &blind), Err(Error::NoBtf { .. })));
        let user = DomainInfo { privileged: false, ..facts("6.12") };
        assert!(matches!(check("vm1", &user), Err(Error::NotPermitted { .. })));
    }
}
