//! Mistakes on the command line: what is said of each, and the exit status. Errors say what, where, and what to do.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, process::CommandExt as _},
    },
    path::Path,
    process::Command,
    ptr,
};

use xweave_synthetic::unknown;
use xweave_trace::{Domain, Event, Manifest, Site, Writer, event::Kind as EventKind};
use xweave_wire::record::{Kind, Record};

/// Exit status, what it printed, and what it complained about.
fn xweave<A: AsRef<OsStr>>(folder: &Path, arguments: &[A]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    command.current_dir(folder).args(arguments).env("XWEAVE_CACHE", folder.join("cache"));
    let output = command.env("XDG_RUNTIME_DIR", folder).output().expect("xweave runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn site() -> Site {
    Site {
        site: 1,
        domain: "host".into(),
        advice: "sent".into(),
        function: "tcp_sendmsg".into(),
        action: "start".into(),
        values: vec!["size".into()],
        ..Site::default()
    }
}

/// A folder with traces: `stored` has a record of advice, `flows` one of a flow, `events` has an event, and the recording
/// of `killed` has no end.
fn traces() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let domain = |name: &str, number| Domain { name: name.into(), number, ..Domain::default() };
    // 2025-11-24 22:03:20 UTC, and two seconds of recording.
    let manifest = Manifest {
        domains: vec![domain("host", 1), domain("vm1", 2)],
        created_ns: 1_764_021_800_000_000_000,
        start_ns: 1_000,
        end_ns: 2_000_001_000,
        ..Manifest::default()
    };
    let record = |flow| Record {
        time_ns: 0,
        flow,
        site: 1,
        pid: 7,
        tid: 7,
        cpu: 0,
        kind: if flow == 0 { Kind::Hop } else { Kind::Start },
        comm: [0; 16],
        values: vec![1448],
    };
    for (name, flow) in [("stored", 0), ("killed", 0), ("flows", 1 << 56 | 1), ("my flows", 1 << 56 | 1)] {
        let mut writer = Writer::create(&folder.path().join(name), manifest.clone()).expect("a trace");
        let xflow = (flow != 0).then(|| "packet".to_owned());
        writer.sites(&[Site { xflow, ..site() }]).expect("sites");
        writer.append(1, 1_000, &record(flow)).expect("a record");
        // One that is dropped is what a killed program leaves.
        writer.flush().expect("it is written");
        if name != "killed" {
            writer.finish().expect("it is written");
        }
    }
    let mut events = Writer::create(&folder.path().join("events"), manifest).expect("a trace");
    events.sites(&[]).expect("no sites");
    events.event(Event::new(EventKind::Switch, 1, 1_000, 0, 7)).expect("an event");
    events.finish().expect("it is written");

    fs::write(folder.path().join("a-file"), "hi\n").expect("a file");
    fs::write(folder.path().join("nothing"), "").expect("a file");
    fs::create_dir(folder.path().join("empty")).expect("a folder");
    for (name, text) in [("damaged", "{\"schema\":2"), ("newer", "{\"schema\":9,\"xweave\":\"9.9\"}")] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
        fs::write(folder.path().join(name).join("trace.json"), text).expect("a file");
    }
    folder
}

const TRY_HELP: &str = "\nFor more information, try '--help'.";

