//! Loading a plan's programs: one for each place that needs one of its own.
//!
//! One compiled program serves many functions. Entry and return hooks (fentry, fexit) bind a program
//! to one function when it is loaded, so the program that libbpf has loaded and relocated is loaded
//! again from its final instructions for each further function; all copies share the maps. Why
//! these and not kprobes: the arguments are typed, nothing is skipped because another probe is
//! running on the CPU, and what is skipped (the very same program, interrupted by itself) is
//! counted per program by the kernel, and taken care of by a spare, which is no copy but jumps into its
//! program. Tracepoints are the same, but their spares are copies.
//!
//! A kprobe or uprobe is bound when it is attached: one copy serves all places.

use std::{
    collections::HashMap,
    ffi::{CStr, c_char},
    io,
    mem::{offset_of, size_of_val},
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::Arc,
};

use libbpf_rs::{AsRawLibbpf, MapCore, MapFlags, MapHandle, MapType, Object};
use xweave_wire::plan::{Hook, MAX_VARIABLES, Plan, PlanProgram, PlanSite, VariablePlace};

use crate::{
    addresses::Addresses,
    error::Error,
    hook::{Hooked, Part, attach_type, cookie, is_bound, name_in_module},
    kernel_btf::KernelBtf,
    libbpf_log::tail,
    objects::{LISTER, Objects, TRACEPOINTS, map, tracepoints_of},
    probe, program, running,
    stand_in::Target,
};

/// All join points: with their programs, and the places of their first clauses.
fn places(plan: &Plan) -> impl Iterator<Item = (&PlanProgram, &PlanSite, u32)> {
    let mut next = 0;
    let points = plan.programs.iter().flat_map(|what| what.sites.iter().map(move |site| (what, site)));
    points.map(move |(what, site)| {
        let place = next;
        next += site.clauses;
        (what, site, place)
    })
}

/// All programs of a plan.
pub(crate) struct Loaded<'p> {
    pub(crate) hooked: Vec<Hooked<'p>>,
    /// Jump targets of the spares, which must live as long as spares run.
    pub(crate) targets: Vec<Target>,
}

/// Fills the plan's tables, and loads what libbpf has not: a copy of each bound program for each further
/// place, and the spares.
pub(crate) fn load<'p>(
    objects: &Objects,
    plan: &'p Plan,
    addresses: &Addresses<'p>,
) -> Result<Loaded<'p>, Error> {
    let spare_cookies = fill_tables(objects, plan)?;
    let mut loader = Loader { objects, btf: KernelBtf::default(), shared: HashMap::new(), spare_cookies };
    let (mut loaded, mut targets) = (Vec::new(), Vec::new());
    for (what, site, place) in places(plan) {
        let mut add = |part, program, probe| {
            loaded.push(Hooked { what, site, place, part, program, probe });
        };
        if is_bound(what.hook) {
            let main = match what.sites.first() {
                Some(first) if first == site => loader.first_copy(what.object, &what.name)?,
                _ => loader.further_copy(what, site, Part::Main)?.into(),
            };
            let spare = if what.hook == Hook::Tracepoint {
                // Kernels before 6.10 do not tell it which of the two it is: it has a table of its own.
                loader.further_copy(what, site, Part::Spare)?
            } else {
                let target = Target::new(main.as_fd())?;
                let spare = loader.bind(what, site, &target.instructions(), None)?;
                targets.push(target);
                spare
            };
            add(Part::Spare, spare.into(), None);
            add(Part::Main, main, None);
            continue;
        }
        let probe = match what.hook {
            Hook::User | Hook::UserReturn => {
                let path = site.module.clone().unwrap_or_default();
                let offset = program::offset(&path, &site.function)
                    .map_err(|source| Error::Program { origin: what.origin.clone(), source })?;
                probe::Place::Program { path, offset }
            }
            _ => match addresses.site(what, site) {
                Some(address) if what.hook == Hook::Instruction => probe::Place::Address(address),
                _ => probe::Place::Kernel {
                    function: name_in_module(site.module.as_deref(), &site.function),
                    offset: site.offset.into(),
                },
            },
        };
        if let Some(saver) = &what.saver {
            add(Part::Saver, loader.first_copy(what.object, saver)?, Some(probe.clone()));
        }
        add(Part::Main, loader.first_copy(what.object, &what.name)?, Some(probe));
    }
    tell_spares(&mut loader, &loaded)?;
    Ok(Loaded { hooked: loaded, targets })
}

