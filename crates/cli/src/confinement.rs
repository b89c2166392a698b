//! Commands that read files, which anybody may have made, give up everything but those files first.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use xweave_guard::confine::{Confinement, Limits, User};

use crate::failure::Failure;

/// What a command goes on with: to be applied when it knows which files these are, and before it opens any.
pub struct Only(Confinement);

impl Only {
    /// These files and folders, to be read.
    pub fn reading<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Self {
        let nothing = Confinement::new(User::Same);
        Self(paths.into_iter().fold(nothing, Confinement::read))
    }

    /// This folder besides, to be written in; it is made if it is not there. The command that needs it says why it
    /// cannot be.
    pub fn writing_in(self, folder: &Path) -> Self {
        // Its parents stay out of reach, so that it must be there before.
        let _ = xweave_guard::private::Dir::create(folder);
        Self(self.0.write(folder).remove_folders(parent(folder)))
    }

    /// The folder of a file besides, in which that is written and named; or what is there and is no file, but a pipe or a
    /// link to one (`/dev/stdout`).
    pub fn writing(self, file: &Path) -> Self {
        let kind = file.symlink_metadata().map(|there| there.file_type());
        let is_other = kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir());
        Self(self.0.write(if is_other { file } else { parent(file) }))
    }

    /// Programs of the system besides, and this one.
    pub fn starting(self, program: Option<PathBuf>) -> Self {
        Self(self.0.programs(program))
    }

    /// The running kernel besides.
    pub fn and_this_kernel(self) -> Self {
        Self(self.0.this_kernel())
    }

    /// Gives up everything else.
    pub fn apply(self) -> Result<(), Failure> {
        let limits = Limits::of_command();
        let confined = limits.set().and_then(|()| self.0.apply());
        confined.map_err(|error| Failure::Failed(error.to_string()))?;
        MEMORY.store(Limits::memory_now(), Ordering::Relaxed);
        Ok(())
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What the process may take, in bytes; 0 while it is not confined.
static MEMORY: AtomicU64 = AtomicU64::new(0);

/// The system's allocator, which says what the matter is when a confined command has taken all that it may.
pub struct Told;

// SAFETY: it is the system's.
unsafe impl GlobalAlloc for Told {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        told(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        told(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's.
        told(unsafe { System.realloc(pointer, layout, size) })
    }
}

/// Ends the process where there is no memory; without taking any for it.
fn told(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        let most = MEMORY.load(Ordering::Relaxed);
        if most > 0 {
            say("xweave: this takes more than ");
            let (mut digits, mut left, mut at) = ([0u8; 20], most >> 20, 20);
            while left > 0 {
                at -= 1;
                digits[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
                left /= 10;
            }
            say(std::str::from_utf8(&digits[at..]).unwrap_or_default());
            say(" MiB of memory, which is the most that it may take (half of the machine's, or 4 GiB)\n");
            // SAFETY: takes an integer.
            unsafe { libc::_exit(1) };
        }
    }
    pointer
}

fn say(text: &str) {
    // SAFETY: the bytes are there. If nobody reads them, nothing else can be done.
    unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
}
