//! What two guests hold twice is told by the files in their page caches, which touches nothing; and it is given back.

use serde_json::Value;

use crate::{clean::assert_clean, world::World};

pub const GUESTS: &str = "--domain vm1=vsock:3 --domain vm2=vsock:4";

/// Writes FILE of so many pages that hold what SEED says, with a time of change that both guests give it.
pub fn written(file: &str, pages: u32, seed: &str) -> String {
    format!(
        "awk 'BEGIN {{ for (page = 0; page < {pages}; page++) printf \"%-4096s\", \"{seed}\" page }}' >{file}; \
         touch -d '2026-01-02 03:04:05' {file}"
    )
}

fn told(world: &World, arguments: &str) -> Value {
    let printed = world.run("host", &format!("xweave merge --dry-run {GUESTS} {arguments} --json"));
    serde_json::from_str(&printed).unwrap()
}

/// The told file of that name.
fn file<'t>(told: &'t Value, path: &str) -> Option<&'t Value> {
    told["files"].as_array().unwrap().iter().find(|file| file["path"] == path)
}

#[test]
fn what_two_guests_hold_of_the_same_files_would_be_given_back_and_nothing_is_touched() {
    let Some(world) = World::find("merge") else { return };
    let ksm = "grep -H . /sys/kernel/mm/ksm/run /sys/kernel/mm/ksm/pages_scanned; cat /proc/$(cat /run/lab/vm1/pid)/ksm_stat 2>/dev/null";
    let before = world.run("host", ksm);
    for guest in ["vm1", "vm2"] {
        let other = if guest == "vm1" { "b" } else { "c" };
        world.run(
            guest,
            &format!(
                "mkdir -p /tmp/merge/own && {}; {}; {}; touch -d '2026-02-0{} 00:00' /tmp/merge/changed; {}",
                written("/tmp/merge/equal", 40, "a"),
                written("/tmp/merge/differs", 10, other),
                written("/tmp/merge/changed", 20, "a"),
                if guest == "vm1" { 1 } else { 2 },
                written("/tmp/merge/own/left-out", 5, "a"),
            ),
        );
    }
    world.run("vm2", &written("/tmp/merge/only", 30, "d"));
    let arguments = "--include /tmp/merge --exclude /tmp/merge/own";
    let of = told(&world, arguments);
    assert_eq!((&of["dry_run"], &of["compared"]), (&Value::Bool(true), &Value::Null));
    let pages = |of: &Value, key: &str| of["pages"][key].as_u64().unwrap();
    // 40, 10 and 20 pages each, and 30 of one.
    assert_eq!((pages(&of, "hinted"), pages(&of, "shared"), pages(&of, "saved")), (170, 100, 50), "{of}");
    let saved = |path: &str| file(&of, path).map(|file| file["saved"].as_u64().unwrap());
    assert_eq!((saved("/tmp/merge/equal"), saved("/tmp/merge/differs")), (Some(40), Some(10)));
    for path in ["/tmp/merge/changed", "/tmp/merge/only", "/tmp/merge/own/left-out"] {
        assert_eq!(saved(path), None, "{path}");
    }
    let parts = of["vms"].as_array().unwrap().iter().map(|vm| vm["saved_bytes"].as_u64().unwrap());
    assert_eq!(parts.collect::<Vec<_>>(), [50 * 2048, 50 * 2048]);

    // What they hold: of one file it is not the same; of one that was changed later it is, and paths do not find it.
    let of = told(&world, &format!("{arguments} --contents"));
    assert_eq!(file(&of, "/tmp/merge/differs").unwrap()["equal"], 0);
    assert_eq!(file(&of, "/tmp/merge/equal").unwrap()["equal"], 40);
    assert_eq!(of["compared"]["equal"], 40);
    // `equal` and `changed` have equal pages: of 40 contents one of each stays, of 120 pages.
    assert_eq!(of["compared"]["all"], 80, "{of}");

    let told = world.run("host", &format!("xweave merge --dry-run {GUESTS} {arguments} --contents"));
    assert!(told.contains("200 KiB would be given back") && told.contains("/tmp/merge/equal"), "{told}");
    assert_eq!(world.run("host", ksm), before);
    for domain in ["host", "vm1", "vm2"] {
        world.run(domain, "rm -rf /tmp/merge");
        assert_clean(&world, domain);
    }
}

