//! What Xen itself records, and what `import` makes of it.

use serde_json::Value;
use xweave_trace::Trace;

use crate::world::World;

/// The number behind a name in what `xl` prints.
fn number(text: &str, name: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(name)).unwrap();
    line.rsplit([' ', ':']).next().unwrap().parse().unwrap()
}

/// A guest that spins has a CPU, or waits for one, all the time that Xen records, and Xen counts as much of its time.
#[test]
fn what_xen_records_of_a_guest_is_what_it_ran() {
    let Some(world) = World::as_it_is("xen: its own records") else { return };
    let mut spins = world
        .start("dom0", "exec xweave lab enter vm1 -- timeout 60 sh -c 'echo it spins; while :; do :; done'");
    spins.wait_for("it spins");
    let ran = |said: &str| said.split_whitespace().last().unwrap().parse::<f64>().unwrap();
    let said = world.run(
        "dom0",
        "xl list vm1 | tail -1; xentrace -D -e all -T 3 /tmp/spins.xt 2>/dev/null; xl list vm1 | tail -1",
    );
    let seconds: Vec<f64> = said.lines().map(ran).collect();
    let domid: u32 = world.run("dom0", "xl domid vm1").trim().parse().unwrap();
    let hz = 1e6 * number(&world.run("dom0", "xl info"), "cpu_mhz");

    let scratch = tempfile::tempdir().unwrap();
    let (file, dir) = (scratch.path().join("spins.xt"), scratch.path().join("trace"));
    world.pull("dom0", "/tmp/spins.xt", &file);
    let import = world.xweave().arg("import").arg(&file).arg("-o").arg(&dir).output().unwrap();
    assert!(import.status.success(), "{}", String::from_utf8_lossy(&import.stderr));
    let trace = Trace::open(&dir).unwrap();
    let xen = &trace.manifest().domains[0];
    #[expect(clippy::cast_precision_loss, reason = "far below 2⁵³")]
    let told = xen.tsc_hz as f64;
    assert!((told / hz - 1.0).abs() < 1e-3, "{told} Hz, and Xen says {hz}");
    let name = format!("d{domid}");
    assert!(xen.vms.iter().any(|vm| vm.name == name), "{:?}", xen.vms);

    let explained = world.xweave().args(["explain", "--machines", "--json"]).arg(&dir).output().unwrap();
    let document: Value = serde_json::from_slice(&explained.stdout).unwrap();
    let objects = document["objects"].as_array().unwrap();
    let of = |kind: &str, object: String, what: &str| {
        let mine = objects.iter().filter(|of| of["kind"] == kind && of["object"] == object.as_str());
        mine.map(|of| of[what].as_f64().unwrap()).sum::<f64>() / 1e9
    };
    let vcpus = format!("vCPUs of {name}");
    let (had, waited) = (of("process", vcpus.clone(), "time_ns"), of("process", vcpus, "wait_ns"));
    let span = document["span_ns"].as_f64().unwrap() / 1e9;
    assert!(span > 1.0 && had + waited > 0.9 * span, "{had} and {waited} of {span}");
    // `xl list` counts tenths of seconds, and was asked before and after.
    assert!(had < seconds[1] - seconds[0] + 0.2, "{had} s, and Xen counts {seconds:?}");
    drop(spins);
}
