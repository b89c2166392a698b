//! What the command line of a process says that runs a virtual machine: QEMU's, written by its user or by libvirt.
//!
//! Options are words with a value in the next one; in values, commas part what is named, and a doubled one is a comma
//! (qemu-options.hx; util/qemu-option.c, `get_opt_value`). libvirt gives some as JSON.

use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Bytes that are looked at: the kernel lets a command line have 2 MiB, of which QEMU's take a few thousand.
const LONGEST: u64 = 1 << 20;

/// A command line, as `/proc/PID/cmdline` has it: words, each with a zero behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine(Vec<u8>);

/// Where QEMU listens for whoever speaks QMP to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Monitor {
    /// At a Unix socket of that path, in its own folders.
    Path(PathBuf),
    /// At one that it was started with, which is whoever's that started it: libvirt's.
    Given,
}

impl From<Vec<u8>> for CommandLine {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl CommandLine {
    /// Of a process; empty if it has ended.
    pub fn of(pid: u32) -> Self {
        Self::read(&Path::new("/proc").join(pid.to_string()))
    }

    /// Of the process that has that folder in /proc.
    pub(crate) fn read(dir: &Path) -> Self {
        let mut bytes = Vec::new();
        // What was read until an error came is what there is.
        let _ = File::open(dir.join("cmdline")).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
        Self(bytes)
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    /// What QEMU's user calls the machine: `-name web1`, `-name guest=web1,debug-threads=on`; empty if it has no name.
    pub fn name(&self) -> String {
        self.named("name").next().and_then(|value| option(&value, "guest", true)).unwrap_or_default()
    }

    /// The guest's context ID for vsock: `guest-cid=3`; libvirt gives devices as JSON: `"guest-cid":3`.
    pub(crate) fn cid(&self) -> Option<u32> {
        let text = self.text();
        let rest = ["guest-cid=", "\"guest-cid\":"].iter().find_map(|key| Some(text.split_once(key)?.1))?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    }

    /// Where it listens for QMP at sockets of this host: `-qmp unix:PATH`, or `-mon chardev=ID,mode=control` with
    /// `-chardev socket,id=ID,path=PATH`.
    pub fn monitors(&self) -> Vec<Monitor> {
        let short = self.named("qmp").chain(self.named("qmp-pretty"));
        let short = short.filter_map(|value| {
            Some(Monitor::Path(option(value.strip_prefix("unix:")?, "path", true)?.into()))
        });
        let long =
            self.named("mon").filter(|value| option(value, "mode", false).as_deref() == Some("control"));
        let long = long.filter_map(|value| self.device(&option(&value, "chardev", true)?));
        short.chain(long).collect()
    }

    /// The memory backends that the guest's memory is of, as far as it names them.
    pub fn memory(&self) -> Vec<String> {
        let whole = self.named("machine").filter_map(|value| option(&value, "memory-backend", false));
        let nodes = self.named("numa").filter_map(|value| option(&value, "memdev", false));
        whole.chain(nodes).collect()
    }

    /// The socket that is the character device of that name.
    fn device(&self, id: &str) -> Option<Monitor> {
        let is_it = |value: &String| {
            option(value, "backend", true).as_deref() == Some("socket")
                && option(value, "id", false).as_deref() == Some(id)
        };
        let device = self.named("chardev").find(is_it)?;
        let path = option(&device, "path", false).map(|path| Monitor::Path(path.into()));
        path.or_else(|| option(&device, "fd", false).map(|_| Monitor::Given))
    }

    /// The values of all options of that name.
    fn named(&self, option: &str) -> impl Iterator<Item = String> {
        let words: Vec<_> = self.0.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        // Two dashes are as good as one.
        let is_it = |word: &str| {
            word.strip_prefix('-').is_some_and(|name| name.strip_prefix('-').unwrap_or(name) == option)
        };
        let pairs = words.windows(2).filter(|pair| is_it(&pair[0]));
        pairs.map(|pair| pair[1].clone().into_owned()).collect::<Vec<String>>().into_iter()
    }
}

/// What is named so in an option's value; without a name, if it may do without, the first is it.
fn option(value: &str, key: &str, may_be_first: bool) -> Option<String> {
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

    fn of(words: &[&str]) -> CommandLine {
        CommandLine(words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect())
    }

    fn path(path: &str) -> Monitor {
        Monitor::Path(path.into())
    }

    #[test]
    fn the_name_is_found() {
        assert_eq!(of(&["qemu", "-name", "guest=web1,debug-threads=on", "-smp", "two"]).name(), "web1");
        assert_eq!(of(&["qemu", "-smp", "two", "-name", "web1,process=q"]).name(), "web1");
        assert_eq!(of(&["qemu", "-name", "debug-threads=on"]).name(), "");
        assert_eq!(CommandLine(b"qemu\0-name".to_vec()).name(), "");
    }

    #[test]
    fn the_context_id_is_found() {
        assert_eq!(
            of(&["qemu", "-device", "vhost-vsock-pci,guest-cid=42,id=v", "-smp", "two"]).cid(),
            Some(42)
        );
        let json = r#"{"driver":"vhost-vsock-pci","id":"v","guest-cid":42,"vhostfd":"29"}"#;
        assert_eq!(of(&["qemu", "-device", json, "-smp"]).cid(), Some(42));
        assert_eq!(of(&["qemu", "-smp", "two"]).cid(), None);
    }

    #[test]
    fn sockets_for_qmp_are_found_however_they_are_given() {
        let qmp = |value| of(&["qemu", "-qmp", value, "-smp", "2"]).monitors();
        assert_eq!(qmp("unix:/run/vm1.sock,server=on,wait=off"), [path("/run/vm1.sock")]);
        assert_eq!(qmp("unix:/run/a,,b=c.sock,server"), [path("/run/a,b=c.sock")]);
        assert_eq!(qmp("tcp:localhost:4444"), []);
        assert_eq!(qmp("stdio"), []);
        assert_eq!(of(&["qemu", "--qmp-pretty", "unix:q.sock"]).monitors(), [path("q.sock")]);
        let with = |device, monitor| of(&["qemu", "-chardev", device, "-mon", monitor]).monitors();
        let device = "socket,id=m,path=/run/m.sock,server=on";
        assert_eq!(with(device, "chardev=m,mode=control"), [path("/run/m.sock")]);
        assert_eq!(with(device, "m,mode=control,pretty=on"), [path("/run/m.sock")]);
        // It is another's, or for people.
        assert_eq!(with(device, "chardev=n,mode=control"), []);
        assert_eq!(with(device, "chardev=m,mode=readline"), []);
        assert_eq!(with("file,id=m,path=/run/m", "chardev=m,mode=control"), []);
        // libvirt's.
        let given = "socket,id=charmonitor,fd=32,server=on,wait=off";
        assert_eq!(with(given, "chardev=charmonitor,id=monitor,mode=control"), [Monitor::Given]);
        assert_eq!(CommandLine(b"qemu\0-qmp".to_vec()).monitors(), []);
    }

    #[test]
    fn memory_is_whole_or_of_nodes() {
        let whole = of(&["qemu", "-machine", "q35,smm=on,memory-backend=pc.ram", "-m", "1024"]);
        assert_eq!(whole.memory(), ["pc.ram"]);
        let node = |n| format!("node,nodeid={n},cpus={n},memdev=ram-node{n}");
        assert_eq!(of(&["qemu", "-numa", &node(0), "-numa", &node(1)]).memory(), ["ram-node0", "ram-node1"]);
        assert_eq!(of(&["qemu", "-machine", "pc"]).memory(), [""; 0]);
    }

    proptest! {
        #[test]
        fn any_path_is_found_again(name in "[^\0]{1,40}", id in "[^\0=]{1,10}") {
            let doubled = |text: &str| text.replace(',', ",,");
            let device = format!("socket,server=on,path=/{},id={}", doubled(&name), doubled(&id));
            let monitor = format!("mode=control,chardev={}", doubled(&id));
            let found = of(&["qemu", "-mon", &monitor, "-chardev", &device]).monitors();
            prop_assert_eq!(found, [path(&format!("/{name}"))]);
            // Of what has no name, a name would be what is before the first `=`.
            let name = name.replace('=', "");
            let short = format!("unix:/{},server=on", doubled(&name));
            prop_assert_eq!(of(&["qemu", "-qmp", &short]).monitors(), [path(&format!("/{name}"))]);
        }

        #[test]
        fn whatever_it_says_it_is_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let any = CommandLine([b"-qmp\0unix:".as_slice(), &bytes, b"\0-mon\0", &bytes].concat());
            let _ = (any.name(), any.cid(), any.monitors());
        }
    }
}
