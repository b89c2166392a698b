//! Where the text of aspects comes from: files, the library, the command line.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use crate::{Source, library, library_names};

/// An aspect that is neither a file that can be read nor in the library.
#[derive(Debug)]
pub struct Unreadable {
    /// The aspect as it was named.
    pub file: PathBuf,
    /// Why the file cannot be read.
    pub error: io::Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the aspect {} cannot be read: {}", self.file.display(), self.error)?;
        if self.error.kind() == io::ErrorKind::NotFound {
            let names: Vec<_> = library_names().collect();
            write!(f, "; name a file, or one of the library: {}", names.join(", "))?;
        }
        Ok(())
    }
}

impl std::error::Error for Unreadable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Reads aspects as a user names them: files, or else names of the library; then texts from the
/// command line, and which frames are followed. A file comes before an aspect of the library with the same name.
///
/// # Errors
///
/// The first aspect that cannot be read.
pub fn read(
    files: &[PathBuf],
    expressions: &[String],
    filter: Option<&str>,
) -> Result<Vec<Source>, Unreadable> {
    let expression = |(nth, text): (usize, &String)| Source {
        name: if expressions.len() == 1 { "-e".to_owned() } else { format!("-e {}", nth + 1) },
        text: text.clone(),
    };
    let mut sources = files.iter().map(|file| named(file)).collect::<Result<Vec<_>, _>>()?;
    sources.extend(expressions.iter().enumerate().map(expression));
    let selection = |filter| Source { name: "--where".to_owned(), text: format!("where {filter};") };
    sources.extend(filter.map(selection));
    Ok(sources)
}

fn named(file: &Path) -> Result<Source, Unreadable> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Source { name: file.display().to_string(), text }),
        Err(error) => {
            file.to_str().and_then(library).ok_or_else(|| Unreadable { file: file.to_owned(), error })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_the_library_and_expressions_are_read_in_this_order() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/read.rs");
        let sources =
            read(&[file.into(), "virtio-net".into()], &["a".into(), "b".into()], Some("tcp")).unwrap();
        let names: Vec<_> = sources.iter().map(|source| source.name.as_str()).collect();
        assert_eq!(names, [file, "virtio-net.aspect", "-e 1", "-e 2", "--where"]);
        assert_eq!((&*sources[3].text, &*sources[4].text), ("b", "where tcp;"));
        assert_eq!(read(&[], &["a".into()], None).unwrap()[0].name, "-e");
    }

    #[test]
    fn what_cannot_be_read_is_named_with_what_there_is() {
        let error = read(&["nothing.aspect".into()], &[], None).unwrap_err().to_string();
        assert!(error.starts_with("the aspect nothing.aspect cannot be read: "), "{error}");
        assert!(error.contains("one of the library: block, ") && error.ends_with("xen-net"), "{error}");
        let folder = read(&[env!("CARGO_MANIFEST_DIR").into()], &[], None).unwrap_err().to_string();
        assert!(!folder.contains("library"), "{folder}");
    }
}