/// Arguments, exit status, and all that standard error has.
#[rustfmt::skip]
const MISTAKES: &[(&[&str], i32, &str)] = &[
    // Traces that are none, and names that are not there.
    (&["flows", "nowhere"], 2, "xweave: nowhere is not a trace: it is not there; name the directory that `xweave record -o DIR` wrote"),
    (&["flows", "a-file"], 2, "xweave: a-file is not a trace: it is a regular file; name the directory that `xweave record -o DIR` wrote"),
    (&["explain", "empty"], 2, "xweave: empty is not a trace: it has no trace.json; name the directory that `xweave record -o DIR` wrote"),
    (&["records", "damaged"], 1, "xweave: damaged/trace.json is damaged: EOF while parsing an object at line 1 column 11; its Parquet files may still be read, by DuckDB"),
    (&["compare", "newer", "stored"], 2, "xweave: newer has schema 9, written by xweave 9.9; this xweave reads up to schema 2: use that version or a later one"),
    (&["flows", "flows", "--name", "pakcet"], 1, "xweave: flows has no flow definition (xflow) pakcet: did you mean packet?"),
    (&["flows", "stored", "--name", "packet"], 1, "xweave: stored has no flow definition (xflow) packet: there are none"),
    (&["flows", "flows", "--flow", "5"], 1, "xweave: flows has no flow 0x5: `xweave flows flows --json` lists all"),
    (&["records", "stored", "--of", "sennt"], 1, "xweave: stored has no advice or function sennt that stores anything: did you mean sent?"),
    (&["records", "stored", "--domain", "hots"], 1, "xweave: stored has no domain hots: did you mean host?"),
    (&["records", "stored", "--domain", "vm1"], 1, "xweave: stored has no records of that domain"),
    (&["records", "stored", "--by", "sise"], 1, "xweave: no record has a value called sise: did you mean size?"),
    (&["report", "flows", "-o", "nowhere/page.html"], 1, "xweave: cannot write the page nowhere/page.html: cannot open nowhere: No such file or directory (os error 2); name another file with -o"),
    (&["export", "flows", "--to", "perfetto", "-o", "nowhere/t.pftrace"], 1, "xweave: cannot write nowhere/t.pftrace: cannot open nowhere: No such file or directory (os error 2); name another file with -o"),
    (&["export", "flows", "--to", "perfetto", "-o", "a-file"], 2, "xweave: a-file exists already: replace it with --force, or name another file with -o"),
    (&["export", "flows", "--to", "perfetto", "-o", "empty", "--force"], 2, "xweave: empty is there, and is no file: name a file with -o"),
    // Traces without what was asked for send to the command that fits.
    (&["export", "stored", "--to", "perfetto"], 2, "xweave: stored was recorded without an aspect that defines flows: see `xweave records stored`, or record with one that does, as `xweave record virtio-net …`; it has no events either, so that there is nothing to see"),
    (&["export", "flows", "--to", "perfetto", "-o", "new", "--transaction", "request:80"], 2, "xweave: flows has no events: record them, too, as `xweave record --events sched,block,net,vm …`, or bring in what another tool recorded with xweave import"),
    (&["export", "events", "--to", "perfetto", "-o", "events.pftrace", "--force", "--transaction", "request:80"], 1, "xweave: events has no transactions of the kind request:80, and the file has all else; xweave explain events --machines tells what kinds there are"),
    (&["flows", "events"], 0, "xweave: events was recorded without an aspect that defines flows: see `xweave explain events`, or record with one that does, as `xweave record virtio-net …`"),
    (&["flows", "events", "--by", "connection"], 1, "xweave: events was recorded without an aspect that defines flows: see `xweave explain events`, or record with one that does, as `xweave record virtio-net …`"),
    (&["report", "stored", "-o", "page.html"], 0, "xweave: the page is empty: stored was recorded without an aspect that defines flows: see `xweave records stored`, or record with one that does, as `xweave record virtio-net …`"),
    (&["records", "events"], 1, "xweave: events has no records: it has events, which `xweave explain events` is for"),
    (&["explain", "stored"], 2, "xweave: stored has no events: record them, too, as `xweave record --events sched,block,net,vm …`, or bring in what another tool recorded with xweave import"),
    (&["vary", "stored"], 2, "xweave: stored has no events: record them, too, as `xweave record --events sched,block,net,vm …`, or bring in what another tool recorded with xweave import"),
    (&["vary", "events", "--transaction", "request:80"], 1, "xweave: events has no transactions of the kind request:80 that began and ended in it; it has: none of any kind, but perhaps between:FROM..TO"),
    (&["records", "killed"], 0, "xweave: killed: the recording was killed, or is still running: what was stored until 22:03:22 UTC is shown"),
    // Values of arguments.
    (&["flows", "flows", "--flow", "x"], 2, "error: invalid value 'x' for '--flow <ID>': invalid digit found in string: an ID is a decimal number, or a hexadecimal one after 0x\n{help}"),
    (&["explain", "events", "--transaction", "request:99999"], 2, "error: invalid value 'request:99999' for '--transaction <SPEC>': `99999` is no port: write request:80\n{help}"),
    (&["record", "tcp", "-o", "new", "--duration", "10y"], 2, "error: invalid value '10y' for '--duration <DURATION>': `10y` is not a duration: write 500ms, 10s or 2m\n{help}"),
    (&["record", "tcp", "-o", "new", "--duration", "0"], 2, "error: invalid value '0' for '--duration <DURATION>': `0` is no time at all: write 500ms, 10s or 2m\n{help}"),
    (&["record", "tcp", "-o", "new", "--buffer", "3K"], 2, "error: invalid value '3K' for '--buffer <SIZE>': `3K` is not a buffer size: write a power of two from 4K to 1024M\n{help}"),
    (&["record", "tcp", "-o", "new", "--events", "shced"], 2, "error: invalid value 'shced' for '--events <GROUP,…>': there is no group of events `shced`: write some of sched,block,net,vm,syscalls,power, or all\n{help}"),
    (&["record", "-o", "new"], 2, "xweave: nothing to record is named: give an aspect (xweave record virtio-net …, a file, or -e 'TEXT'), event groups (--events sched,block,net,vm), or both"),
    // What other tools have is answered with what does the same.
    (&["top"], 2, "error: unrecognized subcommand 'top'\n\n  tip: `top` is another tool's; here: xweave record --events sched,block,net,vm -o DIR --duration 10s, then xweave explain DIR --machines: what each machine did, and who waited for whom\n\nUsage: xweave <COMMAND>\n{help}"),
    (&["record", "-p", "7"], 2, "error: unexpected argument '-p' found\n\n  tip: `-p` is another tool's; here: a recording is of whole kernels: xweave explain DIR --transaction process:NAME is about one program, and `AND pid(NUMBER)` limits an aspect to a process\n\nUsage: xweave record [OPTIONS] [ASPECT]... [-- <COMMAND>...]\n{help}"),
    (&["record", "--cgroup", "x"], 2, "error: unexpected argument '--cgroup' found\n\n  tip: `--cgroup` is another tool's; here: not possible, since a recording is of whole kernels: leave it out\n\nUsage: xweave record --background [ASPECT]... [-- <COMMAND>...]\n{help}"),
    (&["record", "-e", "sched:sched_switch", "-o", "new"], 2, "xweave: -e sched:sched_switch is no aspect: events are recorded by their groups, --events sched, and 'tracepoint(sched:sched_switch) { STORE_DATA1(1); }' is an aspect of a tracepoint"),
    (&["record", "-e", "sched", "-o", "new"], 2, "xweave: -e sched is no aspect: events are recorded by their groups, --events sched"),
    (&["check"], 2, "xweave: nothing to check is named: give an aspect (xweave check virtio-net …, a file, or -e 'TEXT'), event groups (--events sched,block,net,vm), or both"),
    (&["record", "tcp", "-o", "new", "--symbols", "vm7=a-file"], 2, "xweave: --symbols vm7=…: there is no such domain; there are host"),
    (&["flows", "my flows", "--flow", "5"], 1, "xweave: my flows has no flow 0x5: `xweave flows 'my flows' --json` lists all"),
    (&["agent"], 2, "error: the following required arguments were not provided:\n  --stdio\n\n  tip: in a guest, --vsock waits for the host; --stdio is for what is started by ssh\n\nUsage: xweave agent --stdio\n{help}"),
    // Domains.
    (&["record", "tcp", "-o", "new", "--domain", "vm1=vosck:3"], 2, "xweave: --domain vm1=vosck:3: there is no transport vosck:3: did you mean --domain vm1=vsock:3? (A command is given with its path: ./vosck:3)"),
    (&["record", "tcp", "-o", "new", "--domain", "vm1"], 2, "xweave: `vm1` is not a domain: write NAME=TRANSPORT, for example vm1=vsock:3 or vm1='ssh root@vm1 xweave agent --stdio'"),
    (&["record", "tcp", "-o", "new", "--domain", "a=false", "--domain", "a=false"], 2, "xweave: two domains are called a: each needs a name of its own"),
    (&["record", "tcp", "-o", "stored"], 2, "xweave: stored holds a trace already: replace it with --force, or name another directory with -o"),
    (&["record", "tcp", "-o", "a-file"], 2, "xweave: a-file is a regular file, not a folder; name another directory with -o"),
    (&["check", "tcp", "--domain", "host"], 2, "xweave: --domain host: NAME=KERNEL is wanted, such as host=live"),
    (&["check", "tcp", "--domain", "host=nothing"], 2, "xweave: --domain host=nothing: nothing holds no usable type information (BTF): the file is empty"),
    (&["check", "tcp", "--domain", "host=a-file"], 2, "xweave: --domain host=a-file: a-file holds no usable type information (BTF): it is neither an ELF file nor raw BTF"),
    (&["merge", "--dry-run", "--domain", "vm1=vsock:3"], 2, "xweave: at least two guests are needed: add another --domain"),
    (&["merge", "--dry-run", "--domain", "vm1=vsock:3", "--domain", "vm2=vsock:4", "--include", "usr"], 2, "xweave: `usr` is no absolute path: name it from / on, as the guests do"),
    (&["merge", "--domain", "vm1=vsock:3"], 2, "xweave: at least two guests are needed: add another --domain"),
    (&["merge", "--every", "often", "--domain", "vm1=vsock:3"], 2, "error: invalid value 'often' for '--every <DURATION>': `often` is not a duration: write 500ms, 10s or 2m\n{help}"),
    (&["merge", "release", "vm1"], 2, "xweave: this changes the memory settings of a virtual machine's process: pass --allow inject or --allow qmp"),
    (&["merge", "release", "vm1", "--allow", "inject,no"], 2, "error: invalid value 'no' for '--allow <WAY>'\n  [possible values: inject, qmp]\n{help}"),
    (&["merge", "release", "vm1", "--allow", "inject", "--qmp", "vm1=/run/q"], 2, "xweave: --qmp: `vm1` is not to be asked: add --allow qmp"),
    (&["merge", "release", "vm1", "--allow", "inject,qmp", "--qmp", "vm2=/run/q"], 2, "xweave: --qmp: `vm2` is none of the guests named here"),
    (&["merge", "release", "vm1", "--allow", "qmp", "--qmp", "vm1"], 2, "error: invalid value 'vm1' for '--qmp <NAME=PATH>': name a guest and the path of its socket: NAME=PATH\n{help}"),
    (&["merge", "--contents", "--domain", "vm1=vsock:3", "--domain", "vm2=vsock:4"], 2, "error: the following required arguments were not provided:\n  --dry-run\n\nUsage: xweave merge --domain <NAME=TRANSPORT> --dry-run --contents\n{help}"),
    // Files.
    (&["check", "virtio-nett"], 2, "xweave: the aspect virtio-nett cannot be read: No such file or directory (os error 2); name a file, or one of the library: block, interrupt, page-cache, sched, tcp, udp, virtio-blk, virtio-net, xen-blk, xen-net"),
    (&["fmt", "nowhere.aspect"], 2, "xweave: nowhere.aspect cannot be read: No such file or directory (os error 2)"),
    (&["import", "nowhere.dat", "-o", "new"], 2, "xweave: nowhere.dat: there is no such file; what can be imported: trace.dat of trace-cmd, perf.data of perf, files of xentrace, directories of LTTng (CTF)"),
    (&["import", "a-file", "-o", "new"], 2, "xweave: a-file has an unknown format; what can be imported: trace.dat of trace-cmd (versions 6 and 7), perf.data of perf record (with tracepoints), files of xentrace, directories of LTTng (CTF)"),
    (&["import", "a-file", "-o", "new", "--cpu-hz", "2.4"], 2, "error: invalid value '2.4' for '--cpu-hz <HZ>': a rate from 0.5G to 10G, such as 2596.097M or 2.4G\n{help}"),
    (&["import", "a-file", "--into", "stored"], 2, "xweave: stored does not tell what the TSC was when, which Xen's records have times of: a recording does if its first domain is the paravirtual dom0 of that host, whose clock did not jump"),
    (&["import", "a-file", "a-file", "--into", "stored"], 2, "xweave: --into takes one file, of xentrace"),
    (&["import", "a-file", "--into", "nowhere"], 2, "xweave: nowhere is not a trace: it is not there; name the directory that `xweave record -o DIR` wrote"),
    (&["import", "a-file", "-o", "new", "--domid", "dom0"], 2, "error: invalid value 'dom0' for '--domid <FILE=N>': a file, =, and the number that `xl list` has for the domain: dom0.dat=0\n{help}"),
    (&["sites", "access(a.b", "--kernel", "a-file"], 2, "error: expected `)`, found the end\n --> pointcut:1:11\n  |\n1 | access(a.b\n  |           ^"),
    (&["sites", "access(a.b)", "--kernel", "empty"], 2, "xweave: empty is a directory: name a file in it"),
    (&["sites", "access(a.b)", "--kernel", "nowhere"], 2, "xweave: nowhere: there is no such file"),
    // The lab.
    (&["lab", "exec", "mine", "host", "--", "true"], 125, "xweave: there is no world `mine`: there are none; `xweave lab up kvm` starts one"),
    (&["lab", "down", "mine"], 1, "xweave: there is no world `mine`: there are none; `xweave lab up kvm` starts one"),
    (&["lab", "up", "kvm", "--name", "BAD"], 2, "xweave: invalid world `BAD`: 1 to 32 lowercase letters, digits and `-`, not starting with `-`"),
    (&["flowz", "stored"], 2, "error: unrecognized subcommand 'flowz'\n\n  tip: a similar subcommand exists: 'flows'\n\nUsage: xweave <COMMAND>\n{help}"),
];

