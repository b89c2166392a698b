//! Where the parts of a sample are: perf_event_open(2), `PERF_RECORD_SAMPLE` and `sample_type`.

use xweave_bytes::read_le;

/// What a sample holds, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub time: Option<usize>,
    pub cpu: Option<usize>,
    /// Where the first part is whose size is not always the same.
    variable: usize,
    /// There are values of counters, in this format.
    read: Option<u64>,
    callchain: bool,
    /// There is what the tracepoint recorded.
    pub raw: Option<()>,
    /// Other records end with some of the parts: how many bytes, and where among them the time and the processor are.
    trailer: usize,
    trailer_time: Option<usize>,
    trailer_cpu: Option<usize>,
}

/// Bits of `sample_type`: include/uapi/linux/perf_event.h.
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const IDENTIFIER: u64 = 1 << 16;

/// Bits of `read_format`.
const TIMES: u64 = 3;
const READ_ID: u64 = 1 << 2;
const GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;

/// The bit among the flags that lets other records have a trailer.
const SAMPLE_ID_ALL: u64 = 1 << 18;

impl Layout {
    /// Of an event's `sample_type`, `read_format` and flags.
    pub(crate) fn of(sample: u64, read: u64, flags: u64) -> Self {
        let mut layout = Self::default();
        // Eight bytes each, in this order.
        let mut at = 0;
        for part in [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD] {
            if sample & part == 0 {
                continue;
            }
            match part {
                TIME => layout.time = Some(at),
                CPU => layout.cpu = Some(at),
                _ => {}
            }
            at += 8;
        }
        layout.variable = at;
        layout.read = (sample & READ != 0).then_some(read);
        layout.callchain = sample & CALLCHAIN != 0;
        layout.raw = (sample & RAW != 0).then_some(());
        if flags & SAMPLE_ID_ALL != 0 {
            let mut at = 0;
            for part in [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER] {
                if sample & part == 0 {
                    continue;
                }
                match part {
                    TIME => layout.trailer_time = Some(at),
                    CPU => layout.trailer_cpu = Some(at),
                    _ => {}
                }
                at += 8;
            }
            layout.trailer = at;
        }
        layout
    }

    /// What the tracepoint recorded: its place in a sample's body. None if the sample is too short for it.
    #[inline]
    pub(crate) fn content(&self, body: &[u8]) -> Option<(usize, usize)> {
        let mut at = self.variable;
        if let Some(read) = self.read {
            let times = 8 * (read & TIMES).count_ones() as usize;
            let each = 8 + 8 * (read & (READ_ID | READ_LOST)).count_ones() as usize;
            at = if read & GROUP == 0 {
                at + each + times
            } else {
                let values = usize::try_from(read_le::<u64>(body, at)?).ok()?;
                at.checked_add(8 + times)?.checked_add(values.checked_mul(each)?)?
            };
        }
        if self.callchain {
            let calls = usize::try_from(read_le::<u64>(body, at)?).ok()?;
            at = at.checked_add(8)?.checked_add(calls.checked_mul(8)?)?;
        }
        let len = read_le::<u32>(body, at)? as usize;
        let (from, to) = (at + 4, at + 4 + len);
        (to <= body.len()).then_some((from, to))
    }

    /// The time and the processor of a record that is no sample.
    pub(crate) fn trailer(&self, body: &[u8]) -> (u64, u32) {
        let Some(begin) = body.len().checked_sub(self.trailer) else { return (0, 0) };
        let time = self.trailer_time.and_then(|at| read_le(body, begin + at));
        let cpu = self.trailer_cpu.and_then(|at| read_le(body, begin + at));
        (time.unwrap_or(0), cpu.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_in_their_order() {
        let layout = Layout::of(IP | TID | TIME | ID | CPU | PERIOD | RAW, 4, SAMPLE_ID_ALL);
        assert_eq!((layout.time, layout.cpu, layout.variable), (Some(16), Some(32), 48));
        let mut body = vec![0; 48];
        body.extend([3, 0, 0, 0, 7, 8, 9]);
        assert_eq!(layout.content(&body), Some((52, 55)));
        assert_eq!(layout.content(&body[..54]), None);
        // TID, TIME, ID, CPU
        let mut comm = vec![0; 8];
        comm.extend([0u64, 77, 0, 3].into_iter().flat_map(u64::to_le_bytes));
        assert_eq!(layout.trailer(&comm), (77, 3));
    }

    #[test]
    fn what_has_no_fixed_size_is_stepped_over() {
        let layout = Layout::of(TIME | READ | CALLCHAIN | RAW, TIMES | GROUP | READ_ID, 0);
        let mut words = vec![5u64]; // time
        words.extend([2, 0, 0, 1, 1, 2, 2]); // two values and their numbers, behind two times
        words.extend([1, 0xffff]); // a call
        let mut body: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        body.extend([1, 0, 0, 0, 42]);
        assert_eq!(layout.content(&body), Some((84, 85)));
        body[8..16].fill(0xff);
        assert_eq!(layout.content(&body), None);
    }
}
