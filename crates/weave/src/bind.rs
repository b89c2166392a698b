//! What the variables of C code mean at a function: its parameters, and what it returns.

use xweave_aspect::code::Special;
use xweave_aspect::{Code, Span};
use xweave_code::{Function, Kernel, TypeRef};
use xweave_wire::plan::Hook;

/// A variable of the C program, to be set from the program's context.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// `struct sk_buff *skb`
    pub declaration: String,
    /// The value's 64-bit word in the context.
    pub word: usize,
}

/// All that code uses at a function.
pub(crate) struct Bound {
    /// In the order of the parameters; what is returned comes last.
    pub bindings: Vec<Binding>,
    /// Their types.
    pub types: Vec<TypeRef>,
}

/// The name of the variable for `$return$`.
pub(crate) const RETURN: &str = "xw_return";

/// Where a kprobe finds the arguments: the words of `struct pt_regs` for di, si, dx, cx, r8 and r9.
const PROBE_WORDS: [usize; 6] = [14, 13, 12, 11, 9, 8];

/// Where a pair of kprobes finds what is returned: behind the six arguments that were saved.
const SAVED_WORDS: usize = 6;

/// How a join point can be hooked.
pub(crate) fn hook(kernel: &Kernel, function: &Function, at: Hook) -> Result<Hook, String> {
    if at == Hook::Return && kernel.is_record(function.returns) {
        return Err("it returns a structure".into());
    }
    Ok(match (trampolines_reach(kernel, function), at) {
        (true, at) => at,
        (false, Hook::Entry | Hook::Probe) => Hook::Probe,
        (false, Hook::Return | Hook::ProbeReturn) => Hook::ProbeReturn,
    })
}

/// Whether the kernel's trampolines (fentry, fexit) can hook a function: not one with a variable
/// number of arguments, nor with more than they can pass on (six before 6.6, twelve since).
fn trampolines_reach(kernel: &Kernel, function: &Function) -> bool {
    let slots: Option<usize> = function.params.iter().map(|param| kernel.slots(param.type_)).sum();
    !function.variadic
        && slots.is_some_and(|slots| slots <= kernel.max_arguments())
        && !kernel.is_record(function.returns)
}

/// Finds the values that the code uses.
///
/// # Errors
///
/// Places in the code where there is none to be had, and why.
pub(crate) fn bind(
    kernel: &Kernel,
    function: &Function,
    hook: Hook,
    codes: &[&Code],
) -> Result<Bound, Vec<(Span, String)>> {
    let mut bound = Bound { bindings: Vec::new(), types: Vec::new() };
    let mut errors = Vec::new();
    let mut slot = Some(0);
    for param in &function.params {
        let here = slot;
        slot = slot.and_then(|slot| Some(slot + kernel.slots(param.type_)?));
        let mut uses = codes.iter().flat_map(|code| code.variables());
        let Some(used) = uses.find(|token| token.text == param.name) else { continue };
        match binding(kernel, param.type_, &param.name, here, hook) {
            Ok(binding) => {
                bound.bindings.push(binding);
                bound.types.push(param.type_);
            }
            Err(why) => {
                let message = format!("the parameter `{}` of `{}` {why}", param.name, function.name);
                errors.push((used.span, message));
            }
        }
        // The code after a structure may be in registers or not: a kprobe cannot tell.
        let probed = matches!(hook, Hook::Probe | Hook::ProbeReturn);
        if probed && kernel.is_record(param.type_) {
            slot = None;
        }
    }
    if let Some(span) = codes.iter().find_map(|code| code.special(Special::Return)) {
        let returned = match hook {
            Hook::Return => slot,
            Hook::ProbeReturn => Some(SAVED_WORDS),
            Hook::Entry | Hook::Probe => None,
        };
        match returned {
            Some(_) if kernel.is_void(function.returns) => {
                errors.push((span, format!("`{}` returns nothing", function.name)));
            }
            Some(slot) => match kernel.variable(function.returns, RETURN) {
                Some(declaration) => {
                    bound.bindings.push(Binding { declaration, word: slot });
                    bound.types.push(function.returns);
                }
                None => errors.push((span, format!("what `{}` returns has no type in C", function.name))),
            },
            None => {
                errors.push((span, format!("there is no `$return$` where `{}` is entered", function.name)));
            }
        }
    }
    if errors.is_empty() { Ok(bound) } else { Err(errors) }
}

fn binding(
    kernel: &Kernel,
    type_: TypeRef,
    name: &str,
    slot: Option<usize>,
    hook: Hook,
) -> Result<Binding, &'static str> {
    if kernel.is_record(type_) {
        return Err("is a structure, and those cannot be read here");
    }
    if kernel.slots(type_) != Some(1) {
        return Err("is wider than a register, and such cannot be read here");
    }
    let Some(declaration) = kernel.variable(type_, name) else {
        return Err("has a type that C code here cannot have");
    };
    let word = match hook {
        Hook::Probe => slot.and_then(|slot| PROBE_WORDS.get(slot).copied()),
        Hook::ProbeReturn => slot.filter(|slot| *slot < SAVED_WORDS),
        Hook::Entry | Hook::Return => slot,
    };
    match word {
        Some(word) => Ok(Binding { declaration, word }),
        None => Err("is not in a register, and such cannot be read here"),
    }
}
