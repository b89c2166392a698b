//! Driving a world and the program under test, as a user would.

use std::{
    cell::Cell,
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use xweave_model::Usage;
use xweave_trace::Trace;

/// Tests share one world, and take turns: how many CPUs its guests have, once that is known.
static TURN: Mutex<Cell<Option<u8>>> = Mutex::new(Cell::new(None));

/// How long anything may take in an emulated machine on a busy one.
pub const PATIENCE: Duration = Duration::from_secs(480);

pub struct World {
    name: String,
    program: PathBuf,
    since: Instant,
    guest_cpus: MutexGuard<'static, Cell<Option<u8>>>,
}

impl Drop for World {
    fn drop(&mut self) {
        // Seen beside the test's result: the lab is most of what `make test` takes.
        print!("[{} s] ", self.since.elapsed().as_secs());
    }
}

impl World {
    /// The world that the environment names; none, said loudly, where it names none. Its guests have one CPU: all that
    /// kernels do shares the emulated host's one CPU, and is a quarter less where no other has to be told of it.
    pub fn find(test: &str) -> Option<Self> {
        let world = Self::as_it_is(test)?;
        world.set_guest_cpus(1);
        Some(world)
    }

    /// The same with guests of two CPUs, for what happens on several at once.
    pub fn with_two_cpus(test: &str) -> Option<Self> {
        let world = Self::as_it_is(test)?;
        world.set_guest_cpus(2);
        Some(world)
    }

    /// The same as it was left: for what no guest matters to, or what sees to CPUs itself.
    pub fn as_it_is(test: &str) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (Ok(name), Ok(program)) = (env::var("XWEAVE_WORLD"), env::var("XWEAVE_BIN")) else {
            // Past the test harness's capture, so that it is seen and counted, and in one piece.
            let line = format!("SKIPPED: {test}: no lab (run `make lab-test`)\n");
            let mut stderr = fs::File::options().append(true).open("/dev/stderr").unwrap();
            let _ = stderr.write_all(line.as_bytes());
            return None;
        };
        Some(Self { name, program: program.into(), since: Instant::now(), guest_cpus: turn })
    }

    fn set_guest_cpus(&self, cpus: u8) {
        if self.guest_cpus.replace(Some(cpus)) != Some(cpus) {
            for guest in ["vm1", "vm2"] {
                self.run(guest, &format!("echo {} >/sys/devices/system/cpu/cpu1/online", cpus - 1));
            }
        }
    }

    /// A guest is about to start anew, with all its CPUs.
    pub fn guests_restart(&self) {
        self.guest_cpus.set(None);
    }

    pub fn xweave(&self) -> Command {
        Command::new(&self.program)
    }

    /// The command that starts an agent in a domain: a transport, for a controller outside of the lab.
    pub fn agent(&self, domain: &str) -> String {
        format!("{} lab exec {} {domain} -- xweave agent --stdio", self.program.display(), self.name)
    }

    fn in_domain(&self, domain: &str, script: &str) -> Command {
        let mut command = self.xweave();
        command.args(["lab", "exec", &self.name, domain, "--", "sh", "-c", script]);
        command
    }

    /// Runs a script in a domain, whatever its status.
    pub fn try_run(&self, domain: &str, script: &str) -> Output {
        self.in_domain(domain, script).stdin(Stdio::null()).output().unwrap()
    }

    /// Runs a script in a domain that must succeed; gives its standard output.
    pub fn run(&self, domain: &str, script: &str) -> String {
        let output = self.try_run(domain, script);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "in {domain}: {script}\n{}\n{text}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }

    /// Starts a script in a domain; it goes on until its standard input is closed or it is killed.
    pub fn start(&self, domain: &str, script: &str) -> Running {
        let log = tempfile::NamedTempFile::new().unwrap();
        let (out, err) = (log.reopen().unwrap(), log.reopen().unwrap());
        let mut child =
            self.in_domain(domain, script).stdin(Stdio::piped()).stdout(out).stderr(err).spawn().unwrap();
        let input = child.stdin.take();
        Running { child, input, log, script: script.to_owned() }
    }

    /// Writes a file in a domain.
    pub fn write(&self, domain: &str, path: &str, text: &str) {
        let mut running =
            self.in_domain(domain, &format!("cat >{path}")).stdin(Stdio::piped()).spawn().unwrap();
        running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(running.wait().unwrap().success());
    }

    /// Copies a file, or what is in a folder, into a folder of a domain.
    pub fn push(&self, domain: &str, from: &Path, to: &str) {
        let arguments = ["lab", "push", &self.name, domain];
        let status = self.xweave().args(arguments).arg(from).arg(to).status().unwrap();
        assert!(status.success(), "push {}", from.display());
    }

    /// Makes the index of the kernel's code here and brings it to the host, which would take minutes for it.
    pub fn index_code(&self) {
        const KEPT: &str = "/root/.cache/xweave/access";
        if self.try_run("host", &format!("ls {KEPT}/*.index")).status.success() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let kernel = dir.path().join("vmlinuz");
        self.pull("host", "/run/lab/vmlinuz", &kernel);
        let mut command = self.xweave();
        command.args(["sites", "access(sk_buff.len)", "--jsonl", "--for-record", "--kernel"]).arg(&kernel);
        let output = command.env("XWEAVE_CACHE", dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.run("host", &format!("mkdir -p {KEPT}"));
        self.push("host", &dir.path().join("access"), &format!("{KEPT}/"));
    }

    /// Copies a file or folder out of a domain.
    pub fn pull(&self, domain: &str, from: &str, to: &Path) {
        let status = self.xweave().args(["lab", "pull", &self.name, domain, from]).arg(to).status().unwrap();
        assert!(status.success(), "pull {from}");
    }

    /// Checks that in a trace that was pulled no vCPU was in two states at a time, and keeps it for the tests of the page, where
    /// scripts/test names a folder for these.
    pub fn keep(&self, trace: &Path, name: &str) {
        let usage = Usage::of(&Trace::open(trace).unwrap());
        for (domain, of) in usage.vms() {
            let (states, span) = (usage.vcpu_states(domain, of), usage.spans[domain]);
            assert!(states.total_ns() <= states.vcpus * span, "{of:?}: {states:?} in {span}");
        }
        if let Some(folder) = env::var_os("XWEAVE_TRACES") {
            // The page may be tested meanwhile: it sees whole traces only.
            let kept = Path::new(&folder).join(format!("{name}-{}", self.name));
            let partial = Path::new(&folder).join(format!(".{name}-{}", self.name));
            let copied = Command::new("cp").arg("-rT").args([trace, &*partial]).status().unwrap();
            assert!(copied.success(), "{}", partial.display());
            let _ = fs::remove_dir_all(&kept);
            fs::rename(partial, kept).unwrap();
        }
    }

    /// Reports whether KVM has ended a guest that it cannot emulate, as QEMU's log tells.
    ///
    /// Seen in emulated hosts of Linux 7.3, and never of 6.12: an access to a device (`iowrite8`, `iowrite16`) counts as one in
    /// the delivery of an event, which KVM does not emulate (KVM_INTERNAL_ERROR_DELIVERY_EV), and QEMU stops the guest.
    pub fn is_ended_by_kvm(&self, guest: &str) -> bool {
        let log = format!("grep -q 'KVM internal error. Suberror: 3' /run/lab/{guest}/qemu.log");
        self.try_run("host", &log).status.success()
    }

    /// Hard-resets a guest; comes back when it is up again, with all its CPUs.
    pub fn reset(&self, domain: &str) {
        self.guests_restart();
        let status = self.xweave().args(["lab", "reset", &self.name, domain]).status().unwrap();
        assert!(status.success(), "reset {domain}");
    }

    /// Begins a recording in the host that lasts until [`Running::finish`], and waits until it is woven.
    pub fn record(&self, arguments: &str) -> Running {
        self.record_in("host", arguments)
    }

    /// The same, in a host of that name.
    pub fn record_in(&self, host: &str, arguments: &str) -> Running {
        self.compile_here(host, arguments);
        let mut running = self.start(
            host,
            &format!("exec xweave record {arguments} --force -- sh -c 'echo all is woven >&2; exec cat'"),
        );
        running.wait_for("all is woven");
        running
    }

    /// `xweave flows --json` of a trace that was pulled.
    pub fn flows(&self, trace: &Path) -> Value {
        let output = self.xweave().arg("flows").arg(trace).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What a trace in the host tells of transactions: the document of `explain --json`.
    pub fn explain(&self, trace: &str, transaction: &str) -> Value {
        let told = self.run("host", &format!("xweave explain {trace} --transaction {transaction} --json"));
        serde_json::from_str(&told).unwrap()
    }

    /// So many datagrams a second from vm1 to vm2, for longer than any test lasts: until it is dropped.
    pub fn traffic(&self, rate: u32) -> Running {
        let load = "exec xweave lab load udp-send --to 10.77.0.2:9002 --count 10000000";
        let running = self.start("vm1", &format!("{load} --rate {rate}"));
        self.until("vm1", "grep -q udp-send /proc/[0-9]*/cmdline");
        running
    }

    /// Kills, by SIGKILL, the processes of a domain whose command line begins so. (Guests have no pkill,
    /// and it would find the shell that runs it.)
    pub fn kill(&self, domain: &str, command: &str) {
        self.signal(domain, command, "KILL");
    }

    /// Does something while a domain's agent reads nothing: however slow the processor is, small buffers overflow.
    pub fn while_nobody_reads(&self, domain: &str, what: impl FnOnce()) {
        self.signal(domain, AGENT, "STOP");
        what();
        self.signal(domain, AGENT, "CONT");
    }

    /// Sends so many datagrams from vm1 to a port of vm2, half of them while nobody reads in vm1.
    pub fn send_half_unread(&self, port: u16, count: u64) {
        let half = count / 2;
        let load = "xweave lab load udp-send --rate 5000 --senders 2";
        let send = || drop(self.run("vm1", &format!("{load} --to 10.77.0.2:{port} --count {half}")));
        send();
        self.while_nobody_reads("vm1", send);
    }

    /// Sends the processes of a domain whose command begins like this a signal; there must be one.
    pub fn signal(&self, domain: &str, command: &str, signal: &str) {
        self.run(domain, &signalled(command, signal));
    }

    /// Waits until a script succeeds in a domain.
    pub fn until(&self, domain: &str, script: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.try_run(domain, script);
            if output.status.success() {
                return;
            }
            // The lab's own: the world is no more. A guest that is being brought up may not answer yet.
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() != Some(125) || told.contains("does not answer"), "{told}");
            assert!(Instant::now() < deadline, "in {domain}, never true: {script}");
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Of what [`World::flows`] gives: nothing was lost, and no flow came before it went.
pub fn assert_sound(report: &Value) {
    let summary = &report["summary"];
    assert_eq!((&summary["lost"], &summary["negative_gaps"]), (&0.into(), &0.into()), "{summary}");
}

/// A script that sends the processes whose command begins like this a signal, and succeeds if there is one.
pub fn signalled(command: &str, signal: &str) -> String {
    format!(
        "sent=1\n{}\nexit $sent",
        for_each(command, &format!(r#"kill -{signal} "${{process#/proc/}}" && sent=0"#))
    )
}

/// A script that does something for each process whose command line begins so: `$process` is its folder in /proc.
pub fn for_each(command: &str, what: &str) -> String {
    // Of few processes the command line is looked at closer: that takes another, on one CPU that is emulated.
    let word = command.split(' ').next().unwrap();
    format!(
        r#"for process in $(grep -lF -e "{word}" /proc/[0-9]*/cmdline); do
            process=${{process%/cmdline}}
            case "$(tr '\0' ' ' <$process/cmdline)" in
            "{command}"*) {what} ;;
            esac
        done 2>/dev/null"#
    )
}

/// Both guests, as `record` wants them.
pub const DOMAINS: &str = "--domain vm1=vsock:3 --domain vm2=vsock:4";

/// How a session of an agent shows itself among the processes.
pub const AGENT: &str = "/proc/self/exe agent --stdio";

pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    log: tempfile::NamedTempFile,
    script: String,
}

impl Running {
    pub fn log(&self) -> String {
        fs::read_to_string(self.log.path()).unwrap()
    }

    pub fn wait_for(&mut self, text: &str) {
        self.wait_until_said(text, 1);
    }

    /// The same of a text that it may have said before: until it says it once more.
    pub fn wait_for_another(&mut self, text: &str) {
        self.wait_until_said(text, self.log().matches(text).count() + 1);
    }

    fn wait_until_said(&mut self, text: &str, times: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.log().matches(text).count() < times {
            let over = self.child.try_wait().unwrap();
            assert!(
                over.is_none(),
                "{} ended ({over:?}) before it said {text:?}:\n{}",
                self.script,
                self.log()
            );
            assert!(Instant::now() < deadline, "{} never said {text:?}:\n{}", self.script, self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Closes standard input and waits for the end: status and all that was said.
    pub fn finish(mut self) -> (Option<i32>, String) {
        drop(self.input.take());
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.log());
            }
            assert!(Instant::now() < deadline, "{} does not end:\n{}", self.script, self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn finish_well(self) -> String {
        let script = self.script.clone();
        let (status, log) = self.finish();
        assert_eq!(status, Some(0), "{script}\n{log}");
        log
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only if a test fails in the middle: the command in the domain goes with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of all transactions of a document of `explain`, the most time that one has in such parts, in nanoseconds.
pub fn longest(document: &Value, wanted: impl Fn(&Value) -> bool) -> u64 {
    let sum = |transaction: &Value| -> u64 {
        let parts = transaction["parts"].as_array().unwrap().iter();
        parts.filter(|part| wanted(part)).map(|part| part["ns"].as_u64().unwrap()).sum()
    };
    document["transactions"].as_array().unwrap().iter().map(sum).max().unwrap()
}

/// The hops of a flow in this domain that are of this kind.
pub fn hops<'f>(flow: &'f Value, domain: &str, kind: &str) -> Vec<&'f Value> {
    let hops = flow["hops"].as_array().unwrap().iter();
    hops.filter(|hop| hop["domain"] == domain && hop["kind"] == kind).collect()
}
