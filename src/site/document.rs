//! The pages: one document per subject, each a directory with `index.html` and, if it is long, `page-2.html` and so on.

use std::collections::{BTreeSet, HashMap};

use askama::Template as _;

use super::board::{Board, EntryRow};
use super::charts::OverTime;
use super::sheets::{self, Sheet, Size};
use super::standings::differences;
use super::views::{
    CaseAnswers, CaseField, CaseLine, CasePage, CasesPage, ComparePage, FramePage, Link, MethodPage,
    ModelPage, Overview, PairLine, PairPage, PairSkill, Ranking, Scene, SkillPage, clipped, links,
};

/// The number of models in the ranking on the landing page.
const FIRST_MODELS: usize = 25;
/// The number of models of which every pair has a page: 190 pages.
const MOST_COMPARED: usize = 20;
const MATRIX_COLUMNS: usize = 12;
const MATRIX_ROWS: usize = 60;
const CASE_COLUMNS: usize = 6;
const ROWS: usize = 100;

/// The subject of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    Overview,
    Ranking,
    Skill(usize),
    Cases(usize),
    Case(usize, usize),
    Model(usize),
    Compare,
    Pair(usize, usize),
    Method,
}

/// The base of a page's links.
#[derive(Debug, Clone, Copy)]
pub enum Root<'r> {
    /// Relative to the page, for files.
    Relative,
    /// Absolute, from this URL, which ends with `/`.
    At(&'r str),
}

/// One page.
#[derive(Debug)]
pub struct Page {
    /// Its path in the site.
    pub path: String,
    /// Its title.
    pub title: String,
    /// The content inside the frame, as escaped HTML.
    pub main: String,
    section: &'static str,
}

impl Page {
    /// The page as a file of the static site.
    pub fn framed(&self, site: &str) -> String {
        let root = Root::Relative.of(&self.path);
        let frame =
            FramePage { site, title: &self.title, root: &root, section: self.section, main: &self.main };
        frame.render().unwrap_or_default()
    }
}

impl Root<'_> {
    fn of(self, path: &str) -> String {
        match self {
            Self::Relative => "../".repeat(path.matches('/').count()),
            Self::At(address) => address.to_owned(),
        }
    }
}

impl Board {
    /// The title of the site.
    pub fn title(&self) -> &str {
        &self.title
    }

    pub(super) fn documents(&self) -> Vec<Document> {
        let mut all = vec![Document::Overview, Document::Ranking, Document::Compare, Document::Method];
        for (place, skill) in self.skills.iter().enumerate() {
            all.extend([Document::Skill(place), Document::Cases(place)]);
            all.extend((0..skill.cases.len()).map(|case| Document::Case(place, case)));
        }
        all.extend((0..self.models.len()).map(Document::Model));
        all.extend(self.pairs().map(|[a, b]| Document::Pair(a, b)));
        all
    }

    /// The pairs with a page.
    fn pairs(&self) -> impl Iterator<Item = [usize; 2]> {
        let count = self.models.len().min(MOST_COMPARED);
        (0..count).flat_map(move |a| (a + 1..count).map(move |b| [a, b]))
    }

    /// The directory of a document; empty for the landing page.
    pub(super) fn dir(&self, document: Document) -> String {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        match document {
            Document::Overview => String::new(),
            Document::Ranking => "ranking".to_owned(),
            Document::Skill(skill) => self.skills[skill].path.clone(),
            Document::Cases(skill) => format!("{}/cases", self.skills[skill].path),
            Document::Case(skill, case) => self.skills[skill].cases[case].1.clone(),
            Document::Model(model) => self.models[model].path.clone(),
            Document::Compare => "compare".to_owned(),
            Document::Pair(a, b) => {
                format!("compare/{}/{}", last(&self.models[a].path), last(&self.models[b].path))
            }
            Document::Method => "method".to_owned(),
        }
    }

    /// The page at a path of the site.
    pub fn page(&self, path: &str, root: Root<'_>) -> Option<Page> {
        let (dir, _) = path.rsplit_once('/').unwrap_or(("", path));
        let document = self.documents().into_iter().find(|document| self.dir(*document) == dir)?;
        self.render(document, root).into_iter().find(|page| page.path == path)
    }

