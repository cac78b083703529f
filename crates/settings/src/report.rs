//! Collects errors, so that a user sees all of them at once and in the order of the file, and the
//! files they depend on.
//!
//! Owns the texts of the documents, to show excerpts from. Promises: an error names what was typed
//! and, where one is near, what was probably meant. Never shows the value of an environment
//! variable or of an inline secret it knows of.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::nearest::nearest;
use crate::node::{SourceId, Span, quote};

/// The mask that replaces a secret.
pub(crate) const MASK: &str = "***";

/// The maximum number of stored errors, so that a hostile document cannot fill memory.
pub const ERRORS_KEPT: usize = 200;

/// One thing that is wrong and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostic {
    pub span: Span,
    /// One sentence, no full stop.
    pub message: String,
    /// The advice, if there is one.
    pub help: Option<String>,
    /// The kind of error, for tools: a stable word such as `unknown-name`.
    pub rule: &'static str,
}

/// The kind of an error that no other rule names.
const INVALID_VALUE: &str = "invalid-value";

impl Diagnostic {
    pub fn help(&mut self, help: impl Into<String>) -> &mut Self {
        self.help = Some(help.into());
        self
    }

    /// Lists the words that are valid at the place of the error.
    pub(crate) fn list(&mut self, valid: &[&str]) -> &mut Self {
        const LISTED: usize = 30;
        if valid.is_empty() {
            return self;
        }
        let dots = if valid.len() > LISTED { ", …" } else { "" };
        let listed = valid.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        self.help(format!("valid here: {listed}{dots}"))
    }

    pub fn rule(&mut self, rule: &'static str) -> &mut Self {
        self.rule = rule;
        self
    }
}

/// A document that spans point into.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) name: String,
    pub(crate) text: Arc<String>,
    pub(crate) dir: Option<PathBuf>,
}

/// Parts of a report that are not errors themselves. Boxed, because functions return reports as
/// errors.
#[derive(Clone, Debug, Default)]
struct Unsaid {
    /// A suppressed error: its value was reported already.
    error: Diagnostic,
    count: usize,
    /// Names of environment variables that are not set, if that is not an error.
    unset: Option<BTreeSet<String>>,
}

/// The collector.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub(crate) documents: Vec<Document>,
    errors: Vec<Diagnostic>,
    left_out: usize,
    unsaid: Box<Unsaid>,
    pub(crate) masked: Vec<Span>,
    files: Vec<PathBuf>,
}

impl Report {
    pub fn new() -> Self {
        Report::default()
    }

    /// A report to which an environment variable that is not set is not an error: what depends on
    /// it is not checked.
    pub fn allowing_unset_variables() -> Self {
        let mut report = Report::default();
        report.unsaid.unset = Some(BTreeSet::new());
        report
    }

    /// Notes that a variable is not set; false where that is an error.
    pub fn allow_unset(&mut self, variable: &str) -> bool {
        self.unsaid.unset.as_mut().map(|unset| unset.insert(variable.to_owned())).is_some()
    }

    /// The environment variables that are not set, where that is not an error.
    pub fn unset_variables(&self) -> Vec<&str> {
        self.unsaid.unset.iter().flatten().map(String::as_str).collect()
    }

    /// Makes a document known: its name in messages, its text for excerpts, and the directory its
    /// relative paths start at.
    pub fn add_document(
        &mut self,
        name: &str,
        text: impl Into<String>,
        dir: Option<&Path>,
    ) -> SourceId {
        let id = SourceId(u32::try_from(self.documents.len()).unwrap_or(u32::MAX));
        self.documents.push(Document {
            name: name.to_owned(),
            text: Arc::new(text.into()),
            dir: dir.map(Path::to_owned),
        });
        id
    }

    /// The text of a document.
    pub fn text(&self, document: SourceId) -> Option<Arc<String>> {
        self.documents.get(document.0 as usize).map(|document| document.text.clone())
    }

    /// The directory that relative paths written at this place start at.
    pub fn dir(&self, span: Span) -> Option<&Path> {
        self.documents.get(span.source.0 as usize)?.dir.as_deref()
    }

    /// The name of the document that this place is in.
    pub fn file(&self, span: Span) -> Option<&str> {
        Some(self.documents.get(span.source.0 as usize)?.name.as_str())
    }

    pub fn error(&mut self, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        if self.errors.len() >= ERRORS_KEPT {
            self.left_out += 1;
            self.errors.truncate(ERRORS_KEPT - 1);
        }
        let at = self.errors.len();
        self.errors.push(Diagnostic {
            span,
            message: message.into(),
            help: None,
            rule: INVALID_VALUE,
        });
        &mut self.errors[at]
    }

