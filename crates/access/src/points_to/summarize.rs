//! What a function tells others.

use xweave_code::types::{Type, TypeId};

use super::PointsTo;
use crate::cfg::to_usize;
use crate::function_summaries::Subject;
use crate::program_facts::Function;
use crate::value::{Callee, Kind};
use crate::view::{Rank, View};

impl PointsTo<'_> {
    /// What others can learn from this function.
    pub(crate) fn summarize(&self, function: &Function) -> Vec<(Subject, View)> {
        let mut summaries = Vec::new();
        let mut found = Vec::new();
        let sure = |view: &&View| view.rank >= Rank::Used;
        for (value, kind) in (0u32..).zip(&self.values.kinds) {
            let points_to = self.of(value);
            for inner in points_to.iter().filter(sure) {
                for outer in points_to.iter().filter(sure) {
                    let larger = self.types().size(outer.of) > self.types().size(inner.of);
                    if larger && self.types().is_record(outer.of) && self.types().is_record(inner.of) {
                        let at = outer.at.saturating_sub(inner.at);
                        summaries.push((Subject::Around(inner.of), View { at, ..*outer }));
                    }
                }
            }
            match *kind {
                Kind::Load(address) => {
                    self.at(address, &mut found);
                    if let Some(from) = self.best(&found, 8).filter(|best| best.rank >= Rank::Used) {
                        let declared = u32::try_from(from.at).map(|at| self.types().leaves(from.of, at, 8));
                        let declared = declared.unwrap_or_default();
                        // A pointer to bytes is one to a buffer, in which there is anything.
                        let bytes = |leaf: &TypeId| {
                            let to = self.types().pointee(*leaf).map(|to| self.types().get(to));
                            matches!(to, Some(Type::Scalar(_)))
                        };
                        if declared.iter().any(bytes) {
                            continue;
                        }
                        let new = |view: &&View| {
                            let told = |leaf: &TypeId| self.types().pointee(*leaf) == Some(view.of);
                            !(view.at == 0 && declared.iter().any(told))
                        };
                        let subject = Subject::Member(from.of, from.at);
                        summaries
                            .extend(points_to.iter().filter(sure).filter(new).map(|view| (subject, *view)));
                    }
                    if let Kind::Constant(base) = self.values.kinds[to_usize(address.value)] {
                        let at = base.wrapping_add_signed(address.add.into());
                        for view in points_to.iter().filter(sure).filter(|view| view.at == 0) {
                            if let Some(of) = self.types().interned(Type::Pointer(view.of)) {
                                summaries.push((Subject::Global(at), View { of, ..*view }));
                            }
                        }
                    }
                }
                Kind::Sum(a, b, _) => {
                    if let Some(subject) = self.of_sum(a, b) {
                        summaries.extend(points_to.iter().filter(sure).map(|view| (subject, *view)));
                    }
                }
                Kind::Constant(base) if self.facts.is_code_or_data(base) => {
                    for view in points_to.iter().filter(sure) {
                        let start = base.wrapping_add_signed(-i64::from(view.at));
                        summaries.push((Subject::Global(start), View { at: 0, ..*view }));
                    }
                }
                _ => {}
            }
        }
        for call in &self.values.calls {
            let Callee::At(address) = call.callee else { continue };
            let proto = self.facts.proto_of(call.callee);
            for (nth, argument) in (0u8..).zip(call.arguments) {
                if proto.is_some_and(|proto| self.facts.points_to(proto, nth.into()).is_some()) {
                    continue;
                }
                for view in self.input_views(argument).iter().filter(sure) {
                    summaries.push((Subject::Argument(address, nth), *view));
                }
            }
        }
        if function.proto.is_none() {
            for value in &self.values.returned {
                for view in self.input_views(*value).iter().filter(sure) {
                    summaries.push((Subject::Result(function.pieces[0].start), *view));
                }
            }
        }
        summaries
    }
}