#[test]
fn guests_of_one_image_hold_their_programs_twice() {
    let Some(world) = World::find("merge") else { return };
    let of = told(&world, "--include / --contents");
    let [hinted, saved] = ["hinted", "saved"].map(|key| of["pages"][key].as_u64().unwrap());
    let equal = of["compared"]["equal"].as_u64().unwrap();
    // Most of what they hold is of the image that both were started from.
    assert!(saved >= hinted * 4 / 10, "{saved} of {hinted}");
    assert!(equal >= saved * 95 / 100, "{equal} of {saved}");
    println!(
        "{saved} of {hinted} pages would be given back, {equal} of them equal, {} by contents",
        of["compared"]["all"]
    );
}

#[test]
fn memory_that_qemu_has_not_marked_is_told_with_the_fix() {
    let Some(world) = World::find("merge") else { return };
    let of: Value = serde_json::from_str(&world.run("host", "xweave merge doctor --json")).unwrap();
    assert!(of["ksm"]["run"].is_u64(), "{of}");
    for guest in ["vm1", "vm2"] {
        let pid: u64 = world.run("host", &format!("cat /run/lab/{guest}/pid")).trim().parse().unwrap();
        let vm = of["vms"].as_array().unwrap().iter().find(|vm| vm["pid"] == pid).unwrap();
        // The lab's guests run with mem-merge=off, and one that is up has touched some of its memory.
        assert_eq!((&vm["mergeable_bytes"], &vm["kept"][0]["why"]), (&0.into(), &"unmarked".into()), "{vm}");
        assert!(vm["kept"][0]["bytes"].as_u64().unwrap() > 32 << 20, "{vm}");
        assert!(vm["kept"][0]["remedy"].as_str().unwrap().contains("mem-merge=on"), "{vm}");
    }
    let told = world.run("host", "xweave merge doctor");
    assert!(told.contains("KSM may merge 0 B") && told.contains("2 virtual machines hold"), "{told}");
    let told = world.run("host", &format!("xweave merge --dry-run {GUESTS} --include /"));
    assert!(told.contains("KSM may not merge most memory of vm1, vm2 as it runs now"), "{told}");
}

/// Has all be the guests' own again.
pub const RELEASE: &str =
    "xweave merge release --allow inject $(cat /run/lab/vm1/pid) $(cat /run/lab/vm2/pid)";

/// Every setting of KSM.
pub const KSM: &str = "grep -H . /sys/kernel/mm/ksm/{run,pages_to_scan,sleep_millisecs,smart_scan,advisor_mode} 2>/dev/null; true";

/// What all files of a guest hold.
pub fn hashes(world: &World, guest: &str) -> String {
    world.run(
        guest,
        "find / -xdev -type f -size +0 | grep -v '^/tmp/\\|^/var/\\|^/run/' | sort | xargs sha256sum",
    )
}

