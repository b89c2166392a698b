//! Places other than functions of the kernel: they are hooked, and what runs there is recorded.

use crate::world::World;

#[test]
fn tracepoints_and_programs_are_recorded() {
    let Some(world) = World::find("tracepoints and programs") else { return };
    let aspect = "advice switched tracepoint(sched:sched_switch) { STORE_DATA1(1); } \
                  advice asked user(/lib/x86_64-linux-gnu/libc.so.6:getenv) { STORE_DATA1(2); }";
    let recording = world.record(&format!("-e '{aspect}' -o /tmp/places"));
    world.run("host", "ls / >/dev/null; sleep 0.1");
    recording.finish_well();
    let dir = tempfile::tempdir().unwrap();
    let local = dir.path().join("trace");
    world.pull("host", "/tmp/places", &local);
    let report = world.flows(&local);
    for name in ["sched_switch", "getenv"] {
        let records = report["sites"].as_array().unwrap().iter().find(|site| site["function"] == name);
        assert!(records.unwrap()["records"].as_u64() > Some(0), "{name}: {}", report["sites"]);
    }
}
