//! The data of the templates.

use std::ops::Range;

use askama::Template;

use super::board::{Board, Cell, EntryRow, ModelPart, SkillPart};
use super::charts::OverTime;
use super::sheets::Sheet;
use super::standings::Standing;
use crate::model::{CaseDetails, CaseFigures, FieldAnswer, FieldDetails, Ratio};
use crate::report::Px;
use crate::scoring::Estimate;
use crate::util::truncate::truncate;

/// The longest untrusted text in a cell.
const LONGEST_VALUE: usize = 160;
const LONGEST_NAME: usize = 120;
/// How many answers to a field are shown per model.
const MOST_ANSWERS: usize = 4;
/// How many skipped cases are named.
const MOST_SKIPPED: usize = 50;

/// A share with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share {
    pub(super) value: Ratio,
    pub(super) interval: Option<[Ratio; 2]>,
}

impl Share {
    pub(super) fn accuracy(row: &EntryRow) -> Option<Self> {
        let of = &row.entry.accuracy;
        of.score.map(|value| Self { value, interval: of.interval })
    }

    pub(super) fn reproducibility(row: &EntryRow) -> Option<Self> {
        let of = &row.entry.reproducibility;
        of.score.map(|value| Self { value, interval: of.interval })
    }

    /// The ends of the interval.
    pub(super) fn ends(self) -> Option<[f64; 2]> {
        self.interval.map(|ends| ends.map(Ratio::as_f64))
    }

    /// The same; the value if there is no interval.
    pub(super) fn low_high(self) -> [f64; 2] {
        self.ends().unwrap_or([self.value.as_f64(); 2])
    }

    /// The value with its interval, as text.
    pub(super) fn told(self) -> String {
        match self.ends() {
            None => self.value.to_string(),
            Some(ends) => format!("{} ({})", self.value, range(ends)),
        }
    }

    pub(super) fn band(self) -> Option<Band> {
        Some(Band::of(self.value.as_f64(), self.ends()?))
    }
}

/// A share and its interval as a small chart, in percent.
pub(super) struct Band {
    pub(super) low: Px,
    pub(super) high: Px,
    pub(super) width: Px,
    pub(super) mark: Px,
}

impl Band {
    fn of(value: f64, [low, high]: [f64; 2]) -> Self {
        let mark = (value - 0.005).clamp(0.0, 0.99);
        let [low, high, width, mark] =
            [low, high, (high - low).max(0.01), mark].map(|share| Px(share * 100.0));
        Self { low, high, width, mark }
    }
}

/// A plain value behind any number of references: templates pass both.
trait Plain<T> {
    fn plain(&self) -> T;
}

macro_rules! plain {
    ($($kind:ty),*) => { $(impl Plain<$kind> for $kind { fn plain(&self) -> $kind { *self } })* };
}

plain!(f64, [f64; 2], [usize; 2], Ratio, Estimate);

impl<T, U: Plain<T> + ?Sized> Plain<T> for &U {
    fn plain(&self) -> T {
        (**self).plain()
    }
}

/// `1 entry`, `2 entries`.
pub(super) fn counted(count: impl std::fmt::Display, one: &str, more: &str) -> String {
    let count = count.to_string();
    if count == "1" { format!("1 {one}") } else { format!("{count} {more}") }
}

/// Whether a count is not 0.
fn some(count: impl std::fmt::Display) -> bool {
    count.to_string() != "0"
}

/// A share of 1, in percent.
fn percent(share: impl Plain<f64>) -> String {
    format!("{:.1} %", share.plain() * 100.0)
}

fn range(ends: impl Plain<[f64; 2]>) -> String {
    let [low, high] = ends.plain();
    format!("{:.1}–{:.1}", low * 100.0, high * 100.0)
}

/// A difference in percentage points.
fn points(difference: impl Plain<f64>) -> String {
    let text = format!("{:+.1}", difference.plain() * 100.0).replace('-', "−");
    if text == "+0.0" || text == "−0.0" { "±0.0".to_owned() } else { text }
}

/// A name, shortened for a page.
pub(super) fn clipped(name: &str) -> String {
    truncate(name, LONGEST_NAME)
}

/// A value, shortened for a cell.
fn value(text: &str) -> String {
    truncate(text, LONGEST_VALUE)
}

/// The shade of a heat map cell: 0 to 8.
fn heat(share: impl Plain<Ratio>) -> usize {
    let share = share.plain();
    let limits = [5000, 6000, 7000, 8000, 8500, 9000, 9500, 9800];
    limits.iter().filter(|limit| share.ten_thousandths() >= **limit).count()
}

