//! Weaving at instructions: into a program of which the source says what it does, with its types as a kernel
//! tells them. Nothing is loaded, nothing attached.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use xweave_access::Source as Program;
use xweave_aspect::{Source, parse};
use xweave_code::Kernel;
use xweave_weave::{
    CodeIndex, Counts, Domain, Library, Options, Peer, Role, Weaving, find_clang, needs_code, unseen_calls,
    weave,
};
use xweave_wire::plan::{Hook, PlanSite, VariablePlace};

struct Made {
    kernel: Kernel,
    code: Vec<CodeIndex>,
}

fn compile(command: &mut Command, sources: &[&str], to: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let sources = sources.iter().map(|source| folder.join(source));
    let output = command.args(sources).arg("-o").arg(to).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    to.to_owned()
}

static MADE: LazyLock<Made> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let types = compile(
        Command::new(find_clang().unwrap()).args(["-target", "bpf", "-g", "-O0", "-c"]),
        &["instruction.c"],
        &folder.path().join("types.o"),
    );
    let program = compile(
        Command::new("gcc").args([
            "-O2",
            "-g",
            "-fcf-protection=none",
            "-fno-ipa-icf",
            "-fno-ipa-ra",
            "-fno-toplevel-reorder",
            "-r",
        ]),
        &["instruction.c", "twin.c"],
        &folder.path().join("program.o"),
    );
    let source = Program { file: Some(program), base: None, btf_only: false };
    let index = source.make().unwrap();
    Made { kernel: Kernel::from_file(&types).unwrap(), code: vec![CodeIndex { module: None, index }] }
});

fn try_weave(text: &str) -> Result<Weaving, Vec<String>> {
    let source = Source { name: "x.aspect".into(), text: text.into() };
    let told = |errors: Vec<xweave_aspect::Diagnostic>| {
        errors.iter().map(|e| format!("{}:{}: {}", e.line, e.column, e.message)).collect::<Vec<_>>()
    };
    let aspects = parse(vec![source]).map_err(told)?;
    let made = &*MADE;
    let domain =
        Domain { name: "host".into(), role: Role::Host, number: 1, kernel: &made.kernel, code: &made.code };
    let cache = tempfile::tempdir().unwrap();
    weave(&aspects, &[domain], &options(&cache), &Library::EMPTY).map_err(told)
}

fn options(cache: &tempfile::TempDir) -> Options {
    Options {
        first_site: 1,
        buffer: 4096,
        flow_table: 64,
        cache: cache.path().to_owned(),
        ..Options::default()
    }
}

fn woven(text: &str) -> Weaving {
    try_weave(text).unwrap_or_else(|errors| panic!("{}", errors.join("\n")))
}

/// `function hook` of each join point; `+` for an instruction.
fn places(weaving: &Weaving) -> Vec<String> {
    let sites = weaving.domains[0].sites.iter();
    let mut places: Vec<_> = sites
        .map(|site| match site.hook {
            Hook::Instruction => format!("{}+", site.function),
            _ => site.function.clone(),
        })
        .collect();
    places.sort();
    places
}

fn plan_sites(weaving: &Weaving) -> Vec<PlanSite> {
    weaving.domains[0].plan.programs.iter().flat_map(|program| program.sites.clone()).collect()
}

fn counts(weaving: &Weaving) -> (usize, usize, usize) {
    let Counts { every, first, function, .. } = weaving.domains[0].counts[0];
    (every, first, function)
}

#[test]
fn calls_that_are_inlined_are_told_of_functions_whose_calls_are_woven() {
    let told = |text: &str, symbols: &[&str]| {
        let weaving = woven(text);
        let said = unseen_calls::diagnostics(&weaving.domains[0], symbols.iter().copied());
        said.into_iter().map(|of| of.message).collect::<Vec<_>>()
    };
    let inlined =
        "host: not all calls of lamp_is_lit are seen: 3 are inlined into lamp_count and lamp_is_dark";
    assert_eq!(told("execution(lamp_is_lit, lamp_count) {}", &[]), [inlined]);
    let twice = "advice a execution(lamp_is_dark) {} advice b returning(lamp_is_lit) {} \
                 advice c execution(lamp_is_lit) {}";
    assert_eq!(told(twice, &["lamp_count.isra.0"]), [inlined]);
    assert_eq!(
        told(twice, &["lamp_is_lit.isra.0"]),
        [format!("{inlined}; the compiler has some go to lamp_is_lit.isra.0")]
    );
    // Instructions are found where they were inlined, too.
    let access = "advice a function access(lamp.lit) AND target(l) { STORE_DATA1(l->lit); }";
    let functions = places(&woven(access));
    assert!(functions.contains(&"lamp_is_lit".to_owned()), "{functions:?}");
    assert_eq!(told(access, &[]), [""; 0]);
}