/// Writes what programs look up by their place or number. Gives, for each object, the table in which the spares of
/// tracepoints find their cookies, where there are any: in the object's own are those of the programs themselves.
fn fill_tables(objects: &Objects, plan: &Plan) -> Result<Vec<Option<MapHandle>>, Error> {
    // Domain and CPU are in the counters from the beginning: so a new ID is one addition.
    let cpus = 0..libbpf_rs::num_possible_cpus()? as u64;
    let before_first: Vec<_> =
        cpus.map(|cpu| (u64::from(plan.domain) << 56 | (cpu & 0xfff) << 44).to_le_bytes().to_vec()).collect();
    objects.map("xw_last_flow")?.update_percpu(&0u32.to_le_bytes(), &before_first, MapFlags::ANY)?;
    for (_, site, place) in places(plan).filter(|(_, site, _)| !site.places.is_empty()) {
        let table = objects.map("xw_variables")?;
        table.update(&place.to_le_bytes(), &variables(&site.places), MapFlags::ANY)?;
    }
    let mut all_spares = Vec::new();
    for number in (0..).zip(&plan.objects).map(|(number, _)| number) {
        let count = tracepoints_of(plan, number);
        if count == 0 {
            all_spares.push(None);
            continue;
        }
        let table = map(objects.get(number)?, TRACEPOINTS)?;
        let options = libbpf_sys::bpf_map_create_opts {
            sz: size_of::<libbpf_sys::bpf_map_create_opts>() as u64,
            ..Default::default()
        };
        let spares = MapHandle::create(MapType::Array, Some("xw_spares"), 4, 8, count, &options)?;
        let at_tracepoints =
            places(plan).filter(|(what, ..)| what.object == number && what.hook == Hook::Tracepoint);
        for (what, site, place) in at_tracepoints {
            let cookie = |part| cookie(part, place, site).to_le_bytes();
            table.update(&what.tracepoint.to_le_bytes(), &cookie(Part::Main), MapFlags::ANY)?;
            spares.update(&what.tracepoint.to_le_bytes(), &cookie(Part::Spare), MapFlags::ANY)?;
        }
        all_spares.push(Some(spares));
    }
    Ok(all_spares)
}

/// `struct xw_variables` of the prelude.
fn variables(places: &[VariablePlace]) -> Vec<u8> {
    const NO_REGISTER: u32 = 255;
    let mut bytes = Vec::with_capacity(16 * MAX_VARIABLES);
    for place in places.iter().take(MAX_VARIABLES) {
        bytes.extend(place.add.to_le_bytes());
        bytes.extend(place.register.map_or(NO_REGISTER, u32::from).to_le_bytes());
        bytes.extend(u32::from(place.load).to_le_bytes());
    }
    bytes.resize(16 * MAX_VARIABLES, 0);
    bytes
}

/// Gives the spares the addresses of the counters that show which program is running.
fn tell_spares<'p>(loader: &mut Loader<'_, 'p>, loaded: &[Hooked<'p>]) -> Result<(), Error> {
    let mut bound = loaded.iter().filter(|h| h.part == Part::Main && is_bound(h.what.hook)).peekable();
    if bound.peek().is_none() {
        return Ok(());
    }
    let running = running::addresses(loader.first_copy(0, LISTER)?.as_fd()).map_err(Error::Running)?;
    let places = loader.objects.map("xw_running")?;
    for hooked in bound {
        let id = program_info(hooked.program.as_fd())?.id;
        let address = running.get(&u64::from(id)).copied().unwrap_or(0);
        places.update(&hooked.place.to_le_bytes(), &address.to_le_bytes(), MapFlags::ANY)?;
    }
    Ok(())
}

