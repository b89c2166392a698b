//! Which microarchitecture this machine's processor is of, and how sure that is.
//!
//! A virtual machine may be shown another model than it runs on, so the model is believed only where the
//! features agree with it; where they do not, they tell by themselves what it is at least.

use std::fmt;

/// A microarchitecture that can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::VariantArray)]
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
    /// Intel's client cores from Skylake to Comet Lake, and servers up to Cascade Lake.
    Skylake,
    /// Intel's Sunny Cove and what is like it: Ice Lake, Tiger Lake, Rocket Lake.
    IceLake,
    /// Intel's Golden Cove and Raptor Cove: the large cores of Alder Lake and Raptor Lake, Sapphire and Emerald Rapids.
    GoldenCove,
    /// Intel's Gracemont: the small cores of Alder Lake and Raptor Lake.
    Gracemont,
    /// Another one, of which no figures are known here.
    Other,
}

impl Name {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;
}

/// A name that no microarchitecture has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is none of {all}", all = Name::ALL.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
pub struct UnknownName(String);

impl std::str::FromStr for Name {
    type Err = UnknownName;

    /// By what it is printed as, with or without the vendor, in any case: `Intel Ice Lake`, `ice lake`, `ice-lake`.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let key = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
        let wanted = key(text);
        let is = |name: &&Self| {
            let own = key(&name.to_string());
            own == wanted || own.trim_start_matches("amd").trim_start_matches("intel") == wanted
        };
        Self::ALL.iter().find(is).copied().ok_or_else(|| UnknownName(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zen1 => "AMD Zen",
            Self::Zen2 => "AMD Zen 2",
            Self::Zen3 => "AMD Zen 3",
            Self::Zen4 => "AMD Zen 4",
            Self::Zen5 => "AMD Zen 5",
            Self::Skylake => "Intel Skylake",
            Self::IceLake => "Intel Ice Lake",
            Self::GoldenCove => "Intel Golden Cove",
            Self::Gracemont => "Intel Gracemont",
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
    vendor: Vendor,
    family: u32,
    model: u32,
    hypervisor: bool,
    clwb: bool,
    vaes: bool,
    avx512: bool,
    avx_vnni: bool,
    clflushopt: bool,
    sha: bool,
    serialize: bool,
    /// The kind of core where a processor has several (leaf 1Ah); 0 where all are alike.
    core: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vendor {
    Amd,
    Intel,
    Other,
}

/// Leaf 1Ah: Intel's small cores.
const ATOM: u32 = 0x20;

/// What is compared when the processor is taken for one of another microarchitecture: what it really is, is kept.
pub fn assume(name: Name) -> Identified {
    let own = identify();
    let evidence = format!("assumed, not detected; detected: {} ({})", own.name, own.evidence);
    Identified { name, certainty: "assumed, whatever the CPU is", evidence }
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
    let core = if vendor.eax >= 0x1a { __cpuid_count(0x1a, 0).eax >> 24 } else { 0 };
    let base = one.eax >> 8 & 15;
    // AMD64 Architecture Programmer's Manual, volume 3, E.3.2: the extended parts count from family 15 on.
    let extended = base == 15;
    // Intel's Software Developer's Manual, volume 2, CPUID: the extended model counts for family 6 too.
    let extended_model = extended || base == 6;
    Processor {
        vendor: match vendor.ebx {
            0x6874_7541 => Vendor::Amd,
            0x756e_6547 => Vendor::Intel,
            _ => Vendor::Other,
        },
        family: if extended { base + (one.eax >> 20 & 255) } else { base },
        model: (one.eax >> 4 & 15) | if extended_model { (one.eax >> 16 & 15) << 4 } else { 0 },
        hypervisor: bit(one.ecx, 31),
        clwb: bit(seven.ebx, 24),
        vaes: bit(seven.ecx, 9),
        avx512: bit(seven.ebx, 16),
        avx_vnni: bit(more, 4),
        clflushopt: bit(seven.ebx, 23),
        sha: bit(seven.ebx, 29),
        serialize: bit(seven.edx, 14),
        core,
    }
}

fn judge(of: Processor) -> Identified {
    let (vendor, by_model, (by_features, features)) = match of.vendor {
        Vendor::Amd => ("AMD", amd_model(of), amd_features(of)),
        Vendor::Intel => ("Intel", intel_model(of), intel_features(of)),
        Vendor::Other => {
            let evidence =
                format!("vendor other than AMD and Intel, family {:#x}, model {:#x}", of.family, of.model);
            let certainty = "no figures are known here of other vendors'";
            return Identified { name: Name::Other, certainty, evidence };
        }
    };
    let evidence = format!(
        "{vendor}, family {:#x}, model {:#x}: {by_model}; features ({features}): {by_features}{}",
        of.family,
        of.model,
        if of.hypervisor { "; a hypervisor is present, which may alter both" } else { "" }
    );
    let (name, certainty) = if by_model == by_features {
        (by_model, "as good as certain: model and features agree")
    } else if by_model == Name::Other {
        (by_features, "likely: derived from CPU features alone, as the model is unknown or hidden")
    } else {
        (by_features, "in doubt: model and features disagree, and features are what code meets")
    };
    Identified { name, certainty, evidence }
}

fn amd_model(of: Processor) -> Name {
    match (of.family, of.model) {
        (0x17, 0x00..=0x2f) => Name::Zen1,
        (0x17, _) => Name::Zen2,
        (0x19, 0x00..=0x0f | 0x20..=0x5f) => Name::Zen3,
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => Name::Zen4,
        (0x1a, _) => Name::Zen5,
        _ => Name::Other,
    }
}

fn amd_features(of: Processor) -> (Name, &'static str) {
    match of {
        Processor { avx512: true, avx_vnni: true, .. } => (Name::Zen5, "AVX-512, AVX-VNNI"),
        Processor { avx512: true, .. } => (Name::Zen4, "AVX-512, no AVX-VNNI"),
        Processor { vaes: true, .. } => (Name::Zen3, "VAES, no AVX-512"),
        Processor { clwb: true, .. } => (Name::Zen2, "CLWB, no VAES"),
        _ => (Name::Zen1, "no CLWB"),
    }
}

/// By the table of arch/x86/include/asm/intel-family.h (Linux 6.12).
fn intel_model(of: Processor) -> Name {
    match (of.family, of.model) {
        (6, 0x4e | 0x5e | 0x55 | 0x8e | 0x9e | 0xa5 | 0xa6) => Name::Skylake,
        (6, 0x6a | 0x6c | 0x7d | 0x7e | 0x8c | 0x8d | 0xa7) => Name::IceLake,
        (6, 0x97 | 0x9a | 0xb7 | 0xba | 0xbf) if of.core == ATOM => Name::Gracemont,
        (6, 0xbe) => Name::Gracemont,
        (6, 0x8f | 0xcf | 0x97 | 0x9a | 0xb7 | 0xba | 0xbf) => Name::GoldenCove,
        _ => Name::Other,
    }
}

fn intel_features(of: Processor) -> (Name, &'static str) {
    match of {
        Processor { serialize: true, core: ATOM, .. } => (Name::Gracemont, "SERIALIZE, a small core"),
        Processor { serialize: true, .. } => (Name::GoldenCove, "SERIALIZE"),
        Processor { vaes: true, sha: true, .. } => (Name::IceLake, "VAES and SHA, no SERIALIZE"),
        Processor { clflushopt: true, .. } => (Name::Skylake, "CLFLUSHOPT, no VAES"),
        _ => (Name::Other, "no CLFLUSHOPT"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GENOA: Processor = Processor {
        vendor: Vendor::Amd,
        family: 0x19,
        model: 0x11,
        hypervisor: true,
        clwb: true,
        vaes: true,
        avx512: true,
        avx_vnni: false,
        clflushopt: true,
        sha: true,
        serialize: false,
        core: 0,
    };

    #[test]
    fn model_and_features_together() {
        assert_eq!(judge(GENOA).name, Name::Zen4);
        assert!(judge(GENOA).certainty.starts_with("as good as certain"));
        let milan = Processor { model: 1, avx512: false, ..GENOA };
        assert_eq!(judge(milan).name, Name::Zen3);
    }

    #[test]
    fn intels_by_model_features_and_kind_of_core() {
        let emerald_rapids = Processor {
            vendor: Vendor::Intel,
            family: 6,
            model: 0xcf,
            serialize: true,
            avx_vnni: true,
            ..GENOA
        };
        let told = judge(emerald_rapids);
        assert!(
            told.name == Name::GoldenCove && told.certainty.starts_with("as good as certain"),
            "{told:?}"
        );
        let small = judge(Processor { model: 0x97, core: ATOM, avx512: false, ..emerald_rapids });
        assert!(
            small.name == Name::Gracemont && small.certainty.starts_with("as good as certain"),
            "{small:?}"
        );
        let ice_lake = judge(Processor { model: 0x6a, serialize: false, ..emerald_rapids });
        assert_eq!(ice_lake.name, Name::IceLake);
        let cascade_lake =
            Processor { model: 0x55, serialize: false, vaes: false, sha: false, ..emerald_rapids };
        assert_eq!(judge(cascade_lake).name, Name::Skylake);
        let hidden = judge(Processor { model: 0x0d, ..cascade_lake });
        assert!(hidden.name == Name::Skylake && hidden.certainty.starts_with("likely"), "{hidden:?}");
    }

    #[test]
    fn names_are_read_as_they_are_printed() {
        for name in Name::ALL {
            assert_eq!(name.to_string().parse(), Ok(*name));
        }
        assert_eq!("ice-lake".parse(), Ok(Name::IceLake));
        assert_eq!("zen".parse(), Ok(Name::Zen1));
        let none = "pentium".parse::<Name>().unwrap_err().to_string();
        assert!(none.starts_with("`pentium` is none of AMD Zen, AMD Zen 2,"), "{none}");
    }

    #[test]
    fn what_is_assumed_is_said_to_be() {
        let taken = assume(Name::Zen3);
        assert_eq!(taken.name, Name::Zen3);
        assert!(taken.certainty.starts_with("assumed"), "{taken:?}");
        assert!(taken.evidence.contains("detected: "), "{taken:?}");
    }

    #[test]
    fn a_hidden_or_false_model() {
        let hidden = judge(Processor { family: 6, ..GENOA });
        assert_eq!(hidden.name, Name::Zen4);
        assert!(hidden.certainty.starts_with("likely"), "{hidden:?}");
        let shown_older = judge(Processor { family: 0x17, model: 0x31, ..GENOA });
        assert_eq!(shown_older.name, Name::Zen4);
        assert!(shown_older.certainty.starts_with("in doubt"), "{shown_older:?}");
        assert_eq!(judge(Processor { vendor: Vendor::Other, ..GENOA }).name, Name::Other);
    }
}
