//! TypeScript types of schemas.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const HEADER: &str = "\
// Generated from crates/document; do not edit. To write it anew: XWEAVE_WRITE_DOCUMENTS=1 cargo test -p xweave-document

import type { Cut, Id, Time } from './value';
";

/// Writes a module with all types.
pub(super) fn module(definitions: &Map<String, Value>) -> String {
    let mut module = HEADER.to_owned();
    for (name, schema) in definitions {
        module.push('\n');
        comment(&mut module, "", schema);
        match schema.get("properties").and_then(Value::as_object) {
            Some(properties) => interface(&mut module, name, schema, properties),
            None => writeln!(module, "export type {name} = {};", type_of(schema)).unwrap(),
        }
    }
    module
}

fn comment(module: &mut String, indent: &str, schema: &Value) {
    if let Some(text) = schema.get("description").and_then(Value::as_str) {
        let text = text.replace('\n', " ").replace("*/", "* /");
        writeln!(module, "{indent}/** {text} */").unwrap();
    }
}

fn interface(module: &mut String, name: &str, schema: &Value, properties: &Map<String, Value>) {
    writeln!(module, "export interface {name} {{").unwrap();
    for (key, property) in in_order(schema, properties) {
        comment(module, "  ", property);
        let required = required(schema).any(|name| name == key);
        let written = if required { type_of(property) } else { union(property, false) };
        writeln!(module, "  {key}{}: {written};", if required { "" } else { "?" }).unwrap();
    }
    module.push_str("}\n");
}

pub(super) fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Properties that are always there in the order of their declaration, then the others.
pub(super) fn in_order<'a>(
    schema: &'a Value,
    properties: &'a Map<String, Value>,
) -> Vec<(&'a str, &'a Value)> {
    let always: Vec<&str> = required(schema).collect();
    let others = properties.keys().map(String::as_str).filter(|key| !always.contains(key));
    always.iter().copied().chain(others).map(|key| (key, &properties[key])).collect()
}

/// The type of a schema.
fn type_of(schema: &Value) -> String {
    union(schema, true)
}

fn union(schema: &Value, with_null: bool) -> String {
    let mut alternatives = alternatives(schema);
    if !with_null {
        alternatives.retain(|one| one != "null");
    }
    alternatives.join(" | ")
}

fn alternatives(schema: &Value) -> Vec<String> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        return vec![name.trim_start_matches("#/$defs/").to_owned()];
    }
    if let Some(entry) = schema.get("x-cut") {
        return vec![format!("Cut<{}>", type_of(entry))];
    }
    if let Some(all) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
        return all.iter().flat_map(alternatives).collect();
    }
    if let Some(value) = schema.get("const") {
        return vec![literal(value)];
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(literal).collect();
    }
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().map(|of| simple(schema, of.as_str().unwrap())).collect(),
        Some(Value::String(of)) => vec![simple(schema, of)],
        of => panic!("no type is known of {of:?} in {schema}"),
    }
}

fn literal(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| format!("'{text}'"))
}

fn simple(schema: &Value, of: &str) -> String {
    match of {
        "null" => "null".to_owned(),
        "boolean" => "boolean".to_owned(),
        "string" => "string".to_owned(),
        "integer" | "number" => {
            schema.get("x-typescript").and_then(Value::as_str).unwrap_or("number").to_owned()
        }
        "array" => array(schema),
        "object" => format!("Record<string, {}>", type_of(&schema["additionalProperties"])),
        _ => panic!("no type is known of {of} in {schema}"),
    }
}

fn array(schema: &Value) -> String {
    let tuple = |entries: Vec<String>| format!("[{}]", entries.join(", "));
    if let Some(entries) = schema.get("prefixItems").and_then(Value::as_array) {
        return tuple(entries.iter().map(type_of).collect());
    }
    let entry = type_of(&schema["items"]);
    match (schema.get("minItems").and_then(Value::as_u64), schema.get("maxItems").and_then(Value::as_u64)) {
        (Some(least), Some(most)) if least == most => tuple((0..least).map(|_| entry.clone()).collect()),
        _ if entry.contains(" | ") => format!("({entry})[]"),
        _ => format!("{entry}[]"),
    }
}
