//! The message for every bad file. The helpers check that no message shows the key.

use super::*;

#[test]
fn an_unknown_key() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\ntempature: 1")), @r"
    unknown key `tempature` for provider `openai`
      --> targets.yaml:6:5
       |
     6 |     tempature: 1
       |     ^^^^^^^^^

    hint: did you mean `temperature`?
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\nfrobnicate: 1")), @r"
    unknown key `frobnicate` for provider `github-actions`
      --> targets.yaml:6:5
       |
     6 |     frobnicate: 1
       |     ^^^^^^^^^^

    hint: legal for provider `github-actions`: `name`, `provider`, `repo`, `workflow`, `ref`, `target`, `results_branch`, `results_artifact`, `poll_interval`, `timeout`, `shards`, `command`, `timeout_seconds`, `cwd`, `verbose`, `keep_temp_files`, `healthcheck`, `files_format`, `attachments_format`, `provider_batching`, `subagent_mode_allowed`, `fallback_targets`, `grader_target`, `judge_target` and 6 more
    ");
    insta::assert_snapshot!(refused(&one("provider: mock\nprice: { input: 1, output_per_mtok: 2 }")), @r"
    target `t`: `price.input_per_mtok` is missing
      --> targets.yaml:4:12
       |
     4 |     price: { input: 1, output_per_mtok: 2 }
       |            ^^

    hint: US dollars for a million tokens

    error: unknown key `input` in `price`
      --> targets.yaml:4:14
       |
     4 |     price: { input: 1, output_per_mtok: 2 }
       |              ^^^^^

    hint: legal in `price`: `input_per_mtok`, `output_per_mtok`, `cached_input_per_mtok`
    ");
}

#[test]
fn a_key_in_camel_case() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nmaxConcurrency: 4")), @r"
    unknown key `maxConcurrency` for provider `openai`
      --> targets.yaml:6:5
       |
     6 |     maxConcurrency: 4
       |     ^^^^^^^^^^^^^^

    hint: keys are in snake case: `max_concurrency`
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napiKey: sk-test-0123456789abcdef")), @r"
    target `t`: `api_key` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `api_key: ${{ OPENAI_API_KEY }}`

    error: unknown key `apiKey` for provider `openai`
      --> targets.yaml:5:5
       |
     5 |     apiKey: ***
       |     ^^^^^^

    hint: keys are in snake case: `api_key`
    ");
}

#[test]
fn a_key_beside_a_link() {
    insta::assert_snapshot!(refused("targets:\n  - name: a\n    use_target: b\n    model: m\n"), @r"
    unknown key `model` beside `use_target`
      --> targets.yaml:4:5
       |
     4 |     model: m
       |     ^^^^^

    hint: legal beside `use_target`: `name`, `use_target`, `provider_batching`, `subagent_mode_allowed`, `fallback_targets`, `grader_target`, `judge_target`, `workers`, `max_retries`, `retry_initial_delay_ms`, `retry_max_delay_ms`, `retry_backoff_factor`, `retry_status_codes`
    ");
}

#[test]
fn a_value_of_the_wrong_type() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nmax_concurrency: many")), @r"
    `max_concurrency`: expected a whole number, 1 or more, found `many`
      --> targets.yaml:6:22
       |
     6 |     max_concurrency: many
       |                      ^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\ndedupe: 1")), @r"
    `dedupe`: expected `true` or `false`, found the number 1
      --> targets.yaml:6:13
       |
     6 |     dedupe: 1
       |             ^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: 5\napi_key: ${{ KEY }}")), @r"
    `model`: expected a string, found the number 5
      --> targets.yaml:4:12
       |
     4 |     model: 5
       |            ^

    hint: put it in quotes
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nprice: 3")), @r"
    `price`: expected a mapping, found a number
      --> targets.yaml:6:12
       |
     6 |     price: 3
       |            ^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nstop: [a, 1]")), @r"
    `stop`: expected a string or a list of strings, found the number 1
      --> targets.yaml:6:15
       |
     6 |     stop: [a, 1]
       |               ^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\ntemperature: '0.5'")), @r"
    `temperature`: expected a number from 0 to 2, found the string `0.5`
      --> targets.yaml:6:18
       |
     6 |     temperature: '0.5'
       |                  ^^^^^
    ");
}

