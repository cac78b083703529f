//! Links of the Markdown files: relative ones name a file and a heading that exist.

use crate::tidy::visit;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

#[test]
fn links_lead_somewhere() {
    let workspace = &crate::root();
    let mut pages = BTreeMap::new();
    visit(workspace, &mut |path| {
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(path).expect("text");
            pages.insert(path.strip_prefix(workspace).expect("inside").to_path_buf(), text);
        }
    });
    assert!(pages.len() > 10, "only {} pages were found", pages.len());
    let mut broken = Vec::new();
    for (page, text) in &pages {
        for (line, link) in links_in(text) {
            let exists = |path: &Path| workspace.join(path).exists();
            if let Some(problem) = problem_of(page, link, &pages, exists) {
                broken.push(format!("{}:{line}: {link}: {problem}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

/// The lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        (!fenced && !is_fence).then_some((at + 1, line))
    })
}

/// The targets of `[text](target)`, with their lines.
fn links_in(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        for (at, _) in text.match_indices("](") {
            let rest = &text[at + 2..];
            let code = text[..at].matches('`').count() % 2 == 1;
            if let Some(end) = rest.find(')').filter(|_| !code) {
                links.push((line, rest[..end].split(' ').next().unwrap_or_default()));
            }
        }
    }
    links
}

fn problem_of(
    page: &Path,
    link: &str,
    pages: &BTreeMap<PathBuf, String>,
    exists: impl Fn(&Path) -> bool,
) -> Option<&'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').map_or((link, None), |(f, a)| (f, Some(a)));
    let target = match file {
        "" => page.to_path_buf(),
        _ => normal(&page.parent().unwrap_or(Path::new("")).join(file)),
    };
    if !exists(&target) {
        return Some("there is no such file");
    }
    let anchor = anchor?;
    let text = pages.get(&target)?;
    (!anchors_of(text).contains(anchor)).then_some("there is no such heading")
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts
}

/// What GitHub calls the headings of a page; a repeated one has a number.
fn anchors_of(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        if let Some(name) =
            line.split("<a id=\"").nth(1).or_else(|| line.split("<a name=\"").nth(1))
        {
            anchors.extend(name.split('"').next().map(str::to_owned));
        }
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut unique = name.clone();
        let mut repeats = 0;
        while !anchors.insert(unique.clone()) {
            repeats += 1;
            unique = format!("{name}-{repeats}");
        }
    }
    anchors
}

#[test]
fn a_broken_link_is_seen() {
    let text =
        "# A `b`, c\n[x](../d.md#e) `[y](z)` [w](https://w.example)\n```\n[v](u)\n```\n## E\n";
    let links: Vec<_> = links_in(text).into_iter().map(|(_, link)| link).collect();
    assert_eq!(links, ["../d.md#e", "https://w.example"]);
    assert_eq!(anchors_of(text), BTreeSet::from(["a-b-c".to_owned(), "e".to_owned()]));
    let pages = BTreeMap::from([(PathBuf::from("d.md"), text.to_owned())]);
    let problem = |link| problem_of(Path::new("f/g.md"), link, &pages, |p| p == Path::new("d.md"));
    assert_eq!(problem("../d.md#e"), None);
    assert_eq!(problem("https://w.example"), None);
    assert_eq!(problem("../d.md#z"), Some("there is no such heading"));
    assert_eq!(problem("d.md"), Some("there is no such file"));
}
