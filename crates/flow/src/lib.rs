//! From records to flows: one time line for all domains, and the halves of each crossing joined.
//!
//! Advice in each domain records under *local* flow IDs. Where data crosses a boundary, both sides
//! record the same carrier key; joining those makes one flow of the local ones.
//!
//! ```text
//! vm1   start ─ hop ─ hop ─ xin ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ quit      local flow 0x02…01
//!                            ╎ ring, index, check
//! host                      xout ─ hop ─ hop ─ quit            local flow 0x01…07
//! ```
//!
//! Modules: [`clock`] brings times onto one line while recording. [`join`] goes through a trace window by window:
//! `local` groups rows by local ID; [`crossing`] pairs the two sides of carriers, and knows how far their rings have
//! come and which process runs which guest; [`graph`] connects local flows and finds each flow's path. [`dropped`] is
//! what the kernel threw away, [`frame`] what a network frame is. `kinds` tells flows of one kind from others;
//! [`segments`] adds up the times between hops, of which `functions` are numbered, and [`places`] those of the hops that
//! `landmarks` tell to be in one [place](flow_place) (`takers` what held flows on a ring), as `durations` in a `sample`; [`sites`] and [`summary`] count, `strangers` whose flows began
//! elsewhere; [`flows`] is the whole
//! result. [`key`] is one in the payload, by which messages of one call are known; `keys` gives flows theirs. [`exchange`] is a request and its answer, [`legs`] where either or a flow was until when, [`depths`] with how many others,
//! [`by_value`] tells flows apart by what was stored of them,
//! [`ancestry`] what a flow was cut off and put together of. [`levels`] has very many at a glance: their times in a
//! [`histogram`], and a [`choice`] to be looked at one by one.
//!
//! ```
//! use xweave_flow::Flows;
//! use xweave_trace::{Domain, Manifest, Site, Trace, Writer};
//! use xweave_wire::record::{Kind, Record};
//!
//! let parent = tempfile::tempdir()?;
//! let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
//! let mut writer = Writer::create(parent.path(), Manifest { domains, ..Manifest::default() })?;
//! let site = |site, function: &str| Site {
//!     site, domain: "host".into(), function: function.into(), xflow: Some("send".into()), ..Site::default()
//! };
//! writer.sites(&[site(1, "alloc_skb"), site(2, "kfree_skb")])?;
//! for (time_ns, site, kind) in [(1_000, 1, Kind::Start), (4_000, 2, Kind::Quit)] {
//!     let record = Record {
//!         time_ns, flow: 1 << 56 | 1, site, pid: 1, tid: 1, cpu: 0, kind, comm: [0; 16], values: vec![0xbeef],
//!     };
//!     writer.append(1, i64::try_from(time_ns)?, &record)?;
//! }
//! writer.finish()?;
//!
//! let flows = Flows::of(&Trace::open(parent.path())?);
//! assert_eq!((flows.summary().flows, flows.summary().complete), (1, 1));
//! assert_eq!(flows.segments()[0].p50_ns, 3_000);
//! assert_eq!(flows.typical().map(|flow| flow.name.as_str()), Some("send"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod ancestry;
pub mod by_value;
pub mod choice;
pub mod clock;
pub mod crossing;
pub mod depths;
pub mod dropped;
mod durations;
pub mod exchange;
pub mod flow_place;
pub mod flows;
pub mod frame;
mod functions;
pub mod graph;
pub mod histogram;
mod instances;
pub mod join;
pub mod key;
mod keys;
mod kinds;
mod landmarks;
pub mod latency;
pub mod legs;
pub mod levels;
mod local;
pub mod places;
mod sample;
pub mod segments;
pub mod sites;
pub mod stored;
mod strangers;
pub mod summary;
mod takers;

pub use choice::Choice;
pub use depths::Depths;
pub use dropped::Dropped;
pub use exchange::{Exchange, Service};
pub use flow_place::FlowPlace;
pub use flows::{Flows, Hop, NamedFlow, Wanted};
pub use frame::Frame;
pub use graph::{Flow, Incomplete};
pub use histogram::Histogram;
pub use join::Join;
pub use key::Key;
pub use kinds::FlowKind;
pub use legs::{Leg, Way, WayPlace, Ways};
pub use levels::Levels;
pub use places::{Place, Stay};
pub use segments::Segment;
pub use sites::SiteCounts;
pub use stored::Stored;
pub use strangers::KindCount;
pub use summary::Summary;
pub use takers::{Taker, TakerState};
