//! `xweave lab`: emulated worlds to run in.

mod load;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use xweave_interrupt as interrupt;
use xweave_lab::{
    Cache, Choice, Command, Description, Error, ExecChild, Images, Listen, Options, PORT, Phase, World,
};
use xweave_report::document;

use crate::arguments::duration;
use crate::called;
use crate::failure::Failure;
use crate::shown;
use crate::told;

/// Emulated worlds: a stock KVM host with guests, or Xen, on any machine.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  xweave lab up kvm\n  xweave lab exec kvm vm1 -- uname -r")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start a world, and leave it running.
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
        /// Kind of world.
        #[arg(value_enum, default_value_t = Kind::Kvm)]
        kind: Kind,
        #[command(flatten)]
        kernels: KernelArgs,
        /// QEMU that runs the guests of a KVM host.
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
        /// Destination in the domain; a file goes into it if it is a folder or ends with `/`.
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
        /// Destination here.
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
    /// End a world and delete it.
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
    Load(load::Load),
}

#[derive(Debug, ClapArgs)]
struct KernelArgs {
    /// Kernel series of all domains, such as 6.1, 6.12 or 7.3; or `newest`.
    #[arg(long, value_name = "SERIES", default_value = "6.12")]
    kernel: String,
    /// Kernel series of the guests, if different.
    #[arg(long, value_name = "SERIES")]
    guest_kernel: Option<String>,
}

#[derive(Debug, ClapArgs)]
struct UpArgs {
    /// Kind of world.
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
    /// QEMU that runs the guests of a KVM host.
    #[arg(long, value_enum, default_value_t = Qemu::Release)]
    qemu: Qemu,
    /// xweave program for the domains; by default this one.
    #[arg(long)]
    xweave: Option<PathBuf>,
    /// Seconds that the domains may take to come up.
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// More kernel arguments for the emulated host.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    append: String,
    /// CPUs of the emulated host; emulated in software, each is a thread of QEMU. By default 2; in software 1 where this
    /// machine has no more, the QEMU is older than 11.1, or with --steady.
    #[arg(long, value_name = "N", overrides_with = "smp")]
    smp: Option<u32>,
    /// CPUs of each guest, 1 to 4; by default 2 under KVM and 1 under Xen.
    #[arg(long, value_name = "N")]
    guest_smp: Option<u32>,
    /// Xen only: count time in emulated instructions, two nanoseconds each, so that the same work takes the same time on a
    /// busy machine.
    #[arg(long)]
    steady: bool,
    /// KVM only, in software: CPUs of the emulated host that were idle for so long take as long to leave that, as real ones
    /// do from deep idle states (100us and more).
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle_exit_latency: Option<Duration>,
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
    /// Debian's release: 7.2 in Debian 12.
    Release,
    /// Backports of the release: 10.0 for Debian 12.
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
            told::write_line(format_args!("{} is up: {}", world.name(), world.domains().join(", ")));
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
            told::write_line(format_args!("images for {} are in the cache", images.kernel.kernel.release()));
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
                told::write_line(format_args!("{name} is down"));
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
        Action::Load(load) => return load::make_load(load),
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
        guest_processors: args.guest_smp,
        steady: args.steady,
        idle_exit_latency: args.idle_exit_latency,
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
        told::write_line("no worlds are up: xweave lab up kvm");
    }
    shown::print(|out| {
        if as_json {
            return document::write(out, &xweave_document::lab::Worlds { worlds: &worlds });
        }
        worlds.iter().try_for_each(|world| {
            let kernel = world.description.as_ref().map_or(String::new(), kernels);
            let (state, domains) = (world.state.to_string(), world.domains.join(" "));
            writeln!(out, "{:<12} {state:<9} {kernel:<30} {domains}", world.name)
        })
    })?;
    Ok(())
}
