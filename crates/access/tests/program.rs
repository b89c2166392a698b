//! What the index says of a program of which the source says what it does.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use xweave_access::{Error, Index, Pointcut, Reason, Site, Source};

/// The program, compiled once.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        let program = folder.join("program");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program.c");
        let output = Command::new("gcc")
            .args(["-O2", "-g", "-fno-inline", "-fno-ipa-icf", "-fno-ipa-ra", "-fcf-protection=none", "-o"])
            .arg(&program)
            .arg(source)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    })
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| source().make().unwrap())
}

fn source() -> Source {
    Source { file: Some(program().clone()), base: None, btf_only: false }
}

fn sites(pointcut: &str) -> Vec<Site<'static>> {
    index().sites(&Pointcut::parse(pointcut).unwrap())
}

/// `function access member` of each.
fn told(pointcut: &str) -> Vec<String> {
    let access = |site: &Site<'_>| match (site.reads, site.writes) {
        (true, true) => "both",
        (_, true) => "write",
        _ => "read",
    };
    let tell = |site: &Site<'_>| {
        format!("{} {} {}.{}", site.function, access(site), site.way.structure(), site.way.member())
    };
    sites(pointcut).iter().map(tell).collect()
}

fn of(function: &str) -> Vec<String> {
    told(&format!("access(%.%) AND within_function({function})"))
}

#[test]
fn members_are_told_with_how_they_are_touched() {
    assert_eq!(of("reads"), ["reads read node.inner.a"]);
    assert_eq!(of("writes"), ["writes write node.inner.a"]);
    assert_eq!(of("both"), ["both both node.inner.b"]);
    assert_eq!(of("counted"), ["counted both node.uses.counter"]);
    assert_eq!(of("element"), ["element read node.many.a"]);
    assert_eq!(of("of_global"), ["of_global read node.inner.a"]);
}

#[test]
fn every_structure_around_is_told() {
    let [site] = &sites("access(inner.a) AND within_function(reads)")[..] else { panic!() };
    let levels: Vec<_> = site.way.levels.iter().map(|l| (&*l.type_, l.start, l.end)).collect();
    assert_eq!(levels, [("struct node", 16, 24), ("struct inner", 0, 8)]);
    assert!(site.certain);
    assert_eq!(site.base, Some(("rdi", 0)));
    let (file, line) = site.line.unwrap();
    assert!(file.ends_with("program.c"), "{file}");
    assert!(line > 20);
    let [counted] = &sites("access(count_t.counter)")[..] else { panic!() };
    assert_eq!(&*counted.way.levels[1].type_, "count_t", "a typedef's name stands for a missing one");
}

#[test]
fn members_of_a_union_are_all_meant() {
    for member in ["number", "low"] {
        let found = told(&format!("access(node.{member}) AND within_function(overlapping)"));
        // All of it is the number; only half of it is `low`.
        assert_eq!(found.len(), usize::from(member == "number"), "{member}: {found:?}");
    }
}

#[test]
fn pointers_are_followed_through_calls_stacks_joins_and_lists() {
    assert!(of("indirect").contains(&"indirect read node.call".to_owned()), "{:?}", of("indirect"));
    assert!(of("indirect").contains(&"indirect read node.inner.b".to_owned()), "{:?}", of("indirect"));
    let spilled = ["spilled read node.inner.a", "spilled read node.inner.b"];
    for expected in spilled {
        assert!(of("spilled").iter().any(|found| found == expected), "{:?}", of("spilled"));
    }
    assert_eq!(of("chosen"), ["chosen read node.inner.a"]);
    assert_eq!(of("container"), ["container read item.value"]);
    assert_eq!(of("through"), ["through read node.link.next", "through read item.key"]);
    let listed = of("listed");
    assert!(listed.contains(&"listed read node.link.next".to_owned()), "{listed:?}");
    assert!(listed.contains(&"listed read link.next".to_owned()), "{listed:?}");
    assert!(of("local").iter().any(|found| found.ends_with("node.inner.a")), "{:?}", of("local"));
}

