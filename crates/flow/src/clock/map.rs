//! A piecewise linear map between a domain's `CLOCK_MONOTONIC` and a tick counter.

use xweave_wire::message::ClockSample;

/// The most that a kernel lets a clock's rate be changed (`MAXFREQ`), in parts of one: how fast
/// the error grows where nothing was sampled.
const MAX_RATE_CHANGE: f64 = 500e-6;

/// How inexact a counter's announced rate may be, in parts of one.
const NOMINAL_ERROR: f64 = 2000e-6;

/// How many brackets back the usual width is looked for.
const RECENT: usize = 16;

/// Knots that are kept: seven hours of samples. A domain chooses how many it sends; what is older has long been
/// converted.
const MOST_KNOTS: usize = 1 << 18;

/// One reading of the clock between two of the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The counter before.
    pub before: u64,
    /// The clock, in nanoseconds.
    pub mono_ns: u64,
    /// The counter after.
    pub after: u64,
}

impl Bracket {
    /// A domain's clock by its own TSC.
    pub fn of(sample: &ClockSample) -> Self {
        Self { before: sample.tsc_before, mono_ns: sample.mono_ns, after: sample.tsc_after }
    }
}

/// How knots are chosen among brackets.
#[derive(Clone, Copy, Debug)]
pub struct Spacing {
    /// Nearer than this, in nanoseconds, a bracket is not used: over a short gap even a tight
    /// bracket says little of the rate.
    pub least_ns: i64,
    /// Later than this after the last knot the best bracket there is becomes one, tight or not.
    pub most_ns: i64,
}

/// A point that the map goes through.
#[derive(Clone, Copy, Debug)]
struct Knot {
    mono: i64,
    /// Ticks since the map's anchor: counters are 64 bits wide and may wrap.
    tick: i64,
    /// The true tick is at most this far from `tick`.
    half: i64,
}

impl Knot {
    /// Whether it says more than what the last knot lets one expect.
    fn helps_after(&self, last: &Self) -> bool {
        self.half < grown(self.tick - last.tick, MAX_RATE_CHANGE)
    }
}

/// What the map is between two neighbouring knots, and around.
struct Piece {
    /// A point on the line, and its direction: `ticks` in `ns`.
    mono: i64,
    tick: i64,
    ns: i64,
    ticks: i64,
    /// Error of the line itself, in nanoseconds.
    error: f64,
    /// Growth of the error outside of the knots, in parts of one.
    growth: f64,
}

/// The map. Strictly monotone in both directions, but for rounding to whole units.
#[derive(Clone, Debug)]
pub struct Map {
    spacing: Spacing,
    anchor: u64,
    knots: Vec<Knot>,
    /// The tightest bracket since the last knot that was not good enough to be one at once.
    deferred: Option<Knot>,
    /// Half widths of the last brackets.
    recent: Vec<i64>,
    /// Ticks a second, for as long as there is one knot only.
    nominal_hz: u64,
    used: u64,
    proven: bool,
    hurried: bool,
    finished: bool,
}

impl Map {
    /// An empty map.
    pub fn new(spacing: Spacing) -> Self {
        Self {
            spacing,
            anchor: 0,
            knots: Vec::new(),
            deferred: None,
            recent: Vec::new(),
            nominal_hz: 0,
            used: 0,
            proven: false,
            hurried: false,
            finished: false,
        }
    }

    /// Tells the counter's rate (0 if unknown): a help while there is one bracket only.
    pub fn set_nominal_hz(&mut self, hz: u64) {
        self.nominal_hz = hz;
    }

    /// Whether the next brackets become knots however wide they are: what waits for the map to be final takes more room
    /// than exactness is worth. Errors stay true, and become larger.
    pub fn hurry(&mut self, on: bool) {
        self.hurried = on;
    }

