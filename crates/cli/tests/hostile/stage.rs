//! A whole `xweave record` whose domains are scripted agents: no kernel is touched, and nothing runs as root but the
//! controller.
//!
//! Each domain is reached by a command, as by ssh: two named pipes lead from it to a thread of this test.

use std::{
    ffi::OsStr,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use object::{Object, ObjectSection};
use serde_json::Value;
use xweave_synthetic::agent::{self, Script};
use xweave_wire::message::DomainInfo;

use crate::peak::take_end;

/// The types of a kernel that has two functions.
static TYPES: LazyLock<Vec<u8>> = LazyLock::new(|| types("int length; struct item *next;"));

/// Those of one whose structure has these members: `length` and `next` among them.
pub fn types(members: &str) -> Vec<u8> {
    types_beside(members, "")
}

/// The same of a kernel that has some more in it.
pub fn types_beside(members: &str, more: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let (source, object) = (dir.path().join("kernel.c"), dir.path().join("kernel.o"));
    let text = format!(
        "struct item {{ {members} }};\n\
         int take_item(struct item *item) {{ return item->length; }}\n\
         int give_item(struct item *item) {{ return item->next->length; }}\n\
         {more}"
    );
    fs::write(&source, text).unwrap();
    let clang = xweave_weave::find_clang().expect("clang compiles advice: apt install clang-14");
    let mut command = Command::new(clang);
    command.args(["-target", "bpf", "-g", "-O1", "-c"]).arg(&source).arg("-o").arg(&object);
    assert!(command.status().unwrap().success());
    let object = fs::read(&object).unwrap();
    let object = object::read::elf::ElfFile64::<object::LittleEndian>::parse(&*object).unwrap();
    object.section_by_name(".BTF").unwrap().data().unwrap().to_vec()
}

/// What one scripted domain is.
pub struct Domain {
    pub name: &'static str,
    pub facts: DomainInfo,
    pub btf: Vec<u8>,
    /// Records that an honest agent sends.
    pub records: u64,
    pub script: Box<dyn Script + Send>,
}

impl Domain {
    pub fn new(name: &'static str, script: impl Script + Send + 'static) -> Self {
        let facts = DomainInfo { boot_id: format!("boot of {name}"), ..agent::facts("6.12.0") };
        Self { name, facts, btf: TYPES.clone(), records: 5000, script: Box::new(script) }
    }

    pub fn honest(name: &'static str) -> Self {
        Self::new(name, agent::Honest)
    }
}

/// A recording under way.
pub struct Recording {
    dir: tempfile::TempDir,
    child: Child,
    begun: Instant,
    /// Domains, each of which may be hostile.
    domains: u64,
    /// The most memory that the controller had, in bytes.
    peak: u64,
    status: Option<ExitStatus>,
}

/// How a recording ended.
pub struct Ended {
    dir: tempfile::TempDir,
    pub status: Option<i32>,
    /// What it printed: standard output and standard error.
    pub output: String,
    /// The most memory that the controller had, in bytes.
    pub peak: u64,
    pub took: Duration,
}

/// Memory of the controller for itself, and for each domain (SECURITY.md), in bytes.
const OWN_MEMORY: u64 = 128 << 20;
const DOMAIN_MEMORY: u64 = 384 << 20;

/// Memory of a process that reads what a domain sent, at most (docs/confinement.md), in bytes.
const READER_MEMORY: u64 = 1 << 30;

pub const ASPECT: &str = "execution(take_item, give_item) { STORE_DATA1(item->length); }";

/// The named pipes by which a domain is reached, a pair for each time.
struct Pipes {
    folder: PathBuf,
    name: &'static str,
}

impl Pipes {
    /// Makes the pair, to the agent and from it, by which the domain is reached next.
    fn make(&self, nth: u32) -> [PathBuf; 2] {
        let Self { folder, name } = self;
        let pair = ["in", "out"].map(|end| folder.join(format!("{name}-{nth}.{end}")));
        // Neither is to be had once the test has ended, with its folder.
        let _ = Command::new("mkfifo").args(&pair).stderr(Stdio::null()).status();
        let new = folder.join(format!("{name}.new"));
        let _ = fs::write(&new, nth.to_string())
            .and_then(|()| fs::rename(new, folder.join(format!("{name}.next"))));
        pair
    }
}

/// Begins to record these domains.
pub fn record(domains: Vec<Domain>, arguments: &str) -> Recording {
    record_with(domains, arguments, Path::new("cache"))
}

/// The same, with what was kept before.
pub fn record_with(domains: Vec<Domain>, arguments: &str, cache: &Path) -> Recording {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
    command.args(["record", "-e", ASPECT, "-o"]).arg(dir.path().join("trace"));
    command.args(arguments.split_whitespace());
    let count = domains.len() as u64;
    for domain in domains {
        let Domain { name, facts, btf, records, mut script } = domain;
        let pipes = Pipes { folder: dir.path().to_owned(), name };
        let mut pair = pipes.make(0);
        command.arg("--domain").arg(format!(
            "{name}=cd {}; nth=$(cat {name}.next); cat {name}-$nth.out & exec cat >{name}-$nth.in",
            dir.path().display()
        ));
        // Again and again: where a domain is left out, the others are reached anew, by pipes of their own: what is left in
        // those of before would be taken for the next.
        thread::spawn(move || {
            for nth in 1.. {
                let [to_agent, from_agent] = pair;
                let (Ok(input), Ok(output)) =
                    (File::open(to_agent), File::options().write(true).open(from_agent))
                else {
                    return;
                };
                pair = pipes.make(nth);
                // That the controller cuts it off is what is tested.
                let _ = agent::serve(input, output, facts.clone(), btf.clone(), records, &mut *script);
            }
        });
    }
    let log = File::create(dir.path().join("log")).unwrap();
    command.env("XWEAVE_CACHE", dir.path().join(cache)).current_dir(dir.path());
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    let child = command.spawn().unwrap();
    Recording { dir, child, begun: Instant::now(), domains: count, peak: 0, status: None }
}

impl Recording {
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join("log")).unwrap()).into_owned()
    }

    fn is_over(&mut self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let kilobytes = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = kilobytes.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        self.peak = self.peak.max(kilobytes.unwrap_or(0) << 10);
        self.reap(libc::WNOHANG);
        self.status.is_some()
    }

    /// Takes note of its end, and asserts that it and its processes kept to their memory.
    fn reap(&mut self, options: i32) {
        if self.status.is_some() {
            return;
        }
        let Some((status, largest)) = take_end(self.child.id(), options) else { return };
        self.status = Some(status);
        let (peak, domains) = (self.peak, self.domains);
        println!("at most {} MiB in the controller, {} MiB in one process", peak >> 20, largest >> 20);
        assert!(peak < OWN_MEMORY + domains * DOMAIN_MEMORY, "{domains} domains: {} MiB", peak >> 20);
        assert!(largest < peak.max(READER_MEMORY), "a process of it: {} MiB", largest >> 20);
    }

    /// Waits until it has said this.
    pub fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.output().contains(text) {
            assert!(!self.is_over(), "it ended before it said {text:?}:\n{}", self.output());
            assert!(Instant::now() < deadline, "it never said {text:?}:\n{}", self.output());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lets it go on for a while, whatever happens.
    pub fn go_on(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until && !self.is_over() {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// As Ctrl-C at its terminal does.
    pub fn interrupt(&mut self) {
        let id = libc::pid_t::try_from(self.child.id()).unwrap();
        // SAFETY: takes integers; the child has not been waited for.
        assert_eq!(unsafe { libc::kill(id, libc::SIGINT) }, 0);
    }

    /// Waits for its end, that long at most.
    pub fn end_within(mut self, limit: Duration) -> Ended {
        let asked = Instant::now();
        while !self.is_over() {
            if asked.elapsed() > limit {
                let _ = self.child.kill();
                self.reap(0);
                panic!("it had not ended after {limit:?}:\n{}", self.output());
            }
            thread::sleep(Duration::from_millis(5));
        }
        let status = self.status.and_then(|status| status.code());
        let output = self.output();
        Ended { status, output, peak: self.peak, took: self.begun.elapsed(), dir: self.dir }
    }
}

impl Ended {
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Asserts that it said each of these, and ended with that status.
    pub fn said(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, Some(status), "{}", self.output);
        for word in words {
            assert!(self.output.contains(word), "{word:?} is missing in:\n{}", self.output);
        }
    }

    /// Asserts that its memory stayed within what one hostile domain may use, and the program's own.
    pub fn within_budget(&self) {
        assert!(self.peak > 0 && self.peak < OWN_MEMORY + DOMAIN_MEMORY, "{} MiB", self.peak >> 20);
    }

    /// How many records of a domain the trace has. What another sent may be such that its files are not read.
    pub fn records(&self, domain: &str) -> u64 {
        let trace = xweave_trace::Trace::open(&self.path("trace")).unwrap();
        let number = trace.manifest().domains.iter().find(|one| one.name == domain).unwrap().number;
        let (rows, damaged) = trace.rows();
        let of_it = |file: &Path| {
            let name = file.file_name().and_then(OsStr::to_str).unwrap();
            name.strip_prefix(domain).is_some_and(|rest| rest.starts_with('-'))
        };
        assert!(!damaged.iter().any(|damaged| of_it(&damaged.file)), "{damaged:?}");
        rows.iter().filter(|row| row.domain == number).count() as u64
    }

    pub fn manifest(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("trace/trace.json")).unwrap()).unwrap()
    }

    /// Asserts that nothing was written but the trace and the cache: beside these lies what the test itself made.
    pub fn wrote_nothing_else(&self) {
        for entry in fs::read_dir(self.dir.path()).unwrap() {
            let name = entry.unwrap().file_name();
            let known = name == "trace" || name == "cache" || name == "log";
            let pipe = Path::new(&name)
                .extension()
                .is_some_and(|end| end == "in" || end == "out" || end == "next" || end == "new");
            assert!(known || pipe, "{name:?} was written");
        }
    }

    /// What another command says of the trace.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xweave"));
        let arguments = arguments.iter().map(OsStr::new);
        let output = command.args(arguments).arg(self.path("trace")).output().unwrap();
        let mut said = output.stdout;
        said.extend(output.stderr);
        String::from_utf8(said).unwrap()
    }

    /// Bytes of all files of the trace.
    pub fn size(&self) -> u64 {
        fn of(path: &Path) -> u64 {
            let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
            entries
                .map(
                    |entry| {
                        if entry.path().is_dir() {
                            of(&entry.path())
                        } else {
                            entry.metadata().unwrap().len()
                        }
                    },
                )
                .sum()
        }
        of(&self.path("trace"))
    }
}

/// Whether a text has characters that a terminal obeys, line feeds apart.
pub fn is_obeyed(text: &str) -> bool {
    text.contains(|c: char| c != '\n' && c.is_control())
}
