//! Documents of this machine, which `ctl apply` writes to etcd.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use bytes::Bytes;

use crate::failure::Failure;

/// Nested directories.
const DEPTH: usize = 16;

/// Reads a file, or all documents of a directory, by their names in it.
pub(crate) fn read_documents(path: &Path) -> Result<BTreeMap<String, Bytes>, Failure> {
    let mut found = BTreeMap::new();
    let failed =
        |error: io::Error| Failure::Wrong(format!("cannot read {}: {error}", path.display()));
    if path.is_dir() {
        add(path, "", DEPTH, &mut found).map_err(failed)?;
        if found.is_empty() {
            let why = "has no files that end with .yaml, .yml or .json";
            return Err(Failure::Wrong(format!("{} {why}", path.display())));
        }
    } else {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, fs::read(path).map_err(failed)?.into());
    }
    Ok(found)
}

fn add(
    directory: &Path,
    prefix: &str,
    depth: usize,
    found: &mut BTreeMap<String, Bytes>,
) -> io::Result<()> {
    if depth == 0 {
        return Err(io::Error::other("too many nested directories"));
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let name = format!("{prefix}{name}");
        let is_document = [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending));
        if path.is_dir() {
            add(&path, &format!("{name}/"), depth - 1, found)?;
        } else if is_document {
            found.insert(name, fs::read(&path)?.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_have_the_names_of_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        };
        assert!(read_documents(directory.path()).is_err());
        for name in ["a.yaml", "routes/b.yml", "c.json", ".hidden.yaml", "d.txt", ".git/e.yaml"] {
            write(name);
        }
        let found = read_documents(directory.path()).unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["a.yaml", "c.json", "routes/b.yml"]);
        assert_eq!(found["routes/b.yml"], "routes/b.yml");
        let one = read_documents(&directory.path().join("d.txt")).unwrap();
        assert_eq!(one.keys().collect::<Vec<_>>(), ["d.txt"]);
        assert!(read_documents(&directory.path().join("none")).is_err());
    }
}
