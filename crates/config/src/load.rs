//! Loads a [`ServerPlan`] from a source, or returns all errors.

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use auth::ConsumerSettings;
use settings::{Node, Reader, Report, Setting, Span, Value};

use crate::assemble::assemble;
use crate::compile::compile;
use crate::development;
use crate::expand::Environment;
use crate::inputs::Inputs;
use crate::kinds::Kinds;
use crate::parts::Parts;
use crate::records::Settings;
use crate::server_plan::ServerPlan;
use crate::source::Source;
use crate::yaml;

/// A configuration that may be used.
pub struct Loaded {
    pub plan: Arc<ServerPlan>,
    /// Files it depends on besides the main one: included ones, secrets, pages; and directories in
    /// which `include` may find more. A change of any is worth a reload.
    pub files: Vec<PathBuf>,
    pub inputs: Arc<Inputs>,
}

/// A configuration without errors, some of whose environment variables may not be set.
pub struct Incomplete {
    /// `None` if a variable is not set.
    pub plan: Option<Arc<ServerPlan>>,
    /// The names of the variables that are not set.
    pub unset: Vec<String>,
}

/// Reads, checks and freezes a configuration. The report has every error, and the files whose
/// change may mend them.
pub fn load(
    source: &dyn Source,
    environment: &Environment<'_>,
    kinds: &Kinds,
) -> Result<Loaded, Report> {
    let mut report = Report::new();
    match try_load(source, environment, kinds, &mut report) {
        Some(loaded) if report.is_empty() => Ok(loaded),
        _ => Err(report),
    }
}

/// Checks a configuration where environment variables that it needs are not set: what depends on
/// them is not checked. Without any such variable the result is the same as that of [`load`].
pub fn load_with_unset_variables(
    source: &dyn Source,
    environment: &Environment<'_>,
    kinds: &Kinds,
) -> Result<Incomplete, Report> {
    let mut report = Report::allowing_unset_variables();
    let loaded = try_load(source, environment, kinds, &mut report);
    if !report.is_empty() {
        return Err(report);
    }
    let unset = report.unset_variables().into_iter().map(str::to_owned).collect();
    Ok(Incomplete { plan: loaded.map(|loaded| loaded.plan), unset })
}

/// The version of the plan that a source gives: a short name of exactly its texts. Empty if they
/// cannot be read.
pub fn source_version(source: &dyn Source) -> String {
    let assembled = assemble(source, &|_| Some(String::new()), &mut Report::new());
    assembled.map(|assembled| assembled.version).unwrap_or_default()
}

/// Reads one entry of `consumers`, without environment variables.
pub fn read_consumer(text: &str) -> Result<ConsumerSettings, Report> {
    let mut report = Report::new();
    let id = report.add_document("the body", text, None);
    let node = yaml::parse(text, id, &mut report);
    let consumer =
        node.and_then(|node| ConsumerSettings::read(&node, &mut Reader::new(&mut report)));
    consumer.filter(|_| report.is_empty()).ok_or(report)
}

/// Returns the documents by name, the main one first, with `***` in place of every secret in clear.
/// `None` if they have errors, because then the positions of secrets are unknown.
pub fn masked(
    source: &dyn Source,
    environment: &Environment<'_>,
    kinds: &Kinds,
) -> Option<Vec<(String, String)>> {
    let mut report = Report::new();
    try_load(source, environment, kinds, &mut report)?;
    let texts = report.masked_texts().filter(|_| report.is_empty())?;
    Some(texts.into_iter().map(|(name, text)| (name.to_owned(), text)).collect())
}

fn try_load(
    source: &dyn Source,
    environment: &Environment<'_>,
    kinds: &Kinds,
    report: &mut Report,
) -> Option<Loaded> {
    let mut reader = Reader::new(report);
    // What is read is larger than the plan, and gone when the plan is complete. On a thread of its
    // own it leaves whole pages of memory, without parts of the plan between them.
    let read = thread::scope(|scope| {
        let reading = || read(source, environment, &mut reader);
        let thread = thread::Builder::new().spawn_scoped(scope, reading);
        thread.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let read = read.unwrap_or_else(|why| {
        let what = format!("cannot start a thread that reads the configuration: {why}");
        reader.error(Span::NOWHERE, what);
        None
    });
    let (settings, parts, version) = read?;
    let include = settings.include.clone();
    let mut plan = compile(settings, version, kinds, &mut reader)?;
    let routes = plan.routes.iter().map(|route| route.name.as_str());
    plan.parts = parts.named(routes, reader.contents());
    let (version, files) = (plan.version.clone(), reader.contents().to_vec());
    let inputs = Arc::new(Inputs { include, version, files });
    Some(Loaded { plan: Arc::new(plan), files: report.files(), inputs })
}

/// Reads the settings of a source, their parts and their version.
fn read(
    source: &dyn Source,
    environment: &Environment<'_>,
    reader: &mut Reader<'_>,
) -> Option<(Settings, Parts, String)> {
    let mut assembled = assemble(source, environment, reader.report())?;
    refuse_nothing(&assembled.root, reader.report());
    if let Some(certificate) = source.development_certificate() {
        development::use_certificate(&mut assembled.root, certificate, reader.report());
    }
    let settings = Settings::read(&assembled.root, reader)?;
    Some((settings, Parts::of(&assembled.root), assembled.version))
}

/// Refuses an empty configuration, which would close every listener of a running server: it is a
/// file that is being written, or the remains of a disk that was full.
fn refuse_nothing(root: &Node, report: &mut Report) {
    if matches!(&root.value, Value::Map(entries) if entries.is_empty()) {
        report
            .error(root.span, "the configuration is empty")
            .help("the least is: listeners: { web: { bind: \"127.0.0.1:8080\" } }");
    }
}

/// The main document of a source as JSON, whatever it describes: every text is as typed.
pub fn document_json(source: &dyn Source) -> Result<serde_json::Value, Report> {
    let mut report = Report::new();
    let root = match source.main() {
        Ok(document) => {
            let id = report.add_document(&document.name, document.text, document.dir.as_deref());
            report.text(id).and_then(|text| yaml::parse(&text, id, &mut report))
        }
        Err(why) => {
            report.error(Span::NOWHERE, why);
            None
        }
    };
    match report.is_empty() {
        true => Ok(root.map_or(serde_json::Value::Null, |root| root.to_json())),
        false => Err(report),
    }
}
