//! Each filter has an example in a guide that a server runs, with requests.

use std::collections::BTreeMap;

use crate::page::{self, Mode, Step};
use crate::parts;

/// Filters whose examples need more than a page has, and what runs them instead.
const ELSEWHERE: &[(&str, &str)] = &[
    ("grpc_json", "a gRPC server: tests/scenarios/grpc.rs"),
    ("grpc_web", "a gRPC server: tests/scenarios/grpc.rs"),
];

#[test]
fn each_filter_has_an_example_that_is_run() {
    let run: Vec<String> = crate::PAGES.iter().flat_map(|page| run_by(&page::read(page))).collect();
    let missing: Vec<_> = filters().into_iter().filter(|name| !has_filter(&run, name)).collect();
    let elsewhere: Vec<_> = ELSEWHERE.iter().map(|(name, _)| *name).collect();
    assert_eq!(missing, elsewhere, "filters without an example that a page runs");
}

#[test]
fn a_page_with_examples_shows_the_line_that_they_leave_out() {
    for path in crate::PAGES {
        let blocks: Vec<_> = page::read(path).into_iter().filter_map(example_or_part).collect();
        let leaves_out = |(mode, text): &(Mode, String)| {
            *mode == Mode::Example && !parts::has_section(text, "listeners")
        };
        let shows = blocks.iter().any(|(_, text)| text == parts::LISTENER);
        assert!(shows || !blocks.iter().any(leaves_out), "{path}: no block {}", parts::LISTENER);
    }
}

fn example_or_part(step: Step) -> Option<(Mode, String)> {
    match step {
        Step::Block { language, mode, text, .. } if language == "yaml" => Some((mode, text)),
        _ => None,
    }
}

/// The names of all filters, from the generated reference.
fn filters() -> Vec<String> {
    let path = crate::workspace().join("docs/reference/configuration.md");
    let reference = std::fs::read_to_string(path).expect("the reference");
    let list = reference.split("\n## ").find(|part| part.starts_with("`chains.NAME[]`\n"));
    let entries = list.expect("the list of filters").lines();
    let names = entries.filter_map(|line| line.strip_prefix("- **`{ ")?.split_once(':'));
    // A chain is a list of filters.
    names.map(|(name, _)| name.to_owned()).filter(|name| name != "chain").collect()
}

/// The configurations of a page that get requests: its examples, and the files of its commands.
fn run_by(steps: &[Step]) -> Vec<String> {
    let mut files = BTreeMap::new();
    let (mut running, mut requested) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Block { mode: Mode::Example, text, .. } => running = vec![text.clone()],
            Step::Block { language, file: Some(file), text, .. } if language == "yaml" => {
                files.insert(file.as_str(), text);
            }
            Step::Block { mode: Mode::Skipped, .. } => {}
            Step::Block { language, text, .. } if matches!(&**language, "sh" | "console") => {
                running.extend(started(text, &files));
                if text.contains("curl ") || text.contains("$ bash ") {
                    requested.append(&mut running);
                }
            }
            Step::Run { text, .. } => running.extend(started(text, &files)),
            Step::Block { .. } | Step::Stop => {}
        }
    }
    requested
}

fn started(commands: &str, files: &BTreeMap<&str, &String>) -> Vec<String> {
    let started = commands.lines().filter_map(|line| {
        let mut words = line.trim_start_matches("$ ").strip_prefix("tidegate up")?.split(' ');
        let file = words.find(|word| word.ends_with(".yaml")).unwrap_or("tidegate.yaml");
        files.get(file).map(|text| (*text).clone())
    });
    started.collect()
}

/// True if a list of filters has this one: in lines of its own, or in brackets.
fn has_filter(configurations: &[String], name: &str) -> bool {
    let written = [format!("- {name}: "), format!("- {name}:\n"), format!("{{ {name}: ")];
    let lists = |line: &str| line.contains("filters: [") || line.contains("any: [");
    configurations.iter().any(|text| {
        text.contains(&written[0])
            || text.contains(&written[1])
            || text.lines().any(|line| lists(line) && line.contains(&written[2]))
    })
}
