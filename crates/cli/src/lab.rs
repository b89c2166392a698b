//! `xweave lab`: emulated worlds to run in.

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use xweave_interrupt as interrupt;
use xweave_lab::{
    Cache, Choice, Command, Description, Error, ExecChild, Images, Listen, Options, PORT, Phase, World, load,
};
use xweave_report::document;

use crate::called;
use crate::failure::Failure;
use crate::shown;

/// Emulated worlds: a stock KVM host with guests, or Xen, on any machine.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  xweave lab up kvm\n  xweave lab exec kvm vm1 -- uname -r")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Bring a world up, and leave it running.
    #[command(after_help = "Example:\n  xweave lab up kvm --kernel 7.3 --guest-kernel 6.1 --name mixed")]
    Up(UpArgs),
    /// Bring a world up, run a command in its host, end the world. Exits as the command did (125: the lab failed).
    #[command(after_help = "Example:\n  xweave lab run kvm -- ping -c 3 10.77.0.1")]
    Run {
        #[command(flatten)]
        up: UpArgs,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Build the images that worlds boot from, and nothing else.
    #[command(after_help = "Example:\n  xweave lab build kvm --kernel newest")]
    Build {
        /// What kind of world.
        #[arg(value_enum, default_value_t = Kind::Kvm)]
        kind: Kind,
        #[command(flatten)]
        kernels: KernelArgs,
        /// Which QEMU runs the guests of a KVM host.
        #[arg(long, value_enum, default_value_t = Qemu::Release)]
        qemu: Qemu,
    },
    /// List the worlds.
    #[command(after_help = "Example:\n  xweave lab list --json")]
    List {
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Run a command in a domain. Exits as the command did (125: the channel failed).
    #[command(after_help = "Example:\n  tar -c dir | xweave lab exec kvm vm1 -- tar -x -C /tmp")]
    Exec {
        /// The world.
        name: String,
        /// host (Xen: dom0), vm1, vm2, …
        domain: String,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Copy a file or folder into a domain.
    #[command(after_help = "Example:\n  xweave lab push kvm vm1 ./load /tmp/")]
    Push {
        /// The world.
        name: String,
        /// host (Xen: dom0), vm1, vm2, …
        domain: String,
        /// A file or folder here.
        local: PathBuf,
        /// Where to, in the domain; a file goes into it if it is a folder or ends with `/`.
        remote: String,
    },
    /// Copy a file or folder out of a domain.
    #[command(after_help = "Example:\n  xweave lab pull kvm host /tmp/trace ./trace")]
    Pull {
        /// The world.
        name: String,
        /// host (Xen: dom0), vm1, vm2, …
        domain: String,
        /// A file or folder in the domain.
        remote: String,
        /// Where to, here.
        local: PathBuf,
    },
    /// Reset a guest as its reset button would, and wait until it is up again.
    #[command(after_help = "Example:\n  xweave lab reset kvm vm2")]
    Reset {
        /// The world.
        name: String,
        /// vm1, vm2, …
        guest: String,
        /// Do not wait.
        #[arg(long)]
        no_wait: bool,
        /// Seconds to wait at most.
        #[arg(long, default_value_t = 300)]
        timeout: u64,
    },
    /// Print what a domain wrote to its console.
    #[command(after_help = "Example:\n  xweave lab console kvm host | tail")]
    Console {
        /// The world.
        name: String,
        /// host (Xen: dom0), vm1, vm2, …
        domain: String,
    },
    /// In the host of a world whose guests have no vsock (Xen's dom0): run a command in a guest.
    #[command(
        after_help = "Example:\n  xweave record … --domain dom0=local --domain vm1='xweave lab enter vm1 -- xweave agent --stdio'"
    )]
    Enter {
        /// vm1, vm2, …
        guest: String,
        /// The command.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// End a world; nothing is left of it.
    #[command(after_help = "Example:\n  xweave lab down --all")]
    Down {
        /// The world.
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// Every world of this user.
        #[arg(long)]
        all: bool,
    },
    /// Serve `lab exec` in a domain.
    #[command(hide = true)]
    Serve {
        /// Listen at this address, for clients that know the token.
        #[arg(long, requires = "token_file", conflicts_with = "vsock")]
        tcp: Option<String>,
        /// The file with the token.
        #[arg(long)]
        token_file: Option<PathBuf>,
        /// Listen at this vsock port, for the host.
        #[arg(long)]
        vsock: Option<u32>,
    },
    /// Make a test load.
    #[command(hide = true, subcommand)]
    Load(Load),
}

#[derive(Debug, ClapArgs)]
struct KernelArgs {
    /// The kernel series of all domains, as 6.1, 6.12, 7.3; or `newest`.
    #[arg(long, value_name = "SERIES", default_value = "6.12")]
    kernel: String,
    /// The kernel series of the guests, if it is another one.
    #[arg(long, value_name = "SERIES")]
    guest_kernel: Option<String>,
}

#[derive(Debug, ClapArgs)]
struct UpArgs {
    /// What kind of world.
    #[arg(value_enum)]
    kind: Kind,
    /// Its name; by default that of its kind.
    #[arg(long)]
    name: Option<String>,
    /// Guests; by default 2.
    #[arg(long)]
    guests: Option<u32>,
    #[command(flatten)]
    kernels: KernelArgs,
    /// Which QEMU runs the guests of a KVM host.
    #[arg(long, value_enum, default_value_t = Qemu::Release)]
    qemu: Qemu,
    /// The xweave that runs in the domains; by default this one.
    #[arg(long)]
    xweave: Option<PathBuf>,
    /// Seconds that the domains may take to come up.
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// More kernel arguments for the emulated host.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// Processors of the emulated host; emulated in software, several take turns on one of this machine's.
    #[arg(long, value_name = "N")]
    smp: Option<u32>,
    /// Of Xen: time is counted in emulated instructions, two nanoseconds each, so that the same work takes as long however
    /// busy this machine is.
    #[arg(long)]
    steady: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// A KVM host with guests.
    Kvm,
    /// Xen: dom0 with paravirtual guests.
    Xen,
}

impl From<Kind> for xweave_lab::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Kvm => Self::Kvm,
            Kind::Xen => Self::Xen,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Qemu {
    /// That of Debian's release: 7.2 in Debian 12.
    Release,
    /// That of the release's backports: 10.0 for Debian 12.
    Backports,
}

impl From<Qemu> for xweave_lab::Qemu {
    fn from(qemu: Qemu) -> Self {
        match qemu {
            Qemu::Release => Self::Release,
            Qemu::Backports => Self::Backports,
        }
    }
}

/// What the connections of a load speak.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// Multipath TCP.
    Mptcp,
    /// TCP with the kernel's TLS, and a key that everybody knows.
    Ktls,
}

