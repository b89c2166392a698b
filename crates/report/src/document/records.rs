//! The document of `xweave records`.

use std::io::{self, Write};

use xweave_document::{
    records::{AdviceRecord, RecordGroup, Records, RecordsSummary, SiteRecords, ValueSpread},
    value::{Id, Time},
};
use xweave_flow::{
    Stored,
    stored::{Group, SiteStored, Spread, StoredRecord},
};

/// Writes the document of stored records, and of how many the trace lost.
///
/// # Errors
/// Those of `out`.
pub fn write(out: &mut impl Write, stored: &Stored, lost: u64) -> io::Result<()> {
    let document = Records {
        summary: RecordsSummary { records: stored.count, lost },
        sites: stored.sites.iter().map(build_site).collect(),
        groups: stored.groups.iter().map(build_group).collect(),
        ungrouped: stored.ungrouped,
        bits: &stored.bits,
        records: stored.records.iter().map(build_record).collect(),
    };
    super::stream(out, &document)
}

fn build_group(of: &Group) -> RecordGroup<'_> {
    RecordGroup { is: &of.is, records: of.records }
}

fn build_site(of: &SiteStored) -> SiteRecords<'_> {
    SiteRecords {
        site: of.site,
        domain: &of.domain,
        advice: &of.advice,
        function: &of.function,
        offset: of.offset,
        records: of.records,
        values: of.values.iter().map(build_spread).collect(),
    }
}

fn build_spread(of: &Spread) -> ValueSpread<'_> {
    ValueSpread { name: &of.name, count: of.count, min: of.min, p50: of.p50, p99: of.p99, max: of.max }
}

fn build_record(of: &StoredRecord) -> AdviceRecord<'_> {
    AdviceRecord {
        t_ns: Time(of.t_ns),
        domain: &of.domain,
        cpu: of.cpu,
        pid: of.pid,
        tid: of.tid,
        comm: &of.comm,
        advice: &of.advice,
        function: &of.function,
        flow: of.flow.map(Id),
        values: &of.values,
    }
}
