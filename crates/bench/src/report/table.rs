//! One table, for the terminal and for Markdown: text is left-aligned, figures are right-aligned.

/// Cells by row; every row has as many as there are titles.
pub(crate) struct Table {
    titles: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(titles: &[&str]) -> Self {
        Self { titles: titles.iter().map(|&title| title.to_owned()).collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<_> = cells.into_iter().collect();
        cells.resize(self.titles.len(), String::new());
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn titles(&self) -> &[String] {
        &self.titles
    }

    pub(crate) fn rows(&self) -> &[Vec<String>] {
        &self.rows
    }

    /// With spaces, two between columns.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        for row in std::iter::once(&self.titles).chain(&self.rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let gap = " ".repeat(self.width(column) - cell.chars().count());
                let (before, after) =
                    if self.is_figure(column) { (gap, "".into()) } else { ("".into(), gap) };
                line.push_str(&before);
                line.push_str(cell);
                line.push_str(&after);
                line.push_str("  ");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells: Vec<_> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = |column| if self.is_figure(column) { "---:" } else { "---" };
        let rules: Vec<_> = (0..self.titles.len()).map(|column| rule(column).to_owned()).collect();
        let head = [line(&self.titles), format!("|{}|\n", rules.join("|"))].concat();
        self.rows.iter().map(line).fold(head, |page, row| page + &row)
    }

    fn width(&self, column: usize) -> usize {
        let rows = std::iter::once(&self.titles).chain(&self.rows);
        rows.map(|row| row[column].chars().count()).max().unwrap_or(0)
    }

    /// Returns true if all cells begin with a digit, or show that there is none.
    pub(crate) fn is_figure(&self, column: usize) -> bool {
        let digit = |cell: &str| cell == "–" || cell.starts_with(|c: char| c.is_ascii_digit());
        let mut cells = self.rows.iter().map(|row| row[column].as_str());
        !self.rows.is_empty() && cells.all(digit)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn texts_stand_left_and_figures_right() {
        let mut table = Table::new(&["server", "µs", "note"]);
        table.row(["floor", "5.60", ""].map(str::to_owned));
        table.row(["nginx", "116", "a|b"].map(str::to_owned));
        assert_eq!(table.text(), "server    µs  note\nfloor   5.60\nnginx    116  a|b\n");
        assert_eq!(
            table.markdown(),
            "| server | µs | note |\n|---|---:|---|\n| floor | 5.60 |  |\n| nginx | 116 | a\\|b |\n"
        );
    }
}
