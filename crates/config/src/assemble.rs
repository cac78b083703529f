//! Assembles documents into one tree: follows `include` and merges the files.
//!
//! Maps of names are merged and no name is declared twice; lists are appended in the order of the
//! files; everything else is in one file only. Independent of the meaning of names.

use std::path::{Path, PathBuf};

use settings::{MapKey, Node, Report, SourceId, Span, Value, quote};

use crate::expand::{Environment, expand};
use crate::limits::INCLUDED_FILES;
use crate::source::{Document, Source, Version};
use crate::yaml;

/// The whole configuration as one tree.
pub(crate) struct Assembled {
    pub(crate) root: Node,
    /// A short name of exactly these texts.
    pub(crate) version: String,
}

/// Reads all documents of a source. `None` when nothing can be read; errors are in the
/// report either way.
pub(crate) fn assemble(
    source: &dyn Source,
    environment: &Environment<'_>,
    report: &mut Report,
) -> Option<Assembled> {
    let main = match source.main() {
        Ok(document) => document,
        Err(why) => {
            report.error(Span::NOWHERE, why);
            return None;
        }
    };
    let mut version = Version::default();
    version.add(&main.text);
    let (name, dir) = (main.name.clone(), main.dir.clone());
    let root = tree(main, environment, report)?;
    let mut assembled = Assembled { root, version: String::new() };
    let mut included: Vec<String> = Vec::new();
    for (pattern, span) in patterns(&assembled.root, report) {
        // A document without a directory is not a file, and is not watched as one.
        if let Some(dir) = &dir {
            report.depends_on(where_found(&dir.join(&pattern)));
        }
        let documents = match source.included(&pattern, dir.as_deref()) {
            Ok(documents) => documents,
            Err(why) => {
                report.error(span, why);
                continue;
            }
        };
        for document in documents {
            if included.len() >= INCLUDED_FILES {
                report.error(span, format!("more than {INCLUDED_FILES} files are included"));
                return None;
            }
            if document.name == name || included.contains(&document.name) {
                // Untruncated, unlike other quotes: the end of a path identifies it.
                report.error(span, format!("{:?} is included twice", document.name));
                continue;
            }
            version.add(&document.text);
            included.push(document.name.clone());
            if document.dir.is_some() {
                report.depends_on(PathBuf::from(&document.name));
            }
            if let Some(tree) = tree(document, environment, report) {
                merge(&mut assembled.root, tree, report);
            }
        }
    }
    assembled.version = version.finish();
    Some(assembled)
}

/// The file that a pattern names, or the directory in which others may appear that it names.
fn where_found(pattern: &Path) -> PathBuf {
    let names_one = !pattern.to_string_lossy().contains(['*', '?']);
    let folder = pattern.parent().filter(|_| !names_one);
    folder.unwrap_or(pattern).to_owned()
}

fn tree(document: Document, environment: &Environment<'_>, report: &mut Report) -> Option<Node> {
    let id = report.add_document(&document.name, document.text, document.dir.as_deref());
    let text = report.text(id)?;
    let before = report.len();
    let Some(mut node) = yaml::parse(&text, id, report) else {
        // An empty file is a configuration without settings; a malformed one is not.
        return (report.len() == before).then(|| empty(id));
    };
    match node.value {
        Value::Null => return Some(empty(id)),
        Value::Map(_) => {}
        _ => {
            report.error(node.span, "a configuration is a map of keys, such as `routes:`");
            return None;
        }
    }
    expand(&mut node, environment, report);
    Some(node)
}

fn empty(source: SourceId) -> Node {
    let span = Span { source, line: 1, column: 1, end_line: 1, end_column: 2 };
    Node { value: Value::Map(Vec::new()), span }
}

/// Returns the patterns of `include`. The type is checked again when the record is read.
fn patterns(root: &Node, report: &mut Report) -> Vec<(String, Span)> {
    let Some(include) = root.get("include") else { return Vec::new() };
    let Some(items) = include.list() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for item in items {
        match item.text() {
            Some(text) if !text.is_empty() => found.push((text.to_owned(), item.span)),
            Some(_) => {
                report.error(item.span, "the name of a file is empty");
            }
            None => {}
        }
    }
    found
}

