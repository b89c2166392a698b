//! Partitions and their disks. An access is queued at a partition and issued at its disk; the sector is the disk's in
//! both. Which disk that is, the first access that is issued tells; until then events wait. `block_bio_remap` does not tell:
//! it says the same of a partition as of a volume of device mapper, which is a disk of its own.

use rustc_hash::FxHashMap;
use xweave_trace::event::{Event, Kind};

use crate::{error::Error, sink::Sink};

/// The most events that wait.
const WAITING: usize = 64 << 10;

/// Sends events on, those of a disk with the disk's number.
#[derive(Default)]
pub(crate) struct Partitions {
    /// What is known: device → its disk, which can be itself.
    disks: FxHashMap<u64, u64>,
    /// Events from the first one on that asked for an unknown device.
    waiting: Vec<Event>,
    /// Whose they are.
    unknown: Unknown,
    /// How many of them asked for an unknown device when a request was last given to a disk, and since.
    asking: usize,
}

/// Accesses that wait and whose device is unknown: requests find theirs at once, however many wait.
#[derive(Default)]
struct Unknown {
    /// Device → how many of its events wait.
    events: FxHashMap<u64, usize>,
    /// How many these are in all.
    count: usize,
    /// Sector → the devices at which it was asked for, in order. Some may be known by now.
    at: FxHashMap<u64, Vec<u64>>,
}

impl Unknown {
    fn wait(&mut self, event: &Event) {
        *self.events.entry(event.object).or_default() += 1;
        self.count += 1;
        if event.kind == Kind::DiskQueue {
            self.at.entry(event.position).or_default().push(event.object);
        }
    }

    /// The device is known from now on.
    fn forget(&mut self, device: u64) {
        self.count -= self.events.remove(&device).unwrap_or(0);
    }

    /// The device that was last asked for a sector, of those that are not known.
    fn asked(&mut self, sector: u64, known: impl Fn(u64) -> bool) -> Option<u64> {
        let devices = self.at.get_mut(&sector)?;
        // What is known stays so: it is not looked at again.
        std::iter::from_fn(|| devices.pop()).find(|device| !known(*device))
    }
}

impl Partitions {
    /// A device lies on a disk. Whether that, or another disk, was known before.
    fn know(&mut self, device: u64, disk: u64) -> bool {
        self.unknown.forget(device);
        self.disks.insert(device, disk).is_some()
    }

    /// The next event.
    #[inline]
    pub(crate) fn event(&mut self, mut event: Event, out: &mut impl Sink) -> Result<(), Error> {
        match event.kind {
            Kind::DiskQueue | Kind::DiskMerge => match self.disks.get(&event.object) {
                Some(&disk) => event.object = disk,
                None => self.asking += 1,
            },
            Kind::DiskIssue | Kind::DiskComplete => self.issued(event),
            _ => {}
        }
        if self.asking == 0 && self.waiting.is_empty() {
            return out.event(event);
        }
        if let Kind::DiskQueue | Kind::DiskMerge = event.kind
            && !self.disks.contains_key(&event.object)
        {
            self.unknown.wait(&event);
        }
        self.waiting.push(event);
        if self.asking == 0 || self.waiting.len() >= WAITING {
            return self.flush(out);
        }
        Ok(())
    }

    /// Sends on what waits, unanswered or not.
    pub(crate) fn flush(&mut self, out: &mut impl Sink) -> Result<(), Error> {
        for mut event in self.waiting.drain(..) {
            if let Kind::DiskQueue | Kind::DiskMerge = event.kind {
                // Nothing is known of it: it is a disk of its own, as those are that no request is made of.
                event.object = *self.disks.entry(event.object).or_insert(event.object);
            }
            out.event(event)?;
        }
        self.unknown = Unknown::default();
        self.asking = 0;
        Ok(())
    }