    /// Brackets that were considered.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Takes one more bracket, later than all before. One that cannot be (a counter that does not
    /// work, a time that goes back) is ignored.
    pub fn add(&mut self, bracket: Bracket) {
        if self.finished {
            return;
        }
        if self.knots.is_empty() {
            self.anchor = bracket.before;
        }
        let Some(knot) = self.knot(&bracket) else { return };
        let mono = knot.mono;
        self.used += 1;
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(knot.half);

        let Some(last) = self.knots.last().copied() else {
            self.knots.push(knot);
            return;
        };
        if mono <= last.mono || knot.tick <= last.tick {
            return;
        }
        self.proven |= self.knots.len() >= 2;
        let usual = self.recent.iter().copied().min().unwrap_or(knot.half);
        let good = |knot: &Knot| knot.half <= usual.saturating_mul(2).saturating_add(32);
        // Nothing is final yet (see [`Map::horizon`]): better knots may take the place of the first ones.
        if self.knots.len() == 1 {
            let drift = grown(knot.tick - last.tick, MAX_RATE_CHANGE);
            if knot.half.saturating_add(drift) < last.half {
                self.knots[0] = knot;
                return;
            }
        }
        if self.knots.len() == 2 && !good(&last) && knot.half < last.half {
            self.knots[1] = knot;
            // It lies before that.
            self.deferred = None;
            return;
        }
        if mono - last.mono < self.spacing.least_ns {
            return;
        }
        if good(&knot) || self.knots.len() == 1 {
            self.push(knot);
            return;
        }
        let best = self.deferred.filter(|other| other.half <= knot.half).unwrap_or(knot);
        self.deferred = Some(best);
        if self.hurried || mono - last.mono >= self.spacing.most_ns && best.helps_after(&last) {
            self.push(best);
        }
    }

    /// What a bracket says, if it can be.
    fn knot(&self, bracket: &Bracket) -> Option<Knot> {
        let width = bracket.after.wrapping_sub(bracket.before).cast_signed();
        let mono = i64::try_from(bracket.mono_ns).ok()?;
        if width < 0 || (bracket.before == 0 && bracket.after == 0) {
            return None;
        }
        let before = bracket.before.wrapping_sub(self.anchor).cast_signed();
        // One tick more for the halving, one for a reading that is a tick late.
        Some(Knot { mono, tick: before.saturating_add(width / 2), half: width / 2 + 2 })
    }

    /// By how much the clock is ahead of what the map says, in nanoseconds, where a bracket contradicts it: where that is
    /// more than the map's own error, the bracket's width and `slack` ticks allow. The clock or the counter has then been
    /// set, or one of them stood still. None, too, while the map knows no rate.
    pub fn contradiction(&self, bracket: &Bracket, slack: u64) -> Option<i64> {
        if self.knots.len() < 2 {
            return None;
        }
        let knot = self.knot(bracket)?;
        let piece = self.piece(|other| other.mono <= knot.mono)?;
        let expected = along(knot.mono, piece.mono, piece.tick, piece.ns, piece.ticks);
        let error = piece.error + piece.growth * self.outside(knot.mono);
        let ns_per_tick = piece.ns as f64 / piece.ticks as f64;
        let behind = (i128::from(expected) - i128::from(knot.tick)) as f64 * ns_per_tick;
        let allowed = error + (knot.half as f64 + slack as f64) * ns_per_tick;
        (behind.abs() > allowed).then(|| signed(behind))
    }

    /// Whether a later bracket has agreed with the rate between two: [`Map::contradiction`] would have told otherwise.
    pub fn is_proven(&self) -> bool {
        self.proven
    }

    /// No more brackets will come: all that the map says is final now.
    pub fn finish(&mut self) {
        if let (Some(knot), Some(last)) = (self.deferred.take(), self.knots.last())
            && knot.helps_after(last)
        {
            self.push(knot);
        }
        self.finished = true;
    }

    fn push(&mut self, knot: Knot) {
        if self.knots.len() >= MOST_KNOTS {
            self.knots.drain(..MOST_KNOTS / 2);
        }
        self.knots.push(knot);
        self.deferred = None;
    }

