//! Rows that transactions' times are divided into. Sentences are for people, and their words may change: programs compare
//! the fields beside them (`kind`, `role`, `reason`).

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// What threads are for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RoleFields {
    /// Purpose of the threads: `vcpu`, `vhost`, `kvm_pit`, `qemu`, `recorder`, `program` or `unnamed`; absent for disks,
    /// interrupts and connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Guest that the threads are for; absent if they are for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
}

/// Reason of a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ReasonFields {
    /// Reason, in words; null if it is not known.
    pub why: Option<String>,
    /// Reason: `cpu_taken`, `sent_again`, `refused`, `futex`, `pipe_data`, `pipe_room`, `page_fault`, `swap_in`, `earlier`,
    /// `moved`, `ahead`, `power`, `interrupted` or `exited`; absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// Service that was asked for something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ServiceRequests {
    /// Kind of its requests, as `--transaction` takes it.
    pub transaction: String,
    /// Number of its requests that were answered, in the first four million events.
    pub requests: u64,
}

/// Object whose time it was, and the state that it was in.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct StateFields {
    /// Domain whose time it was; both domains, if it lies between two.
    pub domain: String,
    /// Object that took the time. In totals: objects of one name.
    pub object: String,
    /// Kind of the object: `thread`, `disk`, `lock`, `interrupts`, `vcpu`, `link` (between the ends of a connection) or `peer`
    /// (an end without events).
    pub kind: &'static str,
    /// State of the object.
    pub state: &'static str,
    /// What the object's threads are for.
    #[serde(flatten)]
    pub role: RoleFields,
    /// Reason of the state.
    #[serde(flatten)]
    pub reason: ReasonFields,
}

/// Time that one object spent in one state, for one transaction.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Part {
    /// Object, state and reason.
    #[serde(flatten)]
    pub state: StateFields,
    /// Time, in nanoseconds.
    pub ns: u64,
    /// Number of times.
    pub count: u64,
}

/// Time that all transactions spent in one state.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Total {
    /// Objects, state and reason.
    #[serde(flatten)]
    pub state: StateFields,
    /// Time, in nanoseconds.
    pub ns: u64,
    /// Number of transactions that had any of it.
    pub transactions: u64,
}

/// An object behind a delay, and the time that it accounts for.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Offender {
    /// Threads of a name, the vCPUs of a guest, a disk, `xweave itself`.
    pub who: String,
    /// Time, in nanoseconds.
    pub ns: u64,
    /// What the threads are for.
    #[serde(flatten)]
    pub role: Option<RoleFields>,
}

/// A delay of transactions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Cause {
    /// Delay, in words: `vCPUs of vm1 waited for a CPU of host`, `running in vm1`, `on the network, host → vm1`.
    pub what: String,
    /// Kind of the delay: `cpu_wait`, `running`, `network`, `disk`, `exits`, or a state.
    pub kind: &'static str,
    /// Time, in nanoseconds.
    pub ns: u64,
    /// Number of transactions that it delayed.
    pub transactions: u64,
    /// Objects behind it as far as they are known, the most time first.
    pub by: Vec<Offender>,
}

/// Numbers of requests that are no transactions, by why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct UnusedRequests {
    /// A frame of it was dropped, and not seen to be sent again.
    pub dropped: u64,
    /// Records of it were lost.
    pub lost: u64,
    /// A frame of it was not followed from its beginning to its end.
    pub unseen: u64,
    /// It had no answer.
    pub unanswered: u64,
    /// It had no answer when the recording ended.
    pub open: u64,
}
