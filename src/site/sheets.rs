//! Splits long tables into pages of bounded size.

use std::ops::Range;

/// The largest content of a page; with the frame it stays below 200 KB.
pub(super) const LARGEST: usize = 190_000;

/// One page of a table: these columns and rows.
#[derive(Debug, Clone)]
pub(super) struct Sheet {
    /// From 0.
    pub(super) number: usize,
    pub(super) columns: Range<usize>,
    pub(super) rows: Range<usize>,
}

impl Sheet {
    /// The file name of a page.
    pub(super) fn file(number: usize) -> String {
        if number == 0 { "index.html".to_owned() } else { format!("page-{}.html", number + 1) }
    }
}

/// The size of a table, and how it is split.
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) columns_per_page: usize,
    pub(super) rows: usize,
    pub(super) rows_per_page: usize,
}

/// Renders a table in as few pages as fit: if one is too large, all pages get half as many rows.
pub(super) fn render(size: &Size, page: impl Fn(&Sheet, &[Sheet]) -> String) -> Vec<String> {
    let mut rows_per_page = size.rows_per_page.max(1);
    loop {
        let sheets = split(size, rows_per_page);
        let pages: Vec<String> = sheets.iter().map(|sheet| page(sheet, &sheets)).collect();
        if rows_per_page == 1 || pages.iter().all(|page| page.len() <= LARGEST) {
            return pages;
        }
        rows_per_page /= 2;
    }
}

fn split(size: &Size, rows_per_page: usize) -> Vec<Sheet> {
    let parts = |all: usize, each: usize| {
        let starts = (0..all.max(1)).step_by(each.max(1));
        starts.map(move |start| start..(start + each).min(all)).collect::<Vec<_>>()
    };
    let mut sheets = Vec::new();
    for columns in parts(size.columns, size.columns_per_page) {
        for rows in parts(size.rows, rows_per_page) {
            sheets.push(Sheet { number: sheets.len(), columns: columns.clone(), rows });
        }
    }
    sheets
}
