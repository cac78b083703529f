//! Links between pages lead to files that exist. What pages tell to run is in tests/documentation.

use std::path::{Path, PathBuf};

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md")];
    for directory in ["docs/guide", "docs/guide/lua"] {
        let entries = std::fs::read_dir(root.join(directory)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        pages.extend(paths.filter(|path| path.extension().is_some_and(|name| name == "md")));
    }
    pages
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
