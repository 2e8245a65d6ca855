//! The entries in the order that the pages need.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;

use super::names::segment;
use super::standings::{ModelComparison, Standing, standings};
use crate::leaderboard::{Leaderboard, entry_digest};
use crate::model::{CaseDetails, CommitSha, Digest, Entry, EntryDetails, Ratio, printable};
use crate::util::truncate::truncate;

/// The longest name that is shown.
const LONGEST_NAME: usize = 120;

/// A leaderboard, prepared for display.
#[derive(Debug)]
pub struct Board {
    pub(super) file: Leaderboard,
    pub(super) title: String,
    /// Newest first.
    pub(super) rows: Vec<EntryRow>,
    pub(super) skills: Vec<SkillPart>,
    /// In ranking order.
    pub(super) models: Vec<ModelPart>,
    pub(super) standings: Vec<Standing>,
    /// Statements about entries, by digest.
    pub(super) statements: HashMap<Digest, Statement>,
    /// The library's repository on github.com, which lists signatures by the digests of entries.
    pub(super) repo: Option<String>,
    /// The pairs of models that can be compared, lower index first.
    pub(super) compared: HashMap<[usize; 2], ModelComparison>,
    /// The rows of a skill and a model, newest first.
    of: HashMap<(usize, usize), Vec<usize>>,
    /// Skills and models that were not served.
    absent: HashSet<(usize, usize)>,
}

/// One entry.
#[derive(Debug)]
pub(super) struct EntryRow {
    pub(super) entry: Entry,
    pub(super) digest: Digest,
    pub(super) skill: usize,
    pub(super) model: usize,
    /// The commit time, if the library's history is available.
    pub(super) time: Option<Timestamp>,
    /// Whether no entry of the same skill and model is newer.
    pub(super) is_latest: bool,
    /// Whether the skill has a newer commit, or newer rules, with entries of other models.
    pub(super) is_outdated: bool,
    pub(super) details: Option<EntryDetails>,
    /// Whether the statement about the entry in the library cannot have a signature; `None` without a statement.
    pub(super) is_unsigned: Option<bool>,
}

/// A statement about an entry.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) bytes: Vec<u8>,
    pub(super) is_unsigned: bool,
}

/// A skill.
#[derive(Debug)]
pub(super) struct SkillPart {
    pub(super) name: String,
    pub(super) path: String,
    /// Newest first.
    pub(super) rows: Vec<usize>,
    /// The cases of the newest entries, sorted; with the path segment of each.
    pub(super) cases: Vec<(String, String)>,
}

/// A model, with the targets of its alias.
#[derive(Debug)]
pub(super) struct ModelPart {
    pub(super) name: String,
    pub(super) path: String,
    key: (String, Option<String>),
}

/// A cell of the matrix of skills and models.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'b> {
    Entry(&'b EntryRow),
    NotServed,
    NotEvaluated,
}

/// What is read besides the entries.
#[derive(Debug, Default)]
pub(super) struct EntryExtras {
    pub(super) times: HashMap<String, Timestamp>,
    pub(super) details: HashMap<Digest, EntryDetails>,
    pub(super) statements: HashMap<Digest, Statement>,
}

