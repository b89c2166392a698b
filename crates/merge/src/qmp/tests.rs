//! With QEMUs that are made up: threads which listen at a socket of their own.

use std::{
    cell::Cell,
    io::{BufRead, BufReader, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use super::*;

const GREETING: &str =
    r#"{"QMP": {"version": {"qemu": {"micro": 2, "minor": 0, "major": 10}}, "capabilities": ["oob"]}}"#;
const EVENT: &str =
    r#"{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RTC_CHANGE", "data": {"offset": 0}}"#;

/// One that greets, and then answers each question with what is said to it; it tells what it was asked.
struct Made {
    folder: tempfile::TempDir,
    asked: Receiver<Value>,
}

impl Made {
    fn up(greeting: &'static str, mut answer: impl FnMut(&Value) -> String + Send + 'static) -> Self {
        let (tell, asked) = channel();
        Self::with(
            move |mut socket| {
                let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
                writeln!(socket, "{greeting}").unwrap();
                while let Some(Ok(line)) = lines.next() {
                    let question: Value = serde_json::from_str(&line).unwrap();
                    let said = answer(&question);
                    // Nobody may listen any more.
                    let _ = tell.send(question);
                    let _ = write!(socket, "{said}");
                }
            },
            asked,
        )
    }

    /// One that does what it likes with whoever comes.
    fn with(does: impl FnOnce(UnixStream) + Send + 'static, asked: Receiver<Value>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("qmp")).unwrap();
        thread::spawn(move || does(listener.accept().unwrap().0));
        Self { folder, asked }
    }

    fn set_merge(&self, to: bool, as_it_says: bool) -> Result<(), QmpError> {
        let socket = self.folder.path().join("qmp");
        Qemu { pid: 1, socket: Some(&socket) }.set_merge(to, as_it_says, &|| false)
    }

    /// What it was told to set, in words.
    fn told_to_set(&self) -> Vec<String> {
        let set = self.asked.iter().filter(|asked| asked["execute"] == "qom-set").map(|asked| {
            let of = &asked["arguments"];
            format!("{} {} {}", of["path"].as_str().unwrap(), of["property"].as_str().unwrap(), of["value"])
        });
        set.collect()
    }
}

/// The usual answers, of a machine with that memory; an event comes before each.
fn usual(question: &Value, memory: &str) -> String {
    let answer = match question["execute"].as_str().unwrap() {
        "query-memdev" => memory,
        "qmp_capabilities" | "qom-set" => "{}",
        other => panic!("it is not to be asked for {other}"),
    };
    format!("{EVENT}\r\n{{\"return\": {answer}, \"id\": {}}}\r\n", question["id"])
}

#[test]
fn memory_of_its_own_is_marked_and_no_other() {
    let memory = r#"[{"id": "ram0", "size": 7, "merge": false, "share": false, "host-nodes": []},
        {"id": "ram1", "merge": true, "share": false}, {"id": "old", "merge": false},
        {"id": "shared", "merge": false, "share": true}]"#;
    let up = || Made::up(GREETING, |question| usual(question, &memory.replace('\n', " ")));
    let set = |to, as_it_says| {
        let made = up();
        made.set_merge(to, as_it_says).unwrap();
        made.told_to_set()
    };
    assert_eq!(set(true, true), ["/objects/ram0 merge true", "/objects/old merge true"]);
    // It is not as it says: what is to change is set to the contrary first.
    let all =
        ["ram0 merge true", "ram0 merge false", "ram1 merge false", "old merge true", "old merge false"];
    assert_eq!(set(false, false), all.map(|what| format!("/objects/{what}")));
    let shared =
        Made::up(GREETING, |question| usual(question, r#"[{"id": "a", "merge": true, "share": true}]"#));
    assert!(matches!(shared.set_merge(true, true), Err(QmpError::NoMemory)));
}

#[test]
fn what_it_refuses_is_told_in_its_words_but_no_more_of_them() {
    let made = Made::up(GREETING, |question| match question["execute"].as_str() {
        Some("qom-set") => {
            let said = format!("no \\u001b[31mmadvise{}", "!".repeat(5000));
            format!(
                "{{\"id\": {}, \"error\": {{\"class\": \"GenericError\", \"desc\": \"{said}\"}}}}\n",
                question["id"]
            )
        }
        _ => usual(question, r#"[{"id": "a", "merge": false}]"#),
    });
    let error = made.set_merge(true, true).unwrap_err().to_string();
    assert!(error.contains("QEMU refused qom-set: no ") && error.len() < 400, "{error}");
    assert!(!error.contains('\u{1b}'), "{error}");
}

#[test]
fn whatever_it_says_is_an_error_at_most() {
    let wrong = |greeting, answer: &'static str| {
        let made = Made::up(greeting, move |question| match question["execute"].as_str() {
            Some("qmp_capabilities") => usual(question, "[]"),
            _ => answer.replace("ID", &question["id"].to_string()),
        });
        let error = made.set_merge(true, true).unwrap_err();
        assert!(matches!(error, QmpError::Wrong { .. }), "{answer}: {error}");
        error.to_string()
    };
    for greeting in ["", "{}", "[]", "220 mail.example.org ESMTP", "{\"QMP\": 7}", "\u{0}"] {
        wrong(greeting, "");
    }
    assert!(wrong(GREETING, "{\"return\": [], \"id\": 99}\n").contains("what it was not asked"));
    for answer in [
        "{\"return\": []}\n",
        "{\"return\": [], \"id\": \"ID\"}\n",
        "{\"id\": ID}\n",
        "{\"id\": ID, \"error\": \"no\"}\n",
        "{\"id\": ID, \"return\": {}}\n",
        "{\"id\": ID, \"return\": [7]}\n",
        "{\"id\": ID, \"return\": [{\"id\": \"../../machine\", \"merge\": false}]}\n",
        "{\"id\": ID, \"return\": [{\"id\": \"\", \"merge\": false}]}\n",
        "{\"id\": ID, \"return\": [{\"id\": \"a\", \"merge\": \"no\"}]}\n",
        "{\"id\": ID, \"return\"\n",
        "\n",
    ] {
        wrong(GREETING, answer);
    }
    let nested = format!("{{\"id\": ID, \"return\": {}\n", "[".repeat(100_000)).leak();
    assert!(wrong(GREETING, nested).contains("no JSON object"));
}

#[test]
fn one_that_says_no_end_of_things_is_not_listened_to_for_ever() {
    let endless = |greeting: &'static str, text: &'static str| {
        let (_, asked) = channel();
        let says = move |mut socket: UnixStream| {
            socket.write_all(greeting.as_bytes()).unwrap();
            while socket.write_all(text.as_bytes()).is_ok() {}
        };
        let made = Made::with(says, asked);
        made.set_merge(true, true).unwrap_err().to_string()
    };
    assert!(endless("{\"QMP\": ", "{}, ").contains("says more than it should"));
    let (greeting, events) = (format!("{GREETING}\n").leak(), format!("{EVENT}\n").repeat(1000).leak());
    assert!(endless(greeting, events).contains("says more than it should"));
    let (_, asked) = channel();
    let gone = Made::with(drop, asked).set_merge(true, true).unwrap_err().to_string();
    assert!(gone.contains("it has hung up"), "{gone}");
}

#[test]
fn one_that_says_nothing_is_waited_for_no_longer_than_it_may_take() {
    let (_, asked) = channel();
    let made = Made::with(|socket| BufReader::new(socket).lines().for_each(drop), asked);
    let socket = made.folder.path().join("qmp");
    let within = Duration::from_millis(300);
    let begun = Instant::now();
    let error = Client::connect(&socket, None, within, &|| false).err().unwrap();
    assert!(matches!(error, QmpError::Silent { .. }) && begun.elapsed() >= within, "{error}");
    // Where others wait to be let in, too: this one lets one wait, and no more.
    let full = made.folder.path().join("full");
    let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&listener, &SocketAddrUnix::new(&full).unwrap()).unwrap();
    listen(&listener, 0).unwrap();
    for _ in 0..2 {
        let error = Client::connect(&full, None, within, &|| false).err().unwrap();
        assert!(matches!(error, QmpError::Silent { .. }), "{error}");
    }
    // And not at all once somebody has ended it.
    let (begun, asked_again) = (Instant::now(), Cell::new(0));
    let ended = || {
        asked_again.set(asked_again.get() + 1);
        asked_again.get() > 2
    };
    let (_, asked) = channel();
    let made = Made::with(|socket| BufReader::new(socket).lines().for_each(drop), asked);
    let qemu = Qemu { pid: 1, socket: Some(&made.folder.path().join("qmp")) };
    let error = qemu.set_merge(true, true, &ended).unwrap_err();
    assert!(matches!(error, QmpError::Ended) && begun.elapsed() < Duration::from_secs(3), "{error}");
}

#[test]
fn a_socket_that_is_another_s_is_not_spoken_to() {
    let (_, asked) = channel();
    let made = Made::with(drop, asked);
    let socket = made.folder.path().join("qmp");
    let connect = |pid| Client::connect(&socket, Some(pid), Duration::from_secs(1), &|| false).err().unwrap();
    assert!(matches!(connect(1), QmpError::Others { .. }));
    assert!(matches!(connect(std::process::id()), QmpError::Wrong { .. }));
    let none = Client::connect(Path::new("/nowhere"), None, Duration::from_secs(1), &|| false).err().unwrap();
    assert!(none.to_string().contains("--qmp NAME=PATH"), "{none}");
    // This process is no QEMU.
    let here = Qemu { pid: std::process::id(), socket: None };
    assert!(matches!(here.set_merge(true, true, &|| false), Err(QmpError::NoSocket(_))));
}

#[test]
fn what_libvirt_holds_is_asked_for_by_virsh() {
    let line = |words: &[&str]| CommandLine::from(words.join("\0").into_bytes());
    let qemu = ["qemu", "-name", "guest=web1,debug-threads=on", "-numa", "node,memdev=ram-node0", "-S"];
    let json = |id: &str| {
        let arguments = format!("{{\"path\":\"/objects/{id}\",\"property\":\"merge\",\"value\":true}}");
        format!("'{{\"arguments\":{arguments},\"execute\":\"qom-set\"}}'")
    };
    let wanted = format!("virsh qemu-monitor-command web1 {}", json("ram-node0"));
    assert_eq!(virsh(&line(&qemu)), wanted);
    let quoted = virsh(&line(&["qemu", "-name", "guest=a;reboot", "-numa", "node,memdev=x'$(reboot)", "-S"]));
    assert!(quoted.starts_with("virsh qemu-monitor-command 'a;reboot' '{"), "{quoted}");
    assert!(quoted.contains(r"/objects/x'\''$(reboot)"), "{quoted}");
    // Whatever the command line says, a terminal shows it.
    assert!(!virsh(&line(&["qemu", "-name", "a\u{1b}[31m", "-S"])).contains('\u{1b}'));
    assert_eq!(virsh(&line(&["qemu"])), format!("virsh qemu-monitor-command GUEST {}", json("pc.ram")));
}
