//! Target `btf`: any bytes are type information or an error. Types may refer to each other in any way, also in circles:
//! nothing panics, memory and time stay within bounds, and names that are not valid in C are dropped. A first byte of 0
//! means raw BTF, as a guest sends it; any other a stream that becomes BTF which libbpf accepts: most mutations of raw BTF
//! are rejected at once.

use std::collections::HashSet;

use xweave_code::types::KernelTypes;
use xweave_code::{Kernel, TypeRef};

use crate::compile::CompileFolder;
use crate::parts::{join_parts, split_parts};

/// Names of equal length. The last two must never get into C.
const NAMES: [&str; 8] = ["aa", "bb", "cc", "dd", "ee", "ff", "a;", "1\n"];

/// Runs the target.
pub fn run(input: &[u8]) {
    // SAFETY: no function is allowed, and silences libbpf, which prints a line for each invalid input.
    unsafe { libbpf_sys::libbpf_set_print(None) };
    let Some((mode, data)) = input.split_first() else { return };
    let [image, module]: [&[u8]; 2] = split_parts(data);
    let kernel = if *mode == 0 {
        Kernel::new("fuzz", image).ok().map(|mut kernel| {
            let _ = kernel.add_module("module", module);
            kernel
        })
    } else {
        let (base, types) = build_btf(image, 1, 0);
        let mut kernel = Kernel::new("fuzz", &base).expect("BTF that libbpf accepts");
        kernel.add_module("module", &build_btf(module, types, TEXT).0).expect("BTF that libbpf accepts");
        Some(kernel)
    };
    kernel.iter().for_each(explore);
}

/// Length of the image's strings: offsets of a module's strings begin there.
const TEXT: u32 = 1 + 3 * 8;

/// Builds BTF with the types that a stream describes, numbered from `first`. Returns it with the number after the last type.
fn build_btf(stream: &[u8], first: u32, text: u32) -> (Vec<u8>, u32) {
    let mut words = Vec::new();
    let mut left = stream.iter().copied();
    // Types refer to any of the image's, to the next ones, and to some after the module's own.
    let count = first + u32::try_from(stream.len() / 8).unwrap_or(0).min(300);
    let mut types = first;
    while types < count {
        let mut byte = || u32::from(left.next().unwrap_or(0));
        let name = |byte: u32| {
            if byte & 8 == 0 { 1 + 3 * (byte % 8) } else { text + u32::from(text == 0) + 3 * (byte % 8) }
        };
        let kind =
            [1, 2, 3, 4, 4, 4, 5, 5, 6, 7, 8, 9, 10, 11, 13, 14, 16, 18, 19, 12][(byte() % 20) as usize];
        // A prototype first, which functions refer to: libbpf accepts no other.
        let kind = if types == first { 13 } else { kind };
        let number = byte();
        let items = if matches!(kind, 4 | 5 | 6 | 13 | 19) { number % 4 } else { 0 };
        let flag = if kind == 7 || items > 0 { (number & 8) << 28 } else { 0 };
        let type_ = |byte: u32| byte % count;
        let sizes = [0, 1, 4, 8, 12, 64, 4096, u32::MAX];
        let word = byte();
        words.push(match kind {
            2 | 3 | 9 | 10 | 11 | 13 | 18 => name(word) & if kind == 18 { u32::MAX } else { 0 },
            _ => name(word),
        });
        words.push(flag | kind << 24 | items);
        words.push(match kind {
            1 => [1, 2, 4, 8, 16][(byte() % 5) as usize],
            6 | 16 | 19 => [1, 2, 4, 8][(byte() % 4) as usize],
            4 | 5 => sizes[(byte() % 8) as usize],
            12 => first,
            3 | 7 => 0,
            _ => type_(byte()),
        });
        match kind {
            1 => words.push((number % 8) << 24 | 32),
            3 => words.extend([type_(byte()), type_(byte()), byte() * byte() * byte() * 200]),
            14 => words.push(number % 3),
            _ => {}
        }
        for _ in 0..items {
            words.push(name(byte()));
            match kind {
                4 | 5 => {
                    let offset = byte() * byte();
                    let far = [0, 0, 0, 0x1f00_0000, 0x0300_0000, u32::MAX][(byte() % 6) as usize];
                    words.extend([type_(byte()), offset | far]);
                }
                13 => words.push(type_(byte())),
                6 => words.push(byte()),
                _ => words.extend([byte(), byte()]),
            }
        }
        types += 1;
    }
    let strings = NAMES.join("\0");
    let strings = if text == 0 { format!("\0{strings}\0") } else { format!("{strings}\0") };
    let length = u32::try_from(words.len() * 4).unwrap_or(0);
    let header = [0x0001_eb9f, 24, 0, length, length, u32::try_from(strings.len()).unwrap_or(0)];
    let bytes = header.iter().chain(&words).flat_map(|word| word.to_le_bytes()).chain(strings.bytes());
    (bytes.collect(), types)
}

fn explore(kernel: &Kernel) {
    let mut roots: Vec<TypeRef> = NAMES.iter().flat_map(|name| kernel.tagged(name)).take(16).collect();
    for function in kernel.functions("%").iter().take(16) {
        roots.extend(function.params.iter().map(|param| param.type_).chain([function.returns]));
    }
    for root in &roots {
        let _ = (kernel.size_of(*root), kernel.slots(*root), kernel.variable(*root, "x"));
        let _ = kernel.nearest_members(*root, "ab", 3);
    }
    let identifiers = HashSet::from(["aa", "bb", "cc", "list", "number", "text", "points", "next"]);
    let text = kernel.declare(&roots, &identifiers);
    assert!(!text.contains("a;\0") && !text.contains("1\n "), "{text}");
    let types = KernelTypes::new(kernel).types;
    for (_, record) in types.records().take(64) {
        for member in &record.members {
            let _ = (
                types.size(member.type_),
                types.leaves(member.type_, 0, 16),
                types.contains(member.type_, 9),
            );
            let _ = types.levels(member.type_, member.offset, 8);
        }
    }
}

/// Makes seeds: raw BTF of an image, and of an image with a module; a stream.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let folder = CompileFolder::new();
    let object = folder.compile("clang-14 -target bpf -O2 -g -c -o out source.c");
    folder.write_file("object", &object);
    let btf = folder.compile("objcopy -I elf64-little --dump-section .BTF=out object /dev/null");
    // The same BTF as image and as module: names and numbers of the module are found in the image.
    let both = join_parts(&[btf.clone(), btf.clone()]);
    let stream: Vec<u8> = (0..255).collect();
    vec![[&[0], &btf[..]].concat(), [&[0], &both[..]].concat(), [&[1], &stream[..]].concat()]
}