#[test]
fn pages_of_the_same_files_are_given_back_and_both_guests_go_on_with_what_they_had() {
    let Some(world) = World::find("merge") else { return };
    for guest in ["vm1", "vm2"] {
        world.run(guest, &written("/merged", 40, "a"));
    }
    let (settings, files) = (world.run("host", KSM), ["vm1", "vm2"].map(|guest| hashes(&world, guest)));
    let wanted = told(&world, "--include / --contents");
    let equal = wanted["compared"]["equal"].as_u64().unwrap();
    let merge = |more: &str| world.try_run("host", &format!("xweave merge {GUESTS} --include / {more}"));

    // Nobody has marked it, and nobody may.
    let refused = merge("");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(
        said.contains("With --allow inject, xweave has the process") && said.contains("mem-merge=on"),
        "{said}"
    );

    let merged = merge("--allow inject --json");
    assert!(merged.status.success(), "{}", String::from_utf8_lossy(&merged.stderr));
    let of: Value = serde_json::from_slice(&merged.stdout).unwrap();
    let pages = |key: &str| of["pages"][key].as_u64().unwrap();
    println!(
        "{} of {equal} equal pages are given back, {} for each visit, {} for each productive one, {} passes, {} s of ksmd",
        pages("saved"),
        of["saved_per_visit"],
        of["merged_per_productive_visit"],
        of["merged_after_pass"],
        of["ksmd_cpu_s"]
    );
    assert!(pages("saved") >= equal * 95 / 100, "{of}");
    let ratio = |key: &str| of[key].as_f64().unwrap();
    // Of two guests: 0.25 of all visits at most, 0.5 of the others.
    assert!(ratio("saved_per_visit") >= 0.9 * 0.25 && ratio("merged_per_productive_visit") >= 0.45, "{of}");
    assert_eq!(world.run("host", KSM), settings);
    for guest in ["vm1", "vm2"] {
        let pid = world.run("host", &format!("cat /run/lab/{guest}/pid")).trim().to_owned();
        let rings = world.run("host", &format!("ls -l /proc/{pid}/fd | grep -c io_uring; true"));
        assert_eq!(rings.trim(), "0", "{guest}");
    }
    assert_eq!(["vm1", "vm2"].map(|guest| hashes(&world, guest)), files);

    // What one writes to is its own again.
    world.run("vm1", "dd if=/dev/zero of=/merged bs=4096 count=2 seek=7 conv=notrunc");
    let [changed, kept] = ["vm1", "vm2"].map(|guest| hashes(&world, guest));
    assert!(changed != files[0] && kept == files[1], "{changed}\n{kept}");

    // What is merged is known, and not merged once more.
    let again: Value = serde_json::from_slice(&merge("--allow inject --json").stdout).unwrap();
    assert!(again["pages"]["saved_before"].as_u64() >= Some(equal * 9 / 10), "{again}");

    // And it is each one's own again.
    let pids =
        ["vm1", "vm2"].map(|guest| world.run("host", &format!("cat /run/lab/{guest}/pid")).trim().to_owned());
    // Of a page that two share, each has half (Pss), and so the other half not: in KiB, of both.
    let shared = || -> u64 {
        let of = |pid: &String| {
            let sums = "/^Rss:/ { rss += $2 } /^Pss:/ { pss += $2 } END { print rss - pss }";
            world.run("host", &format!("awk '{sums}' /proc/{pid}/smaps")).trim().parse::<u64>().unwrap()
        };
        pids.iter().map(of).sum()
    };
    let status =
        || -> Value { serde_json::from_str(&world.run("host", "xweave merge status --json")).unwrap() };
    let merged = status();
    assert!(merged["saved_pages"].as_u64() >= Some(equal * 95 / 100), "{merged}");
    let before = shared();
    let released =
        world.run("host", &format!("xweave merge release --allow inject --json {}", pids.join(" ")));
    let released: Value = serde_json::from_str(&released).unwrap();
    let pages =
        released["vms"].as_array().unwrap().iter().map(|vm| vm["pages"].as_u64().unwrap()).sum::<u64>();
    assert!(pages >= equal, "{released}");
    for pid in &pids {
        assert_eq!(world.run("host", &format!("grep -c ' mg' /proc/{pid}/smaps; true")), "0\n", "{pid}");
    }
    let own = status();
    assert_eq!((&own["saved_pages"], &own["vms"][0]["merged_pages"]), (&0.into(), &0.into()), "{own}");
    let after = shared();
    assert!(before - after >= equal * 4 * 9 / 10, "{before} KiB, then {after}");
    assert_eq!(["vm1", "vm2"].map(|guest| hashes(&world, guest)), [changed, kept]);
    for domain in ["host", "vm1", "vm2"] {
        world.run(domain, "rm -f /merged");
        assert_clean(&world, domain);
    }
}

