//! What reads guests' words is confined, by what each kernel has for it.

use crate::world::World;

#[test]
fn on_this_kernel_a_confined_process_can_do_nothing_else() {
    let Some(world) = World::find("confinement") else { return };
    let printed = world.run("host", "xweave confined probe");
    assert!(printed.lines().count() > 70, "{printed}");
    assert!(printed.lines().all(|line| line.contains(" refused  ")), "{printed}");
    let checks: serde_json::Value = serde_json::from_str(&world.run("host", "xweave doctor --json")).unwrap();
    let checks = checks["checks"].as_array().unwrap();
    let told = checks.iter().find(|check| check["name"] == "confinement").unwrap();
    assert_eq!(told["ok"], true, "{told}");
    // 6.1 has version 2 of Landlock's interface, 6.12 version 6.
    assert!(told["found"].as_str().unwrap().contains("Landlock ABI"), "{told}");
    println!("{}: {}", world.run("host", "uname -r").trim(), told["found"]);
}