    /// The path of a skill's first page.
    pub fn skill_path(&self, name: &str) -> Option<String> {
        self.skills.iter().find(|skill| skill.name == name).map(|skill| format!("{}/index.html", skill.path))
    }

    /// All pages of a document.
    pub(super) fn render(&self, document: Document, root: Root<'_>) -> Vec<Page> {
        let dir = self.dir(document);
        let path = |number: usize| match dir.as_str() {
            "" => Sheet::file(number),
            dir => format!("{dir}/{}", Sheet::file(number)),
        };
        let root = root.of(&path(0));
        let (title, section, pages) = match document {
            Document::Overview => (self.title.clone(), "Overview", self.overview(&root)),
            Document::Ranking => ("All models".to_owned(), "", self.ranking(&root)),
            Document::Skill(skill) => (self.skills[skill].name.clone(), "", self.skill(skill, &root)),
            Document::Cases(skill) => {
                (format!("Cases of {}", self.skills[skill].name), "", self.cases(skill, &root))
            }
            Document::Case(skill, case) => {
                let part = &self.skills[skill];
                (
                    format!("{}: {}", part.name, clipped(&part.cases[case].0)),
                    "",
                    self.case(skill, case, &root),
                )
            }
            Document::Model(model) => (self.models[model].name.clone(), "", self.model(model, &root)),
            Document::Compare => ("Comparisons".to_owned(), "Comparisons", self.compare(&root)),
            Document::Pair(a, b) => {
                (format!("{} and {}", self.models[a].name, self.models[b].name), "", self.pair([a, b], &root))
            }
            Document::Method => {
                let page = MethodPage { scene: self.scene(&root, Vec::new()) };
                ("How the figures are computed".to_owned(), "Method", vec![page.render().unwrap_or_default()])
            }
        };
        let several = pages.len() > 1;
        let page = |(number, main): (usize, String)| Page {
            path: path(number),
            title: if several { format!("{title} ({})", number + 1) } else { title.clone() },
            main,
            section,
        };
        pages.into_iter().enumerate().map(page).collect()
    }

    fn scene<'p>(&'p self, root: &'p str, links: Vec<Link>) -> Scene<'p> {
        Scene { board: self, root, links }
    }

