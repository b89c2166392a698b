//! The registers of x86-64, and what the System V ABI says of them.

use iced_x86::Register;

/// How many there are of 64 bits for all purposes.
pub(crate) const REGISTERS: usize = xweave_code::Register::ALL.len();

pub(crate) const RAX: u8 = 0;
pub(crate) const RSP: u8 = 4;
pub(crate) const RDI: u8 = 7;
pub(crate) const RSI: u8 = 6;
/// The registers for arguments in their order.
pub(crate) const ARGUMENTS: [u8; 6] = [RDI, RSI, 2, 1, 8, 9];
/// What a called function may change: rax, rcx, rdx, rsi, rdi, r8 to r11.
pub(crate) const CLOBBERED: u16 = 0b0000_1111_1100_0111;

/// The number of the whole register that this is, or is a part of.
pub(crate) fn number(register: Register) -> Option<u8> {
    let whole = register.full_register();
    if !whole.is_gpr64() {
        return None;
    }
    u8::try_from(whole.number()).ok()
}
