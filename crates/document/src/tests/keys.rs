//! Tables of the keys of documents, of schemas.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};

/// Writes the table of a document's keys. A structure that occurs several times is described where it is first.
pub(super) fn table(schema: &Value, definitions: &Map<String, Value>) -> String {
    let mut table = Table { rows: String::new(), definitions, described: BTreeMap::new() };
    table.rows.push_str(
        "| key | type | meaning |\n|---|---|---|\n| `schema` | integer | Version of the documents: 2. |\n",
    );
    table.members("", schema);
    table.rows
}

struct Table<'a> {
    rows: String,
    definitions: &'a Map<String, Value>,
    /// Keys of structures, by the structures' names.
    described: BTreeMap<String, String>,
}

impl<'a> Table<'a> {
    fn members(&mut self, prefix: &str, schema: &'a Value) {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
        for (key, property) in super::typescript::in_order(schema, properties) {
            let always = super::typescript::required(schema).any(|name| name == key);
            self.member(&format!("{prefix}{key}"), property, always);
        }
    }

    fn member(&mut self, key: &str, property: &'a Value, always: bool) {
        let Member { structure, list, mut types } = self.look_through(property);
        types.retain(|name| name != "null" || always);
        let key = if list { format!("{key}[]") } else { key.to_owned() };
        let meaning =
            property.get("description").and_then(Value::as_str).unwrap_or_default().replace('\n', " ");
        let (types, meaning) = (types.join(" or "), meaning.replace('|', "\\|"));
        let Some(name) = structure else {
            writeln!(self.rows, "| `{key}` | {types} | {meaning} |").unwrap();
            return;
        };
        if let Some(first) = self.described.get(&name) {
            writeln!(self.rows, "| `{key}` | {types} | {meaning} Members as of `{first}`. |").unwrap();
            return;
        }
        writeln!(self.rows, "| `{key}` | {types} | {meaning} |").unwrap();
        self.described.insert(name.clone(), key.clone());
        self.members(&format!("{key}."), &self.definitions[&name]);
    }

    /// The structure that a property is, or a list of; and its types in words.
    fn look_through(&self, schema: &'a Value) -> Member {
        if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
            let name = name.trim_start_matches("#/$defs/");
            let definition = &self.definitions[name];
            if definition.get("properties").is_some() {
                return Member {
                    structure: Some(name.to_owned()),
                    list: false,
                    types: vec!["object".to_owned()],
                };
            }
            return self.look_through(definition);
        }
        if let Some(all) = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array()) {
            let mut whole = Member { structure: None, list: false, types: Vec::new() };
            for one in all.iter().map(|one| self.look_through(one)) {
                whole.structure = whole.structure.or(one.structure);
                whole.list |= one.list;
                whole.types.extend(one.types);
            }
            whole.types.dedup();
            return whole;
        }
        if let Some(value) = schema.get("const") {
            return Member::simple(vec![format!("`{value}`")]);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            return Member::simple(values.iter().map(|value| format!("`{value}`")).collect());
        }
        let types: Vec<String> = match schema.get("type") {
            Some(Value::Array(types)) => types.iter().map(|of| of.as_str().unwrap().to_owned()).collect(),
            Some(Value::String(of)) => vec![of.clone()],
            _ => Vec::new(),
        };
        if !types.iter().any(|of| of == "array") {
            return Member::simple(types);
        }
        let entry = schema.get("items").map(|entry| self.look_through(entry));
        let Some(entry) = entry else { return Member { structure: None, list: true, types } };
        let mut names = vec![format!("list of {}", entry.types.join(" or "))];
        names.extend(types.into_iter().filter(|of| of == "null"));
        Member { structure: entry.structure, list: true, types: names }
    }
}

struct Member {
    structure: Option<String>,
    list: bool,
    types: Vec<String>,
}

impl Member {
    fn simple(types: Vec<String>) -> Self {
        Self { structure: None, list: false, types }
    }
}
