//! What `xweave vary --json` prints: why the requests of a trace vary.
//!
//! The keys are described in `docs/vary.md`, and with [`VariationDocument`].

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use serde::Serialize;
use xweave_model::Spec;
use xweave_vary::{
    Variation,
    cause::Kind,
    each::Each,
    settings::{Setting, What},
    variation::{Found, Gain, Others, Segment, Shares, Spikes, Startup, Times},
};

use super::parts::OffenderDocument;
use crate::words::{Sentence, objects, places, variation as words};

/// The document.
#[derive(Serialize)]
struct Document<'a> {
    /// The kind of requests, as `--transaction` writes it.
    transaction: String,
    #[serde(flatten)]
    variation: VariationDocument<'a>,
    /// The requests one by one, where they are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    each: Option<&'a [Each]>,
}

/// Why requests vary.
#[derive(Clone, Debug, Serialize)]
pub struct VariationDocument<'a> {
    /// How many requests there are.
    requests: u64,
    /// How many of them are looked at: of very many, some.
    kept: u64,
    /// A start that was slower; the figures are of the requests after it.
    startup: Option<Startup>,
    /// How long they took.
    #[serde(flatten)]
    times: Times,
    /// Whether they vary little: then no cause is named.
    steady: bool,
    /// Those that stand out.
    spikes: Spikes,
    /// Where they were, in turn.
    segments: Vec<SegmentDocument<'a>>,
    /// What kept them, the largest share first.
    causes: Vec<FoundDocument>,
    /// The settings that cost them time, the most first.
    settings: Vec<SettingDocument<'a>>,
}

/// A part of the way of all requests.
#[derive(Clone, Debug, Serialize)]
struct SegmentDocument<'a> {
    /// `request, ring host→vm1`, `server in vm1`.
    name: Sentence,
    /// Half of the requests were there for at most so long.
    p50_ns: u64,
    /// All but one in a hundred.
    p99_ns: u64,
    /// How much of the variation it is.
    #[serde(flatten)]
    shares: Shares,
    /// The requests' times, if they were there as long as the median one.
    if_steady: Times,
    /// How many other flows a request found there, if flows tell.
    others: Option<Others>,
    /// What all requests' time there was spent on: nanoseconds of each of `xweave explain`'s states.
    spent_ns: &'a BTreeMap<&'static str, u64>,
}

/// What kept requests, and makes them vary.
#[derive(Clone, Debug, Serialize)]
struct FoundDocument {
    /// What it is, in a word.
    kind: Kind,
    /// In words.
    cause: Sentence,
    /// Who did most of it, if that is known.
    by: Option<Sentence>,
    /// All who did it, the most first.
    offenders: Vec<OffenderDocument>,
    /// How many requests it kept.
    requests: u64,
    /// For how long in all, in nanoseconds.
    ns: u64,
    /// Where most of it was.
    segment: Option<Sentence>,
    /// How much of the variation it is.
    #[serde(flatten)]
    shares: Shares,
    /// Whether it is surely a part of the variation worth naming.
    named: bool,
    /// What speaks for it, in words.
    evidence: Vec<Sentence>,
    /// What can be done, if anything can be on kernels of today.
    remedy: Option<Sentence>,
    /// What that would gain, if it took away all of it or all that varies of it.
    gain: Gain,
    /// The slowest request that it kept most of the time.
    example: u64,
}

/// A setting that cost requests time.
#[derive(Clone, Debug, Serialize)]
struct SettingDocument<'a> {
    /// Which.
    what: What,
    /// The domain whose it is.
    domain: &'a str,
    /// In words.
    setting: Sentence,
    /// How it stood.
    now: Sentence,
    /// What it cost all requests, in nanoseconds.
    ns: u64,
    /// How many requests it cost any.
    requests: u64,
    /// What to set instead.
    remedy: Sentence,
}

impl<'a> VariationDocument<'a> {
    /// As the document has it; of who did something, at most so many.
    pub fn new(of: &'a Variation, offenders: usize) -> Self {
        Self {
            requests: of.requests,
            kept: of.kept,
            startup: of.startup,
            times: of.times,
            steady: of.steady,
            spikes: of.spikes,
            segments: of.segments.iter().map(segment).collect(),
            causes: of.causes.iter().map(|found| cause(found, offenders)).collect(),
            settings: of.settings.iter().map(setting).collect(),
        }
    }
}

fn segment(of: &Segment) -> SegmentDocument<'_> {
    SegmentDocument {
        name: places::stretch(&of.stretch),
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
        shares: of.shares,
        if_steady: of.if_steady,
        others: of.others,
        spent_ns: &of.spent_ns,
    }
}

fn cause(of: &Found, offenders: usize) -> FoundDocument {
    let offenders = of.offenders.iter().take(offenders);
    FoundDocument {
        kind: of.cause.kind,
        cause: words::cause(&of.cause),
        by: of.by().map(objects::offender),
        offenders: offenders.map(|by| OffenderDocument::new(&by.who, by.ns)).collect(),
        requests: of.requests,
        ns: of.ns,
        segment: of.segment.as_ref().map(places::stretch),
        shares: of.shares,
        named: of.named,
        evidence: of.evidence.iter().map(words::evidence).collect(),
        remedy: of.remedy.map(words::remedy),
        gain: of.gain,
        example: of.example,
    }
}

fn setting(of: &Setting) -> SettingDocument<'_> {
    SettingDocument {
        what: of.what,
        domain: &of.domain,
        setting: words::setting(of.what),
        now: words::stand(&of.now),
        ns: of.ns,
        requests: of.requests,
        remedy: words::setting_remedy(of),
    }
}

/// Writes the document; with `each`, the requests one by one as well.
///
/// # Errors
/// Those of `out`.
pub fn write(
    out: &mut impl Write,
    variation: &Variation,
    each: Option<&[Each]>,
    spec: &Spec,
) -> io::Result<()> {
    let variation = VariationDocument::new(variation, usize::MAX);
    super::stream(out, &Document { transaction: spec.to_string(), variation, each })
}
