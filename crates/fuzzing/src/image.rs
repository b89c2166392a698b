//! Target `image`: any bytes are machine code with symbols or an error. Nothing panics, memory is bounded by the size of
//! the file, and sections and functions are sorted and lie within the file.

use xweave_code::image::{Image, LiveCode};

use crate::compile::{CompileFolder, is_installed};
use crate::dwarf::DEBUG_SECTIONS;

/// Runs the target.
pub fn run(input: &[u8]) {
    // Code that an agent sends of its kernel begins with the magic number of lz4, unlike all other formats.
    if let Ok(code) = LiveCode::unpack(input) {
        let modules = code.modules().map(Some);
        modules.chain([None]).for_each(|module| check_image(&code.image(module)));
        return;
    }
    match Image::from_bytes("fuzz", input.to_vec()) {
        Ok(image) => check_image(&image),
        Err(error) => assert!(error.to_string().contains("fuzz")),
    }
}

fn check_image(image: &Image) {
    assert!(image.sections().is_sorted_by_key(|section| section.address));
    assert!(image.functions().windows(2).all(|pair| pair[0].address < pair[1].address));
    for section in image.sections() {
        assert!(section.data().len() as u64 <= section.size());
        let _ = image.section_at(section.address).map(|section| section.end());
    }
    for function in image.functions() {
        let _ = image.bytes(function.address, usize::try_from(function.size).unwrap_or(usize::MAX));
        assert!(image.symbol(&function.name).is_some());
    }
    for name in DEBUG_SECTIONS.iter().chain(&[".text", ""]) {
        let _ = image.debug_section(name).map(|bytes| bytes.len());
    }
    let _ = (image.imports().len(), image.btf().map(<[u8]>::len), image.percpu(), image.build_id());
}

/// Makes seeds: object files, libraries, compressed object files, and kernels.
pub fn make_seeds() -> Vec<Vec<u8>> {
    let folder = CompileFolder::new();
    let mut images: Vec<_> = [
        "-c -O1 -fno-pic -mcmodel=kernel",
        "-c -O1 -fPIC -g -fcommon -ffunction-sections",
        "-shared -fPIC -nostdlib -O1",
        "-shared -fPIC -nostdlib -O1 -s -fcf-protection -Wl,--hash-style=gnu,-z,now",
        "-shared -fPIC -nostdlib -g -gz=zlib",
    ]
    .iter()
    .map(|how| folder.compile(&format!("gcc -o out {how} source.c")))
    .collect();
    folder.write_file("elf", &images[0]);
    let packers = ["gzip -nkf -S .p", "bzip2 -kf", "xz -kf -S .p", "lzma -kf", "lz4 -lfq", "zstd -qf"];
    let ends = ["p", "bz2", "p", "lzma", "lz4", "zst"];
    for (packer, end) in packers.iter().zip(ends) {
        let to = if packer.starts_with("lz4") { "elf.lz4" } else { "" };
        // Fewer seeds where one of these programs is not installed.
        if !is_installed(packer.split(' ').next().unwrap_or_default()) {
            continue;
        }
        folder.run_command(&format!("{packer} elf {to}"));
        let packed = folder.read_file(&format!("elf.{end}"));
        images.push(make_boot_image(&packed));
        images.push(packed);
    }
    images.push(make_stripped_kernel(&folder));
    images.push(make_live_code());
    images
}

/// Makes code of a running kernel as an agent sends it: one lz4 block of literals only.
fn make_live_code() -> Vec<u8> {
    let field = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat();
    let mut body =
        field(b"ffffffff81000000 T _stext\nffffffff81000000 T first\nffffffffc0000000 t hello\t[tun]\n");
    body.extend(field(&[1, 2, 3]));
    for (module, name, address) in
        [("", ".text", 0xffff_ffff_8100_0000_u64), ("tun", "x", 0xffff_ffff_c000_0000)]
    {
        body.extend([field(module.as_bytes()), field(name.as_bytes())].concat());
        body.extend(address.to_le_bytes());
        body.push(1);
        body.extend(field(&[0xe8, 0xfb, 0xff, 0xff, 0x3f, 0xc3]));
    }
    // Literals alone: 15 and the rest, in steps of 255.
    let mut block = vec![0xf0];
    let mut beyond = body.len() - 15;
    while beyond >= 255 {
        block.push(255);
        beyond -= 255;
    }
    block.push(u8::try_from(beyond).expect("less than 255"));
    block.extend(body);
    [&b"\x02\x21\x4c\x18"[..], &encode_word(block.len()), &block].concat()
}

/// Makes the file that a boot loader loads (bzImage), with a payload.
fn make_boot_image(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[0x1f1] = 1;
    bytes[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
    bytes[0x24c..0x250].copy_from_slice(&encode_word(payload.len()));
    bytes.extend(payload);
    bytes
}

fn encode_word(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("a small number").to_le_bytes()
}

/// Makes a program without symbols, but with a kernel's own table of 300 symbols (kallsyms).
fn make_stripped_kernel(folder: &CompileFolder) -> Vec<u8> {
    const BASE: u64 = 0xffff_ffff_8100_0000;
    let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(8), 0);
    let (mut names, mut markers, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0..300 {
        if nth % 256 == 0 {
            markers.extend(encode_word(names.len()));
        }
        let name = format!("T\u{1}{nth}");
        names.push(u8::try_from(name.len()).expect("a short name"));
        names.extend(name.bytes());
        offsets.extend(encode_word(nth));
    }
    let (mut texts, mut index) = (Vec::new(), Vec::new());
    for token in 0..=255_u8 {
        index.extend(&encode_word(texts.len())[..2]);
        texts.extend(if token == 1 { b"name_".to_vec() } else { vec![token.max(1)] });
        texts.push(0);
    }
    let mut tables = Vec::new();
    for table in
        [encode_word(300).to_vec(), names, markers, texts, index, offsets, BASE.to_le_bytes().to_vec()]
    {
        tables.extend(table);
        pad(&mut tables);
    }
    folder.write_file("tables", &tables);
    let source = ".text\n.globl _start\n_start: .fill 300\n.section .rodata\n.balign 8\n.incbin \"tables\"\n";
    folder.write_file("kernel.s", source.as_bytes());
    folder.compile(&format!("gcc -o out -nostdlib -static -s -Wl,-Ttext={BASE:#x},--build-id kernel.s"))
}
