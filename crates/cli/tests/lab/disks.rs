//! Disks on disks, and several accesses to the same sectors: explained by a disk that takes as long as it was told to.

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
