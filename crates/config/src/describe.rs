//! Generates the JSON Schema and the reference page from the declarations of the settings.

use settings::{SchemaBuilder, Setting};

use crate::records::Settings;

/// The JSON Schema (draft 2020-12) of a configuration.
pub fn schema() -> serde_json::Value {
    let mut defs = SchemaBuilder::default();
    let root = Settings::schema(&mut defs);
    settings::json_schema("Tidegate configuration", &root, &defs)
}

/// The reference page of every key, as Markdown.
pub fn reference_markdown() -> String {
    let mut defs = SchemaBuilder::default();
    let root = Settings::schema(&mut defs);
    let body = settings::reference_markdown(&root, &defs);
    format!(
        "# Configuration\n\n\
         Every key, made from the declarations that read it. `tidegate schema` prints the same as \
         JSON Schema, for editors.\n\n{body}"
    )
}
