//! What is written on a thread's stack, so that it makes a system call and comes back to where it was by itself.
//!
//! It is what the kernel leaves there when it calls a signal handler (arch/x86/kernel/signal_64.c, `x64_setup_rt_frame`),
//! with the system call in place of the handler: that "returns" into rt_sigreturn, which puts back all registers and the
//! signal mask. Nobody is needed for it, so the tracer may be killed at any time.

use libc::user_regs_struct;
use xweave_bytes::read_le;

use super::process::Code;

/// Below the stack pointer, for functions that call none (System V ABI, AMD64 supplement, 3.2.2).
const RED_ZONE: u64 = 128;

/// arch/x86/include/asm/sigframe.h, `struct rt_sigframe`: where it returns to, the context, and the signal's information.
const CONTEXT: usize = 8;
const INFO: usize = CONTEXT + 304;
const FRAME: usize = INFO + 128;
/// include/uapi/asm-generic/ucontext.h, `struct ucontext`: flags, link, alternate stack, registers, signal mask.
const STACK_FLAGS: usize = CONTEXT + 24;
const REGISTERS: usize = CONTEXT + 40;
const SEGMENTS: usize = REGISTERS + 18 * 8;
const FPSTATE: usize = REGISTERS + 23 * 8;
const MASK: usize = CONTEXT + 296;

/// UC_FP_XSTATE, UC_SIGCONTEXT_SS and UC_STRICT_RESTORE_SS (arch/x86/include/uapi/asm/ucontext.h).
const FLAGS: u64 = 7;

/// No mode of an alternate stack: do_sigaltstack says EINVAL and changes nothing, and rt_sigreturn minds only EFAULT
/// (kernel/signal.c, `restore_altstack`, Linux 6.1 to 6.18). The right values are not to be had from outside.
const NO_STACK_MODE: u32 = 0x7fff_ffff;

/// An XSAVE image: the old registers, of which the last bytes are software's, then its header
/// (arch/x86/include/uapi/asm/sigcontext.h, `struct _fpx_sw_bytes`; Intel SDM, volume 1, 13.4).
const SOFTWARE: usize = 464;
const HEADER: usize = 512;
const EXTENDED: usize = HEADER + 64;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// The x87 and SSE registers.
const LEGACY: u64 = 3;
/// The tile data of AMX: threads have them from their first use on (arch/x86/kernel/fpu/xstate.h,
/// `XFEATURE_MASK_USER_DYNAMIC`).
const TILE_DATA: u64 = 1 << 18;

/// What interrupted system calls leave as their result, for the kernel to go on with (include/linux/errno.h).
const RESTARTSYS: i64 = -512;
const RESTARTNOINTR: i64 = -513;
const RESTARTNOHAND: i64 = -514;
const RESTART_RESTARTBLOCK: i64 = -516;
const EINTR: u64 = (-4_i64).cast_unsigned();

/// The direction flag: functions are called with it clear.
const DIRECTION: u64 = 1 << 10;

/// A system call, and memory that it is given the address of.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    pub(super) number: u64,
    pub(super) arguments: [Argument; 3],
    pub(super) memory: Vec<u8>,
}

/// What a system call is given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Argument {
    Number(u64),
    /// Where its memory is.
    Memory,
}

/// How a thread stood.
pub(super) struct State {
    pub(super) registers: user_regs_struct,
    pub(super) mask: u64,
    pub(super) xstate: Vec<u8>,
}

/// What becomes of the system call that a thread was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupted {
    /// There was none, or it had ended.
    Nothing,
    /// It begins again.
    Again,
    /// It ends early, with EINTR: only the kernel knows what is left of its time.
    Ends,
}

/// What is written, and the registers that go with it.
pub(super) struct Frame {
    /// Where.
    pub(super) address: u64,
    pub(super) bytes: Vec<u8>,
    /// Where in it the system call's memory is.
    memory: usize,
    pub(super) registers: user_regs_struct,
}

