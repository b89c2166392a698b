//! Real measurements: the process here, and the image under software emulation.

#![allow(clippy::unwrap_used, reason = "in a test, that is the message")]

use std::io::Write;
use std::process::Command;

use xweave_cost::line::Kind;
use xweave_cost::measured::Outcome;
use xweave_cost::{Environment, IMAGE, Measured, Options, measure};

fn form(name: &str) -> usize {
    xweave_cost::forms().iter().position(|form| form.name == name).unwrap()
}

fn cycles(measured: &Measured, name: &str, kind: Kind) -> f64 {
    measured.cycles(form(name), kind).unwrap_or_else(|| panic!("{name} was not measured"))
}

fn quick(environment: Environment) -> Measured {
    let options = Options { rounds: Some(9), ..Options::default() };
    let reference = xweave_cost::reference(&options).unwrap();
    measure(environment, &options, reference, &|_| {}).unwrap()
}

fn measured_forms(measured: &Measured) -> usize {
    let costs = measured.outcomes.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Cost(_)));
    costs.map(|((form, _), _)| form).collect::<std::collections::BTreeSet<_>>().len()
}

#[test]
fn the_process_measures_this_machine() {
    let native = quick(Environment::Native);
    assert!(measured_forms(&native) >= 300, "{}", measured_forms(&native));
    assert_eq!((native.boots, native.damaged), (1, 0));
    // Wide, as anything may run on the core's other thread; but a chain of additions is what a cycle is.
    let add = cycles(&native, "add r64, r64", Kind::Latency);
    assert!((0.8..1.3).contains(&add), "{add}");
    assert!(cycles(&native, "add r64, r64", Kind::Throughput) < add);
    assert!(cycles(&native, "imul r64, r64", Kind::Latency) > 1.5 * add);
    // What the processor does not have is told form by form, and what needs privilege is not tried.
    assert_eq!(native.outcomes[&(form("daa"), Kind::Cost)], Outcome::Fault(6));
    assert!(!native.outcomes.contains_key(&(form("clts"), Kind::Cost)));
}

#[test]
fn the_image_boots_under_software_emulation() {
    assert!(IMAGE.len() < 256 << 10, "{} bytes", IMAGE.len());
    if Command::new("qemu-system-x86_64").arg("--version").output().is_err() {
        // Past the test harness's capture, so that it is seen and counted.
        let line = b"SKIPPED: the image was not booted: there is no qemu-system-x86_64\n";
        std::io::stderr().write_all(line).unwrap();
        return;
    }
    let tcg = quick(Environment::Tcg);
    assert!(tcg.emulated);
    assert!(measured_forms(&tcg) >= 350, "{}", measured_forms(&tcg));
    assert!(tcg.seconds < 60.0, "{}", tcg.seconds);
    assert_eq!((tcg.boots, tcg.damaged), (1, 0));
    // Privileged instructions, interrupts, exceptions and page tables of its own.
    for name in ["mov cr3, r64", "clts", "interrupt to itself", "exception #PF", "update pages, 8"] {
        assert!(cycles(&tcg, name, Kind::Cost) > 0.0, "{name}");
    }
    assert_eq!(tcg.outcomes[&(form("ud2"), Kind::Cost)], Outcome::Fault(6));
}
