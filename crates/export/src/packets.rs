//! Packets of Perfetto's, one after the other, and what they say.
//!
//! A packet is written when it is made. What is said often (names, and the texts of arguments) is written once on a
//! sequence, and named by its number from there on; a sequence that has named too much begins anew.

use std::io::{self, Write};

use perfetto_trace_proto::{
    DebugAnnotation, DebugAnnotationName, EventCategory, EventName, InternedData, InternedString, Trace,
    TracePacket, TrackDescriptor, TrackEvent,
    debug_annotation::{self, Value},
    trace_packet::{Data, OptionalTrustedPacketSequenceId, SequenceFlags},
    track_descriptor::{ChildTracksOrdering, StaticOrDynamicName},
    track_event::{self, Type},
};
use prost::Message as _;
use rustc_hash::FxHashMap;
use xweave_text as text;
use xweave_trace::TimeSpan;

use crate::{counts::Counts, interned::Interned};

/// Bytes of a name or of an argument's text: a guest, or whoever made a file, chose it.
const TEXT: usize = 256;

/// Texts that a sequence names at most, before it begins anew.
const NAMED: usize = 1 << 16;

/// A machine of the viewer's; none is the one of the reference domain.
pub(crate) type MachineId = Option<u32>;

/// Where slices and instants are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Track {
    machine: MachineId,
    uuid: u64,
}

/// What is drawn there.
pub(crate) struct Label<'a> {
    /// In the drawing itself.
    pub name: &'a str,
    /// By which queries find all such.
    pub category: &'static str,
    /// What more there is to know.
    pub args: &'a [(&'a str, Arg<'a>)],
    /// What it is drawn an arrow to from whatever was before of the same flow.
    pub flow: Option<u64>,
}

/// An argument.
#[derive(Clone, Copy)]
pub(crate) enum Arg<'a> {
    /// A text, which may be anybody's.
    Text(&'a str),
    /// A number.
    Number(u64),
    /// A number that may be below zero.
    Signed(i64),
    /// A number as hexadecimal digits.
    Hex(u64),
}

/// Text as the viewer is given it: without what a terminal or a page would obey, and not too long.
pub(crate) fn shown(name: &str) -> String {
    text::printable_bytes(name.as_bytes(), TEXT)
}

