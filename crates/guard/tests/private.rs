//! Files and folders of one user, under a umask that forbids nothing, beside somebody who puts links in their way.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic, its helpers too")]

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use xweave_guard::private::{Dir, Error, Growing, Trust, can_create, open_named, write_file};

/// A folder of our own, under the umask that leaves everything to everybody.
fn folder() -> tempfile::TempDir {
    // SAFETY: it has no preconditions; all tests of this program want the same.
    unsafe { libc::umask(0) };
    tempfile::tempdir().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives something to somebody else; false, and says so, where only root could.
fn give_away(path: &Path) -> bool {
    // SAFETY: it has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("SKIPPED: only root can give {} away", path.display());
        return false;
    }
    chown(path, Some(65534), Some(65534)).unwrap();
    true
}

fn mkfifo(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: the name ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

#[test]
fn what_is_made_is_private_under_any_umask() {
    let parent = folder();
    let path = parent.path().join("a/b/trace/");
    let dir = Dir::create(&path).unwrap();
    dir.create_new("one").unwrap().write_all(b"1").unwrap();
    dir.replace("two", b"2").unwrap();
    dir.create_dir("inner").unwrap().replace("three", b"3").unwrap();
    write_file(&path.join("four"), b"4").unwrap();
    for folder in [parent.path().join("a"), parent.path().join("a/b"), path.clone(), path.join("inner")] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    for file in ["one", "two", "inner/three", "four"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
    assert_eq!(dir.names(9).unwrap(), ["four", "inner", "one", "two"]);
    assert!(dir.names(3).unwrap_err().to_string().contains("more than 3 files"));
}

#[test]
fn a_folder_of_others_is_not_used() {
    let parent = folder();
    let path = parent.path().join("open");
    fs::create_dir(&path).unwrap();
    for wrong in [0o777, 0o770, 0o702] {
        set_mode(&path, wrong);
        for error in [Dir::create(&path).unwrap_err(), Dir::open(&path, Trust::Owner).unwrap_err()] {
            assert!(matches!(error, Error::Writable { mode, .. } if mode == wrong), "{error}");
        }
        assert!(Dir::open(&path, Trust::Anyone).is_ok());
    }
    // Whoever can read it is shut out when it is claimed, not before.
    set_mode(&path, 0o755);
    let dir = Dir::create(&path).unwrap();
    assert_eq!(mode(&path), 0o755);
    dir.claim().unwrap();
    assert_eq!(mode(&path), 0o700);
    if give_away(&path) {
        for error in [Dir::create(&path).unwrap_err(), Dir::open(&path, Trust::Owner).unwrap_err()] {
            assert!(matches!(error, Error::Owner { owner: 65534, .. }), "{error}");
            assert!(error.is_distrust());
        }
        assert!(Dir::open(&path, Trust::Anyone).is_ok());
    }
}

#[test]
fn files_of_others_are_not_read() {
    let parent = folder();
    let dir = Dir::create(&parent.path().join("dir")).unwrap();
    dir.replace("file", b"content").unwrap();
    let path = dir.path_of("file");
    assert_eq!(dir.read("file", 7).unwrap(), b"content");
    assert!(matches!(dir.read("file", 6), Err(Error::Large { size: 7, most: 6, .. })));
    set_mode(&path, 0o644);
    assert!(dir.read("file", 7).is_ok(), "others may read it");
    set_mode(&path, 0o664);
    assert!(matches!(dir.read("file", 7), Err(Error::Writable { .. })));
    let anyones = Dir::open(dir.path(), Trust::Anyone).unwrap();
    assert_eq!(anyones.read("file", 7).unwrap(), b"content");
    set_mode(&path, 0o600);
    if give_away(&path) {
        assert!(matches!(dir.read("file", 7), Err(Error::Owner { owner: 65534, .. })));
        assert_eq!(anyones.read("file", 7).unwrap(), b"content");
    }
}

#[test]
fn nothing_goes_through_a_link() {
    let parent = folder();
    let victim = parent.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "precious").unwrap();
    let link = parent.path().join("link");
    symlink(&victim, &link).unwrap();
    for path in [link.clone(), link.join(""), PathBuf::from(format!("{}///", link.display()))] {
        let error = Dir::create(&path).unwrap_err();
        assert!(error.to_string().contains("is a symbolic link, not a folder"), "{error}");
        assert!(Dir::open(&path, Trust::Anyone).is_err());
    }
    let dir = Dir::create(&parent.path().join("dir")).unwrap();
    symlink(victim.join("file"), dir.path_of("entry")).unwrap();
    symlink(&victim, dir.path_of("inner")).unwrap();
    assert!(matches!(dir.read("entry", 99), Err(Error::Kind { found: "a symbolic link", .. })));
    assert!(matches!(dir.remove("entry"), Err(Error::Kind { .. })));
    assert!(dir.create_new("entry").is_err());
    assert!(dir.create_dir("inner").is_err() && dir.open_dir("inner").is_err());
    // Replacing replaces the link.
    dir.replace("entry", b"new").unwrap();
    assert_eq!(dir.read("entry", 99).unwrap(), b"new");
    symlink(victim.join("file"), parent.path().join("page")).unwrap();
    write_file(&parent.path().join("page"), b"new").unwrap();
    assert!(fs::symlink_metadata(parent.path().join("page")).unwrap().is_file());
    assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "precious");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    for name in ["", ".", "..", "../victim/file", "inner/file", "/etc/passwd"] {
        assert!(dir.create_new(name).is_err() && dir.open_file(name).is_err() && dir.remove(name).is_err());
    }
}