impl From<Protocol> for load::Protocol {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Tcp => Self::Tcp,
            Protocol::Mptcp => Self::Mptcp,
            Protocol::Ktls => Self::Ktls,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Load {
    /// Send numbered UDP datagrams; prints how many as JSON.
    UdpSend {
        /// ADDRESS:PORT.
        #[arg(long)]
        to: String,
        /// Datagrams, over all senders.
        #[arg(long)]
        count: u64,
        /// Datagrams a second, over all senders; 0 is as fast as it goes.
        #[arg(long, default_value_t = 0.0)]
        rate: f64,
        /// Threads, each on a CPU, with a socket and a source port of its own.
        #[arg(long, default_value_t = 1)]
        senders: u16,
        /// Payload bytes.
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// The first sender's source port; 0 is any.
        #[arg(long, default_value_t = 0)]
        bind_base: u16,
        /// Leave the sockets unconnected
        #[arg(long)]
        unconnected: bool,
    },
    /// Receive numbered UDP datagrams; prints what came as JSON.
    UdpRecv {
        /// The port.
        #[arg(long)]
        port: u16,
        /// End after so many different ones.
        #[arg(long)]
        count: u64,
        /// Seconds without a datagram after which to end.
        #[arg(long, default_value_t = 10.0)]
        idle_timeout: f64,
        /// Bytes of memory for datagrams that wait to be read.
        #[arg(long, default_value_t = 8 << 20)]
        buffer: i32,
    },
    /// Answer the requests of udp-ask.
    UdpServe {
        /// The port.
        #[arg(long)]
        port: u16,
        /// Processor time that an answer takes, in microseconds.
        #[arg(long, default_value_t = 0)]
        work: u64,
        /// Make a thread for each request.
        #[arg(long)]
        thread_per_request: bool,
        /// Of so many requests, one is not answered.
        #[arg(long, value_name = "N")]
        ignore_every: Option<u64>,
        /// Of so many requests, one takes the processor time of --slow as well.
        #[arg(long, value_name = "N", requires = "slow")]
        slow_every: Option<u64>,
        /// Processor time that slow answers take besides, in microseconds.
        #[arg(long, value_name = "MICROSECONDS", requires = "slow_every")]
        slow: Option<u64>,
        /// For so long another thread holds the lock that an answer needs, in microseconds.
        #[arg(long, value_name = "MICROSECONDS", requires = "free")]
        lock: Option<u64>,
        /// For so long it then does not.
        #[arg(long, value_name = "MICROSECONDS", requires = "lock")]
        free: Option<u64>,
        /// Memory that each answer writes to, page by page, in KiB.
        #[arg(long, value_name = "KIB", default_value_t = 0)]
        memory: usize,
        /// End after so many requests.
        #[arg(long)]
        requests: Option<u64>,
    },
    /// Ask by UDP, each request at its time whether others are answered or not; prints times as JSON.
    UdpAsk {
        /// ADDRESS:PORT.
        #[arg(long)]
        to: String,
        /// Requests.
        #[arg(long, default_value_t = 1)]
        requests: u64,
        /// Requests a second.
        #[arg(long, default_value_t = 100.0)]
        rate: f64,
        /// Requests that are sent at once; bursts are as much rarer.
        #[arg(long, default_value_t = 1)]
        burst: u64,
        /// Requests that are sent one at a time between two bursts.
        #[arg(long, default_value_t = 0)]
        singles: u64,
        /// Payload bytes.
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// Send again what is not answered after so many milliseconds, then after twice as many, and so on.
        #[arg(long, value_name = "MILLISECONDS")]
        retry: Option<u64>,
        /// So many requests are a call, named in a line `Call-ID: call=N@xweave:5060` of each; 4 calls at once, or as many as a burst.
        #[arg(long)]
        per_call: Option<u64>,
    },
    /// Answer the requests of tcp-get.
    TcpServe {
        /// The port.
        #[arg(long)]
        port: u16,
        /// What connections speak.
        #[arg(long, value_enum, default_value_t)]
        protocol: Protocol,
        /// End after so many connections.
        #[arg(long)]
        connections: Option<u64>,
    },
    /// Answer the requests of tcp-get by workers that take them from a queue, and log when what happened.
    QueueServe {
        /// The port.
        #[arg(long)]
        port: u16,
        /// Threads that answer.
        #[arg(long, default_value_t = 2)]
        workers: u16,
        /// Processor time that an answer takes, in microseconds.
        #[arg(long, default_value_t = 1000)]
        work: u64,
        /// The log: a line of JSON for each request.
        #[arg(long)]
        log: PathBuf,
    },
    /// Exchange requests and answers; prints their times as JSON.
    TcpGet {
        /// ADDRESS:PORT.
        #[arg(long)]
        to: String,
        /// What connections speak, as the server does.
        #[arg(long, value_enum, default_value_t)]
        protocol: Protocol,
        /// Requests, over all connections.
        #[arg(long, default_value_t = 1)]
        requests: u64,
        /// Connections at once.
        #[arg(long, default_value_t = 1)]
        concurrency: u16,
        /// Bytes of a request, at least 8.
        #[arg(long, default_value_t = 100)]
        request_size: u32,
        /// Bytes of an answer.
        #[arg(long, default_value_t = 1000)]
        size: u32,
    },
    /// Connect by vsock and say nothing; prints what came of it as JSON.
    VsockConnect {
        /// Whom to connect to.
        #[arg(long)]
        cid: u32,
        /// The port there.
        #[arg(long)]
        port: u32,
        /// The port here; by default any.
        #[arg(long)]
        from_port: Option<u32>,
        /// Seconds to wait for the first words.
        #[arg(long, default_value_t = 30)]
        timeout: u64,
    },
}

/// Runs the subcommand.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let passes_status =
        matches!(args.action, Action::Run { .. } | Action::Exec { .. } | Action::Enter { .. });
    act(args.action).map_err(|failure| match failure {
        Failure::Failed(message) if passes_status => Failure::NotRun(message),
        failure => failure,
    })
}

