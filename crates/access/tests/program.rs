//! What the index says of a program of which the source says what it does.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use xweave_access::{
    Binding, Error, Index, Keep, Place, Reason, Register, Site, Source, Unanswerable, question,
};

/// The program, compiled once.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("-g"))
}

fn compile(debug: &str) -> PathBuf {
    let folder = tempfile::tempdir().unwrap().keep();
    let program = folder.join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program.c");
    let output = Command::new("gcc")
        .args(["-O2", debug, "-fno-inline", "-fno-ipa-icf", "-fno-ipa-ra", "-fcf-protection=none", "-o"])
        .arg(&program)
        .arg(source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| source().make().unwrap())
}

fn source() -> Source {
    Source { file: Some(program().clone()), base: None, btf_only: false }
}

fn sites(pointcut: &str) -> Vec<Site<'static>> {
    sites_of(index(), pointcut)
}

fn sites_of(index: &'static Index, pointcut: &str) -> Vec<Site<'static>> {
    index.query(Box::leak(Box::new(question(pointcut).unwrap())), |_| true).sites()
}

/// `member: name = value, type` of each site with bindings, in a function.
fn bound(index: &'static Index, function: &str, pointcut: &str) -> Vec<String> {
    let tell = |binding: &Binding<'_>| {
        let value = match binding.place {
            Place::Register { register, add } => format!("{register}{add:+}"),
            Place::Memory { register, add } => format!("*({register}{add:+})"),
            Place::Constant(value) => value.to_string(),
        };
        format!("{} = {value}, {}", binding.name, binding.type_)
    };
    let all = format!("within_function({function}) AND ({pointcut})");
    let sites = sites_of(index, &all);
    sites
        .iter()
        .map(|site| {
            let bindings: Vec<_> = site.bindings.iter().map(tell).collect();
            format!("{}: {}", site.path.member(), bindings.join("; "))
        })
        .collect()
}

/// `function access member` of each.
fn told(pointcut: &str) -> Vec<String> {
    let access = |site: &Site<'_>| match (site.reads, site.writes) {
        (true, true) => "both",
        (_, true) => "write",
        _ => "read",
    };
    let tell = |site: &Site<'_>| {
        format!("{} {} {}.{}", site.function, access(site), site.path.structure(), site.path.member())
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
    let levels: Vec<_> = site.path.levels.iter().map(|l| (&*l.type_, l.start, l.end)).collect();
    assert_eq!(levels, [("struct node", 16, 24), ("struct inner", 0, 8)]);
    assert!(site.certain);
    assert_eq!(site.base, Some((Register::Rdi, 0)));
    let (file, line) = site.line.unwrap();
    assert!(file.ends_with("program.c"), "{file}");
    assert!(line > 20);
    let [counted] = &sites("access(count_t.counter)")[..] else { panic!() };
    assert_eq!(&*counted.path.levels[1].type_, "count_t", "a typedef's name stands for a missing one");
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
fn a_target_is_the_pointer_to_the_structure_that_is_asked_for() {
    let target = |function: &str, access: &str| bound(index(), function, &format!("{access} AND target(t)"));
    assert_eq!(target("reads", "access(node.inner)"), ["inner.a: t = rdi+0, struct node *"]);
    assert_eq!(target("reads", "access(inner.a)"), ["inner.a: t = rdi+16, struct inner *"]);
    assert_eq!(target("reads", "access(%.%)"), ["inner.a: t = rdi+0, struct node *"], "the outermost");
    assert_eq!(target("container", "access(item.value)"), ["value: t = rdi-8, struct item *"]);
    assert!(target("element", "access(node.many)").is_empty(), "an index is part of the address");
    assert_eq!(bound(index(), "element", "access(node.many) AND NOT target(t)"), ["many.a: "]);
    let either = "(access(inner.a) OR access(node.number)) AND target(t)";
    assert_eq!(bound(index(), "reads", either), ["inner.a: t = rdi+16, struct inner *"]);
    assert_eq!(bound(index(), "overlapping", either), ["number: t = rdi+0, struct node *"]);
}

