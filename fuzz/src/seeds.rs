//! Small inputs as honest programs make them, for mutations to begin with: no bytes would ever be an ELF file
//! by chance. They are made anew for each run, by the compilers that building and weaving need anyway.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use xweave_code::image::Image;
use xweave_trace::{Domain, DomainVm, Exit, Loss, Manifest, Site, SiteLoss, Writer};
use xweave_wire::event;
use xweave_wire::message::{
    self, BackEnd, ClockSample, CodeParts, Disk, DomainInfo, DropReason, Event, EventLoss, FromAgent,
    FunctionClone, LeftOut, ModuleInfo, Processor, Reply, Request, SHARED_PAGES, Shared, SharingGuest,
    SkippedSite, Symbol, Vm, Woven, XenDomain,
};
use xweave_wire::plan::{EventPlan, EventProgram, Hook, Plan, PlanProgram, PlanSite, VariablePlace};
use xweave_wire::record::{Kind, Record};

use crate::{joined, scratch};

/// A function of a kernel.
fn symbol() -> Symbol {
    Symbol {
        address: 0xffff_ffff_8100_0042,
        function: "tcp_drop".into(),
        offset: 0x42,
        module: Some("tun".into()),
    }
}

/// Writes seeds to the folder that `XWEAVE_SEEDS` names, if it does. Called before libFuzzer reads that folder.
pub fn write(make: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os("XWEAVE_SEEDS") else { return };
    let folder = PathBuf::from(folder);
    for (nth, seed) in make().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{nth}")), seed).expect("seeds can be written");
    }
}

