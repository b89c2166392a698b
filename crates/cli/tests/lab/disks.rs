//! Disks on disks, several accesses to the same sectors, page faults and swap-ins: explained by a disk that takes as long as it was told to.

use crate::world::{World, longest};

/// What the disk takes for each access.
const DEVICE: u64 = 4_000_000;

/// How many accesses a reader makes, one after the other.
const READS: u64 = 25;

/// Disks whose accesses each end by a timer: one below device mapper, two below md, one for itself.
const DISKS: &str = "modprobe null_blk nr_devices=4 queue_mode=2 irqmode=2 completion_nsec=4000000 submit_queues=1 \
     hw_queue_depth=64 gb=1 && [ -b /dev/nullb3 ]";

/// Makes a volume of device mapper with this table; gives its device. There is no udev that would name it.
fn volume(world: &World, name: &str, table: &str) -> String {
    let made = world.run(
        "host",
        &format!(
            "echo '{table}' | dmsetup create {name} --noudevrules --noudevsync && \
             dmsetup info -c --noheadings -o minor {name}"
        ),
    );
    format!("/dev/dm-{}", made.trim())
}

/// A reader called `name`, without the page cache.
fn reader(name: &str, device: &str) -> String {
    format!(
        "cp /usr/bin/dd /tmp/{name} && /tmp/{name} if={device} of=/dev/null bs=4096 count={READS} iflag=direct 2>/dev/null"
    )
}

#[test]
fn the_time_of_a_volume_is_that_of_the_disk_below_it() {
    let Some(world) = World::find("volumes") else { return };
    world.run("host", DISKS);
    world.run("host", "modprobe -a dm_mod dm_crypt");
    let linear = volume(&world, "xw-linear", "0 1048576 linear /dev/nullb0 2048");
    let key = "0".repeat(64);
    let table = format!("0 1048576 crypt aes-xts-plain64 {key} 0 /dev/nullb0 2048");
    let crypt = volume(&world, "xw-crypt", &table);
    // md's striped disks without superblocks, by the kernel's own files.
    world.run(
        "host",
        "modprobe raid0 && echo md7 >/sys/module/md_mod/parameters/new_array && cd /sys/block/md7/md && \
         echo none >metadata_version && echo raid0 >level && echo 2 >raid_disks && echo 65536 >chunk_size && \
         slot=0; for disk in 1 2; do cat /sys/block/nullb$disk/dev >new_dev && echo $slot >dev-nullb$disk/slot && slot=1 && \
             echo 524288 >dev-nullb$disk/size || exit 1; done && \
         echo active >array_state && [ -b /dev/md7 ]",
    );
    let recording = world.record("--events sched,block -o /tmp/events-volumes");
    for (name, device) in
        [("xwlinear", &*linear), ("xwcrypt", &*crypt), ("xwstripes", "/dev/md7"), ("xwbare", "/dev/nullb0")]
    {
        world.run("host", &reader(name, device));
    }
    // Several that read the same sectors at the same time.
    world.run("host", &format!("for nth in 1 2 3; do {} & done; wait", reader("xwsame", "/dev/nullb3")));
    recording.finish_well();
    world.run(
        "host",
        "dmsetup remove xw-crypt && dmsetup remove xw-linear && echo clear >/sys/block/md7/md/array_state",
    );
    world.run("host", "rmmod raid0 null_blk");
    for name in ["xwlinear", "xwcrypt", "xwstripes", "xwbare", "xwsame"] {
        let document = world.explain("/tmp/events-volumes", &format!("process:{name}"));
        let device = longest(&document, |part| {
            part["state"] == "device" && part["object"].as_str().unwrap().starts_with("disk nullb")
        });
        let least = READS * DEVICE;
        assert!(device >= least * 95 / 100, "{name}: {device} of {least} ns: {document}");
        let total = longest(&document, |_| true);
        assert!(device <= total && total > least, "{name}: {document}");
        assert_eq!(document["summary"]["incomplete_ios"], 0, "{name}: {document}");
    }
}

/// A disk that keeps what is written to it, and ends each access by a timer.
const KEEPING_DISK: &str = "modprobe null_blk nr_devices=1 queue_mode=2 irqmode=2 completion_nsec=4000000 submit_queues=1 \
     hw_queue_depth=64 gb=1 memory_backed=1 && [ -b /dev/nullb0 ]";

/// A program whose pages are read as it runs, and one that has more memory than its cgroup may have at once.
#[test]
fn waits_in_page_faults_and_swap_ins_are_told_as_such() {
    let Some(world) = World::find("page faults and swap-ins") else { return };
    world.run("host", KEEPING_DISK);
    world.run(
        "host",
        "mkfs.ext4 -q /dev/nullb0 400M && mkdir -p /tmp/cold && mount /dev/nullb0 /tmp/cold && \
         cp /usr/bin/xweave /tmp/cold/xwcold && umount /tmp/cold && mount /dev/nullb0 /tmp/cold",
    );
    let recording = world.record("--events sched,block -o /tmp/events-faults");
    world.run("host", "/tmp/cold/xwcold --version");
    world.run(
        "host",
        "umount /tmp/cold && mkswap /dev/nullb0 >/dev/null && swapon /dev/nullb0 && \
         echo +memory >/sys/fs/cgroup/cgroup.subtree_control && mkdir -p /sys/fs/cgroup/xwswap && \
         echo 10M >/sys/fs/cgroup/xwswap/memory.max && cp /usr/bin/perl /tmp/xwswaps",
    );
    world.run(
        "host",
        "echo $$ >/sys/fs/cgroup/xwswap/cgroup.procs && \
         /tmp/xwswaps -e '$all = \"x\" x (12 << 20); \
             for ($at = 0; $at < length($all); $at += 4096) { $sum += ord(substr($all, $at, 1)) }' && true",
    );
    recording.finish_well();
    world.run("host", "swapoff /dev/nullb0 && rmdir /sys/fs/cgroup/xwswap && rmmod null_blk");
    for (program, why, cause) in [
        (
            "xwcold",
            "page fault: a page of the file xwcold was waited for",
            "disk I/O of host for page faults",
        ),
        ("xwswaps", "swap-in: a page that was swapped out was waited for", "disk I/O of host for swap-ins"),
    ] {
        let document = world.explain("/tmp/events-faults", &format!("process:{program}"));
        let told = longest(&document, |part| {
            part["why"] == why && part["state"] == "device" && part["object"] == "disk nullb0"
        });
        let device = longest(&document, |part| part["state"] == "device" && part["object"] == "disk nullb0");
        // The program's first pages are read by who begins it; pages are written before others are read.
        assert!(told > 5 * DEVICE && told * 10 >= device * 7, "{program}: {told} of {device} ns: {document}");
        let causes = document["summary"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|kept| kept["what"] == cause), "{program}: {document}");
    }
}
