//! The records in the order of their times. perf writes them as it finds them, processor by processor, in rounds: when
//! a round is over, nothing comes any more that is older than what the round before it had.

use rustc_hash::FxHashMap;
use ruzstd::decoding::{FrameDecoder, errors::FrameDecoderError};
use xweave_bytes::read_le;
use xweave_trace::{Event, event::Kind};

use super::{
    Perf, kind,
    layout::Layout,
    tape::{Tape, header},
};
use crate::{dat::RATIO, error::Error, input::Input, kernel::Kernel, merge::Early, sink::Sink};

/// The most bytes of records that wait for their turn. A round has as much as the kernel's buffers.
const WAITING: usize = 256 << 20;

/// What came of the records.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Records that the kernel had no room for.
    pub lost: u64,
    /// Records whose time was before that of one that had gone on already: they got its time.
    pub early: Early,
    pub damage: Vec<Error>,
}

/// A record that waits.
#[derive(Clone, Copy)]
struct Waiting {
    time: u64,
    at: usize,
    len: u32,
    cpu: u32,
    kind: u32,
}

struct Rounds<'a, S> {
    layout: &'a Layout,
    kernel: &'a mut Kernel,
    out: &'a mut S,
    /// perf tells of threads; so do tracepoints, if they were recorded.
    forks: bool,
    exits: bool,
    packed: bool,
    bytes: Vec<u8>,
    /// Room for what goes on waiting.
    spare: Vec<u8>,
    waiting: Vec<Waiting>,
    /// The latest time of all rounds that are over, and of the current one.
    over: u64,
    latest: u64,
    last: u64,
    /// The time of the first record, and that of each processor's last.
    first: Option<u64>,
    seen: FxHashMap<u32, u64>,
    replay: Replay,
}

/// Gives the kernel all records of a file.
pub(crate) fn replay<S: Sink>(
    perf: &Perf,
    input: &Input,
    kernel: &mut Kernel,
    out: &mut S,
) -> Result<Replay, Error> {
    let mut rounds = Rounds {
        layout: &perf.layout,
        kernel,
        out,
        forks: !perf.recorded("sched_process_fork"),
        exits: !perf.recorded("sched_process_exit"),
        packed: false,
        bytes: Vec::new(),
        spare: Vec::new(),
        waiting: Vec::new(),
        over: 0,
        latest: 0,
        last: 0,
        first: None,
        seen: FxHashMap::default(),
        replay: Replay::default(),
    };
    let mut tape = Tape::new(input, perf.begin, perf.end);
    let mut packed = Packed::default();
    loop {
        let record = match tape.next() {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                rounds.replay.damage.push(error);
                break;
            }
        };
        if record.kind != kind::COMPRESSED {
            rounds.take(record.kind, record.at, tape.body())?;
            continue;
        }
        rounds.packed = true;
        if let Err(error) = packed.unpack(tape.body()) {
            rounds.replay.damage.push(Error::damaged(record.at, &error).by(error));
            break;
        }
        rounds.take_all(&mut packed.bytes, record.at)?;
    }
    if rounds.packed {
        match packed.finish() {
            Ok(()) => rounds.take_all(&mut packed.bytes, perf.end)?,
            Err(error) => rounds.replay.damage.push(Error::damaged(perf.end, &error).by(error)),
        }
    }
    rounds.go_on(u64::MAX)?;
    Ok(rounds.replay)
}

