//! Worlds: an emulated host with its guests, brought up, used and ended.

use crate::accelerator::Accelerator;
use crate::cache::Cache;
use crate::emulator::QEMU;
use crate::error::{At, Error, Result};
use crate::exec::client::{Address, ExecChild};
use crate::exec::protocol::{Alive, Command, PORT};
use crate::images::{Choice, Images};
use crate::initrd;
use crate::kind::{Boot, GUESTS, HYPERVISOR, KERNEL, Kind, Qemu};
use crate::plugin::Plugin;
use crate::process::{Identity, last_lines, random_hex, start_daemon};
use crate::progress::{Phase, Progress, step};
use crate::runtime::{self, Description, Folder, MONITOR, State};
use serde::Serialize;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, Instant};

/// Number of lines of a console in an error.
const CONSOLE_LINES: usize = 60;
/// Interval between checks of a condition that cannot be waited for.
const POLL: Duration = Duration::from_millis(50);
/// Time that QEMU may take to end by itself.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of one answer of an exec server; requests are repeated until the whole limit is over.
const ANSWER: Duration = Duration::from_secs(3);
/// Guests share this many bridge addresses and interface numbers.
const MOST_GUESTS: u32 = 16;
/// More than a machine's few cores can run side by side would show nothing new.
const MOST_PROCESSORS: u32 = 16;
/// Longest time that an emulated CPU takes to leave idle: `qemu/deep_idle.c` takes no longer one.
const MOST_LATENCY: Duration = Duration::from_secs(1);
/// Most processors of a guest: its network device has a queue for each.
const MOST_GUEST_PROCESSORS: u32 = 4;

/// Options of a new world.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its kind.
    pub kind: Kind,
    /// Its name: lowercase letters, digits, `-`.
    pub name: String,
    /// Guests, 0 to 16.
    pub guests: u32,
    /// The kernel series of all domains, as `6.12`, or `newest`.
    pub kernel: String,
    /// Kernel series of the guests, if another.
    pub guest_kernel: Option<String>,
    /// QEMU that runs the guests of a KVM host.
    pub qemu: Qemu,
    /// The static program that runs in the domains: it serves `lab exec` and is the agent.
    pub xweave: PathBuf,
    /// Timeout until all domains are up.
    pub timeout: Duration,
    /// More kernel arguments for the emulated host.
    pub append: String,
    /// Processors of the emulated host, 1 to 16; by default two, or one where QEMU emulates them in turns.
    pub processors: Option<u32>,
    /// Processors of each guest, 1 to 4; by default two under KVM, one under Xen.
    pub guest_processors: Option<u32>,
    /// Counts time in emulated instructions, so that the same work takes as long each time. For Xen only.
    pub steady: bool,
    /// Time that the emulated host's CPUs take to leave idle after they were idle for at least as long, up to 1 s. For KVM,
    /// in software.
    pub idle_exit_latency: Option<Duration>,
}

impl Options {
    /// A world with the name of its kind and the usual guests on 6.12, with the program that is running now.
    pub fn new(kind: Kind) -> Result<Self> {
        let xweave = std::env::current_exe().at("find", "the program that is running")?;
        Ok(Self {
            kind,
            name: kind.name().into(),
            guests: GUESTS,
            kernel: "6.12".into(),
            guest_kernel: None,
            qemu: Qemu::Release,
            xweave,
            timeout: Duration::from_secs(300),
            append: String::new(),
            processors: None,
            guest_processors: None,
            steady: false,
            idle_exit_latency: None,
        })
    }

    fn choice(&self) -> Choice<'_> {
        Choice {
            kind: self.kind,
            qemu: self.qemu,
            kernel: &self.kernel,
            guest_kernel: self.guest_kernel.as_deref(),
        }
    }
}

/// A running world.
#[derive(Debug, Clone)]
pub struct World {
    name: String,
    folder: Folder,
    description: Description,
    token: String,
}

/// A world in the output of `lab list`.
#[derive(Debug, Clone, Serialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// State: starting, up or broken.
    pub state: State,
    /// Its domains; empty if its `up` did not come so far.
    pub domains: Vec<String>,
    /// Description, if `lab up` has written one.
    #[serde(flatten)]
    pub description: Option<Description>,
    /// The folder with its consoles.
    pub folder: PathBuf,
}

