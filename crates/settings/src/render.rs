//! Shows a report the way compilers do: message, place, the line with a caret under what is meant.
//!
//! Promises: one screen line per source line whatever it holds (no tabs, no control characters, cut
//! when long), and masked places stay masked.

use std::collections::BTreeSet;
use std::fmt;

use crate::node::Span;
use crate::report::{Diagnostic, Report};

/// The length of a line that an excerpt shows.
const EXCERPT_CHARS: usize = 100;
/// The minimum length of it before the caret.
const BEFORE_CARET_CHARS: usize = 40;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.errors();
        for (n, error) in errors.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            self.show(error, f)?;
        }
        if self.left_out() > 0 {
            writeln!(f, "\nand {} more", self.left_out())?;
        }
        self.show_total(&errors, f)
    }
}

impl Report {
    /// All errors as text, every one with its place and an excerpt.
    pub fn render(&self) -> String {
        self.to_string()
    }

    /// One line per error, `file:line:column: message`, for logs.
    pub fn one_line_each(&self) -> Vec<String> {
        let line = |m: &&Diagnostic| match self.place(m.span) {
            Some(place) => format!("{place}: {}", m.message),
            None => m.message.clone(),
        };
        self.errors().iter().map(line).collect()
    }

    /// `3 errors in tidegate.yaml`: the end of a long report is what a terminal shows.
    fn show_total(&self, errors: &[&Diagnostic], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files: BTreeSet<&str> = errors.iter().filter_map(|m| self.file(m.span)).collect();
        let errors = match errors.len() + self.left_out() {
            1 => "1 error".to_owned(),
            many => format!("{many} errors"),
        };
        match (files.len(), files.first()) {
            (_, None) => Ok(()),
            (1, Some(file)) => writeln!(f, "\n{errors} in {file}"),
            (many, _) => writeln!(f, "\n{errors} in {many} files"),
        }
    }

    fn place(&self, span: Span) -> Option<String> {
        let document = self.documents.get(span.source.0 as usize)?;
        Some(format!("{}:{}:{}", document.name, span.line, span.column))
    }

    fn show(&self, error: &Diagnostic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "error: {}", error.message)?;
        let gutter = error.span.line.to_string().len();
        if let Some(place) = self.place(error.span) {
            writeln!(f, "{:gutter$}--> {place}", "")?;
            self.show_excerpt(error.span, gutter, f)?;
        }
        if let Some(help) = &error.help {
            writeln!(f, "{:gutter$} = help: {help}", "")?;
        }
        Ok(())
    }

    fn show_excerpt(&self, span: Span, gutter: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(line) = self.line(span) else { return Ok(()) };
        let column = (span.column.max(1) - 1) as usize;
        let end = match span.end_line == span.line {
            true => (span.end_column.max(1) - 1) as usize,
            false => line.iter().rposition(|c| *c != ' ').map_or(0, |at| at + 1),
        };
        let width = end.saturating_sub(column).clamp(1, EXCERPT_CHARS);
        let start = match column + width > EXCERPT_CHARS {
            true => column.saturating_sub(BEFORE_CARET_CHARS),
            false => 0,
        };
        let shown: String = line.iter().skip(start).take(EXCERPT_CHARS).collect();
        let cut = if start > 0 { "…" } else { "" };
        let room = EXCERPT_CHARS.saturating_sub(column - start).max(1);
        let carets = "^".repeat(width.min(room));
        let indent = " ".repeat(column - start + cut.chars().count());
        writeln!(f, "{:gutter$} |", "")?;
        writeln!(f, "{} | {cut}{}", span.line, shown.trim_end())?;
        writeln!(f, "{:gutter$} | {indent}{carets}", "")
    }

    /// The line a span starts on, made printable and masked.
    fn line(&self, span: Span) -> Option<Vec<char>> {
        let document = self.documents.get(span.source.0 as usize)?;
        let text = document.text.lines().nth(span.line.checked_sub(1)? as usize)?;
        let mut chars: Vec<char> = text
            .chars()
            .map(|c| match c {
                '\t' => ' ',
                c if c.is_control() => '\u{fffd}',
                c => c,
            })
            .collect();
        for mask in self.masked.iter().filter(|mask| mask.source == span.source) {
            if (mask.line..=mask.end_line).contains(&span.line) {
                let from =
                    if mask.line == span.line { mask.column.saturating_sub(1) } else { 0 } as usize;
                let to = match mask.end_line == span.line {
                    true => mask.end_column.saturating_sub(1) as usize,
                    false => chars.len(),
                };
                let to = to.min(chars.len());
                chars[from.min(to)..to].fill('*');
            }
        }
        Some(chars)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Report, SourceId, Span};

    fn span(source: SourceId, line: u32, column: u32, end_column: u32) -> Span {
        Span { source, line, column, end_line: line, end_column }
    }

    #[test]
    fn shows_all_in_order_with_carets() {
        let mut report = Report::new();
        let file = report.add_document("a.yaml", "one: 1\n  tiemout: 5s\n", None);
        report.unknown(span(file, 2, 3, 10), "key", "tiemout", ["timeout", "bind"]);
        report.error(span(file, 1, 6, 7), "expected a word").help("write one");
        let expected = "\
error: expected a word
 --> a.yaml:1:6
  |
1 | one: 1
  |      ^
  = help: write one

error: unknown key \"tiemout\", did you mean \"timeout\"?
 --> a.yaml:2:3
  |
2 |   tiemout: 5s
  |   ^^^^^^^

2 errors in a.yaml
";
        assert_eq!(report.render(), expected);
        assert_eq!(report.one_line_each()[0], "a.yaml:1:6: expected a word");
    }

    #[test]
    fn masked_places_and_control_characters_stay_hidden() {
        let mut report = Report::new();
        let file = report.add_document("a.yaml", "token: hunter2 \u{1b}[31m\n", None);
        report.mask(span(file, 1, 8, 15));
        report.error(span(file, 1, 1, 6), "bad");
        let text = report.render();
        assert!(text.contains("token: *******"), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("hunter2"), "{text}");
    }

    #[test]
    fn long_lines_are_cut_around_the_caret() {
        let mut report = Report::new();
        let file = report.add_document("a.yaml", "x".repeat(5000), None);
        report.error(span(file, 1, 2000, 2003), "here");
        let text = report.render();
        assert!(text.lines().all(|line| line.chars().count() < 120), "{text}");
        assert!(text.contains("^^^"));
    }

    #[test]
    fn the_number_of_errors_is_bounded() {
        let mut report = Report::new();
        let file = report.add_document("a.yaml", "x\n", None);
        for n in 0..1000 {
            report.error(span(file, 1, n + 1, n + 2), "bad");
        }
        assert_eq!(report.len(), 1000);
        assert_eq!(report.errors().len(), crate::report::ERRORS_KEPT);
    }
}
