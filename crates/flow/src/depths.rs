//! How many flows are in a place at a time: the depth of a queue, as each that comes finds it.

use std::collections::HashMap;

use crate::{
    flow_place::FlowPlace,
    flows::Flows,
    legs::{Way, Ways},
};

/// When flows came to each place, and when they left it.
#[derive(Debug, Default)]
pub struct Depths {
    by_place: HashMap<FlowPlace, Stays>,
}

/// Sorted times, in nanoseconds.
#[derive(Debug, Default)]
struct Stays {
    came: Vec<i64>,
    left: Vec<i64>,
}

impl Depths {
    /// Of all flows that are kept.
    pub fn of(flows: &Flows, ways: &mut Ways<'_>) -> Self {
        let mut all = Self::default();
        flows.flows().iter().for_each(|flow| all.add(&ways.flow(flow)));
        for stays in all.by_place.values_mut() {
            stays.came.sort_unstable();
            stays.left.sort_unstable();
        }
        all
    }

    fn add(&mut self, way: &Way) {
        let mut came = way.start_ns;
        for (at, leg) in way.legs.iter().enumerate() {
            if way.legs.get(at + 1).is_some_and(|next| next.place == leg.place) {
                continue;
            }
            if let Some(place) = leg.place.flow_place() {
                let stays = match self.by_place.get_mut(place) {
                    Some(stays) => stays,
                    None => self.by_place.entry(place.clone()).or_default(),
                };
                stays.came.push(came);
                stays.left.push(leg.until_ns);
            }
            came = leg.until_ns;
        }
    }

    /// How many were in a place for who came then.
    pub fn before(&self, place: &FlowPlace, time: i64) -> usize {
        self.by_place.get(place).map_or(0, |stays| {
            let came = stays.came.partition_point(|came| *came < time);
            came.saturating_sub(stays.left.partition_point(|left| *left <= time))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        flow_place::{KnownStation, Station},
        legs::{Leg, WayPlace, WayPoint},
    };

    #[test]
    fn those_that_came_before_and_have_not_left_are_there() {
        let [stack, queue, nowhere] =
            [Station::Stack, Station::Known(KnownStation::RunQueue), Station::StackAndDriver]
                .map(|station| FlowPlace::In { domain: "vm1".into(), station });
        let leg = |place: &FlowPlace, until_ns| {
            let place = WayPlace { made: None, point: WayPoint::Flow { side: None, place: place.clone() } };
            Leg { place: place.into(), until_ns, domain: 1, cpu: 0, tid: 1 }
        };
        let way = |start_ns, legs: &[(&FlowPlace, i64)]| Way {
            start_ns,
            legs: legs.iter().map(|(place, until)| leg(place, *until)).collect(),
        };
        let mut depths = Depths::default();
        // The queue is left and entered again; the stack is one stay of two legs.
        depths.add(&way(0, &[(&stack, 5), (&stack, 10), (&queue, 40), (&stack, 50), (&queue, 60)]));
        depths.add(&way(10, &[(&stack, 20), (&queue, 30)]));
        depths.by_place.values_mut().for_each(|stays| {
            stays.came.sort_unstable();
            stays.left.sort_unstable();
        });
        let of =
            |place, times: &[i64]| times.iter().map(|time| depths.before(place, *time)).collect::<Vec<_>>();
        assert_eq!(of(&queue, &[10, 11, 20, 25, 30, 40, 55, 60]), [0, 1, 1, 2, 1, 0, 1, 0]);
        assert_eq!(of(&stack, &[0, 7, 10, 15]), [0, 1, 0, 1]);
        assert_eq!(of(&nowhere, &[5]), [0]);
    }
}
