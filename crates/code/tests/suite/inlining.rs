//! Which calls are inlined into which functions, against what the source says that a compiler made it of.

use std::borrow::Cow;
use std::process::Command;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use xweave_code::dwarf::{self, Debug};
use xweave_code::types::Types;

/// What both units include.
const HEADER: &str = r"
extern volatile int sink;
static inline int twice(int x) { sink = x; return 2 * x; }
static inline int thrice(int x) { return twice(x) + x; }
";

const FIRST: &str = r#"
#include "header.h"
void use(int x, int *list);
int (*kept)(int) = twice;
int two_calls(int x) { return twice(x) + twice(x + 1); }
int by_another(int x) { return thrice(x); }
int in_a_block(int x) { if (x) { int y = x + sink; return twice(y); } return 0; }
static int namesake(int x) { sink = x + 2; return x; }
int (*also_kept)(int) = namesake;
int of_the_first(int x) { return namesake(x) + 1; }
int parted(int *list, int x)
{
	if (__builtin_expect(!list, 1))
		return 0;
	use(x, list); use(x + 1, list);
	return 1;
}
int once(int *list, int x) { return parted(list, x) + 1; }
int again(int *list, int x) { return parted(list, x + 1) + parted(list + 1, x); }
"#;

const SECOND: &str = r#"
#include "header.h"
volatile int sink;
void use(int x, int *list) { sink = x + *list; }
int elsewhere(int x) { return twice(x + 3); }
static int namesake(int x) { sink = x + 3; return x; }
int of_the_second(int x) { return namesake(x) + 1; }
"#;

struct Library {
    file: Vec<u8>,
    debug: Debug,
}

impl Library {
    fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = [("header.h", HEADER), ("first.c", FIRST), ("second.c", SECOND)];
        for (name, text) in sources {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let output = Command::new("gcc")
            .current_dir(folder.path())
            .args(["-O2", "-shared", "-fPIC", "-fno-semantic-interposition", "-o", "library.so"])
            .args(options)
            .args(["first.c", "second.c"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bytes = std::fs::read(folder.path().join("library.so")).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let section =
            |name: &str| file.section_by_name(name).map(|section| Cow::Borrowed(section.data().unwrap()));
        let debug = dwarf::read("library.so", section, &mut Types::default()).unwrap();
        Self { file: bytes, debug }
    }

    fn symbols(&self) -> Vec<(u64, String)> {
        let file = object::File::parse(&*self.file).unwrap();
        let symbols = file.symbols().map(|symbol| (symbol.address(), symbol.name().unwrap().to_owned()));
        symbols.collect()
    }

    /// Into what calls of a function are inlined: `name calls`.
    fn inlined(&self, function: &str) -> Vec<String> {
        let symbols = self.symbols();
        let address = symbols.iter().find(|(_, name)| name == function).unwrap().0;
        let definition = self.debug.function(address).unwrap().definition.unwrap();
        let name =
            |at: u64| symbols.iter().find(|(address, _)| *address == at).map(|(_, name)| name).unwrap();
        let inlined = self.debug.inlined(definition).iter();
        let mut inlined: Vec<_> = inlined.map(|of| format!("{} {}", name(of.into), of.calls)).collect();
        inlined.sort();
        inlined
    }
}

const VERSIONS: [&str; 2] = ["-gdwarf-4", "-gdwarf-5"];

#[test]
fn calls_are_counted_in_the_functions_that_their_code_is_in() {
    for version in VERSIONS {
        let library = Library::new(&[version]);
        // What `thrice` calls is where `thrice` is; and the other unit has the header's function too.
        let expected = ["by_another 1", "elsewhere 1", "in_a_block 1", "two_calls 2"];
        assert_eq!(library.inlined("twice"), expected, "{version}");
        assert_eq!(library.inlined("two_calls"), [""; 0], "nobody calls it");
    }
}

#[test]
fn functions_of_one_name_are_told_apart_by_their_places() {
    for version in VERSIONS {
        assert_eq!(Library::new(&[version]).inlined("namesake"), ["of_the_first 1"], "{version}");
    }
}

/// GCC takes `parted.part.0` out of the function, has the test before it inlined, and then that part, too: in the
/// function itself as well.
#[test]
fn a_part_that_is_put_back_is_no_call() {
    for version in VERSIONS {
        assert_eq!(Library::new(&[version]).inlined("parted"), ["again 2", "once 1"], "{version}");
    }
}

#[test]
fn nothing_is_inlined_where_the_compiler_inlines_nothing() {
    let library = Library::new(&["-gdwarf-5", "-fno-inline", "-fno-partial-inlining"]);
    for function in ["twice", "namesake", "parted"] {
        assert_eq!(library.inlined(function), [""; 0], "{function}");
    }
}
