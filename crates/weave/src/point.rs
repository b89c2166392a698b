//! Join points, and what the variables of C code mean there.

use xweave_access::InlinedCalls;
use xweave_code::{Function, Kernel, TypeRef};
use xweave_wire::plan::Hook;

use crate::CodeIndex;
use crate::instruction::{self, Touch};
use crate::value::{Location, Value, pointer};

/// A place in a domain's code where something can be woven.
#[derive(Clone)]
pub(crate) struct JoinPoint<'i> {
    pub hook: Hook,
    pub at: At<'i>,
}

/// What is there.
#[derive(Clone)]
pub(crate) enum At<'i> {
    /// A function's entry or return.
    Function {
        function: Function,
        /// Where the function stands for an instruction of it.
        target: Option<Target>,
    },
    /// A static tracepoint, with its arguments as parameters.
    Tracepoint(Function),
    /// An instruction that touches memory.
    Instruction(Touch<'i>),
    /// A program's function.
    User {
        /// The program's path.
        path: String,
        function: String,
    },
}

/// What `access` selects at a function that stands for an instruction.
#[derive(Clone)]
pub(crate) struct Target {
    /// The argument, by its place among those in registers, that is its address.
    pub argument: usize,
    /// Its type.
    pub type_: String,
    /// Names that the pointcut gives to what lies there, and their types.
    pub names: Vec<(String, String)>,
}

/// Tells join points of a domain apart, and gives them an order: function, module, offset, hook; and an
/// instruction's address as linked, since several functions may have one name.
pub(crate) type Place = (String, Option<String>, u32, u8, u64);

/// Where a kprobe or uprobe finds the arguments: the words of `struct pt_regs` for di, si, dx, cx, r8 and r9.
const PROBE_WORDS: [usize; 6] = [14, 13, 12, 11, 9, 8];

/// What is returned, in `struct pt_regs`: ax.
const RESULT_WORD: usize = 10;

/// Where a pair of kprobes finds what is returned: behind the six arguments that were saved.
const SAVED_WORDS: usize = 6;

