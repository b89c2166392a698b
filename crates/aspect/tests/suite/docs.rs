//! The examples that people learn from have no mistakes.

use crate::common::shown;
use xweave_aspect::{Source, parse};

#[test]
fn the_examples_of_the_documentation_are_right() {
    let text = include_str!("../../../../docs/language.md");
    let mut examples = 0;
    for form in ["aspect", "xml"] {
        for example in text.split(&format!("```{form}\n")).skip(1) {
            let text = example.split("```").next().unwrap_or_default().to_owned();
            let parsed = parse(vec![Source { name: form.into(), text: text.clone() }]);
            let aspects = parsed.unwrap_or_else(|errors| panic!("{text}{:?}", shown(&errors)));
            assert!(aspects.warnings.is_empty(), "{text}");
            examples += 1;
        }
    }
    assert!(examples >= 5);
}
