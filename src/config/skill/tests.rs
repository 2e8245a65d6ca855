//! The library of the fixtures, and hostile libraries.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::read::skill_names;
use super::*;
use crate::config::Invalid;
use crate::model::SkipReason;
use crate::util::schema_check::SchemaCheck;

fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/skills").join(folder)
}

fn fixture(name: &str) -> Skill {
    Skill::read(&fixtures("library"), &name.parse().unwrap(), Some(&fixtures("datasets"))).unwrap()
}

/// A library of a few files.
struct Library(tempfile::TempDir);

impl Library {
    /// With a skill `x` that has a prompt.
    fn new() -> Self {
        let library = Self(tempfile::tempdir().unwrap());
        library.write("components/x/prompt.md", "---\nname: y\nversion: 1.0.0\n---\n## Prompt\nDo it.\n");
        library
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn catalog(&self, output: &Value) -> &Self {
        let catalog = json!({"components": [{"slug": "x", "contracts": {"output": output}}]});
        self.write("component_catalog.json", serde_json::to_string_pretty(&catalog).unwrap())
    }

    fn case(&self, file: &str, text: impl AsRef<[u8]>) -> &Self {
        self.write(&format!("components/x/evals/cases/one/{file}"), text)
    }

    fn link(&self, target: impl AsRef<Path>, path: &str) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    fn read(&self) -> Result<Skill, SkillError> {
        Skill::read(self.0.path(), &"x".parse().unwrap(), Some(&self.0.path().join("data")))
    }

    fn skill(&self) -> Skill {
        self.read().unwrap()
    }

    fn error(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

#[test]
fn the_library_has_its_skills() {
    let names: Vec<String> =
        skill_names(&fixtures("library")).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        names,
        [
            "budget-lines",
            "call-checklist",
            "expense-review",
            "grant-letter-extraction",
            "letter-translation",
            "travel-summary"
        ]
    );
}

#[test]
fn a_skill_with_twelve_cases() {
    let skill = fixture("grant-letter-extraction");
    assert_eq!((skill.version.to_string().as_str(), skill.format), ("1.2.0", OutputFormat::JsonObject));
    assert_eq!((skill.cases.len(), skill.skipped.len()), (12, 0));
    assert_eq!(skill.warnings, Vec::<String>::new());
    assert!(skill.system.starts_with("You read one letter") && skill.system.ends_with("Do not guess."));
    let file = std::fs::read(fixtures("library/components/grant-letter-extraction/prompt.md")).unwrap();
    assert_eq!(skill.prompt_sha256, Digest::of(&file));
    assert_eq!(skill.prompt_body_sha256, Digest::of(skill.system.as_bytes()));
    assert_ne!(skill.prompt_sha256, skill.prompt_body_sha256);
    let files: Vec<&str> = skill.cases.iter().filter_map(|case| case.dataset_file.as_deref()).collect();
    assert_eq!(files, ["real/meadow_letters/text/kelp-forest.md", "real/meadow_letters/text/larch-data.md"]);
    assert!(skill.reads_datasets());
    assert_eq!(skill.rules.rules.len(), 5);
    assert_eq!(skill.schema.as_ref().unwrap().get("version"), None, "no server knows it");

    let alone = Skill::read(&fixtures("library"), &skill.name, None).unwrap();
    assert_eq!(alone.cases.len(), 10);
    let reasons: Vec<SkipReason> = alone.skipped.iter().map(|skipped| skipped.reason).collect();
    assert_eq!(reasons, [SkipReason::NoDatasets; 2]);
    assert_ne!(alone.cases_sha256, skill.cases_sha256);
    assert!(!alone.reads_datasets());
}

#[test]
fn the_output_is_chosen_where_the_input_is_listed_first() {
    let skill = fixture("budget-lines");
    assert_eq!(skill.format, OutputFormat::JsonArray);
    insta::assert_snapshot!(serde_json::to_string(skill.schema.as_ref().unwrap()).unwrap(), @r##"{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"array","minItems":1,"items":{"$ref":"#/$defs/line"},"$defs":{"amount":{"type":"number","minimum":0},"line":{"type":"object","additionalProperties":false,"required":["code","label","amount","share","parts"],"properties":{"code":{"type":"string","pattern":"^[A-M]$"},"label":{"type":"string"},"amount":{"$ref":"#/$defs/amount"},"share":{"type":["number","null"]},"parts":{"type":"array","items":{"type":"array","items":{"$ref":"#/$defs/amount"}}}}}}}"##);
    assert_eq!(skill.warnings, Vec::<String>::new());
    let ids: Vec<&str> = skill.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["Two_Blocks-1.0", "small-lab"]);
    assert!(skill.cases[0].message.starts_with("## Rules of the fund"));
    assert!(serde_json::from_str::<Value>(&skill.cases[1].message).unwrap()["items"].is_array());
}

#[test]
fn references_to_other_components_are_bundled() {
    let skill = fixture("letter-translation");
    let schema = skill.schema.clone().unwrap();
    let text = schema.to_string();
    assert!(!text.contains("../") && !text.contains("https://grants"), "{text}");
    let defs: Vec<&String> = schema["$defs"].as_object().unwrap().keys().collect();
    assert_eq!(defs, ["day", "grant-letter-extraction", "person"]);
    assert_eq!(schema["properties"]["letter"]["$ref"], "#/$defs/grant-letter-extraction");
    assert_eq!(skill.warnings, Vec::<String>::new());
    let check = SchemaCheck::new(&schema).unwrap();
    let Expected::Json(mut value) = skill.cases[0].expected.clone() else { panic!() };
    assert_eq!(check.misfit(&value), None);
    value["letter"]["people"][0]["role"] = json!("boss");
    assert!(check.misfit(&value).unwrap().contains("boss"));
    insta::assert_snapshot!(skill.cases[0].message, @r#"
    {
      "Grant No": "MB-0017",
      "Kind": "New",
      "Date": "09/30/2026",
      "Amount": "$18,400.00",
      "Overhead": "10.0000%",
      "Cost Share": "No",
      "Lead": "Rosa Quist",
      "Officer": "N/A",
      "Subjects": "moss; bogs"
    }

    Runtime inputs:

    ```json
    {
      "source_document": "form-17.json",
      "extracted_at": null,
      "form_version": null
    }
    ```
    "#);
}

#[test]
fn cases_that_cannot_run_are_skipped_with_the_reason() {
    let skill = fixture("call-checklist");
    assert_eq!(skill.format, OutputFormat::Markdown);
    let ids: Vec<&str> = skill.cases.iter().map(|case| case.id.as_str()).collect();
    assert_eq!(ids, ["open-call"]);
    let skipped: Vec<(&str, SkipReason)> =
        skill.skipped.iter().map(|skipped| (skipped.case.as_str(), skipped.reason)).collect();
    assert_eq!(
        skipped,
        [
            ("lost-file", SkipReason::DatasetFileMissing),
            ("private-scan", SkipReason::NoInput),
            ("scanned-file", SkipReason::DatasetFileNotText),
            ("two-texts", SkipReason::NoInput),
            ("unanswered", SkipReason::NoExpected),
        ]
    );
    assert_eq!(fixture("expense-review").cases.len(), 2);
    let bare = fixture("travel-summary");
    assert_eq!((bare.cases.len(), bare.schema.clone(), bare.format), (0, None, OutputFormat::JsonObject));
    insta::assert_snapshot!(bare.warnings.join("\n"), @"
    the catalog has no entry for `travel-summary`: its answer format is inferred from its files
      --> component_catalog.json:1:1
       |
     1 | {
       | ^
    ");
}

#[test]
fn without_a_catalog_the_files_decide() {
    let array = Library::new();
    array.write("components/x/schema.json", r#"{"type": "array"}"#);
    assert_eq!(array.skill().format, OutputFormat::JsonArray);
    let markdown = Library::new();
    markdown.case("input.md", "in").case("expected.md", "# Out");
    assert_eq!((markdown.skill().format, markdown.skill().cases.len()), (OutputFormat::Markdown, 1));
    let defs = Library::new();
    defs.write(
        "components/x/schema.json",
        r#"{"$defs": {"input": {"type": "string"}, "output": {"type": "object"}}}"#,
    );
    assert_eq!(defs.skill().schema, Some(json!({"type": "object"})));
    let other = Library::new();
    other.catalog(&json!({"format": "json_object"})).case("input.md", "in").case("expected.md", "# Out");
    assert_eq!(other.skill().skipped[0].reason, SkipReason::ExpectedOfOtherFormat);
}

#[test]
fn a_schema_can_belong_to_another_component() {
    let library = Library::new();
    library
        .write("components/y/schema.json", r##"{"$id": "https://a.example/y", "$defs": {"output": {"type": "array", "items": {"$ref": "#item"}}, "i": {"$anchor": "item", "type": "integer"}}}"##)
        .catalog(&json!({"format": "json_array", "schema_path": "components/y/schema.json", "schema_entrypoints": ["#/$defs/output"]}));
    assert_eq!(
        library.skill().schema,
        Some(json!({"type": "array", "items": {"$ref": "#/$defs/i"}, "$defs": {"i": {"type": "integer"}}}))
    );
    library.catalog(&json!({"format": "json_array"}));
    library.write(
        "components/x/schema.json",
        r#"{"version": "1", "$ref": "https://a.example/y#/$defs/output"}"#,
    );
    assert_eq!(library.skill().schema.unwrap()["items"], json!({"$ref": "#/$defs/i"}));
}

#[test]
fn schemas_can_refer_to_themselves_and_to_each_other() {
    let library = Library::new();
    library
        .write("components/x/schema.json", r##"{"type": "object", "properties": {"$ref": {"const": {"$ref": "kept"}}, "self": {"$ref": "#"}, "y": {"$ref": "../y/schema.json"}}}"##)
        .write("components/y/schema.json", r#"{"type": ["object", "null"], "properties": {"x": {"$ref": "../x/schema.json"}}}"#);
    let schema = library.skill().schema.unwrap();
    assert_eq!(
        schema,
        json!({"type": "object", "properties": {"$ref": {"const": {"$ref": "kept"}}, "self": {"$ref": "#"}, "y": {"$ref": "#/$defs/y"}},
            "$defs": {"y": {"type": ["object", "null"], "properties": {"x": {"$ref": "#"}}}}})
    );
    let check = SchemaCheck::new(&schema).unwrap();
    assert_eq!(check.misfit(&json!({"self": {"y": {"x": {"$ref": {"$ref": "kept"}}}}})), None);
    assert!(check.misfit(&json!({"self": {"y": 1}})).is_some());
}

#[test]
fn references_cannot_leave_the_components() {
    for reference in [
        "../../../etc/passwd",
        "/etc/passwd",
        "file:///etc/passwd",
        "https://evil.example/schema.json",
        "../../secret.json",
        "../../data/x.json",
        "../y/link.json",
        "../y/missing.json",
        "../../.git/config",
        "#/$defs/none",
        "#none",
        "%2e%2e/x",
        "",
    ] {
        let library = Library::new();
        library
            .write("secret.json", r#"{"title": "SECRET"}"#)
            .write("data/x.json", r#"{"title": "SECRET"}"#)
            .write(".git/config", r#"{"title": "SECRET"}"#)
            .link("../../secret.json", "components/y/link.json")
            .write(
                "components/x/schema.json",
                json!({"type": "object", "properties": {"a": {"$ref": reference}}}).to_string(),
            );
        match library.read() {
            // The whole schema itself.
            Ok(skill) => assert_eq!(
                (reference, skill.schema.unwrap()["properties"]["a"].clone()),
                ("", json!({"$ref": "#"}))
            ),
            Err(error) => assert!(!error.to_string().contains("SECRET"), "{error}"),
        }
    }
}

#[test]
fn links_and_paths_that_leave_the_clones_are_rejected() {
    let library = Library::new();
    library.write("data/.git/config", "token").write("out/secret", "secret").case("expected.json", "{}");
    for path in ["../out/secret", "/etc/passwd", ".git/config", "a/../../out/secret"] {
        library.case("metadata.yaml", format!("dataset_file: {path}\n"));
        assert!(library.error().contains("points outside the data sets"), "{path}");
    }
    library.link("../../out", "data/away").link("../out/secret", "data/link");
    library.case("metadata.yaml", "dataset_file: link\n");
    insta::assert_snapshot!(library.error(), @"
    data sets: `link` is a link or is reached through one; links are not followed
      --> components/x/evals/cases/one:1:1
    ");
    library.case("metadata.yaml", "dataset_file: away/secret\n");
    assert!(library.error().contains("links are not followed"));
    let linked = Library::new();
    linked
        .write("out/secret", "s")
        .case("expected.json", "{}")
        .link("/etc/passwd", "components/x/evals/cases/one/input.md");
    insta::assert_snapshot!(linked.error(), @"
    `components/x/evals/cases/one/input.md` is a link or is reached through one; links are not followed
      --> components/x/evals/cases/one/input.md:1:1
    ");
    let folder = Library::new();
    folder.link("/etc", "components/x/evals/cases/etc");
    assert!(folder.error().contains("links are not followed"));
    let component = Library::new();
    component.link("x", "components/z");
    assert!(skill_names(component.0.path()).is_err());
}

#[test]
fn mistakes_are_shown_together() {
    let library = Library::new();
    library
        .write("components/x/prompt.md", "---\nversion: one\n---\n# X\n")
        .catalog(
            &json!({"format": "xml", "schema_path": "schemas/x.json", "schema_entrypoints": ["#/a", "#/b"]}),
        )
        .write("components/x/evals/scoring.yaml", "weights: {}\n")
        .case("input.md", "a")
        .case("input.json", "{}")
        .case("expected.json", "{\n  \"a\": 1,\n}\n")
        .case("metadata.yaml", "runtime_inputs: 7\n")
        .write("components/x/evals/cases/-bad name/input.md", "a");
    insta::assert_snapshot!(library.error(), @r#"
    `version`: expected three numbers, as in `1.4.0`
      --> components/x/prompt.md:2:10
       |
     2 | version: one
       |          ^^^

    error: the line `## Prompt` is missing
      --> components/x/prompt.md:4:1
       |
     4 | # X
       | ^

    hint: the prompt is the text after the line `## Prompt`

    error: `contracts.output.format`: unknown format "xml"
      --> component_catalog.json:4:15
       |
     4 |       "slug": "x",
       |               ^^^

    hint: legal are `json_object`, `json_array`, `markdown` and `markdown_…`

    error: `contracts.output.schema_entrypoints`: which of `#/a`, `#/b` describes answers?
      --> component_catalog.json:4:15
       |
     4 |       "slug": "x",
       |               ^^^

    hint: list one, or name one of them `output`

    error: `contracts.output.schema_path`: schema `schemas/x.json` not found
      --> component_catalog.json:4:15
       |
     4 |       "slug": "x",
       |               ^^^

    hint: a schema is below `components/`, and its path starts there

    error: unknown key `weights`; legal are `ignore`, `types`, `tolerance`, `overlap`, `grader`, `contains`, `in_input`, `set`, `key`, `order`
      --> components/x/evals/scoring.yaml:1:1
       |
     1 | weights: {}
       | ^^^^^^^

    error: `-bad name` cannot be the name of a case
      --> components/x/evals/cases:1:1

    hint: 1 to 100 characters of `A-Z`, `a-z`, `0-9`, `.`, `_` and `-`, a letter or digit first

    error: `runtime_inputs`: expected a mapping, found a number
      --> components/x/evals/cases/one/metadata.yaml:1:17
       |
     1 | runtime_inputs: 7
       |                 ^

    error: invalid JSON: trailing comma
      --> components/x/evals/cases/one/expected.json:3:1
       |
     3 | }
       | ^

    error: both `input.md` and `input.json`: which is the input?
      --> components/x/evals/cases/one:1:1
    "#);
}

#[test]
fn more_mistakes() {
    let both = Library::new();
    both.case("input.md", "a").case("metadata.yaml", "dataset_file: a/b\n").case("expected.json", "{}");
    insta::assert_snapshot!(both.error(), @"
    `metadata.yaml` names a `dataset_file`, and there is an input as well: which is it?
      --> components/x/evals/cases/one:1:1
    ");
    let broken = Library::new();
    broken.write("component_catalog.json", "{\n  \"components\": [,]\n}\n");
    insta::assert_snapshot!(broken.error(), @r#"
    invalid JSON: expected value
      --> component_catalog.json:2:18
       |
     2 |   "components": [,]
       |                  ^
    "#);
    let schema = Library::new();
    schema.write("components/x/schema.json", r#"{"type": "objekt"}"#);
    insta::assert_snapshot!(schema.error(), @r#"
    invalid JSON schema: "objekt" is not valid under any of the schemas listed in the 'anyOf' keyword
      --> components/x/schema.json:1:1
    "#);
    let reference = Library::new();
    reference.write("components/x/schema.json", r#"{"$ref": "https://evil.example/x"}"#);
    insta::assert_snapshot!(reference.error(), @"
    `components/x/schema.json`: the reference `https://evil.example/x` points outside the components of the library
      --> components/x/schema.json:1:1

    hint: references may lead to schemas below `components/` of the same library
    ");
    let misfit = Library::new();
    misfit
        .write("components/x/schema.json", r#"{"type": "object", "required": ["a"]}"#)
        .case("input.md", "a")
        .case("expected.json", "{}");
    insta::assert_snapshot!(misfit.skill().warnings.join("\n"), @r#"
    the expected answer does not fit the schema: "a" is a required property
      --> components/x/evals/cases/one/expected.json:1:1
    "#);
    let bytes = Library::new();
    bytes.case("input.md", b"\xff\xfe").case("expected.json", "{}");
    insta::assert_snapshot!(bytes.error(), @"
    the text is not UTF-8
      --> components/x/evals/cases/one/input.md:1:1
       |
     1 | ��
       | ^

    hint: save the file as UTF-8
    ");
}

#[test]
fn an_unknown_skill_is_named() {
    let error = Skill::read(&fixtures("library"), &"budget-line".parse().unwrap(), None).unwrap_err();
    assert!(matches!(error, SkillError::Unknown { .. }));
    let failure = crate::model::Failure::from(error);
    insta::assert_snapshot!(format!("{failure}\nhint: {}", failure.hint_text().unwrap()), @"
    no skill `budget-line`: `components/budget-line/prompt.md` not found in the library
    hint: did you mean `budget-lines`?
    ");
    let nowhere = Skill::read(Path::new("/nonexistent"), &"x".parse().unwrap(), None).unwrap_err();
    assert!(matches!(nowhere, SkillError::Unknown { near: None, .. }));
}

#[test]
fn the_digest_of_cases_covers_input_and_expected_answer() {
    let library = Library::new();
    library.case("input.md", "a").case("expected.json", "{\"v\": 1}");
    let digest = library.skill().cases_sha256;
    library
        .case("metadata.yaml", "notes: x\n")
        .case("notes.md", "x")
        .write("components/x/evals/drafts/d/expected.json", "{");
    assert_eq!(library.skill().cases_sha256, digest);
    library.case("expected.json", "{\n  \"v\": 1\n}\n");
    assert_eq!(library.skill().cases_sha256, digest, "white space is not what is expected");
    library.case("expected.json", "{\"v\": 2}");
    assert_ne!(library.skill().cases_sha256, digest);
    library.case("expected.json", "{\"v\": 1}").case("metadata.yaml", "runtime_inputs: { v: 1 }\n");
    assert_ne!(library.skill().cases_sha256, digest);
}

#[test]
fn the_response_format_follows_the_skill() {
    use StructuredOutput::{JsonObject, JsonSchema, JsonSchemaStrict, None as Nothing};
    let (object, array, markdown, bare) = (
        fixture("grant-letter-extraction"),
        fixture("budget-lines"),
        fixture("expense-review"),
        fixture("travel-summary"),
    );
    for (skill, asked, got) in [
        (&object, None, JsonSchema),
        (&object, Some(JsonSchemaStrict), JsonSchemaStrict),
        (&object, Some(JsonObject), JsonObject),
        (&object, Some(Nothing), Nothing),
        (&array, None, JsonSchema),
        (&array, Some(JsonObject), Nothing),
        (&markdown, Some(JsonSchema), Nothing),
        (&bare, Some(JsonSchema), JsonObject),
    ] {
        assert_eq!(skill.structured_output(asked), got, "{} {asked:?}", skill.name);
    }
}

fn models(text: &str) -> Result<Models, Invalid> {
    Models::read(text, Path::new(Models::PATH))
}

#[test]
fn models_are_read() {
    let text = std::fs::read_to_string(fixtures("library").join(Models::PATH)).unwrap();
    let shown: Vec<String> = models(&text)
        .unwrap()
        .models
        .iter()
        .map(|model| {
            let params = model.params(model.structured_output.unwrap_or(StructuredOutput::None));
            format!("{} {} {:?}", model.id, params.text(), model.timeout)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    meadow/quill-large temperature=0.1 max_tokens=16384 seed=null structured_output=json_schema Some(330s)
    meadow/quill-small temperature=0 max_tokens=8192 seed=7 structured_output=json_object Some(300s)
    quill-latest temperature=null max_tokens=8192 seed=null structured_output=none None
    meadow/quill-retired temperature=0.1 max_tokens=null seed=null structured_output=none None
    ");
    let twice = "models: [{ id: a, temperature: 0 }, { id: a, temperature: 1 }]";
    assert_eq!(models(twice).unwrap().models.len(), 2);
}

#[test]
fn mistakes_in_models_are_reported() {
    let error = |text: &str| models(text).unwrap_err().to_string();
    insta::assert_snapshot!(error("models:\n  - id: a\n    base_url: https://evil.example\n    api_key: sk-secret\n"), @"
    `base_url` is not allowed here
      --> .evaluator/models.yaml:3:5
       |
     3 |     base_url: https://evil.example
       |     ^^^^^^^^

    hint: only the operator's `targets.yaml` sets addresses and keys: otherwise anyone who can write to this file could send the key anywhere

    error: `api_key` is not allowed here
      --> .evaluator/models.yaml:4:5
       |
     4 |     api_key: ***
       |     ^^^^^^^

    hint: only the operator's `targets.yaml` sets addresses and keys: otherwise anyone who can write to this file could send the key anywhere
    ");
    insta::assert_snapshot!(error("models:\n  - id: a\n    temprature: 0\n    max_tokens: 0\n    temperature: 3\n    structured_output: yes\n    timeout: 5\n  - temperature: 1\n"), @"
    `temperature`: expected a number from 0 to 2, found 3
      --> .evaluator/models.yaml:5:18
       |
     5 |     temperature: 3
       |                  ^

    error: `max_tokens`: expected 1 to 10000000, found 0
      --> .evaluator/models.yaml:4:17
       |
     4 |     max_tokens: 0
       |                 ^

    error: `structured_output`: expected one of `json_schema`, `json_schema_strict`, `json_object`, `none`
      --> .evaluator/models.yaml:6:24
       |
     6 |     structured_output: yes
       |                        ^^^

    error: `timeout`: expected a duration such as `90s` or `10m`
      --> .evaluator/models.yaml:7:14
       |
     7 |     timeout: 5
       |              ^

    error: unknown key `temprature` in a model; legal are `id`, `temperature`, `max_tokens`, `seed`, `structured_output`, `timeout`, `timeout_s`
      --> .evaluator/models.yaml:3:5
       |
     3 |     temprature: 0
       |     ^^^^^^^^^^

    hint: did you mean `temperature`?

    error: `id` is missing
      --> .evaluator/models.yaml:8:5
       |
     8 |   - temperature: 1
       |     ^

    hint: `id` is the name that the server knows the model by
    ");
    insta::assert_snapshot!(error("models:\n  - id: a b\n    timeout: 1s\n    timeout_s: 1\n  - id: c\n  - id: c\n    timeout_s: 4\n  - id: d\n    timeout_s: -1\n"), @"
    `id`: expected 1 to 200 characters without white space
      --> .evaluator/models.yaml:2:9
       |
     2 |   - id: a b
       |         ^^^

    error: `timeout_s` and `timeout` exclude each other
      --> .evaluator/models.yaml:4:16
       |
     4 |     timeout_s: 1
       |                ^

    error: the model `c` is listed twice with the same settings
      --> .evaluator/models.yaml:6:5
       |
     6 |   - id: c
       |     ^

    error: `timeout_s`: expected a number of seconds
      --> .evaluator/models.yaml:9:16
       |
     9 |     timeout_s: -1
       |                ^^
    ");
    insta::assert_snapshot!(error("model: []\n"), @"
    unknown key `model` in the file; legal are `models`
      --> .evaluator/models.yaml:1:1
       |
     1 | model: []
       | ^^^^^

    hint: did you mean `models`?

    error: `models` is missing
      --> .evaluator/models.yaml:1:1
       |
     1 | model: []
       | ^

    hint: write `models:` and below it `- id: …`
    ");
    insta::assert_snapshot!(error("models: []\n"), @"
    `models` is empty
      --> .evaluator/models.yaml:1:9
       |
     1 | models: []
       |         ^

    hint: write `- id: …` below it
    ");
    insta::assert_snapshot!(error("models: a\n"), @"
    `models`: expected a list, found a string
      --> .evaluator/models.yaml:1:9
       |
     1 | models: a
       |         ^
    ");
    insta::assert_snapshot!(error(""), @"
    the file: expected a mapping, found nothing
      --> .evaluator/models.yaml:1:1
    ");
}