    /// Up to which time, in nanoseconds, more brackets will not change what the map says.
    pub fn horizon(&self) -> Option<i64> {
        if self.finished {
            return (!self.knots.is_empty()).then_some(i64::MAX);
        }
        // A piece's bound depends on its neighbours' slopes.
        let at = self.knots.len().checked_sub(2).filter(|&at| at > 0)?;
        Some(self.knots[at].mono)
    }

    /// Up to which time, in nanoseconds, it goes through readings: what a step makes there is within the error. Beyond,
    /// the error is that of a rate, and a step may hide in it.
    pub fn last(&self) -> Option<i64> {
        self.knots.last().map(|knot| knot.mono)
    }

    /// The counter when the clock showed `mono`, and how far it may be off, in nanoseconds.
    pub fn tick(&self, mono: i64) -> Option<(u64, u64)> {
        let piece = self.piece(|knot| knot.mono <= mono)?;
        let tick = along(mono, piece.mono, piece.tick, piece.ns, piece.ticks);
        let error = piece.error + piece.growth * self.outside(mono);
        Some((self.anchor.wrapping_add_signed(tick), whole(error)))
    }

    /// What the clock showed when the counter was at `tick`, and how far it may be off, in nanoseconds.
    pub fn mono(&self, tick: u64) -> Option<(i64, u64)> {
        let tick = tick.wrapping_sub(self.anchor).cast_signed();
        let piece = self.piece(|knot| knot.tick <= tick)?;
        let mono = along(tick, piece.tick, piece.mono, piece.ticks, piece.ns);
        let error = piece.error + piece.growth * self.outside(mono);
        Some((mono, whole(error)))
    }

    /// The largest error between the first and the last knot, in nanoseconds.
    pub fn bound(&self) -> Option<u64> {
        let pieces = 0..self.knots.len().saturating_sub(1).max(1);
        pieces.map(|at| self.piece_at(at).map(|piece| whole(piece.error))).max().flatten()
    }

    /// The map in as many points at most: ticks and nanoseconds; and how far off what lies on the lines between them may be, in
    /// nanoseconds. None if there are not two.
    pub fn points(&self, most: usize) -> Option<(Vec<(u64, i64)>, u64)> {
        let last = self.knots.len().checked_sub(1)?;
        let stride = last.div_ceil(most.saturating_sub(1).max(1)).max(1);
        let kept: Vec<&Knot> = self.knots[..last].iter().step_by(stride).chain([&self.knots[last]]).collect();
        let left_out = |pair: &[&Knot]| {
            let (from, to) = (pair[0], pair[1]);
            let within = self.knots.partition_point(|knot| knot.mono <= from.mono);
            let within = self.knots[within..].iter().take_while(|knot| knot.mono < to.mono);
            let on_line = |knot: &Knot| {
                along(knot.tick, from.tick, from.mono, to.tick - from.tick, to.mono - from.mono)
            };
            within.map(|knot| on_line(knot).abs_diff(knot.mono)).max().unwrap_or(0)
        };
        let bent = kept.windows(2).map(left_out).max()?;
        let points =
            kept.iter().map(|knot| (self.anchor.wrapping_add_signed(knot.tick), knot.mono)).collect();
        Some((points, self.bound()?.saturating_add(bent)))
    }

    /// How far a time is outside of the knots, in nanoseconds.
    fn outside(&self, mono: i64) -> f64 {
        match (self.knots.first(), self.knots.last()) {
            (Some(first), Some(last)) => mono.abs_diff(mono.clamp(first.mono, last.mono)) as f64,
            _ => 0.0,
        }
    }

    fn piece(&self, before: impl Fn(&Knot) -> bool) -> Option<Piece> {
        let after = self.knots.partition_point(before);
        self.piece_at(after.saturating_sub(1).min(self.knots.len().saturating_sub(2)))
    }

