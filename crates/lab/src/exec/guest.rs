//! The emulated host's hold on its guests: how they are reached, and reset (by QEMU's monitor, QMP, or by `xl`).

use super::client::{Address, ExecChild};
use super::protocol::{Command, PORT};
use crate::error::{Error, Result};
use crate::kind::Kind;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process;
use std::time::Duration;

/// The guests of this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guests {
    /// What runs them.
    pub kind: Kind,
    /// How many there are.
    count: u32,
}

impl Guests {
    /// From the configuration that the lab gave this domain; none if it is no host.
    pub fn of_this_host() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/run/lab/config").ok()?)
    }

    fn parse(config: &str) -> Option<Self> {
        let value = |key: &str| config.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let kind = [Kind::Kvm, Kind::Xen].into_iter().find(|kind| value("KIND") == Some(kind.name()))?;
        Some(Self { kind, count: value("GUESTS")?.parse().ok()? })
    }

    /// The number of a guest's name, if the host has such a guest: `vm2` is 2.
    pub fn number(self, guest: &str) -> Option<u32> {
        let number: u32 = guest.strip_prefix("vm")?.parse().ok()?;
        (1..=self.count).contains(&number).then_some(number)
    }

    /// Resets a guest as its reset button would; starts it if its machine has ended.
    pub fn reset(self, number: u32) -> io::Result<()> {
        match self.kind {
            Kind::Kvm => reset_machine(number),
            Kind::Xen => {
                // Fails if it is not running.
                process::Command::new("xl").args(["destroy", &format!("vm{number}")]).output()?;
                // Under emulation it may take longer than an answer may; whoever waits, waits for the new boot.
                let mut starting = starter(number).spawn()?;
                std::thread::spawn(move || starting.wait());
                Ok(())
            }
        }
    }
}

/// The secret by which guests that are reached by TCP know their host.
pub fn token() -> io::Result<String> {
    std::fs::read_to_string("/run/lab/guests.token").map(|token| token.trim().to_owned())
}

/// Where a guest of Xen takes commands.
fn address(number: u32) -> SocketAddr {
    let last = u8::try_from(number).unwrap_or(u8::MAX);
    SocketAddr::from((Ipv4Addr::new(10, 78, 0, last), u16::try_from(PORT).unwrap_or(u16::MAX)))
}

/// A connection to a guest of Xen. One that is not up yet does not even refuse.
pub fn connect(number: u32) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address(number), Duration::from_secs(2))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// In dom0: starts a command in a guest.
pub fn enter(domain: &str, command: &Command) -> Result<ExecChild> {
    let error = |why: &str| Error::Exec { domain: domain.to_owned(), why: why.to_owned() };
    let guests = Guests::of_this_host()
        .ok_or_else(|| error("this is not an emulated host: outside of one, use `xweave lab exec`"))?;
    if guests.kind == Kind::Kvm {
        return Err(error("a KVM host reaches its guests by vsock"));
    }
    let number = guests.number(domain).ok_or_else(|| error("this host has no such guest"))?;
    let token = token().map_err(|source| Error::Channel { domain: domain.to_owned(), source })?;
    Address { at: address(number), token, domain: domain.to_owned() }.run(command)
}

/// Keeps KVM from patching its own code each time that a guest is reset.
///
/// KVM counts the vCPUs whose interrupt controller is off, as each is after a reset, and
/// patches its code (a "static key") when the count leaves or reaches 0. QEMU 7.2's software emulation
/// with several threads can miss such a patch: seen as `int3` oops in `__apic_accept_irq` in one of some
/// ten resets. One processor that never runs keeps the count above 0. It lasts as long as this process.
pub fn hold_static_keys() -> io::Result<()> {
    /// `_IO(0xAE, …)` of linux/kvm.h.
    const CREATE_VM: libc::c_ulong = 0xAE01;
    const CREATE_IRQCHIP: libc::c_ulong = 0xAE60;
    const CREATE_VCPU: libc::c_ulong = 0xAE41;
    let kvm = File::options().read(true).write(true).open("/dev/kvm")?;
    let call = |fd: i32, request| {
        // SAFETY: these requests take a number, 0, and touch no memory of ours.
        let result = unsafe { libc::ioctl(fd, request, 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    };
    // The descriptors stay open until the process ends: that is the point.
    let machine = call(kvm.as_raw_fd(), CREATE_VM)?;
    call(machine, CREATE_IRQCHIP)?;
    call(machine, CREATE_VCPU).map(|_| ())
}

fn reset_machine(number: u32) -> io::Result<()> {
    let folder = PathBuf::from(format!("/run/lab/vm{number}"));
    let Ok(monitor) = UnixStream::connect(folder.join("qmp.sock")) else {
        return start(number);
    };
    monitor.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut answers = BufReader::new(monitor.try_clone()?);
    let mut commands = monitor;
    let mut greeting = String::new();
    answers.read_line(&mut greeting)?;
    for command in ["qmp_capabilities", "system_reset"] {
        writeln!(commands, "{{\"execute\": \"{command}\"}}")?;
        answer(&mut answers, command)?;
    }
    Ok(())
}

/// Reads on to the answer of a command; events come in between.
fn answer(answers: &mut impl BufRead, command: &str) -> io::Result<()> {
    loop {
        let mut line = String::new();
        if answers.read_line(&mut line)? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("QEMU closed its monitor after {command}"),
            ));
        }
        let value: serde_json::Value = serde_json::from_str(&line)?;
        if value.get("return").is_some() {
            return Ok(());
        }
        if let Some(error) = value.get("error") {
            return Err(io::Error::other(format!("QEMU refused {command}: {error}")));
        }
    }
}

fn starter(number: u32) -> process::Command {
    let mut command = process::Command::new("sh");
    command.args(["/run/lab/host-guest.sh", &number.to_string()]);
    command
}

fn start(number: u32) -> io::Result<()> {
    let output = starter(number).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = std::fs::read_to_string(format!("/run/lab/vm{number}/start.err")).unwrap_or_default();
    Err(io::Error::other(format!("it did not start: {}", crate::process::tail(&said, 5))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_have_numbers() {
        let guests = Guests::parse("KIND=xen\nHOST=dom0\nGUESTS=2\n").unwrap();
        assert_eq!(guests.kind, Kind::Xen);
        assert_eq!(guests.number("vm2"), Some(2));
        for none in ["vm3", "vm0", "host"] {
            assert_eq!(guests.number(none), None);
        }
    }

    #[test]
    fn events_before_an_answer_are_skipped() {
        let mut said = &b"{\"event\": \"RESET\"}\n{\"return\": {}}\n"[..];
        answer(&mut said, "system_reset").unwrap();
        let mut said = &b"{\"error\": {\"desc\": \"no\"}}\n"[..];
        assert!(answer(&mut said, "system_reset").is_err());
        assert!(answer(&mut &b""[..], "system_reset").is_err());
    }
}
