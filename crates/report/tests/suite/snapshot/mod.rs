//! Texts as a terminal of 80 and one of 160 columns shows them, each in a file of `tests/look/`.

use std::{fs, path::Path};

use xweave_report::View;

/// That a text is the one in that file, and that its lines fit.
pub fn assert_looks(text: &str, name: &str, view: View) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/look/{name}-{}.txt", view.width));
    let expected = fs::read_to_string(&file).unwrap_or_default();
    assert!(text == expected, "{} should be:\n{text}", file.display());
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= usize::from(view.width)), "{widest:?} columns:\n{text}");
}

/// A narrow terminal, and a wide one.
pub fn views() -> [View; 2] {
    [80, 160].map(|width| View { width, color: false })
}
