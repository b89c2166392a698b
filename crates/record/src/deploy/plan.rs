//! Has confined processes read what domains sent, and compile what comes of it; puts the answers together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

use serde::de::DeserializeOwned;
use xweave_aspect::{Aspects, Diagnostic};
use xweave_guard::confine::{Job, Limits, job::Failed, run_counting};
use xweave_text as text;
use xweave_weave::{
    Compiled, Compiler, Draft, Files, Library, Peer, Role, WorkFolder, Woven, each_once, fit, judge, unused,
};

use super::{
    Deployment,
    analysis::{ANALYSER, KeepGoing, deadline},
    indices::{Indices, Unfinished},
    input::Input,
    meter::Meter,
    parcel::{self, Code, Read, Reading},
    types::Types,
    work,
};
use crate::{
    Error, Options, Phase,
    error::{Cause, lines as diagnostics},
};

/// What reading types and writing C takes: a tenth of it.
const READER: Limits = Limits { memory: 1 << 30, seconds: 300, file: 0 };

/// What clang takes for a plan of thousands of join points: a few hundred MiB.
const COMPILER: Limits = Limits { memory: 2 << 30, seconds: 600, file: 64 << 20 };

/// The longest answer of a reader: a draft. One of 10,000 join points has 2 MB.
const DRAFT: usize = 16 << 20;

/// The longest answer of a compiler: an object, and what it said.
const OBJECT: usize = 32 << 20;

/// What is shown of what a compiler said, in bytes; and the most that is made of it.
const LOG: usize = 1 << 20;

/// What all indices of a domain may take on the disk while they are made, in bytes.
const INDICES: u64 = 2 << 30;

/// What all domains are to weave.
pub(crate) fn plans(
    (aspects, library): (&Aspects, &Library<'_>),
    inputs: Vec<Input>,
    options: &Options,
    types: &Types,
    indices: &Indices,
    keep_going: KeepGoing<'_>,
) -> Result<Deployment, Error> {
    let mut inputs = inputs;
    let peers: Vec<Peer> = inputs.iter().map(|input| input.peer.clone()).collect();
    let all = All { aspects, library, peers: &peers, options };
    let mut drafts = all.drafts(&mut inputs, indices, keep_going)?;
    for of in inputs.iter().flat_map(|input| &input.types).filter(|of| !of.is_kept) {
        of.bytes.iter().for_each(|bytes| types.keep(bytes));
    }
    let of_each: Vec<_> = drafts.iter().map(Draft::errors).collect();
    let mut warnings =
        judge(aspects, &peers, &mut drafts).map_err(|errors| blamed(&inputs, &of_each, errors))?;
    let notes = compiled_here(&inputs, &drafts);
    let compiled = all.compile(&inputs, &drafts, &mut warnings, keep_going)?;
    warnings.extend(all.complaints(&mut inputs, &compiled, keep_going)?);

    let of_weaving = xweave_weave::Options {
        first_site: 1,
        buffer: options.buffer,
        flow_table: options.flow_table,
        serial_attach: options.serial_attach,
        cache: PathBuf::new(),
        key: options.events.key.clone(),
    };
    let (mut woven, mut left_out, mut next) = (Vec::new(), Vec::new(), of_weaving.first_site);
    for ((input, mut draft), compiled) in inputs.iter().zip(drafts).zip(compiled) {
        let domain = &input.peer.name;
        let said = std::mem::take(&mut draft.events.left_out);
        left_out.extend(said.into_iter().map(|what| format!("{domain}: {what}")));
        let object = compiled.and_then(|compiled| compiled.object);
        let named = (domain.as_str(), input.number);
        let of_domain = draft.woven(aspects, named, object, library, &of_weaving, &mut next);
        let of_domain = of_domain.map_err(|error| sent(input, error))?;
        left_out.extend(not_there(input, &of_domain));
        woven.push(of_domain);
    }
    let nothing = |woven: &Woven| woven.plan.programs.is_empty() && woven.plan.events.is_none();
    if !options.events.is_empty() && woven.iter().all(nothing) {
        return Err(Error::NoEvents(left_out.join("; ")));
    }
    Ok(Deployment { woven, left_out, notes, warnings: each_once(warnings) })
}

/// Whose mistakes these are, by what is wrong in each domain: the aspects', or, where they fit the hosts and a guest, those of the
/// kernels that other guests say they have.
fn blamed(inputs: &[Input], of_each: &[Vec<Diagnostic>], errors: Vec<Diagnostic>) -> Error {
    let (guests, hosts): (Vec<_>, Vec<_>) =
        inputs.iter().zip(of_each).partition(|(input, _)| input.peer.role == Role::Guest);
    let fits = |(_, wrong): &(&Input, &Vec<Diagnostic>)| wrong.is_empty();
    let misfits = guests.iter().filter(|guest| !fits(guest));
    let misfits = misfits.map(|(input, wrong)| sent(input, diagnostics(&each_once(wrong.to_vec()))));
    match hosts.iter().all(fits) && guests.iter().any(fits) {
        true => Error::of_all(misfits.collect()).unwrap_or(Error::Aspects(errors)),
        false => Error::Aspects(errors),
    }
}

/// Parts of a kernel, none for its image, and where their indices go.
type Parts = [(Option<String>, Unfinished)];

/// What all domains have in common.
struct All<'a> {
    aspects: &'a Aspects,
    library: &'a Library<'a>,
    peers: &'a [Peer],
    options: &'a Options,
}

