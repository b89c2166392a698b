//! Command lines of processes that run virtual machines: QEMU's options, written by a user or by libvirt.
//!
//! An option's value is the next word. Commas separate the parameters in a value; a doubled comma is a comma
//! (qemu-options.hx; util/qemu-option.c, `get_opt_value`). libvirt writes some values as JSON.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Maximum bytes to read: the kernel allows 2 MiB, of which QEMU's command lines take a few thousand.
const LONGEST: u64 = 1 << 20;

/// A command line as in `/proc/PID/cmdline`: words, each followed by a zero byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine(Vec<u8>);

/// Socket on which QEMU listens for QMP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// A Unix socket with that path, in QEMU's mount namespace.
    Path(PathBuf),
    /// A socket that QEMU inherited: it belongs to the process that started QEMU, such as libvirt.
    Given,
}

impl From<Vec<u8>> for CommandLine {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl CommandLine {
    /// Reads the command line of a process; empty if it has ended.
    pub fn read(pid: u32) -> Self {
        Self::read_from(&Path::new("/proc").join(pid.to_string()))
    }

    /// Reads the command line of the process with that folder in /proc.
    pub(crate) fn read_from(dir: &Path) -> Self {
        let mut bytes = Vec::new();
        // Bytes that were read before an error are used.
        let _ = File::open(dir.join("cmdline")).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
        Self(bytes)
    }

    /// The whole command line, with zero bytes between words.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// Name of the virtual machine: `-name web1`, `-name guest=web1,debug-threads=on`; empty if there is none.
    pub fn name(&self) -> String {
        self.option_values("name")
            .next()
            .and_then(|value| parameter(&value, "guest", true))
            .unwrap_or_default()
    }

    /// The guest's context ID for vsock: `guest-cid=3`, or in libvirt's JSON `"guest-cid":3`; `None` without a vsock device.
    pub(crate) fn cid(&self) -> Option<u32> {
        let text = self.text();
        let rest = ["guest-cid=", "\"guest-cid\":"].iter().find_map(|key| Some(text.split_once(key)?.1))?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    }

    /// Sockets for QMP on this host: `-qmp unix:PATH`, or `-mon chardev=ID,mode=control` with
    /// `-chardev socket,id=ID,path=PATH`.
    pub fn monitors(&self) -> Vec<Monitor> {
        let short = self.option_values("qmp").chain(self.option_values("qmp-pretty"));
        let short = short.filter_map(|value| {
            Some(Monitor::Path(parameter(value.strip_prefix("unix:")?, "path", true)?.into()))
        });
        let long = self
            .option_values("mon")
            .filter(|value| parameter(value, "mode", false).as_deref() == Some("control"));
        let long = long.filter_map(|value| self.chardev_monitor(&parameter(&value, "chardev", true)?));
        short.chain(long).collect()
    }

    /// IDs of the memory backends of the guest's memory, where the command line contains them.
    pub fn memory_backends(&self) -> Vec<String> {
        let whole =
            self.option_values("machine").filter_map(|value| parameter(&value, "memory-backend", false));
        let nodes = self.option_values("numa").filter_map(|value| parameter(&value, "memdev", false));
        whole.chain(nodes).collect()
    }

    /// Socket of the character device with that ID.
    fn chardev_monitor(&self, id: &str) -> Option<Monitor> {
        let is_it = |value: &String| {
            parameter(value, "backend", true).as_deref() == Some("socket")
                && parameter(value, "id", false).as_deref() == Some(id)
        };
        let device = self.option_values("chardev").find(is_it)?;
        let path = parameter(&device, "path", false).map(|path| Monitor::Path(path.into()));
        path.or_else(|| parameter(&device, "fd", false).map(|_| Monitor::Given))
    }

