//! The syntax of nginx: directives of words, ended by `;` or a block.

use std::rc::Rc;

/// The maximum nesting of blocks.
const DEPTH_MAX: usize = 32;

/// One directive, with the line on which it begins.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Directive {
    /// The file that is included; empty for the one that is converted.
    file: Rc<str>,
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) block: Vec<Directive>,
}

impl Directive {
    /// The directives of this name in its block.
    pub(super) fn all<'d>(&'d self, name: &'d str) -> impl Iterator<Item = &'d Directive> {
        self.block.iter().filter(move |one| one.name == name)
    }

    /// True if nothing is lost without it: how nginx sends and hashes, what is the default here,
    /// and what upgrades need there.
    pub(super) fn has_no_effect(&self) -> bool {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        match (&*self.name, arguments.as_slice()) {
            (
                "sendfile"
                | "tcp_nopush"
                | "tcp_nodelay"
                | "multi_accept"
                | "gzip_vary"
                | "types_hash_max_size"
                | "types_hash_bucket_size"
                | "server_names_hash_max_size"
                | "server_names_hash_bucket_size"
                | "proxy_http_version"
                | "proxy_buffering",
                _,
            )
            | ("worker_processes", ["auto"])
            | ("server_tokens", ["off"])
            | ("http2", ["on"])
            | ("default_type", ["application/octet-stream"])
            | ("map", ["$http_upgrade", _])
            | ("proxy_cache_bypass", ["$http_upgrade"]) => true,
            ("include", [file]) => {
                let name = file.rsplit('/').next().unwrap_or_default();
                // The last three are for programs.
                ["mime.types", "fastcgi_params", "scgi_params", "uwsgi_params"].contains(&name)
            }
            _ => false,
        }
    }

    /// Where it begins, for notes.
    pub(super) fn place(&self) -> String {
        let (file, line) = (&self.file, self.line);
        if file.is_empty() { format!("line {line}") } else { format!("{file} line {line}") }
    }

    /// A note that names it.
    pub(super) fn not_converted(&self) -> String {
        let words = [&self.name].into_iter().chain(&self.arguments);
        let words: Vec<&str> = words.map(String::as_str).collect();
        format!("{}: {} is not converted", self.place(), words.join(" "))
    }

    /// A note that names a part of it.
    pub(super) fn part_not_converted(&self, part: &str) -> String {
        format!("{}: {}: {part} is not converted", self.place(), self.name)
    }
}

/// The directives of a text, or an error that begins with its line. `file` is empty for the one
/// that is converted.
pub(super) fn parse(text: &str, file: &str) -> Result<Vec<Directive>, String> {
    let mut parser = Parser { rest: text, line: 1, file: file.into() };
    let directives = parser.block(0)?;
    match parser.rest.is_empty() {
        true => Ok(directives),
        false => Err(format!("{}: unexpected }}", parser.line)),
    }
}

struct Parser<'t> {
    rest: &'t str,
    line: usize,
    file: Rc<str>,
}