/// All worlds of this user.
pub fn list() -> Result<Vec<Listed>> {
    let mut worlds = Vec::new();
    for name in runtime::names()? {
        // A folder with a name that none of ours can have is no world.
        let Ok(folder) = runtime::folder(&name) else { continue };
        let description = folder.description().unwrap_or(None);
        let domains = description.as_ref().map(Description::domains).unwrap_or_default();
        worlds.push(Listed { name, state: folder.state(), domains, description, folder: folder.0 });
    }
    Ok(worlds)
}

/// Creates the error that no world has this name, with the names of those that run.
fn no_world(name: &str) -> Error {
    let known: Vec<String> = list().unwrap_or_default().into_iter().map(|world| world.name).collect();
    let instead = match known.is_empty() {
        true => "there are none; `xweave lab up kvm` starts one".to_owned(),
        false => xweave_text::instead(name, known.iter().map(String::as_str)),
    };
    Error::NoWorld { name: name.to_owned(), instead }
}

/// Ends a world in any state: its processes first, then its files.
pub fn down(name: &str) -> Result<()> {
    let folder = runtime::folder(name)?;
    if !folder.0.is_dir() {
        return Err(no_world(name));
    }
    end(&folder)?;
    // An `up` at work sees its machine end, and ends too; its folder must not be taken from under it.
    let until = Instant::now() + Duration::from_secs(60);
    while folder.0.is_dir() && folder.lock()?.is_none() && Instant::now() < until {
        std::thread::sleep(POLL);
        end(&folder)?;
    }
    remove(&folder)
}

fn end(folder: &Folder) -> Result<()> {
    match folder.machine()? {
        Some(machine) => machine.end(TIMEOUT),
        None => Ok(()),
    }
}

fn remove(folder: &Folder) -> Result<()> {
    match fs::remove_dir_all(&folder.0) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e).at("remove", &folder.0),
        _ => Ok(()),
    }
}

/// Checks that a number, if there is one, is in a range, for which `rule` is the text.
fn check(
    what: &'static str,
    number: Option<u32>,
    range: RangeInclusive<u32>,
    rule: &'static str,
) -> Result<()> {
    match number.filter(|number| !range.contains(number)) {
        Some(wrong) => Err(Error::Name { what, name: wrong.to_string(), rule }),
        None => Ok(()),
    }
}

impl World {
    /// Brings a world up: builds what images are missing, starts the host, and waits until the host
    /// and every guest answer. If that fails, everything it started is ended.
    pub fn up(options: &Options, progress: Progress<'_>) -> Result<Self> {
        check("number of guests", Some(options.guests), 0..=MOST_GUESTS, "0 to 16")?;
        check("number of CPUs", options.processors, 1..=MOST_PROCESSORS, "1 to 16")?;
        let most = 1..=MOST_GUEST_PROCESSORS;
        check("number of CPUs of a guest", options.guest_processors, most, "1 to 4")?;
        if options.steady && options.kind != Kind::Xen {
            return Err(Error::Steady);
        }
        if options
            .idle_exit_latency
            .is_some_and(|latency| options.kind != Kind::Kvm || latency > MOST_LATENCY)
        {
            return Err(Error::IdleExitLatency);
        }
        let (folder, _lock) = runtime::create(&options.name)?;
        let result = Self::start(options, &folder, progress);
        if result.is_err() {
            // The first error is the one to tell; what cannot be cleaned up stays visible in `lab list`.
            if end(&folder).is_ok() {
                let _ = remove(&folder);
            }
        }
        result
    }

