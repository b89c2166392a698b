//! Which microarchitecture this machine's processor is of, and how sure that is.
//!
//! A virtual machine may be shown another model than it runs on, so the model is believed only where the
//! features agree with it; where they do not, they tell by themselves what it is at least.

use std::fmt;

/// A microarchitecture that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// AMD family 17h, models 00h–2Fh.
    Zen1,
    /// AMD family 17h, from model 30h on.
    Zen2,
    /// AMD family 19h, models 00h–0Fh and 20h–5Fh.
    Zen3,
    /// AMD family 19h, models 10h–1Fh and 60h–AFh.
    Zen4,
    /// AMD family 1Ah.
    Zen5,
    /// Another one, of which no figures are known here.
    Other,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zen1 => "AMD Zen",
            Self::Zen2 => "AMD Zen 2",
            Self::Zen3 => "AMD Zen 3",
            Self::Zen4 => "AMD Zen 4",
            Self::Zen5 => "AMD Zen 5",
            Self::Other => "unknown",
        })
    }
}

/// What was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The microarchitecture.
    pub name: Name,
    /// How sure that is, in words.
    pub certainty: &'static str,
    /// What it was told from, in words.
    pub evidence: String,
}

/// What CPUID says, as far as it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Processor {
    amd: bool,
    family: u32,
    model: u32,
    hypervisor: bool,
    clwb: bool,
    vaes: bool,
    avx512: bool,
    avx_vnni: bool,
}

/// Looks at the processor that this runs on.
pub fn identify() -> Identified {
    judge(read())
}

fn read() -> Processor {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Every x86-64 processor has CPUID; leaf 7 reads as zeros where there is none, as it is not asked for.
    let (vendor, one) = (__cpuid(0), __cpuid(1));
    let seven = if vendor.eax >= 7 { __cpuid_count(7, 0) } else { __cpuid(0x8000_0000 | u32::MAX >> 1) };
    let more = if vendor.eax >= 7 && seven.eax >= 1 { __cpuid_count(7, 1).eax } else { 0 };
    let bit = |word: u32, at: u32| word >> at & 1 == 1;
    let base = one.eax >> 8 & 15;
    // AMD64 Architecture Programmer's Manual, volume 3, E.3.2: the extended parts count from family 15 on.
    let extended = base == 15;
    Processor {
        amd: vendor.ebx == 0x6874_7541,
        family: if extended { base + (one.eax >> 20 & 255) } else { base },
        model: (one.eax >> 4 & 15) | if extended { (one.eax >> 16 & 15) << 4 } else { 0 },
        hypervisor: bit(one.ecx, 31),
        clwb: bit(seven.ebx, 24),
        vaes: bit(seven.ecx, 9),
        avx512: bit(seven.ebx, 16),
        avx_vnni: bit(more, 4),
    }
}

fn judge(of: Processor) -> Identified {
    if !of.amd {
        let evidence = format!("vendor other than AMD, family {:#x}, model {:#x}", of.family, of.model);
        return Identified {
            name: Name::Other,
            certainty: "no figures are known here of other vendors'",
            evidence,
        };
    }
    let by_model = match (of.family, of.model) {
        (0x17, 0x00..=0x2f) => Name::Zen1,
        (0x17, _) => Name::Zen2,
        (0x19, 0x00..=0x0f | 0x20..=0x5f) => Name::Zen3,
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => Name::Zen4,
        (0x1a, _) => Name::Zen5,
        _ => Name::Other,
    };
    let (by_features, features) = match of {
        Processor { avx512: true, avx_vnni: true, .. } => (Name::Zen5, "AVX-512, AVX-VNNI"),
        Processor { avx512: true, .. } => (Name::Zen4, "AVX-512, no AVX-VNNI"),
        Processor { vaes: true, .. } => (Name::Zen3, "VAES, no AVX-512"),
        Processor { clwb: true, .. } => (Name::Zen2, "CLWB, no VAES"),
        _ => (Name::Zen1, "no CLWB"),
    };
    let evidence = format!(
        "AMD, family {:#x}, model {:#x}: {by_model}; features ({features}): {by_features}{}",
        of.family,
        of.model,
        if of.hypervisor { "; a hypervisor is present, which may alter both" } else { "" }
    );
    let (name, certainty) = if by_model == by_features {
        (by_model, "as good as certain: model and features agree")
    } else if by_model == Name::Other {
        (by_features, "likely: told from features alone, as the model is unknown or hidden")
    } else {
        (by_features, "in doubt: model and features disagree, and features are what code meets")
    };
    Identified { name, certainty, evidence }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENOA: Processor = Processor {
        amd: true,
        family: 0x19,
        model: 0x11,
        hypervisor: true,
        clwb: true,
        vaes: true,
        avx512: true,
        avx_vnni: false,
    };

    #[test]
    fn model_and_features_together() {
        assert_eq!(judge(GENOA).name, Name::Zen4);
        assert!(judge(GENOA).certainty.starts_with("as good as certain"));
        let milan = Processor { model: 1, avx512: false, ..GENOA };
        assert_eq!(judge(milan).name, Name::Zen3);
    }

    #[test]
    fn a_hidden_or_false_model() {
        let hidden = judge(Processor { family: 6, ..GENOA });
        assert_eq!(hidden.name, Name::Zen4);
        assert!(hidden.certainty.starts_with("likely"), "{hidden:?}");
        let shown_older = judge(Processor { family: 0x17, model: 0x31, ..GENOA });
        assert_eq!(shown_older.name, Name::Zen4);
        assert!(shown_older.certainty.starts_with("in doubt"), "{shown_older:?}");
        assert_eq!(judge(Processor { amd: false, ..GENOA }).name, Name::Other);
    }
}
