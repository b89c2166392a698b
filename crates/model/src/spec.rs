//! Which transactions are meant, as `--transaction` writes it.

use std::{fmt, num::NonZeroU32, str::FromStr};

use crate::between::{Between, BetweenError};

/// Which transactions are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// From a client's asking for a connection to the server's accepting it, or as far as there are events of it. With
    /// a port: the server's.
    Connect(Option<u16>),
    /// From sending a request on a connection to the last that is received before the next request: the client's
    /// view, or the server's of clients that no events tell of. With a port: the server's. With a domain: as that domain sees
    /// them, of a server from receiving a request to sending the last of its answer, whoever asked.
    Request(Option<u16>, Option<String>),
    /// From the beginning of a process to its end; of a thread, where events do not tell its process. With a name: of
    /// those called so at their ends.
    Process(Option<String>),
    /// From the beginning of a thread to its end: of any, a process's first included. With a name: as of processes.
    Thread(Option<String>),
    /// From a place to another one.
    Between(Between),
    /// From a flow's beginning to its end. With a name: flows of this definition.
    Flow(Option<String>),
    /// From the beginning of a request's first frame to the end of its answer's last, as flows of network frames tell. With
    /// a port: the server's. With a rate: from when the request was to be sent.
    Exchange(Option<u16>, Option<Rate>),
    /// From the beginning of a call's first request to the end of its last answer: exchanges of one key
    /// ([`xweave_flow::Key`]). With a port: the server's. With a rate: from when the call was to begin.
    Call(Option<u16>, Option<Rate>),
}

/// At how many a second, evenly, a client was to send requests, or to begin calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    thousandths: NonZeroU32,
}

impl Rate {
    /// Of this many times, in order and in nanoseconds, when each was to be: as early as no one was before its time.
    pub(crate) fn due(self, times: &[i64]) -> Vec<i64> {
        let at = |nth: usize| nth as i128 * 1_000_000_000_000 / i128::from(self.thousandths.get());
        let first = times.iter().enumerate().map(|(nth, time)| i128::from(*time) - at(nth)).min();
        let due = |nth| i64::try_from(first.unwrap_or_default() + at(nth)).unwrap_or(i64::MIN);
        (0..times.len()).map(due).collect()
    }
}

impl FromStr for Rate {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || part.len() > 3 || !digits(whole) || !digits(part) {
            return Err(());
        }
        let thousandths: u32 = format!("{whole}{part:0<3}").parse().map_err(drop)?;
        Ok(Self { thousandths: NonZeroU32::new(thousandths).ok_or(())? })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.thousandths.get() / 1000, self.thousandths.get() % 1000);
        match part {
            0 => write!(f, "{whole}"),
            _ => write!(f, "{whole}.{}", format!("{part:03}").trim_end_matches('0')),
        }
    }
}

/// Why a text names no transactions, with what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// What stands behind the colon is no port.
    #[error("`{text}` is no port: write {kind}:80")]
    Port {
        /// What stands before the colon.
        kind: String,
        /// What stands behind it.
        text: String,
    },
    /// What stands behind `rate=` is none, or transactions of that kind are not sent at one.
    #[error(
        "`{0}` tells no rate: write exchange:80,rate=20 or call:5060,rate=2.5, for so many requests or calls a second"
    )]
    Rate(String),
    /// It names no two places.
    #[error(transparent)]
    Between(#[from] BetweenError),
    /// There is no such kind.
    #[error(
        "`{0}` is no kind of transaction: connect[:PORT], request[:PORT][@DOMAIN], process[:NAME], thread[:NAME], flow[:NAME], exchange[:PORT][,rate=R], call[:PORT][,rate=R] or between:FROM..TO"
    )]
    Kind(String),
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(whole: &str) -> Result<Self, SpecError> {
        let no_rate = || SpecError::Rate(whole.to_owned());
        let (text, rate) = match whole.split_once(",rate=") {
            Some((text, rate)) => (text, Some(rate.parse().map_err(|()| no_rate())?)),
            None => (whole, None),
        };
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        let port = || {
            let wrong = |text: &str| SpecError::Port { kind: word.to_owned(), text: text.to_owned() };
            rest.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
        };
        if rate.is_some() && !matches!(word, "exchange" | "call") {
            return Err(no_rate());
        }
        Ok(match word {
            "connect" => Self::Connect(port()?),
            "request" => {
                let (port, domain) = port_and_domain(rest.unwrap_or_default());
                let wrong = |_| SpecError::Port { kind: word.to_owned(), text: port.to_owned() };
                let port = (!port.is_empty()).then(|| port.parse().map_err(wrong)).transpose()?;
                Self::Request(port, domain)
            }
            // Older than the field's word for it.
            "process" | "life" => Self::Process(rest.map(str::to_owned)),
            "thread" => Self::Thread(rest.map(str::to_owned)),
            "exchange" => Self::Exchange(port()?, rate),
            "call" => Self::Call(port()?, rate),
            "flow" => Self::Flow(rest.map(str::to_owned)),
            "between" => Self::Between(rest.unwrap_or_default().parse()?),
            _ => return Err(SpecError::Kind(word.to_owned())),
        })
    }
}

