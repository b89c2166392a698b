//! How much is held when: only what was told, and no system call.

use std::{str::FromStr, time::Duration};

use xweave_wire::pages::PAGE;

/// Of so much, one part is no change: what guests do all the time neither takes from what is held nor adds to it.
const SLIGHT: u64 = 32;

/// For how long nothing is taken after guests have written, or memory was short: the seconds that a guest takes for an
/// update or a start are behind it then.
pub(super) const REST: Duration = Duration::from_secs(30);

/// And at most, where it was short again and again soon after it was taken.
const LONGEST: Duration = Duration::from_secs(32 * 60);

/// How much of what is given back is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowMuch {
    /// So many hundredths of it.
    Percent(u64),
    /// So many bytes: all of it at most, as no more can be needed again.
    Bytes(u64),
}

impl HowMuch {
    /// Of so many bytes, in whole pages.
    pub fn of(self, given_back: u64) -> u64 {
        let bytes = match self {
            Self::Percent(of) => given_back / 100 * of + given_back % 100 * of / 100,
            Self::Bytes(of) => of,
        };
        bytes.min(given_back) / PAGE * PAGE
    }
}

/// A text that is neither a percentage from 1 to 100 nor a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no part of what is given back, nor a size: write 25%, or 2G")]
pub struct HowMuchError(String);

impl FromStr for HowMuch {
    type Err = HowMuchError;

    /// Parses `25%`, or a size such as `2G`.
    fn from_str(text: &str) -> Result<Self, HowMuchError> {
        let parsed = match text.strip_suffix('%') {
            Some(percent) => {
                percent.parse().ok().filter(|percent| (1..=100).contains(percent)).map(Self::Percent)
            }
            None => xweave_text::parse_size(text).ok().map(Self::Bytes),
        };
        parsed.ok_or_else(|| HowMuchError(text.to_owned()))
    }
}

/// How the reserve stands, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// That are wanted of what is given back now.
    pub wanted: u64,
    /// That are held.
    pub held: u64,
    /// That were let go because memory was short, in all.
    pub let_go: u64,
    /// How many times that was.
    pub times: u64,
}

/// When to hold how much. Times are since any moment.
#[derive(Debug)]
pub(super) struct Policy {
    how_much: HowMuch,
    /// Bytes that stay available where some are taken.
    margin: u64,
    state: State,
    /// What was given back the last time, and the most since it was calm.
    before: u64,
    peak: u64,
    /// What may be held now.
    most: u64,
    /// Until when nothing is taken, and how long that is after the next time that memory is short.
    calm: Duration,
    rest: Duration,
    /// When some was taken, the last time.
    taken: Duration,
}

