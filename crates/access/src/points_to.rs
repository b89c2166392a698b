//! What values point to.
//!
//! A value can point into several things at once: a `list_head`, and the structure around it. Each is a
//! view. Views come from declarations, go forward with the values (through loads, calls, joins) and
//! backward from their uses: what is passed to a parameter has the parameter's type. That is done until
//! nothing new is found.

mod summarize;

use xweave_code::types::{Type, TypeId, Types};

use crate::cfg::to_usize;
use crate::function_summaries::{FunctionSummaries, Place, Subject};
use crate::program_facts::{CFA, Function, LiveSlot, ProgramFacts};
use crate::registers::ARGUMENTS;
use crate::value::{Call, Callee, Kind, Ref, Values};
use crate::view::{Rank, View};

/// An object on the stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StackObject {
    /// From [`Ref::FRAME`].
    pub(crate) offset: i32,
    pub(crate) type_: TypeId,
    pub(crate) rank: Rank,
}

/// Views of one value, at most: more only come from disagreement.
const MANY: usize = 6;
/// Rounds until it is given up that nothing new is found. Chains of loads are followed in one round.
const ROUNDS: usize = 8;

/// What all values of a function point to.
pub(crate) struct PointsTo<'a> {
    facts: &'a ProgramFacts<'a>,
    values: &'a Values,
    number: u32,
    summaries: Option<&'a FunctionSummaries>,
    of: Vec<Vec<View>>,
    pub(crate) stack: Vec<StackObject>,
    changed: bool,
}

impl<'a> PointsTo<'a> {
    pub(crate) fn new(
        facts: &'a ProgramFacts<'a>,
        function: &Function,
        values: &'a Values,
        slots: &[LiveSlot],
        summaries: Option<&'a FunctionSummaries>,
        number: u32,
    ) -> Self {
        let of = vec![Vec::new(); values.kinds.len()];
        let mut points_to = Self { facts, values, number, summaries, of, stack: Vec::new(), changed: false };
        for slot in slots {
            points_to.lies_on_stack(slot.offset, slot.type_, Rank::Told);
        }
        points_to.parameters(function);
        for told in &values.told {
            points_to.points_to(told.value, told.points_to, Rank::Told);
        }
        for _ in 0..ROUNDS {
            points_to.changed = false;
            points_to.forward(function);
            points_to.backward(function);
            if !points_to.changed {
                break;
            }
        }
        points_to
    }

