//! What is woven at a time.

use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Where functions are hooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// Where they are entered.
    Execution,
    /// Where they return.
    Returning,
}

impl Place {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Execution, Self::Returning];

    /// The pointcut's name.
    pub fn pointcut(self) -> &'static str {
        match self {
            Self::Execution => "execution",
            Self::Returning => "returning",
        }
    }
}

/// What is done there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// `STORE_DATA1`.
    Store,
    /// An operation on a flow: which one is drawn for each function.
    Flow,
    /// Both, as one program.
    Both,
}

impl Action {
    /// The word in tables and file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Flow => "flow",
            Self::Both => "both",
        }
    }
}

/// Functions that are woven together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// The soak's.
    pub seed: u64,
    /// Where.
    pub place: Place,
    /// What.
    pub action: Action,
    /// Which.
    pub functions: Vec<String>,
}

/// What is done to the flow that begins or ends at the running thread, and passes through one key (the number 1)
/// that all processors fight for.
const OPERATIONS: [(&str, &str); 6] = [
    ("start", "select $thread$"),
    ("transit", "move $thread$ to (1)"),
    ("transit", "copy (1) to $thread$"),
    ("transit", "split $thread$ to (1)"),
    ("transit", "merge (1) to $thread$"),
    ("quit", "select $thread$"),
];

/// Whatever the functions are, there are flows: each program that the load starts has one.
const BEGINNING: &str = "tracepoint(sched:sched_process_exec)";

impl Batch {
    /// The same for a part of the functions.
    pub fn of(&self, functions: &[String]) -> Self {
        Self { functions: functions.to_vec(), ..self.clone() }
    }

    /// The aspect. A function has the same operation in whatever batch it is, so that parts of a batch do what the
    /// whole did.
    pub fn aspect(&self) -> String {
        let place = self.place.pointcut();
        let mut text = String::new();
        let clause = |text: &mut String, before: &str, which: &dyn Fn(&str) -> bool, after: &str| {
            // What a kernel does not let us hook is skipped, and told, for names with `?`.
            let names = self.functions.iter().filter(|function| which(function));
            let names: Vec<String> = names.map(|function| format!("{function}?")).collect();
            if !names.is_empty() {
                let _ = writeln!(text, "{before} {place}({}) {after}", names.join(", "));
            }
        };
        if self.action != Action::Store {
            let _ = writeln!(text, "xflow soak {{\n    start {BEGINNING} select $thread$;");
            for (number, (kind, operation)) in OPERATIONS.iter().enumerate() {
                clause(
                    &mut text,
                    &format!("    {kind}"),
                    &|function| self.operation(function) == number,
                    &format!("{operation};"),
                );
            }
            text.push_str("}\n");
        }
        if self.action != Action::Flow {
            clause(&mut text, "advice stored", &|_| true, "{ STORE_DATA1(1); }");
        }
        text
    }

    fn operation(&self, function: &str) -> usize {
        fastrand::Rng::with_seed(self.seed ^ hash(function)).usize(..OPERATIONS.len())
    }
}

/// A name as a number, that stays the same from release to release: FNV-1a.
pub fn hash(name: &str) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn batch(action: Action) -> Batch {
        let functions = (0..100).map(|n| format!("function_{n}")).collect();
        Batch { seed: 7, place: Place::Returning, action, functions }
    }

    #[test]
    fn every_function_is_stored_at_and_has_an_operation() {
        let text = batch(Action::Both).aspect();
        let names = |text: &str| text.matches("function_").count();
        let (flow, advice) = text.split_once("}\nadvice stored returning(").unwrap();
        assert_eq!((names(flow), names(advice)), (100, 100));
        assert!(!flow.contains("execution("), "{flow}");
        for (kind, operation) in OPERATIONS {
            assert!(flow.contains(&format!("    {kind} returning(")) && flow.contains(operation), "{flow}");
        }
        assert_eq!(names(&batch(Action::Store).aspect()), 100);
        assert!(!batch(Action::Store).aspect().contains("xflow"));
        assert!(!batch(Action::Flow).aspect().contains("advice"));
    }

    #[test]
    fn a_part_of_a_batch_does_what_the_whole_did() {
        let whole = batch(Action::Flow);
        let lines = |batch: &Batch| -> BTreeSet<(String, String)> {
            let text = batch.aspect();
            let pairs = text.lines().filter(|line| line.contains("returning(")).flat_map(|line| {
                let (kind, rest) = line.split_once("returning(").unwrap_or_default();
                let (names, operation) = rest.split_once(") ").unwrap_or_default();
                let of = format!("{kind}{operation}");
                names.split(", ").map(|name| (name.to_owned(), of.clone())).collect::<Vec<_>>()
            });
            pairs.collect()
        };
        let part = whole.of(&whole.functions[30..60]);
        assert!(lines(&part).is_subset(&lines(&whole)));
        assert_eq!(lines(&part).len(), 30);
    }
}
