//! Standard output: text and aligned columns.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Prints a text; a closed standard output ends the command without an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// As [`print`], for a file.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Failure::Unread),
        Err(error) => Err(Failure::Failed(format!("cannot write to standard output: {error}"))),
    }
}

/// Formats rows as lines with aligned columns; the last cell of a row is not padded.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]], indent: usize) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    let mut out = String::new();
    for row in rows {
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
    }
}
