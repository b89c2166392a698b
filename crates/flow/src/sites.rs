//! What each site recorded, and what it lost.

use std::collections::{BTreeSet, HashMap};

use xweave_trace::{Site, SiteLoss, Trace};

/// A join point as woven, with how much came from it. Of the trace as a whole, whichever flows are
/// looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteCounts {
    /// The number that records carry.
    pub site: u32,
    /// The domain it lies in; empty if the trace does not tell.
    pub domain: String,
    /// The aspect that was woven there.
    pub aspect: String,
    /// The clause of it.
    pub advice: String,
    /// The function; `site N` if the trace does not tell.
    pub function: String,
    /// Its module; none for the kernel image.
    pub module: Option<String>,
    /// What the site does to flows; `advice` if it only stores.
    pub action: String,
    /// The flow definition it belongs to.
    pub xflow: Option<String>,
    /// The carrier that it puts flows on or takes them off.
    pub carrier: Option<String>,
    /// Records of the trace that come from it, those of no flow included.
    pub records: u64,
    /// Records for which the buffer had no room.
    pub dropped: u64,
    /// Times the kernel skipped the program; none where it does not count that.
    pub missed: Option<u64>,
    /// Flows that could not be begun or moved for want of room in the flow table.
    pub table_full: u64,
    /// Flows that ended where nobody saw it: something began under a key that still carried them.
    pub overwritten: u64,
}

/// The sites of a trace in its own order, those with nothing to show included; then those that only
/// records or losses tell of.
pub(crate) fn of(trace: &Trace, records: &HashMap<u32, u64>) -> Vec<SiteCounts> {
    let loss: HashMap<u32, SiteLoss> =
        trace.manifest().loss.sites.iter().map(|loss| (loss.site, *loss)).collect();
    let uncounted = |site: &Site| is_uncounted(trace, site);
    let told: BTreeSet<u32> = records.keys().chain(loss.keys()).copied().collect();
    let unknown = told.into_iter().filter(|&number| trace.site(number).is_none()).map(unknown);
    trace
        .sites()
        .iter()
        .cloned()
        .chain(unknown)
        .map(|site| {
            let loss = loss.get(&site.site).copied().unwrap_or_default();
            SiteCounts {
                records: records.get(&site.site).copied().unwrap_or(0),
                dropped: loss.dropped,
                missed: (!uncounted(&site)).then_some(loss.missed),
                table_full: loss.table_full,
                overwritten: loss.overwritten,
                site: site.site,
                domain: site.domain,
                aspect: site.aspect,
                advice: site.advice,
                function: site.function,
                module: site.module,
                action: site.action,
                xflow: site.xflow,
                carrier: site.carrier,
            }
        })
        .collect()
}

/// Whether what the kernel skips there cannot be counted.
pub(crate) fn is_uncounted(trace: &Trace, site: &Site) -> bool {
    let domains = &trace.manifest().loss.uncounted;
    site.is_probe() && domains.iter().any(|uncounted| uncounted.domain == site.domain)
}

/// A site that the trace lacks.
pub(crate) fn unknown(number: u32) -> Site {
    Site { site: number, function: format!("site {number}"), ..Site::default() }
}
