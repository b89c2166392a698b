//! The document of `xweave vary`: why the requests of a trace vary.

use std::io::{self, Write};

use xweave_document::{
    value::{Id, Time},
    vary::{
        Remedied, Vary, VaryCause, VaryFigures, VaryGain, VaryOthers, VaryRequest, VarySegment, VarySetting,
        VaryShares, VarySpikes, VaryStartup, VaryTimes,
    },
};
use xweave_model::DefaultSpec;
use xweave_vary::{
    Variation, cause,
    each::Each,
    settings::Setting,
    variation::{Found, Gain, Others, Segment, Shares, Spikes, Startup, Times},
};

use super::parts::{build_offender, build_other_services, build_unused};
use crate::words::{objects, places, variation as words};

/// Builds the figures of the requests.
pub fn build_figures(of: &Variation) -> VaryFigures {
    let startup = |Startup { requests, ns, p50_ns }| VaryStartup { requests, ns, p50_ns };
    let Spikes { spikes, requests, share_of_variance } = of.spikes;
    VaryFigures {
        requests: of.requests,
        kept: of.kept,
        unused: build_unused(of.outcome.unused),
        startup: of.startup.map(startup),
        times: build_times(of.times),
        steady: of.steady,
        quicker: of.quicker,
        spikes: VarySpikes { spikes, requests, share_of_variance },
    }
}

fn build_times(Times { p50_ns, p99_ns, deviation_ns }: Times) -> VaryTimes {
    VaryTimes { p50_ns, p99_ns, deviation_ns }
}

fn build_shares(of: Shares) -> VaryShares {
    let Shares { share_of_variance, variance_bounds, share_of_tail, tail_bounds } = of;
    VaryShares { share_of_variance, variance_bounds, share_of_tail, tail_bounds }
}

fn build_others(of: Others) -> VaryOthers {
    let Others { p50, p99, max, mean_in_tail, mean_typically } = of;
    VaryOthers { p50, p99, max, mean_in_tail, mean_typically }
}

fn build_gain(of: Gain, times: Times) -> VaryGain {
    let remedied = match of.remedied {
        cause::Remedied::Gone => Remedied::Gone,
        cause::Remedied::Steady => Remedied::Steady,
    };
    VaryGain { remedied, p50_ns: of.p50_ns, p99_ns: of.p99_ns, gain: words::gain(of, times).map(Into::into) }
}

/// Builds the row of a segment.
pub fn build_segment(of: &Segment) -> VarySegment {
    VarySegment {
        name: places::stretch(&of.stretch).into(),
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        shares: build_shares(of.shares),
        if_steady: build_times(of.if_steady),
        others: of.others.map(build_others),
        spent_ns: of.spent_ns.clone(),
    }
}

/// Builds the row of a cause of requests that take these times, with no more than `most` of the objects behind it.
pub fn build_cause(of: &Found, times: Times, most: usize) -> VaryCause {
    let offenders = of.offenders.iter().take(most);
    VaryCause {
        kind: of.cause.kind.name(),
        cause: words::cause(&of.cause).into(),
        by: of.by().map(|by| objects::offender(by).into()),
        offenders: offenders.map(|by| build_offender(&by.who, by.ns)).collect(),
        requests: of.requests,
        ns: of.ns,
        segment: of.segment.as_ref().map(|segment| places::stretch(segment).into()),
        shares: build_shares(of.shares),
        named: of.named,
        evidence: of.evidence.iter().map(|evidence| words::evidence(evidence).into()).collect(),
        remedy: of.remedy.map(|remedy| words::remedy(remedy).into()),
        gain: build_gain(of.gain, times),
        example: Id(of.example),
    }
}

/// Builds the row of a setting.
pub fn build_setting(of: &Setting) -> VarySetting {
    VarySetting {
        what: of.what.name(),
        domain: of.domain.clone(),
        setting: words::setting(of.what).into(),
        now: words::stand(&of.now).into(),
        ns: of.ns,
        requests: of.requests,
        remedy: words::setting_remedy(of).into(),
    }
}

fn build_request(of: &Each) -> VaryRequest {
    VaryRequest {
        id: Id(of.id),
        start_ns: Time(of.start_ns),
        total_ns: of.total_ns,
        segments_ns: of.segments_ns.clone(),
        others: of.others.clone(),
    }
}

/// Writes the document; with `each`, including the requests one by one.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl Write,
    variation: &Variation,
    each: Option<&[Each]>,
    chosen: &DefaultSpec,
) -> io::Result<()> {
    let document = Vary {
        transaction: chosen.spec.to_string(),
        other_services: build_other_services(chosen),
        figures: build_figures(variation),
        segments: variation.segments.iter().map(build_segment).collect(),
        causes: variation
            .causes
            .iter()
            .map(|found| build_cause(found, variation.times, usize::MAX))
            .collect(),
        settings: variation.settings.iter().map(build_setting).collect(),
        each: each.map(|each| each.iter().map(build_request).collect()),
    };
    super::stream(out, &document)
}
