//! Finds the bracket or quote that is not closed, in a text that is not YAML.
//!
//! The library reports where it noticed, which may be many lines below. This reads the text again,
//! only after an error, and knows just enough of YAML for it: where a quote or bracket begins a
//! value, comments and block scalars.

use settings::{SourceId, Span};

/// A bracket or quote that begins something.
struct Opener {
    mark: char,
    line: usize,
    column: usize,
    /// The minimum indentation of its content; `None` for the outermost value.
    indent: Option<usize>,
}

/// The place of the opener, a message and advice.
pub(super) fn find(text: &str, source: SourceId) -> Option<(Span, String, String)> {
    let mut scan = Scan::default();
    let mut lines = 0;
    let unclosed = text.lines().enumerate().find_map(|(number, line)| {
        lines = number + 1;
        scan.line(number + 1, line)
    });
    let (opener, end) = match unclosed {
        Some((opener, end)) => (opener, format!("before line {}, column {}", end.0, end.1)),
        None => {
            let last = scan.quote.take().or_else(|| scan.open.pop())?;
            (last, "before the end of the file".to_owned())
        }
    };
    let (line, column) = (u32::try_from(opener.line).ok()?, u32::try_from(opener.column).ok()?);
    let span = Span { source, line, column, end_line: line, end_column: column + 1 };
    let help = format!("close it with {} {end}", closer(opener.mark));
    Some((span, format!("this {} is not closed", opener.mark), help))
}

fn closer(mark: char) -> char {
    match mark {
        '[' => ']',
        '{' => '}',
        quote => quote,
    }
}

/// The brackets and quotes that are open at the end of a line.
#[derive(Default)]
struct Scan {
    open: Vec<Opener>,
    quote: Option<Opener>,
    /// The column of what holds a block scalar (`|`, `>`): deeper lines are its text.
    block: Option<usize>,
}

/// Line and column at which it is clear that something was not closed.
type Noticed = (usize, usize);

impl Scan {
    fn line(&mut self, number: usize, line: &str) -> Option<(Opener, Noticed)> {
        let chars: Vec<char> = line.chars().collect();
        let indent = chars.iter().position(|c| *c != ' ')?;
        if self.quote.is_none() {
            if self.block.is_some_and(|holder| indent > holder) {
                return None;
            }
            self.block = None;
            let outermost = self.open.first().and_then(|opener| opener.indent);
            let closes = matches!(chars[indent], ']' | '}' | '#');
            if outermost.is_some_and(|outer| indent <= outer) && !closes {
                return Some((self.open.pop()?, (number, indent + 1)));
            }
        }
        self.walk(number, indent, &chars)
    }

    fn walk(&mut self, number: usize, indent: usize, chars: &[char]) -> Option<(Opener, Noticed)> {
        let blank = |at: usize| chars.get(at).is_none_or(|c| c.is_whitespace());
        let opener = |at: usize| {
            // On a line of its own it belongs to a key above, which is indented less.
            let indent = indent.checked_sub(usize::from(at == indent));
            Opener { mark: chars[at], line: number, column: at + 1, indent }
        };
        // The parent of the value on this line: its key, or the dash before it.
        let (mut at, mut holder, mut begins) = (indent, indent, true);
        while at < chars.len() {
            if let Some(quote) = &self.quote {
                let end = end_of_quote(quote.mark, chars, at)?;
                let after = chars.get(end + 1);
                let ends = after.is_none_or(|c| c.is_whitespace() || ",]}:".contains(*c));
                if quote.line != number && !ends {
                    return Some((self.quote.take()?, (number, end + 1)));
                }
                (self.quote, at, begins) = (None, end + 1, false);
                continue;
            }
            let flow = !self.open.is_empty();
            match chars[at] {
                c if c.is_whitespace() => {}
                '#' if at == 0 || chars[at - 1].is_whitespace() => return None,
                '"' | '\'' if begins => self.quote = Some(opener(at)),
                '[' | '{' if begins => self.open.push(opener(at)),
                c @ (']' | '}') if flow => {
                    let last = self.open.pop()?;
                    if closer(last.mark) != c {
                        return Some((last, (number, at + 1)));
                    }
                    begins = false;
                }
                ',' if flow => begins = true,
                // A quoted key needs no space after its colon: `{"a":1}`.
                ':' if blank(at + 1) || (flow && at > 0 && "\"'".contains(chars[at - 1])) => {
                    begins = true;
                }
                '-' | '?' if begins && !flow && blank(at + 1) => holder = at + 1,
                '|' | '>' if begins && !flow => {
                    self.block = Some(holder);
                    return None;
                }
                '&' | '!' if begins => {
                    while !blank(at + 1) {
                        at += 1;
                    }
                }
                _ => begins = false,
            }
            at += 1;
        }
        None
    }
}

/// Returns the end of a quoted text on this line; `from` is inside it.
fn end_of_quote(mark: char, chars: &[char], mut from: usize) -> Option<usize> {
    while from < chars.len() {
        match chars[from] {
            '\\' if mark == '"' => from += 1,
            c if c == mark && mark == '\'' && chars.get(from + 1) == Some(&mark) => from += 1,
            c if c == mark => return Some(from),
            _ => {}
        }
        from += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use settings::SourceId;

    use super::find;

    #[test]
    fn the_opener_is_found() {
        for (text, opener, place, end) in [
            ("a: { b: 1\nc: 2\n", '{', (1, 4), "line 2, column 1"),
            ("a: { b: { c: 1 }\nd: 2\n", '{', (1, 4), "line 2, column 1"),
            ("a: { b: { c: 1\nd: 2\n", '{', (1, 9), "line 2, column 1"),
            ("a: [1, 2\n", '[', (1, 4), "the end of the file"),
            ("a: { b: [GET }\n", '[', (1, 9), "line 1, column 14"),
            ("- a: x\n  b: [\n    { c: 1 },\n  d: 2\n", '[', (2, 6), "line 4, column 3"),
            ("a: \"b\nc: { d: \"e\" }\n", '"', (1, 4), "line 2, column 9"),
            ("a: 'b\nc: 'd'\n", '\'', (1, 4), "line 2, column 4"),
            ("a: { b: \"c }\n", '"', (1, 9), "the end of the file"),
        ] {
            let (span, message, help) = find(text, SourceId(0)).expect(text);
            assert_eq!((span.line, span.column), place, "{text}");
            assert_eq!(message, format!("this {opener} is not closed"), "{text}");
            assert!(help.ends_with(end), "{text}: {help}");
        }
    }

    #[test]
    fn what_is_closed_is_not_blamed() {
        for text in [
            "a: { b: [1, \"}\", '{'], c: { d: e } }\nf: [\n  1,\n]\n",
            "a: it's [fine]\nb: /x/{id}\nc: a\"b\nd: x # {\n",
            "a: |\n  { [ \" '\nb: >-\n  it's {\n\n  [\nc: 1\n",
            "- a: |\n    {\n  b: \"x\\\"y\"\n- 'it''s'\n",
            "a: \"two\n  lines\"\nb: &x { c: 1 }\n",
            "{\"a\":{\"b\":[1,2]},\n\"c\":\"d\"\n}\n",
        ] {
            assert!(find(text, SourceId(0)).is_none(), "{text}");
        }
    }
}