impl JoinPoint<'_> {
    /// The function's, or tracepoint's, name.
    pub(crate) fn name(&self) -> &str {
        match &self.at {
            At::Function { function, .. } | At::Tracepoint(function) => &function.name,
            At::Instruction(touch) => touch.function(),
            At::User { function, .. } => function,
        }
    }

    /// The module it lives in, or the program's path.
    pub(crate) fn module(&self) -> Option<&str> {
        match &self.at {
            At::Function { function, .. } | At::Tracepoint(function) => function.module.as_deref(),
            At::Instruction(touch) => touch.module(),
            At::User { path, .. } => Some(path),
        }
    }

    /// For the kernel; 0 where it needs none.
    pub(crate) fn btf_id(&self) -> u32 {
        match &self.at {
            At::Function { function, .. } | At::Tracepoint(function) => function.btf_id,
            At::Instruction(_) | At::User { .. } => 0,
        }
    }

    /// From the function's beginning, in bytes.
    pub(crate) fn offset(&self) -> u32 {
        match &self.at {
            At::Instruction(touch) => touch.offset(),
            _ => 0,
        }
    }

    /// How the kernel is told where it is: a function's (or tracepoint's) name, and the bytes from its beginning.
    pub(crate) fn told(&self) -> (&str, u32) {
        match &self.at {
            At::Instruction(touch) => touch.told(),
            _ => (self.name(), 0),
        }
    }

    /// How many registers for arguments there are, where the kernel's trampolines save them.
    pub(crate) fn argument_registers(&self, kernel: &Kernel) -> u8 {
        let (Hook::Entry | Hook::Return, At::Function { function, .. }) = (self.hook, &self.at) else {
            return 0;
        };
        let slots = kernel.argument_slots(function).unwrap_or(0);
        u8::try_from(slots.min(PROBE_WORDS.len())).unwrap_or(0)
    }

    /// The source file and line, where debug information tells: of a function, where it begins; of a tracepoint, where it is
    /// defined.
    pub(crate) fn line<'c>(&'c self, code: &'c [CodeIndex]) -> Option<(&'c str, u32)> {
        match &self.at {
            At::Instruction(touch) => touch.line(),
            At::Function { function, .. } => {
                instruction::line_of(code, &function.name, function.module.as_deref())
            }
            // DEFINE_TRACE_FN of include/linux/tracepoint.h, Linux 6.1 to 6.12.
            At::Tracepoint(function) => instruction::line_of(
                code,
                &format!("__traceiter_{}", function.name),
                function.module.as_deref(),
            ),
            At::User { .. } => None,
        }
    }

    /// The calls of a function that are inlined, where debug information tells.
    pub(crate) fn inlined<'c>(&'c self, code: &'c [CodeIndex]) -> Option<InlinedCalls<'c>> {
        match &self.at {
            At::Function { function, .. } => {
                instruction::inlined(code, &function.name, function.module.as_deref())
            }
            At::Instruction(_) | At::Tracepoint(_) | At::User { .. } => None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        let hook = match self.hook {
            Hook::Entry | Hook::Probe => 0,
            Hook::Return | Hook::ProbeReturn => 1,
            Hook::Instruction => 2,
            Hook::Tracepoint => 3,
            Hook::User => 4,
            Hook::UserReturn => 5,
        };
        let address = match &self.at {
            At::Instruction(touch) => touch.address(),
            _ => 0,
        };
        (self.name().to_owned(), self.module().map(str::to_owned), self.offset(), hook, address)
    }

    /// How messages call it.
    pub(crate) fn described(&self) -> String {
        match &self.at {
            At::Function { function, .. } => format!("`{}`", function.name),
            At::Tracepoint(function) => format!("tracepoint `{}`", function.name),
            At::Instruction(touch) => format!("`{}+{:#x}`", touch.function(), touch.offset()),
            At::User { path, function } => format!("`{path}:{function}`"),
        }
    }

    /// The names of its variables, for messages.
    pub(crate) fn names(&self) -> Vec<&str> {
        match &self.at {
            At::Function { function, .. } | At::Tracepoint(function) => {
                function.params.iter().map(|param| param.name.as_str()).collect()
            }
            At::Instruction(_) | At::User { .. } => Vec::new(),
        }
    }

    /// The same in words.
    pub(crate) fn parameters(&self) -> String {
        let names: Vec<_> = self.names().iter().map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => format!("{} has no parameters", self.described()),
            false => format!("the parameters of {} are {}", self.described(), names.join(", ")),
        }
    }

    /// The local variable (or parameter) `of`, to be called `name`; none if nothing is called that here.
    ///
    /// # Errors
    ///
    /// Why it cannot be read, as what follows its name.
    pub(crate) fn local(&self, kernel: &Kernel, of: &str, name: &str) -> Option<Result<Value, String>> {
        match &self.at {
            At::Function { function, .. } | At::Tracepoint(function) => {
                let nth = function.params.iter().position(|param| param.name == of)?;
                Some(self.parameter(kernel, function, nth, name))
            }
            At::Instruction(touch) => touch.named(kernel, name),
            At::User { .. } => None,
        }
    }

    /// The address of the structure that `access` selects, to be called `name`.
    ///
    /// # Errors
    ///
    /// Why it is not to be had.
    pub(crate) fn touched(&self, kernel: &Kernel, name: &str) -> Option<Result<Value, String>> {
        match &self.at {
            At::Instruction(touch) => Some(touch.target(kernel, name)),
            _ => self.target(kernel, name),
        }
    }

    /// The address of the structure that the pointcut calls `name`.
    ///
    /// # Errors
    ///
    /// Why it is not to be had.
    pub(crate) fn target(&self, kernel: &Kernel, name: &str) -> Option<Result<Value, String>> {
        match &self.at {
            At::Instruction(touch) => {
                let value = touch.named(kernel, name)?;
                Some(value.map_err(|why| format!("`{name}` of {} {why}", self.described())))
            }
            At::Function { function, target: Some(Target { argument, type_, names }) } => {
                let given = names.iter().find(|(given, _)| given == name);
                let type_ = given.map_or(type_, |(_, type_)| type_);
                let slots = |nth: usize| {
                    function.params[..nth]
                        .iter()
                        .map(|param| kernel.slots(param.type_))
                        .sum::<Option<usize>>()
                };
                let nth = (0..function.params.len()).find(|nth| slots(*nth) == Some(*argument))?;
                let told = self.parameter(kernel, function, nth, name);
                // Declared as something else (`struct sock *`), it is the structure all the same.
                Some(told.map(|value| match value.declaration == format!("{type_} *{name}") {
                    true => value,
                    false => pointer(kernel, type_, name, value.location),
                }))
            }
            _ => None,
        }
    }

    /// The argument with this name or number, to be called `name`.
    ///
    /// # Errors
    ///
    /// Why it cannot be read.
    pub(crate) fn argument(&self, kernel: &Kernel, of: &str, name: &str) -> Option<Result<Value, String>> {
        let number = of.parse::<usize>().ok();
        match &self.at {
            At::Function { function, .. } | At::Tracepoint(function) => {
                let named = || function.params.iter().position(|param| param.name == of);
                let nth = number.filter(|nth| *nth < function.params.len()).or_else(named)?;
                Some(self.parameter(kernel, function, nth, name))
            }
            At::User { .. } => {
                let word = *PROBE_WORDS.get(number?)?;
                let entry = self.hook == Hook::User;
                Some(match entry {
                    true => Ok(Value {
                        declaration: format!("unsigned long {name}"),
                        types: Vec::new(),
                        location: Location::Word(word),
                        unverified_type: None,
                    }),
                    false => Err("is gone where the function returns".into()),
                })
            }
            At::Instruction(touch) => touch.named(kernel, name),
        }
    }

    fn parameter(
        &self,
        kernel: &Kernel,
        function: &Function,
        nth: usize,
        name: &str,
    ) -> Result<Value, String> {
        let type_ = function.params[nth].type_;
        if kernel.is_record(type_) {
            return Err("is a structure, and those cannot be read here".into());
        }
        if kernel.slots(type_) != Some(1) {
            return Err("is wider than a register, and such cannot be read here".into());
        }
        // The words after a structure may be in registers or not: a kprobe cannot tell.
        let probed = matches!(self.hook, Hook::Probe | Hook::ProbeReturn);
        let before = &function.params[..nth];
        let slot = match probed && before.iter().any(|param| kernel.is_record(param.type_)) {
            true => None,
            false => before.iter().map(|param| kernel.slots(param.type_)).sum::<Option<usize>>(),
        };
        // A structure that does not fit in two registers is returned where the caller says, in the first.
        let hidden = kernel.is_record(function.returns) && kernel.size_of(function.returns) > Some(16);
        let slot = slot.map(|slot| slot + usize::from(hidden));
        let word = match self.hook {
            Hook::Probe => slot.and_then(|slot| PROBE_WORDS.get(slot).copied()),
            Hook::ProbeReturn => slot.filter(|slot| *slot < SAVED_WORDS),
            _ => slot,
        };
        let word = word.ok_or("is not in a register, and such cannot be read here")?;
        self.value(kernel, type_, name, Location::Word(word))
    }

    /// What is returned here, to be called `name`.
    ///
    /// # Errors
    ///
    /// Why there is nothing.
    pub(crate) fn returned(&self, kernel: &Kernel, name: &str) -> Result<Value, String> {
        let function = match &self.at {
            At::Function { function, .. } => function,
            At::User { .. } if self.hook == Hook::UserReturn => {
                return Ok(Value {
                    declaration: format!("unsigned long {name}"),
                    types: Vec::new(),
                    location: Location::Word(RESULT_WORD),
                    unverified_type: None,
                });
            }
            _ => return Err(format!("there is no `$return$` at {}", self.described())),
        };
        let word = match self.hook {
            Hook::Return => kernel.argument_slots(function),
            Hook::ProbeReturn => Some(SAVED_WORDS),
            _ => None,
        };
        let Some(word) = word else {
            return Err(format!("there is no `$return$` where `{}` is entered", function.name));
        };
        if kernel.is_void(function.returns) {
            return Err(format!("`{}` returns nothing", function.name));
        }
        let unnamed = |_| format!("what `{}` returns has no type in C", function.name);
        self.value(kernel, function.returns, name, Location::Word(word)).map_err(unnamed)
    }

    fn value(
        &self,
        kernel: &Kernel,
        type_: TypeRef,
        name: &str,
        location: Location,
    ) -> Result<Value, String> {
        let declaration = kernel.variable(type_, name).ok_or("has a type that C code here cannot have")?;
        // Trampolines pass typed values on; the registers of a kprobe are numbers to the verifier.
        let told = matches!(self.hook, Hook::Entry | Hook::Return | Hook::Tracepoint);
        let unverified_type = if told { None } else { kernel.pointee(type_) };
        Ok(Value { declaration, types: vec![type_], location, unverified_type })
    }
}