/// Were the name of the temporary file known and taken by a link, what is written would not go through it.
#[test]
fn a_link_at_the_temporary_name_is_taken_away() {
    let parent = folder();
    let dir = Dir::create(&parent.path().join("dir")).unwrap();
    let precious = parent.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, dir.path_of(&format!(".file.tmp-{}", std::process::id()))).unwrap();
    dir.replace("file", b"new").unwrap();
    assert_eq!(
        (dir.read("file", 9).unwrap(), fs::read(precious).unwrap()),
        (b"new".to_vec(), b"precious".to_vec())
    );
    assert_eq!(dir.names(9).unwrap(), ["file"]);
}

#[test]
fn a_pipe_or_a_device_is_refused_at_once() {
    let parent = folder();
    let dir = Dir::create(&parent.path().join("dir")).unwrap();
    mkfifo(&dir.path_of("pipe"));
    fs::create_dir(dir.path_of("folder")).unwrap();
    // Opening a pipe to read waits for a writer: this would not end.
    assert!(matches!(dir.open_file("pipe"), Err(Error::Kind { found: "a named pipe", .. })));
    assert!(matches!(dir.open_file("folder"), Err(Error::Kind { found: "a folder", .. })));
    assert!(matches!(open_named(&dir.path_of("pipe")), Err(Error::Kind { .. })));
    assert!(matches!(open_named("/dev/zero".as_ref()), Err(Error::Kind { found: "a device", .. })));
    assert!(Dir::open("/dev/zero".as_ref(), Trust::Anyone).unwrap_err().to_string().contains("is a device"));
}

#[test]
fn the_folder_stays_the_one_that_was_opened() {
    let parent = folder();
    let (path, aside) = (parent.path().join("trace"), parent.path().join("aside"));
    let victim = parent.path().join("victim");
    fs::create_dir(&victim).unwrap();
    let dir = Dir::create(&path).unwrap();
    fs::rename(&path, &aside).unwrap();
    symlink(&victim, &path).unwrap();
    dir.replace("file", b"1").unwrap();
    dir.create_dir("inner").unwrap().create_new("file").unwrap();
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert!(aside.join("inner/file").exists() && aside.join("file").exists());
}

/// The same while somebody changes the name's meaning all the time.
#[test]
fn a_race_for_the_name_is_not_won() {
    let parent = folder();
    let (path, aside) = (parent.path().join("trace"), parent.path().join("aside"));
    let victim = parent.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "precious").unwrap();
    let done = AtomicBool::new(false);
    let (mut made, mut refused) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = fs::rename(&path, &aside);
                let _ = symlink(&victim, &path);
                let _ = fs::remove_file(&path);
                let _ = fs::rename(&aside, &path);
            }
        });
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 1500 {
            match Dir::create(&path).and_then(|dir| {
                dir.claim()?;
                dir.replace("file", b"new")?;
                dir.create_dir("inner")?.replace("file", b"new")?;
                dir.remove("file")
            }) {
                Ok(()) => made += 1,
                Err(_) => refused += 1,
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    eprintln!("{made} times made, {refused} times refused");
    assert!(made > 0);
    assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "precious");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    assert_ne!(mode(&victim), 0o700, "it was not claimed either");
}

#[test]
fn a_failed_replacement_leaves_what_was_there() {
    let parent = folder();
    let dir = Dir::create(&parent.path().join("dir")).unwrap();
    dir.create_dir("taken").unwrap();
    assert!(dir.replace("taken", b"file").is_err());
    assert_eq!(dir.names(9).unwrap(), ["taken"]);
    assert!(matches!(dir.read("none", 9), Err(error) if error.is_missing()));
    assert!(dir.open_dir("none").unwrap().is_none() && !dir.has("none").unwrap());
    dir.remove("none").unwrap();
    drop(File::open(dir.path()).unwrap());
}

#[test]
fn where_a_folder_can_be_created_is_known_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("file"), "").unwrap();
    can_create(&path.join("new")).unwrap();
    can_create(&path.join("a/b/c")).unwrap();
    can_create("new".as_ref()).unwrap();
    for under_a_file in ["file/x", "file/x/y"] {
        let error = can_create(&path.join(under_a_file)).unwrap_err();
        assert!(error.to_string().contains("Not a directory"), "{error}");
    }
    assert_eq!(fs::read_dir(path).unwrap().count(), 1);
}

#[test]
fn a_file_that_grows_has_its_name_when_it_is_whole_and_leaves_nothing_if_it_never_is() {
    use std::io::Write as _;
    let parent = folder();
    let path = parent.path().join("large");
    fs::write(&path, "old").unwrap();
    let mut given_up = Growing::create(&path).unwrap();
    given_up.write_all(b"a part").unwrap();
    drop(given_up);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    let mut growing = Growing::create(&path).unwrap();
    growing.write_all(b"new, ").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    growing.write_all(b"and whole").unwrap();
    growing.finish().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new, and whole");
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    assert!(Growing::create(&parent.path().join("none/file")).is_err());
}
