//! What is read from DWARF, against what the source says that a compiler made it of; and against damage.

use std::borrow::Cow;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
use proptest::prelude::*;
use xweave_code::Error;
use xweave_code::dwarf::{self, Debug, Function, Place};
use xweave_code::types::{Proto, Record, Tag, Type, TypeId, Types};

const FIRST: &str = r#"
typedef unsigned int u32;
typedef struct { u32 low : 3, high : 9; } flags_t;
struct inner { int x; char *text; };
struct node {
	struct node *next;
	union { long number; void *pointer; };
	flags_t flags;
	struct inner inner[2][3];
	int (*call)(struct node *, int);
	const volatile struct inner *hidden;
	struct elsewhere *elsewhere;
	char tail[];
};
struct same { int a; };
struct node *head;
struct inner table[4];
struct same first_same;
int count;
void use(void *);
__attribute__((noinline)) long walk(struct node *start, int limit)
{
	long sum = 0;
	for (struct node *at = start; at && limit--; at = at->next) /* LINE loop */
		sum += at->number;
	return sum;
}
long on_stack(int x)
{
	static struct inner kept;
	struct inner local = { x, 0 };
	use(&local);
	use(&kept);
	return local.x;
}
static inline long inlined(struct inner *argument) { use(0); return argument->x + (long)argument->text; }
long calls(struct node *node) { return inlined(&node->inner[0][1]) + inlined(node->inner[1]); }
int varies(const char *format, ...) { use((void *)format); return 0; }
static __attribute__((noinline)) int clone(struct node *node, int unused, int factor)
{
	return node->inner[0][0].x * factor;
}
int clones(struct node *node, int x) { return clone(node, 3, x) + clone(node->next, 4, x + 1); }
"#;

const SECOND: &str = r#"
struct inner { int x; char *text; };
struct same { long b; };
struct elsewhere { struct inner own; };
struct same second_same;
struct elsewhere found;
static volatile int hidden_in_here[5];
void use(void *p) { hidden_in_here[1] = *(int *)p; }
int other(struct inner *inner) { return inner->x; } /* LINE other */
"#;

