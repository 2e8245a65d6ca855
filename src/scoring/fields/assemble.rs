//! Computes the entry of a model from its answers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::agreement::{Agreement, agreement};
use super::answer::{self, Answer, Outcome};
use super::compare::{self, Counts};
use super::grader::{GradedText, Verdicts};
use super::markdown;
use super::matcher::Matcher;
use crate::config::{Expected, ModelSettings, OutputFormat, Skill, SkillCase};
use crate::model::{
    Calls, CaseCounts, CaseFigures, CommitSha, Entry, FieldRules, Ratio, Replicates, Reproducibility,
    SchemaFit, TokenSums,
};
use crate::scoring::stats::cluster_interval;
use crate::util::schema_check::SchemaCheck;

/// The version of the scoring rules; changes whenever the same answers would give other figures.
pub const SCORER_VERSION: u32 = 2;

/// What was evaluated.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The skill.
    pub skill: &'a Skill,
    /// The commit of the library that was checked out.
    pub prompt_commit: &'a CommitSha,
    /// The commit of the data sets.
    pub dataset_commit: Option<&'a CommitSha>,
    /// The model and its settings.
    pub model: &'a ModelSettings,
    /// The model behind its name, if that is an alias.
    pub alias_target: Option<&'a str>,
    /// How often each case was run.
    pub replicates: Replicates,
}

/// The answers by case and replicate, which counts from 1.
pub type Answers = BTreeMap<(String, u32), Answer>;

/// What all answers of a skill share.
pub(super) struct Scorer {
    pub(super) rules: FieldRules,
    format: OutputFormat,
    schema: Option<SchemaCheck>,
}

impl Scorer {
    pub(super) fn new(skill: &Skill) -> Self {
        // Section names are in lower case.
        let fold = |(path, rule): &(crate::model::FieldPath, _)| (path.folded(), Clone::clone(rule));
        let rules = match skill.format {
            OutputFormat::Markdown => {
                let own = skill.rules.rules.iter().map(fold);
                FieldRules { rules: own.chain(markdown::default_rules()).collect() }
            }
            OutputFormat::JsonObject | OutputFormat::JsonArray => skill.rules.clone(),
        };
        let schema = skill.schema.as_ref().and_then(|schema| SchemaCheck::new(schema).ok());
        Self { rules, format: skill.format, schema }
    }

    pub(super) fn format(&self) -> OutputFormat {
        self.format
    }

    pub(super) fn expected(&self, case: &SkillCase) -> Value {
        match &case.expected {
            Expected::Json(value) => value.clone(),
            Expected::Markdown(text) => markdown::tree(text, &Matcher::new(&self.rules)),
        }
    }
}

/// The figures of one case.
struct CaseResult {
    counts: Counts,
    agreement: Agreement,
    is_exact: bool,
    undecided: BTreeMap<String, GradedText>,
}

/// The entry without graded prose.
#[cfg(test)]
pub(super) fn entry(subject: &Subject<'_>, answers: &Answers) -> Entry {
    graded_entry(subject, answers, &Verdicts::new())
}

/// The texts that a model must grade according to the rules, each pair once, by id.
pub fn texts_to_grade(subject: &Subject<'_>, answers: &Answers) -> BTreeMap<String, GradedText> {
    let scorer = Scorer::new(subject.skill);
    let (none, mut sums) = (Verdicts::new(), Sums::default());
    let cases = subject.skill.cases.iter();
    let of_case = |case| of_case(subject, &scorer, case, answers, &none, &mut sums).0.undecided;
    cases.flat_map(of_case).collect()
}