#[test]
fn variables_are_where_debug_information_says() {
    let variable = |function: &str, pointcut: &str| bound(index(), function, pointcut);
    assert_eq!(
        variable("writes", "access(inner.a) AND local_var(node) AND local_var(value, v)"),
        ["inner.a: node = rdi+0, struct node *; v = rsi+0, long"]
    );
    // In a register that is kept, and spilled.
    let spilled = variable("spilled", "local_var(node)");
    assert!(spilled[0].starts_with("inner.a: node = r"), "{spilled:?}");
    assert!(spilled[1].starts_with("inner.b: node = *(rsp+"), "{spilled:?}");
    let local = variable("local", "local_var(node)");
    assert!(local.iter().all(|found| found.ends_with("node = *(rsp+0), struct node")), "{local:?}");
    assert!(local.len() > 1);
    // The frame is the same behind a jump through a table.
    let switched = variable("switched", "access(item.value, read) AND local_var(item)");
    assert!(switched.len() > 1, "{switched:?}");
    assert!(switched.iter().all(|found| found == "value: item = *(rsp+0), struct item"), "{switched:?}");
    assert_eq!(variable("listed", "access(node.link) AND local_var(sum)"), ["link.next: sum = 0, long"]);
    assert!(variable("reads", "local_var(value)").is_empty());
    assert_eq!(variable("reads", "NOT local_var(value) AND local_var(node)").len(), 1);
}

#[test]
fn an_inlined_functions_variable_hides_one_with_its_name() {
    let which = bound(index(), "outer", "local_var(which)");
    let [own, inlined, .., after] = &which[..] else { panic!("{which:?}") };
    assert_eq!(own, "a: which = rsi+0, struct inner *");
    let (_, place) = inlined.split_once(" = ").unwrap();
    // The one that is 16 bytes into the node, whichever register that is counted from.
    assert!(inlined.starts_with("inner.a: ") && place.contains("+16"), "{which:?}");
    // It was optimised away there: that another has its name does not make that one it.
    assert!(!which.iter().any(|found| found.starts_with("inner.b: ")), "{which:?}");
    assert!(after.starts_with("b: which = r") && after.contains("+0"), "{which:?}");
    let constant = bound(index(), "outer", "local_var(more, m)");
    assert_eq!(constant, ["inner.a: m = 7, long"]);
}

#[test]
fn bindings_are_those_of_the_alternatives_that_match() {
    let either = "access(inner.a, write) AND target(t) OR local_var(value, t) OR local_var(node)";
    assert_eq!(
        bound(index(), "writes", either),
        ["inner.a: t = rdi+16, struct inner *; node = rdi+0, struct node *"],
        "the first one that gives a name"
    );
    assert_eq!(bound(index(), "reads", either), ["inner.a: node = rdi+0, struct node *"]);
}

/// Whoever asks knows what parameters are called, and which other variables it wants.
#[test]
fn arguments_and_further_variables_are_bound_where_they_are_asked_for() {
    let text = "access(inner.a, write) AND arg(1, v)".to_owned();
    let pointcut = xweave_aspect::pointcut(&xweave_aspect::Source { name: "x".to_owned(), text }).unwrap();
    let query = || index().query(&pointcut, |_| true);
    let undecided = query().sites();
    assert!(undecided.iter().any(|site| site.function == "writes") && undecided.len() > 1);
    assert!(undecided.iter().all(|site| site.bindings.is_empty()));

    let called = |function: &str, _: Option<&str>, of: &str| {
        (function == "writes").then(|| if of == "1" { "value".to_owned() } else { of.to_owned() })
    };
    let sites = query().with_parameters(called).with_variables(["node", "v", "nothing"]).sites();
    assert_eq!(sites.iter().map(|site| site.function).collect::<Vec<_>>(), ["writes"]);
    let bound: Vec<_> = sites[0].bindings.iter().map(|of| (of.name, &*of.type_, of.target)).collect();
    assert_eq!(bound, [("v", "long", false), ("node", "struct node *", false)]);
    assert!(sites[0].unreadable.is_empty());
}

/// From BTF alone.
fn of_btf() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let source = Source { file: Some(compile("-gbtf")), base: None, btf_only: true };
        source.make().unwrap()
    })
}

#[test]
fn parameters_are_followed_from_prototypes() {
    let variable = |function: &str, name: &str| bound(of_btf(), function, &format!("local_var({name})"));
    assert_eq!(variable("writes", "value"), ["inner.a: value = rsi+0, long"]);
    // In what a call leaves alone, and then on the stack.
    let spilled = variable("spilled", "node");
    assert!(spilled[0].starts_with("inner.a: node = r"), "{spilled:?}");
    assert!(!spilled[0].contains("rdi"), "{spilled:?}");
    assert!(spilled.get(1).is_none_or(|found| found.contains("node = ")), "{spilled:?}");
    // What is behind a call that may change the register is not the parameter any more.
    let outer = variable("outer", "which");
    assert_eq!(outer[0], "a: which = rsi+0, struct inner *");
    assert!(outer[1..].iter().all(|found| !found.contains("rsi")), "{outer:?}");
    assert!(bound(of_btf(), "listed", "local_var(sum)").is_empty(), "no parameter");
    let names: Vec<_> = of_btf().variables().collect();
    assert!(names.contains(&"node") && !names.contains(&"sum"), "{names:?}");
}

