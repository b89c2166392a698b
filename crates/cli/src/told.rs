//! What is told on standard error.

use std::{
    fmt::Display,
    io::{self, Write as _},
};

use xweave_report::{View, message};

/// Tells something on standard error.
pub fn tell(message: &str) {
    write_line(fitted(&format!("xweave: {message}")));
}

/// Writes a line on standard error. If whoever reads has seen enough (`2>&1 | head`), what is done goes on all the same.
pub fn write_line(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// In lines that fit where standard error is a terminal.
pub fn fitted(message: &str) -> String {
    View::columns_of_stderr().map_or_else(|| message.to_owned(), |columns| message::fitted(message, columns))
}
