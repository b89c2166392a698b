//! Files that differ from honest ones in a few places, given to the program as it is run: whatever they say, it ends by itself,
//! within its memory, with an answer or a complaint, and writes nothing but its output.
//!
//! `XWEAVE_MUTATIONS=N` tries as many of each kind.

use std::{
    env, fs,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use xweave_fuzzing::{import, mutate::Mutator, target::Target, trace};

use crate::measured::run;

/// Mutations of each kind, where it is not said how many.
const MUTATIONS: u64 = 60;

/// The most memory of a process, in bytes: files are some 100 KiB long.
const MOST: u64 = 1 << 30;

/// Tries mutations of a target's seeds: `write` makes the files of one in a folder, which are those of `made`; commands are run
/// there, which may leave what is in `output`.
fn try_mutations(
    target: &str,
    write: impl Fn(&Path, &[u8]) + Sync,
    made: &[&str],
    commands: &[&str],
    output: &[&str],
) {
    let number = env::var("XWEAVE_MUTATIONS").map_or(MUTATIONS, |number| number.parse().unwrap());
    let target = Target::find(target).unwrap();
    let (seeds, words) = (target.load_seeds(), target.load_words());
    let mutator = Mutator::new(seeds.iter().map(|seed| &seed.content[..]).collect(), &words);
    let (next, peak, runs, read) =
        (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        let folder = tempfile::tempdir().unwrap();
        while let nth = next.fetch_add(1, Ordering::Relaxed)
            && nth < number
        {
            write(folder.path(), &mutator.make_input(nth));
            for arguments in commands {
                let ran = run(folder.path(), arguments, libc::RLIM_INFINITY);
                let of =
                    format!("mutation {nth} of {}: xweave {arguments}: exit {}", target.name, ran.status);
                assert!(matches!(ran.status, 0..=2), "{of}: {}", ran.said);
                assert!(!ran.said.contains("panicked"), "{of}: {}", ran.said);
                assert!(ran.peak < MOST, "{of}: {} MiB", ran.peak >> 20);
                for text in [&ran.printed, &ran.said] {
                    assert!(text.lines().all(|line| line == xweave_text::lines(line)), "{of}: {text:?}");
                }
                peak.fetch_max(ran.peak, Ordering::Relaxed);
                runs.fetch_add(1, Ordering::Relaxed);
                read.fetch_add(u64::from(ran.status == 0), Ordering::Relaxed);
            }
            let there = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let there: Vec<_> = there.map(|name| name.into_string().unwrap()).collect();
            let known = |name: &String| {
                ["printed", "said"].iter().chain(made).chain(output).any(|known| known == name)
            };
            assert!(there.iter().all(known), "mutation {nth} of {}: {there:?}", target.name);
            for name in output {
                let path = folder.path().join(name);
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    let [peak, runs, read] = [peak, runs, read].map(AtomicU64::into_inner);
    println!(
        "{}: {runs} runs on {number} mutations; {read} gave an answer; at most {} MiB",
        target.name,
        peak >> 20
    );
    // Most of them are understood: otherwise they would try nothing.
    assert!(read > runs / 20 && runs == number * commands.len() as u64);
}

#[test]
fn traces_that_were_changed_in_a_few_places_harm_no_command() {
    try_mutations(
        "trace",
        |folder, input| {
            let folder = folder.join("trace");
            trace::create_segment_folders(&folder);
            trace::write_files(&folder, input);
        },
        &["trace"],
        &[
            "flows trace",
            "records trace",
            "explain trace",
            "compare trace trace",
            "vary trace",
            "report trace -o page.html",
            "export trace --to perfetto -o out.pftrace",
        ],
        &["page.html", "out.pftrace"],
    );
}

#[test]
fn files_of_other_tools_that_were_changed_in_a_few_places_harm_no_import() {
    try_mutations(
        "import",
        |folder, input| {
            let [one, other] = import::split_files(input);
            fs::write(folder.join("one"), one).unwrap();
            fs::write(folder.join("other"), other).unwrap();
        },
        &["one", "other"],
        &["import one -o imported --force", "import one other -o imported --force"],
        &["imported"],
    );
}
