//! Files that are included: their directives take the place of `include`.

use super::parser::{Directive, parse};

/// How deep files may include others.
const DEPTH_MAX: usize = 10;
/// The files that are read.
const FILES_MAX: usize = 1000;

/// A file that is included: its name, for notes, and its text.
pub struct Included {
    pub name: String,
    pub text: String,
}

/// Reads the files that the argument of `include` names, in their order; an error if it names none.
pub type ReadFiles<'r> = &'r dyn Fn(&str) -> Result<Vec<Included>, String>;

pub(super) struct Includes<'r> {
    read: ReadFiles<'r>,
    /// The files that have been read.
    files: usize,
}

impl<'r> Includes<'r> {
    pub(super) fn new(read: ReadFiles<'r>) -> Includes<'r> {
        Includes { read, files: 0 }
    }

    /// The directives with those of the files that they include. What cannot be read stays
    /// `include`, which is named in a note as everything that is not converted.
    pub(super) fn resolve(&mut self, directives: Vec<Directive>) -> Result<Vec<Directive>, String> {
        self.resolve_at(directives, 0)
    }

    fn resolve_at(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
    ) -> Result<Vec<Directive>, String> {
        let mut resolved = Vec::new();
        for mut directive in directives {
            let files = match directive.arguments.as_slice() {
                [pattern] if directive.name == "include" && !directive.has_no_effect() => {
                    (self.read)(pattern).ok()
                }
                _ => None,
            };
            let Some(files) = files else {
                directive.block = self.resolve_at(directive.block, depth)?;
                resolved.push(directive);
                continue;
            };
            self.files += files.len();
            if depth == DEPTH_MAX || self.files > FILES_MAX {
                let place = directive.place();
                return Err(format!("{place}: more than {FILES_MAX} files, or too deep includes"));
            }
            for Included { name, text } in files {
                let directives =
                    parse(&text, &name).map_err(|error| format!("{name} line {error}"))?;
                resolved.extend(self.resolve_at(directives, depth + 1)?);
            }
        }
        Ok(resolved)
    }
}
