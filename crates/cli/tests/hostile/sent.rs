//! What domains send of their kernels: it spoils nothing but their own plans, and takes nothing over.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sha2::{Digest, Sha256};
use xweave_synthetic::agent::{Done, Moment, Script, answering, by};
use xweave_wire::message::{Reply, Request};

use crate::stage::{Domain, record_with, types};

const PATIENCE: Duration = Duration::from_secs(60);

/// Counts what it is asked of its types, and answers what is asked of its code.
fn counting(types: Arc<AtomicUsize>, code: Vec<u8>) -> impl Script {
    answering(move |request, _| match request {
        Request::Btf(_) => {
            types.fetch_add(1, Ordering::Relaxed);
            None
        }
        Request::Code(_) => Some(Reply::Code(code.clone())),
        _ => None,
    })
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A domain that says its types have this hash, and sends these; and how often it was asked for them.
fn domain(name: &'static str, said: &[u8], sent: &[u8]) -> (Domain, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut domain = Domain::new(name, counting(Arc::clone(&asked), Vec::new()));
    domain.facts.btf_sha256 = hash(said);
    domain.facts.build_id = "ab".repeat(20);
    domain.btf = sent.to_vec();
    (domain, asked)
}

/// What is kept, each with the name that says what it is.
fn assert_kept_by_content(cache: &Path, count: usize) {
    let entries: Vec<_> = fs::read_dir(cache.join("btf")).unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), count);
    for entry in entries {
        assert_eq!(entry.file_name().to_str(), Some(&*hash(&fs::read(entry.path()).unwrap())));
    }
}

#[test]
fn types_under_another_kernels_hash_serve_nobody() {
    let cache = tempfile::tempdir().unwrap();
    let (own, victims) =
        (types("int length; struct item *next;"), types("long other; int length; struct item *next;"));
    let (host, _) = domain("host", &own, &own);
    let (liar, _) = domain("vm1", &victims, &own);
    let ended = record_with(vec![host, liar], "--duration 1s", cache.path()).end_within(PATIENCE);
    ended.said(0, &["10000 records of host, vm1"]);
    assert_kept_by_content(cache.path(), 1);

    // Whose hash it was is asked, for what was kept is something else; the host is known by now.
    let (host, host_asked) = domain("host", &own, &own);
    let (victim, asked) = domain("vm2", &victims, &victims);
    let ended = record_with(vec![host, victim], "--duration 1s", cache.path()).end_within(PATIENCE);
    ended.said(0, &["10000 records of host, vm2"]);
    assert_eq!((host_asked.load(Ordering::Relaxed), asked.load(Ordering::Relaxed)), (0, 1));
    assert_kept_by_content(cache.path(), 2);
}

#[test]
fn types_that_cannot_be_read_are_not_kept() {
    let cache = tempfile::tempdir().unwrap();
    let (host, _) = domain("host", b"", &types("int length; struct item *next;"));
    let (guest, _) = domain("vm1", b"none", b"none");
    let ended = record_with(vec![host, guest], "--duration 1s", cache.path()).end_within(PATIENCE);
    ended.said(1, &["domain vm1", "no usable type information"]);
    assert!(!cache.path().join("btf").exists());
}

/// Numbers without order, the same each time.
fn scattered(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    }
}

#[test]
fn damaged_types_are_an_error_or_types() {
    let whole = types("int length; struct item *next;");
    for seed in 1..=30 {
        let mut next = scattered(seed);
        let mut btf = whole.clone();
        for _ in 0..=next(4) {
            let at = next(btf.len());
            btf[at] = [0, 1, 0x7f, 0xff, btf[at] ^ 1 << next(8)][next(5)];
        }
        // The header's lengths and offsets are where it hurts (include/uapi/linux/btf.h).
        if seed % 3 == 0 {
            let at = 4 + next(20);
            btf[at] = btf[at].wrapping_add(u8::try_from(next(255)).unwrap());
        }
        let (host, _) = domain("host", b"", &whole);
        let (guest, _) = domain("vm1", b"", &btf);
        let ended =
            record_with(vec![host, guest], "--duration 100ms", Path::new("cache")).end_within(PATIENCE);
        let orderly = matches!(ended.status, Some(0..=2)) && !ended.output.contains("xweave: thread");
        assert!(orderly, "seed {seed}: {:?}\n{}", ended.status, ended.output);
        ended.within_budget();
        ended.wrote_nothing_else();
    }
}

