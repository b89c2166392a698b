//! Where what need not be made anew is kept.

use std::{env, path::PathBuf};

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

#[cfg(test)]
mod tests {
    use std::{collections::HashMap, fs, os::unix::fs::chown, path::Path};

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
}
