//! Every internal link and anchor of the docs resolves.

use std::collections::BTreeSet;
use std::path::Path;

use super::{pages, root};

#[test]
fn internal_links_and_anchors_resolve() {
    let mut broken = Vec::new();
    let mut seen = 0;
    for page in pages() {
        let text = without_code(&std::fs::read_to_string(&page).unwrap());
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            seen += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { page.clone() } else { page.parent().unwrap().join(file) };
            let is_there = target.exists() && (anchor.is_empty() || anchors(&target).contains(anchor));
            if !is_there {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(seen > 100, "the test no longer sees the links: {seen}");
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// A page without its code blocks.
fn without_code(text: &str) -> String {
    text.split("\n```").step_by(2).collect()
}

/// The anchors of a page as GitHub names them: its headings, and `<a id="…">`.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = without_code(&std::fs::read_to_string(page).unwrap());
    let ids = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned);
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    });
    ids.chain(headings).collect()
}
