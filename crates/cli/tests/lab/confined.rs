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
    let release = world.run("host", "uname -r");
    // The version of Landlock's interface, of which docs/confinement.md tells. Later kernels have later ones.
    let landlock = match &release {
        of if of.starts_with("6.1.") => "Landlock ABI 2,",
        of if of.starts_with("6.12.") => "Landlock ABI 6,",
        _ => "Landlock ABI ",
    };
    for layer in [landlock, "a user of its own", "network, IPC and UTS namespaces"] {
        assert!(told["found"].as_str().unwrap().contains(layer), "{layer}: {told}");
    }
    println!("{}: {}", release.trim(), told["found"]);
}
