//! Where in a program's file a function of it lies.

use std::{fs::File, io};

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

/// Names that are suggested for one that is not there.
const SUGGESTIONS: usize = 3;

/// Why a function's place in a program is not known.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("program {path} cannot be opened: {source}")]
    Open { path: String, source: io::Error },
    #[error("{function} is not an offset in program {path}: write 0x and hexadecimal digits")]
    Place { path: String, function: String },
    #[error("program {path} cannot be read as an ELF file: {source}")]
    Elf { path: String, source: object::Error },
    #[error(
        "program {path} has no symbols: write the function's offset in the file, 0x and hexadecimal digits"
    )]
    NoSymbols { path: String },
    #[error("program {path} has no function {function}{}", suggestion(.near))]
    NoFunction { path: String, function: String, near: Vec<String> },
    #[error("function {function} of program {path} is in none of its segments")]
    Outside { path: String, function: String },
}

fn suggestion(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(", ")) }
}

/// The distance from the file's beginning, of a symbol, or as it is written in hexadecimal (`0x1139`).
///
/// # Errors
/// The file cannot be read, or has no such function.
pub(crate) fn offset(path: &str, function: &str) -> Result<u64, Error> {
    let owned = || (path.to_owned(), function.to_owned());
    let file = File::open(path).map_err(|source| Error::Open { path: path.to_owned(), source })?;
    if let Some(digits) = function.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).map_err(|_| {
            let (path, function) = owned();
            Error::Place { path, function }
        });
    }
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).map_err(|source| Error::Elf { path: path.to_owned(), source })?;
    // A stripped program has no other symbols than those for the dynamic linker.
    let functions = || {
        let code = |symbol: &object::Symbol<'_, '_, _>| {
            matches!(symbol.kind(), SymbolKind::Text) && symbol.is_definition()
        };
        elf.symbols().filter(code).chain(elf.dynamic_symbols().filter(code))
    };
    let Some(symbol) = functions().find(|symbol| symbol.name() == Ok(function)) else {
        let mut names: Vec<_> = functions().filter_map(|symbol| symbol.name().ok()).collect();
        names.sort_unstable();
        names.dedup();
        let (path, function) = owned();
        if names.is_empty() {
            return Err(Error::NoSymbols { path });
        }
        let near = xweave_text::nearest(&function, names.into_iter(), SUGGESTIONS);
        return Err(Error::NoFunction { path, function, near });
    };
    let address = symbol.address();
    elf.segments()
        .find_map(|segment| {
            let distance = address.checked_sub(segment.address())?;
            let (start, size) = segment.file_range();
            (distance < size).then(|| start + distance)
        })
        .ok_or_else(|| {
            let (path, function) = owned();
            Error::Outside { path, function }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_where_its_bytes_are() {
        let path = std::env::current_exe().unwrap();
        let path = path.to_str().unwrap();
        // Of the test program itself, which is not stripped and linked to be loaded anywhere.
        let main = offset(path, "main").unwrap();
        assert!(main > 0 && main < std::fs::metadata(path).unwrap().len());
        assert_eq!(offset(path, "0x1139").unwrap(), 0x1139);
        let near = offset(path, "mainn").unwrap_err().to_string();
        assert!(near.contains("no function mainn; did you mean") && near.contains("main"), "{near}");
        assert!(offset(path, "0xyz").is_err());
        assert!(
            offset("/nonexistent", "main").unwrap_err().to_string().contains("/nonexistent cannot be opened")
        );
        assert!(offset("/proc/version", "main").unwrap_err().to_string().contains("/proc/version"));
    }
}