impl State {
    /// What becomes of the system call that it was in (arch/x86/kernel/signal.c, `arch_do_signal_or_restart`).
    pub(super) fn interrupted(&self) -> Interrupted {
        // -1: it was in none. The kernel looks at 32 bits (arch/x86/include/asm/syscall.h).
        if self.registers.orig_rax & 0xffff_ffff == 0xffff_ffff {
            return Interrupted::Nothing;
        }
        match self.registers.rax.cast_signed() {
            RESTARTSYS | RESTARTNOINTR | RESTARTNOHAND => Interrupted::Again,
            RESTART_RESTARTBLOCK => Interrupted::Ends,
            _ => Interrupted::Nothing,
        }
    }

    /// How many bytes below the stack pointer a frame takes at most.
    pub(super) fn needs(&self, call: &Call) -> u64 {
        RED_ZONE + (call.memory.len() + self.xstate.len() + FRAME + 256) as u64
    }

    /// What to write for a system call; none if its registers are not of the expected form.
    pub(super) fn frame(&self, call: &Call, code: Code) -> Option<Frame> {
        let image = image(&self.xstate)?;
        let top = self.registers.rsp.checked_sub(self.needs(call)).map(|_| self.registers.rsp - RED_ZONE)?;
        let memory = (top - call.memory.len() as u64) & !15;
        let fpstate = (memory - image.len() as u64) & !63;
        // As at the beginning of a function, which the kernel's frames imitate.
        let address = ((fpstate - FRAME as u64) & !15) - 8;

        let mut bytes = vec![0; usize::try_from(top - address).ok()?];
        bytes[..FRAME].copy_from_slice(&self.sigframe(code.sigreturn, fpstate));
        let place = |at: u64| usize::try_from(at - address).ok();
        bytes[place(fpstate)?..][..image.len()].copy_from_slice(&image);
        bytes[place(memory)?..][..call.memory.len()].copy_from_slice(&call.memory);

        let mut registers = self.registers;
        registers.rip = code.syscall;
        registers.rsp = address;
        // No system call: or the kernel would begin again the one that was interrupted.
        registers.orig_rax = u64::MAX;
        registers.eflags &= !DIRECTION;
        let mut frame = Frame { address, memory: place(memory)?, bytes, registers };
        frame.registers = frame.registers_for(call);
        Some(frame)
    }

    fn sigframe(&self, sigreturn: u64, fpstate: u64) -> [u8; FRAME] {
        let mut of = self.registers;
        match self.interrupted() {
            Interrupted::Nothing => {}
            Interrupted::Again => {
                of.rax = of.orig_rax;
                // Back to the instruction, `syscall`, of two bytes.
                of.rip = of.rip.wrapping_sub(2);
            }
            Interrupted::Ends => of.rax = EINTR,
        }
        let mut frame = [0; FRAME];
        let mut put = |at: usize, value: u64| frame[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(0, sigreturn);
        put(CONTEXT, FLAGS);
        put(STACK_FLAGS, u64::from(NO_STACK_MODE));
        // arch/x86/include/uapi/asm/sigcontext.h, `struct sigcontext_64`.
        let registers = [
            of.r8, of.r9, of.r10, of.r11, of.r12, of.r13, of.r14, of.r15, of.rdi, of.rsi, of.rbp, of.rbx,
            of.rdx, of.rax, of.rcx, of.rsp, of.rip, of.eflags,
        ];
        for (index, value) in registers.into_iter().enumerate() {
            put(REGISTERS + 8 * index, value);
        }
        // cs, gs, fs, ss: of 16 bits each.
        put(SEGMENTS, of.cs & 0xffff | (of.ss & 0xffff) << 48);
        put(FPSTATE, fpstate);
        put(MASK, self.mask);
        frame
    }
}

impl Frame {
    /// The registers with which a thread makes a system call on it: this one, or another once one was made. For it stands
    /// at the same place of its stack then, before it returns; the frame is the same for all of them.
    pub(super) fn registers_for(&self, call: &Call) -> user_regs_struct {
        let mut registers = self.registers;
        registers.rax = call.number;
        [registers.rdi, registers.rsi, registers.rdx] = call.arguments.map(|argument| match argument {
            Argument::Number(number) => number,
            Argument::Memory => self.memory(),
        });
        registers
    }

