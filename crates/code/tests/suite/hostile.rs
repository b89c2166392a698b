//! Type information that is made to do harm: circles, sizes that fit nothing, names that are none.
//! It may come from a guest, so it must cost neither a crash nor much time.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use xweave_code::Kernel;
use xweave_code::types::{KernelTypes, Tag};

const NAMES: [&str; 6] = ["a", "b", "c", "d;\nint e", "", "int"];

/// Numbers that look random, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from((self.0 >> 33) % u64::from(limit)).unwrap_or(0)
    }
}

/// BTF that libbpf accepts, of types that refer to any others.
fn generate(random: &mut Random, types: u32) -> Vec<u8> {
    let strings = format!("\0{}\0", NAMES.join("\0"));
    let offset = |name: usize| 1 + NAMES[..name].iter().map(|name| name.len() + 1).sum::<usize>();
    let offsets = [0, 1, 2, 3, 4, 5].map(|name| u32::try_from(offset(name)).unwrap_or(0));
    // 1 is a function's prototype, 2 a function: what else refers to these may be wrong, but not they.
    let mut words = vec![0, 13 << 24, 3, offsets[0], 12 << 24, 1];
    for _ in 2..types {
        let mut name = || offsets[usize::try_from(random.below(6)).unwrap_or(0)];
        let first = name();
        let members = [name(), name(), name()];
        let kind = [1, 2, 3, 4, 4, 4, 5, 5, 6, 7, 8, 9, 10, 13, 16, 18, 19][random.below(17) as usize];
        let count = if matches!(kind, 4 | 5 | 6 | 13 | 19) { random.below(4) } else { 0 };
        let flag = random.below(2) << 31;
        let size = [0, 1, 4, 8, 12, 64, 4096, u32::MAX][random.below(8) as usize];
        let has_size = matches!(kind, 1 | 4 | 5 | 6 | 16 | 19);
        words.extend([
            first,
            flag | kind << 24 | count,
            if has_size { size } else { random.below(types) + 1 },
        ]);
        match kind {
            1 => words.push(random.below(8) << 24 | 32),
            3 => words.extend([random.below(types) + 1, random.below(types) + 1, random.below(1 << 20)]),
            _ => {}
        }
        for name in &members[..count as usize] {
            words.push(*name);
            match kind {
                4 | 5 => words.extend([random.below(types) + 1, random.below(100)]),
                13 => words.push(random.below(types) + 1),
                6 => words.push(random.below(1000)),
                _ => words.extend([random.below(1000), random.below(1000)]),
            }
        }
    }
    let length = u32::try_from(words.len() * 4).unwrap_or(0);
    let header = [0x0001_eb9f, 24, 0, length, length, u32::try_from(strings.len()).unwrap_or(0)];
    let mut bytes: Vec<u8> = header.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(strings.bytes());
    bytes
}

