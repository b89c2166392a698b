//! BTF through libbpf, which checks it when it is loaded: all offsets and type numbers in it are
//! valid afterwards. Nothing else is: it may come from a guest that wants to do harm, so names may
//! be any text and types may refer to each other in circles.

use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use libbpf_sys as sys;

use crate::Error;
use crate::regular::open_regular;

/// The type information of a kernel image, or of a module on top of one.
pub struct Btf {
    raw: NonNull<sys::btf>,
    /// Kept because libbpf refers to it.
    base: Option<Arc<Btf>>,
}

// SAFETY: after loading, only functions of libbpf are called that read (btf__type_by_id,
// btf__type_cnt, btf__str_by_offset); the object is written to again only when it is freed.
unsafe impl Send for Btf {}
// SAFETY: as above.
unsafe impl Sync for Btf {}

impl Drop for Btf {
    fn drop(&mut self) {
        // SAFETY: `raw` came from libbpf, and is freed once; `base` is dropped after it.
        unsafe { sys::btf__free(self.raw.as_ptr()) }
    }
}

/// A type, with the numbers of the types that it is made of.
#[derive(Clone, Copy)]
pub enum Type<'a> {
    /// `void`, and kinds that describe no type (sections, tags of declarations).
    Void,
    /// An integer.
    Int(Int),
    /// A pointer to.
    Pointer(u32),
    /// An array of so many elements.
    Array(u32, u32),
    /// A structure or union.
    Record(Record<'a>),
    /// An enumeration.
    Enum(Enum<'a>),
    /// A structure or union that is defined elsewhere.
    Forward(&'a str, RecordKind),
    /// Another name for.
    Typedef(&'a str, u32),
    /// `const`, `volatile`, `restrict`, or a tagged.
    Qualified(u32),
    /// A function with this name and prototype.
    Function(&'a str, u32),
    /// A variable with this name and type.
    Variable(&'a str, u32),
    /// A prototype.
    Prototype(Prototype<'a>),
    /// A floating point number of so many bytes.
    Float(u32),
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int {
    /// In bytes.
    pub size: u32,
    /// Whether negative numbers fit.
    pub signed: bool,
    /// `_Bool`
    pub boolean: bool,
    /// `char`, whatever its sign.
    pub char: bool,
    /// `long long`, which is as wide as `long`, but another type.
    pub long_long: bool,
}

/// `struct` or `union`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum RecordKind {
    /// `struct`
    Struct,
    /// `union`
    Union,
}

impl RecordKind {
    /// C's word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A structure or union.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    /// Which.
    pub kind: RecordKind,
    /// Its tag; empty if it has none.
    pub name: &'a str,
    /// In bytes.
    pub size: u32,
    items: Items<'a>,
    bit_fields: bool,
}

/// A member of a structure or union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name; empty if it has none.
    pub name: &'a str,
    /// Its type.
    pub type_: u32,
    /// Where it begins, in bits from the beginning of the record.
    pub bit_offset: u32,
    /// Its width in bits if it is a bit-field, else 0.
    pub bits: u32,
}

/// An enumeration.
#[derive(Clone, Copy)]
pub struct Enum<'a> {
    /// Its tag; empty if it has none.
    pub name: &'a str,
    /// In bytes.
    pub size: u32,
    /// Whether it has negative values.
    pub signed: bool,
    items: Items<'a>,
    wide: bool,
}

/// A function's parameters and result.
#[derive(Clone, Copy)]
pub struct Prototype<'a> {
    /// What it returns.
    pub returns: u32,
    items: Items<'a>,
}

/// What follows a type in BTF: members, enumerators, parameters.
#[derive(Clone, Copy)]
struct Items<'a> {
    btf: &'a Btf,
    first: *const u8,
    count: u16,
}

impl<'a> Items<'a> {
    /// # Safety
    ///
    /// `T` is what libbpf lays out after a type of this kind.
    unsafe fn get<T: Copy + 'a>(self) -> impl Iterator<Item = T> + 'a {
        let first = self.first.cast::<T>();
        let _borrowed = self.btf;
        // SAFETY: libbpf checked that `count` of them lie inside the data; BTF promises no alignment.
        (0..usize::from(self.count)).map(move |nth| unsafe { first.add(nth).read_unaligned() })
    }
}

impl<'a> Record<'a> {
    /// In the order of declaration.
    pub fn members(self) -> impl Iterator<Item = Member<'a>> {
        // SAFETY: members follow structures and unions.
        let members = unsafe { self.items.get::<sys::btf_member>() };
        members.map(move |member| {
            // With bit-fields in the record, the offset's top byte is the width (kind_flag).
            let (bits, bit_offset) = match self.bit_fields {
                true => (member.offset >> 24, member.offset & 0xff_ffff),
                false => (0, member.offset),
            };
            let name = self.items.btf.text(member.name_off);
            Member { name, type_: member.type_, bit_offset, bits }
        })
    }
}

impl<'a> Enum<'a> {
    /// Names and values, the latter as 64 bits, sign-extended where the type is signed.
    pub fn enumerators(self) -> impl Iterator<Item = (&'a str, u64)> {
        // SAFETY: enumerators of 64 bits follow ENUM64, of 32 bits ENUM; only one iterator yields.
        let (narrow, wide) = unsafe {
            let none = Items { count: 0, ..self.items };
            let (narrow, wide) = if self.wide { (none, self.items) } else { (self.items, none) };
            (narrow.get::<sys::btf_enum>(), wide.get::<sys::btf_enum64>())
        };
        let btf = self.items.btf;
        let signed = self.signed;
        let narrow = narrow.map(move |item| {
            let value = i64::from(item.val).cast_unsigned();
            (btf.text(item.name_off), if signed { value } else { value & 0xffff_ffff })
        });
        let wide = wide.map(move |item| {
            let value = u64::from(item.val_hi32) << 32 | u64::from(item.val_lo32);
            (btf.text(item.name_off), value)
        });
        narrow.chain(wide)
    }
}

impl<'a> Prototype<'a> {
    /// Names and types; the last of a function that takes any number has neither.
    pub fn params(self) -> impl Iterator<Item = (&'a str, u32)> {
        // SAFETY: parameters follow prototypes.
        let params = unsafe { self.items.get::<sys::btf_param>() };
        params.map(move |param| (self.items.btf.text(param.name_off), param.type_))
    }
}

impl Btf {
    /// From raw BTF, as in `/sys/kernel/btf`; a module's needs the image's as its base.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`], which calls the bytes `what`.
    pub fn new(what: &str, bytes: &[u8], base: Option<Arc<Self>>) -> Result<Self, Error> {
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // SAFETY: `bytes` are `size` bytes at least, which libbpf copies; `base` is null or loaded,
        // and is kept for as long as the result.
        let raw = unsafe { sys::btf__new_split(bytes.as_ptr().cast(), size, pointer(base.as_deref())) };
        Self::loaded(what, raw, base)
    }

    /// From a file: an ELF image or module with a `.BTF` section, or raw BTF.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`]: also if the file cannot be read.
    pub fn open(path: &Path, base: Option<Arc<Self>>) -> Result<Self, Error> {
        let what = path.display().to_string();
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
            return Err(Error::Invalid { what, reason: io::ErrorKind::InvalidInput.into() });
        };
        // libbpf would wait for a pipe.
        if let Err(reason) = open_regular(path) {
            return Err(Error::Invalid { what, reason });
        }
        // SAFETY: no function is allowed, and silences libbpf, whose words are for programmers.
        unsafe { sys::libbpf_set_print(None) };
        // SAFETY: `name` is a C string; `base` as above.
        let raw = unsafe { sys::btf__parse_split(name.as_ptr(), pointer(base.as_deref())) };
        let loaded = Self::loaded(&what, raw, base);
        // libbpf calls it an input/output error.
        if loaded.is_err() && path.metadata().is_ok_and(|of| of.is_file() && of.len() == 0) {
            let reason = io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty");
            return Err(Error::Invalid { what, reason });
        }
        loaded
    }

    fn loaded(what: &str, raw: *mut sys::btf, base: Option<Arc<Self>>) -> Result<Self, Error> {
        // libbpf gives null and sets errno.
        match NonNull::new(raw) {
            Some(raw) => Ok(Self { raw, base }),
            None => Err(Error::Invalid { what: what.to_owned(), reason: reason(io::Error::last_os_error()) }),
        }
    }

    /// The type information that this is on top of.
    pub fn base(&self) -> Option<&Arc<Self>> {
        self.base.as_ref()
    }

    /// The numbers of the types in here, without those of the base.
    pub fn ids(&self) -> std::ops::Range<u32> {
        // SAFETY: `raw` is loaded.
        let count = |btf: &Self| unsafe { sys::btf__type_cnt(btf.raw.as_ptr()) };
        self.base.as_deref().map_or(1, count)..count(self)
    }

    /// What is written there, whatever it is.
    pub(crate) fn any_text(&self, offset: u32) -> &[u8] {
        // SAFETY: `raw` is loaded.
        let text = unsafe { sys::btf__str_by_offset(self.raw.as_ptr(), offset) };
        if text.is_null() {
            return b"";
        }
        // SAFETY: a C string in libbpf's copy of the data, which lives as long as `self`.
        unsafe { CStr::from_ptr(text) }.to_bytes()
    }

    /// The name that is written there. Whatever is not a name in C could end up in the text that is
    /// compiled, so it is none here.
    fn text(&self, offset: u32) -> &str {
        std::str::from_utf8(self.any_text(offset)).ok().filter(|text| is_name(text)).unwrap_or("")
    }

    /// The type with this number, in here or in the base; `Void` if there is none.
    pub fn get(&self, id: u32) -> Type<'_> {
        // SAFETY: `raw` is loaded; libbpf gives null for a number that it does not know.
        let found = unsafe { sys::btf__type_by_id(self.raw.as_ptr(), id) };
        let Some(found) = NonNull::new(found.cast_mut()).filter(|_| id != 0) else {
            return Type::Void;
        };
        // SAFETY: libbpf checked that a whole type lies there; BTF promises no alignment.
        let header = unsafe { found.as_ptr().cast::<sys::btf_type>().read_unaligned() };
        // SAFETY: likewise; where the kind has nothing following, this is one past its end at most.
        let rest = unsafe { found.as_ptr().cast::<u8>().add(size_of::<sys::btf_type>()) };
        // SAFETY: both are the same 32 bits.
        let size_or_type = unsafe { header.__bindgen_anon_1.size };
        let flag = header.info >> 31 != 0;
        let count = u16::try_from(header.info & 0xffff).unwrap_or(0);
        let items = Items { btf: self, first: rest, count };
        let name = self.text(header.name_off);
        let record = |kind| Type::Record(Record { kind, name, size: size_or_type, items, bit_fields: flag });
        let enumeration = |wide| Type::Enum(Enum { name, size: size_or_type, signed: flag, items, wide });
        match header.info >> 24 & 0x1f {
            sys::BTF_KIND_INT => {
                // SAFETY: an integer is followed by 32 bits: encoding, offset, width.
                let encoding = unsafe { rest.cast::<u32>().read_unaligned() } >> 24;
                Type::Int(Int {
                    size: size_or_type,
                    signed: encoding & sys::BTF_INT_SIGNED != 0,
                    boolean: encoding & sys::BTF_INT_BOOL != 0,
                    char: name == "char",
                    long_long: is_long_long(self.any_text(header.name_off)),
                })
            }
            sys::BTF_KIND_PTR => Type::Pointer(size_or_type),
            sys::BTF_KIND_ARRAY => {
                // SAFETY: an array is followed by its description.
                let array = unsafe { rest.cast::<sys::btf_array>().read_unaligned() };
                Type::Array(array.type_, array.nelems)
            }
            sys::BTF_KIND_STRUCT => record(RecordKind::Struct),
            sys::BTF_KIND_UNION => record(RecordKind::Union),
            sys::BTF_KIND_ENUM => enumeration(false),
            sys::BTF_KIND_ENUM64 => enumeration(true),
            sys::BTF_KIND_FWD => {
                Type::Forward(name, if flag { RecordKind::Union } else { RecordKind::Struct })
            }
            sys::BTF_KIND_TYPEDEF => Type::Typedef(name, size_or_type),
            sys::BTF_KIND_VOLATILE
            | sys::BTF_KIND_CONST
            | sys::BTF_KIND_RESTRICT
            | sys::BTF_KIND_TYPE_TAG => Type::Qualified(size_or_type),
            sys::BTF_KIND_FUNC => Type::Function(name, size_or_type),
            sys::BTF_KIND_VAR => Type::Variable(name, size_or_type),
            sys::BTF_KIND_FUNC_PROTO => Type::Prototype(Prototype { returns: size_or_type, items }),
            sys::BTF_KIND_FLOAT => Type::Float(size_or_type),
            _ => Type::Void,
        }
    }
}

