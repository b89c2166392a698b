//! Compiles seeds with the compilers that building and weaving need anyway: mutations of random bytes would never
//! become an ELF file.

use std::process::Command;

use tempfile::TempDir;

/// C source with structures, unions, bit-fields, enumerations, calls, inlined functions, and data with and without
/// relocations.
const SOURCE: &str = "
enum color { RED = -1, BLUE = 7 };
enum wide { LARGE = 0x123456789abLL };
typedef unsigned long word;
typedef struct { int x, y; } point;
struct list { struct list *next; union { int number; char text[4]; }; unsigned a : 3, b : 9; };
struct outer { struct list list; point points[3]; word (*call)(struct outer *, enum color, ...); };
extern int outside(int);
extern int counter;
static const int table[4] = {1, 2, 3, 4};
volatile enum wide large = LARGE;
int shared = 7, zeros[9];
int (*pointer)(int) = outside;
const point known = {1, 2};
static inline int helper(int x, struct list *of) { return of ? of->number + x : table[x & 3]; }
__attribute__((noinline)) static int inner(int x) { int y = outside(x); return helper(y, 0) + y; }
int outer(struct outer *o, const char *text) { counter++; return inner(o->list.b) + helper(text[1], &o->list); }
int again(struct outer *o, const char *text) __attribute__((alias(\"outer\")));
int loop(int n) { int sum = 0; for (int i = 0; i < n; i++) { point p = {i, sum}; sum += outside(p.x) + p.y; } return sum; }
";

/// A temporary folder with `source.c`, in which commands run. Deleted on drop.
pub struct CompileFolder(TempDir);

impl CompileFolder {
    /// Creates the folder.
    pub fn new() -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary folder"));
        folder.write_file("source.c", SOURCE.as_bytes());
        folder
    }

    /// Writes a file in the folder.
    pub fn write_file(&self, name: &str, content: &[u8]) {
        std::fs::write(self.0.path().join(name), content).expect("a writable temporary folder");
    }

    /// Reads a file of the folder.
    pub fn read_file(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Runs a command line in the folder. Panics if the command fails.
    pub fn run_command(&self, line: &str) {
        let mut words = line.split_whitespace();
        let program = words.next().unwrap_or_default();
        let mut command = Command::new(program);
        command.args(words).current_dir(self.0.path());
        // Compilers write this path into debug information: with the folder's random name, seeds would differ each time.
        command.env("PWD", "/proc/self/cwd");
        let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a command line that writes the file `out`, and returns the content of that file.
    pub fn compile(&self, line: &str) -> Vec<u8> {
        self.run_command(line);
        self.read_file("out")
    }
}

/// Checks that a program is installed.
pub fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}
