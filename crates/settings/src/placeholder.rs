//! Templates of filters that have placeholders of their own, such as `{random.int 1 100}`, next to
//! the variables.

use crate::{Node, Reader, Scalar, Setting, Template, Value};

/// A piece of a template with placeholders.
#[derive(Clone, Debug, PartialEq)]
pub enum Piece<T> {
    Template(Template),
    Placeholder(T),
}

/// Reads a template with placeholders that begin with one of `openings`, such as `{random.`.
/// `parse` gets the opening and the text between it and the closing brace. The error for an unknown
/// placeholder shows `help`.
pub fn read_pieces<T>(
    node: &Node,
    reader: &mut Reader<'_>,
    openings: &[&'static str],
    parse: impl Fn(&'static str, &str) -> Result<T, String>,
    help: &str,
) -> Option<Vec<Piece<T>>> {
    let scalar = reader.scalar(node, "text, perhaps with variables such as {host}")?;
    let mut pieces = Vec::new();
    let mut rest = scalar.text.as_str();
    while let Some((at, opening)) = find(rest, openings) {
        let (before, placeholder) = rest.split_at(at);
        let Some((written, after)) = placeholder[opening.len()..].split_once('}') else { break };
        pieces.extend(template(before, node, scalar, reader)?);
        match parse(opening, written) {
            Ok(placeholder) => pieces.push(Piece::Placeholder(placeholder)),
            Err(why) => {
                reader.error(node.span, why).help(help);
                return None;
            }
        }
        rest = after;
    }
    pieces.extend(template(rest, node, scalar, reader)?);
    Some(pieces)
}

/// The piece before a placeholder, read as every other template.
fn template<T>(
    text: &str,
    node: &Node,
    scalar: &Scalar,
    reader: &mut Reader<'_>,
) -> Option<Option<Piece<T>>> {
    if text.is_empty() {
        return Some(None);
    }
    let value = Value::Scalar(Scalar { text: text.to_owned(), ..scalar.clone() });
    let template = Template::read(&Node { value, span: node.span }, reader)?;
    Some(Some(Piece::Template(template)))
}

/// The position of an opening. Two braces are text.
fn find(text: &str, openings: &[&'static str]) -> Option<(usize, &'static str)> {
    let mut at = 0;
    while let Some(brace) = text[at..].find('{') {
        let here = at + brace;
        if text[here..].starts_with("{{") {
            at = here + 2;
            continue;
        }
        if let Some(opening) = openings.iter().find(|opening| text[here..].starts_with(**opening)) {
            return Some((here, opening));
        }
        at = here + 1;
    }
    None
}
