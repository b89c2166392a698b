//! What was recorded, and how exact its times are.

use xweave_document::{
    page::{DomainRole, RecordedDomain, Recording},
    value::Time,
};
use xweave_flow::Summary;
use xweave_trace::{Domain, Method, Role, Trace};

use super::bounded::cut;

/// Of more domains, and parts of a command, the first are told.
const DOMAINS: usize = 64;
const WORDS: usize = 64;

/// Builds the recording of a trace, and of its flows, if it has any.
pub(super) fn build(trace: &Trace, summary: Option<&Summary>, whole_command: bool) -> Recording {
    let manifest = trace.manifest();
    let command = if whole_command { manifest.command.clone() } else { without_secrets(&manifest.command) };
    let domain = |domain: &Domain| {
        let clock = manifest.clocks.iter().find(|clock| clock.domain == domain.name);
        RecordedDomain {
            name: domain.name.clone(),
            role: match domain.role {
                Role::Host => DomainRole::Host,
                Role::Guest => DomainRole::Guest,
            },
            host: domain.vm.as_ref().map(|vm| vm.host.clone()),
            kernel: domain.kernel.clone(),
            cpus: domain.cpus,
            clock_error_ns: clock.map(|clock| clock.error_ns).filter(|error| *error != u64::MAX),
            clock: clock.map(|clock| method(clock.method)),
        }
    };
    let error = summary.map(|summary| summary.clock_error_ns).unwrap_or_else(|| {
        let errors = manifest.clocks.iter().map(|clock| clock.error_ns);
        errors.max().unwrap_or(u64::MAX)
    });
    Recording {
        created_ns: manifest.created_ns.to_string(),
        complete: manifest.complete,
        start_ns: manifest.start_ns,
        end_ns: Time(manifest.end_ns),
        records: summary.map_or(manifest.records, |summary| summary.records),
        events: manifest.events,
        lost: manifest.lost,
        clock_error_ns: Some(error).filter(|error| *error != u64::MAX),
        command: cut(command, WORDS, 16 << 10),
        domains: cut(manifest.domains.iter().map(domain), DOMAINS, 32 << 10),
    }
}

/// Returns the name of a way onto the time line, as the manifest has it.
fn method(of: Method) -> &'static str {
    match of {
        Method::Reference => "reference",
        Method::TscOffset => "tsc-offset",
        Method::CommonTsc => "common-tsc",
        Method::Exchange => "exchange",
    }
}

/// A command line without what may be secret in it, for those whom a page is sent to: by what command a domain is reached, and
/// what was run while recording. `…` stands for each.
fn without_secrets(words: &[String]) -> Vec<String> {
    const LEFT_OUT: &str = "…";
    let mut told: Vec<String> = Vec::new();
    let mut is_domain = false;
    for word in words {
        let hidden = match word.split_once('=') {
            // vm1=vsock:3 is where a guest is; a command may have anything in it.
            Some((name, transport)) if is_domain => domain(name, transport),
            _ if is_domain => LEFT_OUT.to_owned(),
            Some(("--domain", rest)) => {
                let (name, transport) = rest.split_once('=').unwrap_or(("", rest));
                format!("--domain={}", domain(name, transport))
            }
            _ => word.clone(),
        };
        told.push(hidden);
        is_domain = word == "--domain";
        if word == "--" {
            told.push(LEFT_OUT.to_owned());
            break;
        }
    }
    told
}

/// A domain as it was named, without a command.
fn domain(name: &str, transport: &str) -> String {
    let is_address = transport == "local" || transport.starts_with("vsock:");
    format!("{name}={}", if is_address { transport } else { "…" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_left_out_and_addresses_stay() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let told = |text: &str| without_secrets(&words(text)).join(" ");
        assert_eq!(
            told(
                "xweave record virtio-net --domain vm1=vsock:3 --domain vm2=sshpass:-pX -o t -- curl -u me:pw x"
            ),
            "xweave record virtio-net --domain vm1=vsock:3 --domain vm2=… -o t -- …"
        );
        assert_eq!(
            told("xweave record --domain=vm1=ssh --domain=host=local --domain odd -o t"),
            "xweave record --domain=vm1=… --domain=host=local --domain … -o t"
        );
        assert_eq!(told("xweave record tcp -o t"), "xweave record tcp -o t");
    }
}
