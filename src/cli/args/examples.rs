//! The examples at the end of each command's help. A test parses every line that starts with `run-evals`.

pub(super) const ROOT: &str = "\
Examples:
  run-evals init                                 # write a first project
  run-evals eval suite.eval.yaml --target gpt    # run a suite

`run-evals COMMAND -h` shows the usual options, `--help` all of them.";

pub(super) const INIT: &str = "\
Examples:
  run-evals init
  run-evals init evals";

pub(super) const INIT_RUNNER: &str = "\
Examples:
  run-evals init runner acme/eval-runner --provider openai --dry-run
  run-evals init runner acme/eval-runner --provider openai";

pub(super) const DOCTOR: &str = "\
Examples:
  run-evals doctor
  run-evals doctor --target cloud-eval-runner --ping";

pub(super) const GRADE: &str = "\
Examples:
  run-evals grade
  run-evals grade latest --grader-target gpt --ask-again unreadable";

pub(super) const RUNS: &str = "\
Examples:
  run-evals runs
  run-evals runs --format json";

pub(super) const OPEN: &str = "\
Examples:
  run-evals open
  run-evals open 20260102-030405-1a2b3c4d";

pub(super) const CLEAN: &str = "\
Examples:
  run-evals clean --older-than 30d
  run-evals clean --older-than 30d --yes";

pub(super) const CANCEL: &str = "\
Examples:
  run-evals cancel 20260102-030405-1a2b3c4d
  run-evals cancel 20260102-030405-1a2b3c4d --target cloud-eval-runner";

pub(super) const LEADERBOARD: &str = "\
Examples:
  run-evals leaderboard merge leaderboard -o leaderboard.json
  run-evals leaderboard export leaderboard.json --format csv
  run-evals leaderboard site -o _site";

pub(super) const LEADERBOARD_MERGE: &str = "\
Examples:
  run-evals leaderboard merge leaderboard -o leaderboard.json
  run-evals leaderboard merge leaderboard.json -o leaderboard.json    # repair a conflict";

pub(super) const LEADERBOARD_EXPORT: &str = "\
Examples:
  run-evals leaderboard export leaderboard.json --format csv
  run-evals leaderboard export leaderboard --format hf --benchmark acme/skills --model acme/quill > skills.yaml";

pub(super) const LEADERBOARD_SITE: &str = "\
Examples:
  run-evals leaderboard site -o _site
  run-evals leaderboard site ../skill-library -o _site --title 'Our skills'";

pub(super) const SKILLS: &str = "\
Examples:
  run-evals skills lint
  run-evals skills lint summarize --write";

pub(super) const SKILLS_LINT: &str = "\
Examples:
  run-evals skills lint --strict
  run-evals skills lint summarize --write";

pub(super) const EVAL: &str = "\
Examples:
  run-evals eval suite.eval.yaml --target gpt
  run-evals eval suite.eval.yaml --target gpt --threshold 0.9 --html report.html";

pub(super) const DISPATCH: &str = "\
Examples:
  run-evals dispatch suite.eval.yaml --target cloud-eval-runner --output out
  run-evals dispatch --requests requests.jsonl --target gpt --output out";

pub(super) const COLLECT: &str = "\
Examples:
  run-evals collect 20260102-030405-1a2b3c4d --output out
  run-evals collect 20260102-030405-1a2b3c4d --target cloud-eval-runner";

pub(super) const RUN: &str = "\
Examples:
  run-evals run --shard 0
  run-evals run --batch-id 20260102-030405-1a2b3c4d --target gpt";

pub(super) const REPORT: &str = "\
Examples:
  run-evals report out --html report.html
  run-evals report out --baseline main:evals/baseline --pr-comment";

pub(super) const BUNDLE: &str = "\
Examples:
  run-evals bundle suite.eval.yaml --check
  run-evals bundle suite.eval.yaml -o bundle --archive";

pub(super) const BUNDLE_VERIFY: &str = "\
Examples:
  run-evals bundle verify bundle
  run-evals bundle verify bundle.tar.gz --format json";

pub(super) const EVALUATE: &str = "\
Examples:
  run-evals evaluate summarize --target gpt --output out
  run-evals evaluate summarize --replicates 5 --open-pr";

pub(super) const TRIGGER: &str = "\
Examples:
  run-evals trigger summarize --url https://evals.example.com
  run-evals trigger --url https://evals.example.com    # in a workflow `on: push`";

pub(super) const SWEEP: &str = "\
Examples:
  run-evals sweep --url https://evals.example.com --dry-run
  run-evals sweep --url https://evals.example.com --since 48h";

pub(super) const SYNC: &str = "\
Examples:
  run-evals sync refunds
  run-evals sync --status";

pub(super) const ROLLOUT: &str = "\
Examples:
  run-evals rollout dispatch rows.jsonl \\
    --model-base-url https://traces.example.com
  run-evals rollout run --dataset rows.jsonl";

pub(super) const ROLLOUT_RUN: &str = "\
Examples:
  run-evals rollout run --dataset rows.jsonl
  run-evals rollout run --command 'python agent.py' --command-timeout 10m";

pub(super) const ROLLOUT_DISPATCH: &str = "\
Examples:
  run-evals rollout dispatch rows.jsonl \\
    --model-base-url https://traces.example.com
  run-evals rollout dispatch rows.jsonl \\
    --model-base-url https://traces.example.com --batch --output done.jsonl";

pub(super) const ADAPTER: &str = "\
Examples:
  run-evals adapter --target cloud --id {EVAL_ID} \\
    --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE}
  In AgentV's targets.yaml:
  - name: cloud
    provider: github-actions
    repo: myorg/eval-runner
    workflow: run-evals.yml
    command: >-
      /usr/local/bin/run-evals adapter --target cloud --workers 50
      --prompt-file {PROMPT_FILE} --output-file {OUTPUT_FILE} --id {EVAL_ID}
      --attempt {ATTEMPT} --files {FILES}";

pub(super) const SERVE: &str = "\
Examples:
  run-evals serve --studio --runs .run-evals/results
  run-evals serve --library skills --targets targets.yaml";

pub(super) const TARGETS: &str = "\
Examples:
  run-evals targets schema
  run-evals targets schema > targets.schema.json";

pub(super) const TARGETS_SCHEMA: &str = "\
Examples:
  run-evals targets schema
  run-evals targets schema > targets.schema.json";

pub(super) const COMPLETIONS: &str = "\
Examples:
  run-evals completions bash > run-evals.bash
  run-evals completions zsh > \"${fpath[1]}/_run-evals\"";