    fn overview(&self, root: &str) -> Vec<String> {
        let size = Size {
            columns: self.models.len(),
            columns_per_page: MATRIX_COLUMNS,
            rows: self.skills.len(),
            rows_per_page: MATRIX_ROWS,
        };
        let label = |sheet: &Sheet| {
            let skills = sheet.rows.len() < self.skills.len();
            let models = sheet.columns.len() < self.models.len();
            let parts = [
                skills.then(|| format!("skills {}", span(&sheet.rows))),
                models.then(|| format!("models {}", span(&sheet.columns))),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        };
        sheets::render(&size, |sheet, all| {
            let page = Overview {
                scene: self.scene(root, links(all, sheet.number, label)),
                is_first: sheet.number == 0,
                standings: &self.standings[..self.standings.len().min(FIRST_MODELS)],
                skills: sheet.rows.clone(),
                models: sheet.columns.clone(),
            };
            page.render().unwrap_or_default()
        })
    }

    fn ranking(&self, root: &str) -> Vec<String> {
        self.list(root, self.standings.len(), |scene, sheet| {
            Ranking { scene, standings: &self.standings[sheet.rows.clone()] }.render().unwrap_or_default()
        })
    }

    /// A document with one long table.
    fn list<'p>(
        &'p self,
        root: &'p str,
        rows: usize,
        page: impl Fn(Scene<'p>, &Sheet) -> String,
    ) -> Vec<String> {
        let size = Size { columns: 1, columns_per_page: 1, rows, rows_per_page: ROWS };
        sheets::render(&size, |sheet, all| {
            page(self.scene(root, links(all, sheet.number, |sheet| span(&sheet.rows))), sheet)
        })
    }

    fn skill(&self, skill: usize, root: &str) -> Vec<String> {
        let part = &self.skills[skill];
        let rows: Vec<&EntryRow> = part.rows.iter().map(|row| &self.rows[*row]).collect();
        let commits: BTreeSet<_> = rows.iter().map(|row| &row.entry.prompt_commit).collect();
        let has_history = commits.len() > 1;
        let mut latest: Vec<&EntryRow> = rows.iter().filter(|row| row.is_latest).copied().collect();
        latest.sort_by(|a, b| b.accuracy().cmp(&a.accuracy()).then(a.model.cmp(&b.model)));
        let earlier = rows.iter().filter(|row| !row.is_latest).copied();
        let listed: Vec<&EntryRow> = latest.iter().copied().chain(earlier).collect();
        self.list(root, listed.len(), |scene, sheet| {
            let absent = (0..self.models.len())
                .filter(|model| matches!(self.cell(skill, *model), super::board::Cell::NotServed));
            let page = SkillPage {
                scene,
                skill: part,
                newest: rows.first().copied(),
                // One commit is not a trend.
                over_time: (sheet.number == 0 && has_history).then(|| OverTime::of(self, &rows)),
                absent: absent.take(ROWS).map(|model| &self.models[model]).collect(),
                rows: listed[sheet.rows.clone()].to_vec(),
                total: listed.len(),
            };
            page.render().unwrap_or_default()
        })
    }

    /// The newest entries of a skill.
    fn latest_of(&self, skill: usize) -> impl Iterator<Item = &EntryRow> {
        (0..self.models.len()).filter_map(move |model| self.latest(skill, model))
    }

    fn cases(&self, skill: usize, root: &str) -> Vec<String> {
        let part = &self.skills[skill];
        let mut lines: HashMap<&str, CaseLine<'_>> = HashMap::new();
        for figures in self.latest_of(skill).flat_map(|row| &row.entry.per_case) {
            let line = lines.entry(&figures.case).or_insert_with(|| CaseLine {
                name: &figures.case,
                path: "",
                models: 0,
                span: None,
                ok: 0,
                errors: 0,
            });
            line.models += 1;
            line.ok += figures.ok;
            line.errors += figures.errors;
            if let Some(accuracy) = figures.accuracy {
                let [low, high] = line.span.unwrap_or([accuracy; 2]);
                line.span = Some([low.min(accuracy), high.max(accuracy)]);
            }
        }
        self.list(root, part.cases.len(), |scene, sheet| {
            let cases = part.cases[sheet.rows.clone()].iter().filter_map(|(name, path)| {
                let CaseLine { name, models, span, ok, errors, .. } = lines.get(name.as_str())?;
                Some(CaseLine { name, path, models: *models, span: *span, ok: *ok, errors: *errors })
            });
            CasesPage { scene, skill: part, cases: cases.collect() }.render().unwrap_or_default()
        })
    }

    fn case(&self, skill: usize, case: usize, root: &str) -> Vec<String> {
        let part = &self.skills[skill];
        let name = part.cases[case].0.as_str();
        let answers: Vec<CaseAnswers<'_>> = self
            .latest_of(skill)
            .filter_map(|row| {
                let figures = row.entry.per_case.iter().find(|figures| figures.case == name)?;
                Some(CaseAnswers { row, figures, details: row.case(name) })
            })
            .collect();
        // Every field of any model, ordered by its first occurrence.
        let mut order: Vec<(&str, Option<&str>)> = Vec::new();
        let mut seen = BTreeSet::new();
        let mut found = HashMap::new();
        for (place, details) in
            answers.iter().enumerate().filter_map(|(place, of)| Some((place, of.details?)))
        {
            for field in &details.fields {
                let key = (field.path.as_str(), field.expected.as_deref());
                if seen.insert(key) {
                    order.push(key);
                }
                found.insert((place, key), field);
            }
        }
        order.sort_by_key(|(_, expected)| expected.is_none());
        let left_out = answers.iter().filter_map(|of| of.details).map(|details| details.left_out).max();
        let size = Size {
            columns: answers.len(),
            columns_per_page: CASE_COLUMNS,
            rows: order.len(),
            rows_per_page: ROWS,
        };
        let label = |sheet: &Sheet| {
            let models = sheet.columns.len() < answers.len();
            let models = if models { format!("models {}, ", span(&sheet.columns)) } else { String::new() };
            format!("{models}fields {}", span(&sheet.rows))
        };
        sheets::render(&size, |sheet, all| {
            let fields = order[sheet.rows.clone()].iter().map(|key| CaseField {
                path: key.0,
                expected: key.1,
                models: sheet.columns.clone().map(|place| found.get(&(place, *key)).copied()).collect(),
            });
            let copied = answers[sheet.columns.clone()].iter();
            let page = CasePage {
                scene: self.scene(root, links(all, sheet.number, label)),
                skill: part,
                name,
                answers: copied
                    .map(|of| CaseAnswers { row: of.row, figures: of.figures, details: of.details })
                    .collect(),
                fields: fields.collect(),
                left_out: left_out.unwrap_or(0),
            };
            page.render().unwrap_or_default()
        })
    }

    fn model(&self, model: usize, root: &str) -> Vec<String> {
        self.list(root, self.skills.len(), |scene, sheet| {
            let cells = sheet.rows.clone().map(|skill| (&self.skills[skill], self.cell(skill, model)));
            let others = self.pairs().filter(|pair| pair.contains(&model)).map(|[a, b]| {
                let other = if a == model { b } else { a };
                (self.models[other].name.as_str(), self.dir(Document::Pair(a, b)))
            });
            let page = ModelPage {
                scene,
                model: &self.models[model],
                standing: &self.standings[model],
                cells: cells.collect(),
                others: others.collect(),
            };
            page.render().unwrap_or_default()
        })
    }

    fn pair_line(&self, [a, b]: [usize; 2]) -> PairLine<'_> {
        let names = [a, b].map(|model| self.models[model].name.as_str());
        let compared = self.compared.get(&[a, b]);
        let verdict = match compared {
            Some(compared) if compared.is_significant => {
                format!("{} is better", if compared.difference > 0.0 { names[0] } else { names[1] })
            }
            Some(_) => "The cases do not separate them".to_owned(),
            None => "Nothing in common that can be compared".to_owned(),
        };
        PairLine {
            models: names,
            path: self.dir(Document::Pair(a, b)),
            skills: compared.map_or(0, |compared| compared.skills),
            difference: compared.map(|compared| compared.difference),
            interval: compared.and_then(|compared| compared.interval),
            verdict,
        }
    }

