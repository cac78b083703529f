//! The context in which a setting is read: the report, and facts that the rest of the configuration
//! needs later.
//!
//! Promises: reading never stops at the first error; a `None` from a reader means that an error
//! was reported.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use crate::node::{Node, Scalar, Span, Value};
use crate::report::{Diagnostic, Report};
use crate::spanned::Spanned;
use crate::variable::Variable;

/// The largest file that a `{ file: path }` is read from.
pub const SETTING_FILE_BYTES: u64 = 1 << 20;

/// Returns a digest of what is in a file: the same within a process for the same content.
pub fn content_digest(content: &[u8]) -> u64 {
    let mut digest = DefaultHasher::new();
    content.hash(&mut digest);
    digest.finish()
}

/// Reads settings out of nodes and into a report.
pub struct Reader<'a> {
    report: &'a mut Report,
    path_variables: Vec<Spanned<String>>,
    /// The positions where the country of a client is used.
    country_uses: Vec<Span>,
    /// The positions of limits that several servers share.
    shared_uses: Vec<Span>,
    states: Vec<NamedState>,
    /// With a digest of what was in it.
    contents: Vec<(PathBuf, u64)>,
    provided: HashMap<TypeId, Arc<dyn Any + Send + Sync>>,
}

/// State that settings of one name share, as the first of them describes it.
struct NamedState {
    kind: &'static str,
    name: String,
    span: Span,
    properties: Vec<(&'static str, String)>,
}

impl<'a> Reader<'a> {
    pub fn new(report: &'a mut Report) -> Self {
        Reader {
            report,
            path_variables: Vec::new(),
            country_uses: Vec::new(),
            shared_uses: Vec::new(),
            states: Vec::new(),
            contents: Vec::new(),
            provided: HashMap::new(),
        }
    }

    pub fn report(&mut self) -> &mut Report {
        self.report
    }

    /// Reports that something is wrong at a place.
    pub fn error(&mut self, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.report.error(span, message)
    }

    /// Reports keys that are written and change nothing, because of other settings.
    pub fn no_effect(&mut self, node: &Node, keys: &[&str], why: &str) {
        for key in keys {
            if let Some(value) = node.get(key).filter(|value| !value.is_null()) {
                let why = format!("`{key}` has no effect: {why}");
                self.error(value.span, why).help(format!("remove `{key}`"));
            }
        }
    }

    /// Reports that this node is not what is wanted here: `expected a list, found "x"`. Of a node
    /// that was reported already nothing more is said.
    pub fn expected(&mut self, node: &Node, what: &str) -> &mut Diagnostic {
        if node.value == Value::Broken {
            return self.report.unsaid();
        }
        self.report.error(node.span, format!("expected {what}, found {}", node.found()))
    }

    /// Reads a value where it was probably meant. Without a value the guess is given up, and what
    /// it reported is dropped.
    pub(crate) fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (reported, variables) = (self.report.mark(), self.path_variables.len());
        let (countries, shared) = (self.country_uses.len(), self.shared_uses.len());
        let states = self.states.len();
        let value = read(self);
        if value.is_none() {
            self.report.rewind(reported);
            self.path_variables.truncate(variables);
            self.country_uses.truncate(countries);
            self.shared_uses.truncate(shared);
            self.states.truncate(states);
        }
        value
    }