#[test]
fn any_types_can_be_declared() {
    let mut random = Random(7);
    let identifiers = HashSet::from(["a", "b", "c", "int", "e"]);
    let start = Instant::now();
    let mut longest = 0;
    for _ in 0..3000 {
        let types = 3 + random.below(60);
        let kernel = Kernel::new("evil", &generate(&mut random, types)).unwrap();
        let function = kernel.function("a").unwrap();
        let mut roots: Vec<_> = function.params.iter().map(|param| param.type_).collect();
        roots.push(function.returns);
        for tag in ["a", "b", "c", "int"] {
            roots.extend(kernel.tagged(tag));
        }
        for root in &roots {
            let _ = (kernel.size_of(*root), kernel.slots(*root), kernel.variable(*root, "x"));
            kernel.nearest_members(*root, "ab", 3);
        }
        let text = kernel.declare(&roots, &identifiers);
        assert!(!text.contains("int e"), "{text}");
        longest = longest.max(text.len());
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    assert!((1000..50_000_000).contains(&longest), "{longest}");
}

#[test]
fn an_exponential_text_has_an_end() {
    // Forty structures without a tag, each with two members of the next one's type.
    let mut words = vec![0, 13 << 24, 0, 1, 4 << 24 | 1, 80, 3, 3, 0];
    for nth in 3..43 {
        words.extend([0, 4 << 24 | 2, 80, 3, nth + 1, 0, 5, nth + 1, 320]);
    }
    words.extend([0, 1 << 24, 4, 32]);
    let length = u32::try_from(words.len() * 4).unwrap();
    let header = [0x0001_eb9f, 24, 0, length, length, 7];
    let mut bytes: Vec<u8> = header.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(b"\0a\0b\0c\0");
    let kernel = Kernel::new("evil", &bytes).unwrap();
    let start = Instant::now();
    let text = kernel.declare(&kernel.tagged("a"), &HashSet::from(["b", "c"]));
    assert!(start.elapsed() < Duration::from_secs(20) && text.len() > 100, "{:?}", start.elapsed());
}

/// A kernel of nothing but structures and unions, each with members (name, type) that lie at its beginning.
/// The first has the number 1 and the tag `a`; names are offsets: 0 for none, 1 `a`, 3 `b`.
fn records(union: bool, all: &[&[(u32, u32)]]) -> Kernel {
    let mut words = Vec::new();
    for (nth, members) in all.iter().enumerate() {
        let kind = if union { 5 } else { 4 };
        words.extend([u32::from(nth == 0), kind << 24 | u32::try_from(members.len()).unwrap(), 8]);
        words.extend(members.iter().flat_map(|(name, type_)| [*name, *type_, 0]));
    }
    // What is referred to behind the last one is an integer.
    words.extend([0, 1 << 24, 4, 32]);
    let length = u32::try_from(words.len() * 4).unwrap();
    let header = [0x0001_eb9f, 24, 0, length, length, 5];
    let mut bytes: Vec<u8> = header.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(b"\0a\0b\0");
    Kernel::new("evil", &bytes).unwrap()
}

/// Found by fuzzing: each union had the next one in it twice, and a walk went all 2²⁴ ways, and asked at each
/// step whether one of as many ends is a flexible array.
#[test]
fn unions_with_a_billion_ways_through_them_are_walked_soon() {
    let members: Vec<_> = (0..40).map(|nth| [(0, nth + 2), (3, nth + 2), (3, nth + 2)]).collect();
    let kernel = records(true, &members.iter().map(<[_; 3]>::as_slice).collect::<Vec<_>>());
    let start = Instant::now();
    let mut types = KernelTypes::new(&kernel).types;
    let union = types.find(Tag::Union, "a").unwrap();
    let union = types.intern(xweave_code::types::Type::Record(union));
    assert!(types.contains(union, 0) && !types.contains(union, 9));
    assert!(!types.levels(union, 0, 4).is_empty());
    types.leaves(union, 100, 4);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// Found by reading on from there: whether bit-fields are named was asked along each of 2³² ways.
#[test]
fn structures_without_names_with_a_billion_ways_through_them_are_declared_soon() {
    let members: Vec<_> = (0..40).map(|nth| [(0, nth + 2), (0, nth + 2), (3, 41)]).collect();
    let kernel = records(true, &members.iter().map(<[_; 3]>::as_slice).collect::<Vec<_>>());
    let start = Instant::now();
    kernel.declare(&kernel.tagged("a"), &HashSet::from(["b"]));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Likewise: each structure was read, and asked for its members' names, within the one around it, and a chain of
/// thousands of them exhausted the stack.
#[test]
fn structures_that_nest_without_end_do_not_exhaust_the_stack() {
    let members: Vec<_> = (0..300_000).map(|nth| [(0, nth + 2)]).collect();
    let kernel = records(false, &members.iter().map(<[_; 1]>::as_slice).collect::<Vec<_>>());
    kernel.declare(&kernel.tagged("a"), &HashSet::from(["b"]));
    assert!(KernelTypes::new(&kernel).types.find(Tag::Struct, "a").is_some());
}
