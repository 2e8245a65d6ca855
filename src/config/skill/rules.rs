//! `evals/scoring.yaml`: how the answers of a skill are compared.

use std::sync::Arc;

use super::models;
use crate::config::{Document, Key, Node, Problems, Source, did_you_mean};
use crate::model::{FieldPath, FieldRule, FieldRules, FieldType, GraderModel, Tolerance};

const KEYS: [&str; 10] =
    ["ignore", "types", "tolerance", "overlap", "grader", "contains", "in_input", "set", "key", "order"];
const GRADER_KEYS: [&str; 5] = ["model", "fields", "temperature", "max_tokens", "seed"];
const MOST_RULES: usize = 500;

/// The rules of the file; records errors.
pub(super) fn read(source: &Arc<Source>, problems: &mut Problems) -> FieldRules {
    let document = match Document::parse(source.path.clone(), source.text.clone()) {
        Ok(document) => document,
        Err(invalid) => {
            problems.absorb(invalid);
            return FieldRules::default();
        }
    };
    if document.root.is_null() {
        return FieldRules::default();
    }
    let Some(mut fields) = document.root.fields("the file", problems) else { return FieldRules::default() };
    let mut reader = RuleReader { rules: Vec::new(), spans: Vec::new(), problems };
    for (key, rule) in [
        ("ignore", FieldRule::Ignore),
        ("contains", FieldRule::Contains),
        ("in_input", FieldRule::InInput),
        ("set", FieldRule::Set),
        ("order", FieldRule::Order),
    ] {
        for node in fields.list(key, reader.problems).unwrap_or_default() {
            reader.listed(key, node, &rule);
        }
    }
    if let Some(node) = fields.get("types") {
        reader.mapped(node, "types", field_type);
    }
    if let Some(node) = fields.get("tolerance") {
        reader.mapped(node, "tolerance", tolerance);
    }
    if let Some(node) = fields.get("overlap") {
        reader.mapped(node, "overlap", overlap);
    }
    if let Some(node) = fields.get("grader") {
        reader.grader(node);
    }
    if let Some(node) = fields.get("key") {
        reader.mapped(node, "key", key_fields);
    }
    let rules = reader.finish();
    for key in fields.unknown() {
        let words = KEYS.map(|word| format!("`{word}`")).join(", ");
        let message = format!("unknown key `{}`; legal are {words}", key.text);
        match did_you_mean(&key.text, KEYS) {
            Some(word) => problems.error_with_hint(&key.span, message, format!("did you mean `{word}`?")),
            None => problems.error(&key.span, message),
        }
    }
    if rules.len() > MOST_RULES {
        problems.error(&document.root.span, format!("more than {MOST_RULES} rules"));
    }
    FieldRules { rules }
}

struct RuleReader<'p> {
    rules: Vec<(FieldPath, FieldRule)>,
    spans: Vec<crate::config::Span>,
    problems: &'p mut Problems,
}

