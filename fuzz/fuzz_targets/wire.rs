//! Any bytes from the other end are messages or an error: no panic, no memory that a length promises but that does
//! not arrive. What was decoded and is encoded again says the same. The first byte chooses the part of the protocol.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use serde::{Serialize, de::DeserializeOwned};
use xweave_fuzz::seeds;
use xweave_wire::event::decode_events;
use xweave_wire::frame::{read_from_agent, read_message, read_preamble, write_message};
use xweave_wire::limits;
use xweave_wire::message::{FromAgent, Request};
use xweave_wire::record::decode_batch;

fuzz_target!(init: seeds::write(seeds::wire), |data: &[u8]| {
    let Some((mode, data)) = data.split_first() else { return };
    match mode {
        0 => message::<Request>(data),
        1 => {
            message::<FromAgent>(data);
            checked(data);
        }
        2 => batch(data),
        3 => events(data),
        _ => stream(data),
    }
});

fn message<M: Serialize + DeserializeOwned + Debug>(data: &[u8]) {
    let length = u32::try_from(data.len()).expect("a short input");
    let framed = [&length.to_le_bytes(), data].concat();
    let Ok(message) = read_message::<M>(&mut framed.as_slice()) else { return };
    let mut again = Vec::new();
    write_message(&mut again, &message).expect("memory can be written to");
    let again: M = read_message(&mut again.as_slice()).expect("what was encoded can be decoded");
    assert_eq!(format!("{message:?}"), format!("{again:?}"));
}

/// What a controller takes of an agent stays as it is when it is checked again.
fn checked(data: &[u8]) {
    let length = u32::try_from(data.len()).expect("a short input");
    let framed = [&length.to_le_bytes(), data].concat();
    let Ok(message) = read_from_agent(&mut framed.as_slice(), || limits::FRAME) else { return };
    let once = format!("{message:?}");
    assert_eq!(format!("{:?}", message.checked().expect("it was checked")), once);
}

fn batch(data: &[u8]) {
    let (records, left) = decode_batch(data);
    let mut again = Vec::new();
    records.iter().for_each(|record| record.encode(&mut again));
    assert_eq!(again, data[..data.len() - left]);
    for record in &records {
        let _ = (record.comm(), record.carrier_key());
    }
}

fn events(data: &[u8]) {
    let (events, left) = decode_events(data);
    let mut once = Vec::new();
    events.iter().for_each(|event| event.encode(&mut once));
    assert_eq!(once.len() + left, data.len());
    // What a kind has no use for is not kept.
    let (again, none) = decode_events(&once);
    assert_eq!(none, 0);
    assert!(
        events.iter().zip(&again).all(|(one, other)| (one.name(), one.kind) == (other.name(), other.kind))
    );
    let mut twice = Vec::new();
    again.iter().for_each(|event| event.encode(&mut twice));
    assert_eq!(once, twice);
}

fn stream(mut data: &[u8]) {
    if read_preamble(&mut data).is_ok() {
        while read_message::<FromAgent>(&mut data).is_ok() {}
    }
}
