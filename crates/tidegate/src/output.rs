//! Standard output: text, aligned columns and JSON, as a terminal shows them.

use std::io::{ErrorKind, Write};

use serde_json::Value;

use crate::failure::Failure;
use crate::terminal::{for_terminal, json_for_terminal, lines_for_terminal};

/// Prints a text for people; a closed standard output ends the command without an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(lines_for_terminal(text).as_bytes())
}

/// As [`print`], for files and other programs: nothing is escaped.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Unread),
        Err(error) => Err(Failure::Failed(format!("cannot write to standard output: {error}"))),
    }
}

/// Prints JSON, indented.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print_bytes(json_for_terminal(&format!("{value:#}\n")).as_bytes())
}

/// Adds one line, as a terminal shows it.
pub(crate) fn add_line(page: &mut String, line: &str) {
    page.push_str(&for_terminal(line));
    page.push('\n');
}

/// Formats rows as lines with aligned columns; the last cell of a row is not padded.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]], indent: usize) -> String {
    let rows: Vec<_> =
        rows.iter().map(|row| row.each_ref().map(|cell| for_terminal(cell))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut out = String::new();
    for row in &rows {
        let mut line = " ".repeat(indent);
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            let missing = width.saturating_sub(cell.chars().count());
            line.extend(std::iter::repeat_n(' ', missing + 2));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::columns;

    #[test]
    fn cells_line_up() {
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let table = columns(&[row("NAME", "ADDRESS"), row("é", ""), row("longer", "x")], 2);
        assert_eq!(table, "  NAME    ADDRESS\n  é\n  longer  x\n");
        let table = columns(&[row("a\u{1b}\nb", "x")], 0);
        assert_eq!(table, "a\\u{1b}\\u{a}b  x\n");
    }
}
