//! At how many of the instructions that touch something it is woven: at each, at the first, or where the function begins.

use std::collections::{BTreeMap, HashMap, HashSet};

use xweave_aspect::syntax::Exact;
use xweave_code::{Function, Kernel};
use xweave_wire::plan::Hook;

use crate::instruction::Touch;
use crate::point::{At, JoinPoint, Target};
use crate::{CodeIndex, Counts, unhookable};

/// As many of them as are asked for; and how many each choice would be.
pub(crate) fn choose<'i>(
    kernel: &Kernel,
    touches: Vec<Touch<'i>>,
    exact: Exact,
    counts: &mut Counts,
) -> Vec<JoinPoint<'i>> {
    let at = |touch: Touch<'i>| JoinPoint { hook: Hook::Instruction, at: At::Instruction(touch) };
    let first = first(&touches);
    counts.every += touches.len();
    counts.first += first.len();
    let functions = by_function(kernel, &first);
    counts.function += functions.len();
    match exact {
        Exact::Every => touches.into_iter().map(at).collect(),
        Exact::First => first.into_iter().map(at).collect(),
        Exact::Function => functions,
    }
}

/// Without those before which another with the same target has always come.
fn first<'i>(touches: &[Touch<'i>]) -> Vec<Touch<'i>> {
    let mut selected: HashMap<*const CodeIndex, HashSet<u32>> = HashMap::new();
    for touch in touches {
        selected.entry(std::ptr::from_ref(touch.code)).or_default().insert(touch.site.number);
    }
    let comes_first = |touch: &&Touch<'i>| {
        let selected = &selected[&std::ptr::from_ref(touch.code)];
        !touch.code.index.earlier(&touch.site).any(|earlier| selected.contains(&earlier))
    };
    touches.iter().filter(comes_first).cloned().collect()
}

/// The entries of the functions where the target is a parameter, and the instructions elsewhere.
fn by_function<'i>(kernel: &Kernel, touches: &[Touch<'i>]) -> Vec<JoinPoint<'i>> {
    let mut points = Vec::new();
    let mut entered: BTreeMap<(String, Option<String>), bool> = BTreeMap::new();
    for touch in touches {
        let key = (touch.site.whole_function().to_owned(), touch.module().map(str::to_owned));
        if let Some((argument, type_)) = touch.argument()
            && !entered.contains_key(&key)
        {
            let found = kernel.functions(&key.0).into_iter().find(|function| function.module == key.1);
            let hook = found
                .and_then(|function| Some((function_hook(kernel, &function, touch.after).ok()?, function)));
            entered.insert(key.clone(), hook.is_some());
            points.extend(hook.map(|(hook, function)| {
                let names = touch.names_of_touched();
                let target = Some(Target { argument, type_: type_.to_owned(), names });
                JoinPoint { hook, at: At::Function { function, target } }
            }));
        }
        if touch.argument().is_none() || entered.get(&key) != Some(&true) {
            points.push(JoinPoint { hook: Hook::Instruction, at: At::Instruction(touch.clone()) });
        }
    }
    points
}

/// Sees to it that the kernel, which knows functions by their names, finds those whose name several have. Where
/// modules have such, it is left to the kernel to say that it cannot.
pub(crate) fn tell_apart<'i>(points: &mut [JoinPoint<'i>], ambiguous: &HashSet<&str>) {
    for point in points {
        let At::Instruction(touch) = &mut point.at else { continue };
        if touch.module().is_some() || !ambiguous.contains(touch.site.function) {
            continue;
        }
        let index = &touch.code.index;
        if let Some((name, distance)) = index.before(&touch.site, |name| !ambiguous.contains(name)) {
            let behind = u64::from(touch.offset() - touch.site.offset);
            touch.told = u32::try_from(distance + behind).ok().map(|distance| (name, distance));
        }
    }
}

/// How a function can be hooked.
///
/// # Errors
///
/// Why it cannot be.
pub(crate) fn function_hook(kernel: &Kernel, function: &Function, returns: bool) -> Result<Hook, String> {
    if let Some(reason) = unhookable::why(&function.name) {
        return Err(reason.into());
    }
    if returns && kernel.is_record(function.returns) {
        return Err("it returns a structure".into());
    }
    Ok(match (trampolines_reach(kernel, function), returns) {
        (true, false) => Hook::Entry,
        (true, true) => Hook::Return,
        (false, false) => Hook::Probe,
        (false, true) => Hook::ProbeReturn,
    })
}

/// Whether the kernel's trampolines (fentry, fexit) can hook a function: not one with a variable
/// number of arguments, nor with more than they can pass on (six before 6.6, twelve since).
fn trampolines_reach(kernel: &Kernel, function: &Function) -> bool {
    let slots = kernel.argument_slots(function);
    !function.variadic
        && slots.is_some_and(|slots| slots <= kernel.max_arguments())
        && !kernel.is_record(function.returns)
}
