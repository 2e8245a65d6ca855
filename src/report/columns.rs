//! A table that fits the terminal: drops the least important columns first, then truncates the first one.

use super::text::{fit, length};

/// A column with its cells.
pub(crate) struct Column {
    pub(crate) name: String,
    /// The highest is dropped first; 0 never is.
    pub(crate) rank: u8,
    /// Whether its cells are numbers, which are right-aligned.
    pub(crate) is_number: bool,
    pub(crate) cells: Vec<String>,
}

impl Column {
    pub(crate) fn text(name: &str, cells: Vec<String>) -> Self {
        Self { name: name.to_owned(), rank: 0, is_number: false, cells }
    }

    /// The same for a text column that narrow terminals drop.
    pub(crate) fn optional(name: &str, rank: u8, cells: Vec<String>) -> Self {
        Self { rank, ..Self::text(name, cells) }
    }

    pub(crate) fn number(name: &str, rank: u8, cells: Vec<String>) -> Self {
        Self { name: name.to_owned(), rank, is_number: true, cells }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| length(cell)).chain([length(&self.name)]).max().unwrap_or(0)
    }
}

/// The minimum width of the first column.
const NARROWEST: usize = 8;

/// The lines of a table, the first with the names unless all are empty.
pub(crate) fn render(mut columns: Vec<Column>, width: usize) -> Vec<String> {
    columns.retain(|column| column.cells.iter().any(|cell| !cell.is_empty()));
    let all = |columns: &[Column]| columns.iter().map(|column| column.width() + 2).sum::<usize>();
    while all(&columns) > width + 2 {
        let least = columns.iter().enumerate().filter(|(_, column)| column.rank > 0);
        let Some((place, _)) = least.max_by_key(|(_, column)| column.rank) else { break };
        columns.remove(place);
    }
    let over = all(&columns).saturating_sub(width + 2);
    if let Some(first) = columns.first_mut().filter(|_| over > 0) {
        let width = first.width().saturating_sub(over).max(NARROWEST);
        first.cells.iter_mut().for_each(|cell| *cell = fit(cell, width));
        first.name = fit(&first.name, width);
    }
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let line = |cell: &dyn Fn(&Column) -> String| {
        let mut line = String::new();
        for column in &columns {
            let cell = cell(column);
            let space = " ".repeat(column.width() - length(&cell));
            if !line.is_empty() {
                line.push_str("  ");
            }
            let (first, second) = if column.is_number { (&space, &cell) } else { (&cell, &space) };
            line.push_str(first);
            line.push_str(second);
        }
        line.trim_end().to_owned()
    };
    let head =
        columns.iter().any(|column| !column.name.is_empty()).then(|| line(&|column| column.name.clone()));
    head.into_iter().chain((0..rows).map(|row| line(&|column| column.cells[row].clone()))).collect()
}