/// Divides `80@vm1`.
fn port_and_domain(text: &str) -> (&str, Option<String>) {
    match text.split_once('@') {
        // What names no domain is no port either.
        Some((_, "")) | None => (text, None),
        Some((port, domain)) => (port, Some(domain.to_owned())),
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, rest) = match self {
            Self::Connect(port) => ("connect", port.map(|port| port.to_string())),
            Self::Request(port, domain) => {
                let port = port.map(|port| port.to_string());
                let domain = domain.as_ref().map(|domain| format!("@{domain}"));
                let both = port.iter().chain(&domain).map(String::as_str).collect::<String>();
                ("request", Some(both).filter(|both| !both.is_empty()))
            }
            Self::Process(name) => ("process", name.clone()),
            Self::Thread(name) => ("thread", name.clone()),
            Self::Flow(name) => ("flow", name.clone()),
            Self::Exchange(port, _) => ("exchange", port.map(|port| port.to_string())),
            Self::Call(port, _) => ("call", port.map(|port| port.to_string())),
            Self::Between(between) => ("between", Some(between.to_string())),
        };
        match rest {
            Some(rest) => write!(f, "{word}:{rest}")?,
            None => f.write_str(word)?,
        }
        match self {
            Self::Exchange(_, Some(rate)) | Self::Call(_, Some(rate)) => write!(f, ",rate={rate}"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_not_understood_is_told() {
        for text in [
            "connect",
            "connect:80",
            "request:443",
            "request:443@vm1",
            "request:@vm1",
            "process:nginx",
            "thread:nginx",
            "flow",
            "flow:virtio_tx",
            "exchange:80",
            "call:5060",
            "call:5060,rate=2.5",
            "exchange,rate=20",
            "exchange:80,rate=0.001",
            "between:a..b:c",
            "between:vm_inject@host..irq_enter@vm1",
            "between:f:entry..f:return,by=v7",
            "between:submit..done,by=flow",
        ] {
            assert_eq!(text.parse::<Spec>().map(|spec| spec.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("life:dd".parse::<Spec>().map(|spec| spec.to_string()), Ok("process:dd".to_owned()));
        for text in [
            "",
            "conect",
            "connect:x",
            "connect:70000",
            "connect:80,rate=5",
            "request:x@vm1",
            "request:80@",
            "call:5060,rate=",
            "call:5060,rate=0",
            "call:5060,rate=-1",
            "call:5060,rate=1.2345",
            "call:5060,rate=99999999",
            "call,rate=1:5060",
            "between",
            "between:a",
            "between:..b",
            "between:a..b,by=v8",
            "between:a@..b",
            "between:a..:return",
        ] {
            assert!(text.parse::<Spec>().is_err(), "{text}");
        }
    }

    #[test]
    fn at_a_rate_each_is_due_after_the_one_before_and_none_is_before_its_time() {
        let rate: Rate = "2.5".parse().unwrap();
        let ms = |times: &[i64]| times.iter().map(|time| time * 1_000_000).collect::<Vec<_>>();
        // The second is the one in time: the first was late, too.
        assert_eq!(rate.due(&ms(&[1_030, 1_400, 1_950, 2_200])), ms(&[1_000, 1_400, 1_800, 2_200]));
        assert!(rate.due(&[]).is_empty());
    }
}
