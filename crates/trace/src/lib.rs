//! The trace directory: what a recording leaves behind.
//!
//! ```text
//! DIR/trace.json               the manifest: domains, clocks, aspects, what was lost
//! DIR/sites.parquet            where the records come from
//! DIR/records/*.parquet        the records, in segments
//! DIR/events/*.parquet         the events, in segments
//! ```
//!
//! The folder is readable by DuckDB, Polars, pandas and Spark as it is; `docs/trace-format.md`
//! describes each column. A recording that is killed leaves a readable trace: segments get their
//! names only when they are whole, and the manifest says `complete: false` until the end.
//!
//! Modules: [`manifest`] is `trace.json`, [`site`], [`row`] and [`event`] are one line of each table,
//! [`xen`] why vCPUs of Xen left their guests, [`writer`] makes a trace and [`reader`] opens one, [`damage`] is what can be wrong with its files; `table` knows Parquet, with
//! `pages` where the library writes too slowly and `words` where it reads so, and `checked`, which holds files against what
//! they claim.
//!
//! ```
//! use xweave_trace::{Domain, Manifest, Role, Trace, Writer};
//! use xweave_wire::record::{Kind, Record};
//!
//! let parent = tempfile::tempdir()?;
//! let dir = parent.path().join("trace");
//!
//! let mut manifest = Manifest { reference: "host".into(), ..Manifest::default() };
//! manifest.domains.push(Domain { name: "host".into(), number: 1, ..Domain::default() });
//! let mut writer = Writer::create(&dir, manifest)?;
//! let record = Record {
//!     time_ns: 5, flow: 1 << 56 | 1, site: 1, pid: 42, tid: 42, cpu: 0,
//!     kind: Kind::Start, comm: *b"ping\0\0\0\0\0\0\0\0\0\0\0\0", values: vec![0xffff_8881_0000_0000],
//! };
//! writer.append(1, 1_005, &record)?;
//! writer.finish()?;
//!
//! let trace = Trace::open(&dir)?;
//! let (rows, damaged) = trace.rows();
//! assert_eq!((rows[0].time_ns, rows[0].kind, damaged.len()), (1_005, Kind::Start, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checked;
pub mod damage;
pub mod error;
pub mod event;
mod events;
mod given;
pub mod manifest;
mod meanings;
pub mod merge;
mod pages;
pub mod parts;
mod processes;
pub mod reader;
mod records;
pub mod row;
mod segments;
pub mod site;
mod table;
mod thrift;
mod time_span;
mod words;
pub mod writer;
pub mod xen;

pub use damage::{Damage, Damaged};
pub use error::{Error, ErrorKind};
pub use event::Event;
pub use manifest::{
    Aspect, Clock, ClockBreak, Domain, DomainVm, DomainXen, EventLoss, Exit, FlowLoss, Late, Loss, Manifest,
    Method, Role, SiteLoss, TscLine, Uncounted, Unloaded, VmName,
};
pub use merge::Events;
pub use parts::{Part, Parts};
pub use reader::{Trace, XENTRACE};
pub use row::Row;
pub use site::Site;
pub use time_span::TimeSpan;
pub use writer::Writer;
pub use xweave_wire::{
    message::{Disk, DropReason, Processor, Symbol},
    record::MAX_VALUES,
};

/// The version of the trace directory's schema. Raised when a reader of the older one would misread.
pub const SCHEMA: u32 = 2;