    fn start(options: &Options, folder: &Folder, progress: Progress<'_>) -> Result<Self> {
        let program = initrd::program(&options.xweave)?;
        let cache = Cache::open()?;
        let images = Images::ensure(&cache, options.choice(), progress)?;
        let accelerator = match options.steady {
            true => Accelerator::Tcg,
            false => Accelerator::detect(&cache, &images, progress)?,
        };

        let token = random_hex(16)?;
        let token_file = folder.token_file();
        fs::write(&token_file, &token).at("write", &token_file)?;
        let threads = !options.steady && images.emulator.is_fit();
        let processors = options.processors.unwrap_or_else(|| accelerator.processors(threads));
        let guest_processors = options.guest_processors.unwrap_or_else(|| options.kind.guest_processors());
        let guests = initrd::Guests { number: options.guests, processors: guest_processors };
        let own = initrd::world(&program, options.kind, &guests, &token).at("make", folder.initrd_file())?;
        let base = fs::read(&images.host_initrd).at("read", &images.host_initrd)?;
        initrd::write(&folder.initrd_file(), &[&base, &own])?;
        drop((program, own, base));
        folder.link(KERNEL, &images.kernel.vmlinuz)?;
        if let Some(hypervisor) = &images.hypervisor {
            folder.link(HYPERVISOR, hypervisor)?;
        }
        let mut world = Self {
            name: options.name.clone(),
            folder: folder.clone(),
            description: Description {
                kind: options.kind,
                kernel: images.kernel.kernel.release().to_owned(),
                guest_kernel: images.guest_kernel.kernel.release().to_owned(),
                accelerator,
                emulator: images.emulator.version.clone(),
                processors,
                guests: options.guests,
                guest_processors,
                port: 0,
                ready: false,
            },
            token,
        };
        let deadline = Instant::now() + options.timeout;
        let how = match accelerator {
            Accelerator::Kvm => "hardware virtualization",
            Accelerator::Tcg => "software emulation",
        };
        let host = options.kind.host();
        let cpus = match processors {
            1 => "1 CPU".to_owned(),
            more => format!("{more} CPUs"),
        };
        step(progress, &format!("{host} with {}, {cpus} ({how})", world.description.kernel), || {
            let machine = world.boot(&images, options)?;
            world.wait(host, machine, deadline, |_| true)
        })?;
        // The host's kernel has read it, and it holds the token.
        let _ = fs::remove_file(folder.initrd_file());
        if options.guests > 0 {
            let guests = world.domains().split_off(1);
            step(progress, &guests.join(", "), || {
                let machine = world.machine()?;
                for domain in &guests {
                    world.wait(domain, machine, deadline, |_| true)?;
                    progress(Phase::Note(&format!("{domain} is up")));
                }
                Ok::<_, Error>(())
            })?;
        }
        world.description.ready = true;
        folder.describe(&world.description)?;
        Ok(world)
    }

    /// Starts the host's QEMU, on another port if the one chosen was taken in the meantime.
    fn boot(&mut self, images: &Images, options: &Options) -> Result<Identity> {
        for _ in 0..5 {
            let listener = TcpListener::bind(("127.0.0.1", 0)).at("find a free port on", "127.0.0.1")?;
            self.description.port = listener.local_addr().at("find a free port on", "127.0.0.1")?.port();
            drop(listener);
            self.folder.describe(&self.description)?;
            let mut command = self.qemu(images, options)?;
            let mut child = start_daemon(&mut command, &self.folder.qemu_log(), &self.folder.pid_file())?;
            let machine = self.machine()?;
            // QEMU has its port before it opens the console's file, or has ended because it did not get it.
            loop {
                let ended = child.try_wait().at("wait for", QEMU)?.is_some();
                let said = fs::read_to_string(self.folder.qemu_log()).unwrap_or_default();
                if ended && said.contains("host forwarding") {
                    break;
                }
                if ended || self.folder.console_file().metadata().is_ok_and(|m| m.len() > 0) || self.answers()
                {
                    return Ok(machine);
                }
                if xweave_interrupt::pending() {
                    return Err(Error::Interrupted);
                }
                std::thread::sleep(POLL);
            }
        }
        Err(self.not_up(self.host(), "no free port on 127.0.0.1 was found in five attempts".into()))
    }

    /// Reports whether QEMU's port is open; the server behind it may not be up yet.
    fn answers(&self) -> bool {
        std::net::TcpStream::connect(("127.0.0.1", self.description.port)).is_ok()
    }

