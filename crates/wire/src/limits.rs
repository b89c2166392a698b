//! What a controller takes of an agent: a domain may be hostile, and is checked here before anyone else sees its words.
//!
//! [`crate::frame`] has bounded the bytes of a message; this bounds what they say. Texts are made fit to be
//! shown and cut to their longest; what cannot be mended so is refused. What only a recording can judge (whose site,
//! whose flow) is judged there.

use std::collections::HashSet;

use xweave_text as text;

use crate::{
    bounded, knob,
    message::{
        DomainInfo, Event, FromAgent, Loss, ModuleInfo, Reply, SHARED_PAGES, Settings, Shared, Symbol, Vm,
        Woven,
    },
    pages::{self, Amount, CachedFile, LookedAt},
};

/// The longest frame, but for those that follow: an agent sends records in batches of a quarter of it.
pub const FRAME: u32 = 1 << 20;

/// The longest answer to a plan: every site may be told with a reason.
pub const WOVEN_FRAME: u32 = 16 << 20;

/// The longest answer that has a kernel's types or code in it. A kernel's code is the largest honest one (20 MB,
/// packed); no frame is longer in either direction.
pub const LARGE_FRAME: u32 = 64 << 20;

/// Bytes of a name: `uname -n` has 64, a module's 56, a function's 512 (`include/linux/utsname.h`, `module.h`,
/// `kallsyms.h`, 6.12).
pub const NAME: usize = 64;

/// Bytes of a function's name.
pub const FUNCTION: usize = 512;

/// Bytes of a sentence for people, such as why a site was skipped.
pub const REASON: usize = 1024;

/// Bytes of a message for people: the last lines of the verifier's log.
pub const MESSAGE: usize = 16 << 10;

/// Hexadecimal digits of an identity: SHA-256 has 64, a build ID 40.
pub const IDENTITY: usize = 64;

/// Modules, virtual machines, disks: of each.
pub const ITEMS: usize = 4096;

/// Processors of a domain, and of a virtual machine (`NR_CPUS` is 8192 at most).
pub const CPUS: usize = 8192;

/// cpufreq governors that a domain's processors have: Linux has six.
pub const GOVERNORS: usize = 16;

/// Network devices of a domain.
pub const NICS: usize = 256;

/// BPF objects of a plan.
pub const OBJECTS: usize = 16;

/// Sites of a plan, and losses that are told by site.
pub const SITES: usize = bounded::SITES;

/// Domains of a recording: their numbers are a byte, and not 0.
pub const DOMAINS: usize = 255;

/// Addresses whose functions are asked for: where a kernel drops packets there are some hundreds of.
pub const SYMBOLS: usize = 1024;

/// Built-in probes of events: there are some fifty.
pub const PROBES: usize = 256;

/// Flows whose losses are told one by one: twice what the prelude's table holds.
pub const FLOWS: usize = 32 << 10;

/// What an agent said that no agent of ours says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it {0}")]
pub struct Violation(pub String);

impl FromAgent {
    /// Bounds what is said, and makes its texts fit to be shown.
    ///
    /// # Errors
    /// What it says that cannot be.
    pub fn checked(mut self) -> Result<Self, Violation> {
        match &mut self {
            Self::Reply(reply) => check_reply(reply)?,
            Self::Event(Event::Cached(files)) => check_cached(files)?,
            // How much of these comes, and what is in them, is judged where they are decoded.
            Self::Event(
                Event::Weaving { .. }
                | Event::Records(_)
                | Event::Events(_)
                | Event::Xentrace(_)
                | Event::Clock(_),
            ) => {}
        }
        Ok(self)
    }
}

fn check_reply(reply: &mut Reply) -> Result<(), Violation> {
    match reply {
        Reply::DomainInfo(facts) => check_facts(facts),
        Reply::Vms(vms) => check_vms(vms),
        Reply::Symbols(symbols) => check_symbols(symbols),
        Reply::Woven(woven) => check_woven(woven),
        Reply::Shared(shared) => check_shared(shared),
        Reply::XenMarked { reason } | Reply::Watching { reason, .. } => {
            reason.iter_mut().for_each(|reason| bound(reason, REASON));
            Ok(())
        }
        Reply::XenGuests { domids, reason } => {
            reason.iter_mut().for_each(|reason| bound(reason, REASON));
            at_most("guests of Xen", domids.len(), DOMAINS)?;
            once("domain of Xen", domids.iter().flatten().copied().map(u32::from))
        }
        Reply::Loss(loss) | Reply::Stopped(loss) => check_loss(loss),
        Reply::Knobs(knobs) => check_knobs(knobs),
        Reply::LookedAt(LookedAt { cut, .. }) => {
            cut.iter_mut().for_each(|reason| bound(reason, REASON));
            Ok(())
        }
        Reply::Failed(failure) => {
            failure.message = text::lines_cut(&failure.message, MESSAGE);
            Ok(())
        }
        Reply::Btf(_) | Reply::Code(_) | Reply::Clock(_) | Reply::Done => Ok(()),
    }
}

