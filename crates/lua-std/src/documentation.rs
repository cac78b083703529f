//! Runs the examples of the guide.
//!
//! Every `lua` block of `docs/guide/lua/*.md` is a program of its own: it fails if one of its
//! coroutines does, if it exits with anything but 0, or if it has not ended after a minute. A
//! block is over when its main coroutine is.

use std::fs;
use std::path::{Path, PathBuf};

use crate::testing::run_example;

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/lua");
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut pages: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

/// Line number and text of each block.
fn blocks(page: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in page.lines().enumerate() {
        match &mut open {
            None if line.trim_end() == "```lua" => open = Some((index + 2, String::new())),
            None => {}
            Some(_) if line.trim_end() == "```" => blocks.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    blocks
}

#[test]
fn every_example_runs() {
    let pages = pages();
    assert!(!pages.is_empty());
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages {
        for (line, text) in blocks(&fs::read_to_string(&page).unwrap()) {
            count += 1;
            let ended = std::panic::catch_unwind(|| run_example(&text));
            match ended {
                Ok((0, _)) => {}
                Ok((code, output)) => {
                    wrong.push(format!("{}:{line}: {code} {output:?}", page.display()))
                }
                Err(_) => wrong.push(format!("{}:{line}: does not end", page.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 0, "there are no examples");
}
