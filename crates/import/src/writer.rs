//! Lines of YAML with comments, and what values and expressions are written as.

use serde_json::Value;

/// The YAML text under construction.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
}

/// The width of comments.
const COLUMNS: usize = 100;

impl Writer {
    pub(super) fn line(&mut self, indent: usize, text: &str) {
        self.text.extend(std::iter::repeat_n(' ', indent));
        for c in text.chars() {
            // YAML has these only as escapes; outside of comments they are within quotes.
            match c.is_control() || ['\u{fffe}', '\u{ffff}'].contains(&c) {
                true => self.text.push_str(&format!("\\u{:04x}", u32::from(c))),
                false => self.text.push(c),
            }
        }
        self.text.push('\n');
    }

    pub(super) fn empty_line(&mut self) {
        self.text.push('\n');
    }

    /// Writes a comment, wrapped over several lines.
    pub(super) fn comment(&mut self, indent: usize, text: &str) {
        let mut line = String::from("#");
        for word in text.split_whitespace() {
            let length = line.chars().count() + 1 + word.chars().count();
            if length > COLUMNS - indent && line != "#" {
                self.line(indent, &line);
                line = String::from("#  ");
            }
            line.push(' ');
            line.push_str(word);
        }
        self.line(indent, &line);
    }

    /// Writes a note about a setting that has no counterpart or another meaning here.
    pub(super) fn note(&mut self, indent: usize, text: &str) {
        self.comment(indent, &format!("note: {text}"));
    }

    pub(super) fn notes(&mut self, indent: usize, notes: &[String]) {
        notes.iter().for_each(|note| self.note(indent, note));
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// A value as YAML, without variables of the environment.
pub(super) fn literal(value: &Value) -> String {
    value.to_string().replace("${", "$${")
}

/// A text as a regular expression that matches it.
pub(super) fn escaped_regex(text: &str) -> String {
    let escape = |c: char| match r"\.+*?()|[]{}^$#&-~".contains(c) {
        true => format!("\\{c}"),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Quotes a text for YAML and escapes environment variables.
pub(super) fn quoted(text: &str) -> String {
    plain(&text.replace("${", "$${"))
}

/// Quotes a text for YAML; `${NAME}` stays an environment variable.
pub(super) fn plain(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{Writer, quoted};

    #[test]
    fn long_comments_are_broken() {
        let mut writer = Writer::default();
        writer.note(4, &"word ".repeat(30));
        let text = writer.finish();
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.len() <= 100), "{text}");
        assert!(text.starts_with("    # note: word word"));
    }

    #[test]
    fn texts_mean_themselves() {
        assert_eq!(quoted("a \"b\" ${c}"), r#""a \"b\" $${c}""#);
    }
}