/// A library made of both sources.
fn build(folder: &Path, options: &[&str]) -> Vec<u8> {
    for (name, text) in [("first.c", FIRST), ("second.c", SECOND)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let output = Command::new("gcc")
        .current_dir(folder)
        .args(["-O2", "-shared", "-fPIC", "-fcf-protection=none", "-o", "library.so"])
        .args(options)
        .args(["first.c", "second.c"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(folder.join("library.so")).unwrap()
}

fn read(file: &[u8], types: &mut Types) -> Result<Debug, Error> {
    let file = object::File::parse(file).unwrap();
    let section =
        |name: &str| file.section_by_name(name).map(|section| Cow::Borrowed(section.data().unwrap()));
    dwarf::read("library.so", section, types)
}

struct Library {
    file: Vec<u8>,
    types: Types,
    debug: Debug,
}

impl Library {
    fn new(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = build(folder.path(), options);
        let mut types = Types::default();
        let debug = read(&file, &mut types).unwrap();
        assert_eq!((debug.damaged_units(), debug.damaged()), (0, &[][..]));
        Self { file, types, debug }
    }

    fn symbol(&self, name: &str) -> u64 {
        let file = object::File::parse(&*self.file).unwrap();
        file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address()
    }

    fn function(&self, name: &str) -> (Function, &Proto) {
        let function = *self.debug.function(self.symbol(name)).unwrap();
        (function, self.types.proto(function.proto))
    }

    fn record(&self, tag: Tag, name: &str) -> &Record {
        self.types.record(self.types.find(tag, name).unwrap())
    }

    /// A type in words.
    fn spell(&self, of: TypeId) -> String {
        match self.types.get(of) {
            Type::Void => "void".into(),
            Type::Scalar(size) => format!("{size}"),
            Type::Pointer(to) => format!("{}*", self.spell(to)),
            Type::Array(of, count) => format!("{}[{count}]", self.spell(of)),
            Type::Record(record) => self.types.record(record).name.to_string(),
            Type::Function(proto) => {
                let proto = self.types.proto(proto);
                let params: Vec<_> = proto.params.iter().map(|param| self.spell(param.type_)).collect();
                format!("{}({})", self.spell(proto.returns), params.join(","))
            }
        }
    }
}

const VERSIONS: [&str; 2] = ["-gdwarf-4", "-gdwarf-5"];

#[test]
fn structures_are_the_sources() {
    for version in VERSIONS {
        let library = Library::new(&[version]);
        let node = library.record(Tag::Struct, "node");
        let members: Vec<_> =
            node.members.iter().map(|m| (&*m.name, library.spell(m.type_), m.offset)).collect();
        let expected = [
            ("next", "node*", 0),
            ("", "", 8),
            ("flags", "flags_t", 16),
            ("inner", "inner[3][2]", 24),
            ("call", "4(node*,4)*", 120),
            ("hidden", "inner*", 128),
            ("elsewhere", "elsewhere*", 136),
            ("tail", "1[0]", 144),
        ];
        assert_eq!(
            members,
            expected.map(|(name, type_, offset)| (name, type_.to_owned(), offset)),
            "{version}"
        );
        assert_eq!((node.size, node.union), (144, false));
        let Type::Record(nameless) = library.types.get(node.members[1].type_) else { panic!() };
        let nameless = library.types.record(nameless);
        assert_eq!((nameless.tag, nameless.union, nameless.size), (Tag::NamelessUnion, true, 8));
        let names: Vec<_> = nameless.members.iter().map(|m| (&*m.name, m.offset)).collect();
        assert_eq!(names, [("number", 0), ("pointer", 0)]);
        let flags = library.record(Tag::Typedef, "flags_t");
        let fields: Vec<_> = flags.members.iter().map(|m| (&*m.name, m.offset, m.bit_field)).collect();
        assert_eq!(fields, [("low", 0, 1), ("high", 0, 2)], "{version}");
        // Declared in one unit, defined in the other.
        assert_eq!(library.record(Tag::Struct, "elsewhere").size, 16);
        // What both units describe is one, unless they do not agree.
        let times = |name| library.types.records().filter(|(_, record)| &*record.name == name).count();
        assert_eq!(
            (times("inner"), times("elsewhere"), times("node"), times("same")),
            (1, 1, 1, 2),
            "{version}"
        );
    }
}

#[test]
fn objects_are_the_symbols() {
    for version in VERSIONS {
        let library = Library::new(&[version]);
        let objects = library.debug.objects();
        let object = |name: &str| {
            let mut named = objects.iter().filter(|object| library.debug.name(object.name) == name);
            let object = named.next().unwrap();
            assert!(named.next().is_none(), "{name}");
            (object.address, library.spell(object.type_), library.types.size(object.type_))
        };
        let expected = [
            ("head", "node*", 8),
            ("table", "inner[4]", 64),
            ("count", "4", 4),
            ("first_same", "same", 4),
            ("second_same", "same", 8),
            ("hidden_in_here", "4[5]", 20),
        ];
        for (name, type_, size) in expected {
            assert_eq!(object(name), (library.symbol(name), type_.to_owned(), size), "{version}");
        }
        assert_eq!(object("kept").1, "inner");
        assert!(objects.is_sorted_by_key(|object| object.address));
    }
}

#[test]
fn functions_take_what_was_declared() {
    for version in VERSIONS {
        let library = Library::new(&[version]);
        let signature = |name: &str| {
            let (function, proto) = library.function(name);
            let params: Vec<_> = proto
                .params
                .iter()
                .map(|param| format!("{} {}", library.spell(param.type_), param.name))
                .collect();
            assert!(function.from < function.to);
            (params.join(", "), library.spell(proto.returns), proto.variadic, function.exact)
        };
        let is =
            |params: &str, returns: &str, variadic| (params.to_owned(), returns.to_owned(), variadic, true);
        assert_eq!(signature("walk"), is("node* start, 4 limit", "8", false), "{version}");
        assert_eq!(signature("use"), is("void* p", "void", false));
        assert_eq!(signature("varies"), is("1* format", "4", true));
        assert_eq!(signature("calls"), is("node* node", "8", false));
        let file = object::File::parse(&*library.file).unwrap();
        let clone = file.symbols().find(|symbol| symbol.name().is_ok_and(|name| name.starts_with("clone.")));
        let clone = library.debug.function(clone.unwrap().address()).unwrap();
        assert_eq!(library.debug.name(clone.name), "clone");
        assert!(!clone.exact, "{version}");
        assert_eq!(library.types.proto(clone.proto).params.len(), 3);
        assert!(library.debug.unit(clone.unit).unwrap().ends_with("first.c"));
        assert!(library.debug.function(clone.from + 1).is_none());
    }
}

#[test]
fn variables_are_where_the_code_has_them() {
    for version in VERSIONS {
        let library = Library::new(&[version]);
        let debug = &library.debug;
        assert!(debug.lives().is_sorted_by_key(|live| live.from));
        let lives = |function: &str, name: &str| {
            let (function, _) = library.function(function);
            let lives =
                debug.lives_in(function.from, function.to).filter(|live| debug.name(live.name) == name);
            let lives: Vec<_> = lives.map(|live| (*live, library.spell(live.type_))).collect();
            assert!(!lives.is_empty(), "{version} {name}");
            (function, lives)
        };
        // The first argument is in rdi when the function is entered.
        let (walk, start) = lives("walk", "start");
        assert_eq!(start[0].1, "node*");
        assert_eq!((start[0].0.from, start[0].0.place), (walk.from, Place::Register { register: 7, add: 0 }));
        assert!(start[0].0.parameter);
        let (_, at) = lives("walk", "at");
        assert!(at.iter().all(|(live, type_)| type_ == "node*" && !live.parameter && live.from < live.to));
        let (_, sum) = lives("walk", "sum");
        assert_eq!(debug.name(sum[0].0.spelling), "long", "{version}");
        assert_eq!(debug.name(start[0].0.spelling), "struct node *", "{version}");
        let (on_stack, local) = lives("on_stack", "local");
        let (live, type_) = &local[0];
        assert_eq!((&**type_, live.from, live.to), ("inner", on_stack.from, on_stack.to), "{version}");
        assert!(matches!(live.place, Place::Frame { add } if add < 0), "{live:?}");
        // Two times inlined, with what it was given: node + 40, node + 72.
        let (_, argument) = lives("calls", "argument");
        for expected in [40, 72] {
            let given = |place| matches!(place, Place::Register { add, .. } if add == expected);
            let mut found = argument.iter().filter(|(live, _)| given(live.place));
            assert!(found.all(|(live, type_)| live.parameter && type_ == "inner*"), "{argument:?}");
            assert!(argument.iter().any(|(live, _)| given(live.place)), "{version} {argument:?}");
        }
    }
}

#[test]
fn lines_are_the_sources() {
    let line_of = |text: &str, what: &str| {
        let line = text.lines().position(|line| line.contains(what)).unwrap() + 1;
        u32::try_from(line).unwrap()
    };
    for version in VERSIONS {
        let library = Library::new(&[version]);
        let debug = &library.debug;
        let (walk, _) = library.function("walk");
        let (other, _) = library.function("other");
        // The line of the name, or of what is done first.
        let (file, line) = debug.line(walk.from).unwrap();
        let first = line_of(FIRST, "long walk(");
        assert!(file == "first.c" && (first..=first + 3).contains(&line), "{version} {file} {line}");
        assert_eq!(debug.line(other.from), Some(("second.c", line_of(SECOND, "LINE other"))));
        let loop_line = line_of(FIRST, "LINE loop");
        assert!((walk.from..walk.to).any(|at| debug.line(at) == Some(("first.c", loop_line))));
        assert_eq!(debug.line(0), None);
        let ranges = debug.within_files(|file| file == "second.c");
        let inside = |at: u64| ranges.iter().any(|(from, to)| (*from..*to).contains(&at));
        assert!((other.from..other.to).all(inside) && !(walk.from..walk.to).any(inside), "{ranges:x?}");
        assert!(debug.within_files(|_| false).is_empty());
    }
}

#[test]
fn known_types_stay() {
    let mut library = Library::new(&["-gdwarf-5"]);
    let count = |types: &Types| (types.records().count(), types.protos().count());
    let before = count(&library.types);
    let again = read(&library.file, &mut library.types).unwrap();
    // Those without a name cannot be found by it.
    let nameless = library.types.records().skip(before.0).all(|(_, record)| !record.tag.named());
    assert!(nameless && count(&library.types).1 == before.1);
    assert_eq!(again.objects(), library.debug.objects());
    assert_eq!(again.functions(), library.debug.functions());
    assert_eq!(again.lives(), library.debug.lives());
    // One that was only declared is completed.
    let mut types = Types::default();
    let node = types.declare(Tag::Struct, "node", 0, false);
    read(&library.file, &mut types).unwrap();
    assert_eq!((types.find(Tag::Struct, "node"), types.record(node).members.len()), (Some(node), 8));
    // One of another size is another.
    let mut types = Types::default();
    let node = types.declare(Tag::Struct, "node", 8, false);
    read(&library.file, &mut types).unwrap();
    assert!(types.record(node).members.is_empty());
    assert_eq!(types.records().filter(|(_, record)| &*record.name == "node").count(), 2);
}

#[test]
fn what_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let none = build(folder.path(), &["-g0"]);
    let error = read(&none, &mut Types::default()).err().unwrap().to_string();
    assert!(error.contains("library.so") && error.contains(".debug_info"), "{error}");
    let split = build(folder.path(), &["-g", "-gsplit-dwarf"]);
    let debug = read(&split, &mut Types::default()).unwrap();
    assert_eq!((debug.damaged_units(), debug.lives().len(), debug.functions().len()), (2, 0, 0));
    assert!(debug.damaged()[0].reason.to_string().contains(".dwo"), "{:?}", debug.damaged());
}

#[test]
fn a_damaged_unit_is_left_out() {
    let library = Library::new(&["-gdwarf-5"]);
    let file = object::File::parse(&*library.file).unwrap();
    let mut types = Types::default();
    let section = |name: &str| {
        let mut data = file.section_by_name(name)?.data().unwrap().to_vec();
        if name == ".debug_info" {
            // The second unit is cut short in the middle.
            let length = data.len() - 100;
            data.truncate(length);
        }
        Some(Cow::Owned(data))
    };
    let debug = dwarf::read("library.so", section, &mut types).unwrap();
    assert_eq!((debug.damaged_units(), debug.damaged()[0].section), (1, ".debug_info"));
    let functions: Vec<_> = debug.functions().iter().map(|function| debug.name(function.name)).collect();
    assert!(functions.contains(&"walk") && !functions.contains(&"other"), "{functions:?}");
}

/// Asks everything that can be asked.
fn exhaust(debug: &Debug, types: &Types) -> usize {
    let mut asked = 0;
    for live in debug.lives_in(0, u64::MAX).take(1000) {
        asked += debug.name(live.name).len() + debug.lives_in(live.from, live.to).take(100).count();
    }
    for function in debug.functions() {
        asked += types.proto(function.proto).params.len() + debug.name(function.name).len();
        asked += function.definition.map_or(0, |definition| debug.inlined(definition).len());
        asked += debug.line(function.from).map_or(0, |(file, _)| file.len());
    }
    asked += debug.objects().iter().filter(|object| types.size(object.type_) > 0).count();
    asked + debug.within_files(|file| file.contains('c')).len() + debug.damaged().len()
}

#[test]
fn damage_costs_no_crash_and_no_time() {
    const SECTIONS: [&str; 11] = [
        ".debug_info",
        ".debug_abbrev",
        ".debug_str",
        ".debug_line",
        ".debug_line_str",
        ".debug_loclists",
        ".debug_rnglists",
        ".debug_loc",
        ".debug_ranges",
        ".debug_addr",
        ".debug_str_offsets",
    ];
    let libraries: Vec<_> = VERSIONS.iter().map(|version| Library::new(&[version])).collect();
    let damage = (
        0..2_usize,
        proptest::collection::vec((0..SECTIONS.len(), any::<prop::sample::Index>(), any::<u8>()), 0..6),
        proptest::option::of((0..SECTIONS.len(), any::<prop::sample::Index>())),
    );
    let start = Instant::now();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    runner
        .run(&damage, |(library, flips, cut)| {
            let file = object::File::parse(&*libraries[library].file).unwrap();
            let section = |name: &str| {
                let mut data = file.section_by_name(name)?.data().unwrap().to_vec();
                for (_, at, bits) in flips.iter().filter(|(section, ..)| SECTIONS[*section] == name) {
                    let at = at.index(data.len());
                    data[at] ^= bits;
                }
                if let Some((_, at)) = cut.filter(|(section, _)| SECTIONS[*section] == name) {
                    data.truncate(at.index(data.len()));
                }
                Some(Cow::Owned(data))
            };
            let mut types = Types::default();
            if let Ok(debug) = dwarf::read("evil", section, &mut types) {
                exhaust(&debug, &types);
            }
            Ok(())
        })
        .unwrap();
    assert!(start.elapsed() < Duration::from_secs(120), "{:?}", start.elapsed());
}
