//! Doc comments as the text of the reference and the schema.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// The lines of a doc comment as one text; empty without one.
pub(crate) fn text(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) => Some(line.value()),
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> =
        lines.map(|line| line.strip_prefix(' ').unwrap_or(&line).to_owned()).collect();
    lines.join("\n").trim().to_owned()
}
