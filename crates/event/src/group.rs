//! Groups of events.

use serde::{Deserialize, Serialize};

/// Events that are recorded together: a word of `record --events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Group {
    /// Who runs: processors, threads, interrupts, futexes.
    Sched,
    /// Accesses to disks, and page faults that wait for them.
    Block,
    /// What sockets send and receive, TCP's connections, and pipes.
    Net,
    /// The vCPUs of KVM.
    Vm,
    /// System calls.
    Syscalls,
    /// Idle states and frequencies of processors.
    Power,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 6] = [Self::Sched, Self::Block, Self::Net, Self::Vm, Self::Syscalls, Self::Power];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sched => "sched",
            Self::Block => "block",
            Self::Net => "net",
            Self::Vm => "vm",
            Self::Syscalls => "syscalls",
            Self::Power => "power",
        }
    }

    /// Reads a list (`sched,block`) into its groups, each once; `all` stands for all of them.
    ///
    /// # Errors
    ///
    /// [`UnknownGroup`]
    pub fn list(text: &str) -> Result<Vec<Self>, UnknownGroup> {
        let mut groups = Vec::new();
        for word in text.split(',').map(str::trim) {
            match (word, Self::ALL.into_iter().find(|group| group.name() == word)) {
                ("all", _) => groups.extend(Self::ALL),
                (_, Some(group)) => groups.push(group),
                (_, None) => return Err(UnknownGroup(word.to_owned())),
            }
        }
        groups.sort();
        groups.dedup();
        Ok(groups)
    }
}

/// Unknown name of a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no group of events `{0}`: write some of {names}, or all", names = Group::ALL.map(Group::name).join(","))]
pub struct UnknownGroup(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_each_once() {
        assert_eq!(Group::list("block, sched,block"), Ok(vec![Group::Sched, Group::Block]));
        assert_eq!(Group::list("all"), Ok(Group::ALL.to_vec()));
        for wrong in ["", "sched,", "scheduler"] {
            let said = Group::list(wrong).unwrap_err().to_string();
            assert!(said.contains("sched,block,net,vm,syscalls,power"), "{said}");
        }
    }
}
