//! DWARF that is made to do harm: chains, circles, nesting, lists that everything refers to. It may come from a
//! guest's program, so it must cost neither a crash nor much time.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use xweave_code::dwarf::{self, Debug};
use xweave_code::types::{Tag, Type, Types};

/// DWARF 4 that no compiler writes: a unit with these entries in it. Abbreviations: 2 a pointer, 3 a typedef,
/// 4 a structure `s` of 8 bytes with what is inside, 5 a member at 0, 6 a variable at 0x1000, 7 an array of 2 with
/// its dimension inside, 8 that dimension, 9 a block, 10 a variable with the list of locations at 0. All but 4, 8
/// and 9 have the offset of a type; 10 has code from 0x1000 to 0x2000 around it, a function's (11).
fn evil(entries: impl Fn(u32) -> Vec<u8>, locations: &[u8]) -> (Debug, Types, Duration) {
    const ABBREVIATIONS: &[u8] = &[
        1, 0x11, 1, 0, 0, // compile unit
        2, 0x0f, 0, 0x49, 0x13, 0, 0, // pointer: type ref4
        3, 0x16, 0, 0x49, 0x13, 0, 0, // typedef
        4, 0x13, 1, 0x03, 0x08, 0x0b, 0x0b, 0, 0, // structure: name string, size data1
        5, 0x0d, 0, 0x49, 0x13, 0x38, 0x0b, 0, 0, // member: type, place data1
        6, 0x34, 0, 0x49, 0x13, 0x02, 0x18, 0, 0, // variable: type, location exprloc
        7, 0x01, 1, 0x49, 0x13, 0, 0, // array
        8, 0x21, 0, 0x37, 0x0b, 0, 0, // subrange: count data1
        9, 0x0b, 1, 0, 0, // block
        10, 0x34, 0, 0x49, 0x13, 0x02, 0x17, 0, 0, // variable: type, location sec_offset
        11, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0, 0, // function: low addr, high data4
        0,
    ];
    let mut info = vec![0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 1];
    info.extend(entries(u32::try_from(info.len()).unwrap()));
    info.push(0);
    let length = u32::try_from(info.len() - 4).unwrap();
    info[..4].copy_from_slice(&length.to_le_bytes());
    let mut types = Types::default();
    let section = |name: &str| match name {
        ".debug_info" => Some(Cow::Borrowed(&*info)),
        ".debug_abbrev" => Some(Cow::Borrowed(ABBREVIATIONS)),
        ".debug_loc" => Some(Cow::Borrowed(locations)),
        _ => None,
    };
    let start = Instant::now();
    let debug = dwarf::read("evil", section, &mut types).unwrap();
    let lives = debug.lives_in(0, u64::MAX).take(1000);
    assert!(lives.count() <= debug.lives().len());
    assert!(debug.within_files(|_| true).is_empty() && debug.line(0x1000).is_none());
    (debug, types, start.elapsed())
}

fn entry(code: u8, type_: u32) -> Vec<u8> {
    [&[code][..], &type_.to_le_bytes()].concat()
}

fn variable(type_: u32) -> Vec<u8> {
    [&entry(6, type_)[..], &[9, 3, 0, 0x10, 0, 0, 0, 0, 0, 0]].concat()
}

const FUNCTION: [u8; 13] = [11, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0];

#[test]
fn chains_and_circles_of_types_have_an_end() {
    const MANY: u32 = 300_000;
    // Each to the next, then the last to the first, and a variable of each.
    for code in [2, 3] {
        let (debug, _, took) = evil(
            |first| {
                let at = |nth: u32| first + 5 * (nth % MANY);
                let types = (0..MANY).flat_map(|nth| entry(code, at(nth + 1)));
                types.chain((0..MANY).flat_map(|nth| variable(at(nth)))).collect()
            },
            &[],
        );
        assert!(took < Duration::from_secs(20), "{took:?}");
        assert_eq!((debug.objects().len(), debug.damaged_units()), (1, 0));
    }
    // Each to the one before, so that none is ever a circle; arrays of arrays likewise.
    let (_, types, took) = evil(
        |first| {
            let types = (0..MANY).flat_map(|nth| entry(2, first + 5 * nth.saturating_sub(1)));
            types.chain((0..MANY).flat_map(|nth| variable(first + 5 * nth))).collect()
        },
        &[],
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert!(types.interned(Type::Pointer(Types::VOID)).is_some());
    let (debug, types, took) = evil(
        |first| {
            let array = |nth: u32| [&entry(7, first + 8 * nth.saturating_sub(1))[..], &[8, 2, 0]].concat();
            (0..MANY).flat_map(array).chain((0..MANY).flat_map(|nth| variable(first + 8 * nth))).collect()
        },
        &[],
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    let _ = debug.objects().iter().map(|object| types.size(object.type_)).max();
}

#[test]
fn structures_in_themselves_and_deep_inside_have_an_end() {
    // One whose member is itself; and structures inside each other.
    let (_, types, took) = evil(
        |first| {
            let own = [&[4, b's', 0, 8][..], &entry(5, first)[..], &[0, 0]].concat();
            [own, variable(first)].concat()
        },
        &[],
    );
    assert!(took < Duration::from_secs(5), "{took:?}");
    let own = types.find(Tag::Struct, "s").unwrap();
    let own = types.interned(Type::Record(own)).unwrap();
    assert!(!types.contains(own, 9) && !types.levels(own, 0, 8).is_empty());
    const DEEP: u32 = 30_000;
    let (debug, _, took) = evil(
        |first| {
            let open = (0..DEEP).flat_map(|_| [4, b's', 0, 8]);
            let all = open.chain((0..DEEP).map(|_| 0));
            all.chain((0..DEEP).flat_map(|nth| variable(first + 4 * nth))).collect()
        },
        &[],
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(debug.damaged()[0].section, ".debug_info", "{:?}", debug.damaged());
    let (debug, _, took) = evil(|_| std::iter::repeat_n(9, 1_000_000).collect(), &[]);
    assert!(took < Duration::from_secs(5) && debug.damaged_units() == 1, "{took:?}");
}

#[test]
fn a_list_that_all_refer_to_is_not_read_for_each() {
    // Of locations, each in rdi, for a pointer.
    let location = |nth: u64| {
        let (from, to) = (2 * nth, 2 * nth + 1);
        [&from.to_le_bytes()[..], &to.to_le_bytes()[..], &[1, 0, 0x55]].concat()
    };
    let locations: Vec<_> = (1..20_000).flat_map(location).chain([0; 16]).collect();
    let (debug, _, took) = evil(
        |first| {
            let variables = (0..100_000).flat_map(|_| entry(10, first)).collect::<Vec<_>>();
            let variables = variables.chunks(5).flat_map(|entry| [entry, &[0; 4]].concat());
            entry(2, first).into_iter().chain(FUNCTION).chain(variables).chain([0]).collect()
        },
        &locations,
    );
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!((debug.damaged_units(), debug.damaged()[0].section), (1, ".debug_loc"));
    // One may be.
    let (debug, ..) =
        evil(|first| [&entry(2, first)[..], &FUNCTION, &entry(10, first), &[0; 5]].concat(), &locations);
    assert_eq!((debug.damaged_units(), debug.lives().len()), (0, 19_999));
}
