//! What a process that was taken over by what it read may do: tried in the built program.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

/// Exit status, what it printed, and what it complained about.
fn xweave(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).current_dir(folder).args(arguments).output();
    let output = output.expect("xweave runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// A folder with files of this name in it, unpacked.
fn unpacked(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names {
        let packed = format!("{}/../import/tests/data/{name}.zst", env!("CARGO_MANIFEST_DIR"));
        let mut unpacked = ruzstd::decoding::StreamingDecoder::new(File::open(packed).expect("a file"))
            .expect("it is packed");
        let to = folder.path().join(name);
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
        std::io::copy(&mut unpacked, &mut File::create(to).expect("a file")).expect("room for it");
    }
    folder
}

/// What tries everything, with its files in this folder.
fn probe_in(folder: &Path) -> Command {
    let mut probe = Command::new(env!("CARGO_BIN_EXE_xweave"));
    probe.args(["confined", "probe"]).env("TMPDIR", folder);
    probe
}

fn left_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn what_a_confined_process_must_not_do_it_cannot() {
    let folder = tempfile::tempdir().expect("a folder");
    // Of a probe that was killed long ago, and one that may still run.
    let [abandoned, fresh] = ["xweave-probe-1", "xweave-probe-2"].map(|name| folder.path().join(name));
    fs::create_dir_all(abandoned.join("0")).expect("a folder");
    fs::write(abandoned.join("0/own-program"), "x").expect("a file");
    let long_ago = SystemTime::now() - Duration::from_secs(48 * 60 * 60);
    File::open(&abandoned).and_then(|of| of.set_modified(long_ago)).expect("its time is set");
    fs::create_dir(&fresh).expect("a folder");

    let probe = probe_in(folder.path()).output().expect("xweave runs");
    let [printed, said] =
        [probe.stdout, probe.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert_eq!(probe.status.code(), Some(0), "{printed}{said}");
    fs::remove_dir(&fresh).expect("it is left alone");
    assert_eq!(left_in(folder.path()), [""; 0]);
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 135, "docs/confinement.md says how many: {printed}");
    assert!(lines.iter().all(|line| line.contains(" refused  ")), "{printed}");
    // Of each way of being refused, one: so that an attempt which fails for another reason is seen.
    for (attempt, how) in [
        ("reader    read-shadow ", "Operation not permitted"),
        ("reader    tcp ", "Operation not permitted"),
        ("reader    bpf ", "ended for a system call"),
        ("reader    memory ", "ran out of its memory of 256 MiB"),
        ("command   change-mode ", "Operation not permitted"),
        ("command   own-signals ", "Operation not permitted"),
        ("command   read-shadow ", "Operation not permitted"),
        ("command   bpf ", "ended for a system call"),
        ("compiler  write-tmp ", "Permission denied"),
        ("compiler  fork-bomb ", "Resource temporarily unavailable"),
        ("compiler  time ", "more than 2 s of CPU time"),
    ] {
        let line = lines.iter().find(|line| line.starts_with(attempt)).expect(attempt);
        assert!(line.contains(how), "{line}");
    }
}

#[test]
fn commands_that_confine_themselves_still_read_and_write_what_they_are_given() {
    let folder = unpacked(&["host.dat", "guest.dat"]);
    let here = folder.path();
    let well = |arguments: &[&str]| {
        let (status, printed, said) = xweave(here, arguments);
        assert_eq!(status, Some(0), "{arguments:?}: {said}");
        printed
    };
    well(&["import", "host.dat", "guest.dat", "-o", "deep/trace"]);
    fs::create_dir(here.join("pages")).expect("a folder");
    well(&["report", "deep/trace", "-o", "pages/page.html"]);
    assert!(fs::read_to_string(here.join("pages/page.html")).expect("the page").contains("</html>"));
    well(&["export", "deep/trace", "--to", "perfetto", "-o", "pages/trace.pftrace"]);
    assert!(fs::metadata(here.join("pages/trace.pftrace")).expect("the file").len() > 1_000);
    let page = File::create(here.join("to")).expect("a file");
    let mut report = Command::new(env!("CARGO_BIN_EXE_xweave"));
    report.current_dir(here).args(["report", "deep/trace", "-o", "/dev/stdout"]).stdout(page);
    assert!(report.status().expect("xweave runs").success());
    assert!(fs::read_to_string(here.join("to")).expect("the page").contains("</html>"));
    well(&["compare", "deep/trace", "deep/trace"]);
    // Whoever reads has seen enough.
    let shell = format!("{} explain deep/trace --json | head -c 100 | wc -c", env!("CARGO_BIN_EXE_xweave"));
    let output = Command::new("sh").current_dir(here).args(["-c", &shell]).output().expect("a shell");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "100");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_import_that_fails_leaves_no_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("none"), "nothing that is understood").expect("a file");
    let (status, _, said) = xweave(folder.path(), &["import", "none", "-o", "trace"]);
    assert_eq!(status, Some(2), "{said}");
    assert!(!folder.path().join("trace").exists());
}

#[test]
fn the_program_that_decodes_ctf_is_started_and_nothing_else_is_there_for_it() {
    let folder = unpacked(&["plain.ctf/metadata", "plain.ctf/perf_stream_0", "plain.ctf/perf_stream_1"]);
    let (status, printed, said) = xweave(folder.path(), &["import", "plain.ctf", "-o", "trace"]);
    if said.contains("install the package babeltrace2") {
        eprintln!("SKIPPED: there is no babeltrace2");
        return;
    }
    assert_eq!(status, Some(0), "{said}");
    assert!(printed.contains("trace: "), "{printed}");
}

