//! Type information in the making, by libbpf.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::ptr::{self, NonNull};

use libbpf_sys as sys;

use crate::btf::{Enum, Int, Member, RecordKind};
use crate::declare::int_text;

/// Raw BTF that grows type by type: the first has the number 1. Types may refer to ones that are not there yet.
pub(crate) struct BtfBuilder {
    raw: NonNull<sys::btf>,
}

impl Drop for BtfBuilder {
    fn drop(&mut self) {
        // SAFETY: `raw` came from libbpf, and is freed once.
        unsafe { sys::btf__free(self.raw.as_ptr()) }
    }
}

impl BtfBuilder {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: it takes nothing; it gives null and sets errno, or an object that is ours.
        let raw = unsafe { sys::btf__new_empty() };
        NonNull::new(raw).map(|raw| Self { raw }).ok_or_else(io::Error::last_os_error)
    }

    /// The bytes.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        let mut size = 0;
        // SAFETY: `raw` is valid, and `size` a place for a number.
        let data = unsafe { sys::btf__raw_data(self.raw.as_ptr(), &raw mut size) };
        if data.is_null() {
            return Err(io::Error::last_os_error());
        }
        let size = usize::try_from(size).map_err(io::Error::other)?;
        // SAFETY: `size` bytes that belong to `raw`, which lives until the end of this function.
        Ok(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }.to_vec())
    }

    /// Has libbpf add something under a name, which is null if it is empty.
    fn add(
        &mut self,
        name: &str,
        add: impl FnOnce(*mut sys::btf, *const std::ffi::c_char) -> c_int,
    ) -> io::Result<()> {
        let name = CString::new(name)?;
        let text = if name.is_empty() { ptr::null() } else { CStr::as_ptr(&name) };
        match add(self.raw.as_ptr(), text) {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            _ => Ok(()),
        }
    }

    pub(crate) fn add_int(&mut self, int: Int) -> io::Result<()> {
        let signed = if int.signed { sys::BTF_INT_SIGNED } else { 0 };
        let boolean = if int.boolean { sys::BTF_INT_BOOL } else { 0 };
        let encoding = c_int::try_from(signed | boolean).map_err(io::Error::other)?;
        // SAFETY: libbpf copies the name.
        self.add(int_text(int), |raw, name| unsafe {
            sys::btf__add_int(raw, name, u64::from(int.size), encoding)
        })
    }

    pub(crate) fn add_float(&mut self, size: u32) -> io::Result<()> {
        let name = if size == 4 { "float" } else { "double" };
        // SAFETY: libbpf copies the name.
        self.add(name, |raw, name| unsafe { sys::btf__add_float(raw, name, u64::from(size)) })
    }

    pub(crate) fn add_pointer(&mut self, to: c_int) -> io::Result<()> {
        // SAFETY: a number of any type.
        self.add("", |raw, _| unsafe { sys::btf__add_ptr(raw, to) })
    }

    pub(crate) fn add_array(&mut self, element: c_int, count: u32) -> io::Result<()> {
        // The index has a type that nobody asks for.
        // SAFETY: numbers of any types.
        self.add("", |raw, _| unsafe { sys::btf__add_array(raw, element, element, count) })
    }

    pub(crate) fn add_record(&mut self, kind: RecordKind, name: &str, size: u32) -> io::Result<()> {
        // SAFETY: libbpf copies the name.
        self.add(name, |raw, name| unsafe {
            match kind {
                RecordKind::Struct => sys::btf__add_struct(raw, name, size),
                RecordKind::Union => sys::btf__add_union(raw, name, size),
            }
        })
    }

    /// Of the record that was added last.
    pub(crate) fn add_member(&mut self, member: Member<'_>, type_: c_int) -> io::Result<()> {
        // SAFETY: libbpf copies the name, and refuses this where the last type is no record.
        self.add(member.name, |raw, name| unsafe {
            sys::btf__add_field(raw, name, type_, member.bit_offset, member.bits)
        })
    }

    pub(crate) fn add_enum(&mut self, of: Enum<'_>) -> io::Result<()> {
        // SAFETY: libbpf copies the name.
        self.add(of.name, |raw, name| unsafe {
            match of.size {
                8 => sys::btf__add_enum64(raw, name, of.size, of.signed),
                _ => sys::btf__add_enum(raw, name, of.size),
            }
        })
    }

    /// Of the enumeration that was added last.
    pub(crate) fn add_enumerator(&mut self, of: Enum<'_>, name: &str, value: u64) -> io::Result<()> {
        // SAFETY: libbpf copies the name, and refuses this where the last type is no such enumeration.
        self.add(name, |raw, name| unsafe {
            match of.size {
                8 => sys::btf__add_enum64_value(raw, name, value),
                _ => sys::btf__add_enum_value(raw, name, value.cast_signed()),
            }
        })
    }

    pub(crate) fn add_forward(&mut self, name: &str, kind: RecordKind) -> io::Result<()> {
        let kind = match kind {
            RecordKind::Struct => sys::BTF_FWD_STRUCT,
            RecordKind::Union => sys::BTF_FWD_UNION,
        };
        // SAFETY: libbpf copies the name.
        self.add(name, |raw, name| unsafe { sys::btf__add_fwd(raw, name, kind) })
    }

    pub(crate) fn add_typedef(&mut self, name: &str, of: c_int) -> io::Result<()> {
        // SAFETY: libbpf copies the name.
        self.add(name, |raw, name| unsafe { sys::btf__add_typedef(raw, name, of) })
    }

    /// For any qualifier: `const`, `volatile` and `restrict` are all the same to programs.
    pub(crate) fn add_const(&mut self, of: c_int) -> io::Result<()> {
        // SAFETY: a number of any type.
        self.add("", |raw, _| unsafe { sys::btf__add_const(raw, of) })
    }

    pub(crate) fn add_function(&mut self, name: &str, prototype: c_int) -> io::Result<()> {
        // SAFETY: libbpf copies the name.
        self.add(name, |raw, name| unsafe { sys::btf__add_func(raw, name, sys::BTF_FUNC_STATIC, prototype) })
    }

    pub(crate) fn add_prototype(&mut self, returns: c_int) -> io::Result<()> {
        // SAFETY: a number of any type.
        self.add("", |raw, _| unsafe { sys::btf__add_func_proto(raw, returns) })
    }

    /// Of the prototype that was added last; `type_` 0 without a name is that of any more.
    pub(crate) fn add_parameter(&mut self, name: &str, type_: c_int) -> io::Result<()> {
        // SAFETY: libbpf copies the name, and refuses this where the last type is no prototype.
        self.add(name, |raw, name| unsafe { sys::btf__add_func_param(raw, name, type_) })
    }
}
