//! What processes of this program are called by their kernel, and so in what is recorded of them.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

#[test]
fn a_load_is_called_by_what_it_does_and_not_as_the_recorder() {
    let mut load = Command::new(env!("CARGO_BIN_EXE_xweave"));
    load.args(["lab", "load", "tcp-serve", "--port", "0"]);
    let mut load = load.stderr(Stdio::piped()).spawn().expect("a load");
    let mut ready = String::new();
    let said = load.stderr.take().expect("its standard error");
    BufReader::new(said).read_line(&mut ready).expect("that it is ready");
    let called = fs::read_to_string(format!("/proc/{}/comm", load.id()));
    load.kill().expect("its end");
    load.wait().expect("its end");
    assert_eq!(called.expect("its name"), "tcp-serve\n", "{ready}");
}
