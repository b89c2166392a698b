//! Files into and out of a domain, as tar streams over the exec channel.

use crate::error::{At, Error, Result};
use crate::exec::client::{Event, ExecChild};
use crate::exec::protocol::{Command, Status};
use crate::process::{start_error, tail};
use crate::world::World;
use std::io::{self, Write};
use std::path::Path;
use std::process::{self, Stdio};
use std::time::Duration;

/// In the domain: takes a tar stream of one entry and puts it at $1, or into $1 if that is a folder
/// and the entry is a file. A folder's content is added to what is there.
const RECEIVE: &str = r#"set -e
case $1 in */) mkdir -p "$1" ;; esac
mkdir -p "$(dirname "$1")"
work=$(mktemp -d "$(dirname "$1")/.xweave-push-XXXXXX")
trap 'rm -rf "$work"' EXIT
tar -xf - -C "$work"
if [ -d "$work/$2" ]; then
    mkdir -p "$1"
    cp -a "$work/$2/." "$1/"
elif [ -d "$1" ]; then
    mv -f "$work/$2" "$1/$2"
else
    mv -f "$work/$2" "$1"
fi"#;
/// In the domain: sends $1 as a tar stream of one entry.
const SEND: &str = r#"[ -e "$1" ] || { echo "there is no $1" >&2; exit 1; }
tar -cf - -C "$(dirname "$1")" -- "$(basename "$1")""#;

impl World {
    /// Copies a file or folder into a domain.
    ///
    /// A file becomes `remote`, or a file in it if it is a folder or ends with `/`; a folder's content
    /// goes into the folder `remote`. Missing folders are made.
    pub fn push(&self, domain: &str, local: &Path, remote: &str) -> Result<()> {
        let (parent, name) = split(local)?;
        let child = self.exec(domain, &Command::new(["sh", "-c", RECEIVE, "sh", remote, &name]))?;
        let mut command = process::Command::new("tar");
        command
            .args(["--owner=0", "--group=0", "--numeric-owner", "-cf", "-", "-C"])
            .arg(parent)
            .arg("--")
            .arg(&name);
        let mut tar = command.stdout(Stdio::piped()).spawn().map_err(|e| start_error(&command, e))?;
        let mut input = child.stdin();
        let feeder = tar
            .stdout
            .take()
            .map(|mut archive| std::thread::spawn(move || io::copy(&mut archive, &mut input)));
        let copied = finish(child, domain, &mut io::sink());
        if copied.is_err() {
            let _ = tar.kill();
        }
        if let Some(feeder) = feeder {
            let _ = feeder.join();
        }
        let packed = tar.wait().at("pack", local)?;
        copied?;
        if packed.success() {
            Ok(())
        } else {
            Err(broken(domain, format!("tar could not read all of {}", local.display())))
        }
    }

    /// Copies a file or folder out of a domain; the same rules.
    pub fn pull(&self, domain: &str, remote: &str, local: &Path) -> Result<()> {
        let name = Path::new(remote)
            .file_name()
            .and_then(|n| n.to_str())
            .ok_or_else(|| broken(domain, format!("`{remote}` names no file or folder")))?;
        let child = self.exec(domain, &Command::new(["sh", "-c", SEND, "sh", remote]))?;
        drop(child.stdin());
        let mut command = process::Command::new("sh");
        command.args(["-c", RECEIVE, "sh"]).arg(local).arg(name).stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut unpack = command.spawn().map_err(|e| start_error(&command, e))?;
        let mut archive = unpack.stdin.take().ok_or_else(|| broken(domain, "no pipe".into()))?;
        let sent = finish(child, domain, &mut archive);
        drop(archive);
        let output = unpack.wait_with_output().at("unpack into", local)?;
        sent?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Command {
            program: "tar".into(),
            status: output.status.to_string(),
            doing: format!("unpacking into {}", local.display()),
            stderr: tail(&String::from_utf8_lossy(&output.stderr), 10),
        })
    }
}

fn broken(domain: &str, why: String) -> Error {
    Error::Exec { domain: domain.to_owned(), why }
}

fn split(path: &Path) -> Result<(std::path::PathBuf, String)> {
    let full = path.canonicalize().at("read", path)?;
    let name = full.file_name().and_then(|n| n.to_str()).map(str::to_owned);
    match (full.parent(), name) {
        (Some(parent), Some(name)) => Ok((parent.to_owned(), name)),
        _ => Err(Error::Name {
            what: "file to copy",
            name: path.display().to_string(),
            rule: "a file or folder with a name in UTF-8",
        }),
    }
}

/// Runs the far side to its end; its output goes to `out`, its messages into the error.
fn finish(mut child: ExecChild, domain: &str, out: &mut impl Write) -> Result<()> {
    let mut said = Vec::new();
    loop {
        match child.next(Duration::from_secs(60)) {
            // The near side tells by its own status why it takes no more.
            Some(Event::Stdout(data)) if out.write_all(&data).is_err() => return Ok(()),
            Some(Event::Stdout(_)) => {}
            Some(Event::Stderr(data)) => said.extend(data),
            Some(Event::Exit(Status::Code(0))) => return Ok(()),
            Some(Event::Exit(status)) => {
                let text = tail(&String::from_utf8_lossy(&said), 10);
                return Err(broken(domain, format!("copying ended with status {}: {text}", status.code())));
            }
            Some(Event::Broken(why)) => return Err(broken(domain, why)),
            None => {}
        }
    }
}