impl<S: Sink> Rounds<'_, S> {
    /// The whole records among these bytes, which they leave; `at` is where they were packed.
    fn take_all(&mut self, bytes: &mut Vec<u8>, at: u64) -> Result<(), Error> {
        let mut done = 0;
        while let Some((kind, len)) = header(&bytes[done..]) {
            if len < 8 {
                self.replay.damage.push(Error::damaged(at, "a packed record without a length"));
                done = bytes.len();
                break;
            }
            // The rest of it comes with the next.
            let Some(body) = bytes.get(done + 8..done + len) else { break };
            self.take(kind, at, body)?;
            done += len;
        }
        bytes.drain(..done);
        Ok(())
    }

    /// The next record; `at` is its place in the file.
    fn take(&mut self, kind: u32, at: u64, body: &[u8]) -> Result<(), Error> {
        match kind {
            kind::SAMPLE => {
                let time = self.layout.time.and_then(|at| read_le(body, at));
                let cpu = self.layout.cpu.and_then(|at| read_le(body, at)).unwrap_or(0);
                match (time, self.layout.content(body)) {
                    (Some(time), Some((from, to))) => self.wait(kind, time, cpu, &body[from..to]),
                    _ if self.replay.damage.is_empty() => {
                        self.replay
                            .damage
                            .push(Error::damaged(at, "a sample that is shorter than what it holds"));
                    }
                    _ => {}
                }
            }
            kind::COMM => {
                let (time, cpu) = self.layout.trailer(body);
                self.wait(kind, time, cpu, body);
            }
            kind::FORK | kind::EXIT => {
                let (_, cpu) = self.layout.trailer(body);
                self.wait(kind, read_le(body, 16).unwrap_or(0), cpu, body);
            }
            kind::LOST => {
                self.replay.lost = self.replay.lost.saturating_add(read_le(body, 8).unwrap_or(0));
                // The kernel tells of them before the next record for which there is room.
                let (time, cpu) = self.layout.trailer(body);
                if time != 0 {
                    self.wait(kind, time, cpu, body);
                }
            }
            kind::LOST_SAMPLES => {
                self.replay.lost = self.replay.lost.saturating_add(read_le(body, 0).unwrap_or(0))
            }
            // What is packed comes later than where it stands, and rounds do not.
            kind::FINISHED_ROUND if !self.packed => {
                self.go_on(self.over)?;
                self.over = self.latest;
            }
            _ => {}
        }
        if self.bytes.len() + self.waiting.len() * size_of::<Waiting>() <= WAITING {
            return Ok(());
        }
        // More than a round has: the older half of it is in order.
        let middle = self.waiting.len() / 2;
        let (_, median, _) = self.waiting.select_nth_unstable_by_key(middle, |waiting| waiting.time);
        let until = median.time;
        self.go_on(until)
    }

    fn wait(&mut self, kind: u32, time: u64, cpu: u32, content: &[u8]) {
        self.latest = self.latest.max(time);
        let len = u32::try_from(content.len()).unwrap_or(0);
        self.waiting.push(Waiting { time, at: self.bytes.len(), len, cpu, kind });
        self.bytes.extend_from_slice(content);
    }

    /// Gives the kernel what is not later than `until`.
    fn go_on(&mut self, until: u64) -> Result<(), Error> {
        // Mostly some runs in order, one for each processor, which this sorting finds.
        self.waiting.sort_by_key(|waiting| (waiting.time, waiting.at));
        let count = self.waiting.partition_point(|waiting| waiting.time <= until);
        for at in 0..count {
            let Some(&waiting) = self.waiting.get(at) else { break };
            // What was there before the recording has no time.
            if waiting.time != 0 {
                let signed = |time| i64::try_from(time).unwrap_or(i64::MAX);
                self.replay.early.take(signed(waiting.time), signed(self.last));
            }
            self.last = self.last.max(waiting.time);
            self.give(waiting)?;
        }
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        self.waiting.drain(..count);
        for waiting in &mut self.waiting {
            let content = self.bytes.get(waiting.at..waiting.at + waiting.len as usize).unwrap_or_default();
            waiting.at = bytes.len();
            bytes.extend_from_slice(content);
        }
        self.spare = std::mem::replace(&mut self.bytes, bytes);
        Ok(())
    }

    fn give(&mut self, record: Waiting) -> Result<(), Error> {
        let content = self.bytes.get(record.at..record.at + record.len as usize).unwrap_or_default();
        // What no clock has counted is damage, and comes last.
        let time = i64::try_from(self.last).unwrap_or(i64::MAX);
        let number = |at| read_le::<u32>(content, at).unwrap_or(0);
        match record.kind {
            kind::SAMPLE => {
                self.first.get_or_insert(self.last);
                self.seen.insert(record.cpu, self.last);
                self.kernel.record(time, record.cpu, content, self.out)
            }
            kind::LOST => {
                let since = self.seen.get(&record.cpu).copied().or(self.first).unwrap_or(self.last);
                let (since, count) = (i64::try_from(since).unwrap_or(i64::MAX), read_le(content, 8));
                self.kernel.lost(time, record.cpu, since, count.unwrap_or(0), self.out)
            }
            kind::COMM => {
                let (pid, tid) = (number(0), number(4));
                self.kernel.thread(time, tid, pid, content.get(8..).unwrap_or_default(), self.out)
            }
            kind::FORK => {
                let (pid, tid, parent) = (number(0), number(8), number(12));
                self.kernel.belongs(tid, pid);
                // Those that were there already have no time.
                if !self.forks || record.time == 0 {
                    return Ok(());
                }
                let event = Event::new(Kind::Fork, self.kernel.domain(), time, record.cpu, parent);
                self.kernel.fork(Event { other: tid, ..event }, None, self.out)
            }
            _ if self.exits => {
                let event = Event::new(Kind::Exit, self.kernel.domain(), time, record.cpu, number(8));
                self.kernel.emit(event, self.out)
            }
            _ => Ok(()),
        }
    }
}