/// That a kernel lacks what the aspects name and can do without.
fn not_there(input: &Input, woven: &Woven) -> Option<String> {
    let names: BTreeSet<_> = woven.absent.iter().map(|absent| absent.name.as_str()).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let (domain, kernel) = (&woven.domain, &input.release);
    (!names.is_empty())
        .then(|| format!("{domain}: kernel {kernel} has no {names}: what passes there is not seen"))
}

/// For which domains programs are compiled in this recording, though there are such that were compiled before.
fn compiled_here(inputs: &[Input], drafts: &[Draft]) -> Vec<String> {
    let with_reason = inputs.iter().zip(drafts).filter(|(_, draft)| draft.text.is_some());
    let with_reason = with_reason.filter(|(_, draft)| !draft.unfit.is_empty());
    let told = with_reason.map(|(input, draft)| {
        let (domain, kernel, reasons) = (&input.peer.name, &input.release, draft.unfit.join("; "));
        format!(
            "{domain}: programs are compiled for kernel {kernel}, since the library's do not fit: {reasons}"
        )
    });
    told.collect()
}

impl All<'_> {
    /// Has each domain's draft made by a process of its own, side by side.
    fn drafts(
        &self,
        inputs: &mut [Input],
        indices: &Indices,
        keep_going: KeepGoing<'_>,
    ) -> Result<Vec<Draft>, Error> {
        let (mut jobs, mut unfinished, mut meters) = (Vec::new(), Vec::new(), Vec::new());
        for (domain, input) in inputs.iter().enumerate() {
            let mut files = Vec::new();
            if input.code.is_some() {
                let kernel = input.missing.kernel.then_some(None);
                for module in kernel.into_iter().chain(input.missing.modules.iter().cloned().map(Some)) {
                    let file = indices.begin().map_err(|error| sent(input, error))?;
                    files.push((module, file));
                }
            }
            let meter = Meter::new().map_err(|error| sent(input, error))?;
            let job = self.reader(domain, input, Some((&files, &meter)), None);
            jobs.push(job.map_err(|error| sent(input, error))?);
            if !files.is_empty() {
                meters.push((input.peer.name.clone(), meter));
            }
            unfinished.push(files);
        }
        let total = jobs.len();
        let mut within = |done: usize| {
            let parts: Vec<_> = meters.iter().map(|(domain, meter)| meter.of(domain)).collect();
            let phase = match meters.iter().all(|(_, meter)| meter.has_ended()) {
                true => Phase::Resolving { done, total },
                false => Phase::Analysing { parts: &parts },
            };
            unfinished.iter().all(|files| on_disk(files) <= INDICES) && keep_going(phase)
        };
        let answers = run_counting(jobs, &mut within);
        if let Some((_, input)) = unfinished.iter().zip(&*inputs).find(|(files, _)| on_disk(files) > INDICES)
        {
            return Err(sent(input, format!("the indices of its code take more than {} MiB", INDICES >> 20)));
        }
        let mut drafts = Vec::new();
        for ((answer, input), files) in answers.into_iter().zip(inputs).zip(unfinished) {
            match answered::<Read>(answer).map_err(|error| failed(input, error))? {
                Read::Draft(draft, indexed) => {
                    for (module, file) in files.into_iter().filter(|(module, _)| indexed.contains(module)) {
                        input.keep_index(module, file);
                    }
                    indices.prune();
                    drafts
                        .push(draft.checked(self.aspects, self.library).map_err(|error| sent(input, error))?);
                }
                Read::Unusable(reason) => {
                    return Err(sent(input, format!("what it sent is of no use: {}", shown(&reason))));
                }
                Read::DamagedIndex(module) => {
                    let damaged = input.indices.iter().find(|index| index.module == module);
                    let path = damaged.map(|index| index.path.clone()).unwrap_or_default();
                    // It will be made anew.
                    let _ = std::fs::remove_file(&path);
                    let reason =
                        format!("the index {} was damaged, and is removed: start again", path.display());
                    return Err(sent(input, reason));
                }
                Read::Complaints(_) => return Err(sent(input, "its reader answers another question")),
            }
        }
        Ok(drafts)
    }

    /// The job of reading what a domain sent. `made` is where its indices go, and how far they are; `log` is what the compiler said of its
    /// draft, which was made then, and whether it failed.
    fn reader(
        &self,
        domain: usize,
        input: &Input,
        made: Option<(&Parts, &Meter)>,
        log: Option<(String, bool)>,
    ) -> std::io::Result<Job> {
        let types = || input.types.iter().filter_map(|types| Some((&types.module, types.bytes.as_deref()?)));
        let made = made.filter(|(files, _)| !files.is_empty());
        let code = input.code.as_deref().filter(|_| made.is_some());
        let mut handed: Vec<OwnedFd> = Vec::new();
        let mut hand = |file: &File| -> std::io::Result<i32> {
            handed.push(file.try_clone()?.into());
            Ok(handed.last().map_or(-1, AsRawFd::as_raw_fd))
        };
        let mut indices = Vec::new();
        for index in &input.indices {
            indices.push((index.module.clone(), hand(&index.file)?));
        }
        let mut analysed = None;
        if let (Some(code), Some((files, meter))) = (code, made) {
            let mut wanted = Vec::new();
            for (module, unfinished) in files {
                wanted.push((module.clone(), hand(&unfinished.file)?));
            }
            let (of_meter, meter) = meter.hand()?;
            handed.push(of_meter);
            analysed = Some(Code { length: code.len() as u64, wanted, meter });
        }
        let reading = Reading {
            aspects: self.aspects.sources.clone(),
            objects: self.library.own.to_vec(),
            compile_here: self.options.compile_here,
            peers: self.peers.to_vec(),
            domain,
            number: input.number,
            release: input.release.clone(),
            events: self.options.events.clone(),
            types: types().map(|(module, bytes)| (module.clone(), bytes.len() as u64)).collect(),
            indices,
            code: analysed,
            log,
        };
        let bytes: Vec<&[u8]> = types().map(|(_, bytes)| bytes).chain(code).collect();
        let limits = if code.is_some() || !reading.indices.is_empty() { ANALYSER } else { READER };
        let mut job = Job::new("reading what it sent", &["confined", "read"], limits, deadline(limits));
        job.input = Some(parcel::pack(&reading, &bytes)?);
        job.environment = work::environment();
        job.handed = handed;
        job.most = DRAFT;
        Ok(job)
    }

    /// Compiles the C of all drafts that have some: what several domains have in common, once.
    fn compile(
        &self,
        inputs: &[Input],
        drafts: &[Draft],
        warnings: &mut Vec<Diagnostic>,
        keep_going: KeepGoing<'_>,
    ) -> Result<Vec<Option<Compiled>>, Error> {
        let mut texts: Vec<(usize, Files<'_>)> = Vec::new();
        for (domain, draft) in drafts.iter().enumerate() {
            if let Some(text) = &draft.text {
                texts.push((domain, text.files(self.aspects).map_err(compiling)?));
            }
        }
        let mut compiled: Vec<Option<Compiled>> = vec![None; drafts.len()];
        let Some((first, _)) = texts.first() else { return Ok(compiled) };
        let compiler = Compiler::find().map_err(|error| match error {
            xweave_weave::Error::NoCompiler => no_compiler(&inputs[*first], &drafts[*first]),
            error => compiling(error),
        })?;
        let cache = self.options.cache.join("advice");
        let keys: Vec<String> = texts.iter().map(|(_, files)| compiler.key(files)).collect();
        let mut known: BTreeMap<&str, Compiled> = BTreeMap::new();
        let mut wanted: BTreeMap<&str, &Files<'_>> = BTreeMap::new();
        for (key, (_, files)) in keys.iter().zip(&texts) {
            match Compiled::kept(key, &cache) {
                Ok(Some(kept)) => drop(known.insert(key, kept)),
                Ok(None) => drop(wanted.insert(key, files)),
                Err(reason) => {
                    warnings.push(unused(&reason));
                    wanted.insert(key, files);
                }
            }
        }
        let (mut jobs, mut folders) = (Vec::new(), Vec::new());
        for files in wanted.values() {
            let folder = WorkFolder::new(&cache).map_err(compiling)?;
            jobs.push(compiler_job(files, &folder).map_err(compiling)?);
            folders.push(folder);
        }
        let total = jobs.len();
        let mut going = |done| keep_going(Phase::Compiling { done, total });
        for (answer, key) in run_counting(jobs, &mut going).into_iter().zip(wanted.into_keys()) {
            // What only guests have compiled, one of them has made so that it cannot be.
            let of =
                texts.iter().zip(&keys).find(|(_, of)| of.as_str() == key).map(|((domain, _), _)| *domain);
            let of_guest = of.map(|domain| &inputs[domain]).filter(|input| input.peer.role == Role::Guest);
            let mut answer = answered::<Compiled>(answer).map_err(|error| match (error, of_guest) {
                (Failed::Interrupted, _) => Error::Interrupted { woven: false },
                (error, Some(input)) => sent(input, error),
                (error, None) => compiling(error),
            })?;
            text::cut(&mut answer.log, LOG);
            // A full disk here must not stop a recording that goes elsewhere.
            let _ = answer.keep(key, &cache);
            known.insert(key, answer);
        }
        for ((domain, _), key) in texts.iter().zip(&keys) {
            compiled[*domain] = known.get(key.as_str()).cloned();
        }
        Ok(compiled)
    }

    /// What the compiler says about the users' code: warnings. What its words mean is known where the domain's types
    /// are.
    fn complaints(
        &self,
        inputs: &mut [Input],
        compiled: &[Option<Compiled>],
        keep_going: KeepGoing<'_>,
    ) -> Result<Vec<Diagnostic>, Error> {
        let (mut jobs, mut of) = (Vec::new(), Vec::new());
        for (domain, compiled) in compiled.iter().enumerate() {
            let Some(Compiled { object, log }) = compiled else { continue };
            if object.is_none() || !log.is_empty() {
                let input = &inputs[domain];
                let log = Some((log.clone(), object.is_none()));
                jobs.push(self.reader(domain, input, None, log).map_err(|error| sent(input, error))?);
                of.push((domain, object.is_none()));
            }
        }
        let (mut warnings, mut errors) = (Vec::new(), Vec::new());
        let mut of_each: Vec<Vec<Diagnostic>> = vec![Vec::new(); inputs.len()];
        let total = jobs.len();
        let mut going = |done| keep_going(Phase::Resolving { done, total });
        for (answer, (domain, failing)) in run_counting(jobs, &mut going).into_iter().zip(of) {
            let input = &inputs[domain];
            let Read::Complaints(said) = answered::<Read>(answer).map_err(|error| failed(input, error))?
            else {
                return Err(sent(input, "its reader answers another question"));
            };
            let said = said.into_iter().map(|said| fit(said, self.aspects));
            if failing {
                of_each[domain].extend(said);
                errors.extend(of_each[domain].iter().cloned());
            } else {
                warnings.extend(said.map(|said| said.as_warning()));
            }
        }
        if errors.is_empty() { Ok(warnings) } else { Err(blamed(inputs, &of_each, each_once(errors))) }
    }
}