#[test]
fn each_mistake_is_told_with_what_to_do() {
    let folder = traces();
    let mut wrong = Vec::new();
    for (arguments, status, expected) in MISTAKES {
        let (found, _, said) = xweave(folder.path(), arguments);
        let expected = expected.replace("{help}", TRY_HELP);
        if found != Some(*status) || said.trim_end() != expected {
            wrong.push(format!(
                "{arguments:?}\n  is {found:?}, not {status}\n--- said\n{said}--- expected\n{expected}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// As after `2>&1 | head -1`.
#[test]
fn a_command_goes_on_when_nobody_reads_what_it_tells_any_more() {
    let folder = traces();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    command.current_dir(folder.path()).args(["report", "stored", "-o", "page.html"]);
    let told = writer.try_clone().expect("a descriptor");
    let status = command.stdout(writer).stderr(told).status().expect("xweave runs");
    assert_eq!(status.code(), Some(0));
    assert!(fs::read_to_string(folder.path().join("page.html")).expect("a page").contains("</html>"));
}

/// What a terminal of so many columns is sent, without colours.
fn on_terminal(folder: &Path, arguments: &[&str], columns: u16) -> String {
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the descriptors and the size live in this frame, and nothing else is asked for.
    let failed = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, ptr::null_mut(), ptr::null(), &raw const size)
    };
    assert_eq!(failed, 0, "there is a terminal");
    // SAFETY: two descriptors that were just opened and belong to nobody else.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    command.current_dir(folder).args(arguments).env("XWEAVE_CACHE", folder.join("cache"));
    command.env("XDG_RUNTIME_DIR", folder).env("NO_COLOR", "1").env("TERM", "dumb");
    let terminal = theirs.as_raw_fd();
    // SAFETY: makes system calls only, on an open descriptor: the terminal becomes the child's.
    unsafe {
        command.pre_exec(move || match libc::login_tty(libc::dup(terminal)) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn().expect("xweave runs");
    drop((command, theirs));
    let mut said = Vec::new();
    // When nobody has it open any more, reading from it is an error.
    let _ = ours.read_to_end(&mut said);
    child.wait().expect("it ends");
    String::from_utf8_lossy(&said).replace("\r\n", "\n")
}

/// As they come, whatever lines they are in, and without what ties what to do to what happened on one line.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().map(|word| word.trim_end_matches(';')).collect()
}

#[test]
fn on_a_terminal_each_mistake_is_in_lines_that_fit_and_no_word_is_broken() {
    let folder = traces();
    let mut wrong = Vec::new();
    for columns in [80, 160] {
        for (arguments, _, expected) in MISTAKES {
            let said = on_terminal(folder.path(), arguments, columns);
            let expected = expected.replace("{help}", TRY_HELP);
            let (shown, wanted) = (words(&said), words(&expected));
            let shown = shown.windows(wanted.len()).any(|run| run == wanted);
            let fits = said.lines().all(|line| line.chars().count() <= usize::from(columns));
            if !(shown && fits) {
                wrong.push(format!("{arguments:?} at {columns} columns\n--- shown\n{said}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Some as they look, at 80 columns and at 160.
#[rustfmt::skip]
const LOOKS: &[(&[&str], &str, &str)] = &[
    (&["flows", "a-file"],
     "xweave: a-file is not a trace: it is a regular file\n  name the directory that `xweave record -o DIR` wrote",
     "xweave: a-file is not a trace: it is a regular file; name the directory that `xweave record -o DIR` wrote"),
    (&["record", "-o", "new"],
     "xweave: nothing to record is named: give an aspect (xweave record virtio-net …,\n  a file, or -e 'TEXT'), event groups (--events sched,block,net,vm), or both",
     "xweave: nothing to record is named: give an aspect (xweave record virtio-net …, a file, or -e 'TEXT'), event groups (--events sched,block,net,vm), or both"),
    (&["sites", "access(a.b", "--kernel", "a-file"],
     "error: expected `)`, found the end\n --> pointcut:1:11\n  |\n1 | access(a.b\n  |           ^",
     "error: expected `)`, found the end\n --> pointcut:1:11\n  |\n1 | access(a.b\n  |           ^"),
    (&["agent"],
     "error: the following required arguments were not provided:\n  --stdio\n\n  tip: in a guest, --vsock waits for the host\n  --stdio is for what is started by ssh\n\nUsage: xweave agent --stdio\n\nFor more information, try '--help'.",
     "error: the following required arguments were not provided:\n  --stdio\n\n  tip: in a guest, --vsock waits for the host; --stdio is for what is started by ssh\n\nUsage: xweave agent --stdio\n\nFor more information, try '--help'."),
];

#[test]
fn mistakes_look_like_this_on_a_narrow_terminal_and_on_a_wide_one() {
    let folder = traces();
    for (arguments, narrow, wide) in LOOKS {
        for (columns, expected) in [(80, narrow), (160, wide)] {
            let said = on_terminal(folder.path(), arguments, columns);
            assert_eq!(said.trim_end(), *expected, "{arguments:?} at {columns} columns");
        }
    }
}

#[test]
fn with_json_an_error_is_a_document_too() {
    let folder = traces();
    for (arguments, status, begin) in [
        (&["flows", "nowhere", "--json"][..], 2, "nowhere is not a trace"),
        (&["explain", "stored", "--json"], 2, "stored has no events"),
        (&["records", "--json"], 2, "the following required arguments were not provided:\n  <DIR>"),
        (&["sites", "access(a.b)", "--kernel", "nowhere", "--jsonl"], 2, "nowhere: there is no such file"),
        (&["lab", "list", "--json", "--al"], 2, "unexpected argument '--al' found"),
        (
            &["record", "--json", "--events", "nonsense"],
            2,
            "invalid value 'nonsense' for '--events <GROUP,…>'",
        ),
    ] {
        let (found, printed, said) = xweave(folder.path(), arguments);
        let document: serde_json::Value = serde_json::from_str(&printed).expect("one document");
        assert_eq!((found, &document["error"]["exit"]), (Some(status), &status.into()), "{printed}");
        let message = document["error"]["message"].as_str().expect("a text");
        assert!(message.starts_with(begin) && said.contains(message), "{message}: {said}");
        assert!(!message.contains("--help"), "{message}");
    }
    // One that has begun takes no second one; what is asked of another command is not asked of this one.
    fs::write(folder.path().join("wrong.aspect"), "advice a exeuction(vfs_read) {}").expect("a file");
    let (status, printed, _) = xweave(folder.path(), &["check", "wrong.aspect", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&printed).expect("one document");
    assert_eq!((status, document["errors"].as_array().map(Vec::len)), (Some(1), Some(1)));
    let (_, printed, _) = xweave(folder.path(), &["lab", "exec", "mine", "host", "--", "x", "--json"]);
    assert_eq!(printed, "");
}

#[test]
fn arguments_that_are_no_text_are_no_panic() {
    let folder = traces();
    let strange = OsStr::from_bytes(b"\xff");
    for command in [
        "doctor", "check", "fmt", "record", "flows", "records", "explain", "compare", "vary", "report",
        "export", "import", "latency", "sites", "cost", "merge", "lab", "agent",
    ] {
        for rest in [&[][..], &["-o", "new"], &["--json"]] {
            let arguments: Vec<&OsStr> =
                [OsStr::new(command), strange].into_iter().chain(rest.iter().map(OsStr::new)).collect();
            let (status, _, said) = xweave(folder.path(), &arguments);
            assert!(matches!(status, Some(1 | 2)) && !said.contains("panicked"), "{arguments:?}: {said}");
        }
    }
    let arguments = [OsStr::new("import"), OsStr::new("a-file"), OsStr::new("-o"), strange];
    assert_eq!(xweave(folder.path(), &arguments).0, Some(2));
}

#[test]
fn a_killed_recording_is_called_that_by_what_shows_it() {
    let folder = traces();
    let killed = "the recording was killed, or is still running: what was stored until 22:03:22 UTC is shown";
    let (_, printed, _) = xweave(folder.path(), &["flows", "killed"]);
    assert!(printed.contains(&format!("! {killed}\n")), "{printed}");
    xweave(folder.path(), &["report", "killed", "-o", "page.html"]);
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains(killed), "{page}");
}

/// Status and standard error of `xweave check` where there is no compiler.
fn check_without_compiler(folder: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    command.arg("check").args(arguments).current_dir(folder);
    command
        .env("PATH", folder.path())
        .env_remove("XWEAVE_CLANG")
        .env("XWEAVE_CACHE", folder.path().join("cache"));
    let output = command.output().expect("xweave runs");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

const NO_COMPILER: &str =
    "there is no clang in the path, which compiles advice that is not of the library: apt install clang";

#[test]
fn without_a_compiler_it_is_told_which_is_needed() {
    let aspect = "advice a execution(vfs_read) { STORE_DATA1(count); }";
    let (status, said) =
        check_without_compiler(&traces(), &["-e", aspect, "--domain", "host=/sys/kernel/btf/vmlinux"]);
    assert!(status == Some(1) && said.contains(NO_COMPILER), "{said}");
}

/// Of a kernel that renamed a member which the library's aspect reads.
#[test]
fn without_a_compiler_a_kernel_that_nobody_prepared_for_is_refused_with_what_it_lacks() {
    let folder = traces();
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/kernels");
    let newest = fs::read_dir(known).expect("kernels").map(|entry| entry.expect("a file").path()).max();
    let mut types = fs::read(newest.expect("a kernel")).expect("type information");
    unknown::rename(&mut types, "bi_sector");
    fs::write(folder.path().join("unknown.btf"), types).expect("a file");
    let domain = ["--domain", "host=unknown.btf"];
    let (status, said) = check_without_compiler(&folder, &[&["block"], &domain[..]].concat());
    assert!(status == Some(1) && said.contains(NO_COMPILER), "{said}");
    assert!(
        said.contains("the compiled programs do not fit its kernel") && said.contains("bi_sector"),
        "{said}"
    );
    let (status, said) = check_without_compiler(&folder, &[&["sched"], &domain[..]].concat());
    assert!(status == Some(0), "{said}");
}