    fn qemu(&self, images: &Images, options: &Options) -> Result<process::Command> {
        let description = &self.description;
        let drive = |path: &Path, mode: &str| format!("file={},format=raw,if=virtio,{mode}", quoted(path));
        let mut command = images.emulator.command();
        command.arg("-name").arg(format!("xweave-lab-{}", self.name));
        command.current_dir(&self.folder.0);
        let processors = description.processors;
        // Those of a steady machine take turns in one thread, by the instruction.
        let threads = !options.steady && processors > 1 && images.emulator.is_fit();
        command.args(match options.steady {
            true => Accelerator::steady(),
            false => description.accelerator.arguments(threads),
        });
        let emulated = description.accelerator == Accelerator::Tcg;
        let patched_code = (threads && emulated).then_some(Plugin::PatchedCode);
        let deep_idle = options.idle_exit_latency.map(|latency| Plugin::DeepIdle { latency });
        if deep_idle.is_some() && !(emulated && images.emulator.is_fit()) {
            return Err(Error::IdleExitLatency);
        }
        for plugin in patched_code.into_iter().chain(deep_idle) {
            command.arg("-plugin").arg(plugin.install(&self.folder.0)?);
        }
        command.arg("-smp").arg(processors.to_string());
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        let accelerator = description.accelerator;
        let boot = Boot { accelerator, processors, guests: description.guests, append: &options.append };
        description.kind.machine(&mut command, &boot);
        command.arg("-chardev").arg(format!("file,id=console,path={}", quoted(&self.folder.console_file())));
        command.args(["-serial", "chardev:console"]);
        command.args(["-chardev", &format!("socket,id=monitor,path={MONITOR},server=on,wait=off")]);
        command.args(["-mon", "chardev=monitor,mode=readline"]);
        command.args(["-d", "cpu_reset", "-D"]).arg(self.folder.reset_log());
        // What the host writes goes to a file without a name that ends with QEMU: the image stays as it is.
        command.arg("-drive").arg(drive(&images.root, "snapshot=on,cache=unsafe"));
        command.arg("-drive").arg(drive(&images.kernel.modules_image(), "readonly=on"));
        command.arg("-netdev").arg(format!(
            "user,id=lab,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:{}-10.0.2.15:{PORT}",
            description.port
        ));
        command.args(["-device", "virtio-net-pci,netdev=lab,romfile="]);
        Ok(command)
    }

    fn machine(&self) -> Result<Identity> {
        let missing = || no_world(&self.name);
        self.folder.machine()?.ok_or_else(missing)
    }