/// Has pages of the same files merged and given back by ways that are allowed by `allow`, which is to come to be `way`. `around`
/// is run in the host before, and its other half afterwards; so many percent of what several hold are to be merged.
fn merged_by(world: &World, allow: &str, way: &str, around: [&str; 2], percent: u64) {
    for guest in ["vm1", "vm2"] {
        world.run(guest, &written("/by-another-way", 40, "f"));
    }
    let files = ["vm1", "vm2"].map(|guest| hashes(world, guest));
    let pids =
        ["vm1", "vm2"].map(|guest| world.run("host", &format!("cat /run/lab/{guest}/pid")).trim().to_owned());
    world.run("host", around[0]);
    let merged = world.try_run("host", &format!("xweave merge {GUESTS} --include / --allow {allow} --json"));
    let release = format!("xweave merge release --allow {allow} {}", pids.join(" "));
    let released = merged.status.success().then(|| world.try_run("host", &release));
    world.run("host", around[1]);
    let said = String::from_utf8_lossy(&merged.stderr);
    let of: Value = serde_json::from_slice(&merged.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let pages = |key: &str| of["pages"][key].as_u64().unwrap();
    let marked =
        of["vms"].as_array().unwrap().iter().map(|vm| (&vm["way"], &vm["ranges"], &vm["pages"]["marked"]));
    println!(
        "{} of {} pages merged, {} visited: {:?}",
        pages("merged"),
        pages("shared"),
        pages("visited"),
        marked.clone().collect::<Vec<_>>()
    );
    assert!(marked.clone().all(|(by, ..)| *by == way), "{of}");
    assert!(pages("shared") >= 80 && pages("merged") >= pages("shared") * percent / 100, "{of}");
    let released = released.unwrap();
    assert!(released.status.success(), "{}", String::from_utf8_lossy(&released.stderr));
    for pid in &pids {
        assert_eq!(world.run("host", &format!("grep -c ' mg' /proc/{pid}/smaps; true")), "0\n", "{pid}");
        assert_eq!(world.run("host", &format!("grep TracerPid /proc/{pid}/status")), "TracerPid:\t0\n");
    }
    assert_eq!(["vm1", "vm2"].map(|guest| hashes(world, guest)), files);
    for domain in ["host", "vm1", "vm2"] {
        world.run(domain, "rm -f /by-another-way");
        assert_clean(world, domain);
    }
}

#[test]
fn where_no_ring_may_be_made_pages_are_marked_by_calls() {
    let Some(world) = World::find("merge by calls") else { return };
    let setting = "/proc/sys/kernel/io_uring_disabled";
    let before = world.run("host", &format!("cat {setting} 2>/dev/null; true")).trim().to_owned();
    if before.is_empty() {
        println!("SKIPPED: this kernel cannot keep processes from io_uring: that takes Linux 6.6");
        return;
    }
    let set = |value: &str| format!("echo {value} >{setting}");
    merged_by(&world, "inject", "calls", [&set("2"), &set(&before)], 95);
}

#[test]
fn qemu_is_asked_by_qmp_where_that_is_what_is_allowed() {
    let Some(world) = World::find("merge by QMP") else { return };
    // The first two passes over all memory may miss half of it.
    merged_by(&world, "qmp", "qmp", ["true", "true"], 25);
    // Another speaks with it, and with one at a time.
    let held = "perl -MIO::Socket::UNIX -e 'my $held = IO::Socket::UNIX->new(Peer => \"/run/lab/vm1/qmp.sock\"); <$held>; \
                system(@ARGV) == 0 or exit 7' xweave merge --allow qmp --include /";
    let refused = world.try_run("host", &format!("{held} {GUESTS}"));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("QEMU speaks with one program at a time"), "{said}");
    assert_clean(&world, "host");
}

