//! What commands make of files by somebody who means harm: nothing reaches the terminal that it obeys, and nobody
//! else's trace is read unasked.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::Path,
    process::Command,
};

use serde_json::Value;
use xweave_text as text;
use xweave_trace::{Domain, Event, Manifest, Site, Writer, event};
use xweave_wire::record::{Kind, Record};

/// A title for the window, a bell, an 8-bit control sequence, texts that run backwards, lines of their own.
const EVIL: &str =
    "x\u{1b}]0;root\u{7}\u{9b}2J\u{85}\u{202e}\u{2066}\u{200f}\r\nxweave: all is well\u{8}\u{7f}y";

/// The same as a page might obey it.
const SCRIPT: &str = "</script><img src=x onerror='alert(1)'>\"&";

/// Exit status, what it printed, and what it complained about.
fn xweave(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_xweave")).current_dir(folder).args(arguments).output();
    let output = output.expect("xweave runs");
    let text = |bytes| String::from_utf8(bytes).expect("it prints UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// As [`xweave`], where nothing may be printed that a terminal obeys.
fn harmless(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let (status, printed, said) = xweave(folder, arguments);
    for out in [&printed, &said] {
        let wrong = out.lines().find(|line| *line != text::lines(line));
        assert_eq!(wrong, None, "xweave {}", arguments.join(" "));
        assert!(!out.lines().any(|line| line.starts_with("xweave: all is well")), "{arguments:?}: {out}");
    }
    (status, printed, said)
}

/// A trace with such names wherever one can be.
fn evil(dir: &Path, name: &str) {
    let text = || name.to_owned();
    let domain = |name: &str, number| Domain {
        name: name.to_owned(),
        number,
        hostname: text(),
        kernel: text(),
        exit: Some(xweave_trace::Exit::Lost { reason: text() }),
        ..Domain::default()
    };
    let manifest = Manifest {
        xweave: text(),
        reference: text(),
        domains: vec![domain(name, 1), domain("vm1", 2)],
        warnings: vec![text()],
        ..Manifest::default()
    };
    let mut writer = Writer::create(dir, manifest).expect("a trace");
    let site = |site, domain: &str| Site {
        site,
        domain: domain.to_owned(),
        aspect: text(),
        advice: text(),
        function: format!("{name}{site}"),
        module: Some(text()),
        file: Some(text()),
        action: "start".to_owned(),
        xflow: Some(text()),
        carrier: Some(text()),
        ..Site::default()
    };
    writer.sites(&[site(1, name), site(2, "vm1")]).expect("sites");
    let mut comm = [0; 16];
    let end = (0..=16).rev().find(|at| name.is_char_boundary(*at)).expect("a beginning");
    comm[..end].copy_from_slice(&name.as_bytes()[..end]);
    for (time_ns, kind) in [(1000, Kind::Start), (3000, Kind::Xin), (9000, Kind::Quit)] {
        let values = vec![time_ns, 1, 2, 3];
        let record =
            Record { time_ns, flow: 1 << 56 | 1, site: 1, pid: 7, tid: 7, cpu: 0, kind, comm, values };
        writer.append(1, i64::try_from(time_ns).expect("small"), &record).expect("a record");
    }
    let name = writer.name(name);
    use event::Kind::{Exit, Fork, Other, Switch, SyscallEnter, Thread, Wake};
    for (nth, kind) in
        [Thread, Fork, Switch, SyscallEnter, Other, Wake, Switch, Switch, Exit].into_iter().enumerate()
    {
        let nth = i64::try_from(nth).expect("small");
        let (tid, other) = if kind == Fork { (5, 7) } else { (7, 0) };
        let event = Event { other, name, object: 7, ..Event::new(kind, 1, 1000 * nth, 0, tid) };
        writer.event(event).expect("an event");
    }
    writer.finish().expect("a trace");
    // Not even a file's name can be relied on, or what is in it.
    fs::write(dir.join(format!("records/{}.parquet", EVIL.replace('/', ""))), EVIL).expect("a file");
    fs::write(dir.join("events/\u{1b}[2J-1.parquet"), "PAR1 \u{1b}[2J PAR1").expect("a file");
}

/// What is made of a trace's events; how many transactions of that kind there are.
fn explain(folder: &Path, kind: &str) -> usize {
    let of = ["explain", "trace", "--transaction", kind];
    let (_, printed, _) = harmless(folder, &[&of[..], &["--json"]].concat());
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    let transactions = document["transactions"].as_array().expect("transactions");
    harmless(folder, &of);
    if let Some(id) = transactions.first().and_then(|one| one["id"].as_u64()).map(|id| id.to_string()) {
        harmless(folder, &[&of[..], &["--id", &id]].concat());
        harmless(folder, &[&of[..], &["--id", &id, "--mermaid"]].concat());
    }
    harmless(folder, &["compare", "trace", "trace"]);
    harmless(folder, &["compare", "trace", "trace", "--json"]);
    harmless(folder, &["vary", "trace"]);
    harmless(folder, &["vary", "trace", "--json"]);
    transactions.len()
}

#[test]
fn nothing_of_a_trace_is_obeyed() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    evil(&trace, EVIL);
    for arguments in [
        &["flows", "trace"][..],
        &["flows", "trace", "--json"],
        &["flows", "trace", "--limit", "3"],
        &["flows", "trace", "--flow", "1"],
        &["report", "trace", "-o", "page.html"],
    ] {
        let (status, printed, said) = harmless(folder.path(), arguments);
        assert!(status == Some(0) || arguments.contains(&"--flow"), "{arguments:?}: {printed}{said}");
        let shown = printed.contains("\\u{1b}") || printed.contains("\\\\u{1b}");
        assert!(
            shown || arguments.contains(&"-o") || arguments.contains(&"--flow"),
            "{arguments:?}: {printed}"
        );
    }
    assert!(explain(folder.path(), "life") > 0);
    let (_, printed, said) = harmless(folder.path(), &["records", "trace"]);
    assert!(said.contains("\\u{1b}"), "{printed}{said}");
    let export = &["export", "trace", "--to", "perfetto", "-o", "trace.pftrace"];
    let (status, _, said) = harmless(folder.path(), export);
    assert!(status == Some(1) && said.contains("parts of the trace are missing"), "{said}");
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert_eq!(page, text::lines(&page));
    for made in ["page.html", "trace.pftrace"] {
        let mode = fs::metadata(folder.path().join(made)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // What cannot be read at all may be quoted as well.
    fs::write(trace.join("trace.json"), format!("{{\"schema\": \"{EVIL}\"}}")).expect("a file");
    harmless(folder.path(), &["flows", "trace"]);
    fs::write(trace.join("trace.json"), "{\"schema\": 99, \"xweave\": \"\\u001b[2J\\u009b2J\"}")
        .expect("a file");
    let (status, _, said) = harmless(folder.path(), &["flows", "trace"]);
    assert!(status == Some(2) && said.contains("\\u{1b}[2J"), "{said}");
}

#[test]
fn a_page_shows_what_it_would_obey() {
    let folder = tempfile::tempdir().expect("a folder");
    evil(&folder.path().join("trace"), SCRIPT);
    let (status, _, said) =
        harmless(folder.path(), &["report", "trace", "-o", "page.html", "--title", SCRIPT]);
    assert_eq!(status, Some(0), "{said}");
    let page = fs::read_to_string(folder.path().join("page.html")).expect("a page");
    assert!(page.contains("&lt;/script&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;"), "{page}");
    // The document, and the program that shows it.
    assert!(!page.contains("<img") && page.matches("<script").count() == 2, "{page}");
    assert_eq!(page.matches("</script").count(), 2, "{page}");
    assert!(explain(folder.path(), "life") > 0);
}

#[test]
fn nothing_of_an_imported_file_is_obeyed() {
    // Of the same lengths as what they replace.
    let replaced = [
        (
            "bash-v6.dat",
            &[("bash\0", "\u{1b}[2J\0"), ("name: kvm_entry", "name: \u{1b}]0;x\u{9b}\u{7}z")][..],
        ),
        ("plain.data", &[("python3", "\u{1b}]0;x\u{7}y"), ("qemu-sys", "\u{9b}2J\u{202e}z")]),
    ];
    for (name, texts) in replaced {
        let folder = tempfile::tempdir().expect("a folder");
        let packed = format!("{}/../import/tests/data/{name}.zst", env!("CARGO_MANIFEST_DIR"));
        let mut file = Vec::new();
        ruzstd::decoding::StreamingDecoder::new(File::open(packed).expect("a file"))
            .expect("it is packed")
            .read_to_end(&mut file)
            .expect("it is whole");
        for (nice, evil) in texts {
            assert_eq!(nice.len(), evil.len(), "{nice}");
            let mut at = 0;
            while let Some(found) = file[at..].windows(nice.len()).position(|bytes| bytes == nice.as_bytes())
            {
                at += found + nice.len();
                file[at - nice.len()..at].copy_from_slice(evil.as_bytes());
            }
        }
        fs::write(folder.path().join("evil"), file).expect("a file");
        let (status, _, said) = harmless(folder.path(), &["import", "evil", "-o", "trace"]);
        assert_eq!(status, Some(0), "{said}");
        harmless(folder.path(), &["import", "evil", "-o", "trace", "--force", "--json"]);
        let trace = folder.path().join("trace");
        explain(folder.path(), "life");
        explain(folder.path(), "between:switch..wake");
        assert_eq!(fs::metadata(&trace).expect("a trace").permissions().mode() & 0o777, 0o700);
        // Nor by another program's reading of the trace.
        for file in fs::read_dir(trace.join("events")).expect("events").flatten() {
            let bytes = fs::read(file.path()).expect("a file");
            assert!(!bytes.windows(4).any(|bytes| bytes == b"\x1b[2J" || bytes == b"\x1b]0;"), "{name}");
        }
    }
}

#[test]
fn nothing_of_an_aspect_is_obeyed() {
    let folder = tempfile::tempdir().expect("a folder");
    let aspect = format!(
        "advice a execution(vfs_read) {{ /* {} */ }} \u{1b}[2J\u{9b}2J \u{202e}",
        EVIL.replace('\n', "")
    );
    fs::write(folder.path().join("evil.aspect"), aspect).expect("a file");
    for arguments in [
        &["check", "evil.aspect", "--no-compile"][..],
        &["check", "evil.aspect", "--no-compile", "--json"],
        &["fmt", "evil.aspect", "--check"],
        &["fmt", "evil.aspect", "--json"],
        &["sites", "access(\u{1b}[2J.x)"],
    ] {
        let (status, printed, said) = harmless(folder.path(), arguments);
        assert!(status != Some(0) && !(printed + &said).is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_trace_of_another_user_needs_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    evil(&trace, "host");
    let commands = [
        &["flows", "trace"][..],
        &["records", "trace"],
        &["explain", "trace", "--transaction", "process"],
        &["compare", "trace", "trace"],
        &["vary", "trace"],
        &["report", "trace", "-o", "page.html"],
        &["export", "trace", "--to", "perfetto", "-o", "trace.pftrace"],
    ];
    let refused = |why: &str| {
        for command in commands {
            let (status, _, said) = harmless(folder.path(), command);
            assert_eq!(status, Some(2), "{command:?}: {said}");
            assert!(said.contains(why) && said.contains("--force"), "{said}");
            let (status, printed, said) = harmless(folder.path(), &[command, &["--force"]].concat());
            assert!(status != Some(2), "{command:?} --force: {printed}{said}");
        }
    };
    fs::set_permissions(&trace, fs::Permissions::from_mode(0o770)).expect("our own");
    refused("can be written to by other users");
    fs::set_permissions(&trace, fs::Permissions::from_mode(0o700)).expect("our own");
    if chown(&trace, Some(65534), None).is_ok() {
        refused("belongs to user 65534");
    } else {
        eprintln!("SKIPPED: only root can give a trace away");
    }
}

#[test]
fn a_page_has_the_whole_command_line_only_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["xweave", "record", "--domain", "vm1=sshpass -pSECRET ssh vm1", "--", "curl", "-uSECRET"];
    let domains = vec![Domain { name: "host".into(), number: 1, ..Domain::default() }];
    let manifest = Manifest { domains, command: words.map(str::to_owned).to_vec(), ..Manifest::default() };
    Writer::create(&folder.path().join("trace"), manifest).expect("a trace").finish().expect("a trace");
    for (more, shown) in [(&[][..], false), (&["--command-line"], true)] {
        let of = [&["report", "trace", "--force", "-o", "page.html"], more].concat();
        let (status, _, said) = harmless(folder.path(), &of);
        assert_eq!(status, Some(0), "{said}");
        let page = fs::read_to_string(folder.path().join("page.html")).expect("the page");
        assert_eq!(page.contains("SECRET"), shown, "{more:?}");
    }
}

#[test]
fn pipes_are_refused_at_once_as_kernels_and_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    for arguments in [
        &["sites", "--program", "pipe", "access(sock.sk_state)"][..],
        &["check", "--domain", "host=pipe", "-e", "execution(f) { STORE_DATA1($pc$); }"],
        &["import", "pipe", "-o", "trace"],
        &["flows", "pipe"],
    ] {
        let (status, printed, said) = harmless(folder.path(), arguments);
        assert!(status != Some(0) && said.contains("pipe"), "{arguments:?}: {printed}{said}");
    }
}

#[test]
fn a_link_or_a_folder_of_others_is_no_place_for_a_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let packed = format!("{}/../import/tests/data/bash-v6.dat.zst", env!("CARGO_MANIFEST_DIR"));
    let mut unpacked =
        ruzstd::decoding::StreamingDecoder::new(File::open(packed).expect("a file")).expect("it is packed");
    let mut file = File::create(folder.path().join("bash.dat")).expect("a file");
    std::io::copy(&mut unpacked, &mut file).expect("room for it");
    let victim = folder.path().join("victim");
    fs::create_dir(&victim).expect("a folder");
    symlink(&victim, folder.path().join("link")).expect("a link");
    let (status, _, said) = harmless(folder.path(), &["import", "bash.dat", "-o", "link"]);
    assert!(status == Some(2) && said.contains("is a symbolic link") && said.contains("-o"), "{said}");
    fs::write(victim.join("letters"), "mine").expect("a file");
    let (status, _, said) = harmless(folder.path(), &["import", "bash.dat", "-o", "victim", "--force"]);
    assert!(status == Some(2) && said.contains("other files in it (letters)"), "{said}");
    assert_eq!(fs::read_dir(&victim).expect("a folder").count(), 1);
}

#[test]
fn a_cache_that_others_may_write_to_is_not_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    fs::create_dir(&cache).expect("a folder");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).expect("our own");
    let arguments = ["sites", "access(a.b)", "--program", env!("CARGO_BIN_EXE_xweave")];
    let output =
        Command::new(env!("CARGO_BIN_EXE_xweave")).args(arguments).env("XWEAVE_CACHE", &cache).output();
    let output = output.expect("xweave runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("can be written to by other users") && said.contains("XWEAVE_CACHE"), "{said}");
}
