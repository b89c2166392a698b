//! Loading a plan's object and attaching its programs.
//!
//! One compiled program serves many functions. Entry and return hooks (fentry, fexit) bind a program
//! to one function when it is loaded, so the program that libbpf has loaded and relocated is loaded
//! again from its final instructions for each further function; all copies share the maps. Why
//! these and not kprobes: the arguments are typed, nothing is skipped because another probe is
//! running on the CPU, and what is skipped (the very same program, interrupted by itself) is
//! counted per program by the kernel, and taken care of by a spare copy.

use std::{
    collections::{HashMap, HashSet},
    ffi::{CStr, c_char},
    fs, io,
    mem::size_of_val,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    sync::Mutex,
};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use xweave_wire::{
    message::{Failure, FailureKind, Loss, SiteAddress, SiteLoss},
    plan::{Hook, Plan, PlanProgram, PlanSite},
};

use crate::{kernel_btf::KernelBtf, kprobe, running};

/// The prelude's program that lists programs.
const LISTER: &str = "xw_programs";

/// Why a plan could not be woven.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the kernel refused the program of {origin} for {function}: {error}\n{log}")]
    Refused { origin: String, function: String, error: io::Error, log: String },
    #[error("could not load the compiled aspects: {error}\n{log}")]
    Load { error: libbpf_rs::Error, log: String },
    #[error("could not hook {function} for {origin}: {error}")]
    Attach { origin: String, function: String, error: io::Error },
    #[error("module {0} has no type information any more: was it unloaded?")]
    Module(String),
    #[error("the plan does not fit its object: {0}")]
    Plan(String),
    #[error("the kernel's list of BPF programs cannot be read: {0}")]
    Running(io::Error),
    #[error("a BPF map could not be used: {0}")]
    Map(#[from] libbpf_rs::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Refused { .. } | Error::Load { .. } => FailureKind::Verifier,
            Error::Attach { .. } => FailureKind::Attach,
            Error::Module(_) | Error::Running(_) | Error::Map(_) => FailureKind::Unsupported,
            Error::Plan(_) => FailureKind::Misuse,
        };
        Self { kind, message: error.to_string() }
    }
}

/// How a recording stands; `enum xw_state` of the prelude.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum State {
    Off = 0,
    On = 1,
    Draining = 2,
}

/// A program to be run at a function: one of the two copies of an entry or return hook, or one of
/// the kprobes. Dropping it takes the hook away.
struct Hooked<'p> {
    what: &'p PlanProgram,
    site: &'p PlanSite,
    /// The first clause's, in the plan's order of sites.
    place: u32,
    part: Part,
    program: OwnedFd,
}

/// What a program is at its function.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The program itself.
    Main,
    /// The copy that acts where the kernel leaves the program out (the prelude says when).
    Spare,
    /// The one that saves arguments.
    Saver,
}

/// An attached program whose omissions count.
struct Counted {
    /// The number of the first clause's site.
    site: u32,
    place: u32,
    program: OwnedFd,
    /// What the kernel had left out before the recording began.
    before: u64,
}

/// A woven plan. Dropping it unweaves.
pub(crate) struct Woven {
    counted: Vec<Counted>,
    links: Vec<OwnedFd>,
    /// By place in the plan.
    sites: Vec<u32>,
    object: Object,
    domain: u8,
}

impl Woven {
    /// Loads and attaches all of a plan, or nothing.
    pub(crate) fn weave(plan: &Plan) -> Result<Self, Error> {
        let sites: Vec<u32> = plan
            .programs
            .iter()
            .flat_map(|program| &program.sites)
            .flat_map(|site| site.site..site.site + site.clauses)
            .collect();
        let log = Log::capture();
        let object = open(plan, sites.len())
            .and_then(OpenObject::load)
            .map_err(|error| Error::Load { error, log: log.take() })?;
        drop(log);
        let mut woven = Self { counted: Vec::new(), links: Vec::new(), sites, object, domain: plan.domain };
        woven.set_state(State::Off)?;
        let loaded = woven.load(plan)?;
        woven.tell_spares(&loaded)?;
        // One at a time: emulated guests were seen to die while several threads had their text patched.
        woven.links = loaded.iter().map(Hooked::attach).collect::<Result<_, _>>()?;
        woven.counted = loaded
            .into_iter()
            .filter(|hooked| hooked.part == Part::Main)
            .map(|Hooked { site, place, program, .. }| Counted { site: site.site, place, program, before: 0 })
            .collect();
        Ok(woven)
    }

