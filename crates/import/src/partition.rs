//! Partitions and their disks. An access is queued at a partition and issued at its disk; the sector is the disk's in
//! both. Which disk that is, the first access that is issued tells; until then events wait.

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
    /// How many of them ask for an unknown device.
    asking: usize,
}

impl Partitions {
    /// The device `part` lies on another.
    pub(crate) fn learn(&mut self, part: u64, disk: u64) {
        if part != disk {
            self.disks.insert(part, disk);
        }
    }

    /// The next event.
    #[inline]
    pub(crate) fn event(&mut self, mut event: Event, out: &mut impl Sink) -> Result<(), Error> {
        match event.kind {
            Kind::DiskQueue | Kind::DiskMerge => match self.disks.get(&event.object) {
                Some(&disk) => event.object = disk,
                None => self.asking += 1,
            },
            Kind::DiskIssue | Kind::DiskDone => self.issued(event),
            _ => {}
        }
        if self.asking == 0 && self.waiting.is_empty() {
            return out.event(event);
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
        self.asking = 0;
        Ok(())
    }

    /// A request was given to a disk: whoever waits at the same sector waits for that disk.
    fn issued(&mut self, request: Event) {
        if self.disks.insert(request.object, request.object).is_some() && self.asking == 0 {
            return;
        }
        let at = |event: &&Event| event.kind == Kind::DiskQueue && event.position == request.position;
        let asked = self.waiting.iter().rev().filter(at);
        let unknown = asked.map(|event| event.object).find(|part| !self.disks.contains_key(part));
        if let Some(part) = unknown {
            self.disks.insert(part, request.object);
        }
        if self.asking > 0 {
            let open = |event: &&Event| {
                matches!(event.kind, Kind::DiskQueue | Kind::DiskMerge)
                    && !self.disks.contains_key(&event.object)
            };
            self.asking = self.waiting.iter().filter(open).count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