impl Board {
    pub(super) fn new(file: Leaderboard, title: &str, mut beside: EntryExtras) -> Self {
        let key = |model: &str, alias: Option<&String>| (model.to_owned(), alias.cloned());
        let skill_names: BTreeMap<&str, usize> = {
            let entries = file.entries().iter().map(|entry| entry.skill.as_str());
            let names = entries.chain(file.absent().iter().map(|absent| absent.skill.as_str()));
            let unique: BTreeSet<&str> = names.collect();
            unique.into_iter().enumerate().map(|(place, name)| (name, place)).collect()
        };
        let model_keys: BTreeMap<(String, Option<String>), usize> = {
            let entries = file.entries().iter().map(|entry| key(&entry.model, entry.alias_target.as_ref()));
            let keys = entries.chain(file.absent().iter().map(|absent| key(&absent.model, None)));
            let unique: BTreeSet<_> = keys.collect();
            unique.into_iter().enumerate().map(|(place, key)| (key, place)).collect()
        };
        let mut rows: Vec<EntryRow> = file
            .entries()
            .iter()
            .map(|entry| {
                let digest = entry_digest(entry);
                EntryRow {
                    skill: skill_names[entry.skill.as_str()],
                    model: model_keys[&key(&entry.model, entry.alias_target.as_ref())],
                    time: beside.times.get(entry.prompt_commit.as_str()).copied(),
                    details: beside.details.remove(&digest),
                    is_unsigned: beside.statements.get(&digest).map(|statement| statement.is_unsigned),
                    entry: entry.clone(),
                    digest,
                    is_latest: false,
                    is_outdated: false,
                }
            })
            .collect();
        // Which of several entries of a commit is shown never depends on its score.
        rows.sort_by(|a, b| {
            let age = |row: &EntryRow| (row.time, version(&row.entry.skill_version));
            let kind = |row: &EntryRow| (row.entry.scorer_version, row.entry.replicates);
            age(b)
                .cmp(&age(a))
                .then_with(|| b.entry.prompt_commit.cmp(&a.entry.prompt_commit))
                .then_with(|| kind(b).cmp(&kind(a)))
                .then_with(|| a.entry.key().cmp(&b.entry.key()))
        });
        let mut skills: Vec<SkillPart> = skill_names
            .keys()
            .map(|name| SkillPart {
                name: (*name).to_owned(),
                path: format!("skills/{}", segment(name)),
                rows: Vec::new(),
                cases: Vec::new(),
            })
            .collect();
        let mut of: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        let mut newest: HashMap<usize, (CommitSha, (u32, Option<Digest>))> = HashMap::new();
        for (place, row) in rows.iter_mut().enumerate() {
            let newest = newest
                .entry(row.skill)
                .or_insert_with(|| (row.entry.prompt_commit.clone(), row.entry.scoring()));
            row.is_outdated = *newest != (row.entry.prompt_commit.clone(), row.entry.scoring());
            let known = of.entry((row.skill, row.model)).or_default();
            row.is_latest = known.is_empty();
            known.push(place);
            skills[row.skill].rows.push(place);
        }
        for skill in &mut skills {
            let latest = skill.rows.iter().map(|row| &rows[*row]).filter(|row| row.is_latest);
            let names: BTreeSet<&String> =
                latest.flat_map(|row| row.entry.per_case.iter().map(|case| &case.case)).collect();
            skill.cases = names
                .into_iter()
                .map(|name| (name.clone(), format!("{}/cases/{}", skill.path, segment(name))))
                .collect();
        }
        let models = model_keys.into_keys().map(|key| {
            let (model, alias) = &key;
            let name = match alias {
                None => truncate(&printable(model), LONGEST_NAME),
                Some(alias) => {
                    truncate(&format!("{} → {}", printable(model), printable(alias)), LONGEST_NAME)
                }
            };
            let whole = alias.as_ref().map_or_else(|| model.clone(), |alias| format!("{model}\n{alias}"));
            ModelPart { name, path: format!("models/{}", segment(&whole)), key }
        });
        let mut board = Self {
            title: title.to_owned(),
            models: models.collect(),
            rows,
            skills,
            standings: Vec::new(),
            statements: beside.statements,
            repo: None,
            compared: HashMap::new(),
            of,
            absent: HashSet::new(),
            file: Leaderboard::empty(),
        };
        board.absent = file
            .absent()
            .iter()
            .filter_map(|absent| {
                let model = board.models.iter().position(|model| model.key == key(&absent.model, None))?;
                Some((skill_names[absent.skill.as_str()], model))
            })
            .collect();
        board.file = file;
        board.rank();
        board
    }

    /// The same, with links to the signatures that this repository on github.com lists.
    #[must_use]
    pub fn signed_in(self, repo: Option<String>) -> Self {
        Self { repo, ..self }
    }