    /// Loads what libbpf has not: a copy of each program for each further function, and the spares.
    fn load<'p>(&self, plan: &'p Plan) -> Result<Vec<Hooked<'p>>, Error> {
        let mut btf = KernelBtf::default();
        let mut loaded = Vec::new();
        let mut place = 0;
        for what in &plan.programs {
            for (nth, site) in what.sites.iter().enumerate() {
                let mut add = |part, program| loaded.push(Hooked { what, site, place, part, program });
                match &what.hook {
                    Hook::Entry | Hook::Return => {
                        add(Part::Spare, self.further_copy(what, site, &mut btf)?);
                        add(
                            Part::Main,
                            match nth {
                                0 => self.first_copy(&what.name)?,
                                _ => self.further_copy(what, site, &mut btf)?,
                            },
                        );
                    }
                    Hook::Probe | Hook::ProbeReturn => {
                        if let Some(saver) = &what.saver {
                            add(Part::Saver, self.first_copy(saver)?);
                        }
                        add(Part::Main, self.first_copy(&what.name)?);
                    }
                }
                place += site.clauses;
            }
        }
        Ok(loaded)
    }

    /// Tells the spares where to see whether their programs are running.
    fn tell_spares(&self, loaded: &[Hooked<'_>]) -> Result<(), Error> {
        let running = running::addresses(self.first_copy(LISTER)?.as_fd()).map_err(Error::Running)?;
        let places = map(&self.object, "xw_running")?;
        for hooked in loaded.iter().filter(|hooked| hooked.part == Part::Main) {
            let id = program_info(hooked.program.as_fd()).id;
            let address = running.get(&u64::from(id)).copied().unwrap_or(0);
            places.update(&hooked.place.to_le_bytes(), &address.to_le_bytes(), MapFlags::ANY)?;
        }
        Ok(())
    }

    /// The copy that libbpf loaded: for a program's first site, and for all that are kprobes.
    fn first_copy(&self, name: &str) -> Result<OwnedFd, Error> {
        let found = self.object.progs().find(|program| program.name() == name);
        found
            .ok_or_else(|| Error::Plan(format!("no program {name}")))?
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Error::Plan(error.to_string()))
    }

    /// Loads the program once more, for another function.
    fn further_copy(
        &self,
        program: &PlanProgram,
        site: &PlanSite,
        btf: &mut KernelBtf,
    ) -> Result<OwnedFd, Error> {
        let found = self.object.progs().find(|p| p.name() == program.name.as_str());
        let loaded = found.ok_or_else(|| Error::Plan(format!("no program {}", program.name)))?;
        let instructions = loaded.insns();
        let mut log = vec![0u8; 256 << 10];
        let mut options = libbpf_sys::bpf_prog_load_opts {
            expected_attach_type: attach_type(program.hook),
            attach_btf_id: site.btf_id,
            attach_btf_obj_fd: match &site.module {
                Some(module) => u32::try_from(btf.module(module)?).unwrap_or(0),
                None => 0,
            },
            ..Default::default()
        };
        options.sz = size_of_val(&options) as u64;
        // Quietly at first: a log costs the verifier time.
        for level in [0, 1] {
            options.log_level = level;
            if level > 0 {
                options.log_buf = log.as_mut_ptr().cast::<c_char>();
                options.log_size = u32::try_from(log.len()).unwrap_or(u32::MAX);
            }
            // SAFETY: the instructions belong to the loaded object, the log to this frame.
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

    /// The ring buffer.
    pub(crate) fn records(&self) -> Result<MapHandle, Error> {
        Ok(MapHandle::try_from(&map(&self.object, "xw_records")?)?)
    }

    /// Turns recording on and off.
    pub(crate) fn set_state(&mut self, state: State) -> Result<(), Error> {
        if matches!(state, State::On) {
            for counted in &mut self.counted {
                counted.before = recursion_misses(counted.program.as_fd());
            }
        }
        let mut value = [0u8; 8];
        value[..4].copy_from_slice(&(state as u32).to_le_bytes());
        value[4..].copy_from_slice(&u32::from(self.domain).to_le_bytes());
        map(&self.object, "xw_config")?.update(&0u32.to_le_bytes(), &value, MapFlags::ANY)?;
        Ok(())
    }

    /// What has been lost up to now.
    pub(crate) fn loss(&self) -> Result<Loss, Error> {
        let mut by_site: HashMap<u32, SiteLoss> = HashMap::new();
        let mut unattributed = 0;
        let mut stood_in: HashMap<u32, u64> = HashMap::new();
        let tallies = map(&self.object, "xw_tallies")?;
        for (place, &site) in (0u32..).zip(&self.sites) {
            for cpu in tallies.lookup_percpu(&place.to_le_bytes(), MapFlags::ANY)?.unwrap_or_default() {
                let entry = by_site.entry(site).or_insert(SiteLoss { site, ..SiteLoss::default() });
                entry.dropped += word(&cpu, 0);
                entry.table_full += word(&cpu, 8);
                unattributed += word(&cpu, 16);
                *stood_in.entry(place).or_default() += word(&cpu, 24);
            }
        }
        for counted in &self.counted {
            let left_out = recursion_misses(counted.program.as_fd()).saturating_sub(counted.before);
            let stood_in = stood_in.get(&counted.place).copied().unwrap_or(0);
            let empty = SiteLoss { site: counted.site, ..SiteLoss::default() };
            by_site.entry(counted.site).or_insert(empty).missed += left_out.saturating_sub(stood_in);
        }
        let lossy = map(&self.object, "xw_lossy_flows")?;
        let flows = lossy
            .keys()
            .filter_map(|key| Some((word(&key, 0), word(&lossy.lookup(&key, MapFlags::ANY).ok()??, 0))))
            .collect();
        let mut sites: Vec<_> =
            by_site.into_values().filter(|site| site.dropped + site.missed + site.table_full > 0).collect();
        sites.sort_by_key(|site| site.site);
        Ok(Loss { sites, flows, unattributed })
    }

    /// Takes all hooks away.
    pub(crate) fn unweave(&mut self) {
        self.links.clear();
    }
}

fn open(plan: &Plan, sites: usize) -> Result<OpenObject, libbpf_rs::Error> {
    let mut object = ObjectBuilder::default().name("xweave")?.open_memory(&plan.object)?;
    for mut map in object.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if name == "xw_records" {
            map.set_max_entries(plan.buffer)?;
        } else if matches!(name.as_str(), "xw_tallies" | "xw_running") {
            map.set_max_entries(u32::try_from(sites.max(1)).unwrap_or(u32::MAX))?;
        } else if name.starts_with("xw_flow_") && name != "xw_flow_counter" {
            map.set_max_entries(plan.flow_table)?;
        }
    }
    let mut targets: HashMap<&str, Option<String>> = HashMap::new();
    for program in &plan.programs {
        let first = program.sites.first().map(|site| match &site.module {
            Some(module) => format!("{module}:{}", site.function),
            None => site.function.clone(),
        });
        let bound = matches!(program.hook, Hook::Entry | Hook::Return);
        targets.insert(&program.name, first.filter(|_| bound));
        targets.extend(program.saver.as_deref().map(|saver| (saver, None)));
    }
    for mut program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        match targets.get(name.as_str()) {
            Some(Some(target)) => program.set_attach_target(0, Some(target.clone()))?,
            Some(None) => {}
            None if name == LISTER => {}
            None => program.set_autoload(false),
        }
    }
    Ok(object)
}

