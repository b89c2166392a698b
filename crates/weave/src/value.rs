//! What the variables of C code are at join points.

use xweave_code::btf::RecordKind;
use xweave_code::{Kernel, TypeRef};
use xweave_wire::plan::VariablePlace;

/// What a variable is at a join point.
pub(crate) struct Value {
    /// `struct sk_buff *skb`
    pub declaration: String,
    /// The type, and what its declaration names.
    pub types: Vec<TypeRef>,
    /// Where it is.
    pub location: Location,
    /// What it points to, where the verifier is not told by the kernel.
    pub unverified_type: Option<TypeRef>,
}

/// Where a value lies.
pub(crate) enum Location {
    /// In this word of the program's context.
    Word(usize),
    /// At the instruction: from join point to join point elsewhere.
    Place(VariablePlace),
}

/// A variable that points to what C calls `type_`.
pub(crate) fn pointer(kernel: &Kernel, type_: &str, name: &str, location: Location) -> Value {
    let of = structure(kernel, type_);
    let declaration = match of {
        Some(_) => format!("{type_} *{name}"),
        None => format!("void *{name}"),
    };
    Value { declaration, types: of.into_iter().collect(), location, unverified_type: of }
}

/// The structure or union that C calls this: `struct sk_buff`.
pub(crate) fn structure(kernel: &Kernel, name: &str) -> Option<TypeRef> {
    let (kind, tag) = name.split_once(' ')?;
    let kind = match kind {
        "struct" => RecordKind::Struct,
        "union" => RecordKind::Union,
        _ => return None,
    };
    kernel.record(kind, tag)
}