#[test]
fn a_function_of_which_there_are_only_clones_is_told_by_these() {
    let said = try_weave("execution(lamp_dim) {}").unwrap_err();
    assert!(said[0].contains("no function `lamp_dim`"), "{said:?}");
    assert!(
        said[0].ends_with(": the compiler made `lamp_dim.constprop.0` of it, with other arguments"),
        "{said:?}"
    );
    let said = try_weave("execution(lamp_dimm) {}").unwrap_err();
    assert!(said[0].ends_with("; inlined or renamed, or in a module that is not loaded?"), "{said:?}");
}

#[test]
fn each_instruction_that_touches_a_member_is_a_join_point() {
    let weaving =
        woven("access(packet.len) AND within_function(packet_weigh) AND target(p) { STORE_DATA1(p->len); }");
    assert_eq!(places(&weaving), ["packet_weigh+"; 3]);
    let sites = plan_sites(&weaving);
    // One program serves all: what differs is in the table.
    assert_eq!(weaving.domains[0].plan.programs.len(), 1);
    assert!(sites.iter().all(|site| site.places.len() == 1 && site.offset > 0));
    assert!(sites.iter().all(|site| site.places[0].add == 0 && !site.places[0].load));
    assert_eq!(
        weaving.domains[0].sites[0].file.as_deref().map(|file| file.ends_with("instruction.c")),
        Some(true)
    );
}

#[test]
fn function_hooks_have_the_source_line_at_which_the_function_begins() {
    let source = include_str!("instruction.c");
    let declared = source.lines().position(|line| line.contains("packet_weigh(struct packet")).unwrap();
    // Lines are counted from 1, and gcc puts a function's beginning at its brace.
    let begins = u32::try_from(declared + 2).unwrap();
    let weaving =
        woven("execution(packet_weigh) { STORE_DATA1(1); } returning(packet_weigh) { STORE_DATA1(2); }");
    assert_eq!(weaving.domains[0].sites.len(), 2);
    for site in &weaving.domains[0].sites {
        assert!(site.file.as_deref().is_some_and(|file| file.ends_with("instruction.c")), "{site:?}");
        assert_eq!(site.line, Some(begins), "{site:?}");
    }
}

#[test]
fn as_many_as_are_asked_for() {
    let text = |exact: &str, function: &str| {
        format!(
            "advice a {exact} access(packet.len) AND within_function({function}) AND target(p) {{ STORE_DATA1(p); }}"
        )
    };
    // Neither of two ways comes before the other, and the instruction behind both has one of them before it,
    // but not always the same.
    let every = woven(&text("every", "packet_weigh"));
    assert_eq!(counts(&every), (3, 3, 1));
    let function = woven(&text("function", "packet_weigh"));
    assert_eq!(places(&function), ["packet_weigh"]);
    assert_eq!(weaving_hook(&function), Hook::Entry);
    // Written where it was read, in a loop.
    let first = woven(&text("first", "queue_drain"));
    assert_eq!(places(&first), ["queue_drain+"]);
    assert_eq!(counts(&first), (2, 1, 1));
    // It is no parameter: its first instruction stands for the function.
    assert_eq!(places(&woven(&text("function", "queue_drain"))), ["queue_drain+"]);
}

fn weaving_hook(weaving: &Weaving) -> Hook {
    weaving.domains[0].plan.programs[0].hook
}

#[test]
fn what_lies_in_a_structure_has_its_own_address() {
    let weaving =
        woven("access(packet.len) AND within_function(queue_reset) AND target(p) { STORE_DATA1(p); }");
    let places = plan_sites(&weaving)[0].places.clone();
    // rdi holds the queue; the packet lies 16 bytes in it.
    assert_eq!(places, [VariablePlace { register: Some(14), add: 16, load: false }]);
}