impl Policy {
    pub(super) fn new(how_much: HowMuch, margin: u64) -> Self {
        Self {
            how_much,
            margin,
            state: State::default(),
            before: 0,
            peak: 0,
            most: 0,
            calm: Duration::ZERO,
            rest: REST,
            taken: Duration::ZERO,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// So many bytes are given back now. What guests have written since is theirs again, and as much is let go for it: others
    /// have what they had. Only when they are through, what is wanted is that of what is left. Gives what stays held.
    pub(super) fn follow(&mut self, given_back: u64, now: Duration) -> u64 {
        if self.before.saturating_sub(given_back) > self.before / SLIGHT {
            self.calm = self.calm.max(now + REST);
        } else if now >= self.calm {
            self.peak = given_back;
        }
        self.before = given_back;
        self.peak = self.peak.max(given_back);
        self.state.wanted = self.how_much.of(given_back);
        let left = self.how_much.of(self.peak).saturating_sub(self.peak - given_back);
        self.most = left.min(self.state.wanted);
        self.state.held = self.state.held.min(self.most);
        self.state.held
    }

    /// What there is too little of, unless it is slight.
    pub(super) fn lacks(&self) -> u64 {
        let lacks = self.most - self.state.held;
        if self.state.held == 0 || lacks > self.most / SLIGHT { lacks } else { 0 }
    }

    /// Whether so many bytes more may be taken, with so many available.
    pub(super) fn may_take(&self, bytes: u64, available: u64, now: Duration) -> bool {
        self.is_room(bytes, now) && available >= bytes.saturating_add(self.margin)
    }

    /// They were taken; or else they are not to be kept, as memory has become short meanwhile.
    pub(super) fn took(&mut self, bytes: u64, now: Duration) -> bool {
        let is_room = self.is_room(bytes, now);
        if is_room {
            self.state.held += bytes;
            self.taken = now;
        }
        is_room
    }

    fn is_room(&self, bytes: u64, now: Duration) -> bool {
        now >= self.calm && self.state.held.saturating_add(bytes) <= self.most
    }

    /// Memory is short: nothing is held any more. Gives what is let go.
    pub(super) fn short(&mut self, now: Duration) -> u64 {
        let held = std::mem::take(&mut self.state.held);
        if held > 0 {
            self.state.let_go += held;
            self.state.times += 1;
            // What goes as soon as it is taken only makes memory short.
            let is_soon = now.saturating_sub(self.taken) < self.rest;
            self.rest = if is_soon { (self.rest * 2).min(LONGEST) } else { REST };
        }
        self.calm = self.calm.max(now + self.rest);
        held
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn reserve_is_a_percentage_or_a_size() {
        let parse = |text: &str| text.parse::<HowMuch>();
        assert_eq!(["25%", "100%"].map(parse), [Ok(HowMuch::Percent(25)), Ok(HowMuch::Percent(100))]);
        assert_eq!(parse("2G"), Ok(HowMuch::Bytes(2 << 30)));
        for wrong in ["", "%", "0%", "101%", "-1%", "2.5%", "G", "1T"] {
            assert!(parse(wrong).is_err_and(|error| error.to_string().contains(&format!("`{wrong}`"))));
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// As it goes on with so much given back, and plenty available: what is held.
    fn goes_on(policy: &mut Policy, mib: u64, seconds: u64) -> u64 {
        policy.follow(mib * MIB, at(seconds));
        let lacks = policy.lacks();
        if lacks > 0 && policy.may_take(lacks, u64::MAX, at(seconds)) {
            assert!(policy.took(lacks, at(seconds)));
        }
        policy.state.held / MIB
    }

    #[test]
    fn what_is_wanted_is_a_part_of_what_is_given_back_in_whole_pages() {
        assert_eq!(HowMuch::Percent(25).of(10 * PAGE), 2 * PAGE);
        assert_eq!(HowMuch::Percent(100).of(u64::MAX), u64::MAX / PAGE * PAGE);
        assert_eq!(
            [HowMuch::Bytes(2 * MIB).of(MIB), HowMuch::Bytes(2 * MIB + 1).of(9 * MIB)],
            [MIB, 2 * MIB]
        );
    }

    #[test]
    fn what_guests_write_is_let_go_and_taken_again_when_they_are_through() {
        let mut policy = Policy::new(HowMuch::Percent(25), MIB);
        assert_eq!([goes_on(&mut policy, 400, 0), goes_on(&mut policy, 800, 2)], [100, 200]);
        // 60 MiB are written, then 40; then there is nothing for 30 s.
        assert_eq!([goes_on(&mut policy, 740, 4), goes_on(&mut policy, 700, 6)], [140, 100]);
        assert_eq!([goes_on(&mut policy, 700, 8), goes_on(&mut policy, 700, 35)], [100, 100]);
        assert_eq!(goes_on(&mut policy, 700, 36), 175);
        // More than there is: all goes, and the rest takes what is available.
        assert_eq!([goes_on(&mut policy, 500, 38), goes_on(&mut policy, 500, 70)], [0, 125]);
        // All is released.
        assert_eq!([goes_on(&mut policy, 0, 72), goes_on(&mut policy, 0, 200)], [0, 0]);
    }

    #[test]
    fn what_is_slight_changes_nothing_and_what_comes_and_goes_does_not_each_time() {
        let mut policy = Policy::new(HowMuch::Percent(50), MIB);
        goes_on(&mut policy, 400, 0);
        let slight: Vec<u64> = (1..6).map(|round| goes_on(&mut policy, 400 - round % 2 * 4, round)).collect();
        assert_eq!(slight, [198; 5]);
        // A tenth is written and merged again, each time: it is let go once.
        let held: Vec<u64> = (6..20).map(|round| goes_on(&mut policy, 400 - round % 2 * 40, round)).collect();
        assert_eq!((held[0], &held[1..]), (198, &[160; 13][..]));
    }

    #[test]
    fn when_memory_is_short_all_is_let_go_and_taken_again_later_and_later() {
        let mut policy = Policy::new(HowMuch::Percent(50), MIB);
        goes_on(&mut policy, 400, 0);
        assert_eq!(policy.short(at(100)), 200 * MIB);
        assert_eq!([goes_on(&mut policy, 400, 101), goes_on(&mut policy, 400, 129)], [0, 0]);
        // It is short still, though nothing is held.
        assert_eq!(policy.short(at(129)), 0);
        assert_eq!([goes_on(&mut policy, 400, 158), goes_on(&mut policy, 400, 159)], [0, 200]);
        // As soon as it was taken.
        policy.short(at(160));
        assert_eq!([goes_on(&mut policy, 400, 219), goes_on(&mut policy, 400, 220)], [0, 200]);
        policy.short(at(279));
        assert_eq!([goes_on(&mut policy, 400, 398), goes_on(&mut policy, 400, 399)], [0, 200]);
        // After it had been held for long, no more.
        policy.short(at(1000));
        assert_eq!([goes_on(&mut policy, 400, 1029), goes_on(&mut policy, 400, 1030)], [0, 200]);
        let of = policy.state();
        assert_eq!((of.let_go, of.times, of.wanted), (800 * MIB, 4, 200 * MIB));
    }

    #[test]
    fn what_was_taken_while_memory_became_short_is_not_kept() {
        let mut policy = Policy::new(HowMuch::Bytes(8 * MIB), MIB);
        policy.follow(100 * MIB, at(0));
        assert!(!policy.may_take(8 * MIB, 9 * MIB - 1, at(0)) && policy.may_take(8 * MIB, 9 * MIB, at(0)));
        policy.short(at(0));
        assert!(!policy.took(8 * MIB, at(0)) && policy.state().held == 0);
    }

    /// What happens: time passes, and something is told.
    #[derive(Clone, Debug)]
    enum Event {
        GivenBack(u64),
        Short,
    }

    fn events() -> impl Strategy<Value = Vec<(u64, Event, u64)>> {
        let event = prop_oneof![
            4 => (0..1000_u64).prop_map(|mib| Event::GivenBack(mib * MIB)),
            1 => Just(Event::Short)
        ];
        // Seconds, what is told, and MiB available.
        prop::collection::vec((0..60_u64, event, 0..1000_u64), 1..60)
    }

    fn how_much() -> impl Strategy<Value = HowMuch> {
        prop_oneof![(1..=100_u64).prop_map(HowMuch::Percent), (0..600 * MIB).prop_map(HowMuch::Bytes)]
    }

    proptest! {
        #[test]
        fn no_more_is_held_than_is_wanted_and_none_is_taken_when_it_is_short_or_soon_after_some_was_let_go(
            how_much in how_much(), events in events()
        ) {
            let margin = 100 * MIB;
            let mut policy = Policy::new(how_much, margin);
            let (mut now, mut let_go): (_, Option<Duration>) = (Duration::ZERO, None);
            for (seconds, event, available) in events {
                now += at(seconds);
                let available = available * MIB;
                let before = policy.state();
                match event {
                    Event::Short => {
                        prop_assert_eq!(policy.short(now), before.held);
                        prop_assert_eq!(policy.state().held, 0);
                        prop_assert_eq!(policy.state().let_go, before.let_go + before.held);
                        let_go = Some(now);
                    }
                    Event::GivenBack(given_back) => {
                        let before_that = policy.before;
                        let held = policy.follow(given_back, now);
                        prop_assert!(held <= before.held && policy.most <= how_much.of(given_back));
                        if before_that.saturating_sub(given_back) > before_that / SLIGHT {
                            let_go = Some(now);
                        }
                    }
                }
                let lacks = policy.lacks();
                if lacks > 0 && policy.may_take(lacks, available, now) {
                    prop_assert!(available >= lacks + margin);
                    prop_assert!(let_go.is_none_or(|let_go| now - let_go >= REST));
                    prop_assert!(policy.took(lacks, now));
                }
                let State { wanted, held, .. } = policy.state();
                prop_assert!(held <= wanted && held % PAGE == 0);
            }
        }
    }
}
