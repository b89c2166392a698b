//! Guests that tell their host what their buffers carry: whom it believes, and what it may record then.

use xweave_wire::message::{SHARED_PAGES, Shared, SharingGuest};

use super::*;

/// A flow that the guest, domain 2, may have made.
const OF_GUEST: u64 = 2 << 56 | 9;

/// The guests that a host was told of, whether these are all, and the processes that emulate devices of guests.
type Told = Arc<Mutex<Option<(Vec<SharingGuest>, bool, Vec<u32>)>>>;

/// Records this flow at the end; notes what it is told of guests, and whether these are all.
fn host(flow: u64, told: &Told) -> impl Script + Send + 'static {
    let told = told.clone();
    answering(move |request, voice| {
        match request {
            Request::Guests { guests, all, emulators, .. } => {
                *told.lock().unwrap() = Some((guests.clone(), *all, emulators.clone()));
            }
            Request::Stop => record(voice, flow),
            _ => {}
        }
        None
    })
}

/// Says where its table is, or why it cannot; records this flow at the end.
fn guest(shared: Shared, flow: u64, secret: &Arc<Mutex<[u64; 2]>>) -> impl Script + Send + 'static {
    let secret = secret.clone();
    answering(move |request, voice| match request {
        Request::Share { secret: given, emulated: false } => {
            *secret.lock().unwrap() = *given;
            Some(Reply::Shared(shared.clone()))
        }
        Request::Stop => {
            record(voice, flow);
            None
        }
        _ => None,
    })
}

fn record(voice: &mut Voice, flow: u64) {
    let mut bytes = Vec::new();
    Record { flow, ..voice.record(0) }.encode(&mut bytes);
    voice.event(Event::Records(bytes)).unwrap();
}

fn pages() -> Shared {
    let pages = (1..=SHARED_PAGES as u64).map(|page| page << 12).collect();
    // Nobody has said that a process emulates its devices.
    Shared { pages, reason: None, emulated: true }
}

#[test]
fn a_host_records_flows_of_guests_that_tell_it_and_a_guest_its_own_alone() {
    let (told, secret) = (Arc::default(), Arc::default());
    let stage = Stage::new();
    let agents =
        (scripted("host", host(OF_GUEST, &told)), scripted("vm1", guest(pages(), OF_GUEST, &secret)));
    let outcome = stage.record(AT_ONCE, agents.0, agents.1).unwrap();
    let (manifest, rows) = stage.read(&outcome);
    assert_eq!(exits(&manifest), [Some(Exit::Stopped), Some(Exit::Stopped)]);
    let recorded: Vec<_> = rows.iter().map(|row| (row.domain, row.flow)).collect();
    assert!(recorded.len() == 2 && recorded.iter().all(|(_, flow)| *flow == OF_GUEST), "{recorded:x?}");
    let secret = *secret.lock().unwrap();
    assert_ne!(secret, [0; 2]);
    let believed = SharingGuest { domain: 2, secret, pages: pages().pages };
    assert_eq!(*told.lock().unwrap(), Some((vec![believed], true, Vec::new())));

    let (told, secret) = (Arc::default(), Arc::default());
    let agents =
        (scripted("host", host(OF_GUEST, &told)), scripted("vm1", guest(pages(), 1 << 56 | 9, &secret)));
    let (manifest, _) = stage.read(&stage.record(AT_ONCE, agents.0, agents.1).unwrap());
    let foreign = "cut off: it sent a record of flow 0x100000000000009, whose number is another domain's";
    assert_eq!(lost(&manifest, 1), foreign);
}

#[test]
fn a_guest_that_cannot_tell_is_said_and_not_believed() {
    let (told, secret) = (Arc::default(), Arc::default());
    let reason = Some("its pages\u{1b}[2J are hidden".to_owned());
    let cannot = Shared { reason, ..Shared::default() };
    let stage = Stage::new();
    let agents = (scripted("host", host(OF_GUEST, &told)), scripted("vm1", guest(cannot, OF_GUEST, &secret)));
    let (manifest, _) = stage.read(&stage.record(AT_ONCE, agents.0, agents.1).unwrap());
    assert_eq!(*told.lock().unwrap(), Some((Vec::new(), false, Vec::new())));
    let foreign = "cut off: it sent a record of flow 0x200000000000009, whose number is another domain's";
    assert_eq!(lost(&manifest, 0), foreign);
    let said = manifest.warnings.iter().filter(|warning| warning.contains("are hidden")).collect::<Vec<_>>();
    assert!(said.len() == 1 && said[0].starts_with("vm1: its host is not told"), "{:?}", manifest.warnings);
    assert!(!said[0].contains('\u{1b}'), "{said:?}");
}

#[test]
fn pages_that_no_guest_has_end_the_recording_before_it_begins() {
    let odd = |page: u64| Shared { pages: [page].repeat(SHARED_PAGES), ..Shared::default() };
    let few = Shared { pages: vec![0x1000; 3], ..Shared::default() };
    for (shared, says) in [(odd(0x1001), "0x1001"), (odd(1 << 52), "0x10000000000000"), (few, "3 pages")] {
        let (told, secret) = (Arc::default(), Arc::default());
        let stage = Stage::new();
        let agents =
            (scripted("host", host(OF_GUEST, &told)), scripted("vm1", guest(shared, OF_GUEST, &secret)));
        let error = stage.record(AT_ONCE, agents.0, agents.1).unwrap_err().to_string();
        assert!(error.contains("vm1") && error.contains(says), "{error}");
        assert!(told.lock().unwrap().is_none() && !stage.trace().exists());
    }
}