fn act(action: Action) -> Result<ExitCode, Failure> {
    match action {
        Action::Up(args) => {
            interrupt::install(interrupt::Again::Waits, interrupt::Blocked::Returns);
            let world = up(args)?;
            eprintln!("{} is up: {}", world.name(), world.domains().join(", "));
        }
        Action::Run { up: args, command } => {
            interrupt::install(interrupt::Again::Waits, interrupt::Blocked::Returns);
            let world = up(args)?;
            let status = world.exec(world.host(), &Command::new(command)).and_then(forward);
            world.down()?;
            return Ok(status?);
        }
        Action::Build { kind, kernels, qemu } => {
            interrupt::install(interrupt::Again::Waits, interrupt::Blocked::Returns);
            let choice = Choice {
                kind: kind.into(),
                qemu: qemu.into(),
                kernel: &kernels.kernel,
                guest_kernel: kernels.guest_kernel.as_deref(),
            };
            let images = Images::ensure(&Cache::open()?, choice, &show)?;
            eprintln!("images for {} are in the cache", images.kernel.kernel.release());
        }
        Action::List { json } => list(json)?,
        Action::Exec { name, domain, command } => {
            let world = World::find(&name)?;
            interrupt::install(interrupt::Again::Exits, interrupt::Blocked::Returns);
            return Ok(forward(world.exec(&domain, &Command::new(command))?)?);
        }
        Action::Enter { guest, command } => {
            interrupt::install(interrupt::Again::Exits, interrupt::Blocked::Returns);
            return Ok(forward(xweave_lab::enter(&guest, &Command::new(command))?)?);
        }
        Action::Push { name, domain, local, remote } => World::find(&name)?.push(&domain, &local, &remote)?,
        Action::Pull { name, domain, remote, local } => World::find(&name)?.pull(&domain, &remote, &local)?,
        Action::Reset { name, guest, no_wait, timeout } => {
            let wait = (!no_wait).then_some(Duration::from_secs(timeout));
            World::find(&name)?.reset(&guest, wait)?;
        }
        Action::Console { name, domain } => {
            xweave_lab::console(&name, &domain, &mut io::stdout().lock())?;
        }
        Action::Down { name, .. } => {
            let names = match name {
                Some(name) => vec![name],
                None => xweave_lab::list()?.into_iter().map(|world| world.name).collect(),
            };
            for name in names {
                xweave_lab::down(&name)?;
                eprintln!("{name} is down");
            }
        }
        Action::Serve { tcp, token_file, vsock } => {
            called::this_process("xweave-lab");
            let listen = match (tcp, token_file, vsock) {
                (Some(address), Some(token_file), None) => Listen::Tcp { address, token_file },
                (None, _, port) => Listen::Vsock { port: port.unwrap_or(PORT) },
                _ => return Err(Failure::Usage("lab serve: give --tcp and --token-file, or --vsock".into())),
            };
            match xweave_lab::serve(&listen)? {}
        }
        Action::Load(load) => return make_load(load),
    }
    Ok(ExitCode::SUCCESS)
}