/// Sums up all answers of a model. A missing answer counts as a failed call, and an ungraded text as
/// wrong.
pub fn graded_entry(subject: &Subject<'_>, answers: &Answers, verdicts: &Verdicts) -> Entry {
    let skill = subject.skill;
    let scorer = Scorer::new(skill);
    let mut sums = Sums::default();
    let of_case = |case| of_case(subject, &scorer, case, answers, verdicts, &mut sums);
    let cases: Vec<(CaseResult, CaseFigures)> = skill.cases.iter().map(of_case).collect();
    let mut counts = Counts::default();
    for (case, _) in &cases {
        counts.add(&case.counts);
    }
    let structured_output = skill.structured_output(subject.model.structured_output);
    let mut entry = Entry {
        skill: skill.name.clone(),
        skill_version: skill.version.to_string(),
        prompt_commit: subject.prompt_commit.clone(),
        prompt_sha256: skill.prompt_sha256,
        prompt_body_sha256: skill.prompt_body_sha256,
        dataset_commit: subject.dataset_commit.filter(|_| skill.reads_datasets()).cloned(),
        cases_sha256: skill.cases_sha256,
        model: subject.model.id.clone(),
        alias_target: subject.alias_target.filter(|target| *target != subject.model.id).map(str::to_owned),
        params: subject.model.params(structured_output),
        replicates: subject.replicates,
        scorer_version: SCORER_VERSION,
        rules_sha256: Some(skill.rules.digest()),
        cases: CaseCounts {
            total: (skill.cases.len() + skill.skipped.len()) as u64,
            run: skill.cases.len() as u64,
            skipped: skill.skipped.clone(),
        },
        calls: sums.calls,
        schema_valid: SchemaFit { rate: Ratio::of(sums.schema.n, sums.schema.of), ..sums.schema },
        accuracy: counts.accuracy(),
        prose: Some(counts.prose()),
        reproducibility: Reproducibility::default(),
        tokens: sums.tokens,
        per_case: Vec::new(),
    };
    let seed = entry.key().seed();
    let parts =
        |of: &dyn Fn(&CaseResult) -> (u64, u64)| cases.iter().map(|(case, _)| of(case)).collect::<Vec<_>>();
    let right = parts(&|case| (case.counts.correct, case.counts.counted()));
    entry.accuracy.score = Ratio::of(counts.correct, counts.counted());
    entry.accuracy.interval = cluster_interval(&right, seed);
    if subject.replicates.get() > 1 {
        let alike = parts(&|case| (case.agreement.full, case.agreement.probed));
        let (full, probed) = alike.iter().fold((0, 0), |sum, case| (sum.0 + case.0, sum.1 + case.1));
        let exact = cases.iter().filter(|(case, _)| case.is_exact).count() as u64;
        entry.reproducibility = Reproducibility {
            score: Ratio::of(full, probed),
            interval: cluster_interval(&alike, seed.wrapping_add(1)),
            fields_probed: probed,
            fields_full_agreement: full,
            exact_output_rate: Ratio::of(exact, cases.len() as u64),
        };
    }
    entry.per_case = cases.into_iter().map(|(_, figures)| figures).collect();
    entry
}

/// Sums over all calls.
#[derive(Default)]
struct Sums {
    calls: Calls,
    schema: SchemaFit,
    tokens: TokenSums,
}

fn of_case(
    subject: &Subject<'_>,
    scorer: &Scorer,
    case: &SkillCase,
    answers: &Answers,
    verdicts: &Verdicts,
    sums: &mut Sums,
) -> (CaseResult, CaseFigures) {
    let rules = Matcher::new(&scorer.rules);
    let expected = scorer.expected(case);
    let asked = compare::Case::new(&case.message).with_verdicts(verdicts);
    let mut counts = Counts::default();
    let mut parsed: Vec<Option<Value>> = Vec::new();
    let mut texts: Vec<Option<&str>> = Vec::new();
    for replicate in 1..=subject.replicates.get() {
        let answer = answers.get(&(case.id.clone(), replicate)).unwrap_or(&Answer::FAILED);
        sums.calls.attempted += 1;
        if let Some(tokens) = answer.tokens {
            sums.tokens.prompt += tokens.input;
            sums.tokens.completion += tokens.output;
        }
        let found = match &answer.outcome {
            Outcome::Failed => {
                sums.calls.api_error += 1;
                texts.push(None);
                None
            }
            Outcome::Text { text, truncated } => {
                sums.calls.truncated += u64::from(*truncated);
                texts.push(Some(text.trim()));
                let found = answer::parse(text, scorer.format, &rules);
                match &found {
                    Some(_) => sums.calls.ok += 1,
                    None => sums.calls.parse_error += 1,
                }
                if let Some(check) = &scorer.schema {
                    let is_valid = found.as_ref().is_some_and(|found| check.misfit(found).is_none());
                    sums.schema.of += 1;
                    sums.schema.n += u64::from(is_valid);
                }
                found
            }
        };
        counts.add(&match &found {
            Some(found) => compare::count(&expected, found, &rules, &asked),
            None => compare::count_unanswered(&expected, &rules),
        });
        parsed.push(found);
    }
    let is_repeated = subject.replicates.get() > 1;
    let agreement =
        if is_repeated { agreement(&expected, &parsed, &rules, &asked) } else { Agreement::default() };
    let is_exact =
        texts.first().is_some_and(|first| first.is_some() && texts.iter().all(|text| text == first));
    let ok = parsed.iter().flatten().count() as u64;
    let figures = CaseFigures {
        case: case.id.clone(),
        accuracy: Ratio::of(counts.correct, counts.counted()),
        reproducibility: Ratio::of(agreement.full, agreement.probed),
        ok,
        errors: parsed.len() as u64 - ok,
    };
    (CaseResult { counts, agreement, is_exact, undecided: asked.into_undecided() }, figures)
}