    fn compare(&self, root: &str) -> Vec<String> {
        let pairs: Vec<[usize; 2]> = self.pairs().collect();
        self.list(root, pairs.len(), |scene, sheet| {
            let page = ComparePage {
                scene,
                pairs: pairs[sheet.rows.clone()].iter().map(|pair| self.pair_line(*pair)).collect(),
                left_out: self.models.len().saturating_sub(MOST_COMPARED),
            };
            page.render().unwrap_or_default()
        })
    }

    fn pair(&self, pair: [usize; 2], root: &str) -> Vec<String> {
        let line = self.pair_line(pair);
        self.list(root, self.skills.len(), |scene, sheet| {
            let skills = sheet.rows.clone().map(|skill| {
                let compared = self.comparable(skill, pair).map(|rows| {
                    let differences = differences(rows);
                    let count = |is: fn(&f64) -> bool| differences.iter().filter(|of| is(of)).count();
                    (rows, [count(|of| *of > 0.0), count(|of| *of == 0.0), count(|of| *of < 0.0)])
                });
                let has = pair.map(|model| self.latest(skill, model).is_some());
                PairSkill { skill: &self.skills[skill], compared, has }
            });
            let models = pair.map(|model| &self.models[model]);
            PairPage { scene, models, line: &line, skills: skills.collect() }.render().unwrap_or_default()
        })
    }
}

/// `1–50`, counted from 1.
fn span(range: &std::ops::Range<usize>) -> String {
    if range.is_empty() { "0".to_owned() } else { format!("{}–{}", range.start + 1, range.end) }
}
