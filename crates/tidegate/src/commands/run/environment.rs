//! Files of environment variables (`--env-file`), as uvicorn and Docker read them.
//!
//! A line is `NAME=VALUE`, with or without `export` before it; empty lines and those that begin
//! with `#` are ignored. A value in single quotes is literal, one in double quotes supports
//! `\n \t \" \\`, one without quotes ends at ` #`. Variables are not expanded.

use std::path::Path;

use crate::failure::Failure;

/// The largest file.
const BYTES_MAX: u64 = 1 << 20;

/// Returns the variables of a file, in its order.
pub(super) fn read(file: &Path) -> Result<Vec<(String, String)>, Failure> {
    let shown = file.display();
    let wrong = |why: String| Failure::Wrong(format!("the environment file {shown} {why}"));
    let size = std::fs::metadata(file).map_err(|error| wrong(format!("is not there: {error}")))?;
    if size.len() > BYTES_MAX {
        return Err(wrong(format!("has more than {BYTES_MAX} bytes")));
    }
    let text =
        std::fs::read_to_string(file).map_err(|error| wrong(format!("cannot be read: {error}")))?;
    parse(&text).map_err(|(line, why)| wrong(format!("is wrong in line {line}: {why}")))
}

/// Parses `NAME=VALUE` of the command line.
pub(super) fn assignment(typed: &str) -> Result<(String, String), String> {
    match typed.split_once('=') {
        Some((name, value)) if is_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("\"{typed}\" is not NAME=VALUE, such as DJANGO_SETTINGS_MODULE=shop.web")),
    }
}

/// True if a shell could set this variable.
fn is_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars().all(plain) && name.starts_with(|c: char| !c.is_numeric())
}

/// Returns the variables, or the number of the wrong line and the reason.
fn parse(text: &str) -> Result<Vec<(String, String)>, (usize, &'static str)> {
    let mut variables = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let assignment = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = assignment.split_once('=').ok_or((number, "it has no \"=\""))?;
        let name = name.trim();
        if !is_name(name) {
            return Err((number, "what is before \"=\" is not a valid name of a variable"));
        }
        let value = value_of(value.trim()).map_err(|why| (number, why))?;
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

fn value_of(written: &str) -> Result<String, &'static str> {
    let value = match written.chars().next() {
        Some('\'') => {
            let (value, rest) = written[1..].split_once('\'').ok_or("its quote does not end")?;
            nothing_after(rest)?;
            value.to_owned()
        }
        Some('"') => {
            let (value, rest) = double_quoted(&written[1..])?;
            nothing_after(rest)?;
            value
        }
        _ => written.split_once(" #").map_or(written, |(value, _)| value.trim_end()).to_owned(),
    };
    if value.contains('\0') {
        return Err("a value cannot hold a zero byte");
    }
    Ok(value)
}

fn nothing_after(rest: &str) -> Result<(), &'static str> {
    let rest = rest.trim_start();
    match rest.is_empty() || rest.starts_with('#') {
        true => Ok(()),
        false => Err("something stands after its quotes"),
    }
}

/// Splits at the closing quote.
fn double_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match letters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, escaped @ ('"' | '\\'))) => value.push(escaped),
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            other => value.push(other),
        }
    }
    Err("its quote does not end")
}

#[cfg(test)]
mod tests {
    use super::{assignment, parse};

    #[test]
    fn assignments_of_the_command_line() {
        assert_eq!(assignment("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert_eq!(assignment("A="), Ok(("A".to_owned(), String::new())));
        for wrong in ["A", "=1", "1A=1", "a b=1"] {
            assert!(assignment(wrong).unwrap_err().contains("is not NAME=VALUE"), "{wrong}");
        }
    }

    #[test]
    fn what_is_read_is_what_is_set() {
        let text = "# settings\n\nA=1\nexport B = two words # and why\nC='as $it \\n stands'\n\
                    D=\"a\\n\\\"b\\\" # c\" # d\nE=\nF=a#b\nG=x=y\r\n";
        let read = parse(text).unwrap();
        let pairs: Vec<_> = read.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        let wanted = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "as $it \\n stands"),
            ("D", "a\n\"b\" # c"),
            ("E", ""),
            ("F", "a#b"),
            ("G", "x=y"),
        ];
        assert_eq!(pairs, wanted);
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        for (text, line, why) in [
            ("A=1\nB", 2, "no \"=\""),
            ("1A=1", 1, "not a valid name"),
            ("\n\na-b=1", 3, "not a valid name"),
            ("=1", 1, "not a valid name"),
            ("A='x", 1, "does not end"),
            ("A=\"x\\", 1, "does not end"),
            ("A='x' y", 1, "after its quotes"),
            ("A=\0", 1, "zero byte"),
        ] {
            let (found, said) = parse(text).unwrap_err();
            assert!(found == line && said.contains(why), "{text:?}: {found} {said}");
        }
    }
}