#[test]
fn a_number_out_of_range() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nmax_concurrency: 0")), @r"
    `max_concurrency`: expected a whole number, 1 or more, found the number 0
      --> targets.yaml:6:22
       |
     6 |     max_concurrency: 0
       |                      ^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nprice: { input_per_mtok: -1, output_per_mtok: .inf }")), @r"
    `price.input_per_mtok`: expected a number, 0 or more, found the number -1
      --> targets.yaml:6:30
       |
     6 |     price: { input_per_mtok: -1, output_per_mtok: .inf }
       |                              ^^

    error: `price.output_per_mtok`: expected a number, 0 or more, found the number inf
      --> targets.yaml:6:51
       |
     6 |     price: { input_per_mtok: -1, output_per_mtok: .inf }
       |                                                   ^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: mock\nerror_rate: 1.5")), @r"
    `error_rate`: expected a number from 0 to 1, found the number 1.5
      --> targets.yaml:4:17
       |
     4 |     error_rate: 1.5
       |                 ^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\nshards: 257")), @r"
    `shards`: expected `auto` or a whole number from 1 to 256, found the number 257
      --> targets.yaml:6:13
       |
     6 |     shards: 257
       |             ^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nmax_tokens: 0")), @r"
    `max_tokens`: expected a whole number, 1 or more, found the number 0
      --> targets.yaml:6:17
       |
     6 |     max_tokens: 0
       |                 ^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nbudget_usd: 0\nprice: { input_per_mtok: 1, output_per_mtok: 1 }")), @r"
    `budget_usd`: expected a number above 0, found the number 0
      --> targets.yaml:6:17
       |
     6 |     budget_usd: 0
       |                 ^
    ");
}

#[test]
fn a_bad_duration() {
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\ntimeout: 10")), @r"
    `timeout`: expected a duration with its unit, found the number 10
      --> targets.yaml:6:14
       |
     6 |     timeout: 10
       |              ^^

    hint: write `10s`, `10m`, `10h` or `10ms`
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\ntimeout: soon")), @r"
    `timeout`: expected a duration such as `90s`, `10m`, `1h` or `500ms`, found `soon`
      --> targets.yaml:6:14
       |
     6 |     timeout: soon
       |              ^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\npoll_interval: 10ms")), @r"
    `poll_interval`: expected at least `1s`, found `10ms`
      --> targets.yaml:6:20
       |
     6 |     poll_interval: 10ms
       |                    ^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\ntimeout: 99999h")), @r"
    `timeout`: expected at most `8760h`, found `99999h`
      --> targets.yaml:6:14
       |
     6 |     timeout: 99999h
       |              ^^^^^^
    ");
}

#[test]
fn a_bad_repository() {
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: https://github.com/o/n\nworkflow: w.yml")), @r"
    `repo`: expected a repository as `owner/name`, found `https://github.com/o/n`
      --> targets.yaml:4:11
       |
     4 |     repo: https://github.com/o/n
       |           ^^^^^^^^^^^^^^^^^^^^^^

    hint: write `o/n`
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: runner\nworkflow: .github/workflows/w.yml")), @r"
    `repo`: expected a repository as `owner/name`, found `runner`
      --> targets.yaml:4:11
       |
     4 |     repo: runner
       |           ^^^^^^

    error: `workflow`: expected the file name of a workflow, such as `run-evals.yml`, found `.github/workflows/w.yml`
      --> targets.yaml:5:15
       |
     5 |     workflow: .github/workflows/w.yml
       |               ^^^^^^^^^^^^^^^^^^^^^^^

    hint: write `w.yml`
    ");
}

#[test]
fn results_in_two_places() {
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\nresults_branch: a\nresults_artifact: true")), @r"
    `results_branch` and `results_artifact: true` exclude each other
      --> targets.yaml:6:21
       |
     6 |     results_branch: a
       |                     ^

    hint: keep one: a branch keeps an audit trail, artifacts leave no trace in the repository
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\nresults_branch: eval-batch")), @r"
    `results_branch`: expected another name, because `eval-batch` is where batches are handed over, found `eval-batch`
      --> targets.yaml:6:21
       |
     6 |     results_branch: eval-batch
       |                     ^^^^^^^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\nresults_branch: incoming/x")), @r"
    `results_branch`: expected another name, because run-evals uses `incoming` itself, found `incoming/x`
      --> targets.yaml:6:21
       |
     6 |     results_branch: incoming/x
       |                     ^^^^^^^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\nresults_branch: a..b")), @r"
    `results_branch`: expected a name that git allows for a branch, found `a..b`
      --> targets.yaml:6:21
       |
     6 |     results_branch: a..b
       |                     ^^^^
    ");
}