/// What is wrong with packed records.
#[derive(Debug, thiserror::Error)]
enum Unpackable {
    #[error("packed records that cannot be unpacked: {0}")]
    Zstd(#[from] FrameDecoderError),
    #[error("packed records of {packed} bytes that become {unpacked} and more: no records do")]
    Bomb { packed: u64, unpacked: u64 },
}

/// Packed records: one stream of zstd goes through all of them. Of an unfinished stream, the decoder keeps what later
/// parts may refer to: that much comes late.
#[derive(Default)]
struct Packed {
    decoder: Option<FrameDecoder>,
    /// What is not unpacked yet.
    rest: Vec<u8>,
    /// What is, but for what was taken.
    bytes: Vec<u8>,
    /// How many bytes were packed, and what they became.
    packed: u64,
    unpacked: u64,
}

impl Packed {
    fn unpack(&mut self, content: &[u8]) -> Result<(), Unpackable> {
        self.rest.extend_from_slice(content);
        self.packed += content.len() as u64;
        let decoder = self.decoder.get_or_insert_with(FrameDecoder::new);
        let mut room = vec![0; 256 << 10];
        let mut read = 0;
        loop {
            let (taken, given) = decoder.decode_from_to(&self.rest[read..], &mut room)?;
            read += taken;
            self.bytes.extend_from_slice(&room[..given]);
            self.unpacked += given as u64;
            if self.bytes.len() > WAITING || self.unpacked > self.packed * RATIO + WAITING as u64 {
                let (packed, unpacked) = (self.packed, self.unpacked);
                return Err(Unpackable::Bomb { packed, unpacked });
            }
            if taken == 0 && given == 0 {
                break;
            }
            if decoder.is_finished() && read < self.rest.len() && given < room.len() {
                // Another stream follows.
                *decoder = FrameDecoder::new();
            }
        }
        self.rest.drain(..read);
        Ok(())
    }

    /// What is left: perf does not finish its stream.
    fn finish(&mut self) -> Result<(), Unpackable> {
        /// An empty block, the last one of a stream: RFC 8878, 3.1.1.2.
        const LAST: [u8; 3] = [1, 0, 0];
        if self.decoder.as_ref().is_some_and(|decoder| !decoder.is_finished()) {
            self.unpack(&LAST)
        } else {
            Ok(())
        }
    }
}