/// So many times 8 MiB of zeros, as `xweave_code::image::LiveCode` is packed: lz4's legacy frame.
fn bomb(blocks: usize) -> Vec<u8> {
    const REPEATED: usize = (8 << 20) - 1 - 5;
    // One literal and where it is repeated from; how often, in steps of 255; five literals.
    let mut block = vec![0x1f, 0, 1, 0];
    block.extend(vec![0xff; (REPEATED - 19) / 255]);
    block.push(u8::try_from((REPEATED - 19) % 255).unwrap());
    block.extend([0x50, 0, 0, 0, 0, 0]);
    let mut frame = vec![2, 0x21, 0x4c, 0x18];
    for _ in 0..blocks {
        frame.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
        frame.extend(&block);
    }
    frame
}

#[test]
fn code_that_becomes_far_larger_goes_off_nowhere() {
    for blocks in [60, 1000] {
        let whole = types("int length; struct item *next;");
        let (host, _) = domain("host", b"", &whole);
        let script = counting(Arc::default(), bomb(blocks));
        let mut guest = Domain::new("vm1", script);
        guest.btf = whole;
        let arguments = "--duration 100ms -e access(item.length)@vm1{STORE_DATA1(1);}";
        let ended = record_with(vec![host, guest], arguments, Path::new("cache")).end_within(PATIENCE);
        ended.said(1, &["domain vm1"]);
        ended.within_budget();
        ended.wrote_nothing_else();
    }
}

/// A file that says it is of that kernel: a program whose structure is called as the kernel's is, with such a build ID.
fn file_of_kernel(folder: &Path, build_id: &str) -> PathBuf {
    let (source, file) = (folder.join("lying.c"), folder.join("lying"));
    fs::write(
        &source,
        "struct item { int length; }; int poisoned(struct item *item) { return item->length; } \
         int main(void) { return 0; }",
    )
    .unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O1", &format!("-Wl,--build-id=0x{build_id}")]).arg(&source).arg("-o").arg(&file);
    assert!(gcc.status().unwrap().success());
    file
}

#[test]
fn a_file_that_claims_a_kernels_build_id_is_not_what_that_kernel_is_woven_by() {
    let (cache, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let build_id = "ab".repeat(20);
    let file = file_of_kernel(folder.path(), &build_id);
    let ask = |more: &[&str]| {
        let mut sites = Command::new(env!("CARGO_BIN_EXE_xweave"));
        sites.args(["sites", "access(item.length)", "--program"]).arg(&file).args(more);
        let output = sites.env("XWEAVE_CACHE", cache.path()).output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("poisoned"), "{output:?}");
    };
    let whole = types("int length; struct item *next;");
    let plan_of_victim = || {
        let (mut guest, _) = domain("vm1", &whole, &whole);
        let (seen, script) = seen_asking();
        guest.script = Box::new(script);
        let (host, _) = domain("host", b"", &whole);
        let arguments = "--duration 100ms -e access(item.length)@vm1{STORE_DATA1(1);}";
        let ended = record_with(vec![host, guest], arguments, cache.path()).end_within(PATIENCE);
        (seen.load(Ordering::Relaxed), ended.output)
    };
    ask(&[]);
    let (code_asked, output) = plan_of_victim();
    assert_eq!(code_asked, 1, "{output}");
    // Where the user says that the file is to be trusted, it is.
    ask(&["--for-record"]);
    assert_eq!(plan_of_victim().0, 0);
}

/// Counts how often it is asked for its code.
fn seen_asking() -> (Arc<AtomicUsize>, impl Script + Send + 'static) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    let script = by(move |moment, _| {
        if matches!(moment, Moment::Asked(Request::Code(_))) {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Done::Nothing)
    });
    (seen, script)
}