impl Input {
    /// Keeps an index that was made of its code, for itself alone; it is used again in this recording.
    fn keep_index(&mut self, module: Option<String>, made: Unfinished) {
        // What has no name is made anew the next time, and so is what cannot be kept.
        if let Some(name) = self.index_name_of(module.as_deref())
            && let Ok((file, path)) = made.keep(&name)
        {
            self.indices.push(super::input::IndexOf { module, file, path });
        }
    }
}

fn compiler_job(files: &Files<'_>, folder: &WorkFolder) -> std::io::Result<Job> {
    let mut job = Job::new("compiling advice", &["confined", "compile"], COMPILER, deadline(COMPILER));
    job.input = Some(parcel::pack(files, &[])?);
    job.environment = work::environment();
    folder.path().clone_into(&mut job.folder);
    job.most = OBJECT;
    Ok(job)
}

fn on_disk(files: &Parts) -> u64 {
    files.iter().map(|(_, made)| made.file.metadata().map_or(0, |about| about.len())).sum()
}

/// The message that a job's answer is.
fn answered<T: DeserializeOwned>(answer: Result<Vec<u8>, Failed>) -> Result<T, Failed> {
    postcard::from_bytes(&answer?).map_err(|error| Failed::Ended {
        what: "reading what it sent".to_owned(),
        how: format!("its answer cannot be understood: {error}"),
        source: Some(error.into()),
    })
}

