//! The variables that the C code of a clause uses at a join point, and where their values are.

use std::collections::BTreeSet;

use xweave_aspect::code::Special;
use xweave_aspect::syntax::{Act, Pointcut, Renamed};
use xweave_aspect::{Code, Span};
use xweave_code::{Kernel, TypeRef};
use xweave_wire::plan::{MAX_VARIABLES, VariablePlace};

use crate::condition::Condition;
use crate::item::Item;
use crate::point::{At, JoinPoint};
use crate::value::{Location, Value};

/// A variable of the C program, to be set from the program's context.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// `struct sk_buff *skb`
    pub declaration: String,
    /// The value's 64-bit word in the context.
    pub word: usize,
    /// The type that it points to, for the verifier: `struct sk_buff`.
    pub typed: Option<String>,
}

/// All that code uses at a join point.
#[derive(Default)]
pub(crate) struct Bound {
    /// In the order of their names.
    pub bindings: Vec<Binding>,
    /// Their types.
    pub types: Vec<TypeRef>,
    /// Whether there is a pointer among them of which the verifier cannot be told what it points to.
    pub unverified_type: bool,
}

/// The name of the variable for `$return$`.
pub(crate) const RETURN: &str = "xw_return";

/// The name of the variable for what `access` selects, where a clause uses it unnamed.
pub(crate) const TARGET: &str = "xw_target";

/// The names in an item's code that something has at one of these instructions.
pub(crate) fn variables<'a, 'p>(
    kernel: &Kernel,
    item: Item<'a>,
    points: impl Iterator<Item = &'p JoinPoint<'p>> + Clone,
) -> BTreeSet<&'a str> {
    let points = points.filter(|point| matches!(point.at, At::Instruction(_)));
    let somewhere = |name: &&str| points.clone().any(|point| point.local(kernel, name, name).is_some());
    item.names().into_iter().filter(somewhere).collect()
}

/// What the carriers can make a key of: `XW_SENT` of bpf/carriers/xen-net.h.
const REQUEST: &str = "struct xen_netif_tx_request *";

/// Places in code where a value is used that is not to be had, and why.
pub(crate) type Errors = Vec<(Span, String)>;

/// Finds the values that the code of an item uses. Where variables lie at an instruction goes into `places`.
/// `variables`: names that an instruction must have as variables, since others have.
///
/// # Errors
///
/// Places in the code where there is none to be had, and why.
pub(crate) fn bind(
    kernel: &Kernel,
    point: &JoinPoint<'_>,
    item: Item<'_>,
    condition: &Condition<'_>,
    variables: &BTreeSet<&str>,
    places: &mut Vec<VariablePlace>,
) -> Result<Bound, Errors> {
    let codes: Vec<&Code> = condition.codes().into_iter().chain(item.codes()).collect();
    let mut binder = Binder { kernel, places, bound: Bound::default() };
    let mut errors = Vec::new();
    let mut add = |span: Span, value: Result<Value, String>| {
        if let Err(why) = value.and_then(|value| binder.add(value)) {
            errors.push((span, why));
        }
    };

    let (renamed, targets) = given(item.pointcut());
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (of, is_argument) in renamed {
        let name = of.given();
        if names.contains(name.text.as_str()) {
            continue;
        }
        let value = match is_argument {
            true => point.argument(kernel, &of.of.text, &name.text),
            false => point.local(kernel, &of.of.text, &name.text),
        };
        // What a join point lacks, an alternative names that does not select it.
        if let Some(value) = value {
            names.insert(&name.text);
            add(of.of.span, value.map_err(|why| format!("`{}` of {} {why}", of.of.text, point.described())));
        }
    }
    for target in targets {
        if !names.contains(target.text.as_str())
            && let Some(value) = point.target(kernel, &target.text)
        {
            names.insert(&target.text);
            add(target.span, value);
        }
    }
    if uses_target(&item)
        && let Some(value) = point.touched(kernel, TARGET)
    {
        add(item.span(), value);
    }
    // What the code itself declares is no variable of the join point's.
    let own: BTreeSet<&str> = codes
        .iter()
        .flat_map(|code| code.declared())
        .chain(condition.tests().into_iter().filter_map(|test| test.id.as_ref()).map(|id| id.text.as_str()))
        .collect();
    for used in codes.iter().flat_map(|code| code.variables()) {
        if own.contains(used.text.as_str()) || !names.insert(&used.text) {
            continue;
        }
        let what = |why| format!("the variable `{}` of {} {why}", used.text, point.described());
        match point.local(kernel, &used.text, &used.text) {
            Some(value) => add(used.span, value.map_err(what)),
            None if matches!(point.at, At::Instruction(_)) && variables.contains(used.text.as_str()) => {
                add(used.span, Err(format!("{} has no variable `{}`", point.described(), used.text)));
            }
            None => {}
        }
    }
    if let Some(span) = codes.iter().find_map(|code| code.special(Special::Return)) {
        add(span, point.returned(kernel, RETURN));
    }
    if let Some((key, _)) = item.request()
        && let Some(name) = key.variables().next()
        && !binder
            .bound
            .bindings
            .iter()
            .any(|binding| binding.declaration == format!("{REQUEST}{}", name.text))
    {
        let what = "is no pointer to a request of a ring";
        let keys = "give a carrier's key, such as virtqueue_avail(vq)";
        errors.push((
            name.span,
            format!("`{}` of {} {what} (`{REQUEST}`): {keys}", name.text, point.described()),
        ));
    }
    if errors.is_empty() { Ok(binder.bound) } else { Err(errors) }
}

struct Binder<'a> {
    kernel: &'a Kernel,
    places: &'a mut Vec<VariablePlace>,
    bound: Bound,
}

impl Binder<'_> {
    fn add(&mut self, value: Value) -> Result<(), String> {
        let word = match value.location {
            Location::Word(word) => word,
            Location::Place(place) => match self.places.iter().position(|known| *known == place) {
                Some(known) => known,
                None if self.places.len() == MAX_VARIABLES => {
                    return Err(format!("more than {MAX_VARIABLES} variables are used at one instruction"));
                }
                None => {
                    self.places.push(place);
                    self.places.len() - 1
                }
            },
        };
        let typed = value.unverified_type.and_then(|of| self.kernel.castable(of));
        self.bound.unverified_type |= value.unverified_type.is_some() && typed.is_none();
        self.bound.bindings.push(Binding { declaration: value.declaration, word, typed });
        self.bound.types.extend(value.types);
        Ok(())
    }
}

/// What a pointcut gives names: variables and arguments (true), and targets.
fn given(pointcut: &Pointcut) -> (Vec<(&Renamed, bool)>, Vec<&xweave_aspect::syntax::Ident>) {
    let (mut renamed, mut targets) = (Vec::new(), Vec::new());
    pointcut.atoms(&mut |atom| match atom {
        Pointcut::Arg(of) => renamed.push((of, true)),
        Pointcut::LocalVar(of) => renamed.push((of, false)),
        Pointcut::Target(name) => targets.push(name),
        _ => {}
    });
    (renamed, targets)
}

fn uses_target(item: &Item<'_>) -> bool {
    matches!(item, Item::Clause(_, clause) if matches!(clause.act, Act::SelectTarget))
}