    /// The piece that begins at the knot with that number.
    fn piece_at(&self, at: usize) -> Option<Piece> {
        let from = self.knots.get(at)?;
        let Some(to) = self.knots.get(at + 1) else {
            // One knot, and what the counter is said to do.
            let ticks = i64::try_from(self.nominal_hz).ok().filter(|&hz| hz > 0)?;
            let error = from.half as f64 * 1e9 / ticks as f64 + 2.0;
            return Some(Piece {
                mono: from.mono,
                tick: from.tick,
                ns: 1_000_000_000,
                ticks,
                error,
                growth: NOMINAL_ERROR,
            });
        };
        let (ns, ticks) = (to.mono - from.mono, to.tick - from.tick);
        let here = self.slope(at)?;
        let around = [at.checked_sub(1).and_then(|at| self.slope(at)), Some(here), self.slope(at + 1)];
        let known = around.iter().flatten();
        let least = known.clone().map(|slope| slope.ns_per_tick).fold(f64::INFINITY, f64::min);
        let most = known.clone().map(|slope| slope.ns_per_tick).fold(0.0, f64::max);
        let unsure = known.map(|slope| slope.unsure).fold(0.0, f64::max);
        // How much the rate may have changed within this piece, in parts of one. Steps look so too: what it makes over the
        // whole piece may be one, at either end. (A slew in the middle would bend the clock by a quarter of that.)
        let change = (most - least) / least + 2.0 * unsure;
        // What the readings leave unsure is in that already; without a neighbour on each side it is not seen whole.
        let reading = match around {
            [Some(_), _, Some(_)] => 0.0,
            _ => from.half.max(to.half) as f64 * here.ns_per_tick,
        };
        Some(Piece {
            mono: from.mono,
            tick: from.tick,
            ns,
            ticks,
            error: reading + change * ns as f64 + 2.0,
            growth: MAX_RATE_CHANGE + change,
        })
    }

    fn slope(&self, at: usize) -> Option<Slope> {
        let (from, to) = (self.knots.get(at)?, self.knots.get(at + 1)?);
        let ticks = (to.tick - from.tick) as f64;
        Some(Slope {
            ns_per_tick: (to.mono - from.mono) as f64 / ticks,
            unsure: (from.half as f64 + to.half as f64) / ticks,
        })
    }
}

/// The rate between two knots.
#[derive(Clone, Copy)]
struct Slope {
    ns_per_tick: f64,
    /// How inexact it is because the knots are, in parts of one.
    unsure: f64,
}

/// The line through (`x0`, `y0`) with slope `dy`/`dx` at `x`, rounded down; exact, as the products
/// of 64-bit numbers fit in 128 bits.
pub(super) fn along(x: i64, x0: i64, y0: i64, dx: i64, dy: i64) -> i64 {
    let rise = (i128::from(x) - i128::from(x0)) * i128::from(dy);
    let y = i128::from(y0) + rise.div_euclid(i128::from(dx));
    i64::try_from(y).unwrap_or(if y < 0 { i64::MIN } else { i64::MAX })
}

