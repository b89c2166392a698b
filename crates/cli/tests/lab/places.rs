//! Places other than functions of the kernel: they are hooked, and what runs there is recorded.

use std::collections::HashSet;

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

/// Compilers leave no room for ftrace at the beginning of some functions.
#[test]
fn of_many_functions_those_that_the_kernel_cannot_hook_are_left_out() {
    let Some(world) = World::find("functions without room for a hook") else { return };
    let known = world.run("host", "xweave check -e 'execution(skb_%, tcp_%, ip_%, rcu_%) {}' --json");
    let known: serde_json::Value = serde_json::from_str(&known).unwrap();
    let hookable = world.run("host", "cut -d' ' -f1 /sys/kernel/tracing/available_filter_functions");
    let hookable: HashSet<_> = hookable.lines().collect();
    let mut functions = known["advice"][0]["functions"].as_array().unwrap().iter();
    let name = functions.find_map(|name| name.as_str().filter(|name| !hookable.contains(name))).unwrap();

    let record = |pointcut: &str| {
        let script = format!(
            "xweave record -e '{pointcut} {{ STORE_DATA1(1); }}' -o /tmp/many --force --duration 1ms"
        );
        let output = world.try_run("host", &script);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = record(&format!("execution({name})"));
    assert!(status == Some(1) && said.contains(&format!("could not hook {name}")), "{status:?} {said}");
    let (status, said) = record(&format!("execution({name}%, tcp_v4_rcv)"));
    assert!(status == Some(0) && said.contains("no patchable entry"), "{status:?} {said}");
    let (status, said) = record(&format!("execution({name}?)"));
    assert!(status == Some(1) && said.contains("none of the places"), "{status:?} {said}");
}
