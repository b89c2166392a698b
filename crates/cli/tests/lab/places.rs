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

/// Debian's compiler leaves no room for a hook at the beginning of this function.
#[test]
fn of_many_functions_those_that_the_kernel_cannot_hook_are_left_out() {
    let Some(world) = World::find("functions without room for a hook") else { return };
    let record = |pointcut: &str| {
        let script = format!(
            "xweave record -e '{pointcut} {{ STORE_DATA1(1); }}' -o /tmp/many --force --duration 1ms"
        );
        let output = world.try_run("host", &script);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = record("execution(tcp_skb_can_collapse)");
    assert!(status == Some(2) && said.contains("could not hook tcp_skb_can_collapse"), "{status:?} {said}");
    let (status, said) = record("execution(tcp_skb_can_coll%, tcp_v4_rcv)");
    assert!(status == Some(0) && said.contains("no room for a hook"), "{status:?} {said}");
    let (status, said) = record("execution(tcp_skb_can_coll%)");
    assert!(status == Some(2) && said.contains("none of the places"), "{status:?} {said}");
}
