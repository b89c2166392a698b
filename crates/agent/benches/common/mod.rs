//! What the benchmarks here have in common: they are told by words what to do, and by lines on standard input.

#![allow(dead_code, reason = "each benchmark uses its part")]

use std::{
    io::{self, BufRead, Read},
    process::ExitCode,
};

/// Why it cannot be measured.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Does what the command line says.
pub fn main(name: &str, done: impl FnOnce(&[&str]) -> Result<(), Error>) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match done(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Keeps this thread, and those that it begins from now on, on the first CPU.
pub fn stay_on_one_cpu() {
    // SAFETY: all bits of a set may be 0; the set lives in this frame.
    unsafe {
        let mut first: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut first);
        libc::sched_setaffinity(0, size_of_val(&first), &raw const first);
    }
}

/// Answers each line of a word and a number with a line.
pub fn answer<T: std::fmt::Display>(mut to: impl FnMut(&str, u32) -> Result<T, Error>) -> Result<(), Error> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (what, count) = line.split_once(' ').ok_or("a line is a word and a number")?;
        println!("{}", to(what, count.parse()?)?);
    }
    Ok(())
}

/// Reads until the input ends: whoever waits for something else closes it then.
pub fn input_ends() -> io::Result<()> {
    io::stdin().lock().read_to_end(&mut Vec::new()).map(drop)
}