fn failed(input: &Input, error: Failed) -> Error {
    match error {
        Failed::Interrupted => Error::Interrupted { woven: false },
        error => sent(input, error),
    }
}

fn sent(input: &Input, reason: impl Into<Cause>) -> Error {
    Error::Sent { domain: input.peer.name.clone(), reason: reason.into() }
}

/// That there is no compiler, and what it would be needed for.
fn no_compiler(input: &Input, draft: &Draft) -> Error {
    let (domain, kernel) = (input.peer.name.clone(), &input.release);
    let why = match &draft.unfit[..] {
        [] => "these aspects are not compiled yet".to_owned(),
        unfit => {
            let reasons = unfit.join("; ");
            format!("the compiled programs of these aspects do not fit {domain} (kernel {kernel}): {reasons}")
        }
    };
    Error::NoCompiler { why, domain }
}

fn compiling(reason: impl Into<Cause>) -> Error {
    Error::Compiling(reason.into())
}

fn shown(reason: &str) -> String {
    text::lines_cut(reason, xweave_wire::limits::MESSAGE)
}

/// The table of docs/confinement.md. What the machine can give is looked at when a job is started.
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use xweave_wire::message::DomainInfo;

    use super::*;
    use crate::{Budget, DomainSpec, Until, deploy::input::IndexOf, recording, scripted};

    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;

    /// Of a guest of which nothing is known yet.
    fn of_guest() -> Input {
        let facts = DomainInfo { kernel: "6.12.0".to_owned(), ..DomainInfo::default() };
        Input::new(&DomainSpec::parse("vm1=vsock:3").unwrap(), 1, &facts, &Types::new("/nowhere".as_ref()))
    }

    fn assert_is(job: &Job, work: &str, limits: Limits, most: usize) {
        assert_eq!(job.arguments, ["confined", work]);
        assert_eq!((job.limits, job.most), (limits, most));
        // Jobs may have to share their processors.
        assert_eq!(job.deadline, Duration::from_secs(2 * limits.seconds));
    }

    #[test]
    fn types_and_code_are_read_within_the_documented_limits() {
        let cache = tempfile::tempdir().unwrap();
        let options = scripted::options(cache.path(), &["vm1"], Until::Interrupted, Budget::default());
        let (aspects, library) = (Aspects::default(), recording::library(&[], false));
        let all = All { aspects: &aspects, library: &library, peers: &[], options: &options };
        let of_types = Limits { memory: GIB, seconds: 300, file: 0 };
        let of_code = Limits { memory: 6 * GIB, seconds: 3600, file: 512 * MIB };

        let mut guest = of_guest();
        assert_is(&all.reader(0, &guest, None, None).unwrap(), "read", of_types, 16 << 20);
        let indices = Indices::new(cache.path());
        let (files, meter) = ([(None, indices.begin().unwrap())], Meter::new().unwrap());
        guest.code = Some(b"code".to_vec());
        let made = || Some((&files[..], &meter));
        assert_is(&all.reader(0, &guest, made(), None).unwrap(), "read", of_code, 16 << 20);
        // What the compiler said is looked at without the code.
        let said = || Some(("error".to_owned(), true));
        assert_is(&all.reader(0, &guest, None, said()).unwrap(), "read", of_types, 16 << 20);
        // An index that was made before is of code, too.
        let (file, path) = indices.begin().unwrap().keep("known.index").unwrap();
        guest.indices.push(IndexOf { module: None, file, path });
        assert_is(&all.reader(0, &guest, None, said()).unwrap(), "read", of_code, 16 << 20);
    }

    #[test]
    fn indices_of_a_domain_are_measured_together() {
        let cache = tempfile::tempdir().unwrap();
        let indices = Indices::new(cache.path());
        let files = [3, 4].map(|mib| {
            let made = indices.begin().unwrap();
            made.file.set_len(mib * MIB).unwrap();
            (None, made)
        });
        assert_eq!(on_disk(&files), 7 * MIB);
        assert_eq!(INDICES, 2 * GIB);
    }

    #[test]
    fn advice_is_compiled_within_the_documented_limits() {
        let cache = tempfile::tempdir().unwrap();
        let folder = WorkFolder::new(&cache.path().join("advice")).unwrap();
        let files: Files<'_> = vec![("advice.c".to_owned(), "int x;")];
        let job = compiler_job(&files, &folder).unwrap();
        let limits = Limits { memory: 2 * GIB, seconds: 600, file: 64 * MIB };
        assert_is(&job, "compile", limits, 32 << 20);
        assert_eq!(job.folder, folder.path());
    }
}