#[test]
#[ignore = "minutes: make lab-test"]
fn whoever_merges_may_be_killed_at_any_time() {
    let Some(world) = World::find("merge") else { return };
    let (settings, files) = (world.run("host", KSM), ["vm1", "vm2"].map(|guest| hashes(&world, guest)));
    let merge = format!("xweave merge {GUESTS} --include / --allow inject");
    // It takes a few seconds: from before it has reached the guests, to after the end.
    for tenths in (2..=40).step_by(2) {
        let (s, tenth) = (tenths / 10, tenths % 10);
        world.try_run("host", &format!("timeout -s KILL {s}.{tenth} {merge} >/dev/null 2>&1"));
    }
    // What it had changed of KSM is put back by whoever looks next.
    world.try_run("host", "xweave doctor");
    assert_eq!(world.run("host", KSM), settings);
    assert_eq!(["vm1", "vm2"].map(|guest| hashes(&world, guest)), files);
    // And the guests' processes are as good as before.
    let of: Value = serde_json::from_str(&world.run("host", &format!("{merge} --json"))).unwrap();
    let [shared, merged] = ["shared", "merged"].map(|key| of["pages"][key].as_u64().unwrap());
    assert!(shared > 0 && merged >= shared * 95 / 100, "{of}");
    world.run("host", RELEASE);
    assert_eq!(["vm1", "vm2"].map(|guest| hashes(&world, guest)), files);
    for domain in ["host", "vm1", "vm2"] {
        assert_clean(&world, domain);
    }
}

#[test]
fn what_guests_read_later_is_given_back_the_next_time() {
    let Some(world) = World::find("merge") else { return };
    // What a test before has left, if it failed.
    for guest in ["vm1", "vm2"] {
        world.run(guest, "rm -rf /later");
    }
    let mut merging = world.start(
        "host",
        &format!("exec xweave merge --every 2s {GUESTS} --include /later --allow inject --json"),
    );
    merging.wait_for("0 B given back");
    for guest in ["vm1", "vm2"] {
        world.run(guest, &format!("mkdir -p /later; {}", written("/later/file", 40, "e")));
    }
    merging.wait_for("160 KiB given back, 160 KiB of it now");
    // And stays so.
    merging.wait_for("160 KiB given back, 0 B of it now");
    world.signal("host", "xweave merge --every", "INT");
    let log = merging.finish_well();
    let document = log.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{log}"));
    let of: Value = serde_json::from_str(document).unwrap();
    assert_eq!((&of["pages"]["saved"], &of["pages"]["shared"]), (&40.into(), &80.into()), "{log}");
    world.run("host", RELEASE);
    for domain in ["host", "vm1", "vm2"] {
        world.run(domain, "rm -rf /later");
        assert_clean(&world, domain);
    }
}

#[test]
fn nothing_is_merged_while_memory_is_plenty() {
    let Some(world) = World::find("merge") else { return };
    let available = world.run("host", "sed -n 's/^MemAvailable: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo");
    let below = available.trim().parse::<u64>().unwrap() - (60 << 10);
    let mut merging = world.start(
        "host",
        &format!(
            "exec xweave merge --every 1s --below {below}K {GUESTS} --include /lib --allow inject --json"
        ),
    );
    merging.wait_for("are available: nothing is merged until it is less than");
    world.run("host", "mkdir /tmp/short; mount -t tmpfs -o size=200M none /tmp/short; head -c 120M /dev/zero >/tmp/short/taken");
    merging.wait_for("given back, ");
    world.run("host", "umount /tmp/short; rmdir /tmp/short");
    merging.wait_for_another("are available: nothing is merged until it is less than");
    world.signal("host", "xweave merge --every", "INT");
    let log = merging.finish_well();
    assert!(log.lines().any(|line| line.starts_with('{')), "{log}");
    world.run("host", RELEASE);
    assert_clean(&world, "host");
}

