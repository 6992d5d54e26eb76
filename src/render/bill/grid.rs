//! A table whose columns are as wide as what stands in them; those in which nothing stands are left
//! out.

use std::io;
use std::io::Write;

/// On which side of a column its cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// A column.
#[derive(Debug)]
struct Column {
    heading: &'static str,
    side: Side,
    width: usize,
    cells: Vec<Option<String>>,
}

/// A table, made column by column.
#[derive(Debug, Default)]
pub(super) struct Grid {
    columns: Vec<Column>,
}

/// What stands in a cell without anything, so that columns can be counted.
const NOTHING: &str = "-";

impl Grid {
    /// Adds a column; one without any cell is left out.
    pub(super) fn push(
        &mut self,
        heading: &'static str,
        side: Side,
        cells: impl Iterator<Item = Option<String>>,
    ) {
        let cells: Vec<_> = cells.map(|it| it.filter(|it| !it.is_empty())).collect();
        if cells.iter().any(Option::is_some) {
            let longest = cells.iter().flatten().map(|it| it.chars().count()).max();
            let width = longest.unwrap_or(0).max(heading.len());
            self.columns.push(Column { heading, side, width, cells });
        }
    }

    /// Writes the headings, and a line under them.
    pub(super) fn headings(&self, separator: Option<&str>, out: &mut dyn Write) -> io::Result<()> {
        let headings = self.columns.iter().map(|it| it.heading);
        writeln!(out, "# {}", self.line(headings, separator))?;
        if separator.is_none() {
            let lines: Vec<String> = self.columns.iter().map(|it| ".".repeat(it.width)).collect();
            writeln!(out, "# {}\n#", lines.join("  "))?;
        }
        Ok(())
    }

    /// Writes the row `idx`.
    pub(super) fn row(
        &self,
        idx: usize,
        separator: Option<&str>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let cell = |it: &Column| it.cells.get(idx).cloned().flatten();
        let cells: Vec<Option<String>> = self.columns.iter().map(cell).collect();
        let cells = cells.iter().map(|it| it.as_deref().unwrap_or(NOTHING));
        let indent = if separator.is_none() { "  " } else { "" };
        writeln!(out, "{indent}{}", self.line(cells, separator))
    }

    fn line<'c>(&self, cells: impl Iterator<Item = &'c str>, separator: Option<&str>) -> String {
        let padded = |(column, cell): (&Column, &str)| match (separator, column.side) {
            // A separator in a name would make two cells of it.
            (Some(separator), _) => cell.replace(separator, "."),
            (None, Side::Left) => format!("{cell:<0$}", column.width),
            (None, Side::Right) => format!("{cell:>0$}", column.width),
        };
        let cells: Vec<String> = self.columns.iter().zip(cells).map(padded).collect();
        let line = cells.join(separator.unwrap_or("  "));
        if separator.is_some() { line } else { line.trim_end().to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(separator: Option<&str>, want: &str) {
        let mut grid = Grid::default();
        let cells = |list: [&str; 2]| list.map(|it| Some(it.to_owned())).into_iter();
        grid.push("Runs", Side::Right, cells(["12345", ""]));
        grid.push("Nothing", Side::Left, cells(["", ""]));
        grid.push("Name", Side::Left, cells(["é,x", "longer"]));
        let mut out = Vec::new();
        grid.headings(separator, &mut out).unwrap();
        (0..2).for_each(|idx| grid.row(idx, separator, &mut out).unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn columns_are_as_wide_as_their_cells_and_empty_ones_are_left_out() {
        let want = "#  Runs  Name\n# .....  ......\n#\n  12345  é,x\n      -  longer\n";
        check(None, want);
    }

    #[test]
    fn a_separator_stands_for_itself_alone() {
        check(Some(","), "# Runs,Name\n12345,é.x\n-,longer\n");
    }
}
