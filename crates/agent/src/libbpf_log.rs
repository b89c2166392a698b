//! What libbpf and the verifier say while something is loaded.

use std::{
    ffi::{CStr, c_char},
    sync::Mutex,
};

/// What libbpf says while it loads: the verifier's words are in it.
pub(crate) struct Log;

static LOG: Mutex<String> = Mutex::new(String::new());

unsafe extern "C" {
    /// libc's, in its C types: the message comes as a format and a list of arguments.
    fn vsnprintf(
        buffer: *mut c_char,
        size: usize,
        format: *const c_char,
        arguments: *mut libbpf_sys::__va_list_tag,
    ) -> i32;
}

extern "C" fn keep(
    level: libbpf_sys::libbpf_print_level,
    format: *const c_char,
    arguments: *mut libbpf_sys::__va_list_tag,
) -> i32 {
    if level == libbpf_sys::LIBBPF_DEBUG {
        return 0;
    }
    // The verifier's reason is at the end of its log, which libbpf gives as one message: all of it is needed.
    let mut buffer = vec![0u8; 16 << 20];
    // SAFETY: the buffer has the size given; format and arguments are libbpf's own and valid for the call.
    unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
    if let (Ok(text), Ok(mut log)) = (CStr::from_bytes_until_nul(&buffer), LOG.lock()) {
        log.push_str(&text.to_string_lossy());
    }
    0
}

impl Log {
    pub(crate) fn capture() -> Self {
        // SAFETY: keep is a function with static lifetime and the type that libbpf asks for.
        unsafe { libbpf_sys::libbpf_set_print(Some(keep)) };
        Self
    }

    /// The last lines of what was said.
    pub(crate) fn take(&self) -> String {
        LOG.lock().map(|mut log| tail(&std::mem::take(&mut *log), 24)).unwrap_or_default()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // SAFETY: none is allowed, and silences libbpf.
        unsafe { libbpf_sys::libbpf_set_print(None) };
    }
}

/// The last lines of a text that are not empty.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
