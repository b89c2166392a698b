//! A guest that lies about its page cache: it costs time and memory that are bounded, and others keep what they have.

use std::{env, io::Write};

use serde_json::Value;
use vsock::{VMADDR_CID_ANY, VsockListener};
use xweave_synthetic::agent;
use xweave_wire::{
    message::{Event, Request},
    pages::{CachedFile, LookedAt, Run},
};

use crate::{
    clean::assert_clean,
    merge::{KSM, hashes, written},
    world::{Running, World},
};

/// Tells [`the_guest_that_lies`] how.
const LIES: &str = "XWEAVE_LIES";
const PORT: u32 = 7411;

/// What the honest guest has: its pages, and when it was changed (2026-01-02 03:04:05).
const FILE: &str = "/lies";
const PAGES: u32 = 40;
const CHANGED_NS: i64 = 1_767_323_045_000_000_000;

/// A piece of a file that is called like the honest guest's, and is in these frames.
fn file(path: &str, first: u64, frames: Vec<u64>) -> CachedFile {
    CachedFile {
        path: path.to_owned(),
        size: u64::from(PAGES) * 4096,
        modified_ns: CHANGED_NS,
        inode: 1,
        runs: vec![Run { first, pages: u32::try_from(frames.len()).unwrap() }],
        frames,
        ..CachedFile::default()
    }
}

/// What it says, message by message.
fn lies(how: &str) -> Box<dyn Iterator<Item = Vec<CachedFile>>> {
    match how {
        // Where something else is; twice where the same is; where there is no memory, at last as far away as can be.
        "frames" => {
            let frames = (0..u64::from(PAGES)).map(|page| match page % 4 {
                0 => 0x4000 + page,
                1 => 0x5000,
                2 => 0x10_0000 + page,
                _ => u64::MAX - page,
            });
            Box::new([vec![file(FILE, 0, frames.collect())]].into_iter())
        }
        // As many as may be told of, and other paths than there are.
        "many" => {
            let frames = |piece: u64| (0..1 << 14).map(|at| 0x4000 + piece * (1 << 14) + at).collect();
            Box::new((0..64).map(move |piece| {
                let path = format!("/{}\u{1b}[2J/../..{FILE}", "x".repeat(3000));
                vec![file(&path, piece << 14, frames(piece))]
            }))
        }
        // More than may be told of.
        "flood" => {
            let one =
                |number: u32| CachedFile { inode: number.into(), ..file(&format!("/{number}"), 0, vec![1]) };
            Box::new((0..).map(move |batch: u32| (0..1000).map(|at| one(batch * 1000 + at)).collect()))
        }
        how => panic!("{how}"),
    }
}

#[test]
#[ignore = "a process of other tests', in a guest"]
fn the_guest_that_lies() {
    let Ok(how) = env::var(LIES) else { return };
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, PORT).unwrap();
    println!("listening");
    std::io::stdout().flush().unwrap();
    let (stream, _) = listener.accept().unwrap();
    let mut script = agent::by(|moment, voice| {
        let agent::Moment::Asked(Request::Cached(_)) = moment else { return Ok(agent::Done::Nothing) };
        for files in lies(&how) {
            voice.event(Event::Cached(files))?;
        }
        voice.reply(xweave_wire::message::Reply::LookedAt(LookedAt::default()))?;
        Ok(agent::Done::All)
    });
    let input = stream.try_clone().unwrap();
    // It ends where the other side has had enough.
    let ended = agent::serve(input, stream, agent::facts("6.12.0"), Vec::new(), 0, &mut script);
    println!("ended: {ended:?}");
}

/// A guest that lies so, until it is dropped.
fn liar(world: &World, how: &str) -> Running {
    let mut liar = world.start(
        "vm2",
        &format!(
            "{LIES}={how} exec /tmp/liar --ignored --exact --nocapture hostile_guest::the_guest_that_lies"
        ),
    );
    liar.wait_for("listening");
    liar
}

#[test]
fn one_that_lies_about_its_page_cache_harms_nobody_and_is_done_with_soon() {
    let Some(world) = World::find("lies about page caches") else { return };
    world.push("vm2", &env::current_exe().unwrap(), "/tmp/liar");
    world.run("vm1", &written(FILE, PAGES, "a"));
    let (settings, files) = (world.run("host", KSM), ["vm1", "vm2"].map(|guest| hashes(&world, guest)));
    // With 1.5 GiB of addresses, and a minute: what is refused is refused long before.
    let merge = || {
        let command = format!(
            "ulimit -v 1500000; timeout 60 xweave merge --allow inject --include {FILE} --domain vm1=vsock:3 \
             --domain vm2=vsock:4:{PORT} --json"
        );
        world.try_run("host", &command)
    };
    let pids =
        ["vm1", "vm2"].map(|guest| world.run("host", &format!("cat /run/lab/{guest}/pid")).trim().to_owned());

    let lying = liar(&world, "frames");
    let output = merge();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}{}", lying.log());
    let of: Value = serde_json::from_slice(&output.stdout).unwrap();
    let pages = |key: &str| of["pages"][key].as_u64().unwrap();
    // Of each four one is somewhere, and one more in all; the others are nowhere. So are the honest guest's beside them.
    let (known, all) = (u64::from(PAGES) / 4 + 1, u64::from(PAGES));
    assert_eq!((pages("hinted"), of["vms"][1]["pages"]["shared"].as_u64()), (2 * all, Some(known)), "{of}");
    assert!(pages("shared") <= 2 * known + all / 4, "{of}");
    // KSM merges what is equal, and what the honest guest has is equal to nothing there.
    assert_eq!(of["vms"][0]["pages"]["merged"], 0, "{of}");
    assert!(pages("visited") < 1000, "{of}");

    let lying = liar(&world, "many");
    let output = merge();
    assert!(output.status.success(), "{}{}", String::from_utf8_lossy(&output.stderr), lying.log());
    let of: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&of["pages"]["shared"], &of["pages"]["hinted"]),
        (&0.into(), &(40 + (1 << 20)).into()),
        "{of}"
    );
    assert!(!output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b));

    let lying = liar(&world, "flood");
    let output = merge();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}{}", lying.log());
    assert!(said.contains("vm2"), "{said}");
    println!("{said}");

    assert_eq!(world.run("host", KSM), settings);
    world.run("host", &format!("xweave merge release --allow inject {}", pids.join(" ")));
    assert_eq!(["vm1", "vm2"].map(|guest| hashes(&world, guest)), files);
    world.run("vm1", &format!("rm {FILE}"));
    world.run("vm2", "rm /tmp/liar");
    for domain in ["host", "vm1", "vm2"] {
        assert_clean(&world, domain);
    }
}