#[test]
fn a_command_that_takes_too_much_memory_says_so() {
    let folder = unpacked(&["host.dat"]);
    let (status, _, said) = xweave(folder.path(), &["import", "host.dat", "-o", "trace"]);
    assert_eq!(status, Some(0), "{said}");
    // As little as the user allows: less than what it sets itself.
    let shell = format!("ulimit -d 1100; exec {} explain trace --json", env!("CARGO_BIN_EXE_xweave"));
    let output =
        Command::new("sh").current_dir(folder.path()).args(["-c", &shell]).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("this takes more than 1 MiB of memory"), "{said}");
}

fn children(of: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)?.parse::<u32>().ok())
    };
    numbers.filter(|pid| parent(pid) == Some(of)).collect()
}

/// Waits until confined processes of a probe take their time: they have given up their user by then.
fn waiting_of(probe: &Child) -> Vec<u32> {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        // A command's has a broker between.
        let jobs = children(probe.id());
        let waiting: Vec<_> = jobs
            .iter()
            .flat_map(|job| children(*job))
            .chain(jobs.iter().copied())
            .filter(|pid| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let confined = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                words.split(|byte| *byte == 0).any(|word| word == b"deadline")
                    && confined.contains("Seccomp:\t2")
            })
            .collect();
        if !waiting.is_empty() {
            return waiting;
        }
        assert!(Instant::now() < until, "nothing is tried");
    }
}

/// What the kernel tells of a process under a name, in a file of lines `name: value` or `name  value`.
fn told_by_kernel(process: u32, file: &str, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/{file}")).expect("the process is there");
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim_start_matches(':').split_whitespace().next().expect(name).to_owned()
}

#[test]
fn the_kernel_shows_what_a_confined_process_has_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut probe = probe_in(folder.path()).stdout(Stdio::null()).spawn().expect("xweave runs");
    let process = waiting_of(&probe)[0];
    let status = |name| told_by_kernel(process, "status", name);
    let limit = |name| told_by_kernel(process, "limits", name);
    for sets in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        // Only root's process can give up the bounding set; without capabilities it gives none.
        if sets != "CapBnd" || is_root() {
            assert_eq!(status(sets), "0000000000000000", "{sets}");
        }
    }
    assert_eq!((status("NoNewPrivs"), status("Seccomp")), ("1".into(), "2".into()));
    assert_eq!(limit("Max core file size"), "0");
    assert_eq!(limit("Max open files"), "4096");
    assert_eq!(limit("Max locked memory"), "0");
    assert_eq!(limit("Max msgqueue size"), "0");
    let score = fs::read_to_string(format!("/proc/{process}/oom_score_adj")).expect("it is there");
    assert_eq!(score.trim(), "1000");
    if is_root() {
        assert_eq!(status("Uid"), (1_879_048_192 + process).to_string());
        for kind in ["net", "ipc", "uts"] {
            let of =
                |process: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).expect("it is there");
            assert_ne!(of(&process.to_string()), of("self"), "{kind}");
        }
        // What its own user could read of it belongs to root, as it is not dumpable.
        let owner = fs::metadata(format!("/proc/{process}/mem")).expect("it is there").uid();
        assert_eq!(owner, 0);
    }
    probe.kill().expect("it runs");
    probe.wait().expect("it has ended");
}

fn is_root() -> bool {
    // SAFETY: takes nothing.
    unsafe { libc::geteuid() == 0 }
}

#[test]
fn confined_processes_end_with_the_one_that_started_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut probe = probe_in(folder.path()).stdout(Stdio::null()).spawn().expect("xweave runs");
    let waiting = waiting_of(&probe);
    probe.kill().expect("it runs");
    probe.wait().expect("it has ended");
    let until = Instant::now() + Duration::from_secs(10);
    for pid in waiting {
        while fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < until, "process {pid} goes on");
        }
    }
}

#[test]
fn a_probe_that_is_interrupted_leaves_no_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut probe = probe_in(folder.path()).stdout(Stdio::null()).spawn().expect("xweave runs");
    let until = Instant::now() + Duration::from_secs(60);
    while left_in(folder.path()).is_empty() {
        assert!(Instant::now() < until, "nothing is tried");
        std::thread::sleep(Duration::from_millis(10));
    }
    let terminated = Command::new("kill").arg(probe.id().to_string()).status().expect("kill runs");
    assert!(terminated.success());
    assert_eq!(probe.wait().expect("it ends").code(), Some(130));
    assert_eq!(left_in(folder.path()), [""; 0]);
}

#[test]
fn check_compiles_confined_and_keeps_its_objects_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    for warmth in ["cold", "warm"] {
        let mut check = Command::new(env!("CARGO_BIN_EXE_xweave"));
        check.args(["check", "-e", "advice reads execution(vfs_read) { STORE_DATA1(count); }"]);
        check.args(["--domain", "host=live", "--domain", "vm1=/sys/kernel/btf/vmlinux"]);
        let output = check.env("XWEAVE_CACHE", &cache).output().expect("xweave runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{warmth}: {said}");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("2 join points in 2 domains"), "{printed}");
    }
    let count = |name: &str| fs::read_dir(cache.join(name)).map_or(0, Iterator::count);
    assert_eq!((count("check"), count("advice")), (1, 0));
}