#[test]
fn where_ksm_merges_within_numa_nodes_only_what_another_guest_holds_on_the_same_node_is_merged() {
    let Some(world) = World::find("merge") else { return };
    for guest in ["vm1", "vm2"] {
        world.run(guest, &format!("rm -rf /near; mkdir /near; {}", written("/near/file", 40, "n")));
    }
    let doctor: Value = serde_json::from_str(&world.run("host", "xweave merge doctor --json")).unwrap();
    let nodes = doctor["ksm"]["nodes"].as_u64().unwrap();
    // A world has one, unless its QEMU was told otherwise (-numa): all of it is tested there, and else that nothing changes.
    let put = |guest: &str, node: u32| {
        if nodes > 1 {
            // migrate_pages(2): what cannot be moved is none of the file.
            let moved = format!(
                "perl -e 'my ($pid, $from, $to) = ($ARGV[0] + 0, pack(\"Q\", 3), pack(\"Q\", 1 << {node})); \
                 exit(syscall(256, $pid, 64, $from, $to) < 0)' $(cat /run/lab/{guest}/pid)"
            );
            world.run("host", &moved);
        }
    };
    let across = || world.run("host", "cat /sys/kernel/mm/ksm/merge_across_nodes").trim().to_owned();
    let merge = |more: &str| {
        let command = format!("xweave merge {GUESTS} --include /near --allow inject --json {more}");
        let output = world.try_run("host", &command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default(), said)
    };
    let pages = |of: &Value, key: &str| of["pages"][key].as_u64().unwrap();
    let apart = |of: &Value| of["vms"].as_array().unwrap().iter().map(|vm| pages(vm, "apart")).sum::<u64>();
    put("vm1", 0);
    put("vm2", 0);

    // What is merged across nodes has to be released before.
    assert_eq!(across(), "1");
    let (status, of, said) = merge("");
    assert_eq!((status, pages(&of, "saved"), apart(&of)), (Some(0), 40, 0), "{said}");
    let (status, _, said) = merge("--numa-local");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("while anything is merged") && said.contains("xweave merge release"), "{said}");
    world.run("host", RELEASE);
    assert_eq!(across(), "1");

    // On the same node, the same is merged. It stays so, and with it that it is within nodes; until all is released.
    let (status, of, said) = merge("--numa-local");
    assert_eq!((status, pages(&of, "saved"), apart(&of)), (Some(0), 40, 0), "{said}");
    assert!(said.contains("KSM goes on merging within NUMA nodes only"), "{said}");
    let told = world.run("host", "xweave doctor --json; true");
    assert!(!told.contains("cannot be set to"), "{told}");
    assert_eq!(across(), "0");
    let (status, of, said) = merge("--numa-local");
    assert_eq!((status, pages(&of, "saved_before")), (Some(0), 40), "{said}");
    world.run("host", RELEASE);
    assert_eq!(across(), "1");

    if nodes > 1 {
        put("vm2", 1);
        let (status, of, said) = merge("--numa-local");
        assert_eq!((status, pages(&of, "shared"), apart(&of)), (Some(0), 0, 80), "{said}\n{of}");
        // Nothing is merged: it is as it was.
        assert!(!said.contains("goes on") && across() == "1", "{said}");
        let (_, of, said) = merge("");
        assert_eq!((pages(&of, "saved"), apart(&of)), (40, 0), "{said}");
        world.run("host", RELEASE);
    }
    for domain in ["host", "vm1", "vm2"] {
        world.run(domain, "rm -rf /near");
        assert_clean(&world, domain);
    }
}
