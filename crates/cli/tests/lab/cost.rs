//! The image as a guest: of KVM in a world with a KVM host, of Xen in one with Xen.

use serde_json::Value;

use crate::world::World;

pub fn measure(world: &World, environment: &str) -> Value {
    let name = std::env::var("XWEAVE_WORLD").unwrap();
    let output =
        world.xweave().args(["cost", "--on", environment, "--world", &name, "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The cycles of a form.
pub fn cycles(document: &Value, environment: &str, name: &str) -> f64 {
    let rows = document["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name && row["kind"] == "cost");
    row.unwrap_or_else(|| panic!("no {name}"))["cycles"][environment].as_f64().unwrap()
}

pub fn assert_whole(document: &Value) {
    let environment = &document["environments"][0];
    assert_eq!(
        (&environment["boots"], &environment["damaged_lines"]),
        (&1.into(), &0.into()),
        "{environment}"
    );
    assert!(environment["measured"].as_u64().unwrap() > 600, "{environment}");
    assert!(environment["seconds"].as_f64().unwrap() < 60.0, "{environment}");
}

#[test]
fn a_kvm_guest_s_exits_cost_more_than_what_stays_in_it() {
    let Some(world) = World::find("cost of KVM") else { return };
    let document = measure(&world, "kvm");
    assert_whole(&document);
    let cycles = |name| cycles(&document, "kvm", name);
    assert!(cycles("cpuid") > 10.0 * cycles("mov r64, cr2"));
    assert!(cycles("KVM_HC_VAPIC_POLL_IRQ") > 10.0 * cycles("mov r64, cr2"));
}
