//! Any bytes are machine code with symbols or an error: no panic, no memory beyond what is in the file. What is
//! told can be relied on: sections and functions are in order, and lie where there is something.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xweave_code::image::{Image, LiveCode};
use xweave_fuzz::seeds;

fuzz_target!(init: seeds::write(seeds::images), |data: &[u8]| {
    // What an agent sends of its kernel begins with the magic number of its packing, as nothing else here does.
    if let Ok(code) = LiveCode::unpack(data) {
        let modules = code.modules().map(Some);
        modules.chain([None]).for_each(|module| look_into(&code.image(module)));
        return;
    }
    match Image::from_bytes("fuzz", data.to_vec()) {
        Ok(image) => look_into(&image),
        Err(error) => assert!(error.to_string().contains("fuzz")),
    }
});

fn look_into(image: &Image) {
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
    for name in seeds::DEBUG_SECTIONS.iter().chain(&[".text", ""]) {
        let _ = image.debug_section(name).map(|bytes| bytes.len());
    }
    let _ = (image.imports().len(), image.btf().map(<[u8]>::len), image.percpu(), image.build_id());
}
