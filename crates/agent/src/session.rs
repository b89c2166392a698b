//! One connection with a controller.

use std::{
    fs,
    io::{BufWriter, Read, Write},
    sync::{Arc, Mutex, mpsc},
    thread,
};

use xweave_code::image::LiveCode;
use xweave_wire::{
    frame::{self, Error},
    message::{self, CodeParts, Event, Failure, FailureKind, FromAgent, Reply, Request},
    plan::Plan,
};

use crate::{
    addresses::Addresses,
    attach::Watch,
    cancel::Cancel,
    clock,
    drain::{Drain, Source},
    events::Events,
    facts::{BTF_DIR, facts},
    kvm, settings,
    threads::threads,
    weaving::{State, Woven},
};

/// Where answers and events go: two threads write, a message at a time.
pub(crate) type Output = Arc<Mutex<Box<dyn Write + Send>>>;

/// Serves one controller until it closes the connection, and leaves the kernel as it was.
///
/// # Errors
/// When the transport fails or the other end does not speak the protocol. The kernel is clean then too.
pub fn serve(
    mut input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), Error> {
    let output: Output = Arc::new(Mutex::new(Box::new(BufWriter::new(output))));
    frame::write_preamble(&mut *lock(&output))?;
    frame::read_preamble(&mut input)?;
    settings::put_back();
    let cancel = Arc::new(Cancel::default());
    let requests = read_ahead(input, Arc::clone(&cancel));
    let mut session = Session { output, recording: None, cancel };
    for request in requests {
        let request = match request {
            Ok(request) => request,
            Err(Error::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        if matches!(request, Request::Alive) {
            continue;
        }
        let reply = session.answer(request).unwrap_or_else(Reply::Failed);
        frame::write_message(&mut *lock(&session.output), &FromAgent::Reply(reply))?;
    }
    Ok(())
}

/// Reads requests while an earlier one is answered: what breaks off weaving must be seen while it goes on. The
/// last is an error.
fn read_ahead(
    mut input: impl Read + Send + 'static,
    cancel: Arc<Cancel>,
) -> mpsc::Receiver<Result<Request, Error>> {
    let (sender, requests) = mpsc::channel();
    thread::spawn(move || {
        loop {
            let request = frame::read_message::<Request>(&mut input);
            if matches!(request, Err(_) | Ok(Request::Stop)) {
                cancel.ask();
            }
            let last = request.is_err();
            if sender.send(request).is_err() || last {
                return;
            }
        }
    });
    requests
}

fn lock(output: &Output) -> std::sync::MutexGuard<'_, Box<dyn Write + Send>> {
    output.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Recording {
    /// The aspects' part.
    woven: Option<Woven>,
    /// That of the built-in probes.
    events: Option<Events>,
    drain: Drain,
}

impl Recording {
    fn set_state(&mut self, state: State) -> Result<(), Failure> {
        if let Some(woven) = &mut self.woven {
            woven.set_state(state)?;
        }
        if let Some(events) = &mut self.events {
            events.set_on(!matches!(state, State::Off))?;
        }
        Ok(())
    }

    fn loss(&self) -> Result<message::Loss, Failure> {
        let mut loss = self.woven.as_ref().map(Woven::loss).transpose()?.unwrap_or_default();
        if let Some(events) = &self.events {
            loss.events = events.loss()?;
        }
        Ok(loss)
    }
}

struct Session {
    output: Output,
    recording: Option<Recording>,
    cancel: Arc<Cancel>,
}

impl Session {
    fn answer(&mut self, request: Request) -> Result<Reply, Failure> {
        match request {
            Request::Facts => Ok(Reply::Facts(Box::new(facts()))),
            Request::Btf(module) => btf(module.as_deref()).map(Reply::Btf),
            Request::Clock => Ok(Reply::Clock(clock::sample())),
            Request::Vms => Ok(Reply::Vms(kvm::vms())),
            Request::Code(parts) => code(&parts).map(Reply::Code),
            Request::Weave(plan) => self.weave(&plan),
            Request::Start => self.start(),
            Request::Loss => {
                let recording = self.recording.as_ref().ok_or_else(|| misuse("nothing is woven"))?;
                Ok(Reply::Loss(recording.loss()?))
            }
            Request::Drain => self.set_state(State::Draining),
            Request::Stop => {
                self.cancel.done();
                self.stop()
            }
            // Never comes here: it has no answer.
            Request::Alive => Ok(Reply::Done),
        }
    }

    fn weave(&mut self, plan: &Plan) -> Result<Reply, Failure> {
        if self.recording.is_some() {
            return Err(misuse("a plan is woven already"));
        }
        let tell = |done, total| {
            let told = FromAgent::Event(Event::Weaving { done, total });
            // That nobody listens any more is seen by whoever reads.
            let _ = frame::write_message(&mut *lock(&self.output), &told);
        };
        let mut told = message::Woven::default();
        let mut sources = Vec::new();
        // These first: they are few, and what advice waits for is not recorded yet.
        let mut events = plan.events.as_ref().map(Events::weave).transpose()?;
        if let Some(events) = &mut events {
            told.left_out = std::mem::take(&mut events.left_out);
            let rings = events.take_rings().into_iter();
            sources.extend(rings.map(|ring| Source { ring, tells: Event::Events }));
        }
        let mut woven = None;
        if !plan.programs.is_empty() {
            let addresses = Addresses::of(plan);
            let mut of_plan = Woven::weave(plan, &addresses, &Watch { cancel: &self.cancel, tell: &tell })?;
            told.skipped = std::mem::take(&mut of_plan.skipped);
            told.sites = addresses.sites(plan);
            sources.push(Source { ring: of_plan.records()?, tells: Event::Records });
            woven = Some(of_plan);
        }
        let drain = Drain::start(sources, Arc::clone(&self.output));
        self.recording = Some(Recording { woven, events, drain });
        Ok(Reply::Woven(told))
    }

    fn start(&mut self) -> Result<Reply, Failure> {
        if self.recording.as_ref().is_none_or(|recording| recording.events.is_none()) {
            return self.set_state(State::On);
        }
        // Nothing that was recorded after this time is sent before the threads that there were then.
        let output = Arc::clone(&self.output);
        let mut output = lock(&output);
        let begins = clock::sample().mono_ns;
        let reply = self.set_state(State::On)?;
        // That nobody listens any more is seen by whoever reads.
        let _ = frame::write_message(&mut *output, &FromAgent::Event(Event::Events(threads(begins))));
        Ok(reply)
    }

    fn set_state(&mut self, state: State) -> Result<Reply, Failure> {
        let recording = self.recording.as_mut().ok_or_else(|| misuse("nothing is woven"))?;
        recording.set_state(state)?;
        Ok(Reply::Done)
    }

    fn stop(&mut self) -> Result<Reply, Failure> {
        let mut recording = self.recording.take().ok_or_else(|| misuse("nothing is woven"))?;
        recording.set_state(State::Off)?;
        wait_for_running_programs();
        let loss = recording.loss();
        let Recording { woven, events, drain } = recording;
        let drained = drain.finish();
        drop(events);
        if let Some(mut woven) = woven {
            woven.unweave();
        }
        drained.map_err(|error| Failure {
            kind: FailureKind::Unsupported,
            message: format!("the ring buffer could not be emptied: {error}"),
        })?;
        Ok(Reply::Stopped(loss?))
    }
}

/// Programs that saw the recording on may still be writing. They run inside RCU read sections, and
/// this system call returns when all sections of now have ended.
fn wait_for_running_programs() {
    const MEMBARRIER_CMD_GLOBAL: i32 = 1;
    // SAFETY: takes integers only. Where it is missing (it is not, on x86-64) nothing happens, and a
    // record too many is left in the buffer.
    unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
}

fn btf(module: Option<&str>) -> Result<Vec<u8>, Failure> {
    let name = module.unwrap_or("vmlinux");
    if name.contains('/') {
        return Err(misuse("a module's name has no slash"));
    }
    let path = format!("{BTF_DIR}/{name}");
    fs::read(&path).map_err(|error| Failure {
        kind: FailureKind::Unsupported,
        message: format!("the kernel's type information cannot be read: {path}: {error}"),
    })
}

fn code(parts: &CodeParts) -> Result<Vec<u8>, Failure> {
    let wanted = |module: Option<&str>| match module {
        None => parts.kernel,
        Some(module) => parts.modules.iter().any(|wanted| wanted == module),
    };
    LiveCode::capture(wanted)
        .map(|code| code.pack())
        .map_err(|error| Failure { kind: FailureKind::Unsupported, message: error.to_string() })
}

fn misuse(message: &str) -> Failure {
    Failure { kind: FailureKind::Misuse, message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn requests_are_answered_in_order_and_misuse_is_told() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let agent = thread::spawn(move || serve(theirs.try_clone().unwrap(), theirs));
        let mut stream = &ours;
        frame::write_preamble(&mut stream).unwrap();
        for request in [Request::Clock, Request::Start, Request::Btf(Some("../x".into()))] {
            frame::write_message(&mut stream, &request).unwrap();
        }
        frame::read_preamble(&mut stream).unwrap();
        let mut next = || match frame::read_message::<FromAgent>(&mut stream).unwrap() {
            FromAgent::Reply(reply) => reply,
            FromAgent::Event(event) => panic!("{event:?} while nothing is recorded"),
        };
        assert!(matches!(next(), Reply::Clock(sample) if sample.mono_ns > 0));
        for _ in 0..2 {
            assert!(matches!(next(), Reply::Failed(Failure { kind: FailureKind::Misuse, .. })));
        }
        drop(ours);
        agent.join().unwrap().unwrap();
    }

    #[test]
    fn another_protocol_is_refused() {
        let output = Vec::new();
        let banner = b"GET / HTTP/1.1\r\n".as_slice();
        assert!(matches!(serve(banner, output), Err(Error::NotXweave(_))));
    }
}
