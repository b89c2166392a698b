//! A transaction as a Mermaid sequence diagram.

use std::collections::HashMap;

use xweave_model::{
    Explained, Objects,
    objects::ObjectNumber,
    sequence::{Basic, sequence},
};

use crate::{number, words};

/// The text of the diagram: the objects in the order in which they take part, and the basic events between them,
/// with the times since the beginning.
pub fn diagram(transaction: &Explained, objects: &Objects) -> String {
    let mut text = String::from("sequenceDiagram\n");
    let messages = sequence(transaction);
    let first = transaction.steps.first().map(|step| step.object);
    let mut participants: Vec<ObjectNumber> = Vec::new();
    let mut places: HashMap<ObjectNumber, usize> = HashMap::new();
    for object in first.into_iter().chain(messages.iter().flat_map(|message| [message.from, message.to])) {
        places.entry(object).or_insert_with(|| {
            participants.push(object);
            participants.len() - 1
        });
    }
    let place = |object| places.get(&object).copied().unwrap_or(0);
    for (at, object) in participants.iter().map(|object| objects.get(*object)).enumerate() {
        text.push_str(&format!(
            "    participant o{at} as {}: {}\n",
            plain(&words::objects::domain(&object.domain).to_string()),
            plain(&words::objects::object(object).to_string())
        ));
    }
    let time = |time: i64| format!("{} µs", number::micros(time - transaction.start_ns));
    if let Some(first) = transaction.steps.first() {
        let name = plain(&transaction.name);
        text.push_str(&format!("    Note over o{}: {name}, 0 µs\n", place(first.object)));
    }
    for message in messages {
        let (from, to) = (place(message.from), place(message.to));
        let told = format!("{} {}", message.basic.name(), time(message.time));
        match message.basic {
            Basic::Request => text.push_str(&format!("    o{from}->>+o{to}: {told}\n")),
            Basic::Finish => text.push_str(&format!("    o{from}-->>-o{to}: {told}\n")),
            Basic::Accept | Basic::Pause | Basic::Resume => {
                text.push_str(&format!("    Note over o{from}: {told}\n"));
            }
        }
    }
    let mut last = first;
    for step in &transaction.steps {
        // What lies between two objects is told at the one that sent.
        let told = Some(step.object).filter(|object| places.contains_key(object)).or(last);
        last = told;
        if let (Some(cause), Some(told)) = (step.cause, told) {
            let why = plain(&words::causes::cause(cause, objects).to_string());
            let to = time(step.to);
            text.push_str(&format!("    Note over o{}: until {to}: {why}\n", place(told)));
        }
    }
    if let Some(last) = transaction.steps.last() {
        text.push_str(&format!("    Note over o{}: end, {}\n", place(last.object), time(last.to)));
    }
    text
}

/// Without the signs that end a statement or begin a comment there; and those that begin an element of a page, into
/// which diagrams are put, by the names that Mermaid has for them.
fn plain(text: &str) -> String {
    let plain = text.replace([';', '#', '\n'], " ").replace('%', " percent");
    plain.replace('<', "#lt;").replace('>', "#gt;")
}