    /// Sorts the models by rank.
    fn rank(&mut self) {
        let (ranked, compared) = standings(self);
        let mut place_of = vec![0; self.models.len()];
        for (place, standing) in ranked.iter().enumerate() {
            place_of[standing.model] = place;
        }
        let mut models: Vec<Option<ModelPart>> =
            std::mem::take(&mut self.models).into_iter().map(Some).collect();
        self.models = ranked.iter().filter_map(|standing| models[standing.model].take()).collect();
        self.standings = ranked;
        for (place, standing) in self.standings.iter_mut().enumerate() {
            standing.model = place;
        }
        for row in &mut self.rows {
            row.model = place_of[row.model];
        }
        self.compared = compared
            .into_iter()
            .map(|([a, b], compared)| {
                let (a, b) = (place_of[a], place_of[b]);
                if a < b { ([a, b], compared) } else { ([b, a], compared.reversed()) }
            })
            .collect();
        self.of = std::mem::take(&mut self.of)
            .into_iter()
            .map(|((skill, model), rows)| ((skill, place_of[model]), rows))
            .collect();
        self.absent = self.absent.iter().map(|(skill, model)| (*skill, place_of[*model])).collect();
    }

    /// The entries of a skill and a model, newest first.
    pub(super) fn entries(&self, skill: usize, model: usize) -> impl Iterator<Item = &EntryRow> {
        self.of.get(&(skill, model)).map_or(&[][..], Vec::as_slice).iter().map(|row| &self.rows[*row])
    }

    /// The models by their names in the files, sorted.
    pub fn model_names(&self) -> Vec<&str> {
        let names: BTreeSet<&str> = self.rows.iter().map(|row| row.entry.model.as_str()).collect();
        names.into_iter().collect()
    }

    /// The newest entry of each skill for a model, whatever the target of its alias.
    pub fn newest_of(&self, model: &str) -> Vec<&Entry> {
        let mut newest: BTreeMap<usize, &Entry> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.entry.model == model) {
            newest.entry(row.skill).or_insert(&row.entry);
        }
        newest.into_values().collect()
    }

    /// The newest entry of a skill and a model.
    pub(super) fn latest(&self, skill: usize, model: usize) -> Option<&EntryRow> {
        self.entries(skill, model).next()
    }

    pub(super) fn cell(&self, skill: usize, model: usize) -> Cell<'_> {
        match self.latest(skill, model) {
            Some(row) => Cell::Entry(row),
            None if self.absent.contains(&(skill, model)) => Cell::NotServed,
            None => Cell::NotEvaluated,
        }
    }

    /// The newest comparable entries of two models: same commit, cases and rules.
    pub(super) fn comparable(&self, skill: usize, [a, b]: [usize; 2]) -> Option<[&EntryRow; 2]> {
        self.entries(skill, a).find_map(|first| {
            let same = |second: &&EntryRow| {
                let (a, b) = (&first.entry, &second.entry);
                a.prompt_commit == b.prompt_commit
                    && a.cases_sha256 == b.cases_sha256
                    && a.scoring() == b.scoring()
            };
            Some([first, self.entries(skill, b).find(same)?])
        })
    }
}

impl EntryRow {
    pub(super) fn accuracy(&self) -> Option<Ratio> {
        self.entry.accuracy.score
    }

    pub(super) fn prose(&self) -> Option<Ratio> {
        self.entry.prose?.score
    }

    /// The abbreviated digest.
    pub(super) fn short(&self) -> String {
        self.digest.to_string()[..8].to_owned()
    }

    /// Accuracy and its interval as numbers; with a single case, the interval is 0 to 1.
    pub(super) fn estimate(&self) -> Option<(f64, [f64; 2])> {
        let value = self.accuracy()?.as_f64();
        Some((value, self.entry.accuracy.interval.map_or([0.0, 1.0], |ends| ends.map(Ratio::as_f64))))
    }

    /// The details of one case.
    pub(super) fn case(&self, name: &str) -> Option<&CaseDetails> {
        self.details.as_ref()?.cases.iter().find(|case| case.case == name)
    }
}

/// A version as numbers: `1.10.0` is later than `1.9.2`.
fn version(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}
