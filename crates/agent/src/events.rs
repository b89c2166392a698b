//! The built-in probes of events: loaded, attached, counted.
//!
//! Each program has one place and is attached once. What the kernel leaves out of it, because it is running on
//! that CPU already, is counted and told; a second copy to stand in, as advice has one, would make every event
//! cost more.

use std::{
    io,
    mem::size_of_val,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
};

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use xweave_bytes::{each_le, read_le};
use xweave_wire::{
    event::{self, Kind},
    message::{EventLoss, LeftOut},
    plan::{EventPlan, EventProgram},
};

use crate::{
    attach::{Progress, Watch, why_skipped},
    error::Error,
    hook::{attach_type, name_in_module},
    libbpf_log::Log,
    load::{program_info, section},
    rings,
    weaving::State,
};

/// Probes that run. Dropping them takes them away.
pub(crate) struct Events {
    object: Object,
    rings: Vec<MapHandle>,
    hooked: Vec<Hooked>,
    pub(crate) left_out: Vec<LeftOut>,
}

struct Hooked {
    kind: Kind,
    program: OwnedFd,
    /// Keeps the hook in the kernel.
    _link: OwnedFd,
    /// Runs that the kernel had left out before the recording began.
    before: u64,
}

impl Events {
    /// Loads and attaches all that this kernel lets us; what it does not is among what is left out.
    pub(crate) fn weave(plan: &EventPlan, watch: &Watch<'_>) -> Result<Self, Error> {
        let mut left_out = Vec::new();
        let progress = Progress::new(plan.programs.len());
        let object = load(plan, &mut left_out, watch)?;
        let rings = rings::fill_table(&map(&object, rings::TABLE)?, plan.buffer)?;
        let mut hooked = Vec::new();
        for program in &plan.programs {
            if watch.cancel.asked() {
                return Err(Error::Cancelled);
            }
            progress.step(watch);
            if left_out.iter().any(|left: &LeftOut| is(left, program)) {
                continue;
            }
            match hook(&object, program) {
                Ok(one) => hooked.push(one),
                Err(error) => left_out.push(without(program, why_skipped(&error))),
            }
        }
        Ok(Self { object, rings, hooked, left_out })
    }

    /// The ring buffers, one for each CPU.
    pub(crate) fn take_rings(&mut self) -> Vec<MapHandle> {
        std::mem::take(&mut self.rings)
    }

    /// Reports probes of that kind.
    pub(crate) fn record(&self, kind: Kind) -> bool {
        self.hooked.iter().any(|hooked| hooked.kind == kind)
    }

    /// Turns recording on or off; it stays on while flows end.
    pub(crate) fn set_state(&mut self, to: State) -> Result<(), Error> {
        if matches!(to, State::On) {
            for hooked in &mut self.hooked {
                hooked.before = program_info(hooked.program.as_fd())?.recursion_misses;
            }
        }
        let is_on = u32::from(!matches!(to, State::Off));
        let state = map(&self.object, ".data.state")?;
        state.update(&0u32.to_le_bytes(), &is_on.to_le_bytes(), MapFlags::ANY)?;
        Ok(())
    }

    /// Counts the losses up to now, of the kinds that lost anything.
    pub(crate) fn loss(&self) -> Result<Vec<EventLoss>, Error> {
        let counters = dropped(&self.object)?;
        let dropped = |kind: Kind| counters.get(kind as usize).copied().unwrap_or(0);
        let mut losses = Kind::ALL.map(|kind| EventLoss { kind, dropped: dropped(kind), missed: 0 });
        for hooked in &self.hooked {
            losses[hooked.kind as usize].missed +=
                program_info(hooked.program.as_fd())?.recursion_misses.saturating_sub(hooked.before);
        }
        Ok(losses.into_iter().filter(|loss| loss.dropped + loss.missed > 0).collect())
    }

    /// Encodes the losses that no later event reports. No probe may run any more.
    pub(crate) fn last_losses(&self, now_ns: u64) -> Result<Vec<u8>, Error> {
        let gaps = map(&self.object, ".bss.gaps")?.lookup(&0u32.to_le_bytes(), MapFlags::ANY)?;
        let mut events = Vec::new();
        for (cpu, gap) in (0..).zip(gaps.unwrap_or_default().chunks_exact(24)) {
            let word = |at: usize| read_le::<u64>(gap, at).unwrap_or(0);
            let (from, until, lost) = (word(0), word(8), word(16));
            if from == 0 && lost == 0 {
                continue;
            }
            let mut event = event::Event::new(Kind::Lost, now_ns, cpu, 0);
            // Told meanwhile by an interrupt, but for its last: that was a moment ago.
            event.object = now_ns.saturating_sub(until);
            event.position = if from == 0 { event.object } else { now_ns.saturating_sub(from) };
            event.bytes = lost;
            event.encode(&mut events);
        }
        Ok(events)
    }
}