impl RuleReader<'_> {
    fn listed(&mut self, key: &str, node: &Node, rule: &FieldRule) {
        let Some(text) = node.as_str() else {
            self.problems.error(&node.span, format!("`{key}`: expected a path, found {}", node.kind()));
            return;
        };
        self.add(text, &node.span, rule.clone());
    }

    fn mapped(&mut self, node: &Node, key: &str, read: impl Fn(&Node) -> Result<FieldRule, String>) {
        let Some(entries) = node.entries() else {
            let message = format!("`{key}`: expected a mapping of paths, found {}", node.kind());
            self.problems.error(&node.span, message);
            return;
        };
        for (Key { text, span }, value) in entries {
            match read(value) {
                Ok(rule) => self.add(text, span, rule),
                Err(message) => self.problems.error(&value.span, format!("`{key}`: {message}")),
            }
        }
    }

    /// The model that grades prose, and the fields that it grades.
    fn grader(&mut self, node: &Node) {
        let Some(mut fields) = node.fields("`grader`", self.problems) else { return };
        let model = models::read_id(&mut fields, "model", self.problems);
        let (temperature, max_tokens, seed) = models::read_sampling(&mut fields, self.problems);
        let paths = fields.list("fields", self.problems);
        if paths.is_none_or(<[Node]>::is_empty)
            && fields.get("fields").is_none_or(|node| node.items().is_some())
        {
            let hint = "`fields` lists the paths of the texts that the model grades: `fields: [summary]`";
            self.problems.error_with_hint(&node.span, "`fields` is missing or empty", hint);
        }
        for key in fields.unknown() {
            models::unknown(key, &GRADER_KEYS, "`grader`", self.problems);
        }
        let Some(model) = model else { return };
        let rule = FieldRule::Grader(GraderModel { model, temperature, max_tokens, seed });
        for path in paths.unwrap_or_default() {
            self.listed("grader", path, &rule);
        }
    }

    fn add(&mut self, text: &str, span: &crate::config::Span, rule: FieldRule) {
        match text.parse::<FieldPath>() {
            Ok(path) => {
                self.rules.push((path, rule));
                self.spans.push(span.clone());
            }
            Err(invalid) => {
                self.problems.error_with_hint(span, format!("`{text}` is not a path"), invalid.to_string());
            }
        }
    }

    /// The rules; records an error for each contradiction.
    fn finish(self) -> Vec<(FieldPath, FieldRule)> {
        for (place, (path, rule)) in self.rules.iter().enumerate() {
            let clash =
                self.rules[..place].iter().find(|(other, earlier)| other == path && !fit(earlier, rule));
            if let Some((_, earlier)) = clash {
                let message = format!(
                    "`{path}` has `{}` already, which does not go with `{}`",
                    word(earlier),
                    word(rule)
                );
                self.problems.error(&self.spans[place], message);
            }
        }
        self.rules
    }
}

/// Whether two rules may apply to one path: a number may have a type and a tolerance.
fn fit(a: &FieldRule, b: &FieldRule) -> bool {
    match (a, b) {
        (FieldRule::Type(kind), FieldRule::Tolerance(_))
        | (FieldRule::Tolerance(_), FieldRule::Type(kind)) => {
            matches!(kind, FieldType::Number | FieldType::Money | FieldType::Percent)
        }
        (FieldRule::Type(kind), FieldRule::Overlap(_)) | (FieldRule::Overlap(_), FieldRule::Type(kind)) => {
            matches!(kind, FieldType::Prose)
        }
        _ => false,
    }
}

fn word(rule: &FieldRule) -> &'static str {
    match rule {
        FieldRule::Ignore => "ignore",
        FieldRule::Type(_) => "types",
        FieldRule::Tolerance(_) => "tolerance",
        FieldRule::Overlap(_) => "overlap",
        FieldRule::Grader(_) => "grader",
        FieldRule::Contains => "contains",
        FieldRule::InInput => "in_input",
        FieldRule::Set => "set",
        FieldRule::Key(_) => "key",
        FieldRule::Order => "order",
    }
}

fn field_type(node: &Node) -> Result<FieldRule, String> {
    let found = node.as_str().and_then(|word| FieldType::WORDS.iter().find(|(known, _)| *known == word));
    let words = || FieldType::WORDS.map(|(word, _)| format!("`{word}`")).join(", ");
    found.map(|(_, kind)| FieldRule::Type(*kind)).ok_or_else(|| format!("expected one of {}", words()))
}

fn tolerance(node: &Node) -> Result<FieldRule, String> {
    let wrong = || "expected a number such as `0.5`, or a share such as `1%`".to_owned();
    let legal = |number: f64| if number.is_finite() && number >= 0.0 { Ok(number) } else { Err(wrong()) };
    if let Some(number) = node.as_f64() {
        return Ok(FieldRule::Tolerance(Tolerance::Absolute(legal(number)?)));
    }
    let percent = node.as_str().and_then(|text| text.trim().strip_suffix('%'));
    let percent: f64 = percent.and_then(|number| number.trim().parse().ok()).ok_or_else(wrong)?;
    Ok(FieldRule::Tolerance(Tolerance::Relative(legal(percent)? / 100.0)))
}

fn overlap(node: &Node) -> Result<FieldRule, String> {
    let least = node.as_f64().filter(|least| (0.0..=1.0).contains(least));
    least.map(FieldRule::Overlap).ok_or_else(|| "expected a share from `0` to `1` such as `0.4`".to_owned())
}