/// A link to another page of a document.
pub(super) struct Link {
    pub(super) file: String,
    pub(super) label: String,
    pub(super) is_current: bool,
}

/// Links to all pages of a document.
pub(super) fn links(sheets: &[Sheet], current: usize, label: impl Fn(&Sheet) -> String) -> Vec<Link> {
    if sheets.len() < 2 {
        return Vec::new();
    }
    let link = |sheet: &Sheet| Link {
        file: Sheet::file(sheet.number),
        label: label(sheet),
        is_current: sheet.number == current,
    };
    sheets.iter().map(link).collect()
}

/// What all templates use.
pub(super) struct Scene<'p> {
    pub(super) board: &'p Board,
    /// The prefix of paths to other documents.
    pub(super) root: &'p str,
    pub(super) links: Vec<Link>,
}

impl<'p> Scene<'p> {
    fn model(&self, row: &EntryRow) -> &'p ModelPart {
        &self.board.models[row.model]
    }
}

/// The landing page: the ranking and the matrix.
#[derive(Template)]
#[template(path = "board_overview.html")]
pub(super) struct Overview<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) is_first: bool,
    pub(super) standings: &'p [Standing],
    pub(super) skills: Range<usize>,
    pub(super) models: Range<usize>,
}

impl<'p> Overview<'p> {
    /// The day of the newest commit, where the history is known.
    fn newest(&self) -> Option<String> {
        let newest = self.scene.board.rows.iter().filter_map(|row| row.time).max()?;
        Some(newest.strftime("%-d %b %Y").to_string())
    }

    /// Whether a cell has an asterisk.
    fn has_outdated(&self) -> bool {
        self.scene.board.rows.iter().any(|row| row.is_latest && row.is_outdated)
    }

    fn columns(&self) -> &'p [ModelPart] {
        &self.scene.board.models[self.models.clone()]
    }
}

/// All models.
#[derive(Template)]
#[template(path = "board_ranking.html")]
pub(super) struct Ranking<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) standings: &'p [Standing],
}

/// One skill.
#[derive(Template)]
#[template(path = "board_skill.html")]
pub(super) struct SkillPage<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) skill: &'p SkillPart,
    pub(super) newest: Option<&'p EntryRow>,
    /// Only on the first page.
    pub(super) over_time: Option<OverTime<'p>>,
    pub(super) absent: Vec<&'p ModelPart>,
    pub(super) rows: Vec<&'p EntryRow>,
    pub(super) total: usize,
}

impl SkillPage<'_> {
    /// The skipped cases, and how many more there are.
    fn skipped(&self) -> Option<(Vec<String>, usize)> {
        let skipped = &self.newest?.entry.cases.skipped;
        let name = |skipped: &crate::model::Skipped| {
            format!("{}: {}", clipped(&skipped.case), skipped.reason.explain())
        };
        (!skipped.is_empty()).then(|| {
            (
                skipped.iter().take(MOST_SKIPPED).map(name).collect(),
                skipped.len().saturating_sub(MOST_SKIPPED),
            )
        })
    }
}

/// The cases of a skill.
#[derive(Template)]
#[template(path = "board_cases.html")]
pub(super) struct CasesPage<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) skill: &'p SkillPart,
    pub(super) cases: Vec<CaseLine<'p>>,
}

/// A case in a list.
pub(super) struct CaseLine<'p> {
    pub(super) name: &'p str,
    pub(super) path: &'p str,
    pub(super) models: usize,
    /// The lowest and the highest accuracy.
    pub(super) span: Option<[Ratio; 2]>,
    pub(super) ok: u64,
    pub(super) errors: u64,
}

/// One case.
#[derive(Template)]
#[template(path = "board_case.html")]
pub(super) struct CasePage<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) skill: &'p SkillPart,
    pub(super) name: &'p str,
    pub(super) answers: Vec<CaseAnswers<'p>>,
    pub(super) fields: Vec<CaseField<'p>>,
    pub(super) left_out: u64,
}

/// A model's answers to a case.
pub(super) struct CaseAnswers<'p> {
    pub(super) row: &'p EntryRow,
    pub(super) figures: &'p CaseFigures,
    pub(super) details: Option<&'p CaseDetails>,
}

