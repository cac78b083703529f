//! Text as a terminal shows it.
//!
//! What clients, servers and programs have sent is among it. Promises that a terminal interprets no
//! character of it but line feeds and tabs between its parts, and that none changes the order in
//! which others are shown.

use std::fmt::Write;

/// True for characters that a terminal interprets, or that change how others are shown: controls,
/// and marks of the direction of writing, of lines and of invisible joints.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// Returns text as one line that a terminal shows as it is: unsafe characters are escaped.
pub(crate) fn for_terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match is_unsafe(character) {
            true => shown.extend(character.escape_unicode()),
            false => shown.push(character),
        }
    }
    shown
}

/// The same for text of several lines, whose tabs stay.
pub(crate) fn lines_for_terminal(text: &str) -> String {
    text.split_inclusive(['\n', '\t'])
        .map(|piece| {
            let (text, end) = piece.split_at(piece.trim_end_matches(['\n', '\t']).len());
            for_terminal(text) + end
        })
        .collect()
}

/// Returns JSON whose strings hold no unsafe character unescaped: any may be escaped (RFC 8259,
/// section 7), so it is the same JSON. Line feeds are between its parts only.
pub(crate) fn json_for_terminal(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        // All of them have four hexadecimal digits, and occur in strings only.
        let _ = match is_unsafe(character) && character != '\n' {
            true => write!(shown, "\\u{:04x}", u32::from(character)),
            false => shown.write_char(character),
        };
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn no_character_reaches_the_terminal_unescaped() {
        let hostile = "\u{1b}]0;x\u{7}\u{9b}31m\r\u{202e}\u{200b}\u{7f}é";
        let escaped = "\\u{1b}]0;x\\u{7}\\u{9b}31m\\u{d}\\u{202e}\\u{200b}\\u{7f}é";
        assert_eq!(for_terminal(hostile), escaped);
        assert_eq!(for_terminal("a\nb"), "a\\u{a}b");
        assert_eq!(lines_for_terminal("a\n\t\u{1b}b\n"), "a\n\t\\u{1b}b\n");
        let value = json!({ hostile: ["a\nb", hostile] });
        for json in [value.to_string(), format!("{value:#}\n")] {
            let shown = json_for_terminal(&json);
            assert!(!shown.chars().any(|c| is_unsafe(c) && c != '\n'), "{shown:?}");
            let same: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(same, value);
        }
    }
}