/// By kind, how many events a ring had no room for: of the kinds that there are probes of.
fn dropped(object: &Object) -> Result<Vec<u64>, Error> {
    let counters = map(object, ".bss.dropped")?.lookup(&0u32.to_le_bytes(), MapFlags::ANY)?;
    Ok(each_le(&counters.unwrap_or_default()).collect())
}

/// Loads the plan's programs, but for those that the kernel refuses.
fn load(plan: &EventPlan, left_out: &mut Vec<LeftOut>, watch: &Watch<'_>) -> Result<Object, Error> {
    let all: Vec<&EventProgram> = plan.programs.iter().collect();
    if let Ok(object) = load_only(plan, &all) {
        return Ok(object);
    }
    // One of them is refused, and with it all: which, is seen of each alone.
    let mut accepted = Vec::new();
    for program in all {
        if watch.cancel.asked() {
            return Err(Error::Cancelled);
        }
        match load_only(plan, &[program]) {
            Ok(_) => accepted.push(program),
            Err(Error::Load { error, log }) => {
                let why = why_refused(&log).map_or_else(|| error.to_string(), str::to_owned);
                left_out.push(without(program, format!("the kernel refuses the program: {why}")));
            }
            Err(error) => return Err(error),
        }
    }
    load_only(plan, &accepted)
}

/// The verifier's last message, or else libbpf's.
fn why_refused(log: &str) -> Option<&str> {
    let frame = |line: &&str| line.starts_with("processed ") || line.starts_with("-- ");
    let said = |line: &&str| !line.starts_with("libbpf: ") && !frame(line);
    let of_libbpf = || log.lines().rev().find_map(|line| line.strip_prefix("libbpf: prog "));
    log.lines().rev().find(said).or_else(of_libbpf)
}

fn load_only(plan: &EventPlan, programs: &[&EventProgram]) -> Result<Object, Error> {
    let log = Log::capture();
    let loaded = || {
        let mut object = ObjectBuilder::default().name("xw_events")?.open_memory(&plan.object)?;
        rings::size_table(&mut object)?;
        for mut loaded in object.progs_mut() {
            let name = loaded.name().to_string_lossy().into_owned();
            match programs.iter().find(|program| program.name == name) {
                None => loaded.set_autoload(false),
                Some(program) => {
                    let target = name_in_module(program.module.as_deref(), &program.function);
                    loaded.set_attach_target(0, Some(target))?;
                }
            }
        }
        object.load()
    };
    loaded().map_err(|error| Error::Load { error, log: log.take() })
}

fn hook(object: &Object, program: &EventProgram) -> io::Result<Hooked> {
    let found = object.progs().find(|found| found.name() == program.name.as_str());
    let loaded = found.ok_or_else(|| io::Error::other(format!("there is no program {}", program.name)))?;
    let loaded = loaded.as_fd().try_clone_to_owned()?;
    let mut options = libbpf_sys::bpf_link_create_opts::default();
    options.sz = size_of_val(&options) as u64;
    // SAFETY: the options live in this frame; the rest are integers.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(loaded.as_raw_fd(), 0, attach_type(program.hook), &raw const options)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a descriptor that was just opened and belongs to nobody else.
    let link = unsafe { OwnedFd::from_raw_fd(fd) };
    Ok(Hooked { kind: program.kind, program: loaded, _link: link, before: 0 })
}

fn is(left: &LeftOut, program: &EventProgram) -> bool {
    left.function == program.function && left.kind == program.kind
}

fn without(program: &EventProgram, reason: String) -> LeftOut {
    LeftOut { function: program.function.clone(), kind: program.kind, reason }
}

fn map<'o>(object: &'o Object, name: &str) -> Result<libbpf_rs::Map<'o>, Error> {
    section(object, name).ok_or_else(|| Error::Plan(format!("no map {name}")))
}

#[cfg(test)]
mod tests {
    use xweave_weave::EventChoice;
    use xweave_wire::plan::Hook;

    use super::*;
    use crate::cancel::Cancel;

    #[test]
    fn the_verifier_is_heard_before_libbpf() {
        let libbpf = "libbpf: prog 'x': failed to load: -EPERM\nlibbpf: failed to load object 'o'";
        assert_eq!(why_refused(libbpf), Some("'x': failed to load: -EPERM"));
        let log = format!("-- BEGIN\nR1 invalid mem access\nprocessed 7 insns\n-- END\n{libbpf}");
        assert_eq!(why_refused(&log), Some("R1 invalid mem access"));
        assert_eq!(why_refused(""), None);
    }

