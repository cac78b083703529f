//! Every whole configuration in the documentation is right.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::run_in;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for folder in ["docs/guide", "docs/guide/lua"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|name| name == "md")));
    }
    pages
}

/// The blocks of YAML in a page.
fn blocks(page: &str) -> Vec<&str> {
    let parts = page.split("```");
    parts.skip(1).step_by(2).filter_map(|block| block.strip_prefix("yaml\n")).collect()
}

/// The files of Lua in a page: blocks that are marked with a name.
fn lua_files(page: &str) -> Vec<(&str, &str)> {
    let parts = page.split("```");
    let marked =
        parts.skip(1).step_by(2).filter_map(|block| block.strip_prefix("lua ")?.split_once('\n'));
    marked.collect()
}

#[test]
fn whole_configurations_are_right() {
    let mut checked = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in blocks(&text) {
            // Others are parts of one, to be put into a place.
            if !(block.contains("\nroutes:") && block.contains("listeners:")) {
                continue;
            }
            let folder = TempDir::new().unwrap();
            std::fs::create_dir(folder.path().join("public")).unwrap();
            std::fs::write(folder.path().join("sorry.html"), "sorry").unwrap();
            for (name, lua) in lua_files(&text) {
                std::fs::write(folder.path().join(name), lua).unwrap();
            }
            std::fs::write(folder.path().join("tidegate.yaml"), block).unwrap();
            let ended = run_in(folder.path(), &["check"]);
            assert_eq!(ended.stderr, "", "{}:\n{block}", page.display());
            checked += 1;
        }
    }
    assert!(checked >= 4, "only {checked} whole configurations were found");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = pages();
    pages.extend(["ARCHITECTURE.md", "CHANGELOG.md", "docs/README.md"].map(|name| root.join(name)));
    let mut broken = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for (_, rest) in text.match_indices("](").map(|(at, mark)| text.split_at(at + mark.len())) {
            let link = rest.split(')').next().unwrap_or_default();
            let target = link.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") {
                let found = page.parent().unwrap().join(target).exists();
                broken.extend((!found).then(|| format!("{}: {link}", page.display())));
            }
        }
    }
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
