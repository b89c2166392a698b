//! Writes `newc` cpio archives: the format of a Linux initramfs.
//!
//! An initramfs may be several archives one after the other, so what changes (the xweave program,
//! a world's token) is appended to what does not (busybox, modules).

use std::io::{self, Write};

/// Writes one archive; [`Archive::finish`] ends it.
pub struct Archive<W: Write> {
    out: W,
    written: u64,
    inode: u32,
}

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
/// The kernel accepts any alignment of 4; programs pad an archive to 512.
const BLOCK: u64 = 512;

impl<W: Write> Archive<W> {
    /// Begins an archive.
    pub fn new(out: W) -> Self {
        Self { out, written: 0, inode: 0 }
    }

    /// Adds a folder. The kernel creates no parents on its own: add them first.
    pub fn directory(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, DIRECTORY | 0o755, &[])
    }

    /// Adds a file with the permission bits `mode`.
    pub fn file(&mut self, path: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        self.entry(path, FILE | (mode & 0o7777), data)
    }

    /// Ends the archive, padded so that another can follow.
    pub fn finish(mut self) -> io::Result<W> {
        self.inode = 0;
        self.header("TRAILER!!!", 0, 0, 0)?;
        self.pad(BLOCK)?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) -> io::Result<()> {
        let size = u32::try_from(data.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, format!("{path}: larger than 4 GiB")))?;
        self.inode += 1;
        self.header(path, mode, size, self.inode)?;
        self.put(data)?;
        self.pad(4)
    }

    fn header(&mut self, path: &str, mode: u32, size: u32, inode: u32) -> io::Result<()> {
        let name = u32::try_from(path.len() + 1)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "the path is too long"))?;
        let links = if mode & DIRECTORY == DIRECTORY { 2 } else { 1 };
        // Owner, group and times are 0: the same content gives the same archive.
        let fields = [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name, 0];
        let mut text = String::from("070701");
        for field in fields {
            text.push_str(&format!("{field:08x}"));
        }
        self.put(text.as_bytes())?;
        self.put(path.as_bytes())?;
        self.put(&[0])?;
        self.pad(4)
    }

    fn put(&mut self, data: &[u8]) -> io::Result<()> {
        self.written += data.len() as u64;
        self.out.write_all(data)
    }

    fn pad(&mut self, to: u64) -> io::Result<()> {
        const ZEROS: [u8; 512] = [0; 512];
        let missing = self.written.next_multiple_of(to) - self.written;
        let zeros = usize::try_from(missing).map_or(&ZEROS[..], |n| &ZEROS[..n]);
        self.put(zeros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn sample() -> Vec<u8> {
        let mut archive = Archive::new(Vec::new());
        archive.directory("bin").unwrap();
        archive.file("bin/hello", 0o755, b"hello\n").unwrap();
        archive.finish().unwrap()
    }

    #[test]
    fn is_padded_so_that_another_can_follow() {
        let data = sample();
        assert_eq!(data.len() % 512, 0);
        assert_eq!(&data[..6], b"070701");
        assert_eq!(data, sample(), "the same content gives the same bytes");
    }

    #[test]
    fn cpio_reads_it() {
        let Ok(mut child) = Command::new("cpio")
            .args(["-tv", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            eprintln!("SKIPPED: cpio is not installed");
            return;
        };
        child.stdin.take().unwrap().write_all(&sample()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success());
        assert!(text.lines().any(|l| l.starts_with("-rwxr-xr-x") && l.ends_with("bin/hello")), "{text}");
        assert!(text.lines().any(|l| l.starts_with('d') && l.ends_with("bin")), "{text}");
    }
}