/// A time as the viewer counts it, from 0.
pub(crate) fn time(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

/// What packets with track events of a machine have in common.
struct Sequence {
    number: u32,
    begun: bool,
    names: Interned,
    categories: Interned,
    arguments: Interned,
    texts: Interned,
}

impl Sequence {
    fn new(number: u32) -> Self {
        let (names, categories) = (Interned::default(), Interned::default());
        let (arguments, texts) = (Interned::default(), Interned::default());
        Self { number, begun: false, names, categories, arguments, texts }
    }

    fn argument(&mut self, (name, arg): &(&str, Arg<'_>)) -> DebugAnnotation {
        let value = match arg {
            Arg::Text(text) => Value::StringValueIid(self.texts.number(&shown(text))),
            Arg::Number(number) => Value::UintValue(*number),
            Arg::Signed(number) => Value::IntValue(*number),
            Arg::Hex(number) => Value::PointerValue(*number),
        };
        let name = debug_annotation::NameField::NameIid(self.arguments.number(&shown(name)));
        DebugAnnotation { name_field: Some(name), value: Some(value), ..Default::default() }
    }

    fn event(&mut self, track: Track, kind: Type, label: Option<&Label<'_>>) -> TrackEvent {
        let mut event =
            TrackEvent { r#type: Some(kind.into()), track_uuid: Some(track.uuid), ..Default::default() };
        if let Some(label) = label {
            let name = self.names.number(&shown(label.name));
            event.name_field = Some(track_event::NameField::NameIid(name));
            event.category_iids = vec![self.categories.number(label.category)];
            event.debug_annotations = label.args.iter().map(|arg| self.argument(arg)).collect();
            event.flow_ids = label.flow.into_iter().collect();
        }
        event
    }

    fn new_texts(&mut self) -> Option<InternedData> {
        let event_name = |(iid, name)| EventName { iid: Some(iid), name: Some(name) };
        let category = |(iid, name)| EventCategory { iid: Some(iid), name: Some(name) };
        let argument = |(iid, name)| DebugAnnotationName { iid: Some(iid), name: Some(name) };
        let string = |(iid, text): (u64, String)| InternedString { iid: Some(iid), str: Some(text.into()) };
        let data = InternedData {
            event_names: self.names.take_new().into_iter().map(event_name).collect(),
            event_categories: self.categories.take_new().into_iter().map(category).collect(),
            debug_annotation_names: self.arguments.take_new().into_iter().map(argument).collect(),
            debug_annotation_string_values: self.texts.take_new().into_iter().map(string).collect(),
            ..Default::default()
        };
        (data != InternedData::default()).then_some(data)
    }

    fn is_full(&self) -> bool {
        self.names.len() + self.texts.len() > NAMED
    }

    fn flags(&mut self) -> u32 {
        let needs = SequenceFlags::SeqNeedsIncrementalState as u32;
        let clears = SequenceFlags::SeqIncrementalStateCleared as u32;
        if std::mem::replace(&mut self.begun, true) { needs } else { needs | clears }
    }
}

/// The packets, on their way to a file.
pub(crate) struct Packets<'w> {
    out: &'w mut dyn Write,
    bytes: Vec<u8>,
    /// What has been written.
    pub counts: Counts,
    sequences: FxHashMap<MachineId, Sequence>,
}

impl<'w> Packets<'w> {
    pub(crate) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, bytes: Vec::new(), counts: Counts::default(), sequences: FxHashMap::default() }
    }

    /// Writes what is told of a machine as a whole, at a time if it is of one.
    pub(crate) fn write(&mut self, machine: MachineId, at: Option<i64>, data: Data) -> io::Result<()> {
        let number = self.sequence(machine).number;
        self.put(TracePacket {
            timestamp: at.map(time),
            machine_id: machine,
            optional_trusted_packet_sequence_id: Some(sequence_id(number)),
            data: Some(data),
            ..Default::default()
        })
    }

    /// A track, as it is described but for its number.
    pub(crate) fn track(&mut self, machine: MachineId, of: TrackDescriptor) -> io::Result<Track> {
        self.counts.tracks += 1;
        let uuid = self.counts.tracks;
        let of = TrackDescriptor { uuid: Some(uuid), ..of };
        self.write(machine, None, Data::TrackDescriptor(of))?;
        Ok(Track { machine, uuid })
    }

    /// A track of that name; its place among those with the same parent.
    pub(crate) fn named(
        &mut self,
        parent: Option<Track>,
        name: &str,
        description: Option<String>,
        rank: i32,
    ) -> io::Result<Track> {
        self.track(
            parent.and_then(|parent| parent.machine),
            TrackDescriptor {
                parent_uuid: parent.map(|parent| parent.uuid),
                static_or_dynamic_name: Some(StaticOrDynamicName::Name(shown(name))),
                description,
                child_ordering: Some(ChildTracksOrdering::Explicit.into()),
                sibling_order_rank: Some(rank),
                ..Default::default()
            },
        )
    }

    /// A slice begins.
    pub(crate) fn begin(&mut self, track: Track, at: i64, label: &Label<'_>) -> io::Result<()> {
        self.counts.slices += 1;
        self.event(track, at, Type::SliceBegin, Some(label))
    }

    /// The slice ends that began last and has not ended yet.
    pub(crate) fn end(&mut self, track: Track, at: i64) -> io::Result<()> {
        self.event(track, at, Type::SliceEnd, None)
    }

    /// A slice of which both is known.
    pub(crate) fn slice(&mut self, track: Track, span: TimeSpan, label: &Label<'_>) -> io::Result<()> {
        self.begin(track, span.from, label)?;
        self.end(track, span.to.max(span.from))
    }

    /// Something without a duration.
    pub(crate) fn instant(&mut self, track: Track, at: i64, label: &Label<'_>) -> io::Result<()> {
        self.counts.instants += 1;
        self.event(track, at, Type::Instant, Some(label))
    }

    /// All is written.
    pub(crate) fn finish(self) -> io::Result<Counts> {
        self.out.flush()?;
        Ok(self.counts)
    }

    fn event(&mut self, track: Track, at: i64, kind: Type, label: Option<&Label<'_>>) -> io::Result<()> {
        let sequence = self.sequence(track.machine);
        if sequence.is_full() {
            *sequence = Sequence::new(sequence.number);
        }
        let event = sequence.event(track, kind, label);
        let packet = TracePacket {
            timestamp: Some(time(at)),
            machine_id: track.machine,
            optional_trusted_packet_sequence_id: Some(sequence_id(sequence.number)),
            interned_data: sequence.new_texts(),
            sequence_flags: Some(sequence.flags()),
            data: Some(Data::TrackEvent(event)),
            ..Default::default()
        };
        self.put(packet)
    }

    fn sequence(&mut self, machine: MachineId) -> &mut Sequence {
        let next = u32::try_from(self.sequences.len() + 1).unwrap_or(u32::MAX);
        self.sequences.entry(machine).or_insert_with(|| Sequence::new(next))
    }

    fn put(&mut self, packet: TracePacket) -> io::Result<()> {
        // A file is a `Trace`; one with a packet, written behind another, adds that packet to it.
        let one = Trace { packet: vec![packet] };
        self.bytes.clear();
        one.encode(&mut self.bytes)?;
        self.counts.packets += 1;
        self.counts.bytes += self.bytes.len() as u64;
        self.out.write_all(&self.bytes)
    }
}

fn sequence_id(number: u32) -> OptionalTrustedPacketSequenceId {
    OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(number)
}
