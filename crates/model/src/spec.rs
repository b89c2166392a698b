//! Which transactions are meant, as `--transaction` writes it.

use std::{fmt, str::FromStr};

use crate::between::{Between, BetweenError};

/// Which transactions are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spec {
    /// From a client's asking for a connection to the server's accepting it, or as far as there are events of it. With
    /// a port: the server's.
    Connect(Option<u16>),
    /// From sending a request on a connection to the last that is received before the next request: the client's
    /// view, or the server's of clients that no events tell of.
    Request(Option<u16>),
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
    /// a port: the server's.
    Exchange(Option<u16>),
    /// From the beginning of a call's first request to the end of its last answer: exchanges of one key
    /// ([`xweave_flow::Key`]). With a port: the server's.
    Call(Option<u16>),
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
    /// It names no two places.
    #[error(transparent)]
    Between(#[from] BetweenError),
    /// There is no such kind.
    #[error(
        "`{0}` is no kind of transaction: connect[:PORT], request[:PORT], process[:NAME], thread[:NAME], flow[:NAME], exchange[:PORT], call[:PORT] or between:FROM..TO"
    )]
    Kind(String),
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (word, rest) = match text.split_once(':') {
            Some((word, rest)) => (word, Some(rest)),
            None => (text, None),
        };
        let port = || {
            let wrong = |text: &str| SpecError::Port { kind: word.to_owned(), text: text.to_owned() };
            rest.map(|text| text.parse().map_err(|_| wrong(text))).transpose()
        };
        Ok(match word {
            "connect" => Self::Connect(port()?),
            "request" => Self::Request(port()?),
            // Older than the field's word for it.
            "process" | "life" => Self::Process(rest.map(str::to_owned)),
            "thread" => Self::Thread(rest.map(str::to_owned)),
            "exchange" => Self::Exchange(port()?),
            "call" => Self::Call(port()?),
            "flow" => Self::Flow(rest.map(str::to_owned)),
            "between" => Self::Between(rest.unwrap_or_default().parse()?),
            _ => return Err(SpecError::Kind(word.to_owned())),
        })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, rest) = match self {
            Self::Connect(port) => ("connect", port.map(|port| port.to_string())),
            Self::Request(port) => ("request", port.map(|port| port.to_string())),
            Self::Process(name) => ("process", name.clone()),
            Self::Thread(name) => ("thread", name.clone()),
            Self::Flow(name) => ("flow", name.clone()),
            Self::Exchange(port) => ("exchange", port.map(|port| port.to_string())),
            Self::Call(port) => ("call", port.map(|port| port.to_string())),
            Self::Between(between) => ("between", Some(between.to_string())),
        };
        match rest {
            Some(rest) => write!(f, "{word}:{rest}"),
            None => f.write_str(word),
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
            "process:nginx",
            "thread:nginx",
            "flow",
            "flow:virtio_tx",
            "exchange:80",
            "call:5060",
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
}
