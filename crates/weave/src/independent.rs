//! Aspects that have nothing to do with each other, and may have programs of their own at one join point.
//!
//! All that is woven at a join point runs in one program, in an order that flows rely on. Between aspects that name none of
//! each other's flows no order matters: each can have the program that it was compiled to alone.

use xweave_aspect::{Aspects, Code};

use crate::item::Item;
use crate::resolve::{Applied, Point};

/// By the number of an item: the group that it is in.
pub(crate) struct Groups(Vec<usize>);

impl Groups {
    /// Those of aspects: items of one file are together, and those that name the same flow.
    pub(crate) fn of(aspects: &Aspects) -> Self {
        let flows: Vec<&str> = aspects.xflows.iter().map(|xflow| xflow.name.text.as_str()).collect();
        // The files, then the flows: each refers to one that it is together with.
        let files = aspects.sources.len();
        let mut joined: Vec<usize> = (0..files + flows.len()).collect();
        let items = Item::all(aspects);
        for item in &items {
            let file = item.span().file;
            for (nth, flow) in flows.iter().enumerate() {
                if names(item, flow) {
                    let (a, b) = (root(&joined, file), root(&joined, files + nth));
                    joined[a.max(b)] = a.min(b);
                }
            }
        }
        Self(items.iter().map(|item| root(&joined, item.span().file)).collect())
    }

    /// What is woven at a join point, group by group.
    pub(crate) fn parts<'p, 'a>(&self, point: &'p Point<'a>) -> Vec<Vec<&'p Applied<'a>>> {
        let mut parts: Vec<(usize, Vec<&Applied<'a>>)> = Vec::new();
        for applied in &point.applied {
            let group = self.group(applied);
            match parts.iter_mut().find(|(known, _)| *known == group) {
                Some((_, part)) => part.push(applied),
                None => parts.push((group, vec![applied])),
            }
        }
        parts.into_iter().map(|(_, part)| part).collect()
    }

    /// A join point for each group that weaves something there.
    pub(crate) fn split<'a>(&self, points: Vec<Point<'a>>) -> Vec<Point<'a>> {
        let mut split: Vec<Point<'a>> = Vec::new();
        for point in points {
            let first = split.len();
            for applied in point.applied {
                let group = self.group(&applied);
                let in_group = |known: &Point<'a>| known.applied.iter().all(|of| self.group(of) == group);
                match split[first..].iter_mut().find(|known| in_group(known)) {
                    Some(known) => known.applied.push(applied),
                    None => split.push(Point {
                        at: point.at.clone(),
                        places: point.places.clone(),
                        applied: vec![applied],
                        needed: point.needed,
                    }),
                }
            }
        }
        split
    }

    fn group(&self, applied: &Applied<'_>) -> usize {
        usize::try_from(applied.number).ok().and_then(|nth| self.0.get(nth)).copied().unwrap_or(0)
    }
}

/// Whether a clause is a flow's, or its code or its pointcut names it.
fn names(item: &Item<'_>, flow: &str) -> bool {
    let pointcut = item.pointcut();
    let mut tests = false;
    pointcut.atoms(&mut |atom| {
        tests |= matches!(atom, xweave_aspect::syntax::Pointcut::Xflow(test) if test.flow.text == flow);
    });
    let codes = || pointcut.codes().into_iter().chain(item.codes());
    tests || item.xflow() == Some(flow) || codes().any(|code: &Code| code.names().any(|name| name == flow))
}

fn root(joined: &[usize], mut at: usize) -> usize {
    while joined[at] != at {
        at = joined[at];
    }
    at
}

#[cfg(test)]
mod tests {
    use xweave_aspect::{Source, parse};

    use super::*;

    #[test]
    fn aspects_that_name_the_same_flow_are_together() {
        let texts = [
            "xflow a { start execution(f) select x; } advice p execution(f) { STORE_DATA1(1); }",
            "xflow b { start execution(f) select x; }",
            "advice q execution(f) AND xflow(b, x) { STORE_DATA1(1); }",
            "advice r execution(f) { flow_move(a, x, y); }",
            "advice s execution(f) { STORE_DATA1(1); }",
        ];
        let sources = (0..)
            .zip(texts)
            .map(|(nth, text): (u32, _)| Source { name: format!("{nth}"), text: text.into() });
        let aspects = parse(sources.collect()).unwrap();
        let Groups(groups) = Groups::of(&aspects);
        let group = |file: usize| {
            let items = Item::all(&aspects);
            let mut of_file: Vec<_> = items
                .iter()
                .zip(&groups)
                .filter(|(item, _)| item.span().file == file)
                .map(|(_, of)| *of)
                .collect();
            of_file.dedup();
            assert_eq!(of_file.len(), 1, "{file}");
            of_file[0]
        };
        assert_eq!((group(0), group(1)), (group(3), group(2)));
        assert!(group(0) != group(1) && ![group(0), group(1)].contains(&group(4)));
    }
}
