//! A file as xentrace writes it: windows of the records of a CPU (`xen/include/public/trace.h`,
//! `tools/xentrace/xentrace.c` of Xen 4.17).

/// `DOMID_IDLE`
pub const IDLE: u32 = 0x7fff;

/// `TRC_SCHED_*`, `TRC_PV_*`, `TRC_HVM_*` and others.
pub const LOST_RECORDS: u32 = 0x0001_f001;
pub const CONTINUE_RUNNING: u32 = 0x0002_1002;
pub const CSCHED2_RUNQ_POS: u32 = 0x0002_2202;
pub const CSCHED2_SCHEDULE: u32 = 0x0002_2215;
pub const WAKE: u32 = 0x0002_8004;
pub const BLOCK: u32 = 0x0002_8006;
pub const SWITCH_INFPREV: u32 = 0x0002_800e;
pub const VMENTRY: u32 = 0x0008_1001;
pub const VMEXIT64: u32 = 0x0008_1102;
pub const INJ_VIRQ: u32 = 0x0008_2004;
pub const PAGE_GRANT_MAP: u32 = 0x0010_f001;
pub const HYPERCALL: u32 = 0x0020_100d;
pub const SUBCALL: u32 = 0x0020_200e;
pub const IRQ_HANDLED: u32 = 0x0080_2008;

/// `RUNSTATE_*`
pub const RUNNING: u32 = 0;
pub const RUNNABLE: u32 = 1;
pub const BLOCKED: u32 = 2;

/// `{ vcpu:16, domain:16 }`
pub fn vcpu(domain: u32, number: u32) -> u32 {
    domain << 16 | number
}

/// `TRC_SCHED_RUNSTATE_CHANGE` from one state to another.
pub fn runstate(from: u32, to: u32) -> u32 {
    0x0002_1001 | from << 8 | to << 4
}

/// Records of a CPU.
#[derive(Clone, Default)]
pub struct Window(Vec<u8>);

impl Window {
    /// One with a time.
    pub fn at(mut self, tsc: u64, event: u32, words: &[u32]) -> Self {
        self.word(event | u32::try_from(words.len()).unwrap() << 28 | 1 << 31);
        self.0.extend(tsc.to_le_bytes());
        words.iter().for_each(|word| self.word(*word));
        self
    }

    /// One without.
    pub fn untimed(mut self, event: u32, words: &[u32]) -> Self {
        self.word(event | u32::try_from(words.len()).unwrap() << 28);
        words.iter().for_each(|word| self.word(*word));
        self
    }

    fn word(&mut self, word: u32) {
        self.0.extend(word.to_le_bytes());
    }
}

/// A file of windows, each of one CPU.
pub fn file(windows: &[(u32, Window)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (cpu, Window(records)) in windows {
        header(&mut file, *cpu, u32::try_from(records.len()).unwrap());
        file.extend(records);
    }
    file
}

/// What a window begins with.
pub fn header(file: &mut Vec<u8>, cpu: u32, len: u32) {
    for word in [0x2001_f003, cpu, len] {
        file.extend(word.to_le_bytes());
    }
}
