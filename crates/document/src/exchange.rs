//! Requests and their answers: the document of `xweave flows --by connection`.

use std::{borrow::Cow, net::SocketAddr};

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

#[cfg(test)]
use crate::value::Id;
use crate::{
    flows::FlowSummary,
    value::{Time, owned},
};

/// The document.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Connections<'a> {
    /// Counts of the trace's flows.
    pub summary: FlowSummary,
    /// Services: exchanges by client's domain and server.
    pub services: Vec<Service>,
    /// Exchanges in the order of their beginnings.
    pub exchanges: Vec<Exchange<'a>>,
}

/// Ends of a connection.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Connection {
    /// Protocol: `TCP`, `UDP` or `ICMP`.
    pub protocol: &'static str,
    /// Who asks: who opened the connection or, where that was not seen, who sent first, unless its ports make that an answer.
    /// Of an echo, the port is its identifier.
    #[cfg_attr(test, schemars(with = "String"))]
    pub client: SocketAddr,
    /// Who answers.
    #[cfg_attr(test, schemars(with = "String"))]
    pub server: SocketAddr,
}

/// A request and its answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Exchange<'a> {
    /// Ends of the connection.
    pub connection: Connection,
    /// Domain in which the request was first seen.
    pub client_domain: Cow<'a, str>,
    /// Domain that answered.
    pub server_domain: Cow<'a, str>,
    /// Beginning of the request's first frame.
    pub start_ns: Time,
    /// End of the answer's last frame.
    pub end_ns: Time,
    /// Exchange during which the client asked, by its place in the order of the beginnings; null if there is none, or it is not
    /// known which.
    pub inside: Option<usize>,
    /// Key of the request; absent if no event has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Number of times that the client's program sent the request again before it was answered.
    pub repeats: u32,
    /// Whether all of its frames are known from their beginnings to their ends.
    pub complete: bool,
    /// Request.
    pub request: ExchangeSide<'a>,
    /// Answer.
    pub answer: ExchangeSide<'a>,
    /// Stretches of its time in their order; they sum to `end_ns - start_ns`.
    pub parts: Vec<ExchangePart<'a>>,
}

impl Exchange<'_> {
    /// Turns it into one that borrows nothing.
    pub fn into_owned(self) -> Exchange<'static> {
        Exchange {
            connection: self.connection,
            client_domain: owned(self.client_domain),
            server_domain: owned(self.server_domain),
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            inside: self.inside,
            key: self.key,
            repeats: self.repeats,
            complete: self.complete,
            request: self.request.into_owned(),
            answer: self.answer.into_owned(),
            parts: self.parts.into_iter().map(ExchangePart::into_owned).collect(),
        }
    }
}

/// Frames of a request, or of an answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ExchangeSide<'a> {
    /// Bytes of the programs.
    pub bytes: u64,
    /// IDs of its flows, in the order of their beginnings.
    #[cfg_attr(test, schemars(with = "Vec<Id>"))]
    pub flows: Cow<'a, [u64]>,
}

impl ExchangeSide<'_> {
    fn into_owned(self) -> ExchangeSide<'static> {
        ExchangeSide { bytes: self.bytes, flows: owned(self.flows) }
    }
}

/// A stretch of an exchange's time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ExchangePart<'a> {
    /// Name: `request in vm1`, `request, vm1 → host`, `server in vm2`.
    pub name: Cow<'a, str>,
    /// Domain that it was in; null if it was in none, or that is not known.
    pub domain: Option<Cow<'a, str>>,
    /// Whether it lay between two domains.
    pub crosses: bool,
    /// Length, in nanoseconds.
    pub ns: i64,
}

impl ExchangePart<'_> {
    fn into_owned(self) -> ExchangePart<'static> {
        ExchangePart {
            name: owned(self.name),
            domain: self.domain.map(owned),
            crosses: self.crosses,
            ns: self.ns,
        }
    }
}

/// Exchanges of all clients in a domain with one server.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Service {
    /// Protocol: `TCP`, `UDP` or `ICMP`.
    pub protocol: &'static str,
    /// Domain in which the requests were first seen.
    pub client_domain: String,
    /// Who answers.
    #[cfg_attr(test, schemars(with = "String"))]
    pub server: SocketAddr,
    /// Domain of the server.
    pub server_domain: String,
    /// Number of exchanges.
    pub exchanges: u64,
    /// Exchanges that are known from their beginnings to their ends.
    pub complete: u64,
    /// Median of their times, in nanoseconds.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Longest.
    pub max_ns: i64,
    /// Stretches of their time, in their order.
    pub parts: Vec<ServicePart>,
}

/// A stretch of the time of several exchanges.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ServicePart {
    /// Name, as in an exchange.
    pub name: String,
    /// Number of exchanges that have it.
    pub count: u64,
    /// Median of these, in nanoseconds.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
    /// Longest.
    pub max_ns: i64,
    /// Share of the time of all the exchanges; all shares sum to 1.
    pub share: f64,
}
