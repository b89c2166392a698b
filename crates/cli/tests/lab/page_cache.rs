//! A guest that is asked again what its page cache holds looks only at what has changed, and tells the same as one that looks at
//! everything.

use std::time::{Duration, Instant};

use xweave_record::{Caches, DomainCache, DomainSpec};
use xweave_wire::pages::{CachedFile, Files};

use crate::{
    clean::assert_clean,
    world::{PATIENCE, World},
};

/// Mounts an empty disk of the guest's at `/disk`.
const DISK: &str = "mkdir -p /disk && mount -t ext4 /dev/vda /disk && mkdir -p /disk/in/no /disk/out";

/// What is done to files, one after the other; files that are looked at again then, at most.
const CHANGES: [(&str, u64); 17] = [
    ("true", 0),
    ("dd if=/dev/urandom of=/disk/in/new bs=4k count=9 2>/dev/null", 1),
    ("dd if=/dev/urandom of=/disk/out/other bs=4k count=9 2>/dev/null; echo a >/disk/in/no/excluded", 0),
    ("for nth in 1 2 3; do echo more >>/disk/in/f$nth; done", 3),
    // Their pages are dirty already.
    ("for nth in 1 2 3; do echo more >>/disk/in/f$nth; done", 3),
    ("dd if=/dev/urandom of=/disk/in/f5 bs=4k count=1 seek=1 conv=notrunc 2>/dev/null", 1),
    ("touch -d '2026-02-03 04:05:06' /disk/in/f6", 1),
    ("mv /disk/in/new /disk/in/renamed", 1),
    ("mv /disk/out/other /disk/in/came", 1),
    ("mv /disk/in/came /disk/out/went", 1),
    ("rm /disk/in/renamed", 1),
    ("truncate -s 100 /disk/in/f8", 1),
    // The numbers of those that went are given to these.
    ("rm /disk/in/f9 /disk/in/f10; sync; for nth in 9 10 11; do echo $nth >/disk/in/g$nth; done", 5),
    ("sync; echo 1 >/proc/sys/vm/drop_caches", 60),
    ("cat /disk/in/f20 /disk/in/f21 >/dev/null", 2),
    ("cat /disk/in/f* >/dev/null; echo 1 >/proc/sys/vm/compact_memory", 60),
    ("mkdir /disk/in/deep; cp /disk/in/f2* /disk/in/deep", 20),
];

fn told(world: &World, files: &Files) -> Vec<CachedFile> {
    let caches = xweave_record::cached(&domains(world), files, &mut |_| {}).unwrap();
    of_one(caches).files
}

fn of_one(mut caches: Vec<DomainCache>) -> DomainCache {
    let mut of = caches.pop().unwrap();
    of.files.sort_by(|one, other| one.path.cmp(&other.path));
    of
}

fn mount(world: &World) {
    // What a run that failed has left.
    world.run("vm1", "umount /disk 2>/dev/null; true");
    world.run("host", "mkfs.ext4 -q -F -b 4096 /var/tmp/vm1.disk");
    world.run("vm1", &format!("echo 3 >/proc/sys/vm/drop_caches; {DISK}"));
}

/// Only what differs is shown.
fn assert_same(one: &[CachedFile], other: &[CachedFile], after: &str) {
    let only = |of: &[CachedFile], not: &[CachedFile]| {
        of.iter().filter(|file| !not.contains(file)).cloned().collect()
    };
    let differ: [Vec<CachedFile>; 2] = [only(one, other), only(other, one)];
    assert_eq!(differ, [vec![], vec![]], "{after}");
}

/// From here, through the lab.
fn domains(world: &World) -> Vec<DomainSpec> {
    let agent = |domain| {
        let command = world.agent(domain);
        DomainSpec::parse(&format!("{domain}={command}")).unwrap()
    };
    vec![agent("host"), agent("vm1")]
}