fn check_facts(facts: &mut DomainInfo) -> Result<(), Violation> {
    for name in
        [&mut facts.agent, &mut facts.hostname, &mut facts.kernel, &mut facts.boot_id, &mut facts.vendor]
    {
        bound(name, NAME);
    }
    at_most("CPUs", facts.processors.len(), CPUS)?;
    once("CPU", facts.processors.iter().map(|processor| processor.cpu))?;
    once("APIC ID", facts.processors.iter().map(|processor| processor.apic_id))?;
    identity("its kernel's build ID", &facts.build_id)?;
    identity("the hash of its kernel's types", &facts.btf_sha256)?;
    at_most("modules", facts.modules.len(), ITEMS)?;
    for ModuleInfo { name, btf_sha256, build_id } in &facts.modules {
        module(name)?;
        identity("a hash of a module's types", btf_sha256)?;
        identity("a module's build ID", build_id)?;
    }
    check_vms(&mut facts.vms)?;
    at_most("disks", facts.disks.len(), ITEMS)?;
    at_most("recorders", facts.recorders.len(), ITEMS)?;
    facts.disks.iter_mut().for_each(|disk| bound(&mut disk.name, NAME));
    check_settings(&mut facts.settings)
}

fn check_settings(settings: &mut Settings) -> Result<(), Violation> {
    at_most("cpufreq governors", settings.governors.len(), GOVERNORS)?;
    if !settings.governors.iter().all(|governor| knob::is_word(governor)) {
        return Err(Violation("has a cpufreq governor that is called as none is".to_owned()));
    }
    at_most("network devices", settings.nics.len(), NICS)?;
    settings.nics.iter_mut().for_each(|nic| bound(&mut nic.name, NAME));
    Ok(())
}

fn check_vms(vms: &mut [Vm]) -> Result<(), Violation> {
    at_most("virtual machines", vms.len(), ITEMS)?;
    for vm in vms {
        [&mut vm.comm, &mut vm.name].into_iter().for_each(|name| bound(name, NAME));
        at_most("CPUs of a virtual machine", vm.tsc_offsets.len(), CPUS)?;
        at_most("back ends of a virtual machine", vm.back_ends.len(), ITEMS)?;
        if vm.tsc_scaling.1 >= 64 {
            return Err(Violation(format!("scales a TSC by a fraction of {} bits", vm.tsc_scaling.1)));
        }
    }
    Ok(())
}

fn check_symbols(symbols: &mut [Symbol]) -> Result<(), Violation> {
    at_most("symbols", symbols.len(), SYMBOLS)?;
    for symbol in symbols {
        bound(&mut symbol.function, FUNCTION);
        symbol.module.as_deref().map_or(Ok(()), module)?;
    }
    Ok(())
}

fn check_woven(woven: &mut Woven) -> Result<(), Violation> {
    at_most("sites", woven.sites.len(), SITES)?;
    at_most("skipped sites", woven.skipped.len(), SITES)?;
    at_most("probes of events that it left out", woven.left_out.len(), PROBES)?;
    once("site", woven.sites.iter().map(|site| site.site))?;
    once("skipped site", woven.skipped.iter().map(|skipped| skipped.site))?;
    woven.skipped.iter_mut().for_each(|skipped| bound(&mut skipped.reason, REASON));
    at_most("clones of functions", woven.clones.len(), SITES)?;
    woven.clones.iter_mut().for_each(|clone| bound(&mut clone.name, FUNCTION));
    for left in &mut woven.left_out {
        bound(&mut left.function, FUNCTION);
        bound(&mut left.reason, REASON);
    }
    Ok(())
}

fn check_shared(shared: &mut Shared) -> Result<(), Violation> {
    /// Bits of a physical address.
    const PHYSICAL: u32 = 52;
    if !matches!(shared.pages.len(), 0 | SHARED_PAGES) {
        let (count, pages) = (shared.pages.len(), SHARED_PAGES);
        return Err(Violation(format!("shares {count} pages, of which there are {pages}, or none")));
    }
    if let Some(page) = shared.pages.iter().find(|page| *page % 4096 != 0 || *page >> PHYSICAL != 0) {
        return Err(Violation(format!("shares a page at {page:#x}, where none can be")));
    }
    shared.reason.iter_mut().for_each(|reason| bound(reason, REASON));
    Ok(())
}