#[test]
fn what_is_not_known_says_why() {
    let untyped = question("within_function(untyped)").unwrap();
    let unresolved = index().query(&untyped, |_| true).unresolved();
    assert!(unresolved.iter().any(|one| one.reason == Reason::Untyped), "{unresolved:?}");
    let coverage = index().coverage();
    assert_eq!(coverage.typed + coverage.unresolved(), coverage.memory_instructions);
    assert!(coverage.instructions > coverage.memory_instructions);
}

#[test]
fn an_index_is_kept_and_damage_to_it_is_found_or_does_no_harm() {
    let (folder, trusted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut made = 0;
    for keep in [Keep::OfFile(folder.path()), Keep::OfBuild(trusted.path())] {
        for _ in 0..2 {
            let index = source().index(Some(keep), || made += 1, &|_, _| {}).unwrap();
            assert_eq!(
                index.query(&question("access(%.%)").unwrap(), |_| true).sites().len(),
                told("access(%.%)").len()
            );
        }
    }
    assert_eq!(made, 2, "the second time it was there");
    // By its build ID it is found where it is trusted only.
    let names = |of: &Path| -> Vec<_> {
        let entries = std::fs::read_dir(of).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).collect()
    };
    let id: String =
        xweave_code::image::build_id(program()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(names(trusted.path())[0].starts_with(&id) && !names(folder.path())[0].starts_with(&id));
    let kept = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&kept).unwrap();
    let ask = |bytes: Vec<u8>| {
        Index::from_bytes("damaged", bytes).map(|index| {
            let all = question("access(%.%) AND target(t) OR local_var(node)").unwrap();
            let query = index.query(&all, |_| true);
            (query.sites().len(), query.unresolved().len(), index.coverage())
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
        let overlay = site.path.levels.last().unwrap();
        assert!(overlay.overlay);
        assert_eq!((overlay.start, overlay.end), (0, 4));
    }
}

#[test]
fn names_that_nothing_has_are_told_before_they_are_asked_for() {
    let can = |pointcut: &str| index().can_answer(&question(pointcut).unwrap(), "it");
    for known in [
        "access(node.inner.a)",
        "access(node.inne%)",
        "access(%.%)",
        "access(node.uses) AND local_var(value)",
    ] {
        assert_eq!(can(known), Ok(()), "{known}");
    }
    let told = |pointcut: &str| can(pointcut).unwrap_err().to_string();
    assert_eq!(told("access(nod.link)"), "it: no instruction is known to touch a `nod`; did you mean node?");
    assert!(told("access(node.inner.c)").ends_with("?"), "{}", told("access(node.inner.c)"));
    assert!(matches!(
        can("access(node.x_y_z_1_2_3)"),
        Err(Unanswerable::Name { unknown, .. }) if unknown.near.is_empty()
    ));
    assert!(
        told("access(node.link) AND local_var(nowhere_at_all)").contains("has a variable `nowhere_at_all`")
    );
}

#[test]
fn an_index_of_what_changed_while_it_was_made_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (file, cache) = (folder.path().join("program"), folder.path().join("cache"));
    std::fs::copy(program(), &file).unwrap();
    let source = Source { file: Some(file.clone()), base: None, btf_only: false };
    let makes = |change: bool| {
        let mut made = false;
        let making = || {
            made = true;
            if change {
                let file = std::fs::File::options().append(true).open(&file).unwrap();
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            }
        };
        source.index(Some(Keep::OfFile(&cache)), making, &|_, _| {}).unwrap();
        made
    };
    assert!(makes(true));
    assert!(makes(false), "the one that was made before may be of neither");
    assert!(!makes(false));
}

#[test]
fn functions_that_are_not_there_are_told_where_nothing_is_found() {
    let why = |pointcut: &str| {
        let pointcut = question(pointcut).unwrap();
        assert_eq!(index().can_answer(&pointcut, "it"), Ok(()), "{pointcut:?}");
        index().why_nothing(&pointcut, "it").map(|why| why.to_string())
    };
    assert_eq!(why("access(node.inner.a) AND within_function(writes)"), None);
    assert_eq!(why("access(node.inner.a) AND within_function(wri%)"), None);
    let mistyped = why("access(node.inner.a) AND within_function(overlaping)").unwrap();
    assert_eq!(
        mistyped,
        "it: there is no function `overlaping`, or it is inlined everywhere; did you mean overlapping?"
    );
    assert_eq!(why("access(node.inner.a) AND NOT within_function(nowhere_at_all)"), None);
    let pattern = why("access(node.inner.a) AND within_function(overlaping%)").unwrap();
    assert_eq!(pattern, "it: no function matches `overlaping%`; did you mean overlapping?");
}
