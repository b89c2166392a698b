//! Which transactions are chosen where none are asked for.

use xweave_model::{DefaultSpec, Spec, explain};
use xweave_synthetic::scene::{Evidence, Mechanism, World};
use xweave_trace::Trace;

#[test]
fn one_service_is_chosen_and_the_requests_to_others_are_counted() {
    for evidence in [Evidence::Native, Evidence::GuestOnly, Evidence::WithoutSched, Evidence::Imported] {
        for number in 0..4 {
            let scratch = tempfile::tempdir().unwrap();
            World::compose(number, Mechanism::DiskThenOther, evidence).write(scratch.path()).unwrap();
            let trace = Trace::open(scratch.path()).unwrap();
            let chosen = DefaultSpec::choose(&trace).unwrap();
            let count = |port| explain(&trace, &Spec::Request(Some(port), None), &mut |_, _| ()).transactions;
            assert_eq!(chosen.spec, Spec::Request(Some(80), None), "{evidence:?} {number}");
            assert_eq!(chosen.others, [(Spec::Request(Some(81), None), count(81))], "{evidence:?} {number}");
            assert!(chosen.whole && count(80) > count(81));
        }
    }
}

#[test]
fn flows_are_chosen_before_requests_and_nothing_where_there_is_neither() {
    let scratch = tempfile::tempdir().unwrap();
    let [frames, none] = ["frames", "none"].map(|name| scratch.path().join(name));
    World::compose(1, Mechanism::Compute, Evidence::Frames).write(&frames).unwrap();
    let chosen = DefaultSpec::choose(&Trace::open(&frames).unwrap());
    assert_eq!(chosen, Some(Spec::Flow(None).into()));
    World::compose(1, Mechanism::Compute, Evidence::WithoutNet).write(&none).unwrap();
    let trace = Trace::open(&none).unwrap();
    let requests = explain(&trace, &Spec::Request(None, None), &mut |_, _| ()).transactions;
    assert_eq!(DefaultSpec::choose(&trace).is_some(), requests > 0);
}