    fn types(&self) -> &'a Types {
        self.facts.types
    }

    /// Of a value, without its constant.
    pub(crate) fn of(&self, value: u32) -> &[View] {
        &self.of[to_usize(value)]
    }

    fn add(&mut self, value: u32, view: View) {
        if value <= Ref::PER_CPU.value {
            return;
        }
        let types = self.types();
        let known = &mut self.of[to_usize(value)];
        if let Some(same) = known.iter_mut().find(|known| known.of == view.of && known.at == view.at) {
            if same.rank < view.rank {
                same.rank = view.rank;
                self.changed = true;
            }
        } else if known.len() < MANY {
            known.push(view);
            self.changed = true;
        } else if is_compound(types, view.of)
            && let Some(least) =
                known.iter_mut().find(|known| known.rank == Rank::Told && !is_compound(types, known.of))
        {
            // Debug information tells of many variables that are copies of members.
            *least = view;
            self.changed = true;
        }
    }

    /// The value points to the beginning of something of this type.
    fn points_to(&mut self, value: Ref, of: TypeId, rank: Rank) {
        if matches!(self.types().get(of), Type::Void) {
            return;
        }
        if value.value == Ref::FRAME.value {
            return self.lies_on_stack(value.add, of, rank);
        }
        if let Some(at) = value.add.checked_neg() {
            self.add(value.value, View { of, at, rank });
        }
    }

    fn lies_on_stack(&mut self, offset: i32, type_: TypeId, rank: Rank) {
        if self.types().size(type_) == 0 {
            return;
        }
        let same = self.stack.iter_mut().find(|known| known.offset == offset && known.type_ == type_);
        match same {
            Some(known) if known.rank >= rank => {}
            Some(known) => known.rank = rank,
            None => {
                self.stack.push(StackObject { offset, type_, rank });
                self.changed = true;
            }
        }
    }

    fn parameters(&mut self, function: &Function) {
        for (nth, kind) in self.values.kinds.iter().enumerate() {
            let Kind::Entry(register) = kind else { continue };
            let Some(argument) = ARGUMENTS.iter().position(|of| of == register) else { continue };
            let value = crate::cfg::to_u32(nth);
            let declared = function.proto.and_then(|proto| self.facts.points_to(proto, argument));
            if let Some(to) = declared {
                self.points_to(Ref { value, add: 0 }, to, Rank::Declared);
            }
            let argument = u8::try_from(argument).unwrap_or(u8::MAX);
            self.learn(value, Subject::Argument(function.pieces[0].start, argument));
        }
    }

    /// Adds what others say of a subject, which is what the value points to.
    fn learn(&mut self, value: u32, subject: Subject) {
        if let Some(summaries) = self.summaries {
            for view in summaries.common(self.number, subject) {
                self.add(value, view);
            }
        }
    }

    /// What lies at an address: a type, the offset in it, and how sure that is.
    pub(crate) fn at(&self, address: Ref, found: &mut Vec<View>) {
        found.clear();
        match self.values.kinds[to_usize(address.value)] {
            Kind::Frame => {
                for object in &self.stack {
                    let at = address.add.saturating_sub(object.offset);
                    if at >= 0 && at < self.facts.size(object.type_) {
                        found.push(View { of: object.type_, at, rank: object.rank });
                    }
                }
            }
            Kind::PerCpu => found.extend(self.facts.per_cpu_object(address.add).and_then(declared)),
            Kind::Constant(base) => {
                let address = base.wrapping_add_signed(address.add.into());
                match self.facts.object(address) {
                    Some(object) => found.extend(declared(object)),
                    None => found.extend(self.global(address)),
                }
            }
            _ => {}
        }
        for view in self.of(address.value) {
            let at = view.at.saturating_add(address.add);
            if u32::try_from(at).is_ok_and(|at| self.types().contains(view.of, at)) {
                found.push(View { at, ..*view });
            }
        }
        found.sort_by_key(|view| std::cmp::Reverse(view.rank));
        // What is not known to be part of anything may be: a variable of debug information, mostly.
        let known = found.iter().find(|view| is_compound(self.types(), view.of)).copied();
        if let Some(around) = self.around_all(address, known) {
            let first = if known.is_some() { 0 } else { found.len() };
            found.insert(first, around);
        }
    }

    /// What others say lies at an address, or where the variable begins that it is in.
    fn global(&self, address: u64) -> Option<View> {
        let summaries = self.summaries?;
        let (start, size) = self.facts.symbol(address)?;
        let at = i32::try_from(address - start).ok()?;
        let whole = summaries.ask(self.number, Subject::Global(start));
        let fits =
            |view: &View| at < self.facts.size(view.of) && u64::from(self.types().size(view.of)) <= size;
        let whole = whole.into_iter().map(|(view, _)| view).find(fits);
        whole
            .map(|view| View { at, ..view })
            .or_else(|| summaries.common(self.number, Subject::Global(address)).next())
    }

    /// Whether it is made of nothing but pointers to its own kind, as what links others together is.
    fn is_link(&self, of: TypeId) -> bool {
        let Type::Record(record) = self.types().get(of) else { return false };
        let record = self.types().record(record);
        record.size <= 24
            && record.members.iter().all(|member| match self.types().pointee(member.type_) {
                Some(to) => to == of || matches!(self.types().get(to), Type::Pointer(_) | Type::Function(_)),
                None => member.type_ != of && self.types().size(member.type_) == 8,
            })
    }

    /// It lies outside of what the value is known to point to, by better than `known` or to something that is
    /// no part of that: then that must be a part of something else.
    fn around_all(&self, address: Ref, known: Option<View>) -> Option<View> {
        let summaries = self.summaries?;
        let better = |view: &&View| {
            let here = View { at: view.at.saturating_add(address.add), ..**view };
            known.is_none_or(|known| {
                let start = View { at: known.at.saturating_sub(here.at), ..known };
                view.rank > known.rank && !self.around(start, View { at: 0, ..**view }, 1)
            })
        };
        let mut points_to: Vec<View> = self.of(address.value).iter().filter(better).copied().collect();
        // What is around the largest of them is around all of them.
        points_to.sort_by_key(|view| std::cmp::Reverse(self.types().size(view.of)));
        points_to.iter().find_map(|view| {
            let answers = summaries.ask(self.number, Subject::Around(view.of));
            // What is in every structure tells nothing.
            if self.is_link(view.of) && answers.len() > 1 {
                return None;
            }
            let fitting = answers.iter().filter_map(|(outer, _)| {
                let at = outer.at.saturating_add(view.at).saturating_add(address.add);
                let inside = u32::try_from(at).is_ok_and(|at| at < self.types().size(outer.of));
                let declared = self.around(*outer, View { at: 0, ..*view }, 1);
                inside.then_some((declared, View { at, ..*outer }))
            });
            // What only is cast to another is that less often than what is declared to be in it.
            let mut fitting = fitting.peekable();
            let first = fitting.peek().copied();
            let declared = fitting.find(|(declared, _)| *declared).map(|(_, view)| view);
            let only = || {
                let (of, at) = self.facts.only_holder(view.of, view.at.saturating_add(address.add))?;
                Some(View { of, at, rank: Rank::Learned })
            };
            declared.or_else(only).or(first.map(|(_, view)| view))
        })
    }

    fn forward(&mut self, function: &Function) {
        let mut found = Vec::new();
        for (value, kind) in (0u32..).zip(&self.values.kinds) {
            match *kind {
                Kind::Load(address) => {
                    self.at(address, &mut found);
                    for from in &found {
                        self.loaded(function, value, *from);
                    }
                    if let Some(best) = self.best(&found, 8) {
                        self.learn(value, Subject::Member(best.of, best.at));
                    }
                }
                Kind::Result(call) => {
                    let call = self.values.calls[to_usize(call)];
                    if let Callee::At(address) = call.callee {
                        self.learn(value, Subject::Result(address));
                    }
                    if let Some(proto) = self.callee(&call)
                        && let Some(to) = self.types().pointee(self.types().proto(proto).returns)
                    {
                        self.points_to(Ref { value, add: 0 }, to, Rank::Declared);
                        // A buffer that the tracing macros' functions get.
                        if let Some(of) = function.buffer.filter(|_| to == Types::VOID) {
                            self.add(value, View { of, at: 0, rank: Rank::Learned });
                        }
                    }
                }
                Kind::Join { first, count } => self.join(value, first, count),
                Kind::Sum(a, b, _) => {
                    if let Some(subject) = self.of_sum(a, b) {
                        self.learn(value, subject);
                    }
                    self.sum(value, a, &mut found);
                    if self.of(value).is_empty() {
                        self.sum(value, b, &mut found);
                    }
                }
                _ => {}
            }
        }
    }

    /// A value that was loaded from there is a pointer if a pointer lies there.
    fn loaded(&mut self, function: &Function, value: u32, from: View) {
        let Ok(at) = u32::try_from(from.at) else { return };
        let leaves = self.types().leaves(from.of, at, 8);
        let pointers = leaves.iter().filter_map(|leaf| self.types().pointee(*leaf)).count();
        for leaf in leaves {
            if let Some(to) = self.types().pointee(leaf) {
                if let Some(of) = function.buffer.filter(|of| self.first_in(*of) == Some(to)) {
                    self.add(value, View { of, at: 0, rank: Rank::Learned });
                }
                let rank = if pointers > 1 { Rank::Doubtful } else { from.rank.min(Rank::Declared) };
                self.points_to(Ref { value, add: 0 }, to, rank);
            }
        }
    }

    /// A sum of what lies at two places, as an offset is kept beside what it counts from.
    fn of_sum(&self, a: Ref, b: Ref) -> Option<Subject> {
        let place = |value: Ref| {
            let (Kind::Load(at) | Kind::Number(at)) = self.values.kinds[to_usize(value.value)] else {
                return None;
            };
            if let Kind::Constant(base) = self.values.kinds[to_usize(at.value)] {
                return Some(Place::Global(base.wrapping_add_signed(at.add.into())));
            }
            let mut found = Vec::new();
            self.at(at, &mut found);
            self.best(&found, 4).map(|view| Place::Member(view.of, view.at))
        };
        let (a, b) = (place(a)?, place(b)?);
        Some(Subject::Sum(a.min(b), a.max(b)))
    }

    /// Anything in an array looks like its first element.
    fn sum(&mut self, value: u32, base: Ref, found: &mut Vec<View>) {
        self.at(base, found);
        for from in found.iter() {
            // What is behind a pointer to bytes is anything.
            if self.types().size(from.of) > 1 {
                self.add(value, View { rank: from.rank.min(Rank::Declared), ..*from });
            }
        }
    }

    fn join(&mut self, value: u32, first: u32, count: u32) {
        let values = self.values;
        let inputs = &values.inputs[to_usize(first)..to_usize(first + count)];
        let typed = inputs.iter().filter(|input| !self.input_views(**input).is_empty()).count();
        let mut new: Vec<View> = Vec::new();
        for input in inputs {
            for view in self.input_views(*input) {
                if new.iter().any(|known| known.of == view.of && known.at == view.at) {
                    continue;
                }
                let agreeing = inputs.iter().filter(|other| {
                    let others = self.input_views(**other);
                    let inside = |o: &View| o.rank == Rank::Doubtful || self.around(view, *o, 1);
                    others.iter().any(|o| o.of == view.of && o.at == view.at)
                        || !others.is_empty() && others.iter().all(inside)
                });
                let rank =
                    if agreeing.count() == typed { view.rank.min(Rank::Declared) } else { Rank::Doubtful };
                new.push(View { rank, ..view });
            }
        }
        for view in new {
            self.add(value, view);
        }
    }

    fn input_views(&self, input: Ref) -> Vec<View> {
        match self.values.kinds[to_usize(input.value)] {
            Kind::Constant(_) | Kind::PerCpu | Kind::Frame => {
                let mut found = Vec::new();
                self.at(input, &mut found);
                found
            }
            _ => {
                let points_to = self.of(input.value).iter();
                points_to.map(|view| View { at: view.at.saturating_add(input.add), ..*view }).collect()
            }
        }
    }

    pub(crate) fn callee(&self, call: &Call) -> Option<xweave_code::types::ProtoId> {
        match call.callee {
            Callee::Pointer(pointer) => {
                self.of(pointer.value).iter().find_map(|view| match self.types().get(view.of) {
                    Type::Function(proto) if view.at == 0 => Some(proto),
                    _ => None,
                })
            }
            callee => self.facts.proto_of(callee),
        }
    }

    fn backward(&mut self, function: &Function) {
        for call in &self.values.calls {
            let Some(proto) = self.callee(call) else { continue };
            for (nth, argument) in call.arguments.iter().enumerate() {
                if let Some(to) = self.facts.points_to(proto, nth) {
                    self.points_to(*argument, to, Rank::Used);
                }
            }
        }
        let mut found = Vec::new();
        for store in &self.values.stores {
            self.at(store.at, &mut found);
            let Some(view) = found.first() else { continue };
            let Ok(at) = u32::try_from(view.at) else { continue };
            if let [only] = self.types().leaves(view.of, at, 8)[..]
                && let Some(to) = self.types().pointee(only)
            {
                self.points_to(store.value, to, Rank::Used.min(view.rank));
            }
        }
        if let Some(proto) = function.proto
            && let Some(to) = self.types().pointee(self.types().proto(proto).returns)
        {
            for value in &self.values.returned {
                self.points_to(*value, to, Rank::Used);
            }
        }
        // What a join turns out to be, each of its inputs is.
        for (value, kind) in self.values.kinds.iter().enumerate().rev() {
            let value = crate::cfg::to_u32(value);
            let Kind::Join { first, count } = *kind else { continue };
            let points_to: Vec<View> =
                self.of(value).iter().copied().filter(|view| view.rank > Rank::Doubtful).collect();
            for input in &self.values.inputs[to_usize(first)..to_usize(first + count)] {
                for view in &points_to {
                    let at = view.at.saturating_sub(input.add);
                    let rank = view.rank.min(Rank::Used);
                    match self.values.kinds[to_usize(input.value)] {
                        Kind::Frame | Kind::Constant(_) => {}
                        _ => self.add(input.value, View { of: view.of, at, rank }),
                    }
                }
            }
        }
    }

    /// The type of a structure's first member.
    fn first_in(&self, of: TypeId) -> Option<TypeId> {
        match self.types().get(of) {
            Type::Record(record) => self.types().record(record).members.first().map(|member| member.type_),
            _ => None,
        }
    }

    /// The best of the views of what lies at an address: of those of the highest rank one that others are
    /// inside of, since a structure around something is there too.
    pub(crate) fn best(&self, found: &[View], size: u32) -> Option<View> {
        let mut best = *found.first()?;
        for other in &found[1..] {
            let larger = self.types().size(other.of) > self.types().size(best.of);
            if larger && other.rank > Rank::Doubtful && self.around(*other, best, size) {
                best = *other;
            }
        }
        Some(best)
    }

    /// Whether what `inner` says lies there is part of what `outer` says does.
    fn around(&self, outer: View, inner: View, size: u32) -> bool {
        let Ok(at) = u32::try_from(outer.at) else { return false };
        let Type::Record(record) = self.types().get(inner.of) else {
            return inner.at == 0
                && !is_compound(self.types(), inner.of)
                && self.types().leaves(outer.of, at, self.types().size(inner.of)).contains(&inner.of);
        };
        let levels = self.types().levels(outer.of, at, size.max(1));
        levels.iter().any(|level| level.record == record && i64::from(level.start) == i64::from(inner.at))
    }
}

/// Whether there are members or elements in it.
fn is_compound(types: &Types, of: TypeId) -> bool {
    matches!(types.get(of), Type::Record(_) | Type::Array(..))
}

fn declared((of, at): (TypeId, u32)) -> Option<View> {
    Some(View { of, at: i32::try_from(at).ok()?, rank: Rank::Declared })
}

/// The stack slot of a variable that lies so far from the CFA.
pub(crate) fn from_cfa(add: i32) -> i32 {
    add.saturating_add(CFA)
}