    /// The built-in probes of tracepoints, with rings of so many bytes together; none where that is not allowed.
    fn woven(buffer: u32, groups: &[xweave_weave::Group]) -> Option<Events> {
        let kernel = xweave_code::Kernel::live().unwrap();
        let choice = EventChoice::new(groups.to_vec(), None);
        let found = xweave_weave::events(&kernel, &choice, buffer, xweave_programs::library().events);
        let mut plan = found.unwrap().plan.unwrap();
        plan.programs.retain(|program| program.hook == Hook::Tracepoint);
        match Events::weave(&plan, &Watch { cancel: &Cancel::default(), tell: &|_, _| {} }) {
            Err(Error::Load { error, .. }) if error.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
                eprintln!("SKIPPED: loading BPF programs needs root; losses of events were not tested");
                None
            }
            woven => Some(woven.unwrap()),
        }
    }

    /// Empties the rings.
    fn taken(rings: &[MapHandle]) -> Vec<event::Event> {
        let bytes = std::cell::RefCell::new(Vec::new());
        let mut builder = libbpf_rs::RingBufferBuilder::new();
        for ring in rings {
            let take = |event: &[u8]| {
                bytes.borrow_mut().extend_from_slice(event);
                0
            };
            builder.add(ring, take).unwrap();
        }
        builder.build().unwrap().consume().unwrap();
        let (events, left) = event::decode_events(&bytes.borrow());
        assert_eq!(left, 0);
        events
    }

    #[test]
    fn all_that_a_ring_had_no_room_for_is_told_once_with_its_time() {
        let Some(mut events) = woven(4096, &[xweave_weave::Group::Sched]) else { return };
        let rings = events.take_rings();
        let begun = xweave_system::clock::sample().mono_ns;
        events.set_state(State::On).unwrap();
        let mut told = Vec::new();
        // A page has room for less than two hundred switches. The last are lost with nothing behind them.
        for _ in 0..3 {
            (0..500).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(10)));
            told.extend(taken(&rings));
        }
        (0..500).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(10)));
        events.set_state(State::Off).unwrap();
        crate::quiesce::wait_for_running_programs().unwrap();
        told.extend(taken(&rings));
        let ended = xweave_system::clock::sample().mono_ns;
        let (last, left) = event::decode_events(&events.last_losses(ended).unwrap());
        assert_eq!((last.is_empty(), left), (false, 0));
        told.extend(last);
        let mut lost = 0;
        for loss in told.iter().filter(|event| event.kind == Kind::Lost) {
            let (from, until) = (loss.time_ns - loss.position, loss.time_ns - loss.object);
            let in_order = begun <= from && from <= until && until <= loss.time_ns && loss.time_ns <= ended;
            assert!(in_order && loss.bytes > 0, "{loss:?}");
            let within = |event: &&event::Event| event.cpu == loss.cpu && event.kind != Kind::Lost;
            let times = told.iter().filter(within).map(|event| event.time_ns);
            assert_eq!(times.filter(|time| (from + 1..until).contains(time)).count(), 0, "{loss:?}");
            lost += loss.bytes;
        }
        assert_eq!(lost, events.loss().unwrap().iter().map(|loss| loss.dropped).sum::<u64>());
    }

    /// Loads, and attaches nothing: the verifier's word on the programs.
    #[test]
    fn this_kernel_takes_the_programs_of_tracepoints() {
        let kernel = xweave_code::Kernel::live().unwrap();
        let choice = EventChoice::new(xweave_weave::Group::ALL.to_vec(), "line:Call-ID".parse().ok());
        let found = xweave_weave::events(&kernel, &choice, 1 << 16, xweave_programs::library().events);
        let mut plan = found.unwrap().plan.unwrap();
        // Some machines allow no programs at functions; the lab does.
        plan.programs.retain(|program| program.hook == Hook::Tracepoint);
        let mut left_out = Vec::new();
        let watch = Watch { cancel: &Cancel::default(), tell: &|_, _| {} };
        match load(&plan, &mut left_out, &watch) {
            Err(Error::Load { error, .. }) if error.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
                eprintln!("SKIPPED: loading BPF programs needs root; the probes of events were not tested");
            }
            loaded => {
                let object = loaded.unwrap();
                assert_eq!(left_out, Vec::new());
                assert!(map(&object, ".bss.gaps").is_ok() && map(&object, ".data.state").is_ok());
                // What lies behind them must not be taken for those of a kind that no probe is of.
                assert_eq!(dropped(&object).unwrap(), [0; Kind::Other as usize]);
            }
        }
    }
}