struct Loader<'o, 'p> {
    objects: &'o Objects,
    btf: KernelBtf,
    /// Programs that libbpf loaded, by object and name.
    shared: HashMap<(u32, &'p str), Arc<OwnedFd>>,
    /// By object: see [`fill_tables`].
    spare_cookies: Vec<Option<MapHandle>>,
}

impl<'p> Loader<'_, 'p> {
    /// The copy that libbpf loaded: for a program's first place, and for all that are probes.
    fn first_copy(&mut self, object: u32, name: &'p str) -> Result<Arc<OwnedFd>, Error> {
        if let Some(known) = self.shared.get(&(object, name)) {
            return Ok(Arc::clone(known));
        }
        let program = program_named(self.objects.get(object)?, name)?;
        let program = program.as_fd().try_clone_to_owned().map_err(Error::Copy)?;
        Ok(Arc::clone(self.shared.entry((object, name)).or_insert(Arc::new(program))))
    }

    /// Loads the program once more, for another place, or as a spare.
    fn further_copy(&mut self, program: &PlanProgram, site: &PlanSite, part: Part) -> Result<OwnedFd, Error> {
        let object = self.objects.get(program.object)?;
        let loaded = program_named(object, &program.name)?;
        let mut instructions = loaded.insns().to_vec();
        let cookies = usize::try_from(program.object).ok().and_then(|nth| self.spare_cookies.get(nth));
        if let (Part::Spare, Hook::Tracepoint, Some(Some(cookies))) = (part, program.hook, cookies) {
            let table = map(object, TRACEPOINTS)?.as_fd().as_raw_fd();
            refer_to(&mut instructions, table, cookies.as_fd().as_raw_fd());
        }
        self.bind(program, site, &instructions, Some(&loaded))
    }

    /// Loads instructions for one place: `of` a program that libbpf loaded, if they are its.
    fn bind(
        &mut self,
        program: &PlanProgram,
        site: &PlanSite,
        instructions: &[libbpf_sys::bpf_insn],
        of: Option<&libbpf_rs::Program<'_>>,
    ) -> Result<OwnedFd, Error> {
        let mut log = vec![0u8; 256 << 10];
        let mut options = libbpf_sys::bpf_prog_load_opts {
            expected_attach_type: attach_type(program.hook),
            attach_btf_id: site.btf_id,
            attach_btf_obj_fd: match &site.module {
                Some(module) => u32::try_from(self.btf.module(module)?).unwrap_or(0),
                None => 0,
            },
            ..Default::default()
        };
        options.sz = size_of_val(&options) as u64;
        if let Some(of) = of {
            describe(self.objects.get(program.object)?, of, &mut options);
        }
        // Quietly at first: a log costs the verifier time.
        for level in [0, 1] {
            options.log_level = level;
            if level > 0 {
                options.log_buf = log.as_mut_ptr().cast::<c_char>();
                options.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
            }
            // SAFETY: the instructions and the log belong to this frame.
            let fd = unsafe {
                libbpf_sys::bpf_prog_load(
                    libbpf_sys::BPF_PROG_TYPE_TRACING,
                    c"xweave".as_ptr(),
                    c"GPL".as_ptr(),
                    instructions.as_ptr(),
                    instructions.len() as u64,
                    &raw mut options,
                )
            };
            if fd >= 0 {
                // SAFETY: a descriptor that was just opened and belongs to nobody else.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        let error = io::Error::last_os_error();
        let text = CStr::from_bytes_until_nul(&log).unwrap_or(c"").to_string_lossy();
        Err(Error::Refused {
            origin: program.origin.clone(),
            function: site.function.clone(),
            error,
            log: tail(&text, 12),
        })
    }
}

/// Passes on a program's functions and lines: the verifier goes through global functions once where it knows which
/// they are.
fn describe(object: &Object, program: &libbpf_rs::Program<'_>, options: &mut libbpf_sys::bpf_prog_load_opts) {
    let of = program.as_libbpf_object().as_ptr();
    let size = |size: usize| u32::try_from(size).unwrap_or(0);
    // SAFETY: both live as long as the loader's objects; the description of the program's functions and lines belongs
    // to it.
    unsafe {
        let types = libbpf_sys::bpf_object__btf_fd(object.as_libbpf_object().as_ptr());
        if let Ok(types) = u32::try_from(types) {
            options.prog_btf_fd = types;
            options.func_info = libbpf_sys::bpf_program__func_info(of).cast();
            options.func_info_cnt = libbpf_sys::bpf_program__func_info_cnt(of);
            options.func_info_rec_size = size(size_of::<libbpf_sys::bpf_func_info>());
            options.line_info = libbpf_sys::bpf_program__line_info(of).cast();
            options.line_info_cnt = libbpf_sys::bpf_program__line_info_cnt(of);
            options.line_info_rec_size = size(size_of::<libbpf_sys::bpf_line_info>());
        }
    }
}

/// A program of an object, by its name.
fn program_named<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Program<'o>, Error> {
    let program = object.progs().find(|program| program.name() == name);
    program.ok_or_else(|| Error::Plan(format!("no program {name}")))
}

/// Makes a program refer to another map than it did: kernels before 6.10 do not tell programs at tracepoints
/// which of several copies they are.
fn refer_to(instructions: &mut [libbpf_sys::bpf_insn], map: i32, instead: i32) {
    /// The first half of a load of 64 bits; `BPF_LD | BPF_IMM | BPF_DW`.
    const WIDE_LOAD: u8 = 0x18;
    for instruction in instructions {
        let of_map = u32::from(instruction.src_reg()) == libbpf_sys::BPF_PSEUDO_MAP_FD;
        if instruction.code == WIDE_LOAD && of_map && instruction.imm == map {
            instruction.imm = instead;
        }
    }
}

/// A map by the end of its name: libbpf puts the object's before those of sections that every object has.
pub(crate) fn section<'o>(object: &'o Object, name: &str) -> Option<libbpf_rs::Map<'o>> {
    object.maps().find(|map| map.name().to_string_lossy().ends_with(name))
}