fn up(args: UpArgs) -> Result<World, Error> {
    let defaults = Options::new(args.kind.into())?;
    let options = Options {
        kind: defaults.kind,
        name: args.name.unwrap_or(defaults.name),
        guests: args.guests.unwrap_or(defaults.guests),
        kernel: args.kernels.kernel,
        guest_kernel: args.kernels.guest_kernel,
        qemu: args.qemu.into(),
        xweave: args.xweave.unwrap_or(defaults.xweave),
        timeout: Duration::from_secs(args.timeout),
        append: args.append,
        processors: args.smp,
        steady: args.steady,
    };
    World::up(&options, &show)
}

fn forward(child: ExecChild) -> Result<ExitCode, Error> {
    let status = child.forward(io::stdin(), &mut io::stdout(), &mut io::stderr())?;
    // A status is one byte, as it is between processes.
    Ok(ExitCode::from(u8::try_from(status.code() & 0xff).unwrap_or(u8::MAX)))
}

/// Shows the steps of long work on standard error.
pub fn show(phase: Phase<'_>) {
    let mut err = io::stderr();
    // Progress that cannot be shown is no reason to stop.
    let _ = match phase {
        Phase::Begin(text) => writeln!(err, "{text} …"),
        Phase::Note(text) => writeln!(err, "    {text}"),
        Phase::End(text, took) => writeln!(err, "{text}: {:.1} s", took.as_secs_f64()),
    };
}

/// The release of the host's kernel, and that of the guests' if it is another one.
fn kernels(world: &Description) -> String {
    match world.guest_kernel == world.kernel {
        true => world.kernel.clone(),
        false => format!("{}, guests {}", world.kernel, world.guest_kernel),
    }
}