impl Hooked<'_> {
    /// Bits 32 to 62: the place; 63: the spare; low half: the number. `XW_ENTER` of the prelude.
    fn cookie(&self) -> u64 {
        let spare = u64::from(self.part == Part::Spare) << 63;
        spare | u64::from(self.place) << 32 | u64::from(self.site.site)
    }

    fn attach(&self) -> Result<OwnedFd, Error> {
        let failed = |error| Error::Attach {
            origin: self.what.origin.clone(),
            function: self.site.function.clone(),
            error,
        };
        let mut options = libbpf_sys::bpf_link_create_opts::default();
        options.sz = size_of_val(&options) as u64;
        // Held until the link holds it.
        let event;
        let target = match self.what.hook {
            Hook::Entry | Hook::Return => {
                options.__bindgen_anon_1.tracing.cookie = self.cookie();
                0
            }
            Hook::Probe | Hook::ProbeReturn => {
                let returning = self.what.hook == Hook::ProbeReturn && self.part == Part::Main;
                event = kprobe::open(self.site, returning).map_err(failed)?;
                options.__bindgen_anon_1.perf_event.bpf_cookie = self.cookie();
                event.as_raw_fd()
            }
        };
        let program = self.program.as_raw_fd();
        // SAFETY: the options live in this frame; the rest are integers.
        let fd = unsafe {
            libbpf_sys::bpf_link_create(program, target, attach_type(self.what.hook), &raw const options)
        };
        if fd < 0 {
            return Err(failed(io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: a descriptor that was just opened and belongs to nobody else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn attach_type(hook: Hook) -> libbpf_sys::bpf_attach_type {
    match hook {
        Hook::Entry => libbpf_sys::BPF_TRACE_FENTRY,
        Hook::Return => libbpf_sys::BPF_TRACE_FEXIT,
        Hook::Probe | Hook::ProbeReturn => libbpf_sys::BPF_PERF_EVENT,
    }
}

fn map<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Map<'o>, Error> {
    object.maps().find(|map| map.name() == name).ok_or_else(|| Error::Plan(format!("no map {name}")))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap_or([0; 8])))
}

/// How often the kernel skipped the program because it was already running on that CPU.
fn recursion_misses(program: BorrowedFd<'_>) -> u64 {
    program_info(program).recursion_misses
}

fn program_info(program: BorrowedFd<'_>) -> libbpf_sys::bpf_prog_info {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut size = u32::try_from(size_of_val(&info)).unwrap_or(0);
    // SAFETY: info lives in this frame and size is its size.
    let failed =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut size) };
    if failed == 0 { info } else { libbpf_sys::bpf_prog_info::default() }
}