/// Of two alternatives that an instruction is in, each has its own structure.
#[test]
fn a_target_is_the_structure_of_the_access_beside_it() {
    let weaving = woven(
        "(access(queue.spare) AND target(q) OR access(packet.len) AND target(p)) \
         AND within_function(queue_reset) { STORE_DATA1((unsigned long)p - (unsigned long)q); }",
    );
    let places = plan_sites(&weaving)[0].places.clone();
    let at = |add| VariablePlace { register: Some(14), add, load: false };
    assert_eq!(places, [at(0), at(16)]);

    // What lies at the same address has its own type, also where a function stands for its instructions.
    for exact in ["", "function "] {
        woven(&format!(
            "{exact}(access(wrapper.first) AND target(w)) AND (access(first.number) AND target(f)) \
             {{ STORE_DATA2(w->last, f->number); }}"
        ));
    }
}

/// Of two alternatives that give one name, the one counts that the instruction is in.
#[test]
fn a_name_is_given_by_the_alternative_that_selects() {
    let text = "(access(packet.len) AND target(x) OR access(packet.mark) AND local_var(fast, x)) \
                AND within_function(packet_weigh) { STORE_DATA1(x->len); }";
    assert!(!woven(text).domains[0].sites.is_empty());
}

/// An instruction that another alternative selects has no such name, and it is not taken for something else.
#[test]
fn a_name_of_another_alternative_is_not_there() {
    let text = "(access(packet.len) AND target(p) OR access(queue.count) AND local_var(queue, q)) \
                AND within_function(queue_drain) { STORE_DATA1((unsigned long)q); }";
    let weaving = woven(text);
    let domain = &weaving.domains[0];
    let missing = |reason: &str| reason.contains("has no variable `q`");
    assert!(!domain.sites.is_empty() && !domain.skipped.is_empty());
    assert!(domain.skipped.iter().all(|one| missing(&one.reason)), "{:?}", domain.skipped);
}

#[test]
fn what_is_to_be_absent_need_not_be_readable() {
    let of = |text: &str| {
        let text = format!("access(packet.%) AND within_function(packet_weigh) {text} {{ STORE_DATA1(1); }}");
        let weaving = woven(&text);
        let domain = &weaving.domains[0];
        assert!(domain.skipped.is_empty(), "{:?}", domain.skipped);
        domain.sites.len()
    };
    let (all, with) = (of(""), of("AND local_var(fast)"));
    assert!(0 < with && with < all, "{with} of {all}");
    assert_eq!(of("AND NOT local_var(fast)"), all - with);
}

/// What only the pointcut reads counts like what the body does.
#[test]
fn a_variable_that_only_a_condition_reads_leaves_out_functions_without_it() {
    let weaving = woven(
        "access(packet.len) AND within_function(packet_weigh, queue_drain) AND if(queue->count > 1) { STORE_DATA1(1); }",
    );
    let functions: Vec<_> = weaving.domains[0].sites.iter().map(|site| site.function.as_str()).collect();
    assert!(!functions.is_empty() && functions.iter().all(|name| *name == "queue_drain"), "{functions:?}");
}

#[test]
fn local_variables_are_there_by_their_names() {
    let weaving =
        woven("access(packet.next) AND within_function(queue_drain) { STORE_DATA2(queue, packet->len); }");
    let places = plan_sites(&weaving)[0].places.clone();
    assert_eq!(places.len(), 2);
    let renamed =
        "access(packet.next) AND within_function(queue_drain) AND local_var(packet, p) { STORE_DATA1(p); }";
    assert_eq!(plan_sites(&woven(renamed))[0].places.len(), 1);
    // Where no such variable is, there is no join point.
    let mistakes =
        try_weave("access(packet.len) AND local_var(device) { STORE_DATA1(device); }").unwrap_err();
    assert!(mistakes[0].contains("no join point"), "{mistakes:?}");
}

/// The kernel is told where they are from a function whose name no other has.
#[test]
fn functions_of_one_name_are_told_apart() {
    let weaving = woven("access(packet.mark, write) AND within_function(twin) { STORE_DATA1($pc$); }");
    let sites = &weaving.domains[0].sites;
    assert!(sites.len() == 2 && sites.iter().all(|site| site.function == "twin"), "{sites:?}");
    let told: Vec<_> = plan_sites(&weaving).into_iter().map(|site| (site.function, site.offset)).collect();
    assert!(told[0] != told[1] && told.iter().all(|(function, _)| function != "twin"), "{told:?}");
}

