//! TCP's states.

/// TCP's states, as include/net/tcp_states.h (6.12) numbers them, from 1 on.
const STATES: [&str; 12] = [
    "established",
    "syn_sent",
    "syn_recv",
    "fin_wait1",
    "fin_wait2",
    "time_wait",
    "close",
    "close_wait",
    "last_ack",
    "listen",
    "closing",
    "new_syn_recv",
];
/// See [`STATES`].
pub(crate) const ESTABLISHED: i32 = 1;
/// See [`STATES`].
pub(crate) const SYN_SENT: i32 = 2;
/// See [`STATES`].
pub(crate) const FIN_WAIT1: i32 = 4;
/// See [`STATES`].
pub(crate) const CLOSE: i32 = 7;
/// See [`STATES`].
pub(crate) const LAST_ACK: i32 = 9;
/// See [`STATES`].
pub(crate) const LISTEN: i32 = 10;

/// The state that is called so.
pub(crate) fn named(name: &str) -> Option<i32> {
    (1..).zip(STATES).find(|(_, state)| *state == name).map(|(number, _)| number)
}

/// What a state is called.
pub(crate) fn name(state: i32) -> &'static str {
    let at = usize::try_from(state).ok().and_then(|number| number.checked_sub(1));
    at.and_then(|at| STATES.get(at)).copied().unwrap_or_default()
}