    /// Where the system call's memory is.
    pub(super) fn memory(&self) -> u64 {
        self.address + self.memory as u64
    }
}

/// The XSAVE image as the kernel leaves it in a frame; none if it is not of the expected form.
///
/// The kernel's size of it is that of what the thread can use (arch/x86/kernel/fpu/signal.c, `check_xstate_in_sigframe`):
/// without the tile data at its end, unless the thread has used such. Linux 6.1 looks for the second magic number where
/// the image says that it ends, 6.12 and 6.18 where the thread's does. So it is at both places, where tile data hold
/// nothing, and where they hold something it is known that the thread's image has them.
fn image(xstate: &[u8]) -> Option<Vec<u8>> {
    // What the machine has, where the kernel tells debuggers (arch/x86/include/asm/user.h, `xstate_fx_sw_bytes`).
    let features: u64 = read_le(xstate, SOFTWARE)?;
    let present: u64 = read_le(xstate, HEADER)?;
    if xstate.len() < EXTENDED || features & LEGACY != LEGACY || present & !features != 0 {
        return None;
    }
    let (features, size) = if features & TILE_DATA == 0 || present & TILE_DATA != 0 {
        (features, xstate.len())
    } else {
        (features & !TILE_DATA, size_of(features & !TILE_DATA)?)
    };
    let mut image = xstate.to_vec();
    image.extend(MAGIC2.to_le_bytes());
    image.get_mut(size..size + 4)?.copy_from_slice(&MAGIC2.to_le_bytes());
    let size = u32::try_from(size).ok()?;
    // magic1, extended_size, xfeatures, xstate_size; the rest is reserved.
    let software = &mut image[SOFTWARE..HEADER];
    software.fill(0);
    software[..4].copy_from_slice(&MAGIC1.to_le_bytes());
    software[4..8].copy_from_slice(&(size + 4).to_le_bytes());
    software[8..16].copy_from_slice(&features.to_le_bytes());
    software[16..20].copy_from_slice(&size.to_le_bytes());
    // As `save_xstate_epilog` does: registers at their initial values are restored to these.
    image[HEADER..HEADER + 8].copy_from_slice(&(present | LEGACY).to_le_bytes());
    Some(image)
}

/// The size of an image with these, as the machine lays it out.
fn size_of(features: u64) -> Option<usize> {
    let end = |feature: u32| {
        // SAFETY: every 64-bit processor has the instruction (newer compilers know that).
        #[allow(unused_unsafe, reason = "unsafe up to Rust 1.88 at least")]
        let leaf = unsafe { std::arch::x86_64::__cpuid_count(0xd, feature) };
        leaf.eax.checked_add(leaf.ebx)
    };
    let present = (2..63).filter(|feature| features >> feature & 1 == 1);
    present
        .map(|feature| usize::try_from(end(feature)?).ok())
        .try_fold(EXTENDED, |size, end| Some(size.max(end?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(rax: i64, orig_rax: i64) -> State {
        // SAFETY: a structure of numbers.
        let mut registers: user_regs_struct = unsafe { std::mem::zeroed() };
        registers.rax = rax.cast_unsigned();
        registers.orig_rax = orig_rax.cast_unsigned();
        registers.rsp = 0x7fff_1234_5678;
        registers.rip = 0x1000;
        registers.cs = 0x33;
        registers.ss = 0x2b;
        let mut xstate = vec![0; 832];
        xstate[SOFTWARE] = 7;
        xstate[HEADER] = 4;
        State { registers, mask: 0x55, xstate }
    }

    fn call() -> Call {
        let arguments = [Argument::Number(32), Argument::Memory, Argument::Number(0)];
        Call { name: "io_uring_setup", number: 425, arguments, memory: vec![9; 120] }
    }

    fn saved(frame: &Frame, at: usize) -> u64 {
        u64::from_le_bytes(frame.bytes[at..at + 8].try_into().unwrap())
    }

    const CODE: Code = Code { syscall: 0x2000, sigreturn: 0x3000 };

    #[test]
    fn a_frame_is_below_the_red_zone_and_aligned_as_the_kernels_are() {
        let state = state(0, -1);
        let frame = state.frame(&call(), CODE).unwrap();
        assert_eq!(frame.address + frame.bytes.len() as u64, state.registers.rsp - 128);
        assert!(frame.bytes.len() as u64 + 128 <= state.needs(&call()));
        assert_eq!(frame.address % 16, 8);
        assert_eq!(saved(&frame, FPSTATE) % 64, 0);
        assert_eq!((frame.registers.rsp, frame.registers.rsi), (frame.address, frame.memory()));
        assert_eq!((frame.registers.rip, frame.registers.rax, frame.registers.rdi), (0x2000, 425, 32));
        assert_eq!(frame.registers.orig_rax, u64::MAX);
        let memory = usize::try_from(frame.memory() - frame.address).unwrap();
        assert_eq!(frame.bytes[memory..memory + 120], [9; 120]);
        assert_eq!((saved(&frame, 0), saved(&frame, MASK)), (0x3000, 0x55));
        assert_eq!(saved(&frame, SEGMENTS), 0x2b << 48 | 0x33);
        // Another one is made at the same place.
        let arguments = [5, 6, 7].map(Argument::Number);
        let of = frame.registers_for(&Call { name: "madvise", number: 28, arguments, memory: Vec::new() });
        assert_eq!((of.rax, of.rdi, of.rsi, of.rdx), (28, 5, 6, 7));
        assert_eq!((of.rip, of.rsp, of.orig_rax), (0x2000, frame.address, u64::MAX));
        // A stack at the bottom of all memory.
        let mut low = state;
        low.registers.rsp = 1000;
        assert!(low.frame(&call(), CODE).is_none());
    }

    #[test]
    fn an_interrupted_system_call_begins_again_as_the_kernel_would_have_it() {
        let of = |rax, orig| {
            let state = state(rax, orig);
            let frame = state.frame(&call(), CODE).unwrap();
            let registers = (saved(&frame, REGISTERS + 13 * 8), saved(&frame, REGISTERS + 16 * 8));
            (state.interrupted(), registers)
        };
        assert_eq!(of(-512, 0), (Interrupted::Again, (0, 0xffe)));
        assert_eq!(of(-513, 202), (Interrupted::Again, (202, 0xffe)));
        assert_eq!(of(-514, 271), (Interrupted::Again, (271, 0xffe)));
        assert_eq!(of(-516, 230), (Interrupted::Ends, (EINTR, 0x1000)));
        assert_eq!(of(7, 230), (Interrupted::Nothing, (7, 0x1000)));
        // Not in a system call: the program's own value.
        assert_eq!(of(-512, -1), (Interrupted::Nothing, ((-512_i64).cast_unsigned(), 0x1000)));
    }

    #[test]
    fn an_image_of_registers_says_its_size_and_another_form_is_refused() {
        let xstate = state(0, -1).xstate;
        let made = image(&xstate).unwrap();
        let word = |at: usize| u32::from_le_bytes(made[at..at + 4].try_into().unwrap());
        assert_eq!((word(464), word(468), word(472), word(480)), (MAGIC1, 836, 7, 832));
        assert_eq!((word(512), word(832)), (7, MAGIC2));
        for broken in [&xstate[..500], &xstate[..575], &[0; 832], &[]] {
            assert!(image(broken).is_none());
        }
        // Tile data: the machine has them, but threads only if they use them, which is seen where these hold something.
        let tiles = |present: u64| {
            let mut xstate = vec![0; 11_008];
            xstate[SOFTWARE..SOFTWARE + 8].copy_from_slice(&(7 | TILE_DATA).to_le_bytes());
            xstate[HEADER..HEADER + 8].copy_from_slice(&present.to_le_bytes());
            let made = image(&xstate).unwrap();
            let word = |at: usize| u32::from_le_bytes(made[at..at + 4].try_into().unwrap());
            (word(472), word(480), word(832), word(11_008))
        };
        if std::is_x86_feature_detected!("avx") {
            assert_eq!(tiles(7), (7, 832, MAGIC2, MAGIC2));
            assert_eq!(tiles(7 | TILE_DATA), (0x4_0007, 11_008, 0, MAGIC2));
        }
        // More registers than the machine has.
        let mut more = xstate.clone();
        more[HEADER] = 0xff;
        assert!(image(&more).is_none());
    }
}
