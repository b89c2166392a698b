//! What a manifest may hold: whoever made the trace wrote it.

use xweave_text as text;

use super::{Exit, Manifest};

/// Domains, and their clocks: they have numbers of eight bits.
pub(super) const DOMAINS: usize = 255;
/// Aspects, warnings, disks, modules, kinds of events, reasons of drops, symbols: of each.
pub(super) const ITEMS: usize = 16 << 10;
/// Words of a command line: the kernel takes 2 MiB of it (`_STK_LIM / 4` in `fs/exec.c`, 6.12).
pub(super) const ARGUMENTS: usize = 64 << 10;
/// Sites, and flows, that lost something.
pub(super) const SITES: usize = 1 << 20;

/// Bytes of a name: of a domain, a kernel, a disk.
pub(crate) const NAME: usize = 256;
/// Bytes of a file's name (`PATH_MAX` in `include/uapi/linux/limits.h`), of a word of a command line, of a sentence.
const LONG: usize = 4096;

impl Manifest {
    /// Makes all texts fit to be shown, and cuts them.
    pub(crate) fn make_printable(&mut self) {
        let name = |name: &mut String| *name = text::printable_bytes(name.as_bytes(), NAME);
        let long = |long: &mut String| *long = text::printable_bytes(long.as_bytes(), LONG);
        for of_manifest in [&mut self.xweave, &mut self.reference] {
            name(of_manifest);
        }
        self.command.iter_mut().for_each(|word| *word = lines(word));
        for domain in &mut self.domains {
            let texts = [
                &mut domain.name,
                &mut domain.hostname,
                &mut domain.kernel,
                &mut domain.build_id,
                &mut domain.boot_id,
                &mut domain.vendor,
            ];
            texts.into_iter().for_each(name);
            domain.vm.iter_mut().for_each(|vm| name(&mut vm.host));
            domain.xen.iter_mut().for_each(|xen| name(&mut xen.host));
            domain.vms.iter_mut().for_each(|vm| name(&mut vm.name));
            domain.events.iter_mut().for_each(name);
            domain.disks.iter_mut().for_each(|disk| name(&mut disk.name));
            domain.settings.names().for_each(name);
            domain.drop_reasons.iter_mut().for_each(|reason| name(&mut reason.name));
            for symbol in &mut domain.symbols {
                long(&mut symbol.function);
                symbol.module.iter_mut().for_each(name);
            }
            if let Some(Exit::Lost { reason }) = &mut domain.exit {
                long(reason);
            }
        }
        for clock in &mut self.clocks {
            name(&mut clock.domain);
            long(&mut clock.detail);
        }
        for aspect in &mut self.aspects {
            name(&mut aspect.name);
            long(&mut aspect.file);
            name(&mut aspect.sha256);
        }
        self.key.iter_mut().for_each(name);
        self.warnings.iter_mut().for_each(|warning| *warning = lines(warning));
        for loss in &mut self.loss.events {
            name(&mut loss.domain);
            name(&mut loss.kind);
        }
        self.loss.late.iter_mut().for_each(|late| name(&mut late.domain));
        self.loss.uncounted.iter_mut().for_each(|uncounted| name(&mut uncounted.domain));
        for unloaded in &mut self.loss.unloaded {
            name(&mut unloaded.domain);
            name(&mut unloaded.module);
        }
    }
}

/// Of several lines, such as what a verifier says.
fn lines(long: &str) -> String {
    text::lines_cut(long, 4 * LONG)
}
