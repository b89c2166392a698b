//! Whether functions take what their types say.
//!
//! The kernel attaches a trampoline by a function's name, and saves as many arguments as the type of that name has. Where
//! the type is another function's ([`xweave_code::abi`]) the rest is lost, and the kernel with it: `make soak` found
//! `returning(mm_init)` on Debian's 6.1.

use std::{collections::HashMap, fmt, io};

use xweave_code::{abi, image::LiveMemory};
use xweave_wire::plan::{Hook, Plan};

use crate::addresses::Addresses;

/// So much of a function is looked at.
const BYTES: u64 = 4096;

/// The sites of a plan whose functions take more arguments than their types have, by their numbers.
#[derive(Default)]
pub(crate) struct Mistyped(HashMap<u32, Mismatch>);

/// How many, by the code and by the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mismatch {
    code: usize,
    type_: u8,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its code takes {} arguments and its type has {}: the kernel's type information is of another function of \
             that name",
            self.code, self.type_
        )
    }
}

impl std::error::Error for Mismatch {}

impl Mistyped {
    /// Those of the running kernel. Where it does not show its memory (lockdown) nothing is known.
    pub(crate) fn of(plan: &Plan, addresses: &Addresses<'_>) -> Self {
        let bound = plan.programs.iter().filter(|program| matches!(program.hook, Hook::Entry | Hook::Return));
        let sites: Vec<_> = bound.flat_map(|program| &program.sites).collect();
        if sites.is_empty() {
            return Self::default();
        }
        let Ok(memory) = LiveMemory::open() else { return Self::default() };
        let code = |address| memory.read(address, BYTES).unwrap_or_default();
        let sites = sites.into_iter().map(|site| (site.site, &*site.function, site.arguments));
        Self::among(sites, addresses, code)
    }

    /// Of several functions with one name, which the kernel will take differs between versions: all count.
    fn among<'p>(
        sites: impl Iterator<Item = (u32, &'p str, u8)>,
        addresses: &Addresses<'_>,
        code: impl Fn(u64) -> Vec<u8>,
    ) -> Self {
        let mut read: HashMap<&str, usize> = HashMap::new();
        let mismatch = |(site, function, type_): (u32, &'p str, u8)| {
            let all = || addresses.all(function).iter().map(|address| abi::arguments_read(&code(*address)));
            let code = *read.entry(function).or_insert_with(|| all().max().unwrap_or(0));
            (code > usize::from(type_)).then_some((site, Mismatch { code, type_ }))
        };
        Self(sites.filter_map(mismatch).collect())
    }

    /// Why nothing may be attached at a site; none if something may.
    pub(crate) fn error(&self, site: u32) -> Option<io::Error> {
        self.0.get(&site).map(|mismatch| io::Error::other(*mismatch))
    }
}

/// What is wrong with a function's type, if that is the error.
pub(crate) fn mismatch(error: &io::Error) -> Option<String> {
    error.get_ref()?.downcast_ref::<Mismatch>().map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_takes_more_than_its_type_has_is_named() {
        let symbols = "ffffffff81000000 t f\nffffffff81000010 t g\nffffffffc0000000 t g\t[m]\n";
        let addresses = Addresses::named(["f", "g"], symbols);
        // mov rax, rdi; ret and, in the module, mov rax, rdx; ret
        let code = |address| match address {
            0xffff_ffff_c000_0000 => vec![0x48, 0x89, 0xd0, 0xc3],
            _ => vec![0x48, 0x89, 0xf8, 0xc3],
        };
        let mistyped = Mistyped::among([(1, "f", 1), (2, "f", 0), (3, "g", 2)].into_iter(), &addresses, code);
        assert!(mistyped.error(1).is_none());
        let said = |site| mismatch(&mistyped.error(site).unwrap()).unwrap();
        assert!(said(2).starts_with("its code takes 1 arguments and its type has 0"), "{}", said(2));
        assert!(said(3).starts_with("its code takes 3 arguments and its type has 2"), "{}", said(3));
        assert!(mismatch(&io::Error::from_raw_os_error(libc::EINVAL)).is_none());
    }
}