#[test]
fn two_spellings_of_one_setting() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nmax_tokens: 1\nmax_output_tokens: 2")), @r"
    `max_output_tokens` and `max_tokens` mean the same
      --> targets.yaml:7:24
       |
     7 |     max_output_tokens: 2
       |                        ^

    hint: keep one of them
    ");
    insta::assert_snapshot!(refused(&one("provider: mock\nmode: echo\nresponse: x")), @r"
    `response` and `mode` exclude each other
      --> targets.yaml:5:15
       |
     5 |     response: x
       |               ^

    hint: keep one of `mode: echo`, `response`, `template` and `script`
    ");
    insta::assert_snapshot!(refused(&one("provider: mock\nmode: shout")), @r"
    `mode`: expected `echo`, found `shout`
      --> targets.yaml:4:11
       |
     4 |     mode: shout
       |           ^^^^^

    hint: for a fixed answer use `response`, for many of them `script`
    ");
}

#[test]
fn an_unknown_provider() {
    insta::assert_snapshot!(refused(&one("provider: opnai")), @r"
    `provider`: expected one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`, found `opnai`
      --> targets.yaml:3:15
       |
     3 |     provider: opnai
       |               ^^^^^

    hint: did you mean `openai`?
    ");
    insta::assert_snapshot!(refused(&one("provider: something-else")), @r"
    `provider`: expected one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`, found `something-else`
      --> targets.yaml:3:15
       |
     3 |     provider: something-else
       |               ^^^^^^^^^^^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: [x]")), @r"
    `provider`: expected one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`, found a list
      --> targets.yaml:3:15
       |
     3 |     provider: [x]
       |               ^
    ");
    insta::assert_snapshot!(refused("targets:\n  - name: t\n"), @r"
    target `t`: neither `provider` nor `use_target`
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `provider:`, one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`
    ");
}

#[test]
fn a_missing_setting() {
    insta::assert_snapshot!(refused(&one("provider: anthropic")), @r"
    target `t`: `api_key` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `api_key: ${{ ANTHROPIC_API_KEY }}`
    ");
    insta::assert_snapshot!(refused(&one("provider: openai-compatible\nmodel: m")), @r"
    target `t`: `base_url` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `base_url: https://…/v1`, up to but without `/chat/completions`
    ");
    insta::assert_snapshot!(refused(&one("provider: azure\nmodel: m\napi_key: ${{ KEY }}")), @r"
    target `t`: `base_url` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `base_url: https://<resource>.openai.azure.com`
    ");
    insta::assert_snapshot!(refused(&one("provider: github-actions")), @r"
    target `t`: `repo` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `repo: owner/name`, the repository that holds the keys

    error: target `t`: `workflow` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `workflow: run-evals.yml`, the workflow's file name
    ");
    insta::assert_snapshot!(refused(&one("provider: mock\nprice: { input_per_mtok: 1 }")), @r"
    target `t`: `price.output_per_mtok` is missing
      --> targets.yaml:4:12
       |
     4 |     price: { input_per_mtok: 1 }
       |            ^^

    hint: US dollars for a million tokens
    ");
}

#[test]
fn a_missing_model_is_reported_where_the_target_is_used() {
    let yaml = "targets:\n  - { name: g, provider: gemini, api_key: '${{ KEY }}' }\n  - { name: a, provider: azure, resource: r, api_key: '${{ KEY }}' }\n  - { name: other, provider: mock }\n";
    assert!(load(yaml).unwrap().0.resolve("other", &env()).is_ok());
    insta::assert_snapshot!(unresolved(yaml, "g", &env()), @r"
    target `g`: `model` is missing
      --> targets.yaml:2:13
       |
     2 |   - { name: g, provider: gemini, api_key: '${{ KEY }}' }
       |             ^

    hint: add `model:`, the provider's name of the model
    ");
    insta::assert_snapshot!(unresolved(yaml, "a", &env()), @r"
    target `a`: `model` is missing
      --> targets.yaml:3:13
       |
     3 |   - { name: a, provider: azure, resource: r, api_key: '${{ KEY }}' }
       |             ^

    hint: add `model:`, the name of the deployment
    ");
    insta::assert_snapshot!(unresolved(&one("provider: gemini\nmodel: ${{ GEMINI_MODEL_NAME }}\napi_key: ${{ KEY }}"), "t", &env()), @r"
    target `t`: `model` needs the environment variable `GEMINI_MODEL_NAME`, which is not set
      --> targets.yaml:4:12
       |
     4 |     model: ${{ GEMINI_MODEL_NAME }}
       |            ^^^^^^^^^^^^^^^^^^^^^^^^

    hint: `export GEMINI_MODEL_NAME=…`, put it into `.env`, or pass it in the `env:` of the workflow's step
    ");
}

#[test]
fn a_budget_without_a_price() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nbudget_usd: 5")), @r"
    `budget_usd` without `price`: the cost cannot be computed
      --> targets.yaml:6:17
       |
     6 |     budget_usd: 5
       |                 ^

    hint: add `price: { input_per_mtok: …, output_per_mtok: … }`, in US dollars for a million tokens
    ");
}

#[test]
fn a_duplicate_name() {
    insta::assert_snapshot!(refused("targets:\n  - name: a\n    provider: mock\n  - provider: mock\n    name: a\n"), @r"
    duplicate target `a`, first on line 2
      --> targets.yaml:5:11
       |
     5 |     name: a
       |           ^

    hint: rename one of them; line 2 is `- name: a`
    ");
}

#[test]
fn a_bad_name() {
    insta::assert_snapshot!(refused("targets:\n  - provider: mock\n  - name: '${{ X }}'\n    provider: mock\n  - just-a-name\n"), @r"
    target `#1`: `name` is missing
      --> targets.yaml:2:5
       |
     2 |   - provider: mock
       |     ^

    hint: add `name:`, the name that `--target` takes

    error: `name`: expected text on one line without `${{ … }}`
      --> targets.yaml:3:11
       |
     3 |   - name: '${{ X }}'
       |           ^^^^^^^^^^

    error: target 3: expected a mapping, found a string
      --> targets.yaml:5:5
       |
     5 |   - just-a-name
       |     ^^^^^^^^^^^
    ");
}

#[test]
fn a_file_of_another_shape() {
    insta::assert_snapshot!(refused(""), @r"
    expected a mapping, found nothing
      --> targets.yaml:1:1

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`
    ");
    insta::assert_snapshot!(refused("- name: a\n"), @r"
    expected a mapping, found a list
      --> targets.yaml:1:1
       |
     1 | - name: a
       | ^

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`
    ");
    insta::assert_snapshot!(refused("targets: { a: b }\n"), @r"
    expected a list of targets, found a mapping
      --> targets.yaml:1:10
       |
     1 | targets: { a: b }
       |          ^^

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`
    ");
    insta::assert_snapshot!(refused("target: []\n"), @r"
    unknown key `target`
      --> targets.yaml:1:1
       |
     1 | target: []
       | ^^^^^^

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`

    error: expected a list of targets, found no `targets`
      --> targets.yaml:1:1
       |
     1 | target: []
       | ^

    hint: the file is one mapping: `targets:`, then a list of targets that each begin with `- name:`
    ");
    insta::assert_snapshot!(refused("targets: [\n"), @r"
    invalid YAML: while parsing a node, did not find expected node content
      --> targets.yaml:1:10
       |
     1 | targets: [
       |          ^
    ");
}

#[test]
fn several_problems_are_reported_at_once() {
    insta::assert_snapshot!(refused("targets:\n  - name: a\n    provider: opnai\n  - name: b\n    provider: mock\n    latency: 5\n    error_rate: 2\n  - name: b\n    use_target: c\n    modle: x\n"), @r"
    `provider`: expected one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`, found `opnai`
      --> targets.yaml:3:15
       |
     3 |     provider: opnai
       |               ^^^^^

    hint: did you mean `openai`?

    error: `latency`: expected a duration with its unit, found the number 5
      --> targets.yaml:6:14
       |
     6 |     latency: 5
       |              ^

    hint: write `5s`, `5m`, `5h` or `5ms`

    error: `error_rate`: expected a number from 0 to 1, found the number 2
      --> targets.yaml:7:17
       |
     7 |     error_rate: 2
       |                 ^

    error: unknown key `modle` beside `use_target`
       --> targets.yaml:10:5
        |
     10 |     modle: x
        |     ^^^^^

    hint: legal beside `use_target`: `name`, `use_target`, `provider_batching`, `subagent_mode_allowed`, `fallback_targets`, `grader_target`, `judge_target`, `workers`, `max_retries`, `retry_initial_delay_ms`, `retry_max_delay_ms`, `retry_backoff_factor`, `retry_status_codes`

    error: duplicate target `b`, first on line 4
      --> targets.yaml:8:11
       |
     8 |   - name: b
       |           ^

    hint: rename one of them; line 4 is `- name: b`
    ");
}

#[test]
fn a_literal_key_is_rejected_and_never_shown() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: sk-test-0123456789abcdef")), @r"
    a key must not be in this file
      --> targets.yaml:5:14
       |
     5 |     api_key: ***
       |              ^^^

    hint: write `api_key: ${{ OPENAI_API_KEY }}` and set that variable where the target is called
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: EMPTY")), @r"
    a key must not be in this file
      --> targets.yaml:5:14
       |
     5 |     api_key: ***
       |              ^^^

    hint: write `api_key: ${{ OPENAI_API_KEY }}` and set that variable where the target is called
    ");
    insta::assert_snapshot!(refused("targets:\n  - { name: t, provider: gemini, model: m, api_key: \"sk-test-0123456789abcdef\", wrong: 1 }\n"), @r"
    a key must not be in this file
      --> targets.yaml:2:53
       |
     2 |   - { name: t, provider: gemini, model: m, api_key: **************************, wrong: 1 }
       |                                                     ^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: write `api_key: ${{ GEMINI_API_KEY }}` and set that variable where the target is called

    error: unknown key `wrong` for provider `gemini`
      --> targets.yaml:2:81
       |
     2 |   - { name: t, provider: gemini, model: m, api_key: **************************, wrong: 1 }
       |                                                                                 ^^^^^

    hint: legal for provider `gemini`: `name`, `provider`, `model`, `deployment`, `deployment_name`, `variant`, `base_url`, `endpoint`, `api_key`, `ca_file`, `seed`, `temperature`, `top_p`, `stop`, `max_tokens`, `max_output_tokens`, `reasoning_effort`, `response_format`, `max_concurrency`, `requests_per_minute`, `tokens_per_minute`, `timeout`, `timeout_seconds`, `price` and 15 more
    ");
    insta::assert_snapshot!(refused(&one("provider: openai-compatible\nbase_url: https://h/v1\nmodel: m\napi_key: ${{ X:-sk-test-0123456789abcdef }}")), @r"
    a key must not be in this file
      --> targets.yaml:6:14
       |
     6 |     api_key: ${{ X:-************************ }}
       |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: write `api_key: ${{ NAME }}` and set that variable where the target is called
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: Bearer-sk-test-0123456789abcdef-${{ KEY }}")), @r"
    `api_key` must be one whole reference to an environment variable
      --> targets.yaml:5:14
       |
     5 |     api_key: ***
       |              ^^^

    hint: write `api_key: ${{ OPENAI_API_KEY }}` and set that variable where the target is called
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_ky: sk-test-0123456789abcdef")), @r"
    target `t`: `api_key` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `api_key: ${{ OPENAI_API_KEY }}`

    error: unknown key `api_ky` for provider `openai`
      --> targets.yaml:5:5
       |
     5 |     api_ky: ************************
       |     ^^^^^^

    hint: did you mean `api_key`?
    ");
    insta::assert_snapshot!(refused("targets:\n  - name: t\n    provider: openai\n    model: m\n    api_key: >-\n      sk-test-0123456789abcdef\n"), @r"
    a key must not be in this file
      --> targets.yaml:6:7
       |
     6 |       ************************
       |       ^

    hint: write `api_key: ${{ OPENAI_API_KEY }}` and set that variable where the target is called
    ");
}

#[test]
fn a_bad_address() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nbase_url: llm.example.com")), @r"
    `base_url`: expected a URL such as `https://api.example.com/v1`, found `llm.example.com`
      --> targets.yaml:6:15
       |
     6 |     base_url: llm.example.com
       |               ^^^^^^^^^^^^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nbase_url: https://me:sk-test-0123456789abcdef@llm.example.com")), @r"
    `base_url`: expected a URL without a user or password in it, found a string
      --> targets.yaml:6:15
       |
     6 |     base_url: https://***************************@llm.example.com
       |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: a key belongs in `api_key`, as `${{ NAME }}`
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nbase_url: https://h/v1/chat/completions")), @r"
    `base_url`: expected a URL that ends before the path of the call, such as `/chat/completions`, found `https://h/v1/chat/completions`
      --> targets.yaml:6:15
       |
     6 |     base_url: https://h/v1/chat/completions
       |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    ");
    insta::assert_snapshot!(refused(&one("provider: azure\nmodel: m\napi_key: ${{ KEY }}\nendpoint: https://r.openai.azure.com/?api-version=2024-10-21\nversion: latest")), @r"
    `endpoint`: expected a URL without `?` and `#`, found a string
      --> targets.yaml:6:15
       |
     6 |     endpoint: https://r.openai.azure.com/?api-version=2024-10-21
       |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: the version belongs in `api_version`

    error: `version`: expected a date such as `2024-10-21` or `2025-04-01-preview`, or `v1`, found `latest`
      --> targets.yaml:7:14
       |
     7 |     version: latest
       |              ^^^^^^
    ");
}

#[test]
fn an_invalid_reference() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: ${{ vars.MODEL }}\napi_key: ${{ secrets.OPENAI_API_KEY }}")), @r"
    `model`: a reference that names no variable
      --> targets.yaml:4:12
       |
     4 |     model: ${{ vars.MODEL }}
       |            ^^^^^^^^^^^^^^^^^

    hint: write `${{ NAME }}` or `${{ NAME:-default }}`; `NAME` is an environment variable, and a workflow passes a secret to it in the step's `env:`

    error: `api_key` must be one whole reference to an environment variable
      --> targets.yaml:5:14
       |
     5 |     api_key: ${{ secrets.OPENAI_API_KEY }}
       |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: write `api_key: ${{ OPENAI_API_KEY }}` and set that variable where the target is called
    ");
}

#[test]
fn a_bad_answer_format() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nresponse_format: { type: yaml }")), @r"
    `response_format`: unknown variant `yaml`, expected one of `text`, `json_object`, `json_schema`
      --> targets.yaml:6:22
       |
     6 |     response_format: { type: yaml }
       |                      ^^

    hint: for example `{ type: json_object }`, or `{ type: json_schema, json_schema: { name: …, schema: … } }`
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nresponse_format: { type: json_schema, json_schema: { name: 'a b', schema: {} } }")), @r"
    `response_format`: expected a name of 1 to 64 letters, digits, `_` and `-`
      --> targets.yaml:6:22
       |
     6 |     response_format: { type: json_schema, json_schema: { name: 'a b', schema: {} } }
       |                      ^^

    hint: for example `{ type: json_object }`, or `{ type: json_schema, json_schema: { name: …, schema: … } }`
    ");
}

#[test]
fn an_unset_variable() {
    insta::assert_snapshot!(unresolved(&one("provider: openai\nmodel: ${{ MODEL }}\napi_key: ${{ EMPTY }}\nprice: { input_per_mtok: '${{ IN }}', output_per_mtok: 1 }"), "t", &env()), @r"
    target `t`: `model` needs the environment variable `MODEL`, which is not set
      --> targets.yaml:4:12
       |
     4 |     model: ${{ MODEL }}
       |            ^^^^^^^^^^^^

    hint: `export MODEL=…`, put it into `.env`, or pass it in the `env:` of the workflow's step

    error: target `t`: `api_key` needs the environment variable `EMPTY`, which is not set
      --> targets.yaml:5:14
       |
     5 |     api_key: ${{ EMPTY }}
       |              ^^^^^^^^^^^^

    hint: `export EMPTY=…`, put it into `.env`, or pass it in the `env:` of the workflow's step

    error: target `t`: `price.input_per_mtok` needs the environment variable `IN`, which is not set
      --> targets.yaml:6:30
       |
     6 |     price: { input_per_mtok: '${{ IN }}', output_per_mtok: 1 }
       |                              ^^^^^^^^^^^

    hint: `export IN=…`, put it into `.env`, or pass it in the `env:` of the workflow's step
    ");
    insta::assert_snapshot!(unresolved("targets:\n  - name: default\n    use_target: ${{ X:-gpt }}\n  - name: gpt\n    provider: gemini\n    model: m\n    api_key: ${{ GEMINI_API_KEY }}\n", "default", &env()), @r"
    target `gpt` (default → ${{ X:-gpt }} = gpt): `api_key` needs the environment variable `GEMINI_API_KEY`, which is not set
      --> targets.yaml:7:14
       |
     7 |     api_key: ${{ GEMINI_API_KEY }}
       |              ^^^^^^^^^^^^^^^^^^^^^

    hint: `export GEMINI_API_KEY=…`, put it into `.env`, or pass it in the `env:` of the workflow's step
    ");
}

#[test]
fn a_key_is_legal_only_in_api_key() {
    insta::assert_snapshot!(unresolved(&one("provider: github-actions\nrepo: o/n\nworkflow: w.yml\ntarget: ${{ KEY }}"), "t", &env()), @r"
    `target`: `KEY` holds a key, and only `api_key` may refer to one
      --> targets.yaml:6:13
       |
     6 |     target: ${{ KEY }}
       |             ^^^^^^^^^^

    hint: write the value itself, or refer to a variable without a key, token or password in its name and its value
    ");
    insta::assert_snapshot!(unresolved(&one("provider: openai-compatible\nmodel: m\nbase_url: https://h/${{ KEY }}"), "t", &env()), @r"
    `base_url`: `KEY` holds a key, and only `api_key` may refer to one
      --> targets.yaml:5:15
       |
     5 |     base_url: https://h/${{ KEY }}
       |               ^^^^^^^^^^^^^^^^^^^^

    hint: write the value itself, or refer to a variable without a key, token or password in its name and its value
    ");
}

#[test]
fn a_github_token_is_not_a_key_for_another_server() {
    let env = Env::from([("GITHUB_TOKEN", KEY)]);
    let target = |url: &str| {
        one(&format!(
            "provider: openai-compatible\nmodel: m\nbase_url: {url}\napi_key: ${{{{ GITHUB_TOKEN }}}}"
        ))
    };
    insta::assert_snapshot!(unresolved(&target("https://models.github.ai.example/v1"), "t", &env), @r"
    `GITHUB_TOKEN` says who you are on GitHub: it is not sent to a model's server
      --> targets.yaml:6:14
       |
     6 |     api_key: ${{ GITHUB_TOKEN }}
       |              ^^^^^^^^^^^^^^^^^^^

    hint: write `api_key: ${{ NAME }}`, a variable that holds the key of this server
    ");
    insta::assert_snapshot!(refused(&target("https://models.github.ai/inference")), @r"
    `base_url`: GitHub Models was retired on 2026-07-30
      --> targets.yaml:5:15
       |
     5 |     base_url: https://models.github.ai/inference
       |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^

    hint: use a vendor's API; with `auth` instead of `api_key` it needs no stored key either (docs/keyless.md)
    ");
}

#[test]
fn a_variable_with_a_wrong_value_is_not_shown() {
    insta::assert_snapshot!(unresolved(&one("provider: openai\nmodel: m\napi_key: ${{ KEY }}\nbase_url: ${{ ODD }}\ntimeout: ${{ ODD }}\nmax_tokens: ${{ ODD }}\nresponse_format: { type: '${{ ODD }}' }"), "t", &env()), @r"
    `base_url`: expected a URL such as `https://api.example.com/v1`, found something else in the variable `ODD`
      --> targets.yaml:6:15
       |
     6 |     base_url: ${{ ODD }}
       |               ^^^^^^^^^^

    error: `max_tokens`: expected a whole number, 1 or more, found something else in the variable `ODD`
      --> targets.yaml:8:17
       |
     8 |     max_tokens: ${{ ODD }}
       |                 ^^^^^^^^^^

    error: `response_format`: its variables do not give a valid one
      --> targets.yaml:9:22
       |
     9 |     response_format: { type: '${{ ODD }}' }
       |                      ^^

    hint: for example `{ type: json_object }`, or `{ type: json_schema, json_schema: { name: …, schema: … } }`

    error: `timeout`: expected a duration such as `90s`, `10m`, `1h` or `500ms`, found something else in the variable `ODD`
      --> targets.yaml:7:14
       |
     7 |     timeout: ${{ ODD }}
       |              ^^^^^^^^^^
    ");
    insta::assert_snapshot!(unresolved(&one("provider: ${{ ODD }}"), "t", &env()), @r"
    `provider`: expected one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`, found something else in the variable `ODD`
      --> targets.yaml:3:15
       |
     3 |     provider: ${{ ODD }}
       |               ^^^^^^^^^^
    ");
}

#[test]
fn an_impossible_key() {
    insta::assert_snapshot!(unresolved(&one("provider: openai\nmodel: m\napi_key: ${{ K }}"), "t", &Env::from([("K", "sk-test-0123456789abcdef with more")])), @r"
    the key in `K` has white space, control characters or letters that no key has
      --> targets.yaml:5:14
       |
     5 |     api_key: ${{ K }}
       |              ^^^^^^^^

    hint: copy the key again, without quotes and line breaks
    ");
}

#[test]
fn an_empty_default_of_a_required_key() {
    insta::assert_snapshot!(unresolved(&one("provider: openai\nmodel: m\napi_key: ${{ NONE:- }}"), "t", &env()), @r"
    target `t`: `api_key` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `api_key: ${{ OPENAI_API_KEY }}`
    ");
}

#[test]
fn a_dangling_link() {
    insta::assert_snapshot!(unresolved("targets:\n  - name: a\n    use_target: gtp\n  - name: gpt\n    provider: mock\n", "a", &env()), @r"
    `use_target` does not resolve: a → gtp (no such target)
      --> targets.yaml:3:17
       |
     3 |     use_target: gtp
       |                 ^^^

    hint: did you mean `gpt`?
    ");
    insta::assert_snapshot!(unresolved("targets:\n  - name: a\n    use_target: b\n  - name: b\n    use_target: ${{ X }}\n  - name: gpt\n    provider: mock\n", "a", &env()), @r"
    `use_target` does not resolve: a → b → ${{ X }} (unset)
      --> targets.yaml:5:17
       |
     5 |     use_target: ${{ X }}
       |                 ^^^^^^^^

    hint: set `X` to the name of a target; its targets: `a`, `b`, `gpt`
    ");
    insta::assert_snapshot!(unresolved("targets:\n  - name: a\n    use_target: b\n  - name: b\n    use_target: ${{ X }}\n  - name: gpt\n    provider: mock\n", "a", &Env::from([("X", KEY)])), @r"
    `use_target` does not resolve: a → b → ${{ X }} (no such target)
      --> targets.yaml:5:17
       |
     5 |     use_target: ${{ X }}
       |                 ^^^^^^^^

    hint: its targets: `a`, `b`, `gpt`
    ");
    insta::assert_snapshot!(unresolved("targets:\n  - name: a\n    use_target: b\n  - name: b\n    use_target: ${{ X }}\n  - name: gpt\n    provider: mock\n", "gtp", &env()), @r"
    no target `gtp` in `targets.yaml`

    hint: did you mean `gpt`?
    ");
    insta::assert_snapshot!(unresolved("targets: []\n", "x", &env()), @r"
    no target `x` in `targets.yaml`

    hint: the file has no targets
    ");
}

#[test]
fn a_link_cycle() {
    insta::assert_snapshot!(unresolved("targets:\n  - name: a\n    use_target: b\n  - name: b\n    use_target: ${{ X }}\n  - name: gpt\n    provider: mock\n", "a", &Env::from([("X", "a")])), @r"
    `use_target` is circular: a → b → ${{ X }} = a
      --> targets.yaml:5:17
       |
     5 |     use_target: ${{ X }}
       |                 ^^^^^^^^

    hint: give one of these targets a `provider` instead
    ");
    insta::assert_snapshot!(unresolved("targets:\n  - name: a\n    use_target: a\n", "a", &env()), @r"
    `use_target` is circular: a → a
      --> targets.yaml:3:17
       |
     3 |     use_target: a
       |                 ^

    hint: give one of these targets a `provider` instead
    ");
}

#[test]
fn targets_that_only_agentv_can_run() {
    insta::assert_snapshot!(unresolved("targets:\n  - name: coder\n    provider: codex\n    anyKey: 1\n  - name: own\n    provider: my-tool\n    command: tool {PROMPT}\n", "coder", &env()), @r"
    target `coder`: only `agentv eval` runs this provider
      --> targets.yaml:3:15
       |
     3 |     provider: codex
       |               ^^^^^

    hint: choose a target whose provider is one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`
    ");
    insta::assert_snapshot!(unresolved("targets:\n  - name: own\n    provider: my-tool\n    command: tool {PROMPT}\n", "own", &env()), @r"
    target `own`: only `agentv eval` runs this provider
      --> targets.yaml:3:15
       |
     3 |     provider: my-tool
       |               ^^^^^^^

    hint: choose a target whose provider is one of `openai`, `anthropic`, `gemini`, `azure`, `openai-compatible`, `openrouter`, `bedrock`, `vertex`, `mock`, `github-actions`
    ");
}

#[test]
fn a_key_that_is_not_text() {
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: ''")), @r"
    target `t`: `api_key` is missing
      --> targets.yaml:2:11
       |
     2 |   - name: t
       |           ^

    hint: add `api_key: ${{ OPENAI_API_KEY }}`
    ");
    insta::assert_snapshot!(refused(&one("provider: openai\nmodel: m\napi_key: 1234567890")), @r"
    a key must not be in this file
      --> targets.yaml:5:14
       |
     5 |     api_key: ***
       |              ^^^

    hint: write `api_key: ${{ OPENAI_API_KEY }}` and set that variable where the target is called
    ");
}

#[test]
fn broken_yaml_does_not_show_the_key_either() {
    let yaml = format!("targets:\n  - {{ name: t, api_key: {KEY}, model: [ }}\n");
    insta::assert_snapshot!(refused(&yaml), @r"
    invalid YAML: while parsing a node, did not find expected node content
      --> targets.yaml:2:60
       |
     2 |   - { name: t, api_key: ************************, model: [ }
       |                                                            ^
    ");
}

#[test]
fn a_variable_is_never_shown_whichever_key_names_it() {
    const KEYS: &str = "model base_url max_concurrency requests_per_minute tokens_per_minute price timeout \
        timeout_seconds dedupe keep_raw allow_models budget_usd temperature top_p seed stop max_tokens reasoning_effort \
        response_format api_version version endpoint repo workflow ref target results_branch results_artifact \
        poll_interval shards mode response template script latency error_rate rate_limit_rate retry_after \
        max_retries retry_initial_delay_ms retry_backoff_factor workers grader_target fallback_targets \
        provider_batching frobnicate";
    let mut refusals = 0;
    for provider in crate::model::PROVIDERS.iter().map(|kind| kind.name) {
        let base: &[&str] = match provider {
            "mock" => &[],
            "github-actions" => &["repo: o/n", "workflow: w.yml"],
            _ => &["model: m", "api_key: ${{ KEY }}", "base_url: https://h/v1"],
        };
        for key in KEYS.split_whitespace() {
            let same = if key == "endpoint" { "base_url" } else { key };
            let base: Vec<&str> =
                base.iter().copied().filter(|line| !line.starts_with(&format!("{same}:"))).collect();
            let yaml = one(&format!("provider: {provider}\n{}\n{key}: ${{{{ ODD }}}}", base.join("\n")));
            let failure = match load(&yaml) {
                Ok((file, _)) => file.resolve("t", &env()).err(),
                Err(failure) => Some(failure),
            };
            if let Some(failure) = failure {
                refusals += usize::from(told(&failure).contains("in the variable `ODD`"));
            }
        }
    }
    assert!(refusals > 100, "only {refusals} values were refused at all");
}

#[test]
fn an_unreadable_file() {
    let failure =
        TargetsFile::load(Path::new("/nowhere/targets.yaml"), Path::new("targets.yaml")).unwrap_err();
    insta::assert_snapshot!(told(&failure), @r"
    cannot read `targets.yaml`: No such file or directory (os error 2)

    hint: `--targets FILE` names another file
    ");
}

#[test]
fn likely_mistakes_are_warnings() {
    let (file, warnings) = load(&one("
        provider: anthropic
        model: m
        api_key: ${{ KEY }}
        base_url: http://gateway.internal
        retry_status_codes: [500]
        thinking_budget: 100"))
    .unwrap();
    insta::assert_snapshot!(warnings.join("\n\n"), @r"
    `base_url` is plain `http://`: the key crosses the network unencrypted
      --> targets.yaml:6:15
       |
     6 |     base_url: http://gateway.internal
       |               ^^^^^^^^^^^^^^^^^^^^^^^

    hint: use `https://`, or a tunnel that ends on this machine

    `thinking_budget` has no effect here: only AgentV reads it
      --> targets.yaml:8:22
       |
     8 |     thinking_budget: 100
       |                      ^^^

    hint: use `reasoning_effort`

    `retry_status_codes` has no effect: which errors are retried is not configurable
      --> targets.yaml:7:25
       |
     7 |     retry_status_codes: [500]
       |                         ^

    hint: 408, 409, 424, 429, 5xx but 501, and broken connections are retried
    ");
    assert!(file.resolve("t", &env()).is_ok());
}

#[test]
fn a_region_cannot_lead_the_identity_of_a_job_to_another_host() {
    for region in ["evil.example/x?", "evil.example", "us-east-1.evil", "US", "a@b", ""] {
        let text = format!(
            "provider: bedrock\nmodel: m\nregion: \"{region}\"\nauth: {{github_oidc: {{role_arn: \"arn:aws:iam::1:role/x\"}}}}"
        );
        let message = refused(&one(&text));
        assert!(message.contains("region"), "{region}: {message}");
    }
}