impl CaseAnswers<'_> {
    /// Failed calls and unreadable answers, if they are distinguished.
    fn lost(&self) -> Option<[usize; 2]> {
        use crate::model::CallOutcome::{Failed, Unreadable};
        let calls = &self.details?.calls;
        Some([Failed, Unreadable].map(|outcome| calls.iter().filter(|call| **call == outcome).count()))
    }
}

/// A field of a case, with each model's answers.
pub(super) struct CaseField<'p> {
    pub(super) path: &'p str,
    pub(super) expected: Option<&'p str>,
    pub(super) models: Vec<Option<&'p FieldDetails>>,
}

impl CaseField<'_> {
    /// The answers that are shown, and how many more there are.
    #[expect(clippy::unused_self, reason = "templates call methods")]
    fn shown<'d>(&self, details: &'d FieldDetails) -> (&'d [FieldAnswer], usize) {
        let shown = details.answers.len().min(MOST_ANSWERS);
        (&details.answers[..shown], details.answers.len() - shown)
    }
}

/// One model.
#[derive(Template)]
#[template(path = "board_model.html")]
pub(super) struct ModelPage<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) model: &'p ModelPart,
    pub(super) standing: &'p Standing,
    pub(super) cells: Vec<(&'p SkillPart, Cell<'p>)>,
    /// The models with a comparison page: name and path.
    pub(super) others: Vec<(&'p str, String)>,
}

/// All pairs.
#[derive(Template)]
#[template(path = "board_compare.html")]
pub(super) struct ComparePage<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) pairs: Vec<PairLine<'p>>,
    pub(super) left_out: usize,
}

/// A pair in a list.
pub(super) struct PairLine<'p> {
    pub(super) models: [&'p str; 2],
    pub(super) path: String,
    pub(super) skills: usize,
    pub(super) difference: Option<f64>,
    pub(super) interval: Option<[f64; 2]>,
    pub(super) verdict: String,
}

/// Two models.
#[derive(Template)]
#[template(path = "board_pair.html")]
pub(super) struct PairPage<'p> {
    pub(super) scene: Scene<'p>,
    pub(super) models: [&'p ModelPart; 2],
    pub(super) line: &'p PairLine<'p>,
    pub(super) skills: Vec<PairSkill<'p>>,
}

/// Two models on one skill.
pub(super) struct PairSkill<'p> {
    pub(super) skill: &'p SkillPart,
    /// The comparable entries, and the number of cases where the first is better, equal and worse.
    pub(super) compared: Option<([&'p EntryRow; 2], [usize; 3])>,
    pub(super) has: [bool; 2],
}

/// How the figures are computed.
#[derive(Template)]
#[template(path = "board_method.html")]
pub(super) struct MethodPage<'p> {
    pub(super) scene: Scene<'p>,
}

/// The frame of the static site.
#[derive(Template)]
#[template(path = "board_frame.html")]
pub(super) struct FramePage<'p> {
    pub(super) site: &'p str,
    pub(super) title: &'p str,
    pub(super) root: &'p str,
    /// The current section of the navigation.
    pub(super) section: &'p str,
    /// Rendered by the templates above, which have escaped everything in it.
    pub(super) main: &'p str,
}

/// A badge.
#[derive(Template)]
#[template(path = "board_badge.svg")]
pub(super) struct Badge {
    pub(super) label: String,
    pub(super) value: String,
    pub(super) widths: [usize; 2],
    pub(super) look: &'static str,
}

impl Badge {
    pub(super) fn new(label: &str, value: String, share: Option<f64>) -> Self {
        let label = truncate(label, 40);
        let width = |text: &str| 10 + text.chars().count() * 7;
        let look = match share {
            None => "#5d6570",
            Some(share) if share >= 0.9 => "#176b35",
            Some(share) if share >= 0.7 => "#7a4b00",
            Some(_) => "#a4161a",
        };
        Self { widths: [width(&label), width(&value)], label, value, look }
    }

    fn middle(&self, part: usize) -> usize {
        if part == 0 { self.widths[0] / 2 } else { self.widths[0] + self.widths[1] / 2 }
    }
}

/// The mean of a model, as a chart.
fn mean_band(mean: impl Plain<Estimate>) -> Band {
    let (mean, ends) = mean.plain();
    Band::of(mean, ends)
}

/// `1`, or `1–3` if the comparisons do not decide.
fn ranks(ranks: impl Plain<[usize; 2]>) -> String {
    let [best, worst] = ranks.plain();
    if best == worst { best.to_string() } else { format!("{best}–{worst}") }
}