fn check_loss(loss: &mut Loss) -> Result<(), Violation> {
    at_most("sites with losses", loss.sites.len(), SITES)?;
    at_most("flows with losses", loss.flows.len(), FLOWS)?;
    at_most("kinds of events with losses", loss.events.len(), ITEMS)?;
    at_most("unloaded modules", loss.unloaded.len(), ITEMS)?;
    once("site with losses", loss.sites.iter().map(|site| site.site))?;
    loss.unloaded.iter().try_for_each(|unloaded| module(&unloaded.module))
}

fn check_knobs(knobs: &mut [knob::State]) -> Result<(), Violation> {
    at_most("settings", knobs.len(), ITEMS)?;
    for knob in knobs {
        knob.vm.iter_mut().for_each(|vm| bound(vm, NAME));
        bound(&mut knob.value, knob::VALUE);
        at_most("choices of a setting", knob.choices.len(), ITEMS)?;
        knob.choices.iter_mut().for_each(|choice| bound(choice, knob::VALUE));
        knob.unavailable.iter_mut().for_each(|reason| bound(reason, REASON));
    }
    Ok(())
}

/// How much of them comes in all is judged where they are kept.
fn check_cached(files: &mut [CachedFile]) -> Result<(), Violation> {
    let of_all = files.iter().fold(Amount::default(), |sum, file| sum.plus(Amount::of(file)));
    if !of_all.is_within(pages::MOST) {
        return Err(Violation("names more cached files and pages than may be".to_owned()));
    }
    for file in files {
        bound(&mut file.path, pages::PATH);
        let mut behind = 0;
        for run in &file.runs {
            if run.pages == 0 || run.first < behind || run.end() > pages::FILE {
                return Err(Violation("names cached pages that no file has so".to_owned()));
            }
            behind = run.end();
        }
        for (told, what) in [(&file.contents, "what they hold"), (&file.frames, "where they lie")] {
            if !told.is_empty() && told.len() as u64 != file.pages() {
                return Err(Violation(format!("tells of some pages of a file {what}, and not of all")));
            }
        }
    }
    Ok(())
}

fn at_most(what: &str, count: usize, most: usize) -> Result<(), Violation> {
    if count <= most {
        Ok(())
    } else {
        Err(Violation(format!("names {count} {what}, of which {most} may be")))
    }
}

/// Nothing is told twice: each has its place in the trace's manifest, which must not become longer than it is read.
fn once(what: &str, numbers: impl Iterator<Item = u32>) -> Result<(), Violation> {
    let mut seen = HashSet::new();
    match numbers.into_iter().find(|number| !seen.insert(*number)) {
        None => Ok(()),
        Some(twice) => Err(Violation(format!("names {what} {twice} twice"))),
    }
}

/// Of hexadecimal digits, or empty: identities become parts of questions and of names in caches.
fn identity(what: &str, id: &str) -> Result<(), Violation> {
    if id.len() <= IDENTITY && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    let shown = text::printable_bytes(id.as_bytes(), NAME);
    Err(Violation(format!("sent as {what} `{shown}`, which is not {IDENTITY} hexadecimal digits at most")))
}

/// As the kernel names modules: a file's name without its extension, `-` as `_`.
fn module(name: &str) -> Result<(), Violation> {
    let well = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if (1..=NAME).contains(&name.len()) && name.bytes().all(well) {
        return Ok(());
    }
    let shown = text::printable_bytes(name.as_bytes(), NAME);
    Err(Violation(format!("names a module `{shown}`, which no module is called")))
}