    /// The scalar at this node, or an error.
    pub fn scalar<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n Scalar> {
        match &node.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => {
                self.expected(node, what);
                None
            }
        }
    }

    /// Reads a scalar through `FromStr`. Its error completes the sentence `"typed" …`, as in `"5"
    /// has no unit`.
    pub fn parse<T>(&mut self, node: &Node, what: &str) -> Option<T>
    where
        T: FromStr,
        T::Err: std::fmt::Display,
    {
        let scalar = self.scalar(node, what)?;
        match scalar.text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                // An error may repeat the text; values from the environment must not be logged.
                let why = match scalar.typed {
                    Some(_) => "does not hold what is wanted here".to_owned(),
                    None => error.to_string(),
                };
                self.refuse(node, scalar, &why).help(format!("expected {what}"));
                None
            }
        }
    }

    pub(crate) fn refuse(&mut self, node: &Node, scalar: &Scalar, why: &str) -> &mut Diagnostic {
        self.report.error(node.span, format!("{} {why}", crate::node::quote(scalar.shown())))
    }

    /// Resolves a relative path written at this position: paths start at the directory of the file
    /// that contains them.
    pub fn resolve(&self, span: Span, path: &Path) -> PathBuf {
        match self.report.dir(span) {
            // Without the `.` of `./public`: it is shown to people.
            Some(dir) if path.is_relative() => dir.join(path).components().collect(),
            _ => path.to_owned(),
        }
    }

    /// The content of a (regular, not too large) file that a setting names, and a note that we
    /// depend on it.
    pub fn read_file(&mut self, span: Span, path: &Path) -> Option<Vec<u8>> {
        self.read_file_up_to(SETTING_FILE_BYTES, span, path)
    }

    /// The same for a file of data, which may have `limit` bytes.
    pub fn read_file_up_to(&mut self, limit: u64, span: Span, path: &Path) -> Option<Vec<u8>> {
        let full = self.resolve(span, path);
        let content =
            std::fs::metadata(&full).map_err(|e| e.to_string()).and_then(|about| {
                match (about.is_file(), about.len()) {
                    (false, _) => Err("it is not a file".to_owned()),
                    (_, len) if len > limit => Err(format!("it is too large ({len} bytes)")),
                    _ => std::fs::read(&full).map_err(|e| e.to_string()),
                }
            });
        let digest = content_digest(content.as_deref().unwrap_or_default());
        self.contents.push((full.clone(), digest));
        self.report.depends_on(full.clone());
        match content {
            Ok(bytes) => Some(bytes),
            Err(why) => {
                self.report.error(span, format!("cannot read {}: {why}", full.display()));
                None
            }
        }
    }

    /// Makes a section that was read available to the settings that refer to it.
    pub fn provide<T: Any + Send + Sync>(&mut self, section: Arc<T>) {
        self.provided.insert(TypeId::of::<T>(), section);
    }

    /// The section of this type, if one was read before.
    pub fn provided<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.provided.get(&TypeId::of::<T>())?.clone().downcast().ok()
    }

    /// Every file that settings were read from so far, with its [`content_digest`].
    pub fn contents(&self) -> &[(PathBuf, u64)] {
        &self.contents
    }

    pub(crate) fn uses_variable(&mut self, variable: &Variable, span: Span) {
        match variable {
            Variable::PathParam(name) => {
                self.path_variables.push(Spanned::new(name.to_owned(), span));
            }
            Variable::Country => self.uses_country(span),
            _ => {}
        }
    }

    /// Notes that a setting depends on the country of the client: without the section `geo` it is
    /// an error.
    pub fn uses_country(&mut self, span: Span) {
        self.country_uses.push(span);
    }

    /// The positions of settings that depend on the country of the client.
    pub fn country_uses(&self) -> &[Span] {
        &self.country_uses
    }

    /// Notes that a setting depends on state that several servers share: without the section
    /// `shared` it is an error.
    pub fn uses_shared(&mut self, span: Span) {
        self.shared_uses.push(span);
    }

    /// The positions of settings that depend on state that several servers share.
    pub fn shared_uses(&self) -> &[Span] {
        &self.shared_uses
    }

    /// Declares state that settings of this name share. Settings that describe it in another way
    /// than the first ones are an error. The values of properties are compared, and not shown.
    pub fn shares_state<const N: usize>(
        &mut self,
        kind: &'static str,
        name: &str,
        span: Span,
        properties: [(&'static str, String); N],
    ) {
        let is_same = |state: &&NamedState| state.kind == kind && state.name == name;
        let Some(first) = self.states.iter().find(is_same) else {
            let (name, properties) = (name.to_owned(), properties.into());
            return self.states.push(NamedState { kind, name, span, properties });
        };
        let other = first.properties.iter().zip(&properties).find(|(one, own)| one != own);
        let Some(((property, _), _)) = other else { return };
        let file = self.report.file(first.span).unwrap_or_default();
        let place = format!("{file}:{}", first.span.line);
        let name = crate::node::quote(name);
        let why = format!("the {kind} {name} has another {property} at {place}");
        let help = format!("{kind}s of one name count together: give this one another name");
        self.report.error(span, why).help(help);
    }

    /// The `{path.NAME}` variables read since the last call: the code that knows the route's path
    /// checks that it has them.
    pub fn take_path_variables(&mut self) -> Vec<Spanned<String>> {
        std::mem::take(&mut self.path_variables)
    }
}

/// Reads one setting from a node that no document wrote: for tests and command-line options.
///
/// The error is the rendered report.
pub fn read<T: crate::Setting>(node: &Node) -> Result<T, String> {
    let mut report = Report::new();
    let value = T::read(node, &mut Reader::new(&mut report));
    match value {
        Some(value) if report.is_empty() => Ok(value),
        _ => Err(report.render()),
    }
}