    /// A request was given to a disk: whoever waits at the same sector waits for that disk.
    fn issued(&mut self, request: Event) {
        if self.know(request.object, request.object) && self.asking == 0 {
            return;
        }
        let disks = &self.disks;
        let part = self.unknown.asked(request.position, |device| disks.contains_key(&device));
        if let Some(part) = part {
            self.know(part, request.object);
        }
        if self.asking > 0 {
            self.asking = self.unknown.count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use proptest::prelude::*;
    use xweave_trace::event::Name;

    #[derive(Default)]
    struct All(Vec<(Kind, u64)>);

    impl Sink for All {
        fn name(&mut self, _: &str) -> Name {
            Name::default()
        }

        fn event(&mut self, event: Event) -> Result<(), Error> {
            self.0.push((event.kind, event.object));
            Ok(())
        }
    }

    /// Gives all of them to partitions; what came out, and how long that took.
    fn through(events: impl IntoIterator<Item = Event>) -> (Vec<(Kind, u64)>, Duration) {
        let (mut partitions, mut all) = (Partitions::default(), All::default());
        let begin = Instant::now();
        for event in events {
            partitions.event(event, &mut all).unwrap();
        }
        partitions.flush(&mut all).unwrap();
        (all.0, begin.elapsed())
    }

    fn event(kind: Kind, object: u64, position: u64) -> Event {
        Event { object, position, ..Event::new(kind, 1, 0, 0, 0) }
    }

    #[test]
    fn a_partitions_accesses_are_its_disks() {
        use Kind::{DiskIssue, DiskQueue, Wake};
        let (mut partitions, mut all) = (Partitions::default(), All::default());
        for happening in [
            event(Wake, 0, 0),
            event(DiskQueue, 0x801, 77),
            event(Wake, 0, 0),
            event(DiskIssue, 0x800, 77),
            event(DiskQueue, 0x801, 80),
            event(DiskQueue, 0x800, 90),
        ] {
            partitions.event(happening, &mut all).unwrap();
        }
        let expected = [
            (Wake, 0),
            (DiskQueue, 0x800),
            (Wake, 0),
            (DiskIssue, 0x800),
            (DiskQueue, 0x800),
            (DiskQueue, 0x800),
        ];
        assert_eq!(all.0, expected);
    }

    #[test]
    fn what_nobody_answers_waits_no_longer_than_to_the_end() {
        let (mut partitions, mut all) = (Partitions::default(), All::default());
        partitions.event(event(Kind::DiskQueue, 0x900, 1), &mut all).unwrap();
        for at in 0..WAITING as u64 + 5 {
            partitions.event(event(Kind::DiskQueue, 0x901, at), &mut all).unwrap();
        }
        assert!(all.0.len() > WAITING);
        partitions.flush(&mut all).unwrap();
        assert_eq!((all.0.len(), all.0[0].1), (WAITING + 6, 0x900));
    }

    #[test]
    fn an_access_that_nobody_answers_makes_those_behind_it_no_dearer() {
        const REQUESTS: u64 = 40_000;
        let one = |at| [event(Kind::DiskQueue, 0x800, at), event(Kind::DiskIssue, 0x800, at)];
        let requests = || (0..REQUESTS).flat_map(one);
        let (honest, took) = through(requests());
        let (hostile, longer) =
            through([event(Kind::DiskQueue, 0x900, 1 << 40)].into_iter().chain(requests()));
        assert_eq!(hostile[1..], honest);
        assert!(
            longer < 50 * took + Duration::from_millis(100),
            "{longer:?}, and {took:?} if it is answered"
        );
    }

    /// The same in few words, slowly: all that wait are looked through for each request.
    #[derive(Default)]
    struct Plain {
        disks: FxHashMap<u64, u64>,
        waiting: Vec<Event>,
        asking: usize,
        out: Vec<(Kind, u64)>,
    }

    impl Plain {
        fn event(&mut self, mut event: Event) {
            match event.kind {
                Kind::DiskQueue | Kind::DiskMerge => match self.disks.get(&event.object) {
                    Some(&disk) => event.object = disk,
                    None => self.asking += 1,
                },
                Kind::DiskIssue => {
                    self.disks.insert(event.object, event.object);
                    let at =
                        |asked: &&Event| asked.kind == Kind::DiskQueue && asked.position == event.position;
                    let asked = self.waiting.iter().rev().filter(at);
                    let unknown = asked.map(|asked| asked.object).find(|part| !self.disks.contains_key(part));
                    self.disks.extend(unknown.map(|part| (part, event.object)));
                    let open = |event: &&Event| {
                        event.kind != Kind::DiskIssue && !self.disks.contains_key(&event.object)
                    };
                    self.asking = self.waiting.iter().filter(open).count();
                }
                _ => {}
            }
            if self.asking == 0 && self.waiting.is_empty() {
                return self.out.push((event.kind, event.object));
            }
            self.waiting.push(event);
            if self.asking == 0 {
                self.flush();
            }
        }

        fn flush(&mut self) {
            for mut event in self.waiting.drain(..) {
                if event.kind != Kind::DiskIssue {
                    event.object = *self.disks.entry(event.object).or_insert(event.object);
                }
                self.out.push((event.kind, event.object));
            }
            self.asking = 0;
        }
    }

    proptest! {
        #[test]
        fn what_waits_is_found_as_if_it_were_looked_through(
            steps in prop::collection::vec((0usize..3, 0u64..6, 0u64..5), 0..60),
        ) {
            let (mut partitions, mut all, mut plain) = (Partitions::default(), All::default(), Plain::default());
            for (what, object, position) in steps {
                let kind = [Kind::DiskQueue, Kind::DiskMerge, Kind::DiskIssue][what];
                partitions.event(event(kind, object, position), &mut all).unwrap();
                plain.event(event(kind, object, position));
                prop_assert_eq!((partitions.asking, partitions.waiting.len()), (plain.asking, plain.waiting.len()));
            }
            partitions.flush(&mut all).unwrap();
            plain.flush();
            prop_assert_eq!(all.0, plain.out);
        }
    }
}