    /// `unknown key "tiemout", did you mean "timeout"?`; without a near word, the help lists what
    /// would be valid.
    pub fn unknown<'a>(
        &mut self,
        span: Span,
        what: &str,
        word: &str,
        valid: impl IntoIterator<Item = &'a str>,
    ) -> &mut Diagnostic {
        let message = format!("unknown {what} {}", quote(word));
        self.with_nearest(span, message, word, valid).rule("unknown-name")
    }

    /// A reference to a name that nothing declares: `there is no upstream "catalgo", did you mean
    /// "catalog"?`; without a near one, the help lists what is declared.
    pub fn dangling<'a>(
        &mut self,
        span: Span,
        what: &str,
        name: &str,
        declared: impl IntoIterator<Item = &'a str>,
    ) -> &mut Diagnostic {
        let declared: Vec<&str> = declared.into_iter().collect();
        let none = declared.is_empty();
        let message = format!("there is no {what} {}", quote(name));
        let error = self.with_nearest(span, message, name, declared).rule("undeclared-name");
        if none {
            error.help(format!("no {what} is declared: add it under {what}s:"));
        }
        error
    }

    /// Any message about a word that is none of the valid ones, with the nearest of them.
    pub fn with_nearest<'a>(
        &mut self,
        span: Span,
        message: String,
        word: &str,
        valid: impl IntoIterator<Item = &'a str>,
    ) -> &mut Diagnostic {
        let valid: Vec<&str> = valid.into_iter().collect();
        if let Some(near) = nearest(word, valid.iter().copied()) {
            return self.error(span, format!("{message}, did you mean {}?", quote(near)));
        }
        self.error(span, message).list(&valid)
    }

    /// A promised name that is not built yet.
    pub fn comes_later(&mut self, span: Span, name: &str) -> &mut Diagnostic {
        self.error(span, format!("`{name}` comes later"))
            .help("this version does not have it yet; leave it out")
            .rule("not-supported-yet")
    }

    /// A declared name that nothing uses.
    pub fn unused(&mut self, span: Span, what: &str, name: &str) -> &mut Diagnostic {
        self.error(span, format!("{what} {} is never used", quote(name)))
            .help("use it or remove it")
            .rule("unused-name")
    }

    /// Excerpts will not show this place: a secret was written there.
    pub fn mask(&mut self, span: Span) {
        self.masked.push(span);
    }

    /// The documents by name, in the order in which they were added, with `MASK` in every masked
    /// place.
    pub fn masked_texts(&self) -> Option<Vec<(&str, String)>> {
        let texts = (0..).map(SourceId).zip(&self.documents);
        texts.map(|(id, one)| Some((one.name.as_str(), self.masked_text(id, &one.text)?))).collect()
    }

    fn masked_text(&self, id: SourceId, text: &str) -> Option<String> {
        let starts: Vec<usize> = text
            .split_inclusive('\n')
            .scan(0, |at, line| Some(std::mem::replace(at, *at + line.len())))
            .collect();
        // A byte order mark is in no column.
        let offset = |line: u32, column: u32| {
            let start = starts.get(line.saturating_sub(1) as usize).copied().unwrap_or(text.len());
            let rest = text[start..].strip_prefix('\u{feff}').unwrap_or(&text[start..]);
            let before = text.len() - rest.len();
            let mut chars = rest.char_indices().map(|(at, _)| at);
            before + chars.nth(column.saturating_sub(1) as usize).unwrap_or(rest.len())
        };
        let mut places: Vec<(usize, usize)> = self
            .masked
            .iter()
            .filter(|span| span.source == id)
            .map(|span| (offset(span.line, span.column), offset(span.end_line, span.end_column)))
            .collect();
        places.sort_unstable();
        places.dedup();
        let mut masked = text.to_owned();
        for (from, to) in places.into_iter().rev() {
            // A block of lines ends behind its last line end, which stays.
            let to = from + text.get(from..to)?.trim_end().len();
            masked.replace_range(from..to, &format!("\"{MASK}\""));
        }
        Some(masked)
    }

    /// Notes that what was read depends on this file or directory, whether it exists or not: with
    /// another content there it may be right.
    pub fn depends_on(&mut self, path: PathBuf) {
        self.files.push(path);
    }

    /// Every path that what was read depends on, for a watcher.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files = self.files.clone();
        files.sort();
        files.dedup();
        files
    }

    pub fn is_empty(&self) -> bool {
        self.errors.is_empty()
    }

    pub fn len(&self) -> usize {
        self.errors.len() + self.left_out
    }

    /// All errors in the order of the documents, each once.
    pub fn errors(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<&Diagnostic> = self.errors.iter().collect();
        sorted.sort_by_key(|error| error.span);
        sorted.dedup();
        sorted
    }

    pub(crate) fn unsaid(&mut self) -> &mut Diagnostic {
        self.unsaid.count += 1;
        &mut self.unsaid.error
    }

    /// The number of values that could not be read so far, with an error or without one (unset
    /// variables).
    pub(crate) fn failures(&self) -> usize {
        self.len() + self.unsaid.count
    }

    /// A position that [`rewind`](Self::rewind) returns to.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.errors.len(), self.left_out)
    }

    /// Drops what was reported since the mark.
    pub(crate) fn rewind(&mut self, (kept, left_out): (usize, usize)) {
        self.errors.truncate(kept);
        self.left_out = left_out;
    }

    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }
}
