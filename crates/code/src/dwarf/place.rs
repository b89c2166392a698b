//! Where a variable is, from a location expression: the few forms that say so in one step.

use gimli::Operation;

use super::units::Bytes;
use super::{Place, Reason};

/// What a function's variables in memory are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The canonical frame address.
    Cfa,
    /// A register.
    Register { register: u8, add: i64 },
    /// Nothing that can be said here.
    Unknown,
}

/// What an expression has on its stack.
#[derive(Clone, Copy)]
enum Item {
    /// A register and a constant.
    Sum { register: u8, add: i64 },
    /// The canonical frame address and a constant.
    Frame { add: i64 },
    /// A number, or a fixed address.
    Constant(u64),
}

/// The hardware's number of a general register: DWARF's order is another.
fn hardware(register: gimli::Register) -> Result<u8, Reason> {
    match u8::try_from(register.0) {
        Ok(low @ 0..8) => Ok([0, 2, 1, 3, 6, 7, 5, 4][usize::from(low)]),
        Ok(high @ 8..16) => Ok(high),
        _ => Err(Reason::OtherRegister),
    }
}

fn short(add: i64) -> Result<i32, Reason> {
    i32::try_from(add).map_err(|_| Reason::Arithmetic)
}

/// More than can be said of any expression are on the stack.
const STACK: usize = 4;

/// Where the expression says that the variable is. `address` gives those that the unit has in a table.
pub(super) fn place(
    expression: gimli::Expression<Bytes<'_>>,
    encoding: gimli::Encoding,
    frame: Frame,
    address: impl Fn(gimli::DebugAddrIndex) -> Option<u64>,
) -> Result<Place, Reason> {
    let mut operations = expression.operations(encoding);
    let mut stack = [Item::Constant(0); STACK];
    let mut height = 0;
    let mut value = false;
    while let Some(operation) = operations.next().map_err(|_| Reason::Unreadable)? {
        if value {
            return Err(Reason::Pieces);
        }
        let item = match operation {
            Operation::Register { register } => {
                let register = hardware(register)?;
                // Nothing else may be in such an expression, except that it is one piece of several.
                return match (height, operations.next()) {
                    (0, Ok(None)) => Ok(Place::Register { register, add: 0 }),
                    _ => Err(Reason::Pieces),
                };
            }
            Operation::RegisterOffset { register, offset, base_type } if base_type.0 == 0 => {
                Item::Sum { register: hardware(register)?, add: offset }
            }
            Operation::FrameOffset { offset } => match frame {
                Frame::Cfa => Item::Frame { add: offset },
                Frame::Register { register, add } => Item::Sum { register, add: add.wrapping_add(offset) },
                Frame::Unknown => return Err(Reason::FrameBase),
            },
            Operation::CallFrameCFA => Item::Frame { add: 0 },
            Operation::UnsignedConstant { value } => Item::Constant(value),
            Operation::SignedConstant { value } => Item::Constant(value.cast_unsigned()),
            Operation::Address { address } => Item::Constant(address),
            Operation::AddressIndex { index } | Operation::ConstantIndex { index } => {
                Item::Constant(address(index).ok_or(Reason::Unreadable)?)
            }
            Operation::PlusConstant { value } if height > 0 => {
                height -= 1;
                sum(stack[height], Item::Constant(value))?
            }
            operation @ (Operation::Plus | Operation::Minus) if height > 1 => {
                height -= 2;
                match (operation, stack[height + 1]) {
                    (Operation::Plus, right) => sum(stack[height], right)?,
                    (_, Item::Constant(right)) => sum(stack[height], Item::Constant(right.wrapping_neg()))?,
                    _ => return Err(Reason::Arithmetic),
                }
            }
            Operation::StackValue => {
                value = true;
                continue;
            }
            Operation::Nop => continue,
            Operation::EntryValue { .. } | Operation::ParameterRef { .. } => return Err(Reason::EntryValue),
            Operation::Piece { .. } => return Err(Reason::Pieces),
            Operation::Deref { .. } => return Err(Reason::Dereference),
            Operation::ImplicitPointer { .. } => return Err(Reason::ImplicitPointer),
            Operation::TLS => return Err(Reason::ThreadLocal),
            Operation::ImplicitValue { data } if height == 0 => {
                let mut bytes = [0; 8];
                let low = bytes.get_mut(..data.slice().len()).ok_or(Reason::Arithmetic)?;
                low.copy_from_slice(data.slice());
                return Ok(Place::Value(u64::from_le_bytes(bytes)));
            }
            _ => return Err(Reason::Arithmetic),
        };
        if height == STACK {
            return Err(Reason::Arithmetic);
        }
        stack[height] = item;
        height += 1;
    }
    match (height, stack[0], value) {
        (0, ..) => Err(Reason::Nowhere),
        (1, Item::Sum { register, add }, true) => Ok(Place::Register { register, add: short(add)? }),
        (1, Item::Sum { register, add }, false) => Ok(Place::Memory { register, add: short(add)? }),
        (1, Item::Frame { add }, false) => Ok(Place::Frame { add: short(add)? }),
        (1, Item::Frame { add }, true) => Ok(Place::FrameAddress { add: short(add)? }),
        (1, Item::Constant(constant), true) => Ok(Place::Value(constant)),
        (1, Item::Constant(address), false) => Ok(Place::Address(address)),
        _ => Err(Reason::Arithmetic),
    }
}