/// The fields of `struct bpf_prog_info` in use.
pub(crate) struct ProgramInfo {
    pub(crate) id: u32,
    pub(crate) recursion_misses: u64,
}

/// Number of a program, and of times that the kernel left it out since it was running on that CPU already.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> Result<ProgramInfo, libbpf_rs::Error> {
    // Up to the last field that is used. The structure has padding behind its last one, which Rust does not keep zero
    // and the kernel refuses if it is not (bpf_prog_get_info_by_fd, kernel/bpf/syscall.c).
    const SIZE: usize = offset_of!(libbpf_sys::bpf_prog_info, recursion_misses) + size_of::<u64>();
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = u32::try_from(SIZE).unwrap_or(0);
    // SAFETY: info lives in this frame and is at least as large as size says.
    let failed =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut size) };
    if failed != 0 {
        return Err(io::Error::from_raw_os_error(-failed).into());
    }
    Ok(ProgramInfo { id: info.id, recursion_misses: info.recursion_misses })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_lie_as_in_the_prelude() {
        let at_register = VariablePlace { register: Some(14), add: -8, load: true };
        let constant = VariablePlace { register: None, add: 7, load: false };
        let bytes = variables(&[at_register, constant]);
        assert_eq!(bytes.len(), 128);
        assert_eq!(bytes[..16], [0xf8, 255, 255, 255, 255, 255, 255, 255, 14, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[16..32], [7, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn only_references_to_the_map_are_changed() {
        let instruction = |code, source: u8, imm| {
            let mut instruction = libbpf_sys::bpf_insn { code, imm, ..Default::default() };
            instruction.set_src_reg(source);
            instruction
        };
        let mut program = [
            instruction(0x18, 1, 5),
            instruction(0x18, 1, 6),
            instruction(0x18, 0, 5),
            instruction(0xb7, 1, 5),
        ];
        refer_to(&mut program, 5, 9);
        assert_eq!(program.map(|instruction| instruction.imm), [9, 6, 5, 5]);
    }
}