/// `packet_weigh` touches it too, and has no `queue`.
#[test]
fn functions_without_a_variable_that_others_have_are_left_out() {
    let weaving = woven(
        "access(packet.len) AND within_function(packet_weigh, queue_drain) { STORE_DATA1(queue->count); }",
    );
    let functions: Vec<_> = weaving.domains[0].sites.iter().map(|site| site.function.as_str()).collect();
    assert!(!functions.is_empty() && functions.iter().all(|name| *name == "queue_drain"), "{functions:?}");
    let skipped = &weaving.domains[0].skipped;
    assert!(skipped.iter().any(|one| one.reason.contains("has no variable `queue`")), "{skipped:?}");
}

#[test]
fn behind_an_instruction_is_a_join_point_where_nothing_else_leads_to_it() {
    let text = |when| {
        format!(
            "access(packet.len) AND within_function(queue_drain) AND target(p) {when} {{ STORE_DATA1(p->len); }}"
        )
    };
    let offsets =
        |weaving: &Weaving| weaving.domains[0].sites.iter().map(|site| site.offset).collect::<Vec<_>>();
    let (before, after) = (woven(&text("before")), woven(&text("after")));
    assert!(offsets(&before).len() >= offsets(&after).len());
    for at in offsets(&after) {
        assert!(offsets(&before).iter().any(|before| (1..16).contains(&(at - before))));
    }
    assert_eq!(offsets(&after).len() + after.domains[0].skipped.len(), offsets(&before).len());
    // A variable's place is known before the instruction.
    let mistakes =
        try_weave("access(packet.len) AND within_function(queue_drain) after { STORE_DATA1(queue); }");
    assert!(mistakes.unwrap_err()[0].contains("before the instruction only"));
}

#[test]
fn flows_go_by_what_is_accessed() {
    let text = "xflow f {\n\
                start access(packet.dev) AND within_function(packet_index);\n\
                transit access(packet.next) AND within_function(queue_drain) move queue to packet;\n\
                quit access(packet.len, write) AND within_function(queue_drain);\n}\n\
                access(packet.%) AND target(p) AND xflow(f, p, id) { STORE_DATA2($pc$, id); }";
    let weaving = woven(text);
    let clauses: Vec<_> = weaving.domains[0].sites.iter().map(|site| site.clause.as_str()).collect();
    for clause in ["f.start1", "f.transit1", "f.quit1", "x.aspect:6"] {
        assert!(clauses.contains(&clause), "{clause}: {clauses:?}");
    }
}

/// As in the paper's figure 4, where what is given is the request itself.
#[test]
fn a_request_is_a_key_by_what_it_says() {
    let crossing = |key: &str| {
        format!(
            "xflow f {{\n\
             start access(packet.mark) AND within_function(request_send);\n\
             transit access(xen_netif_tx_request.flags, write) xin_move netin from packet to {key};\n\
             transit access(xen_netif_tx_request.flags, read) xout_move netin from {key} to packet;\n}}"
        )
    };
    let weaving = woven(&crossing("tx"));
    let crossings = weaving.domains[0].sites.iter().filter(|site| site.carrier.is_some());
    assert_eq!(
        crossings.map(|site| (site.function.as_str(), site.clause.as_str())).collect::<Vec<_>>(),
        [("request_receive", "f.transit2"), ("request_send", "f.transit1")]
    );
    let mistakes = try_weave(&crossing("packet")).unwrap_err();
    assert!(mistakes[0].starts_with("3:"), "{mistakes:?}");
}

#[test]
fn mistakes_are_told_where_they_are() {
    for (text, wanted) in [
        ("access(packet.lne) {}", "1:8: no instruction is known to touch `lne` of `packet`"),
        ("access(pakket.len) {}", "1:8: no instruction is known to touch a `pakket`"),
        ("access(packet.len) AND target(p) { STORE_DATA1(p->lenn); }", "no member named 'lenn'"),
    ] {
        let mistakes = try_weave(text).unwrap_err();
        assert!(mistakes[0].contains(wanted), "{text}: {mistakes:?}");
    }
}