fn sum(left: Item, right: Item) -> Result<Item, Reason> {
    let more = |add: i64, constant: u64| add.wrapping_add(constant.cast_signed());
    match (left, right) {
        (Item::Sum { register, add }, Item::Constant(constant))
        | (Item::Constant(constant), Item::Sum { register, add }) => {
            Ok(Item::Sum { register, add: more(add, constant) })
        }
        (Item::Frame { add }, Item::Constant(constant)) | (Item::Constant(constant), Item::Frame { add }) => {
            Ok(Item::Frame { add: more(add, constant) })
        }
        (Item::Constant(left), Item::Constant(right)) => Ok(Item::Constant(left.wrapping_add(right))),
        _ => Err(Reason::Arithmetic),
    }
}

impl Frame {
    /// From where a subprogram's own expression says that its frame base is.
    pub(super) fn new(base: Option<Result<Place, Reason>>) -> Self {
        match base {
            Some(Ok(Place::Frame { add: 0 })) => Self::Cfa,
            // What a register holds is meant, whether or not the expression says so.
            Some(Ok(Place::Register { register, add } | Place::Memory { register, add })) => {
                Self::Register { register, add: i64::from(add) }
            }
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], frame: Frame) -> Result<Place, Reason> {
        let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 5, address_size: 8 };
        let expression = gimli::Expression(gimli::EndianSlice::new(bytes, gimli::LittleEndian));
        place(expression, encoding, frame, |index| (index.0 == 1).then_some(0x1000))
    }

    #[test]
    fn expressions() {
        use Place::{Address, Frame as Cfa, Memory, Register, Value};
        let address = [0x03, 0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0];
        let constant = [&address[..], &[0x9f]].concat();
        let cases: [(&[u8], Result<Place, Reason>); 30] = [
            // DW_OP_reg0 to reg7 have another order than the hardware.
            (&[0x50], Ok(Register { register: 0, add: 0 })),
            (&[0x51], Ok(Register { register: 2, add: 0 })),
            (&[0x55], Ok(Register { register: 7, add: 0 })),
            (&[0x57], Ok(Register { register: 4, add: 0 })),
            (&[0x5f], Ok(Register { register: 15, add: 0 })),
            (&[0x61], Err(Reason::OtherRegister)),
            (&[0x90, 0x03], Ok(Register { register: 3, add: 0 })),
            // In memory at rbx - 8; that as a value, also with an addition and a subtraction.
            (&[0x73, 0x78], Ok(Memory { register: 3, add: -8 })),
            (&[0x73, 0x78, 0x9f], Ok(Register { register: 3, add: -8 })),
            (&[0x73, 0x00, 0x23, 0x10, 0x9f], Ok(Register { register: 3, add: 16 })),
            (&[0x73, 0x00, 0x34, 0x22, 0x9f], Ok(Register { register: 3, add: 4 })),
            (&[0x34, 0x73, 0x00, 0x22, 0x9f], Ok(Register { register: 3, add: 4 })),
            (&[0x73, 0x00, 0x34, 0x1c, 0x9f], Ok(Register { register: 3, add: -4 })),
            (&[0x34, 0x73, 0x00, 0x1c, 0x9f], Err(Reason::Arithmetic)),
            (&[0x73, 0x00, 0x76, 0x00, 0x22, 0x9f], Err(Reason::Arithmetic)),
            (&[0x91, 0x70], Ok(Cfa { add: -16 })),
            (&[0x91, 0x70, 0x9f], Ok(Place::FrameAddress { add: -16 })),
            (&[0x9e, 0x02, 0x34, 0x12], Ok(Value(0x1234))),
            (&[0x9e, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0], Err(Reason::Arithmetic)),
            (&address, Ok(Address(0x1234_5678))),
            (&constant, Ok(Value(0x1234_5678))),
            (&[0xa1, 0x01], Ok(Address(0x1000))),
            (&[0xa1, 0x02], Err(Reason::Unreadable)),
            (&[0x30, 0x9f], Ok(Value(0))),
            (&[0xa3, 0x01, 0x55, 0x9f], Err(Reason::EntryValue)),
            (&[0x50, 0x93, 0x08, 0x51, 0x93, 0x08], Err(Reason::Pieces)),
            (&[0x73, 0x00, 0x06, 0x9f], Err(Reason::Dereference)),
            (&[], Err(Reason::Nowhere)),
            (&[0x73], Err(Reason::Unreadable)),
            (&[0x22], Err(Reason::Arithmetic)),
        ];
        for (bytes, expected) in cases {
            assert_eq!(read(bytes, Frame::Cfa), expected, "{bytes:x?}");
        }
        let rbp = Frame::new(Some(read(&[0x56], Frame::Unknown)));
        assert_eq!(read(&[0x91, 0x70], rbp), Ok(Memory { register: 5, add: -16 }));
        assert_eq!(Frame::new(Some(read(&[0x9c], Frame::Unknown))), Frame::Cfa);
        assert_eq!(read(&[0x91, 0x70], Frame::new(None)), Err(Reason::FrameBase));
    }
}