impl Parser<'_> {
    /// Reads directives up to `}` or the end.
    fn block(&mut self, depth: usize) -> Result<Vec<Directive>, String> {
        let mut directives = Vec::new();
        let mut current: Option<Directive> = None;
        loop {
            self.skip_space();
            match self.rest.chars().next() {
                None | Some('}') => {
                    return match current {
                        None => Ok(directives),
                        Some(open) => Err(format!("{}: {} has no ;", open.line, open.name)),
                    };
                }
                Some(end @ (';' | '{')) => {
                    self.rest = &self.rest[1..];
                    let line = self.line;
                    let mut whole =
                        current.take().ok_or_else(|| format!("{line}: unexpected {end}"))?;
                    if end == '{' {
                        whole.block = self.nested(depth, &whole)?;
                    }
                    directives.push(whole);
                }
                Some(_) => {
                    let line = self.line;
                    let word = self.word()?;
                    match &mut current {
                        Some(directive) => directive.arguments.push(word),
                        None => {
                            let file = self.file.clone();
                            let new = Directive { file, line, name: word, ..Directive::default() };
                            current = Some(new);
                        }
                    }
                }
            }
        }
    }

    fn nested(&mut self, depth: usize, of: &Directive) -> Result<Vec<Directive>, String> {
        if depth == DEPTH_MAX {
            return Err(format!("{}: blocks are nested too deep", of.line));
        }
        let block = self.block(depth + 1)?;
        match self.rest.strip_prefix('}') {
            Some(rest) => {
                self.rest = rest;
                Ok(block)
            }
            None => Err(format!("{}: the block of {} does not end", of.line, of.name)),
        }
    }

    fn skip_space(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            let skipped = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += skipped.matches('\n').count();
            self.rest = trimmed;
            match trimmed.starts_with('#') {
                true => self.rest = &trimmed[trimmed.find('\n').unwrap_or(trimmed.len())..],
                false => return,
            }
        }
    }

    /// A word, or a text in quotes. `${name}` belongs to a word.
    fn word(&mut self) -> Result<String, String> {
        let mut word = String::new();
        let quote = self.rest.chars().next().filter(|c| ['"', '\''].contains(c));
        let mut chars = self.rest.char_indices().skip(usize::from(quote.is_some())).peekable();
        let mut in_variable = false;
        while let Some((at, c)) = chars.next() {
            let ends = match quote {
                Some(quote) => c == quote,
                None => c.is_whitespace() || c == ';' || (!in_variable && ['{', '}'].contains(&c)),
            };
            if ends {
                let end = at + usize::from(quote.is_some());
                self.line += self.rest[..end].matches('\n').count();
                self.rest = &self.rest[end..];
                return Ok(word);
            }
            match c {
                '\\' => match chars.next() {
                    Some((_, 'n')) => word.push('\n'),
                    Some((_, 'r')) => word.push('\r'),
                    Some((_, 't')) => word.push('\t'),
                    // Other escapes belong to regular expressions.
                    Some((_, escaped)) if ['"', '\'', '\\', ' ', ';'].contains(&escaped) => {
                        word.push(escaped);
                    }
                    Some((_, other)) => word.extend(['\\', other]),
                    None => word.push('\\'),
                },
                '$' if quote.is_none() && chars.peek().is_some_and(|(_, next)| *next == '{') => {
                    in_variable = true;
                    word.push(c);
                }
                '}' => {
                    in_variable = false;
                    word.push(c);
                }
                _ => word.push(c),
            }
        }
        Err(format!("{}: a text or directive does not end", self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn directives_have_words_blocks_and_lines() {
        let text = "a 'b c' \"d\\\"e\" f\\n\\w; # x;\nf {\n  g ${h}i;\n  j { }\n}\nk \"x\ny\"; l;";
        let found = parse(text, "").unwrap();
        assert_eq!(found[0].arguments, ["b c", "d\"e", "f\n\\w"]);
        assert_eq!((found[1].line, found[1].block[0].line), (2, 3));
        assert_eq!(found[1].block[0].arguments, ["${h}i"]);
        assert_eq!(found[1].block[1].name, "j");
        assert_eq!((found[2].line, found[3].line), (6, 7));
    }

    #[test]
    fn what_does_not_end_is_an_error_with_its_line() {
        for (text, line) in
            [("\na b", 2), ("a {\nb;", 1), ("a;\n}", 2), (";", 1), ("a 'b", 1), ("a\n{ b }", 2)]
        {
            let error = parse(text, "").unwrap_err();
            assert!(error.starts_with(&format!("{line}:")), "{text:?} {error}");
        }
        assert!(parse(&"a {".repeat(1000), "").unwrap_err().contains("too deep"));
        assert_eq!(parse(" # nothing", "").unwrap(), []);
    }
}
