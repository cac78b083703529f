//! YAML 1.2 (and so JSON) into the neutral tree, with the place of everything.
//!
//! Owns the only use of the YAML library. Promises: one document; no repeated keys; no tags, no
//! merge keys; aliases are replaced by what they name, within [`limits`](crate::limits); any text
//! gives a tree or errors, never a panic or an exhausted machine. Never does: knowing what a key
//! means, expanding `${NAME}`.

mod unclosed;

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};
use settings::{MapKey, Node, Report, Scalar, SourceId, Span, Value, quote};

use crate::limits::{DEPTH, DOCUMENT_BYTES, NODES};

/// The rule of what is not YAML.
const SYNTAX: &str = "syntax";
/// The most keys of a map among which a repeated one is searched, without a table of them.
const SEARCHED_KEYS: usize = 16;

/// Reads one document. `None` when it has no content or an error was reported.
pub(crate) fn parse<'r>(text: &'r str, source: SourceId, report: &'r mut Report) -> Option<Node> {
    if text.len() > DOCUMENT_BYTES {
        let span = Span { source, line: 1, column: 1, end_line: 1, end_column: 2 };
        report.error(span, format!("the document is larger than {DOCUMENT_BYTES} bytes"));
        return None;
    }
    // A byte order mark is not content.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder {
        lines: Lines::of(text),
        report,
        stack: Vec::new(),
        items: Vec::new(),
        entries: Vec::new(),
        anchors: HashMap::new(),
        nodes_left: NODES,
        root: None,
        documents: 0,
    };
    let mut parser = Parser::new_from_str(text);
    while let Some(next) = parser.next_event() {
        match next {
            Ok((event, span)) => {
                let span = builder.lines.without_blanks(place(source, span));
                builder.event(event, span)?;
            }
            Err(error) => {
                syntax_error(&error, text, source, builder.report);
                return None;
            }
        }
    }
    builder.root
}

fn place(source: SourceId, span: saphyr_parser::Span) -> Span {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Span {
        source,
        line: number(span.start.line()),
        column: number(span.start.col() + 1),
        end_line: number(span.end.line()),
        end_column: number(span.end.col() + 1),
    }
}

/// The lines of the text, to correct the ends of places: the library counts blanks after quotes and
/// brackets.
struct Lines<'t>(Vec<&'t [u8]>);

impl<'t> Lines<'t> {
    fn of(text: &'t str) -> Self {
        Lines(text.lines().map(str::as_bytes).collect())
    }

    fn without_blanks(&self, mut span: Span) -> Span {
        let Some(line) = self.0.get(span.line.saturating_sub(1) as usize) else { return span };
        let mut end = span.end_column.saturating_sub(1) as usize;
        let start = span.column as usize;
        let ends_with_blank = |end: usize| end > start && line.get(end - 1) == Some(&b' ');
        // Columns count characters, and are bytes up to the end of the place only where all before
        // are ASCII.
        let is_ascii = || line.len() < 1000 && line.is_ascii();
        if span.line != span.end_line || !ends_with_blank(end) || !is_ascii() {
            return span;
        }
        while ends_with_blank(end) {
            end -= 1;
        }
        span.end_column = u32::try_from(end + 1).unwrap_or(span.end_column);
        span
    }
}

