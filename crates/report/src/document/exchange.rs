//! The document of `xweave flows --by connection`.

use std::{
    borrow::Cow,
    io::{self, Write},
};

use xweave_document::{
    exchange::{Connection, Connections, Exchange, ExchangePart, ExchangeSide, Service, ServicePart},
    value::Time,
};
use xweave_flow::{
    Flows,
    exchange::{self, Part, PartTimes, Side},
};

use super::flows::build_summary;

/// Builds the row of an exchange.
pub fn build(of: &exchange::Exchange) -> Exchange<'_> {
    let exchange::Connection { protocol, client, server } = of.connection;
    Exchange {
        connection: Connection { protocol, client, server },
        client_domain: Cow::Borrowed(&of.client_domain),
        server_domain: Cow::Borrowed(&of.server_domain),
        start_ns: Time(of.start_ns),
        end_ns: Time(of.end_ns),
        inside: of.inside,
        key: of.key.map(|key| key.to_string()),
        repeats: of.repeats,
        complete: of.complete,
        request: build_side(&of.request),
        answer: build_side(&of.answer),
        parts: of.parts.iter().map(build_part).collect(),
    }
}

fn build_side(of: &Side) -> ExchangeSide<'_> {
    ExchangeSide { bytes: of.bytes, flows: Cow::Borrowed(&of.flows) }
}

fn build_part(of: &Part) -> ExchangePart<'_> {
    ExchangePart {
        name: Cow::Borrowed(&of.name),
        domain: of.domain.as_deref().map(Cow::Borrowed),
        crosses: of.crosses,
        ns: of.ns,
    }
}

/// Builds the row of a service.
pub fn build_service(of: &exchange::Service) -> Service {
    let part = |of: &PartTimes| ServicePart {
        name: of.name.clone(),
        count: of.count,
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        max_ns: of.max_ns,
        share: of.share,
    };
    Service {
        protocol: of.protocol,
        client_domain: of.client_domain.clone(),
        server: of.server,
        server_domain: of.server_domain.clone(),
        exchanges: of.exchanges,
        complete: of.complete,
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        max_ns: of.max_ns,
        parts: of.parts.iter().map(part).collect(),
    }
}

/// Writes the document of the exchanges that were found among flows, and their services.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl Write,
    flows: &Flows,
    services: &[exchange::Service],
    exchanges: &[exchange::Exchange],
) -> io::Result<()> {
    let document = Connections {
        summary: build_summary(flows.summary()),
        services: services.iter().map(build_service).collect(),
        exchanges: exchanges.iter().map(build).collect(),
    };
    super::stream(out, &document)
}