    /// Values of all options with that name.
    fn option_values(&self, option: &str) -> impl Iterator<Item = String> {
        let words: Vec<_> = self.0.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        // Options may begin with two dashes.
        let is_it = |word: &str| {
            word.strip_prefix('-').is_some_and(|name| name.strip_prefix('-').unwrap_or(name) == option)
        };
        let pairs = words.windows(2).filter(|pair| is_it(&pair[0]));
        pairs.map(|pair| pair[1].clone().into_owned()).collect::<Vec<String>>().into_iter()
    }
}

/// A parameter in an option's value. If `may_be_first`, the first one may lack its name.
fn parameter(value: &str, key: &str, may_be_first: bool) -> Option<String> {
    let (mut rest, mut is_first) = (value, true);
    while !rest.is_empty() {
        let name = rest.find(['=', ',']).filter(|end| rest[*end..].starts_with('='));
        let is_it = name.map_or(is_first && may_be_first, |end| &rest[..end] == key);
        let mut chars = rest[name.map_or(0, |end| end + 1)..].chars();
        let mut value = String::new();
        // A comma in a value is doubled.
        while let Some(next) = chars.next() {
            if next == ',' && !chars.as_str().starts_with(',') {
                break;
            }
            if next == ',' {
                chars.next();
            }
            value.push(next);
        }
        if is_it {
            return Some(value);
        }
        (rest, is_first) = (chars.as_str(), false);
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command_line(words: &[&str]) -> CommandLine {
        CommandLine(words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect())
    }

    fn path(path: &str) -> Monitor {
        Monitor::Path(path.into())
    }

    #[test]
    fn name_is_found() {
        assert_eq!(
            command_line(&["qemu", "-name", "guest=web1,debug-threads=on", "-smp", "two"]).name(),
            "web1"
        );
        assert_eq!(command_line(&["qemu", "-smp", "two", "-name", "web1,process=q"]).name(), "web1");
        assert_eq!(command_line(&["qemu", "-name", "debug-threads=on"]).name(), "");
        assert_eq!(CommandLine(b"qemu\0-name".to_vec()).name(), "");
    }

    #[test]
    fn context_id_is_found() {
        assert_eq!(
            command_line(&["qemu", "-device", "vhost-vsock-pci,guest-cid=42,id=v", "-smp", "two"]).cid(),
            Some(42)
        );
        let json = r#"{"driver":"vhost-vsock-pci","id":"v","guest-cid":42,"vhostfd":"29"}"#;
        assert_eq!(command_line(&["qemu", "-device", json, "-smp"]).cid(), Some(42));
        assert_eq!(command_line(&["qemu", "-smp", "two"]).cid(), None);
    }

    #[test]
    fn sockets_for_qmp_are_found_in_each_syntax() {
        let qmp = |value| command_line(&["qemu", "-qmp", value, "-smp", "2"]).monitors();
        assert_eq!(qmp("unix:/run/vm1.sock,server=on,wait=off"), [path("/run/vm1.sock")]);
        assert_eq!(qmp("unix:/run/a,,b=c.sock,server"), [path("/run/a,b=c.sock")]);
        assert_eq!(qmp("tcp:localhost:4444"), []);
        assert_eq!(qmp("stdio"), []);
        assert_eq!(command_line(&["qemu", "--qmp-pretty", "unix:q.sock"]).monitors(), [path("q.sock")]);
        let with = |device, monitor| command_line(&["qemu", "-chardev", device, "-mon", monitor]).monitors();
        let device = "socket,id=m,path=/run/m.sock,server=on";
        assert_eq!(with(device, "chardev=m,mode=control"), [path("/run/m.sock")]);
        assert_eq!(with(device, "m,mode=control,pretty=on"), [path("/run/m.sock")]);
        // Another device's, or a monitor for people.
        assert_eq!(with(device, "chardev=n,mode=control"), []);
        assert_eq!(with(device, "chardev=m,mode=readline"), []);
        assert_eq!(with("file,id=m,path=/run/m", "chardev=m,mode=control"), []);
        // libvirt's.
        let given = "socket,id=charmonitor,fd=32,server=on,wait=off";
        assert_eq!(with(given, "chardev=charmonitor,id=monitor,mode=control"), [Monitor::Given]);
        assert_eq!(CommandLine(b"qemu\0-qmp".to_vec()).monitors(), []);
    }

    #[test]
    fn memory_backends_are_of_the_machine_or_of_nodes() {
        let whole = command_line(&["qemu", "-machine", "q35,smm=on,memory-backend=pc.ram", "-m", "1024"]);
        assert_eq!(whole.memory_backends(), ["pc.ram"]);
        let node = |n| format!("node,nodeid={n},cpus={n},memdev=ram-node{n}");
        assert_eq!(
            command_line(&["qemu", "-numa", &node(0), "-numa", &node(1)]).memory_backends(),
            ["ram-node0", "ram-node1"]
        );
        assert_eq!(command_line(&["qemu", "-machine", "pc"]).memory_backends(), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_path_is_found(name in "[^\0]{1,40}", id in "[^\0=]{1,10}") {
            let doubled = |text: &str| text.replace(',', ",,");
            let device = format!("socket,server=on,path=/{},id={}", doubled(&name), doubled(&id));
            let monitor = format!("mode=control,chardev={}", doubled(&id));
            let found = command_line(&["qemu", "-mon", &monitor, "-chardev", &device]).monitors();
            prop_assert_eq!(found, [path(&format!("/{name}"))]);
            // A parameter without a name would have what is before the first `=` as its name.
            let name = name.replace('=', "");
            let short = format!("unix:/{},server=on", doubled(&name));
            prop_assert_eq!(command_line(&["qemu", "-qmp", &short]).monitors(), [path(&format!("/{name}"))]);
        }

        #[test]
        fn any_bytes_are_parsed(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let any = CommandLine([b"-qmp\0unix:".as_slice(), &bytes, b"\0-mon\0", &bytes].concat());
            let _ = (any.name(), any.cid(), any.monitors());
        }
    }
}
