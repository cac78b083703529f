//! Paths of files and directories. A relative one starts at the directory of the configuration file
//! that wrote it.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// A path, made absolute by where it was written. Whether it exists is checked when it is opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilePath(PathBuf);

impl FilePath {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        FilePath(path.into())
    }
}

impl Deref for FilePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Setting for FilePath {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("path")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let scalar = reader.scalar(node, "a path")?;
        if scalar.text.is_empty() || scalar.text.contains('\0') {
            reader.expected(node, "a path");
            return None;
        }
        Some(FilePath(reader.resolve(node.span, Path::new(&scalar.text))))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::FilePath;
    use crate::{Node, Reader, Report, Setting, Span, node, read};

    #[test]
    fn relative_paths_start_where_they_were_written() {
        let mut report = Report::new();
        let source = report.add_document("x.yaml", "", Some(Path::new("/etc/tidegate")));
        let span = Span { source, ..Span::NOWHERE };
        for (text, full) in [("public", "/etc/tidegate/public"), ("/srv", "/srv")] {
            let node = Node { span, ..Node::plain(text) };
            let path = FilePath::read(&node, &mut Reader::new(&mut report)).unwrap();
            assert_eq!(path, FilePath::new(full));
        }
        assert_eq!(read::<FilePath>(&node!("a")).unwrap(), FilePath::new("a"));
        assert!(read::<FilePath>(&node!("")).is_err());
    }
}