#[test]
fn what_has_changed_is_told_as_by_one_who_looks_at_everything() {
    let Some(world) = World::find("page_cache") else { return };
    mount(&world);
    world.run(
        "vm1",
        "for nth in $(seq 1 30); do dd if=/dev/urandom of=/disk/in/f$nth bs=4k count=$nth 2>/dev/null; done; sync",
    );
    let files = Files {
        include: vec!["/disk/in".into(), "/disk/later".into()],
        exclude: vec!["/disk/in/no".into()],
        frames: true,
        ..Files::default()
    };
    let mut caches = Caches::of(&domains(&world), &files, Box::new(|_| {})).unwrap();
    assert_eq!(caches.watch().unwrap(), [""; 0]);
    let first = of_one(caches.ask().unwrap());
    assert!(first.looked_at.whole && first.files.len() == 30, "{:?}", first.looked_at);
    for (change, most) in CHANGES {
        world.run("vm1", change);
        let again = of_one(caches.ask().unwrap());
        let all = told(&world, &files);
        assert_same(&again.files, &all, change);
        let looked_at = &again.looked_at;
        assert!(!looked_at.whole && looked_at.files <= most, "{change}: {looked_at:?}");
        assert!(most == 0 || looked_at.files > 0, "{change}: {looked_at:?}");
    }

    // Where a folder comes, or is called otherwise, or a file has several names, all are looked at, sooner or later.
    let comes = "mkdir /disk/later; echo a >/disk/later/a";
    let is_called_otherwise = "mv /disk/in/deep /disk/in/deeper";
    let names = "ln /disk/in/f12 /disk/in/linked; sync; echo 1 >/proc/sys/vm/drop_caches";
    let by_the_other = "cat /disk/in/linked >/dev/null";
    for (before, change) in [("true", comes), ("true", is_called_otherwise), (names, by_the_other)] {
        world.run("vm1", before);
        caches.ask().unwrap();
        world.run("vm1", change);
        let deadline = Instant::now() + PATIENCE;
        let again = loop {
            let again = of_one(caches.ask().unwrap());
            if again.looked_at.whole {
                break again;
            }
            assert!(Instant::now() < deadline, "{change}: all are never looked at");
        };
        assert_same(&again.files, &told(&world, &files), change);
        assert!(!of_one(caches.ask().unwrap()).looked_at.whole);
    }

    drop(caches);
    world.run("vm1", "umount /disk");
    for domain in ["host", "vm1"] {
        assert_clean(&world, domain);
    }
}

/// Half of the times are no longer.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn asking_again_takes_what_has_changed_and_not_what_there_is() {
    let Some(world) = World::find("page_cache") else { return };
    mount(&world);
    world.run("vm1", "for nth in $(seq 1 3000); do echo $nth >/disk/in/f$nth; done; sync");
    let files = Files { include: vec!["/disk/in".into()], frames: true, ..Files::default() };
    let mut caches = Caches::of(&domains(&world), &files, Box::new(|_| {})).unwrap();
    let times = |caches: &mut Caches<'_>, looked_at: u64| -> Duration {
        let asked = (0..5).map(|_| {
            world.run("vm1", "for nth in $(seq 1 30); do echo more >>/disk/in/f$nth; done");
            let begun = Instant::now();
            assert_eq!(of_one(caches.ask().unwrap()).looked_at.files, looked_at);
            begun.elapsed()
        });
        median(asked.collect())
    };
    let all = times(&mut caches, 3000);
    assert_eq!(caches.watch().unwrap(), [""; 0]);
    caches.ask().unwrap();
    let again = times(&mut caches, 30);
    println!("of 3,000 files 30 have changed: {:.1} of the time", again.div_duration_f64(all));
    assert!(again < all / 2, "{again:?} of {all:?}");
    drop(caches);
    world.run("vm1", "umount /disk");
}

#[test]
fn who_cannot_watch_looks_at_everything_each_time_and_says_why() {
    let Some(world) = World::find("page_cache") else { return };
    world.run("vm1", "mkdir -p /tmp/watched && echo a >/tmp/watched/a");
    let files = Files { include: vec!["/tmp/watched".into()], ..Files::default() };
    let mut caches = Caches::of(&domains(&world), &files, Box::new(|_| {})).unwrap();
    let reasons = caches.watch().unwrap();
    assert!(reasons.len() == 1 && reasons[0].contains("vm1") && reasons[0].contains("tmpfs"), "{reasons:?}");
    for (change, names) in
        [("true", &["a"][..]), ("echo b >/tmp/watched/b", &["a", "b"]), ("rm /tmp/watched/a", &["b"])]
    {
        world.run("vm1", change);
        let of = of_one(caches.ask().unwrap());
        let told: Vec<_> =
            of.files.iter().map(|file| file.path.trim_start_matches("/tmp/watched/")).collect();
        assert_eq!((&told[..], of.looked_at.files), (names, names.len() as u64), "{change}");
    }
    world.run("vm1", "rm -r /tmp/watched");
}