#[test]
fn a_kernel_may_lack_functions_that_another_has() {
    let made = &*MADE;
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("other.c");
    // The function by the name is not here; nor is any by the pattern.
    std::fs::write(
        &source,
        "struct packet { void *next; int len; };\nint other(struct packet *p) { return p->len; }\n",
    )
    .unwrap();
    let types = folder.path().join("types.o");
    let program = folder.path().join("program.o");
    let (clang, mut gcc) = (find_clang().unwrap(), Command::new("gcc"));
    let source = source.to_str().unwrap();
    compile(Command::new(clang).args(["-target", "bpf", "-g", "-O0", "-c"]), &[source], &types);
    compile(gcc.args(["-O2", "-g", "-fcf-protection=none", "-c"]), &[source], &program);
    let index = Program { file: Some(program), base: None, btf_only: false }.make().unwrap();
    let (kernel, code) = (Kernel::from_file(&types).unwrap(), [CodeIndex { module: None, index }]);
    let woven = |text: &str| {
        let aspects = parse(vec![Source { name: "x.aspect".into(), text: text.into() }]).unwrap();
        let host = Domain {
            name: "host".into(),
            role: Role::Host,
            number: 1,
            kernel: &made.kernel,
            code: &made.code,
        };
        let guest = Domain { name: "vm1".into(), role: Role::Guest, number: 2, kernel: &kernel, code: &code };
        let cache = tempfile::tempdir().unwrap();
        let weaving = weave(&aspects, &[guest, host], &options(&cache), &Library::EMPTY);
        let weaving = weaving.map_err(|errors| errors.into_iter().map(|e| e.message).collect::<Vec<_>>());
        weaving.map(|weaving| weaving.domains.iter().map(|of| of.sites.len()).collect::<Vec<_>>())
    };
    for within in ["queue_%", "queue_drain", "queue_drain?"] {
        let found = woven(&format!("access(packet.len) AND within_function({within}) {{ STORE_DATA1(1); }}"));
        let found = found.unwrap_or_else(|errors| panic!("{within}: {errors:?}"));
        assert!(found[0] == 0 && found[1] > 0, "{within}: {found:?}");
    }
    let nowhere = woven("access(packet.len) AND within_function(queue_drian) { STORE_DATA1(1); }");
    let said = nowhere.unwrap_err();
    assert!(said.len() == 1 && said[0].contains("there is no function `queue_drian`"), "{said:?}");

    // What is wrong is the parameter of a function that one of them has.
    let said = woven("execution(packet_w%) AND local_var(nothing) { STORE_DATA1(1); }").unwrap_err();
    assert!(said.len() == 1 && said[0].contains("has no parameter `nothing`"), "{said:?}");
}

#[test]
fn code_is_needed_where_instructions_of_the_domain_are_meant() {
    let peer = |name: &str| Peer { name: name.into(), role: Role::of(name) };
    let peers = [peer("host"), peer("vm1"), peer("vm2")];
    let needing = |text: &str| {
        let aspects = parse(vec![Source { name: "x.aspect".into(), text: text.into() }]).unwrap();
        let needing = peers.iter().filter(|peer| needs_code(&aspects, &peers, peer));
        needing.map(|peer| peer.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(needing("execution(f) { STORE_DATA1(1); }"), [""; 0]);
    assert_eq!(needing("access(packet.len) { STORE_DATA1(1); }"), ["host", "vm1", "vm2"]);
    assert_eq!(needing("access(packet.len)@vm1 { STORE_DATA1(1); }"), ["vm1"]);
    assert_eq!(needing("access(packet.len)@guest { STORE_DATA1(1); }"), ["vm1", "vm2"]);

    // And it is done without.
    let text = "advice a access(packet.len)@vm1 { STORE_DATA1(1); } advice b execution(packet_weigh) { STORE_DATA1(2); }";
    let aspects = parse(vec![Source { name: "x.aspect".into(), text: text.into() }]).unwrap();
    let domain = |number, name: &str, code| Domain {
        name: name.into(),
        role: Role::of(name),
        number,
        kernel: &MADE.kernel,
        code,
    };
    let cache = tempfile::tempdir().unwrap();
    let weaving = weave(
        &aspects,
        &[domain(1, "host", &[]), domain(2, "vm1", &MADE.code)],
        &options(&cache),
        &Library::EMPTY,
    )
    .unwrap();
    assert_eq!(weaving.domains[0].sites.len(), 1);
    assert!(weaving.domains[1].sites.len() > 2);
}