fn syntax_error(error: &ScanError, text: &str, source: SourceId, report: &mut Report) {
    let mark = *error.marker();
    let mut span = place(source, saphyr_parser::Span::empty(mark));
    // At the end of the text the marker is after its last line.
    let lines = u32::try_from(text.lines().count()).unwrap_or(u32::MAX);
    if span.line > lines {
        let last = text.lines().last().unwrap_or("");
        span.line = lines.max(1);
        span.column = u32::try_from(last.chars().count() + 1).unwrap_or(u32::MAX);
        span.end_line = span.line;
    }
    span.end_column = span.column + 1;
    let line = text.lines().nth(span.line.saturating_sub(1) as usize).unwrap_or("");
    let indent: String = line.chars().take_while(|c| c.is_whitespace()).collect();
    if indent.contains('\t') {
        report.error(span, "a tab cannot indent YAML").help("indent with spaces").rule(SYNTAX);
        return;
    }
    let braces = line.contains("${") || line.contains("{*");
    let unclosed = unclosed::find(text, source).filter(|_| !braces);
    if let Some((opener, message, help)) = unclosed.filter(|(opener, ..)| *opener <= span) {
        report.error(opener, message).help(help).rule(SYNTAX);
        return;
    }
    let why = match error.info() {
        "recursion limit exceeded" => {
            report.error(span, format!("nested deeper than {DEPTH} levels"));
            return;
        }
        "simple key expected" | "simple key expect ':'" => "a key followed by a colon is expected",
        "mapping values are not allowed in this context" => "a colon cannot stand here",
        "invalid indentation in flow construct" => "a { or [ above is not closed",
        "while parsing node, found unknown anchor" => {
            report.error(span, "this alias names no anchor").help("an anchor is written &name");
            return;
        }
        other => other,
    };
    let help = match braces {
        true => "inside { } and [ ] a text with braces is quoted: \"${NAME}\", \"/{*rest}\"",
        false => {
            "indentation tells what belongs together; text with {}[],:#&*!|>'\"%@` may need quotes"
        }
    };
    report.error(span, format!("this is not YAML: {why}")).help(help).rule(SYNTAX);
}

/// A map or list that is not closed yet.
struct Open {
    span: Span,
    anchor: usize,
    content: Content,
}

enum Content {
    List {
        /// Where its items begin in [`Builder::items`].
        first: usize,
    },
    Map {
        /// Where its entries begin in [`Builder::entries`].
        first: usize,
        /// The lines of the keys so far, if there are many.
        lines: HashMap<String, u32>,
        /// The key whose value follows.
        key: Option<PendingKey>,
    },
}

/// A key, unless it was reported; its value is read and dropped then.
struct PendingKey(Option<MapKey>, Span);

struct Builder<'r> {
    lines: Lines<'r>,
    report: &'r mut Report,
    stack: Vec<Open>,
    /// The items of all open lists, and the entries of all open maps. Those of one are moved to a
    /// place of their own when it is closed and their number is known: most are small, and the room
    /// that a growing list reserves would be half of the tree.
    items: Vec<Node>,
    entries: Vec<(MapKey, Node)>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes_left: usize,
    root: Option<Node>,
    documents: usize,
}