#[expect(clippy::cast_possible_truncation, reason = "a bound: saturating is right")]
fn grown(ticks: i64, rate: f64) -> i64 {
    (ticks as f64 * rate).ceil() as i64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a bound: saturating is right")]
fn whole(error: f64) -> u64 {
    error.ceil() as u64
}

#[expect(clippy::cast_possible_truncation, reason = "for people: saturating is right")]
fn signed(ns: f64) -> i64 {
    ns as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACING: Spacing = Spacing { least_ns: 100_000_000, most_ns: 500_000_000 };

    /// A counter of 2 ticks a nanosecond that began at `origin`.
    fn bracket(origin: u64, mono_ns: u64, half: u64) -> Bracket {
        let tick = origin.wrapping_add(2 * mono_ns);
        Bracket { before: tick.wrapping_sub(half), mono_ns, after: tick.wrapping_add(half) }
    }

    #[test]
    fn a_steady_counter_is_mapped_exactly_even_where_it_wraps() {
        let mut map = Map::new(SPACING);
        let origin = u64::MAX - 3_000_000_000;
        (1..10).for_each(|i| map.add(bracket(origin, i * 250_000_000, 20)));
        let (tick, error) = map.tick(1_300_000_001).unwrap();
        assert_eq!(tick, origin.wrapping_add(2_600_000_002));
        assert!(error < 60, "{error}");
        assert_eq!(map.mono(tick).unwrap().0, 1_300_000_001);
    }

    #[test]
    fn few_points_say_how_far_they_are_from_all() {
        let mut map = Map::new(Spacing { least_ns: 1, most_ns: 1_000_000_000 });
        assert_eq!(map.points(9), None);
        // A clock whose rate changes by and by, 2 ticks a nanosecond at first, from a counter that wraps.
        let origin = u64::MAX - 40_000_000_000;
        let tick = |ns: u64| origin.wrapping_add(2 * ns + (ns / 1_000_000) * (ns / 1_000_000));
        for second in 0..=50 {
            let ns = second * 1_000_000_000;
            map.add(Bracket { before: tick(ns) - 20, mono_ns: ns, after: tick(ns) + 20 });
            assert_eq!(map.points(9).is_some(), second > 0);
        }
        let (all, exact) = map.points(100).unwrap();
        assert_eq!((all.len(), all[50]), (51, (tick(50_000_000_000), 50_000_000_000)));
        let (few, error) = map.points(9).unwrap();
        assert_eq!((few.len(), few[0], few[8]), (9, all[0], all[50]));
        // Seven seconds apart: in the middle of them the line is off by (3.5 s)² of that, in ticks of half a nanosecond;
        // of up to a twentieth less, as the rate grows to 2.1.
        let off = 3_500_000_000_u64.pow(2) / 1_000_000_000_000 / 2;
        assert!((off - off / 20..off + exact).contains(&(error - exact)), "{error}, {exact}, {off}");
    }

    #[test]
    fn outside_of_the_samples_the_error_grows() {
        let mut map = Map::new(SPACING);
        (10..20).for_each(|i| map.add(bracket(7, i * 250_000_000, 20)));
        let inside = map.tick(4_000_000_000).unwrap().1;
        let before = map.tick(1_500_000_000).unwrap().1;
        let long_before = map.tick(500_000_000).unwrap().1;
        assert!(inside < before && before + 400_000 < long_before, "{inside} {before} {long_before}");
    }

    #[test]
    fn a_wide_bracket_beside_tight_ones_is_left_out() {
        let mut map = Map::new(SPACING);
        for i in 1..20 {
            let half = if i % 3 == 0 { 2_000_000 } else { 20 };
            map.add(bracket(7, i * 250_000_000, half));
        }
        assert!(map.bound().unwrap() < 150, "{:?}", map.bound());
    }

    #[test]
    fn wide_brackets_are_better_than_none() {
        let mut map = Map::new(SPACING);
        map.add(bracket(7, 250_000_000, 20));
        (2..20).for_each(|i| map.add(bracket(7, i * 250_000_000, 5_000)));
        assert!(map.horizon().unwrap() > 3_000_000_000);
    }

    #[test]
    fn one_bracket_needs_the_rate() {
        let mut map = Map::new(SPACING);
        map.add(bracket(7, 250_000_000, 20));
        assert_eq!(map.tick(260_000_000), None);
        map.set_nominal_hz(2_000_000_000);
        assert_eq!(map.tick(260_000_000).unwrap().0, 520_000_007);
        assert_eq!(map.horizon(), None);
        map.finish();
        assert_eq!(map.horizon(), Some(i64::MAX));
    }

    #[test]
    fn a_reading_contradicts_the_map_where_the_clock_has_stepped() {
        let mut map = Map::new(SPACING);
        assert_eq!(map.contradiction(&bracket(7, 5, 20), 0), None, "nothing is known");
        (1..10).for_each(|i| map.add(bracket(7, i * 250_000_000, 20)));
        // Of the 250 µs that a rate may make of half a second, this is within.
        for within in [0, 200_000] {
            assert_eq!(map.contradiction(&bracket(7 + within, 2_750_000_000, 20), 0), None);
        }
        let behind = map.contradiction(&bracket(7 + 2_000_000, 2_750_000_000, 20), 0).unwrap();
        assert!((-1_000_100..-999_900).contains(&behind), "{behind}");
        assert!(map.contradiction(&bracket(0, 500_000_000, 20), 0).is_none(), "within the reading's width");
        let earlier = map.contradiction(&bracket(1_000_007, 600_000_000, 20), 0).unwrap();
        assert!((-500_100..-499_900).contains(&earlier), "{earlier}");
        assert_eq!(map.contradiction(&bracket(1_000_007, 600_000_000, 20), 1_000_000), None);
        // A wide reading says little.
        assert_eq!(map.contradiction(&bracket(7 + 2_000_000, 2_750_000_000, 3_000_000), 0), None);
    }

    #[test]
    fn a_small_step_is_within_the_bound() {
        let mut map = Map::new(SPACING);
        let stepped = |i: u64| if i < 10 { 7 } else { 7 + 20_000 };
        (1..20).for_each(|i| map.add(bracket(stepped(i), i * 250_000_000, 20)));
        // The 10 µs lie anywhere between the two readings.
        let (tick, error) = map.tick(2_499_999_999).unwrap();
        let off = tick.abs_diff(7 + 2 * 2_499_999_999) / 2;
        assert!(off > 9_000 && off <= error && error < 12_000, "{off} {error}");
    }

    #[test]
    fn small_steps_in_neighbouring_gaps_are_within_the_bound() {
        // Both gaps have one rate, as if it had changed between two others: what was between them stepped all the same.
        let mut map = Map::new(SPACING);
        let stepped = |i: u64| 7 + 20_000 * i.clamp(9, 11);
        (1..20).for_each(|i| map.add(bracket(stepped(i), i * 250_000_000, 20)));
        for (mono, origin) in
            [(2_499_999_999, stepped(9)), (2_500_000_001, stepped(10)), (2_749_999_999, stepped(10))]
        {
            let (tick, error) = map.tick(mono).unwrap();
            let off = tick.abs_diff(origin + 2 * mono.cast_unsigned()) / 2;
            assert!(off <= error && error < 25_000, "{mono}: {off} {error}");
        }
    }

    #[test]
    fn a_better_second_knot_does_not_keep_later_ones_away() {
        let mut map = Map::new(SPACING);
        // The second is too wide to stay, the third is deferred, the fourth takes the second's place: what comes then is
        // wider than the third, which is no longer of use.
        let halves = [1000, 5000, 6000, 3000].into_iter().chain([7000; 10]);
        (1..).zip(halves).for_each(|(i, half)| map.add(bracket(7, i * 250_000_000, half)));
        assert!(map.last() > Some(11 * 250_000_000), "{:?}", map.last());
    }

    #[test]
    fn no_more_knots_are_kept_than_are_needed() {
        let mut map = Map::new(SPACING);
        let most = 3 * u64::try_from(MOST_KNOTS).unwrap();
        (1..most).for_each(|i| map.add(bracket(7, i * 100_000_000, 20)));
        assert!(map.knots.len() <= MOST_KNOTS, "{}", map.knots.len());
        assert_eq!(
            map.tick((most.cast_signed() - 5) * 100_000_000).unwrap().0,
            7 + 2 * (most - 5) * 100_000_000
        );
    }

    #[test]
    fn what_cannot_be_is_ignored() {
        let mut map = Map::new(SPACING);
        map.add(Bracket { before: 0, mono_ns: 5, after: 0 });
        map.add(Bracket { before: 9, mono_ns: 5, after: 3 });
        assert_eq!((map.used(), map.tick(5), map.bound()), (0, None, None));
    }
}