fn bound(name: &mut String, most: usize) {
    *name = text::printable_bytes(name.as_bytes(), most);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Failure, FailureKind, Processor, SiteAddress, SiteLoss, SkippedSite};

    fn facts(change: impl FnOnce(&mut DomainInfo)) -> Result<FromAgent, Violation> {
        let mut facts = DomainInfo::default();
        change(&mut facts);
        FromAgent::Reply(Reply::DomainInfo(Box::new(facts))).checked()
    }

    #[test]
    fn identities_are_hex_of_bounded_length_or_refused() {
        assert!(facts(|facts| facts.build_id = "ab".repeat(20)).is_ok());
        assert!(facts(|facts| facts.build_id.clear()).is_ok());
        assert!(facts(|facts| facts.settings.governors.push("conservative".to_owned())).is_ok());
        for wrong in ["", "x\u{1b}", "sixteen-letters-x"] {
            assert!(facts(|facts| facts.settings.governors.push(wrong.to_owned())).is_err(), "{wrong:?}");
        }
        assert!(facts(|facts| facts.settings.governors = vec!["x".to_owned(); GOVERNORS + 1]).is_err());
        assert!(facts(|facts| facts.settings.nics = vec![crate::message::Nic::default(); NICS + 1]).is_err());
        for wrong in ["../../../etc/cron.d/x", "ab cd", "g0", &"a".repeat(65)] {
            let refused = facts(|facts| facts.build_id = wrong.to_owned()).unwrap_err();
            assert!(refused.to_string().contains("build ID"), "{refused}");
            let module = |build_id: &str, hash: &str| ModuleInfo {
                name: "tun".into(),
                btf_sha256: hash.into(),
                build_id: build_id.into(),
            };
            assert!(facts(|facts| facts.modules.push(module(wrong, ""))).is_err());
            assert!(facts(|facts| facts.modules.push(module("", wrong))).is_err());
            assert!(facts(|facts| facts.btf_sha256 = wrong.to_owned()).is_err());
        }
    }

    #[test]
    fn names_are_no_paths_and_no_escapes() {
        for wrong in ["", "../vmlinux", "a/b", "a\u{1b}[2J", &"m".repeat(65)] {
            let module = ModuleInfo { name: wrong.into(), ..ModuleInfo::default() };
            assert!(facts(|facts| facts.modules.push(module)).is_err(), "{wrong:?}");
        }
        let Ok(FromAgent::Reply(Reply::DomainInfo(facts))) =
            facts(|facts| facts.kernel = format!("6.1\u{1b}]0;x\u{7}{}", "y".repeat(500)))
        else {
            panic!("a release is shown, not refused")
        };
        assert!(facts.kernel.len() <= NAME && facts.kernel.starts_with("6.1\\u{1b}]0;x\\u{7}y"));
    }

    #[test]
    fn numbers_are_bounded() {
        assert!(facts(|facts| facts.modules = vec![ModuleInfo::default(); ITEMS + 1]).is_err());
        let vm = |processors, fraction| Vm {
            tsc_offsets: vec![0; processors],
            tsc_scaling: (1, fraction),
            ..Vm::default()
        };
        assert!(facts(|facts| facts.vms = vec![vm(2, 48)]).is_ok());
        assert!(facts(|facts| facts.vms = vec![vm(CPUS + 1, 0)]).is_err());
        let processors = |ids: &[(u32, u32)]| {
            let processors: Vec<_> = ids.iter().map(|&(cpu, apic_id)| Processor { cpu, apic_id }).collect();
            facts(|facts| facts.processors = processors)
        };
        assert!(processors(&[(0, 0), (3, 4)]).is_ok());
        assert!(processors(&[(0, 0), (0, 4)]).is_err() && processors(&[(0, 4), (1, 4)]).is_err());
        assert!(facts(|facts| facts.processors = vec![Processor::default(); CPUS + 1]).is_err());
        assert!(facts(|facts| facts.vms = vec![vm(1, 64)]).is_err());
        let told = |vms| FromAgent::Reply(Reply::Vms(vms)).checked();
        assert!(told(vec![vm(2, 48)]).is_ok());
        assert!(told(vec![vm(CPUS + 1, 0)]).is_err() && told(vec![Vm::default(); ITEMS + 1]).is_err());
    }

    #[test]
    fn symbols_are_few_and_named_as_functions_and_modules_are() {
        let told = |symbols| FromAgent::Reply(Reply::Symbols(symbols)).checked();
        let symbol = |module: &str| Symbol {
            function: format!("\u{1b}[2J{}", "f".repeat(FUNCTION)),
            module: Some(module.into()),
            ..Symbol::default()
        };
        let Ok(FromAgent::Reply(Reply::Symbols(symbols))) = told(vec![symbol("nf_tables")]) else {
            panic!("a function's name is shown, not refused")
        };
        assert!(symbols[0].function.starts_with("\\u{1b}[2Jf") && symbols[0].function.len() <= FUNCTION);
        assert!(told(vec![symbol("../x")]).is_err());
        assert!(
            told(vec![Symbol::default(); SYMBOLS]).is_ok()
                && told(vec![Symbol::default(); SYMBOLS + 1]).is_err()
        );
    }

    #[test]
    fn settings_are_few_and_their_texts_short_and_fit_to_be_shown() {
        let told = |count| {
            let long = || format!("\u{1b}[2J{}", "v".repeat(REASON));
            let state = knob::State {
                knob: knob::Knob::PinVcpus,
                vm: Some(long()),
                value: long(),
                choices: vec![long()],
                unavailable: Some(long()),
            };
            FromAgent::Reply(Reply::Knobs(vec![state; count])).checked()
        };
        let Ok(FromAgent::Reply(Reply::Knobs(knobs))) = told(1) else { panic!("it is shown, not refused") };
        let knob::State { vm, value, choices, unavailable, .. } = &knobs[0];
        let texts = [(vm.as_ref(), NAME), (unavailable.as_ref(), REASON), (choices.first(), knob::VALUE)];
        for (text, most) in texts.into_iter().chain([(Some(value), knob::VALUE)]) {
            let text = text.unwrap();
            assert!(text.starts_with("\\u{1b}[2Jv") && text.len() <= most, "{text}");
        }
        assert!(told(ITEMS + 1).is_err());
    }

    #[test]
    fn pages_of_files_are_in_order_and_some() {
        let told_with = |runs: &[(u64, u32)], contents: usize, frames: usize| {
            let runs = runs.iter().map(|&(first, pages)| pages::Run { first, pages }).collect();
            let path = format!("/\u{1b}[2J{}", "p".repeat(pages::PATH));
            let (contents, frames) = (vec![1; contents], vec![1; frames]);
            let file = CachedFile { path, runs, contents, frames, ..CachedFile::default() };
            FromAgent::Event(Event::Cached(vec![file])).checked()
        };
        let told = |runs: &[(u64, u32)], contents| told_with(runs, contents, 0);
        let Ok(FromAgent::Event(Event::Cached(cached))) = told(&[(0, 2), (2, 1), (7, 1)], 4) else {
            panic!("this is as it should be")
        };
        assert!(cached[0].path.starts_with("/\\u{1b}[2Jp") && cached[0].path.len() <= pages::PATH);
        let cut = LookedAt { cut: Some("\u{1b}".into()), ..LookedAt::default() };
        let said = FromAgent::Reply(Reply::LookedAt(cut)).checked();
        let Ok(FromAgent::Reply(Reply::LookedAt(LookedAt { cut: Some(cut), .. }))) = said else {
            panic!("{said:?}")
        };
        assert_eq!(cut, "\\u{1b}");
        assert!(told(&[(5, 1)], 0).is_ok() && told(&[(pages::FILE - 1, 1)], 0).is_ok());
        for wrong in
            [&[(0, 0)][..], &[(0, 2), (1, 1)], &[(3, 1), (0, 1)], &[(pages::FILE, 1)], &[(u64::MAX, 2)]]
        {
            assert!(told(wrong, 0).is_err(), "{wrong:?}");
        }
        assert!(told(&[(0, 3)], 2).is_err() && told(&[(0, 3)], 4).is_err());
        assert!(told_with(&[(0, 3)], 3, 3).is_ok());
        assert!(told_with(&[(0, 3)], 3, 2).is_err() && told_with(&[(0, 3)], 0, 4).is_err());
    }

    #[test]
    fn nothing_is_told_twice() {
        let woven = |sites: &[u32], skipped: &[u32]| {
            let site = |site| SiteAddress { site, address: 1 };
            let skip = |site| SkippedSite { site, reason: site.to_string() };
            let (sites, skipped) = (sites.iter().copied().map(site), skipped.iter().copied().map(skip));
            let woven = Woven { sites: sites.collect(), skipped: skipped.collect(), ..Woven::default() };
            FromAgent::Reply(Reply::Woven(woven)).checked()
        };
        assert!(woven(&[1, 2], &[2, 3]).is_ok());
        assert!(woven(&[1, 2, 1], &[]).unwrap_err().to_string().contains("site 1 twice"));
        assert!(woven(&[], &[7, 7]).is_err());
        let lost = |sites: &[u32]| {
            let lost = |site| SiteLoss { site, dropped: 1, ..SiteLoss::default() };
            let loss = Loss { sites: sites.iter().copied().map(lost).collect(), ..Loss::default() };
            FromAgent::Reply(Reply::Loss(loss)).checked()
        };
        assert!(lost(&[4, 5]).is_ok() && lost(&[4, 4]).is_err());
    }

    #[test]
    fn messages_keep_their_lines_and_lose_their_escapes() {
        let message = format!("R1 invalid\n\u{1b}[31mred{}", "x".repeat(MESSAGE));
        let failed = Reply::Failed(Failure { kind: FailureKind::Verifier, message });
        let Ok(FromAgent::Reply(Reply::Failed(failure))) = FromAgent::Reply(failed).checked() else {
            panic!("a message is shown, not refused")
        };
        assert!(failure.message.starts_with("R1 invalid\n\\u{1b}[31mred"));
        assert!(failure.message.len() <= MESSAGE);
    }
}
