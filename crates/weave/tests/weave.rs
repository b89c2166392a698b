//! Weaving into the running kernel's type information: nothing is loaded, nothing attached.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::sync::LazyLock;

use xweave_aspect::{Aspects, Severity, Source, parse};
use xweave_code::Kernel;
use xweave_weave::{
    CodeError, Domain, KernelFiles, Library, Options, Role, SiteInfo, Weaving, refusal, resolve,
    unseen_calls, weave,
};
use xweave_wire::plan::Hook;

static LIVE: LazyLock<Kernel> = LazyLock::new(|| Kernel::live().unwrap());

fn aspects(text: &str) -> Aspects {
    let source = Source { name: "dir/x.aspect".into(), text: text.into() };
    parse(vec![source]).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

/// A host, and two guests that run the same kernel.
fn domains() -> [Domain<'static>; 3] {
    let domain =
        |number, name: &str, role| Domain { name: name.into(), role, number, kernel: &LIVE, code: &[] };
    [domain(1, "box", Role::Host), domain(2, "vm1", Role::Guest), domain(3, "vm2", Role::Guest)]
}

fn weave_text(text: &str, cache: &Path) -> Result<Weaving, Vec<String>> {
    let options = Options {
        first_site: 1,
        buffer: 4096,
        flow_table: 64,
        cache: cache.to_owned(),
        ..Options::default()
    };
    weave(&aspects(text), &domains(), &options, &Library::EMPTY)
        .map_err(|errors| errors.iter().map(|e| format!("{}:{}: {}", e.line, e.column, e.message)).collect())
}

fn diagnostics(text: &str) -> Vec<xweave_aspect::Diagnostic> {
    let options = Options {
        first_site: 1,
        buffer: 4096,
        flow_table: 64,
        cache: tempfile::tempdir().unwrap().path().to_owned(),
        ..Options::default()
    };
    weave(&aspects(text), &domains(), &options, &Library::EMPTY).err().unwrap_or_default()
}

fn mistakes(text: &str) -> Vec<String> {
    weave_text(text, tempfile::tempdir().unwrap().path()).err().unwrap_or_default()
}

/// Where a clause is woven: domain and function, `>` for the return.
fn places(text: &str) -> Vec<String> {
    let resolution = resolve(&aspects(text), &domains(), 1).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let mut places = Vec::new();
    for domain in resolution.domains {
        places.extend(domain.sites.iter().map(|site: &SiteInfo| {
            let hook = if site.hook == Hook::Return { ">" } else { "" };
            format!("{} {hook}{}", domain.domain, site.function)
        }));
    }
    places
}

#[test]
fn what_programs_call_before_their_guard_is_not_woven() {
    let said = mistakes("execution(bpf_get_current_task@vm1) {}");
    assert!(said[0].contains("entry of `bpf_get_current_task` cannot be hooked"), "{said:?}");
    assert!(said[0].contains("before they can tell that they run inside each other"), "{said:?}");
    assert!(mistakes("returning(bpf_this_cpu_ptr@vm1) {}")[0].contains("return from `bpf_this_cpu_ptr`"));
    let all = aspects("execution(bpf_get_current_%@vm1, percpu_array_map_lookup_elem?@vm1) {}");
    let resolution = resolve(&all, &domains(), 1).unwrap();
    let domain = &resolution.domains[1];
    assert!(domain.sites.iter().any(|site| site.function == "bpf_get_current_comm"));
    let skipped: Vec<_> = domain.skipped.iter().map(|skipped| skipped.function.as_str()).collect();
    assert_eq!(skipped, ["bpf_get_current_task", "percpu_array_map_lookup_elem"]);
}

#[test]
fn pointcuts_select_domains_and_hooks() {
    assert_eq!(places("execution(vfs_read@vm1) {}"), ["vm1 vfs_read"]);
    assert_eq!(places("execution(vfs_read@host) {}"), ["box vfs_read"]);
    assert_eq!(places("execution(vfs_read@guest) after {}"), ["vm1 >vfs_read", "vm2 >vfs_read"]);
    assert_eq!(
        places("returning(vfs_read@box, vfs_write@box) OR execution(vfs_read)@box {}"),
        ["box vfs_read", "box >vfs_read", "box >vfs_write"]
    );
    assert_eq!(
        places("execution(vfs_rea%@vm1) AND NOT execution(vfs_read) {}"),
        ["vm1 vfs_readlink", "vm1 vfs_readv"]
    );
    assert_eq!(places("execution(vfs_read@vm2, no_such_function?@vm2) {}"), ["vm2 vfs_read"]);
}

#[test]
fn a_program_holds_all_that_is_woven_at_its_join_points() {
    let text = "xflow f {\n\
                start execution(vfs_read@box) select file;\n\
                transit returning(vfs_read@box) move file to $return$;\n\
                quit execution(vfs_write@box, vfs_read@box) select file;\n}\n\
                advice a execution(vfs_read@box, vfs_write@box) AND xflow(f, file, id) {\n\
                \tSTORE_DATA2(file->f_mode, id);\n\tSTORE_DATA1($pc$);\n}\n\
                advice b execution(vfs_getattr@box, vfs_utimes@box) { STORE_DATA1(path->dentry->d_inode->i_ino); }";
    let folder = tempfile::tempdir().unwrap();
    let weaving = weave_text(text, folder.path()).unwrap();
    let plan = &weaving.domains[0].plan;
    let shape: Vec<_> = plan
        .programs
        .iter()
        .map(|program| {
            let sites = program.sites.iter().map(|site| (site.function.as_str(), site.site, site.clauses));
            (program.hook, sites.collect::<Vec<_>>())
        })
        .collect();
    // What ends flows first, what begins them last; one program for the two with the same shape.
    assert_eq!(
        shape,
        [
            (Hook::Entry, vec![("vfs_write", 1, 2)]),
            (Hook::Return, vec![("vfs_read", 3, 1)]),
            (Hook::Entry, vec![("vfs_getattr", 4, 1), ("vfs_utimes", 5, 1)]),
            (Hook::Entry, vec![("vfs_read", 6, 3)]),
        ]
    );
    let clauses: Vec<_> = weaving.domains[0].sites.iter().map(|site| site.clause.as_str()).collect();
    assert_eq!(clauses, ["a", "f.quit1", "f.transit1", "b", "b", "f.start1", "a", "f.quit1"]);
    assert_eq!(plan.programs[0].origin, "dir/x.aspect:6 a, dir/x.aspect:4 f.quit1");
    assert_eq!(plan.objects[0][..4], *b"\x7fELF");
    for program in &plan.programs {
        let function = LIVE.function(&program.sites[0].function).unwrap();
        assert_eq!(function.btf_id, program.sites[0].btf_id);
    }
    let guest = &weaving.domains[1];
    assert!(guest.plan.programs.is_empty() && guest.plan.objects.is_empty());

    // The second time it comes from the cache, where object and messages are one file, with nothing left behind.
    let files = || {
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect::<Vec<_>>()
    };
    assert_eq!(files().len(), 1, "{:?}", files());
    assert_eq!(weave_text(text, folder.path()).unwrap().domains[0].plan, *plan);
}

#[test]
fn why_packets_are_dropped_is_known_in_the_kernels_words_where_a_flow_asks() {
    let xflow = |end: &str| {
        format!(
            "xflow f {{ start execution(ip_rcv@box) select skb; quit tracepoint(skb:kfree_skb)@box {end} }}"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let asked = weave_text(&xflow("action { flow_drop(f, skb, reason, location); }"), folder.path()).unwrap();
    let reasons = &asked.domains[0].drop_reasons;
    assert!(reasons.iter().any(|reason| reason.name == "NO_SOCKET"), "{reasons:?}");
    assert!(reasons.iter().all(|reason| !reason.name.starts_with("SKB_DROP")), "{reasons:?}");
    assert!(!asked.domains[0].plan.objects.is_empty() && asked.domains[1].drop_reasons.is_empty());
    let plain = weave_text(&xflow("select skb;"), folder.path()).unwrap();
    assert!(plain.domains[0].drop_reasons.is_empty());
}

#[test]
fn functions_that_do_not_take_all_their_calls_are_told() {
    let text = "advice a execution(vfs_read@box) {} advice b returning(vfs_read@box) {} \
                advice c execution(vfs_write@box, vfs_open@box) {}";
    let resolution = resolve(&aspects(text), &domains(), 1).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let symbols =
        ["vfs_read", "vfs_read.part.0", "vfs_read.constprop.0.isra.0", "vfs_write.cold", "vfs_fsync.part.0"];
    let told = |woven| {
        let said = unseen_calls::diagnostics(woven, symbols.into_iter()).into_iter();
        said.map(|of| (of.severity, of.message)).collect::<Vec<_>>()
    };
    let message = "box: not all calls of vfs_read are seen: the compiler has some go to \
                   vfs_read.constprop.0.isra.0; of some only the beginning may be inlined, \
                   which calls vfs_read.part.0";
    assert_eq!(told(&resolution.domains[0]), [(Severity::Warning, message.to_owned())]);
    assert_eq!(told(&resolution.domains[1]), [], "it is not woven there");
}

#[test]
fn the_symbols_of_a_kernel_are_those_of_its_file_and_not_of_its_types() {
    // Any program that is not stripped has a function with this name.
    let program = std::env::current_exe().unwrap();
    let symbols = KernelFiles::named(program.to_str().unwrap()).symbols();
    assert!(symbols.iter().any(|name| name == "main"), "{symbols:?}");
    assert_eq!(KernelFiles::named("/sys/kernel/btf").symbols(), [""; 0]);
    assert_eq!(KernelFiles::named("/sys/kernel/btf/vmlinux").symbols(), [""; 0]);
}

#[test]
fn mistakes_are_told_at_the_users_own_place() {
    assert_eq!(
        mistakes("execution(vfs_read@box)\n{\n    u64 n = file->f_mode;\n    n += nmae + 1;\n}"),
        ["4:10: use of undeclared identifier 'nmae'"]
    );
    assert_eq!(
        mistakes("xflow f {\n  start execution(vfs_read@box)\n    select file->f_mod;\n}"),
        ["3:18: no member named 'f_mod' in 'struct file'"]
    );
    assert_eq!(
        mistakes("execution(vfs_read@box) AND if(count >\n    cuont) { f(); }"),
        [
            "2:5: use of undeclared identifier 'cuont'; did you mean 'count'?",
            "2:14: advice cannot call `f`: it is no function of BPF or of the prelude",
        ]
    );
    let release = LIVE.release();
    assert_eq!(
        mistakes("execution(vfs_raed@vm1) {}"),
        [format!(
            "1:11: no function `vfs_raed` in the type information (BTF) of domain `vm1`, kernel {release}; \
             inlined or renamed, or in a module that is not loaded?"
        )]
    );
    // Of many clauses that mean it, the first.
    let twice =
        diagnostics("execution(vfs_raed@vm1) {}\nreturning(vfs_raed@vm1) {}\nexecution(vfs_raed@vm1) {}");
    let [once] = &*twice else { panic!("{twice:?}") };
    assert_eq!(once.line, 1);
    assert!(once.help.as_ref().is_some_and(|help| help.ends_with("; the same in lines 2, 3")), "{once:?}");
    assert_eq!(
        mistakes("execution(vfs_read@vm3) {}"),
        ["1:11: `x.aspect:1` is woven nowhere: no domain is called `vm3` (there is `box`, `vm1`, `vm2`)"]
    );
    assert_eq!(
        mistakes("advice a execution(no_such_%) {}"),
        [format!(
            "1:20: no function matches `no_such_%` in the type information (BTF) of domain `box`, kernel {release}"
        )]
    );
    assert_eq!(
        mistakes("returning(fput@box) { STORE_DATA1($return$); }"),
        [format!("1:35: `fput` returns nothing (domain `box`, kernel {release})")]
    );
}

#[test]
fn what_the_compiler_warns_of_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let weaving =
            weave_text("execution(vfs_read@box) { int *p = file; STORE_DATA1(p); }", folder.path()).unwrap();
        assert_eq!(weaving.warnings.len(), 1);
        assert!(weaving.warnings[0].message.contains("incompatible pointer types"));
    }
    let weaving = weave_text("execution(vfs_read@vm1) { STORE_DATA1(count); }", folder.path()).unwrap();
    assert!(weaving.warnings.is_empty());
}

/// The library's flow through two kernels of the folders that `XWEAVE_TEST_KERNELS` lists, host and
/// guest: each with `vmlinux.btf` and modules.
#[test]
fn the_library_is_woven() {
    for folder in
        std::env::var("XWEAVE_TEST_KERNELS").unwrap_or_default().split(':').filter(|f| !f.is_empty())
    {
        let folder = Path::new(folder);
        let mut kernel = Kernel::from_file(&folder.join("vmlinux.btf")).unwrap();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "ko") {
                kernel.add_module_file(&path).unwrap();
            }
        }
        let aspects = parse(vec![xweave_aspect::library("virtio-net").unwrap()]).unwrap();
        let domain =
            |number, name: &str, role| Domain { name: name.into(), role, number, kernel: &kernel, code: &[] };
        let domains = [domain(1, "host", Role::Host), domain(2, "vm1", Role::Guest)];
        let cache = tempfile::tempdir().unwrap();
        let options = Options {
            first_site: 1,
            buffer: 4096,
            flow_table: 64,
            cache: cache.path().to_owned(),
            ..Options::default()
        };
        let weaving = weave(&aspects, &domains, &options, &Library::EMPTY).unwrap_or_else(|errors| {
            panic!("{}", errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        assert!(weaving.warnings.is_empty(), "{}", weaving.warnings[0]);
        for woven in &weaving.domains {
            assert!(woven.sites.len() > 10);
            if let Some(save) = std::env::var_os("XWEAVE_TEST_SAVE") {
                let release = folder.file_name().unwrap().to_string_lossy();
                let name = format!("{release}-{}.o", woven.domain);
                std::fs::write(Path::new(&save).join(name), &woven.plan.objects[0]).unwrap();
            }
        }
    }
}

/// All that is said of a mistake.
fn said(text: &str) -> String {
    let options = Options { first_site: 1, buffer: 4096, flow_table: 64, ..Options::default() };
    let cache = tempfile::tempdir().unwrap();
    let options = Options { cache: cache.path().to_owned(), ..options };
    weave(&aspects(text), &domains()[..1], &options, &Library::EMPTY).unwrap_err()[0].to_string()
}

#[test]
fn a_kernel_function_in_advice_is_called_that() {
    assert_eq!(
        said("advice a execution(vfs_read) {\n    kfree(buf);\n}"),
        "error: advice cannot call `kfree`: it is no function of BPF or of the prelude
 --> dir/x.aspect:2:5
  |
2 |     kfree(buf);
  |     ^
  = help: kernel functions cannot be called from advice, which is a BPF program: read what is needed with READ(…), or \
         call a BPF helper (bpf_…)"
    );
}

#[test]
fn a_parameter_that_is_not_there_is_answered_with_those_that_are() {
    let release = LIVE.release();
    for word in ["arg", "local_var"] {
        let text = format!("advice a execution(vfs_read) AND {word}(cuont, p) {{ STORE_DATA1(p); }}");
        let said = said(&text);
        assert!(
            said.contains(&format!("error: `vfs_read` has no parameter `cuont` (kernel {release})")),
            "{said}"
        );
        assert!(
            said.contains("= help: the parameters of `vfs_read` are `file`, `buf`, `count`, `pos`"),
            "{said}"
        );
    }
}

#[test]
fn the_verifier_is_told_in_the_users_own_line() {
    let text = "advice a execution(vfs_read) {\n    u64 n = count;\n    STORE_DATA2(n, buf[0]);\n}";
    let cache = tempfile::tempdir().unwrap();
    let options = Options {
        first_site: 1,
        buffer: 4096,
        flow_table: 64,
        cache: cache.path().to_owned(),
        ..Options::default()
    };
    let aspects = aspects(text);
    let woven = weave(&aspects, &domains()[..1], &options, &Library::EMPTY).unwrap().domains.remove(0);
    let program = &woven.plan.programs[0].name;
    let told = |nth: usize| {
        let said = format!(
            "could not load the compiled aspects: Permission denied (os error 13)\n; \n{nth}: (71) r1 = *(u8 *)(r1 +0)\n\
             R1 invalid mem access 'scalar'\nprocessed 406 insns (limit 1000000) max_states_per_insn 1\n\
             -- END PROG LOAD LOG --\nlibbpf: prog '{program}': failed to load: -EACCES\n\
             libbpf: failed to load object 'xweave'"
        );
        refusal(&aspects, &woven, "6.1.0", &said).unwrap()
    };
    // An instruction that is before the user's, or of no line, is told in the clause's.
    let lines: std::collections::BTreeSet<u32> = (0..2_000).map(|nth| told(nth).line).collect();
    assert!(lines.contains(&3) && lines.iter().all(|line| (1..=3).contains(line)), "{lines:?}");
    let of_read = (0..2_000).map(told).find(|told| told.line == 3).unwrap();
    let shown = of_read.to_string();
    assert!(
        shown.starts_with(
            "error: the verifier of domain `box` (kernel 6.1.0) refuses `a` at `vfs_read`: R1 invalid mem access \
             'scalar'\n --> dir/x.aspect:3:"
        ),
        "{shown}"
    );
    assert!(
        shown.contains("3 |     STORE_DATA2(n, buf[0]);") && shown.contains("READ(p->member)"),
        "{shown}"
    );
    // What is not of the plan is an agent's own affair.
    let strange = "the kernel refused the program of f4: R1 is no pointer\nlibbpf: prog 'xw9_f4': failed";
    assert_eq!(refusal(&aspects, &woven, "6.1.0", strange), None);
}

#[test]
fn a_kernel_is_named_by_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(KernelFiles::named("live"), KernelFiles::Live);
    let files = KernelFiles::named("vmlinux,a.ko,b-c.ko");
    let expected = ["vmlinux", "a.ko", "b-c.ko"].map(Path::new);
    assert!(files.paths().eq(expected), "{files:?}");
    let types = KernelFiles::named(path);
    assert_eq!(types, KernelFiles::Folder(path.into()));
    let code = types.code(folder.path(), folder.path(), &|_| ());
    assert!(matches!(code, Err(CodeError::OnlyTypes(of)) if of == path));
    // A copy of `/sys/kernel/btf`.
    std::fs::copy("/sys/kernel/btf/vmlinux", folder.path().join("vmlinux")).unwrap();
    assert!(types.kernel().unwrap().function("vfs_read").is_some());
}

#[test]
fn clauses_are_in_the_order_of_the_files() {
    let text = "advice b execution(vfs_write@vm2) {}\nadvice a execution(vfs_read@vm1, vfs_read@vm2) {}";
    let resolution = resolve(&aspects(text), &domains(), 1).unwrap_or_else(|errors| panic!("{}", errors[0]));
    let told = resolution.clauses().into_iter().map(|clause| {
        assert_eq!((clause.counts.every, clause.sites.len()), (1, 1));
        format!("{}:{} {} {}", clause.line, clause.name, clause.domain, clause.sites[0].place())
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, ["1:b vm2 vfs_write", "2:a vm1 vfs_read", "2:a vm2 vfs_read"]);
}

#[test]
fn a_function_of_a_module_that_is_not_loaded_is_told_with_what_to_load() {
    let image = Kernel::new("6.1", &std::fs::read("/sys/kernel/btf/vmlinux").unwrap()).unwrap();
    let bare =
        |number, name: &str, role| Domain { name: name.into(), role, number, kernel: &image, code: &[] };
    let domains = [bare(1, "box", Role::Host)];
    if image.function("vhost_get_vq_desc").is_some() {
        eprintln!("SKIPPED: this kernel has vhost in its image");
        return;
    }
    let text = "returning(vhost_get_vq_desc@host) {}\nexecution(vhost_get_vq_desc@host) {}";
    let Err(errors) = resolve(&aspects(text), &domains, 1) else { panic!("it is woven") };
    let [error] = &*errors else { panic!("{errors:?}") };
    assert!(error.message.ends_with("; it is in module `vhost`, which is not loaded"), "{}", error.message);
    assert_eq!(error.help.as_deref(), Some("load it in `box` (modprobe vhost_net); the same in line 2"));
}
