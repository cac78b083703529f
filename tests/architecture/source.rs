//! Splits Rust text into code, tests and functions, just well enough to count.
//!
//! Not a parser: where macros confuse it, it reports less rather than more.

use std::ops::Range;

/// What a comment or a literal begins with, its prefix included.
const BEGINNINGS: [char; 6] = ['/', '"', '\'', 'b', 'c', 'r'];

/// The text with comments turned into spaces and the insides of literals into quotes. Lines and
/// columns (counted in characters) stay what they were.
pub(crate) fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        // Most of a file begins no comment and no literal.
        let (plain, other) = rest.split_at(rest.find(BEGINNINGS).unwrap_or(rest.len()));
        code.push_str(plain);
        rest = other;
        let Some(first) = rest.chars().next() else { return code };
        let (length, fill) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), ' ')
        } else if rest.starts_with("/*") {
            (block_comment(rest), ' ')
        } else if let Some(length) = literal(rest, code.chars().next_back()) {
            (length, '"')
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..length].chars().map(|c| if c == '\n' { c } else { fill }));
        rest = &rest[length..];
    }
}

/// The length of the (nested) block comment that `text` begins with.
fn block_comment(text: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of the string or character literal that `text` begins with.
fn literal(text: &str, before: Option<char>) -> Option<usize> {
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let mut characters = rest.chars();
        let first = characters.next()?;
        let is_character = first == '\\' || characters.next() == Some('\'');
        return is_character.then(|| quoted(text, '\''));
    }
    // r"…", br#"…"#: the prefix has to stand alone, or it is the end of a name.
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let prefix = text.find(|c| c != 'b' && c != 'c' && c != 'r')?;
    let (letters, rest) = text.split_at(prefix);
    if !letters.ends_with('r') || letters.len() > 2 {
        return None;
    }
    let hashes = rest.find(|c| c != '#')?;
    if !rest[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = &rest[hashes + 1..];
    Some(prefix + hashes + 1 + body.find(&end).map_or(body.len(), |at| at + end.len()))
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Where the items under `#[cfg(test)]` stand in `code`, in bytes.
pub(crate) fn tests_in(code: &str) -> Vec<Range<usize>> {
    const MARK: &str = "#[cfg(test)]";
    let starts = code.match_indices(MARK).map(|(at, _)| at);
    starts.map(|at| at..item_end(code, at + MARK.len())).collect()
}

/// The functions with a body in `code`: name and place, in bytes.
pub(crate) fn functions_in(code: &str) -> Vec<(&str, Range<usize>)> {
    let mut functions = Vec::new();
    for (at, _) in words_in(code, "fn") {
        let after = code[at + 2..].trim_start();
        let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("");
        let end = item_end(code, at);
        if !name.is_empty() && code[..end].ends_with('}') {
            functions.push((name, at..end));
        }
    }
    functions
}

/// The places of `word` in `code` where it is a word of its own.
pub(crate) fn words_in<'a>(
    code: &'a str,
    word: &'a str,
) -> impl Iterator<Item = (usize, &'a str)> + 'a {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).filter(move |(at, _)| {
        !code[..*at].ends_with(part) && !code[at + word.len()..].starts_with(part)
    })
}

/// The end of the item at `from`: its closing brace, or its semicolon if that comes first.
fn item_end(code: &str, from: usize) -> usize {
    let (mut braces, mut others) = (0usize, 0usize);
    for (at, character) in code[from..].char_indices() {
        match character {
            '(' | '[' => others += 1,
            ')' | ']' => others = others.saturating_sub(1),
            '{' => braces += 1,
            '}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && others == 0 {
                    return from + at + 1;
                }
            }
            ';' if braces == 0 && others == 0 => return from + at + 1,
            _ => {}
        }
    }
    code.len()
}

/// The lines of `code` that hold anything.
pub(crate) fn code_lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn comments_and_literals_are_not_code() {
    let text = "let a = \"// }\\\"\"; // fn x() {\n\
                /* { /* } */ */ let c = '\\''; let l: &'a str = r#\"\"}\"#;";
    let code = code_of(text);
    assert!(!code.contains(['{', '}']), "{code}");
    assert!(!code.contains("fn"), "{code}");
    assert!(code.contains("let c =") && code.contains("&'a str"), "{code}");
    assert_eq!(code.chars().count(), text.chars().count());
}

#[test]
fn items_end_where_they_end() {
    let code = "trait T { fn a(x: [u8; 4]); }\nfn b<'a>() -> [u8; 2] {\n if x { y }\n}\n\
                #[cfg(test)]\nmod tests {\n fn c() {}\n}\nfn d() {}";
    let names: Vec<_> = functions_in(code).iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["b", "c", "d"]);
    let tests = tests_in(code);
    assert_eq!(&code[tests[0].end..], "\nfn d() {}");
}
