//! The allocator, and the most memory that the process may take.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicU64, Ordering},
};

/// The most that the process may take, in bytes; 0 while it is not confined.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Keeps up to 64 MiB of what the process frees, which may take `limit` bytes.
///
/// A trace is read and written in rounds of some megabytes. glibc gives each round's memory back to the kernel, and the next
/// round's page faults are up to a tenth of a command's processor time.
pub fn keep_freed(limit: u64) {
    LIMIT.store(limit, Ordering::Relaxed);
    // SAFETY: these take integers. Where they are refused, commands are only slower.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, 64 << 20);
        // The most that glibc takes. Once one of the two is set, it adapts neither.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
    }
}

/// The system's allocator, which tells the reason when a confined command has taken all that it may.
pub struct Allocator;

// SAFETY: it is the system's.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        require_memory(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's.
        require_memory(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's.
        require_memory(unsafe { System.realloc(pointer, layout, size) })
    }
}

/// Ends the process where there is no memory; without taking any for it.
fn require_memory(pointer: *mut u8) -> *mut u8 {
    if pointer.is_null() {
        let most = LIMIT.load(Ordering::Relaxed);
        if most > 0 {
            say("xweave: this takes more than ");
            let (mut digits, mut left, mut at) = ([0u8; 20], most >> 20, 20);
            while left > 0 {
                at -= 1;
                digits[at] = b'0' + u8::try_from(left % 10).unwrap_or(0);
                left /= 10;
            }
            say(std::str::from_utf8(&digits[at..]).unwrap_or_default());
            say(
                " MiB of memory, which is the most that it may take (three quarters of what was available)\n",
            );
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
