//! What a plan was made from, to find out without parsing whether loading would give another one.

use std::fs;
use std::path::{Path, PathBuf};

use settings::content_digest;

use crate::source::{Source, version_of};

/// The texts and files of a configuration without errors.
#[derive(Debug)]
pub struct Inputs {
    /// The patterns of `include`.
    pub(crate) include: Vec<String>,
    /// A short name of exactly the texts.
    pub(crate) version: String,
    /// The files that settings were read from, each with a digest of its content.
    pub(crate) files: Vec<(PathBuf, u64)>,
}

impl Inputs {
    /// True if the source still has these texts, and the files this content.
    pub fn are_current(&self, source: &dyn Source) -> bool {
        self.texts_of(source).is_ok_and(|version| version == self.version)
            && self.files.iter().all(|(path, digest)| content_digest(&content(path)) == *digest)
    }

    /// A short name of the texts that the source has now.
    fn texts_of(&self, source: &dyn Source) -> Result<String, String> {
        let main = source.main()?;
        let dir = main.dir.clone();
        let mut documents = vec![main];
        for pattern in &self.include {
            documents.extend(source.included(pattern, dir.as_deref())?);
        }
        Ok(version_of(documents.iter().map(|document| document.text.as_str())))
    }
}

/// The content of a file; nothing if it cannot be read. A pipe is not read, which could block.
fn content(path: &Path) -> Vec<u8> {
    let is_file = fs::metadata(path).is_ok_and(|about| about.is_file());
    if is_file { fs::read(path).unwrap_or_default() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{FileSource, Kinds, load};

    #[test]
    fn inputs_are_current_until_a_text_or_a_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let main = "
include: [more-*.yaml]
listeners: { web: { bind: \"127.0.0.1:0\" } }
consumers: [{ name: ann, keys: [{ key: { file: key } }] }]
";
        let route = "routes: [{ match: { path: /a }, handler: { respond: {} } }]";
        let source = FileSource::new(dir.path().join("main.yaml"));
        type Change<'c> = (&'c str, &'c dyn Fn());
        let changes: [Change<'_>; 6] = [
            ("the main text", &|| file("main.yaml", &main.replace("ann", "bob"))),
            ("an included text", &|| file("more-1.yaml", &route.replace("/a", "/b"))),
            ("another included file", &|| file("more-2.yaml", "")),
            ("no included file", &|| fs::remove_file(dir.path().join("more-1.yaml")).unwrap()),
            ("a file of a setting", &|| file("key", "another-secret")),
            ("no file of a setting", &|| fs::remove_file(dir.path().join("key")).unwrap()),
        ];
        for (what, change) in changes {
            let _ = fs::remove_file(dir.path().join("more-2.yaml"));
            file("main.yaml", main);
            file("more-1.yaml", route);
            file("key", "a-secret-of-ann");
            let loaded = load(&source, &|_| None, &Kinds::all());
            let inputs = loaded.unwrap_or_else(|report| panic!("{}", report.render())).inputs;
            assert!(inputs.are_current(&source), "{what}");
            change();
            assert!(!inputs.are_current(&source), "{what}");
        }
    }
}
