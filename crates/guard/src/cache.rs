//! Where what need not be made anew is kept.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::private::is_another_users;

/// The folder of all caches: `XWEAVE_CACHE`, or else `xweave` in `XDG_CACHE_HOME`, in `~/.cache`, or in `/var/cache`.
///
/// `sudo` leaves `HOME` in place on some systems: a home that belongs to another user is passed over.
pub fn folder() -> PathBuf {
    place(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
}

fn place(set: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let own = |name| set(name).filter(|home| !is_another_users(home));
    set("XWEAVE_CACHE")
        .or_else(|| Some(own("XDG_CACHE_HOME")?.join("xweave")))
        .or_else(|| Some(own("HOME")?.join(".cache/xweave")))
        .unwrap_or_else(|| "/var/cache/xweave".into())
}

/// Leaves the newest so many files of a cache's folder, of so many bytes in all.
pub fn prune(folder: &Path, files: usize, bytes: u64) {
    let about = |entry: fs::DirEntry| {
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), about.len(), entry.path()))
    };
    let mut all: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(about).collect();
    all.sort_by(|a, b| b.cmp(a));
    let mut sum = 0u64;
    for (nth, (_, size, path)) in all.into_iter().enumerate() {
        sum = sum.saturating_add(size);
        if nth >= files || sum > bytes {
            // Another process may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs::File, os::unix::fs::chown, time::Duration};

    use super::*;

    #[test]
    fn the_cache_is_not_in_another_users_home() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        fs::create_dir(&home).unwrap();
        let in_home = |names: &[&'static str]| {
            let set: HashMap<_, _> = names.iter().map(|name| (*name, home.clone())).collect();
            place(|name| set.get(name).cloned())
        };
        assert_eq!(in_home(&[]), Path::new("/var/cache/xweave"));
        assert_eq!(in_home(&["HOME"]), home.join(".cache/xweave"));
        assert_eq!(in_home(&["HOME", "XDG_CACHE_HOME"]), home.join("xweave"));
        assert_eq!(in_home(&["HOME", "XDG_CACHE_HOME", "XWEAVE_CACHE"]), home);
        if chown(&home, Some(65534), None).is_ok() {
            assert_eq!(in_home(&["HOME", "XDG_CACHE_HOME"]), Path::new("/var/cache/xweave"));
            assert_eq!(
                in_home(&["XWEAVE_CACHE"]),
                home,
                "what was named is held against, and not passed over"
            );
        } else {
            eprintln!("SKIPPED: only root can give a folder away");
        }
    }

    #[test]
    fn the_oldest_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        for age in 0..5u64 {
            let file = File::create(folder.path().join(age.to_string())).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age * 100)).unwrap();
        }
        let left = || {
            let mut names: Vec<_> =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        prune(folder.path(), 4, 1000);
        assert_eq!(left(), ["0", "1", "2", "3"]);
        prune(folder.path(), 4, 250);
        assert_eq!(left(), ["0", "1"]);
    }
}
