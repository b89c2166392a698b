//! The emulated host's hold on its guests: QEMU's monitor (QMP) resets them.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// The number of a guest's name, if the host has such a guest: `vm2` is 2.
pub fn number(guest: &str, guests: u32) -> Option<u32> {
    let number: u32 = guest.strip_prefix("vm")?.parse().ok()?;
    (1..=guests).contains(&number).then_some(number)
}

/// How many guests this host has, from the configuration that the lab gave it.
pub fn count() -> u32 {
    std::fs::read_to_string("/run/lab/config")
        .ok()
        .and_then(|text| text.lines().find_map(|l| l.strip_prefix("GUESTS=").and_then(|n| n.parse().ok())))
        .unwrap_or(0)
}

/// Keeps KVM from patching its own code each time that a guest is reset.
///
/// KVM counts the virtual processors whose interrupt controller is off, as each is after a reset, and
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

/// Resets a guest as its reset button would; starts it if its machine has ended.
pub fn reset(number: u32) -> io::Result<()> {
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
                format!("QEMU closed its monitor at {command}"),
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

fn start(number: u32) -> io::Result<()> {
    let output = Command::new("sh").args(["/run/lab/host-guest.sh", &number.to_string()]).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = std::fs::read_to_string(format!("/run/lab/vm{number}/qemu.err")).unwrap_or_default();
    Err(io::Error::other(format!("QEMU does not start: {}", crate::process::tail(&said, 5))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_have_numbers() {
        assert_eq!(number("vm2", 2), Some(2));
        assert_eq!(number("vm3", 2), None);
        assert_eq!(number("vm0", 2), None);
        assert_eq!(number("host", 2), None);
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
