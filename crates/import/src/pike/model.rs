//! The model of a configuration of Pike (v4), with notes about its entries.

use serde_json::Value;
use settings::{Duration, Size};

/// An entry of a section, with notes about it.
pub(super) struct Entry<'v> {
    value: &'v Value,
    pub(super) notes: Vec<String>,
}

/// Returns the entries of a section.
pub(super) fn section<'v>(root: &'v Value, name: &str) -> Vec<Entry<'v>> {
    items(&root[name]).iter().map(|value| Entry { value, notes: Vec::new() }).collect()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

impl<'v> Entry<'v> {
    pub(super) fn new(value: &'v Value) -> Self {
        Entry { value, notes: Vec::new() }
    }

    /// Returns the same entry without notes.
    pub(super) fn without_notes(&self) -> Self {
        Entry::new(self.value)
    }

    pub(super) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Returns the trimmed text of a field; empty if it is missing.
    pub(super) fn text(&self, field: &str) -> String {
        text(&self.value[field])
    }

    pub(super) fn flag(&self, field: &str) -> bool {
        self.value[field] == true || self.text(field) == "true"
    }

    pub(super) fn number(&self, field: &str) -> Option<i64> {
        self.text(field).parse().ok()
    }

    /// Returns a list of texts; a single text is a list of one.
    pub(super) fn texts(&self, field: &str) -> Vec<String> {
        match &self.value[field] {
            Value::Null => Vec::new(),
            Value::Array(items) => items.iter().map(text).filter(|text| !text.is_empty()).collect(),
            one => vec![text(one)],
        }
    }

    pub(super) fn children(&self, field: &str) -> Vec<Entry<'v>> {
        section(self.value, field)
    }

    pub(super) fn child(&self, field: &str) -> Entry<'v> {
        Entry::new(&self.value[field])
    }

    /// Returns a duration, or adds a note if it is not valid here.
    pub(super) fn duration(&mut self, field: &str) -> Option<Duration> {
        let text = self.text(field);
        if text.is_empty() {
            return None;
        }
        let read = text.parse().ok();
        if read.is_none() {
            self.note(format!("{field}: {text} is not a valid duration here"));
        }
        read
    }

    /// Returns a size such as `1kb`, as Pike's library parses it.
    pub(super) fn size(&mut self, field: &str) -> Option<Size> {
        let text = self.text(field).to_ascii_lowercase();
        if text.is_empty() {
            return None;
        }
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let factor: Option<u64> = match unit.trim() {
            "" | "b" => Some(1),
            "k" | "kb" => Some(1000),
            "kib" => Some(1024),
            "m" | "mb" => Some(1_000_000),
            "mib" => Some(1 << 20),
            _ => None,
        };
        let bytes = number.parse::<u64>().ok().zip(factor).and_then(|(n, f)| n.checked_mul(f));
        if bytes.is_none() {
            self.note(format!("{field}: {text} is not a valid size here"));
        }
        bytes.map(Size::from_bytes)
    }

    /// Adds notes about fields that Pike does not have.
    pub(super) fn expect(&mut self, known: &[&str]) {
        let Value::Object(members) = self.value else { return };
        let odd: Vec<String> = members
            .keys()
            .filter(|key| !known.contains(&key.as_str()))
            .map(|key| format!("{key} is not a known field of Pike"))
            .collect();
        self.notes.extend(odd);
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    }
}
