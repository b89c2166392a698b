//! What is generated from the structures is what is stored.

mod typescript;

use std::{fs, path::PathBuf};

use schemars::generate::SchemaSettings;

use crate::page::{CostPage, TracePage};

/// Set to write what is generated instead of comparing it.
const WRITE: &str = "XWEAVE_WRITE_DOCUMENTS";

fn in_repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn types_of_the_page_are_current() {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.subschema_for::<TracePage>();
    generator.subschema_for::<CostPage>();
    let made = typescript::module(generator.definitions());
    let path = in_repository("web/src/document.ts");
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, made).unwrap();
    } else {
        let stored = fs::read_to_string(&path).unwrap();
        assert!(stored == made, "write it anew: {WRITE}=1 cargo test -p xweave-document; then make page");
    }
}
