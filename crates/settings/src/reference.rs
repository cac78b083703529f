//! The reference page of settings as Markdown, from their own declarations.
//!
//! Promises: one section per map, in the order first met from the root, each key with its type,
//! default, range, examples and prose.

use std::fmt::Write;

use crate::node::Node;
use crate::schema::{ChoiceDef, Def, Field, RecordDef, Schema, SchemaBuilder, Variant};

/// One section per definition. `title` names a definition as users know it: the path of keys that
/// leads to it.
pub fn reference_markdown(root: &Schema, defs: &SchemaBuilder) -> String {
    let mut page = Page { out: String::new(), defs, seen: Vec::new(), places: Vec::new() };
    // Once to collect the places of every definition, once to write.
    page.visit(root, "");
    page.out.clear();
    page.seen.clear();
    page.visit(root, "");
    page.out
}

struct Page<'d> {
    out: String,
    defs: &'d SchemaBuilder,
    /// Definitions already given a section.
    seen: Vec<&'static str>,
    /// The places of each definition: the first one is its heading.
    places: Vec<(&'static str, String)>,
}

impl Page<'_> {
    /// Writes the sections of what is met at this path, outer ones first.
    fn visit(&mut self, schema: &Schema, path: &str) {
        match schema {
            Schema::Ref(name) => self.section(name, path),
            Schema::List(item) => self.visit(item, &format!("{path}[]")),
            Schema::Map(item) => self.visit(item, &join(path, "NAME")),
            Schema::OneOf(all) => all.iter().for_each(|one| self.visit(one, path)),
            Schema::OneKey { key, value } => self.visit(value, &join(path, key)),
            _ => {}
        }
    }

    fn section(&mut self, name: &'static str, path: &str) {
        if !self.places.iter().any(|(n, place)| *n == name && place == path) {
            self.places.push((name, path.to_owned()));
        }
        if self.seen.contains(&name) {
            return;
        }
        let defs = self.defs;
        let Some(def) = defs.get(name) else { return };
        self.seen.push(name);
        let heading = if path.is_empty() { "Top level".to_owned() } else { format!("`{path}`") };
        // Writing to a String does not fail.
        let _ = writeln!(self.out, "## {heading}\n");
        let others = self.places.iter().filter(|(n, place)| *n == name && place != path);
        // A recursive definition (a condition in `all`) is described by its own keys.
        let inside = |place: &&str| path.is_empty() || !place.starts_with(path);
        let others: Vec<&str> = others.map(|(_, place)| place.as_str()).filter(inside).collect();
        if !others.is_empty() {
            let _ = writeln!(self.out, "Also `{}`.\n", others.join("`, `"));
        }
        match def {
            Def::Record(record) => {
                self.record(record);
                for field in &record.fields {
                    self.visit(&field.schema, &join(path, field.key));
                }
            }
            Def::Choice(choice) => {
                self.choice(choice);
                for variant in &choice.variants {
                    if let Some(payload) = &variant.payload {
                        self.visit(payload, &join(path, variant.name));
                    }
                }
            }
        }
    }

    fn record(&mut self, record: &RecordDef) {
        let _ = writeln!(self.out, "{}\n", record.doc);
        if let Some(short) = record.short {
            let _ = writeln!(
                self.out,
                "A value that is not a map stands for `{{ {short}: value }}`.\n"
            );
        }
        if record.fields.is_empty() {
            self.out.push_str("It has no keys of its own.\n\n");
        }
        for field in &record.fields {
            self.field(field);
        }
        if !record.fields.is_empty() {
            self.out.push('\n');
        }
        self.later(record.later);
    }

    fn field(&mut self, field: &Field) {
        let mut facts = vec![kind(&field.schema, self.defs)];
        match &field.default {
            Some(default) if !default.is_null() => {
                facts.push(format!("default `{}`", flow(default)))
            }
            _ if field.required => facts.push("required".to_owned()),
            _ => facts.push("optional".to_owned()),
        }
        if let Some((low, high)) = &field.range {
            facts.push(format!("`{}` to `{}`", flow(low), flow(high)));
        }
        let _ = writeln!(self.out, "- **`{}`** ({})  ", field.key, facts.join(", "));
        let prose = field.doc.replace('\n', "\n  ");
        let _ = writeln!(self.out, "  {}", prose.replace("\n  \n", "\n\n"));
        if !field.examples.is_empty() {
            let written = |example| format!("`{}: {}`", field.key, flow(example));
            let all: Vec<_> = field.examples.iter().map(written).collect();
            let _ = writeln!(self.out, "  For example {}.", all.join(" or "));
        }
    }

    fn choice(&mut self, choice: &ChoiceDef) {
        let _ = writeln!(self.out, "{}\n", choice.doc);
        for variant in &choice.variants {
            let form = match &variant.payload {
                None => variant.name.to_owned(),
                Some(payload) => {
                    format!("{{ {}: {} }}", variant.name, kind(payload, self.defs))
                }
            };
            let _ = writeln!(self.out, "- **`{form}`**  \n  {}", variant.doc.replace('\n', "\n  "));
        }
        self.out.push('\n');
        self.later(choice.later);
    }

    fn later(&mut self, later: &[&str]) {
        if !later.is_empty() {
            let names: Vec<_> = later.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(self.out, "Comes later: {}.\n", names.join(", "));
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// The name of this kind of value in the reference.
fn kind(schema: &Schema, defs: &SchemaBuilder) -> String {
    match schema {
        Schema::Any => "anything".to_owned(),
        Schema::Bool => "true or false".to_owned(),
        Schema::Integer { .. } => "whole number".to_owned(),
        Schema::Number => "number".to_owned(),
        Schema::Text(text) if !text.words.is_empty() => text.words.join(" or "),
        Schema::Text(text) => text.name.to_owned(),
        Schema::List(item) => format!("list of {}", kind(item, defs)),
        Schema::Map(item) => format!("map of names to {}", kind(item, defs)),
        Schema::OneKey { key, value } => format!("{{ {key}: {} }}", kind(value, defs)),
        Schema::OneOf(all) => {
            all.iter().map(|one| kind(one, defs)).collect::<Vec<_>>().join(" or ")
        }
        Schema::Ref(name) => match defs.get(name) {
            Some(Def::Choice(choice)) => choice_kind(choice),
            Some(Def::Record(RecordDef { short: Some(short), fields, .. })) => {
                let field = fields.iter().find(|field| field.key == *short);
                match field.map(|field| kind(&field.schema, defs)) {
                    Some(short) => format!("{short} or map"),
                    None => "map".to_owned(),
                }
            }
            _ => "map".to_owned(),
        },
    }
}

/// Few words are listed; many have their section.
fn choice_kind(choice: &ChoiceDef) -> String {
    const LISTED: usize = 6;
    if choice.variants.len() > LISTED {
        return "one-key map".to_owned();
    }
    let form = |variant: &Variant| match variant.payload {
        Some(_) => format!("`{{ {}: … }}`", variant.name),
        None => format!("`{}`", variant.name),
    };
    choice.variants.iter().map(form).collect::<Vec<_>>().join(" or ")
}

/// A node as one line of YAML.
fn flow(node: &Node) -> String {
    line(node, false)
}

fn line(node: &Node, inside: bool) -> String {
    if let Some(items) = node.list() {
        return format!(
            "[{}]",
            items.iter().map(|item| line(item, true)).collect::<Vec<_>>().join(", ")
        );
    }
    if let Some(entries) = node.map() {
        let entries =
            entries.iter().map(|(key, node)| format!("{}: {}", key.name, line(node, true)));
        let inner = entries.collect::<Vec<_>>().join(", ");
        return if inner.is_empty() { "{}".to_owned() } else { format!("{{ {inner} }}") };
    }
    match node.text() {
        Some("") => "\"\"".to_owned(),
        // Text that YAML would read as another type.
        Some(text)
            if text.starts_with(['{', '[', '*', '&', '!', '%', '@', ':', '#', '|', '>'])
                || text.contains(": ")
                || inside && text.contains(['{', '}', '[', ']', ',']) =>
        {
            format!("\"{text}\"")
        }
        Some(text) => text.to_owned(),
        None => "null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::reference_markdown;
    use crate::{Named, SchemaBuilder, Setting, Size};

    /// A store.
    #[derive(Clone, Debug, PartialEq, settings::Setting)]
    #[setting(short = size, later(disk))]
    pub(crate) struct Store {
        /// How large.
        ///
        /// In memory.
        #[setting(default = "1MiB", range = "1KiB"..="1GiB", example = "2MiB")]
        pub(crate) size: Size,
    }

    /// All of it.
    #[derive(Clone, Debug, PartialEq, settings::Setting)]
    pub(crate) struct Root {
        /// The stores by name.
        pub(crate) stores: Named<Store>,
        /// Another one.
        pub(crate) spare: Option<Store>,
    }

    #[test]
    fn the_page_says_everything_declared() {
        let mut defs = SchemaBuilder::default();
        let root = Root::schema(&mut defs);
        let expected = "\
## Top level

All of it.

- **`stores`** (map of names to size or map, required)  
  The stores by name.
- **`spare`** (size or map, optional)  
  Another one.

## `stores.NAME`

Also `spare`.

A store.

A value that is not a map stands for `{ size: value }`.

- **`size`** (size or map, default `1MiB`, `1KiB` to `1GiB`)  
  How large.

  In memory.
  For example `size: 2MiB`.

Comes later: `disk`.

";
        let expected = expected.replace("(size or map, default", "(size, default");
        assert_eq!(reference_markdown(&root, &defs), expected);
    }
}