#[test]
fn pointcuts_choose() {
    let all = told("access(node.inner)");
    let written = told("access(node.inner, write)");
    assert!(written.iter().all(|found| !found.contains(" read ")), "{written:?}");
    assert!(!written.is_empty() && written.len() < all.len());
    assert_eq!(told("access(inner.a) AND within_function(r%s)"), ["reads read node.inner.a"]);
    assert_eq!(told("access(inner.a) AND within_file(program.c)").len(), told("access(inner.a)").len());
    assert!(told("access(inner.a) AND NOT within_file(%program.c)").is_empty());
    assert!(told("within_function(reads)").len() == 1);
    assert_eq!(
        told("access(inner.a) AND within_function(reads) OR access(inner.b) AND within_function(both)").len(),
        2
    );
}

#[test]
fn what_is_not_known_says_why() {
    let unresolved = index().unresolved(&Pointcut::parse("within_function(untyped)").unwrap());
    assert!(unresolved.iter().any(|one| one.reason == Reason::Untyped), "{unresolved:?}");
    let coverage = index().coverage();
    assert_eq!(coverage.typed + coverage.unresolved(), coverage.memory_instructions);
    assert!(coverage.instructions > coverage.memory_instructions);
}

#[test]
fn an_index_is_kept_and_damage_to_it_is_found_or_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = 0;
    for _ in 0..2 {
        let index = source().index(Some(folder.path()), || made += 1).unwrap();
        assert_eq!(index.sites(&Pointcut::parse("access(%.%)").unwrap()).len(), told("access(%.%)").len());
    }
    assert_eq!(made, 1, "the second time it was there");
    let kept = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&kept).unwrap();
    let ask = |bytes: Vec<u8>| {
        Index::from_bytes("damaged", bytes).map(|index| {
            let all = Pointcut::parse("access(%.%) OR within_function(%)").unwrap();
            (index.sites(&all).len(), index.unresolved(&all).len(), index.coverage())
        })
    };
    for length in (0..whole.len()).step_by(13) {
        assert!(matches!(ask(whole[..length].to_vec()), Err(Error::Damaged { .. })), "{length}");
    }
    for at in (0..whole.len()).step_by(7) {
        for bit in [0, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            // Found or not, it must not panic, nor go on for ever.
            let _ = ask(bytes);
        }
    }
}

#[test]
fn a_program_without_types_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("stripped");
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(program()).status().unwrap();
    assert!(status.success());
    let source = Source { file: Some(stripped), base: None, btf_only: false };
    let Err(error) = source.make() else { panic!() };
    assert!(error.to_string().contains("-g"), "{error}");
}

#[test]
fn sums_with_a_variable_are_what_others_say_of_that_variable() {
    let own = |function: &str| of(function).pop().unwrap();
    assert_eq!(own("sum_with_lock"), "sum_with_lock read lock.bolts");
    assert_eq!(own("sum_with_key"), "sum_with_key read key.cuts");
}

#[test]
fn what_lies_behind_a_part_is_in_what_holds_it() {
    assert_eq!(of("behind"), ["behind read long_request.more"]);
    assert_eq!(of("behind_what_is_cast"), ["behind_what_is_cast read long_request.more"]);
    let [site] = &sites("access(long_request.more) AND within_function(behind)")[..] else { panic!() };
    assert!(!site.certain, "no declaration says so");
}

#[test]
fn overlays_begin_where_the_convention_says() {
    for function in ["skb_segment", "skb_segment_two"] {
        let pointcut = format!("access(skb_gso_cb.mac_offset) AND within_function({function})");
        let [site] = &sites(&pointcut)[..] else { panic!("{function}: {:?}", of(function)) };
        let overlay = site.way.levels.last().unwrap();
        assert!(overlay.overlay);
        assert_eq!((overlay.start, overlay.end), (0, 4));
    }
}