/// Structures, unions, bit-fields, enumerations, calls, inlined functions, data with and without relocations.
const SOURCE: &str = "
enum color { RED = -1, BLUE = 7 };
enum wide { LARGE = 0x123456789abLL };
typedef unsigned long word;
typedef struct { int x, y; } point;
struct list { struct list *next; union { int number; char text[4]; }; unsigned a : 3, b : 9; };
struct outer { struct list list; point points[3]; word (*call)(struct outer *, enum color, ...); };
extern int outside(int);
extern int counter;
static const int table[4] = {1, 2, 3, 4};
volatile enum wide large = LARGE;
int shared = 7, zeros[9];
int (*pointer)(int) = outside;
const point known = {1, 2};
static inline int helper(int x, struct list *of) { return of ? of->number + x : table[x & 3]; }
__attribute__((noinline)) static int inner(int x) { int y = outside(x); return helper(y, 0) + y; }
int outer(struct outer *o, const char *text) { counter++; return inner(o->list.b) + helper(text[1], &o->list); }
int again(struct outer *o, const char *text) __attribute__((alias(\"outer\")));
int loop(int n) { int sum = 0; for (int i = 0; i < n; i++) { point p = {i, sum}; sum += outside(p.x) + p.y; } return sum; }
";

/// Files that other tools have recorded: those that are small enough.
pub fn import() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/import/tests/data");
    let recorded = ["bash-v6.dat", "guest.dat", "packed.data", "pipe.data", "busy.xt"].map(|name| {
        let packed = std::fs::read(folder.join(format!("{name}.zst"))).expect("a recorded file");
        let mut content = Vec::new();
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(&packed[..]).expect("a compressed file");
        decoder.read_to_end(&mut content).expect("a compressed file");
        content
    });
    let both = joined(&[recorded[2].clone(), recorded[1].clone()]);
    recorded.into_iter().chain([both]).collect()
}

fn run(folder: &Path, command: &str) {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let done = Command::new(program).args(words).current_dir(folder).output();
    let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(done.status.success(), "{command}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Lines of the measuring image, a table of forms and one of figures, each behind the byte that says which it is.
pub fn cost() -> Vec<Vec<u8>> {
    let seed = |mode: u8, text: &str| [&[mode], text.as_bytes()].concat();
    let rounds = "R 0 4c c1c 1d 0 0 68 57c 15a54 86e 86e 86e 86e 888 2f28b 30084 30084 30084 309c7";
    let console: String = ["H bare 1 2fd 7d0 1", rounds, "S 2", "F 2 53 d 0 10002a", "E 2fd"]
        .iter()
        .map(|line| xweave_cost::line::write(line))
        .collect();
    vec![
        seed(0, &console),
        seed(1, rounds),
        seed(
            2,
            "setup x = nop\ngroup g needs:avx\nadd r#, r# | add {a#}, {b#} | - | for:8,64 setup:x counts:2",
        ),
        seed(3, "add r8, r8 | 1.0 | - | 70 ADD r8, r8 | theirs waits"),
    ]
}

/// A program, its index and a pointcut, each behind the byte that says which it is.
pub fn access() -> Vec<Vec<u8>> {
    let program = made("gcc -O2 -g -shared -fPIC -nostdlib -o out source.c");
    let index = {
        let image = Image::from_bytes("seed", program.clone()).expect("what gcc makes");
        let mut types = xweave_code::types::KernelTypes::default();
        let debug = xweave_code::dwarf::read("seed", |name| image.debug_section(name), &mut types.types).ok();
        xweave_access::Index::new(&image, &types, debug.as_ref()).bytes().to_vec()
    };
    let pointcut = b"access(list.number, read) AND target(l) AND local_var(o, p) AND NOT (within_function(o%) || within_file(a/%.c))".to_vec();
    [(0, pointcut), (1, index), (2, program)].map(|(mode, bytes)| [vec![mode], bytes].concat()).into()
}

/// What a command line makes of files in the scratch folder: it writes `out`.
fn made(command: &str) -> Vec<u8> {
    let folder = scratch();
    std::fs::write(folder.join("source.c"), SOURCE).expect("a file in the scratch folder");
    run(&folder, command);
    std::fs::read(folder.join("out")).expect("what the command made")
}

/// Object files, libraries, compressed ones, and kernels.
pub fn images() -> Vec<Vec<u8>> {
    let mut images: Vec<_> = [
        "-c -O1 -fno-pic -mcmodel=kernel",
        "-c -O1 -fPIC -g -fcommon -ffunction-sections",
        "-shared -fPIC -nostdlib -O1",
        "-shared -fPIC -nostdlib -O1 -s -fcf-protection -Wl,--hash-style=gnu,-z,now",
        "-shared -fPIC -nostdlib -g -gz=zlib",
    ]
    .iter()
    .map(|how| made(&format!("gcc -o out {how} source.c")))
    .collect();
    std::fs::write(scratch().join("elf"), &images[0]).expect("a file in the scratch folder");
    let packers = ["gzip -kf -S .p", "bzip2 -kf", "xz -kf -S .p", "lzma -kf", "lz4 -lfq", "zstd -qf"];
    let ends = ["p", "bz2", "p", "lzma", "lz4", "zst"];
    for (packer, end) in packers.iter().zip(ends) {
        let to = if packer.starts_with("lz4") { "elf.lz4" } else { "" };
        // Fewer seeds where one of these programs is not installed.
        if Command::new(packer.split(' ').next().unwrap_or_default()).arg("--version").output().is_err() {
            continue;
        }
        run(&scratch(), &format!("{packer} elf {to}"));
        let packed = std::fs::read(scratch().join(format!("elf.{end}"))).expect("what the packer made");
        images.push(kernel_to_boot(&packed));
        images.push(packed);
    }
    images.push(stripped_kernel());
    images.push(live_code());
    images
}

/// What an agent sends of its kernel: one block that lz4 left as it was.
fn live_code() -> Vec<u8> {
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
    // Literals alone: 15 and what is beyond, in steps of 255.
    let mut block = vec![0xf0];
    let mut beyond = body.len() - 15;
    while beyond >= 255 {
        block.push(255);
        beyond -= 255;
    }
    block.push(u8::try_from(beyond).expect("less than 255"));
    block.extend(body);
    [&b"\x02\x21\x4c\x18"[..], &word(block.len()), &block].concat()
}

/// What a boot loader loads, with this in it.
fn kernel_to_boot(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[0x1f1] = 1;
    bytes[0x1fe..0x200].copy_from_slice(b"\x55\xaa");
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
    bytes[0x24c..0x250].copy_from_slice(&word(payload.len()));
    bytes.extend(payload);
    bytes
}

fn word(number: usize) -> [u8; 4] {
    u32::try_from(number).expect("a small number").to_le_bytes()
}

/// A program without symbols, but with those that a kernel has of itself (kallsyms), 300 of them.
fn stripped_kernel() -> Vec<u8> {
    const BASE: u64 = 0xffff_ffff_8100_0000;
    let pad = |bytes: &mut Vec<u8>| bytes.resize(bytes.len().next_multiple_of(8), 0);
    let (mut names, mut markers, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for nth in 0..300 {
        if nth % 256 == 0 {
            markers.extend(word(names.len()));
        }
        let name = format!("T\u{1}{nth}");
        names.push(u8::try_from(name.len()).expect("a short name"));
        names.extend(name.bytes());
        offsets.extend(word(nth));
    }
    let (mut texts, mut index) = (Vec::new(), Vec::new());
    for token in 0..=255_u8 {
        index.extend(&word(texts.len())[..2]);
        texts.extend(if token == 1 { b"name_".to_vec() } else { vec![token.max(1)] });
        texts.push(0);
    }
    let mut tables = Vec::new();
    for table in [word(300).to_vec(), names, markers, texts, index, offsets, BASE.to_le_bytes().to_vec()] {
        tables.extend(table);
        pad(&mut tables);
    }
    std::fs::write(scratch().join("tables"), tables).expect("a file in the scratch folder");
    let source = ".text\n.globl _start\n_start: .fill 300\n.section .rodata\n.balign 8\n.incbin \"tables\"\n";
    std::fs::write(scratch().join("kernel.s"), source).expect("a file in the scratch folder");
    made(&format!("gcc -o out -nostdlib -static -s -Wl,-Ttext={BASE:#x},--build-id kernel.s"))
}

/// The sections that debug information is read from, in the order in which the target has them.
pub const DEBUG_SECTIONS: [&str; 11] = [
    ".debug_info",
    ".debug_abbrev",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_addr",
    ".debug_loc",
    ".debug_loclists",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_line",
    ".debug_line_str",
];

/// Debug information of versions 4 and 5, by the compilers that there are, with and without optimisation.
pub fn debug() -> Vec<Vec<u8>> {
    let compilers = [
        "gcc -gdwarf-5 -O2 -ffunction-sections",
        "gcc -gdwarf-4 -O2 -ffunction-sections",
        "gcc -gdwarf-4 -O0 -fdebug-types-section",
        "gcc -gdwarf-3 -O1",
        "gcc -gdwarf-5 -O1 -gdwarf64",
        "clang-14 -gdwarf-5 -O2",
        "clang-14 -gdwarf-4 -O1",
    ];
    let sections = |compiler: &str| {
        let file = made(&format!("{compiler} -shared -fPIC -nostdlib -o out source.c"));
        let image = Image::from_bytes("seed", file).expect("what a compiler made");
        let section = |name: &&str| image.debug_section(name).unwrap_or_default().into_owned();
        joined(&DEBUG_SECTIONS.iter().map(section).collect::<Vec<_>>())
    };
    compilers.into_iter().map(sections).collect()
}

/// Type information, of an image and of a module on top of it; the first byte says that it is as a file has it.
pub fn types() -> Vec<Vec<u8>> {
    let object = made("clang-14 -target bpf -O2 -g -c -o out source.c");
    std::fs::write(scratch().join("object"), object).expect("a file in the scratch folder");
    let btf = made("objcopy -I elf64-little --dump-section .BTF=out object /dev/null");
    // The same again on top of the first: its types' names are found in the image's, and the numbers, too.
    let both = joined(&[btf.clone(), btf.clone()]);
    let made_up: Vec<u8> = (0..255).collect();
    vec![[&[0], &btf[..]].concat(), [&[0], &both[..]].concat(), [&[1], &made_up[..]].concat()]
}

fn record(kind: Kind, values: Vec<u64>) -> Record {
    Record {
        time_ns: 5,
        flow: 1 << 56 | 1,
        site: 1,
        pid: 42,
        tid: 43,
        cpu: 1,
        kind,
        comm: *b"vhost-4242\0\0\0\0\0\0",
        values,
    }
}

fn records() -> Vec<Record> {
    vec![
        record(Kind::Start, vec![0xffff_8881_0000_0000]),
        record(Kind::Hop, vec![1, 2, 3, 4, 5, 6, 7]),
        record(Kind::Xin, vec![1 << 30, 7, 9, 4242]),
        record(Kind::Quit, vec![]),
    ]
}

/// What goes over a connection; the first byte says which part of the protocol it is.
pub fn wire() -> Vec<Vec<u8>> {
    let encode = |first, message: Result<Vec<u8>, postcard::Error>| {
        [vec![first], message.expect("messages can be encoded")].concat()
    };
    let site = PlanSite {
        optional: true,
        site: 1,
        clauses: 2,
        function: "kfree_skb".into(),
        module: Some("tun".into()),
        btf_id: 300,
        offset: 4,
        places: vec![VariablePlace { register: Some(9), add: -8, load: true }],
        arguments: 3,
    };
    let program = PlanProgram {
        object: 0,
        name: "p0".into(),
        hook: Hook::ProbeReturn,
        saver: Some("s0".into()),
        tracepoint: 0,
        sites: vec![site],
        origin: "a.aspect:3".into(),
    };
    let plan = Plan {
        domain: 1,
        objects: vec![vec![0x7f, 0x45]],
        programs: vec![program],
        buffer: 4096,
        flow_table: 9,
        serial_attach: true,
        events: Some(EventPlan {
            object: vec![0x7f, 0x45],
            programs: vec![EventProgram {
                name: "sched_switch".into(),
                hook: Hook::Tracepoint,
                function: "sched_switch".into(),
                module: None,
                kind: event::Kind::Switch,
            }],
            buffer: 4096,
        }),
    };
    let facts = DomainInfo {
        agent: "0.1.0".into(),
        hostname: "vm1".into(),
        kernel: "6.12".into(),
        build_id: "00ff".into(),
        boot_id: "1".into(),
        cpus: 2,
        processors: vec![Processor { cpu: 1, apic_id: 4 }],
        vendor: "GenuineIntel".into(),
        privileged: true,
        btf: true,
        btf_sha256: "02".into(),
        modules: vec![ModuleInfo { name: "tun".into(), btf_sha256: "00".into(), build_id: "01".into() }],
        tsc_hz: 1 << 31,
        vms: vec![Vm {
            pid: 7,
            comm: "qemu".into(),
            name: "web1".into(),
            tsc_offsets: vec![-5],
            tsc_scaling: (1, 0),
            cid: Some(3),
            back_ends: vec![BackEnd::VhostNet, BackEnd::Vfio],
        }],
        disks: vec![Disk { name: "vda".into(), major: 254, minor: 0 }],
        xen: Some(XenDomain::Pvh),
        recorders: vec![70, 69],
        settings: message::Settings {
            halt_poll_ns: Some(200_000),
            governors: vec!["performance".into()],
            ksm_run: Some(1),
            swappiness: Some(60),
            nics: vec![message::Nic { name: "eth0".into(), queues: 2 }],
        },
    };
    let clock = ClockSample { tsc_before: 1, mono_ns: 2, tsc_after: 3, real_ns: 4 };
    let mut batch = Vec::new();
    records().iter().for_each(|record| record.encode(&mut batch));
    let mut events = Vec::new();
    for kind in event::Kind::ALL {
        event::Event { code: -1, name: *b"kworker/0:1\0\0\0\0\0", ..event::Event::new(kind, 9, 1, 7) }
            .encode(&mut events);
    }
    let left_out =
        LeftOut { function: "tcp_connect".into(), kind: event::Kind::Socket, reason: "none".into() };
    let lost = EventLoss { kind: event::Kind::Send, dropped: 1, missed: 2 };
    let skipped = SkippedSite { site: 4, reason: "no instruction begins there".into() };
    let agents = [
        FromAgent::Reply(Reply::DomainInfo(Box::new(facts))),
        FromAgent::Event(Event::Clock(clock)),
        FromAgent::Event(Event::Weaving { done: 1, total: 9 }),
        FromAgent::Reply(Reply::Woven(Woven {
            sites: Vec::new(),
            skipped: vec![skipped],
            left_out: vec![left_out],
            clones: vec![FunctionClone { site: 7, name: "f.part.0".into() }],
        })),
        FromAgent::Reply(Reply::Symbols(vec![symbol()])),
        FromAgent::Reply(Reply::Shared(Shared {
            pages: vec![0x1234_5000; SHARED_PAGES],
            ..Shared::default()
        })),
        FromAgent::Reply(Reply::Loss(message::Loss { events: vec![lost], ..message::Loss::default() })),
        FromAgent::Event(Event::Events(events.clone())),
        FromAgent::Event(Event::Xentrace(vec![3, 0xf0, 1, 0x20])),
        FromAgent::Event(Event::Records(batch.clone())),
    ];
    let parts = CodeParts { kernel: true, modules: vec!["tun".into()] };
    let guest = SharingGuest { domain: 2, secret: [1, 2], pages: vec![0x1234_5000; SHARED_PAGES] };
    let requests = [
        Request::Btf(Some("tun".into())),
        Request::Code(parts),
        Request::Weave(Box::new(plan)),
        Request::Share { secret: [1, 2], emulated: true },
        Request::XenMark(Some([1, 2])),
        Request::XenGuests(vec![[1, 2]]),
        Request::Guests { guests: vec![guest], all: true, emulators: vec![2114], domids: vec![1] },
    ];
    let mut stream = vec![4];
    xweave_wire::frame::write_preamble(&mut stream).expect("memory can be written to");
    for message in &agents {
        xweave_wire::frame::write_message(&mut stream, message).expect("memory can be written to");
    }
    let requests = requests.iter().map(|message| encode(0, postcard::to_stdvec(message)));
    let agents = agents.iter().map(|message| encode(1, postcard::to_stdvec(message)));
    requests.chain(agents).chain([[vec![2], batch].concat(), [vec![3], events].concat(), stream]).collect()
}

/// The kinds of files that a trace consists of.
pub fn trace() -> Vec<Vec<u8>> {
    let folder = scratch().join("seed");
    let vm = DomainVm { host: "host".into(), pid: 4242, cid: Some(3) };
    let domain = Domain {
        name: "host".into(),
        number: 1,
        vm: Some(vm),
        drop_reasons: vec![DropReason { value: 3, name: "NO_SOCKET".into() }],
        symbols: vec![symbol()],
        exit: Some(Exit::Lost { reason: "went".into() }),
        ..Domain::default()
    };
    let loss =
        Loss { sites: vec![SiteLoss { site: 1, dropped: 2, ..SiteLoss::default() }], ..Loss::default() };
    let manifest = Manifest { reference: "host".into(), domains: vec![domain], loss, ..Manifest::default() };
    let mut writer = Writer::replace(&folder, manifest).expect("a folder for a trace");
    let site =
        Site { site: 1, domain: "host".into(), function: "f".into(), line: Some(3), ..Site::default() };
    writer.sites(&[site]).expect("sites can be written");
    for (time, record) in (0..).zip(records()) {
        writer.append(1, time, &record).expect("records can be written");
    }
    let name = writer.name("nginx");
    for (nth, kind) in (0..).zip(xweave_trace::event::Kind::ALL) {
        let event = xweave_trace::Event::new(kind, 1, nth, 0, 7);
        writer.event(xweave_trace::Event { name, object: 5, ..event }).expect("events can be written");
    }
    writer.finish().expect("a trace can be finished");
    let segment = |of: &str| {
        let segments = std::fs::read_dir(folder.join(of)).expect("there are segments");
        segments.flatten().next().expect("there is a segment").path()
    };
    let files =
        [folder.join("trace.json"), folder.join("sites.parquet"), segment("records"), segment("events")];
    vec![joined(&files.map(|file| std::fs::read(file).expect("what was written can be read")))]
}