impl Builder<'_> {
    /// `None` stops reading: what follows would only confuse.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    self.report
                        .error(span, "a second document starts here")
                        .help("a configuration is one document; use include for more files");
                    self.root = None;
                    return None;
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let mut text = text.into_owned();
                // The library reserves at least 128 bytes for a text without quotes.
                text.shrink_to_fit();
                let node = scalar(text, style == ScalarStyle::Plain, span);
                return self.place(node, anchor, 1);
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                return self.open(span, anchor, Content::List { first: self.items.len() });
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                let (first, lines) = (self.entries.len(), HashMap::new());
                return self.open(span, anchor, Content::Map { first, lines, key: None });
            }
            Event::SequenceEnd | Event::MappingEnd => return self.close(span),
            Event::Alias(anchor) => return self.alias(anchor, span),
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | Event::Nothing => {}
        }
        Some(())
    }

    fn refuse_tag(&mut self, tag: Option<&saphyr_parser::Tag>, span: Span) {
        if let Some(tag) = tag {
            let shown = match tag.is_yaml_core_schema() {
                true => quote(&format!("!!{}", tag.suffix)),
                false => quote(&tag.to_string()),
            };
            self.report
                .error(span, format!("the tag {shown} has no meaning here"))
                .help("leave it out: each key knows its type");
        }
    }

    fn open(&mut self, span: Span, anchor: usize, content: Content) -> Option<()> {
        if self.stack.len() >= DEPTH {
            self.report.error(span, format!("nested deeper than {DEPTH} levels"));
            return None;
        }
        self.stack.push(Open { span: self.shown_at(span), anchor, content });
        Some(())
    }

    /// Block maps and lists are shown at the key that contains them: their first line says little.
    fn shown_at(&self, span: Span) -> Span {
        match self.stack.last().map(|open| &open.content) {
            Some(Content::Map { key: Some(PendingKey(_, key)), .. }) if span.line > key.line => {
                *key
            }
            _ => span,
        }
    }

    fn close(&mut self, end: Span) -> Option<()> {
        let Open { mut span, anchor, content } = self.stack.pop()?;
        let value = match content {
            Content::List { first } => Value::List(self.items.drain(first..).collect()),
            Content::Map { first, .. } => Value::Map(self.entries.drain(first..).collect()),
        };
        // A flow collection ends with its bracket (and the library counts the space after it); a
        // block one has an empty end somewhere below, and is shown as its first line.
        if (end.end_line, end.end_column) > (end.line, end.column) {
            (span.end_line, span.end_column) = (end.line, end.column + 1);
        }
        self.place(Node { value, span }, anchor, 1)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Option<()> {
        let Some((node, size)) = self.anchors.get(&anchor) else {
            self.report.error(span, "this alias names an anchor that is not complete");
            return None;
        };
        // Cloning is what makes a small text large: count before.
        let size = *size;
        if size > self.nodes_left {
            self.too_many(span);
            return None;
        }
        let node = node.clone();
        self.place(node, 0, size)
    }

    fn too_many(&mut self, span: Span) {
        self.report.error(span, format!("the configuration has more than {NODES} values"));
    }

    /// Puts a complete node where it belongs.
    fn place(&mut self, node: Node, anchor: usize, size: usize) -> Option<()> {
        let Some(left) = self.nodes_left.checked_sub(size) else {
            self.too_many(node.span);
            return None;
        };
        self.nodes_left = left;
        if anchor > 0 {
            let size = count(&node);
            // The copy that is stored for aliases counts too.
            let Some(left) = self.nodes_left.checked_sub(size) else {
                self.too_many(node.span);
                return None;
            };
            self.nodes_left = left;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.stack.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List { .. }) => self.items.push(node),
            Some(Content::Map { key, .. }) if key.is_some() => {
                if let Some(PendingKey(Some(key), _)) = key.take() {
                    self.entries.push((key, node));
                }
            }
            Some(Content::Map { .. }) => self.key(node),
        }
        Some(())
    }

    fn key(&mut self, node: Node) {
        let Some(Open { content: Content::Map { first, lines, key }, .. }) = self.stack.last_mut()
        else {
            return;
        };
        let entries = &self.entries[*first..];
        let span = node.span;
        *key = Some(PendingKey(None, span));
        let name = match node.value {
            Value::Scalar(scalar) if !scalar.text.is_empty() => scalar.text,
            _ => {
                self.report.error(span, "a key is a text");
                return;
            }
        };
        if name == "<<" {
            self.report
                .error(span, "merge keys (<<) are not supported")
                .help("name the whole value with an alias, or use chains and defaults");
            return;
        }
        if let Some(first) = line_of(&name, entries, lines) {
            self.report
                .error(span, format!("key {} is repeated", quote(&name)))
                .help(format!("it stands in line {first} too"));
            return;
        }
        if entries.len() >= SEARCHED_KEYS {
            lines.insert(name.clone(), span.line);
        }
        *key = Some(PendingKey(Some(MapKey { name, span }), span));
    }
}

/// The line of an earlier key of this name.
fn line_of(name: &str, entries: &[(MapKey, Node)], lines: &HashMap<String, u32>) -> Option<u32> {
    let mut searched = entries.iter().take(SEARCHED_KEYS);
    let line = searched.find(|(key, _)| key.name == name).map(|(key, _)| key.span.line);
    line.or_else(|| lines.get(name).copied())
}

fn scalar(text: String, plain: bool, span: Span) -> Node {
    let null = plain && matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL");
    let value = match null {
        true => Value::Null,
        false => Value::Scalar(Scalar { text, plain, typed: None }),
    };
    Node { value, span }
}

fn count(node: &Node) -> usize {
    match &node.value {
        Value::Null | Value::Scalar(_) | Value::Broken => 1,
        Value::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|(_, node)| count(node)).sum::<usize>(),
    }
}

#[cfg(test)]
#[path = "yaml/tests.rs"]
mod tests;
