//! Generated types against the compiler: every structure as large, and every member where, BTF says.
//!
//! Checks the running kernel, and those of the BTF files that `XWEAVE_TEST_BTF` lists (separated by
//! colons).

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use xweave_code::btf::{Btf, Type};
use xweave_code::{Kernel, TypeRef};

const BASE: &str = "typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;\n";

fn clang() -> &'static str {
    let works = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    ["clang", "clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19"]
        .into_iter()
        .find(works)
        .expect("apt install clang")
}

/// Compiles for BPF, or says what is wrong.
fn compile(text: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("types.c");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(clang())
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-Wno-unused"])
        .args(["-Wno-address-of-packed-member", "-c", "-o"])
        .arg(folder.path().join("types.o"))
        .arg(&file)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<_> = errors.lines().take(20).collect();
    assert!(output.status.success(), "{}", errors.join("\n"));
}

/// Kernels to check, each with its raw type information.
fn kernels() -> Vec<(Kernel, Btf)> {
    let listed = std::env::var("XWEAVE_TEST_BTF").unwrap_or_default();
    let files = listed.split(':').filter(|file| !file.is_empty());
    let files = files.chain(["/sys/kernel/btf/vmlinux"]).map(Path::new);
    files.map(|file| (Kernel::from_file(file).unwrap(), Btf::open(file, None).unwrap())).collect()
}

/// Every structure with a tag, every member's name, and a static assertion for each.
fn assertions(kernel: &Kernel, btf: &Btf) -> (Vec<TypeRef>, HashSet<String>, String) {
    let (mut roots, mut identifiers, mut text) = (Vec::new(), HashSet::new(), String::new());
    // Two drivers may give different structures one tag; then either may be meant.
    let mut times: HashMap<_, usize> = HashMap::new();
    let records = || {
        btf.ids().filter_map(|id| match btf.get(id) {
            Type::Record(record) => Some(record),
            _ => None,
        })
    };
    records().for_each(|record| *times.entry(record.name).or_default() += 1);
    for record in records() {
        if record.name.is_empty() || times[record.name] > 1 {
            continue;
        }
        let (kind, name) = (record.kind.word(), record.name);
        roots.push(kernel.record(record.kind, name).unwrap());
        writeln!(text, "_Static_assert(sizeof({kind} {name}) == {}, \"size\");", record.size).unwrap();
        for member in record.members().filter(|member| !member.name.is_empty()) {
            identifiers.insert(member.name.to_owned());
            if member.bits == 0 {
                let (member, offset) = (member.name, member.bit_offset / 8);
                writeln!(
                    text,
                    "_Static_assert(__builtin_offsetof({kind} {name}, {member}) == {offset}, \"offset\");"
                )
                .unwrap();
            }
        }
    }
    (roots, identifiers, text)
}

#[test]
fn sizes_and_offsets_are_the_kernels() {
    for (kernel, btf) in kernels() {
        let (roots, identifiers, text) = assertions(&kernel, &btf);
        let identifiers = identifiers.iter().map(String::as_str).collect();
        compile(&format!("{BASE}{}{text}", kernel.declare(&roots, &identifiers)));
    }
}

/// A bit-field is where it is if writing it changes just those bits. Runs on this machine, whose
/// compiler lays out packed structures as that for BPF does.
#[test]
fn bit_fields_are_the_kernels() {
    for (kernel, btf) in kernels() {
        let mut checks = String::new();
        let (mut roots, mut identifiers) = (Vec::new(), HashSet::new());
        for id in btf.ids() {
            let Type::Record(record) = btf.get(id) else { continue };
            if !["sk_buff", "tcphdr", "iphdr", "task_struct", "tcp_sock", "sock"].contains(&record.name) {
                continue;
            }
            let (kind, name) = (record.kind.word(), record.name);
            roots.push(kernel.record(record.kind, name).unwrap());
            for member in record.members().filter(|member| member.bits != 0 && !member.name.is_empty()) {
                identifiers.insert(member.name);
                let (field, at, bits) = (member.name, member.bit_offset, member.bits);
                writeln!(
                    checks,
                    "{{ static {kind} {name} x; x.{field} = -1;\n\
                     if (!only((u8 *)&x, sizeof(x), {at}, {bits})) {{ puts(\"{name}.{field}\"); bad = 1; }} }}"
                )
                .unwrap();
            }
        }
        assert!(identifiers.contains("ihl") && identifiers.len() > 20, "{identifiers:?}");
        let only = "static int only(const u8 *bytes, long size, long at, long bits)\n{\n\
                    for (long i = 0; i < size * 8; i++)\n\
                    if ((bytes[i / 8] >> i % 8 & 1) != (i >= at && i < at + bits)) return 0;\nreturn 1;\n}\n";
        let types = kernel.declare(&roots, &identifiers);
        assert!(!types.contains("preserve_access_index"), "relocated bit-fields");
        let text = format!(
            "int puts(const char *);\n{BASE}{types}{only}int main(void) {{ int bad = 0;\n{checks}return bad; }}"
        );
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("bits.c"), folder.path().join("bits"));
        std::fs::write(&source, text).unwrap();
        let built = Command::new(clang()).arg("-w").arg("-o").arg(&program).arg(&source).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let run = Command::new(&program).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
    }
}

#[test]
fn only_what_is_named_is_declared() {
    let kernel = Kernel::live().unwrap();
    let function = kernel.function("netif_rx").or_else(|| kernel.function("kfree_skb_partial")).unwrap();
    let skb = function.params[0].type_;
    assert_eq!(kernel.variable(skb, "skb").unwrap(), "struct sk_buff *skb");

    let text = kernel.declare(&[skb], &HashSet::from(["len", "dev", "name", "gfp_t", "GRO_NORMAL"]));
    assert!(text.lines().count() < 400, "{text}");
    for piece in
        ["struct sk_buff {", "unsigned int len;", "struct net_device *dev;", "char name[16];", "gfp_t;"]
    {
        assert!(text.contains(piece), "{piece}: {text}");
    }
    assert!(!text.contains("truesize"));

    let nothing = kernel.declare(&[skb], &HashSet::new());
    assert_eq!(nothing.lines().count(), 4, "{nothing}");
}