fn key_fields(node: &Node) -> Result<FieldRule, String> {
    let wrong = || "expected the fields that identify an item, as in `[code, part]`".to_owned();
    let names: Vec<String> = match (node.as_str(), node.items()) {
        (Some(one), _) => vec![one.to_owned()],
        (_, Some(items)) => items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    if names.is_empty() || names.iter().any(String::is_empty) {
        Err(wrong())
    } else {
        Ok(FieldRule::Key(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Result<FieldRules, String> {
        let source = Arc::new(Source { path: "evals/scoring.yaml".into(), text: text.to_owned() });
        let mut problems = Problems::default();
        let rules = read(&source, &mut problems);
        problems.finish().map(|_| rules).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn every_rule_is_read() {
        let found = rules(
            "ignore: [notes, '**.rationale']\ncontains: [title]\nin_input: [quote]\nset: [tags]\norder: [steps]\n\
             types: { amount: money, '[].day': date_mdy }\ntolerance: { amount: 0.5, share: 1% }\n\
             key: { $: [code], people: name }\n",
        );
        let shown: Vec<String> =
            found.unwrap().rules.iter().map(|(path, rule)| format!("{path} {rule:?}")).collect();
        assert_eq!(
            shown,
            [
                "notes Ignore",
                "**.rationale Ignore",
                "title Contains",
                "quote InInput",
                "tags Set",
                "steps Order",
                "amount Type(Money)",
                "[].day Type(DateMonthFirst)",
                "amount Tolerance(Absolute(0.5))",
                "share Tolerance(Relative(0.01))",
                "$ Key([\"code\"])",
                "people Key([\"name\"])",
            ]
        );
        assert_eq!(rules("").unwrap(), FieldRules::default());
        assert_eq!(rules("# nothing yet\n").unwrap(), FieldRules::default());
    }

    #[test]
    fn mistakes_are_reported_together() {
        insta::assert_snapshot!(
            rules("ignor: [x]\nset: [a, 7]\ntypes: { b: currency }\ntolerance: { c: -1, d: 5 percent }\nkey: { e: [] }\n").unwrap_err(),
            @"
        `set`: expected a path, found a number
          --> evals/scoring.yaml:2:10
           |
         2 | set: [a, 7]
           |          ^

        error: `types`: expected one of `text`, `exact`, `number`, `money`, `percent`, `date`, `date_mdy`, `date_dmy`, `boolean`, `prose`, `phrase`
          --> evals/scoring.yaml:3:13
           |
         3 | types: { b: currency }
           |             ^^^^^^^^

        error: `tolerance`: expected a number such as `0.5`, or a share such as `1%`
          --> evals/scoring.yaml:4:17
           |
         4 | tolerance: { c: -1, d: 5 percent }
           |                 ^^

        error: `tolerance`: expected a number such as `0.5`, or a share such as `1%`
          --> evals/scoring.yaml:4:24
           |
         4 | tolerance: { c: -1, d: 5 percent }
           |                        ^^^^^^^^^

        error: `key`: expected the fields that identify an item, as in `[code, part]`
          --> evals/scoring.yaml:5:11
           |
         5 | key: { e: [] }
           |           ^

        error: unknown key `ignor`; legal are `ignore`, `types`, `tolerance`, `overlap`, `grader`, `contains`, `in_input`, `set`, `key`, `order`
          --> evals/scoring.yaml:1:1
           |
         1 | ignor: [x]
           | ^^^^^

        hint: did you mean `ignore`?
        "
        );
        insta::assert_snapshot!(
            rules("ignore: [a, 'a[0]']\nset: [a]\ntypes: { d: date }\ntolerance: { d: 1 }\n").unwrap_err(),
            @r"
        `a[0]` is not a path
          --> evals/scoring.yaml:1:13
           |
         1 | ignore: [a, 'a[0]']
           |             ^^^^^^

        hint: a path is written as `award.title`, `people[].name`, `[].code`, `*.notes` or `**.rationale`; `$` is the whole answer, `\.` a dot in a key

        error: `a` has `ignore` already, which does not go with `set`
          --> evals/scoring.yaml:2:7
           |
         2 | set: [a]
           |       ^

        error: `d` has `types` already, which does not go with `tolerance`
          --> evals/scoring.yaml:4:14
           |
         4 | tolerance: { d: 1 }
           |              ^
        "
        );
    }
}
