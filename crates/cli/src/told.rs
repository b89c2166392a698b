//! What is told on standard error.

use xweave_report::{View, message};

/// Tells something on standard error.
pub fn tell(message: &str) {
    eprintln!("{}", fitted(&format!("xweave: {message}")));
}

/// In lines that fit where standard error is a terminal.
pub fn fitted(message: &str) -> String {
    View::columns_of_stderr().map_or_else(|| message.to_owned(), |columns| message::fitted(message, columns))
}
