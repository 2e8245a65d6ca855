//! Files that are not pages: downloads, badges, statements, styles.

use askama::Template as _;

use super::board::Board;
use super::views::Badge;
use crate::model::SkillName;
use crate::report::PALETTE;

/// The studio's style, used by the same pages there.
const STUDIO_STYLE: &str = include_str!("../studio/style.css");
const ICON: &str = include_str!("../studio/icon.svg");

/// A file of the site.
#[derive(Debug)]
pub struct StaticFile {
    /// Its path in the site.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl StaticFile {
    fn new(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: bytes.into() }
    }

    /// Its content type.
    pub fn content_type(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("json") => "application/json",
            Some("csv") => "text/csv; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("css") => "text/css; charset=utf-8",
            _ => "application/octet-stream",
        }
    }
}

impl Board {
    /// The style of the static site.
    pub(super) fn assets() -> Vec<StaticFile> {
        let style = format!("{PALETTE}{STUDIO_STYLE}{}", super::STYLE);
        vec![StaticFile::new("style.css", style), StaticFile::new("icon.svg", ICON)]
    }

    /// Downloads, badges and statements.
    pub(super) fn files(&self) -> Vec<StaticFile> {
        let mut files = vec![
            StaticFile::new("leaderboard.json", self.file.to_bytes()),
            StaticFile::new("leaderboard.csv", self.file.to_csv()),
        ];
        for (place, skill) in self.skills.iter().enumerate() {
            if let Ok(name) = skill.name.parse::<SkillName>() {
                let part = self.file.of_skill(&name);
                files.push(StaticFile::new(format!("{}/leaderboard.json", skill.path), part.to_bytes()));
                files.push(StaticFile::new(format!("{}/leaderboard.csv", skill.path), part.to_csv()));
            }
            let mut shares = Vec::new();
            for (model, part) in self.models.iter().enumerate() {
                let Some(row) = self.latest(place, model) else { continue };
                let share = row.accuracy();
                shares.extend(share);
                let value = share.map_or_else(|| "no fields".to_owned(), |share| share.to_string());
                let label = format!("{}: {}", skill.name, part.name);
                let badge = Badge::new(&label, value, share.map(crate::model::Ratio::as_f64));
                files.push(self.badge(&format!("{}/{}", skill.path, part.path), &badge));
            }
            let best = shares.iter().max();
            let value = match best {
                None => "not evaluated".to_owned(),
                Some(best) => format!("best of {}: {best}", shares.len()),
            };
            let badge = Badge::new(&skill.name, value, best.map(|best| best.as_f64()));
            files.push(self.badge(&skill.path, &badge));
        }
        for (model, standing) in self.models.iter().zip(&self.standings) {
            let value = match standing.mean {
                None => "not evaluated".to_owned(),
                Some((mean, _)) => {
                    format!("{:.1} % of {} of {} skills", mean * 100.0, standing.skills, self.skills.len())
                }
            };
            let badge = Badge::new(&model.name, value, standing.mean.map(|(mean, _)| mean));
            files.push(self.badge(&model.path, &badge));
        }
        for (digest, statement) in &self.statements {
            let path = format!("attestations/{digest}.intoto.json");
            files.push(StaticFile::new(path, statement.bytes.clone()));
        }
        files
    }

    #[expect(clippy::unused_self, reason = "badges belong to a board")]
    fn badge(&self, path: &str, badge: &Badge) -> StaticFile {
        StaticFile::new(format!("badges/{path}.svg"), badge.render().unwrap_or_default())
    }

    /// The file at a path of the site.
    pub fn file(&self, path: &str) -> Option<StaticFile> {
        self.files().into_iter().find(|file| file.path == path)
    }
}
