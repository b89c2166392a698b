//! What Xen recorded, as part of a trace that was recorded meanwhile.

use std::path::Path;

use xweave_trace::{
    Clock, Domain, DomainVm, DomainXen, Event, Manifest, Method, Role, TimeSpan, Trace, TscLine, Writer,
    event::Name,
};

use crate::{
    clocks::Part,
    error::{Error, ErrorKind},
    import::{self, File, Options, Outcome},
    sink::Sink,
    xen,
};

/// What came of adding a file.
#[derive(Clone, Debug)]
pub struct Addition {
    /// What came of the file.
    pub outcome: Outcome,
    /// What the trace says then.
    pub manifest: Manifest,
}

/// Writes events as long as that is wanted.
struct Watched<'w> {
    writer: &'w mut Writer,
    goes_on: &'w dyn Fn() -> bool,
}

impl Sink for Watched<'_> {
    fn name(&mut self, text: &str) -> Name {
        self.writer.name(text)
    }

    fn event(&mut self, event: Event) -> Result<(), Error> {
        Ok(self.writer.event(event)?)
    }

    fn goes_on(&mut self) -> Result<(), Error> {
        match (self.goes_on)() {
            true => Ok(()),
            false => {
                Err(Error::new(ErrorKind::Interrupted, "it was interrupted, and the trace is as it was"))
            }
        }
    }
}

/// Makes what the file of xentrace tells a domain `xen` of the trace in the directory `dir`, which was recorded on that host
/// meanwhile: the domains of Xen's in the trace have their vCPUs then. If that cannot be done, the trace stays as it was.
///
/// Damage to the file is no failure if its records can be read: [`Outcome::damage`]. It is asked now and then whether it
/// `goes_on`.
///
/// # Errors
/// The file is none of xentrace, or damaged; the trace is none that Xen's records can be placed in, or cannot be written.
pub fn add(
    file: &Path,
    dir: &Path,
    options: &Options,
    goes_on: &dyn Fn() -> bool,
) -> Result<Addition, Error> {
    let trace = Trace::open(dir)?;
    let manifest = trace.manifest();
    let (reference, line) = line(manifest).map_err(|e| e.of(dir))?;
    let reference = reference.to_owned();
    let domids = domids(manifest, options).map_err(|e| e.of(dir))?;
    let opened = File::beside(file, line)?;
    let hostname = manifest.domains.iter().find(|domain| domain.name == reference);
    let domain = Domain {
        name: xen::NAME.to_owned(),
        role: Role::Host,
        hostname: hostname.map(|domain| domain.hostname.clone()).unwrap_or_default(),
        tsc_hz: opened.options().tsc_hz,
        ..Domain::default()
    };
    let clock = Clock {
        domain: xen::NAME.to_owned(),
        method: Method::CommonTsc,
        error_ns: line.error_ns.saturating_add(1),
        samples: line.points.len() as u64,
        detail: format!("Xen's records have the TSC that {reference} reads"),
        ..Clock::default()
    };
    let mut writer = Writer::extend(dir, domain, clock, options.force)?;
    let manifest = writer.manifest();
    let added = manifest.domains.last().cloned().zip(manifest.clocks.last().cloned());
    let parts: Vec<Part> = added.map(|(domain, clock)| Part::of(domain, clock)).into_iter().collect();
    let mut out = Watched { writer: &mut writer, goes_on };
    let (mut outcome, span) = match import::events(&[opened], &parts, &mut out) {
        Ok(came) => came,
        Err(error) => {
            // What went wrong first is what there is to know.
            let _ = writer.withdraw();
            return Err(error);
        }
    };
    let manifest = writer.manifest_mut();
    outcome.warnings.extend(restored(manifest));
    outcome.tell(manifest);
    if let Some(TimeSpan { from: first, to: last }) = span {
        (manifest.start_ns, manifest.end_ns) = (manifest.start_ns.min(first), manifest.end_ns.max(last));
    }
    for domain in &mut manifest.domains {
        let Some((_, domid)) = domids.iter().find(|(name, _)| *name == domain.name) else { continue };
        let vm = DomainVm { host: xen::NAME.to_owned(), pid: xen::process(*domid), cid: None };
        domain.vm.get_or_insert(vm);
        if domain.role == Role::Guest && domain.xen.is_none() {
            domain.xen = Some(DomainXen { host: reference.clone(), domid: *domid, since: None });
        }
    }
    Ok(Addition { manifest: writer.finish()?, outcome })
}

/// Who is the trace's reference, and what its TSC was.
fn line(manifest: &Manifest) -> Result<(&str, &TscLine), Error> {
    let clock = manifest.clocks.iter().find(|clock| clock.domain == manifest.reference);
    clock.and_then(|clock| Some((&*clock.domain, clock.tsc.as_ref()?))).ok_or_else(|| {
        let what = "does not tell what the TSC was when, which Xen's records have times of: a recording does if its first \
                    domain is the paravirtual dom0 of that host, whose clock did not jump";
        Error::new(ErrorKind::Foreign, what)
    })
}

/// Which of Xen's domains those of a trace are.
fn domids(manifest: &Manifest, options: &Options) -> Result<Vec<(String, u16)>, Error> {
    let given = options.domids.iter().map(|(name, domid)| {
        let name = name.to_string_lossy();
        if manifest.domains.iter().any(|domain| domain.name == name) {
            return Ok((name.into_owned(), *domid));
        }
        let what =
            format!("has no domain {name}: with --into, --domid takes the name of one that was recorded");
        Err(Error::new(ErrorKind::Foreign, what))
    });
    let mut all = given.collect::<Result<Vec<_>, _>>()?;
    for domain in &manifest.domains {
        let Some(of) = &domain.xen else { continue };
        if of.since.is_none() {
            all.push((domain.name.clone(), of.domid));
        }
        // Who serves it.
        all.push((of.host.clone(), 0));
    }
    Ok(all)
}

/// What there is to know of guests that were other domains at the end: a machine of the trace is one.
fn restored(manifest: &Manifest) -> Vec<String> {
    let told = manifest.domains.iter().filter_map(|domain| {
        let (domid, since) = (domain.xen.as_ref()?.domid, domain.xen.as_ref()?.since?);
        Some(format!(
            "{}: it was restored, and was domain {domid} of Xen first, {since} then: what Xen tells of these is not taken for \
             what it tells of its CPUs",
            domain.name
        ))
    });
    told.collect()
}