/// libbpf has error numbers of its own, of which the system knows nothing.
fn reason(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(4000..) => io::Error::new(io::ErrorKind::InvalidData, "it is neither an ELF file nor raw BTF"),
        _ => error,
    }
}

fn pointer(btf: Option<&Btf>) -> *mut sys::btf {
    btf.map_or(std::ptr::null_mut(), |btf| btf.raw.as_ptr())
}

/// Whether this names an integer as wide as `long`, which is another type: `long long int`, `unsigned long long`.
fn is_long_long(name: &[u8]) -> bool {
    name.windows(9).any(|part| part == b"long long")
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && text.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF with these strings and types.
    fn raw(strings: &str, types: &[u32]) -> Vec<u8> {
        let strings = format!("\0{strings}\0");
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        let type_len = u32::try_from(types.len() * 4).unwrap();
        let mut bytes =
            words(&[0x0001_eb9f, 24, 0, type_len, type_len, u32::try_from(strings.len()).unwrap()]);
        bytes.extend(words(types));
        bytes.extend(strings.bytes());
        bytes
    }

    #[test]
    fn names_that_are_no_names_in_c_are_none() {
        // A typedef of int (type 1), whose name would end a declaration and open a file.
        let typedef = |name| raw(name, &[0, 1 << 24, 4, 32, 1, 8 << 24, 1]);
        let named = |name| match Btf::new("test", &typedef(name), None).unwrap().get(2) {
            Type::Typedef(name, 1) => name.to_owned(),
            _ => panic!(),
        };
        assert_eq!(named("good_1"), "good_1");
        assert_eq!(named("x;\n#include \"/etc/shadow\"\n"), "");
        assert_eq!(named("1x"), "");
    }

    #[test]
    fn damage_is_an_error() {
        let good = raw("x", &[1, 1 << 24, 4, 32]);
        assert!(Btf::new("test", &good, None).is_ok());
        for length in 0..good.len() {
            assert!(Btf::new("test", &good[..length], None).is_err(), "{length}");
        }
        // A pointer to type 7, which is not there.
        let error = Btf::new("vm1's kernel", &raw("x", &[0, 2 << 24, 7]), None).err().unwrap();
        assert!(error.to_string().starts_with("vm1's kernel holds no usable type information"), "{error}");
        assert!(matches!(Btf::new("test", &good, None).unwrap().get(99), Type::Void));
    }
}