fn merge(root: &mut Node, other: Node, report: &mut Report) {
    let (Value::Map(into), Value::Map(from)) = (&mut root.value, other.value) else { return };
    for (key, node) in from {
        if key.name == "include" {
            report
                .error(key.span, "an included file cannot include others")
                .help("only the main file has include");
            continue;
        }
        match into.iter_mut().find(|(k, _)| k.name == key.name) {
            None => into.push((key, node)),
            Some((first, present)) => join(first, present, &key, node, report),
        }
    }
}

/// Puts two values of the same top-level key together.
fn join(first: &MapKey, present: &mut Node, key: &MapKey, node: Node, report: &mut Report) {
    /// Keys whose maps are one value, not names: two files that both set limits would each hold
    /// half of the truth.
    const WHOLE: &[&str] = &[
        "admin", "log", "metrics", "traces", "shared", "purges", "limits", "timeouts", "defaults",
        "workers",
    ];
    let whole = WHOLE.contains(&first.name.as_str());
    match (&mut present.value, node.value) {
        (_, Value::Null) => {}
        (Value::Null, value) => *present = Node { value, span: node.span },
        (Value::List(items), Value::List(more)) if !whole => items.extend(more),
        (Value::Map(entries), Value::Map(more)) if !whole => {
            for (name, value) in more {
                if entries.iter().any(|(k, _)| k.name == name.name) {
                    report
                        .error(
                            name.span,
                            format!("{} is declared twice in {}", quote(&name.name), key.name),
                        )
                        .help("another file declares the same name");
                } else {
                    entries.push((name, value));
                }
            }
        }
        _ => {
            report
                .error(key.span, format!("`{}` stands in more than one file", key.name))
                .help("write it in one of them");
        }
    }
}

#[cfg(test)]
mod tests {
    use settings::{Node, Report};

    use super::assemble;
    use crate::source::TextSource;

    fn run(source: &TextSource) -> (Option<Node>, String) {
        let mut report = Report::new();
        let env = |name: &str| (name == "SET").then(|| "yes".to_owned());
        let assembled = assemble(source, &env, &mut report);
        (assembled.map(|assembled| assembled.root), report.render())
    }

    #[test]
    fn names_are_merged_and_lists_appended() {
        let main = "include: [d/*.yaml, z.yaml]\nupstreams: { a: 1 }\nroutes: [r0]\nlog: {}\n";
        let source = TextSource::new("main.yaml", main)
            .with("z.yaml", "routes: [r3]\nchains: { c: \"${SET}\" }\n")
            .with("d/2.yaml", "routes: [r2]\nupstreams: { c: 3 }\n")
            .with("d/1.yaml", "routes: [r1]\nupstreams: { b: 2 }\n")
            .with("d/3.yaml", "# nothing\n");
        let (root, errors) = run(&source);
        assert_eq!(errors, "");
        let json = root.unwrap().to_json();
        assert_eq!(json["upstreams"].to_string(), r#"{"a":1,"b":2,"c":3}"#);
        assert_eq!(json["routes"].to_string(), r#"["r0","r1","r2","r3"]"#);
        assert_eq!(json["chains"]["c"], "${SET}");
    }

    #[test]
    fn what_two_files_claim_is_an_error() {
        let main = "include: [a.yaml]\nupstreams: { a: 1 }\nlog: { level: info }\n";
        for (text, expected) in [
            ("upstreams: { a: 2 }", "\"a\" is declared twice in upstreams"),
            ("log: { level: warn }", "`log` stands in more than one file"),
            ("upstreams: [a]", "`upstreams` stands in more than one file"),
            ("include: [b.yaml]", "an included file cannot include others"),
            ("routes: [", "a.yaml:1:"),
            ("- a", "a configuration is a map of keys"),
        ] {
            let (_, errors) = run(&TextSource::new("main.yaml", main).with("a.yaml", text));
            assert!(errors.contains(expected), "{errors}\nwanted {expected}");
        }
        let (_, errors) =
            run(&TextSource::new("m.yaml", "include: [a.yaml, a.yaml, b.yaml]").with("a.yaml", ""));
        assert!(errors.contains("included twice") && errors.contains("no file b.yaml"), "{errors}");
    }

    #[test]
    fn the_version_follows_every_text() {
        let version = |included: &str| {
            let source = TextSource::new("m.yaml", "include: [a.yaml]").with("a.yaml", included);
            assemble(&source, &|_| None, &mut Report::new()).unwrap().version
        };
        assert_eq!(version("a: 1"), version("a: 1"));
        assert_ne!(version("a: 1"), version("a: 2"));
    }
}