fn list(as_json: bool) -> Result<(), Failure> {
    let worlds = xweave_lab::list()?;
    if worlds.is_empty() && !as_json {
        // Not on standard output, where each line is a world.
        eprintln!("no worlds are up: xweave lab up kvm");
    }
    shown::print(|out| {
        if as_json {
            return document::write(out, &document::lab::List { worlds: &worlds });
        }
        worlds.iter().try_for_each(|world| {
            let kernel = world.description.as_ref().map_or(String::new(), kernels);
            let (state, domains) = (world.state.to_string(), world.domains.join(" "));
            writeln!(out, "{:<12} {state:<9} {kernel:<30} {domains}", world.name)
        })
    })?;
    Ok(())
}

impl Load {
    /// What it is called in what is recorded: not as the recorder is.
    fn name(&self) -> &'static str {
        match self {
            Self::UdpSend { .. } => "udp-send",
            Self::UdpRecv { .. } => "udp-recv",
            Self::UdpServe { .. } => "udp-serve",
            Self::UdpAsk { .. } => "udp-ask",
            Self::TcpServe { .. } => "tcp-serve",
            Self::QueueServe { .. } => "queue-serve",
            Self::TcpGet { .. } => "tcp-get",
            Self::VsockConnect { .. } => "vsock-connect",
        }
    }
}

fn make_load(load: Load) -> Result<ExitCode, Failure> {
    called::this_process(load.name());
    match load {
        Load::UdpSend { to, count, rate, senders, size, bind_base, unconnected } => {
            let sent =
                load::udp_send(&load::UdpSend { to, count, rate, senders, size, bind_base, unconnected })?;
            told(&sent, sent.sent == count)
        }
        Load::UdpRecv { port, count, idle_timeout, buffer } => {
            let idle = Duration::try_from_secs_f64(idle_timeout)
                .map_err(|_| Failure::Usage("--idle-timeout is a number of seconds above 0".into()))?;
            let received = load::udp_receive(port, count, idle, buffer, || eprintln!("ready"))?;
            told(&received, received.distinct == count)
        }
        Load::UdpServe {
            port,
            work,
            thread_per_request,
            ignore_every,
            slow_every,
            slow,
            lock,
            free,
            memory,
            requests,
        } => {
            let options = load::UdpServe {
                port,
                work: Duration::from_micros(work),
                thread_per_request,
                ignore_every,
                slow_every: slow_every.zip(slow.map(Duration::from_micros)),
                lock: lock.map(Duration::from_micros).zip(free.map(Duration::from_micros)),
                memory: memory << 10,
                requests,
            };
            load::udp_serve(&options, |address| eprintln!("ready at {address}"))?;
            Ok(ExitCode::SUCCESS)
        }
        Load::UdpAsk { to, requests, rate, burst, singles, size, retry, per_call } => {
            let retry = retry.map(Duration::from_millis);
            let asked =
                load::udp_ask(&load::UdpAsk { to, requests, rate, burst, singles, size, retry, per_call })?;
            told(&asked, asked.answered.requests == requests)
        }
        Load::TcpServe { port, protocol, connections } => {
            load::tcp_serve(port, protocol.into(), connections, |address| eprintln!("ready at {address}"))?;
            Ok(ExitCode::SUCCESS)
        }
        Load::QueueServe { port, workers, work, log } => {
            let options = load::QueueServe { port, workers, work: Duration::from_micros(work) };
            load::queue_serve(&options, &log, |address| eprintln!("ready at {address}"))?;
            Ok(ExitCode::SUCCESS)
        }
        Load::TcpGet { to, protocol, requests, concurrency, request_size, size } => {
            let protocol = protocol.into();
            let options =
                load::TcpGet { to, protocol, requests, concurrency, request_size, answer_size: size };
            let answered = load::tcp_get(&options)?;
            told(&answered, answered.requests == requests)
        }
        Load::VsockConnect { cid, port, from_port, timeout } => {
            told(&load::vsock_connect(cid, port, from_port, Duration::from_secs(timeout))?, true)
        }
    }
}

/// Prints what came of a load. One that is not complete ends with status 1.
fn told(result: &impl Serialize, complete: bool) -> Result<ExitCode, Failure> {
    shown::print(|out| document::write_line(out, result))?;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