    /// Waits until a domain answers in a boot that `accept`s.
    fn wait(
        &self,
        domain: &str,
        machine: Identity,
        deadline: Instant,
        accept: impl Fn(&Alive) -> bool,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            let limit = ANSWER.min(deadline.saturating_duration_since(Instant::now()).max(POLL));
            let last = match self.address(domain).ping(limit) {
                Ok(alive) if accept(&alive) => return Ok(()),
                Ok(_) => "it has not rebooted yet".to_owned(),
                Err(error) => error.to_string(),
            };
            if xweave_interrupt::pending() {
                return Err(Error::Interrupted);
            }
            if !machine.alive() {
                // The console of the host shows why, also where the wait was for a guest.
                return Err(self.not_up(self.host(), "QEMU exited".into()));
            }
            if Instant::now() >= deadline {
                let why = format!("no answer after {} s ({last})", begun.elapsed().as_secs());
                return Err(self.not_up(domain, why));
            }
            std::thread::sleep(POLL);
        }
    }

    fn not_up(&self, domain: &str, why: String) -> Error {
        let mut console = self.console_lines(domain);
        let said = fs::read_to_string(self.folder.qemu_log()).unwrap_or_default();
        // Each start prints these about what emulation lacks.
        let said: Vec<_> =
            said.lines().filter(|l| !l.contains("doesn't support requested feature")).collect();
        if !said.is_empty() {
            console = format!("{console}\nQEMU: {}", said.join("\n"));
        }
        let resets = fs::read_to_string(self.folder.reset_log()).unwrap_or_default();
        if resets.contains("Triple fault") {
            console.push_str("\nQEMU: triple fault in the emulated host");
        }
        Error::Boot { world: self.name.clone(), domain: domain.to_owned(), why, console }
    }

    fn console_lines(&self, domain: &str) -> String {
        if domain == self.host() {
            return last_lines(&self.folder.console_file(), CONSOLE_LINES);
        }
        let lines = CONSOLE_LINES.to_string();
        let script = "tail -n \"$2\" /run/lab/$1/console.log; cat /run/lab/$1/start.err";
        let command = Command::new(["sh", "-c", script, "sh", domain, &lines]);
        match self.address(self.host()).run(&command).and_then(|child| child.output(&[])) {
            Ok(output) => String::from_utf8_lossy(&output.stdout).replace('\r', "").trim_end().to_owned(),
            Err(e) => format!("(no console: {e})"),
        }
    }

    /// Finds a world that is up. Fails for one that is starting or broken, which has no domains to use.
    pub fn find(name: &str) -> Result<Self> {
        let folder = runtime::folder(name)?;
        if !folder.0.is_dir() {
            return Err(no_world(name));
        }
        let state = folder.state();
        let (State::Up, Some(description)) = (state, folder.description()?) else {
            let host = folder.host();
            return Err(Error::NotUp { name: name.to_owned(), state: state.to_string(), host });
        };
        let token_file = folder.token_file();
        let token = fs::read_to_string(&token_file).at("read", token_file)?;
        Ok(Self { name: name.to_owned(), folder, description, token })
    }

    /// The world's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Description of the world.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// `host`, `vm1`, …
    pub fn domains(&self) -> Vec<String> {
        self.description.domains()
    }

    /// The domain that has the devices and starts the guests: `host`, `dom0`.
    pub fn host(&self) -> &'static str {
        self.description.kind.host()
    }

    /// CPU time of the emulated machine; `None` after it has ended. Distinguishes a world that hangs from one that
    /// this machine has no time for.
    pub fn worked(&self) -> Option<Duration> {
        let machine = self.machine().ok()?;
        machine.worked().filter(|_| machine.alive())
    }

    /// Has QEMU's monitor do these commands, and gives what it printed: what the emulated processors are doing can
    /// be seen where no kernel answers any more.
    pub fn monitor(&self, commands: &[String]) -> Result<String> {
        let path = self.folder.monitor();
        let mut socket = UnixStream::connect(&path).at("connect to", &path)?;
        socket.set_read_timeout(Some(ANSWER)).at("set up", &path)?;
        for command in commands {
            writeln!(socket, "{command}").at("write to", &path)?;
        }
        // QEMU prints until its input ends; an answer that is late ends the read.
        let mut said = Vec::new();
        match socket.shutdown(Shutdown::Write).and_then(|()| socket.read_to_end(&mut said)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).at("read", &path),
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    fn address(&self, domain: &str) -> Address {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, self.description.port));
        Address { at, token: self.token.clone(), domain: domain.to_owned() }
    }

    fn known(&self, domain: &str) -> Result<()> {
        if self.domains().iter().any(|d| d == domain) {
            return Ok(());
        }
        let known = xweave_text::instead(domain, self.domains().iter().map(String::as_str));
        Err(Error::NoDomain { world: self.name.clone(), domain: domain.to_owned(), known })
    }

    /// Starts a command in a domain.
    pub fn exec(&self, domain: &str, command: &Command) -> Result<ExecChild> {
        self.known(domain)?;
        self.address(domain).run(command)
    }

    /// Resets a guest as its reset button would. With a limit, returns when it is up again.
    pub fn reset(&self, guest: &str, wait: Option<Duration>) -> Result<()> {
        self.known(guest)?;
        if guest == self.host() {
            let rule = "a guest: to restart the host, end the world and bring it up again";
            return Err(Error::Name { what: "domain to reset", name: guest.to_owned(), rule });
        }
        // One that hangs has no boot to compare with: then any answer is a new one.
        let before = self.address(guest).ping(ANSWER).ok();
        self.address(self.host()).reset(guest)?;
        match wait {
            None => Ok(()),
            Some(limit) => {
                self.wait(guest, self.machine()?, Instant::now() + limit, |now| before.as_ref() != Some(now))
            }
        }
    }

    /// Ends the world and removes its files.
    pub fn down(self) -> Result<()> {
        down(&self.name)
    }
}

/// Writes a domain's whole console to `out`; that of a host also where the world is broken.
pub fn console(name: &str, domain: &str, out: &mut impl Write) -> Result<()> {
    let folder = runtime::folder(name)?;
    if !folder.0.is_dir() {
        return Err(no_world(name));
    }
    if domain == folder.host() {
        let path = folder.console_file();
        let mut file = fs::File::open(&path).at("read", &path)?;
        return io::copy(&mut file, out).at("copy", path).map(|_| ());
    }
    let world = World::find(name)?;
    world.known(domain)?;
    let path = format!("/run/lab/{domain}/console.log");
    let output = world.exec(world.host(), &Command::new(["cat", &path]))?.output(&[])?;
    out.write_all(&output.stdout).at("write", "the console")
}

/// QEMU separates options by commas; a doubled one is part of the value.
fn quoted(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_are_doubled_for_qemu() {
        assert_eq!(quoted(Path::new("/a,b")), "/a,,b");
    }
}