/// The addresses of the plan's sites. Zeros where kallsyms is hidden from us.
pub(crate) fn addresses(plan: &Plan) -> Vec<SiteAddress> {
    let sites = || plan.programs.iter().flat_map(|program| &program.sites);
    let wanted: HashSet<(&str, Option<&str>)> =
        sites().map(|site| (site.function.as_str(), site.module.as_deref())).collect();
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut found: HashMap<(&str, Option<&str>), u64> = HashMap::new();
    for line in symbols.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(name)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let module = words.next().map(|module| module.trim_matches(['[', ']']));
        if matches!(kind, "t" | "T" | "w" | "W") && wanted.contains(&(name, module)) {
            found.insert((name, module), u64::from_str_radix(address, 16).unwrap_or(0));
        }
    }
    sites()
        .flat_map(|site| {
            let key = (site.function.as_str(), site.module.as_deref());
            let address = found.get(&key).copied().unwrap_or(0);
            (site.site..site.site + site.clauses).map(move |site| SiteAddress { site, address })
        })
        .collect()
}

/// What libbpf says while it loads: the verifier's words are in it.
struct Log;

static LOG: Mutex<String> = Mutex::new(String::new());

unsafe extern "C" {
    /// libc's, in its C types: the message comes as a format and a list of arguments.
    fn vsnprintf(
        buffer: *mut c_char,
        size: usize,
        format: *const c_char,
        arguments: *mut libbpf_sys::__va_list_tag,
    ) -> i32;
}

extern "C" fn keep(
    level: libbpf_sys::libbpf_print_level,
    format: *const c_char,
    arguments: *mut libbpf_sys::__va_list_tag,
) -> i32 {
    if level == libbpf_sys::LIBBPF_DEBUG {
        return 0;
    }
    let mut buffer = vec![0u8; 64 << 10];
    // SAFETY: the buffer has the size given; format and arguments are libbpf's own and valid for the call.
    unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
    if let (Ok(text), Ok(mut log)) = (CStr::from_bytes_until_nul(&buffer), LOG.lock()) {
        log.push_str(&text.to_string_lossy());
    }
    0
}

impl Log {
    fn capture() -> Self {
        // SAFETY: keep is a function with static lifetime and the type that libbpf asks for.
        unsafe { libbpf_sys::libbpf_set_print(Some(keep)) };
        Self
    }

    /// The last lines of what was said.
    fn take(&self) -> String {
        LOG.lock().map(|mut log| tail(&std::mem::take(&mut *log), 24)).unwrap_or_default()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // SAFETY: none is allowed, and silences libbpf.
        unsafe { libbpf_sys::libbpf_set_print(None) };
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
