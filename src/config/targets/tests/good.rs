//! How good files are read.

use super::*;

const DESIGN: &str = "\
targets:
  - name: cloud-eval-runner
    provider: github-actions
    repo: myorg/eval-runner
    workflow: run-evals.yml
    ref: main                      # default: the repo's default branch
    target: gpt                    # which of the runner's own targets serves the batch
    results_branch: eval-results   # or results_artifact: true
    poll_interval: 10s
    timeout: 10m
    shards: auto
  - name: gpt                      # a runner-side target
    provider: openai               # openai | anthropic | gemini | azure | openai-compatible | mock
    model: gpt-6-luna
    api_key: ${{ OPENAI_API_KEY }}
    base_url: https://llm.example.com/v1            # only here, never in a batch
    max_concurrency: 64
    requests_per_minute: 3000
    tokens_per_minute: 2000000
    price: { input_per_mtok: 0.25, output_per_mtok: 2.0 }
  - name: default
    use_target: gpt
";

#[test]
fn the_example_of_the_design() {
    let (file, warnings) = load(DESIGN).unwrap();
    assert_eq!(warnings, [""; 0]);
    assert_eq!(file.names().collect::<Vec<_>>(), ["cloud-eval-runner", "gpt", "default"]);
    // A remote target needs no environment.
    let Target::Remote(cloud) = file.resolve("cloud-eval-runner", &Env::default()).unwrap() else {
        panic!("it is remote")
    };
    assert_eq!((cloud.repo.as_str(), cloud.workflow.as_str()), ("myorg/eval-runner", "run-evals.yml"));
    assert_eq!((cloud.git_ref.as_deref(), cloud.target.as_deref()), (Some("main"), Some("gpt")));
    assert_eq!(cloud.results, RemoteResults::Branch("eval-results".into()));
    assert_eq!(cloud.poll_interval, Some(Duration::from_secs(10)));
    assert_eq!((cloud.timeout, cloud.shards), (Duration::from_mins(10), Shards::Auto));

    let Target::Runner(gpt) = file.resolve("default", &Env::from([("OPENAI_API_KEY", KEY)])).unwrap() else {
        panic!("it is a runner target")
    };
    assert_eq!(gpt.name, "gpt");
    assert_eq!(reached(&gpt.provider), ("https://llm.example.com/v1", Some(KEY)));
    assert_eq!(gpt.params.model.as_deref(), Some("gpt-6-luna"));
    assert_eq!(gpt.limits.max_concurrency.get(), 64);
    assert_eq!(gpt.limits.requests_per_minute.map(NonZeroU32::get), Some(3000));
    assert_eq!(gpt.limits.tokens_per_minute.map(NonZeroU32::get), Some(2_000_000));
    let price = gpt.price.unwrap();
    assert_eq!((price.input_per_mtok, price.output_per_mtok), (0.25, 2.0));
    assert!(!format!("{gpt:?}").contains(KEY));
}

#[test]
fn every_provider_has_its_defaults() {
    for (provider, base_url) in [
        ("openai", "https://api.openai.com/v1"),
        ("openrouter", "https://openrouter.ai/api/v1"),
        ("anthropic", "https://api.anthropic.com"),
        ("gemini", "https://generativelanguage.googleapis.com"),
        ("google", "https://generativelanguage.googleapis.com"),
    ] {
        let target =
            runner(&one(&format!("provider: {provider}\nmodel: m\napi_key: ${{{{ KEY }}}}")), &env());
        assert_eq!(reached(&target.provider), (base_url, Some(KEY)), "{provider}");
        assert_eq!(target.limits.max_concurrency.get(), 16);
        assert_eq!(target.timeout, Duration::from_mins(10));
        assert!(!target.dedupe && !target.keep_raw && target.budget_usd.is_none());
        let expected = match provider {
            "openai" => (Api::OpenAi, None),
            "openrouter" => (Api::OpenAiCompatible, None),
            "anthropic" => (Api::Anthropic, Some("2023-06-01")),
            _ => (Api::Gemini, None),
        };
        let endpoint = endpoint(&target.provider);
        assert_eq!((endpoint.api, endpoint.api_version.as_deref()), expected);
    }
}

#[test]
fn every_setting_of_a_runner_target() {
    let target = runner(
        &one("
            provider: anthropic
            model: claude
            api_key: ${{ KEY }}
            api_version: '2024-01-01'
            workers: 3
            timeout: 90s
            dedupe: true
            keep_raw: true
            price: { input_per_mtok: 1, output_per_mtok: 2, cached_input_per_mtok: 0.1 }
            budget_usd: 2.5
            temperature: 0
            top_p: 0.9
            seed: -7
            stop: [a, b]
            max_output_tokens: 100
            reasoning_effort: high
            response_format: { type: json_schema, json_schema: { name: x, schema: { type: object } } }
            max_retries: 0
            retry_initial_delay_ms: 10
            retry_max_delay_ms: 20
            retry_backoff_factor: 1.5
            provider_batching: true
            subagent_mode_allowed: false
            fallback_targets: [other]
            grader_target: judge"),
        &env(),
    );
    assert_eq!(endpoint(&target.provider).api_version.as_deref(), Some("2024-01-01"));
    assert_eq!(target.limits.max_concurrency.get(), 3);
    assert_eq!(target.timeout, Duration::from_secs(90));
    assert!(target.dedupe && target.keep_raw);
    assert_eq!(target.price.unwrap().cached_input_per_mtok, Some(0.1));
    assert_eq!(target.budget_usd, Some(2.5));
    let params = &target.params;
    assert_eq!((params.temperature, params.top_p, params.seed), (Some(0.0), Some(0.9), Some(-7)));
    assert_eq!((params.stop.as_slice(), params.max_tokens), (["a".into(), "b".into()].as_slice(), Some(100)));
    assert_eq!(params.reasoning_effort.as_deref(), Some("high"));
    assert!(
        matches!(&params.response_format, Some(ResponseFormat::JsonSchema { json_schema }) if json_schema.name == "x")
    );
    let retry = target.retry;
    assert_eq!((retry.max_retries, retry.backoff_factor), (0, 1.5));
    assert_eq!(
        (retry.initial_delay, retry.max_delay),
        (Duration::from_millis(10), Duration::from_millis(20))
    );
}

#[test]
fn max_concurrency_wins_over_workers_and_one_stop_is_a_list() {
    let yaml = one("provider: mock\nworkers: 3\nmax_concurrency: 5\nstop: END\ntimeout_seconds: 1.5");
    let target = runner(&yaml, &env());
    assert_eq!(target.limits.max_concurrency.get(), 5);
    assert_eq!(target.params.stop, ["END"]);
    assert_eq!(target.timeout, Duration::from_millis(1500));
}

#[test]
fn a_compatible_server_needs_no_secret() {
    let base = "provider: openai-compatible\nmodel: m\nbase_url: http://localhost:11434/v1/";
    assert_eq!(reached(&runner(&one(base), &env()).provider), ("http://localhost:11434/v1", None));
    let with = |key: &str| runner(&one(&format!("{base}\napi_key: {key}")), &env());
    assert_eq!(reached(&with("ollama").provider).1, Some("ollama"));
    assert_eq!(reached(&with("${{ NONE:-EMPTY }}").provider).1, Some("EMPTY"));
    assert_eq!(reached(&with("${{ NONE:-}}").provider).1, None);
    assert_eq!(reached(&with("${{ KEY }}").provider).1, Some(KEY));
}

#[test]
fn a_base_url_keeps_the_users_version() {
    for (provider, given, base_url) in [
        ("openai", "https://proxy.example/", "https://proxy.example"),
        ("openai", "https://proxy.example/llm", "https://proxy.example/llm"),
        ("openai-compatible", "https://proxy.example", "https://proxy.example"),
        ("anthropic", "https://proxy.example/v1/", "https://proxy.example/v1"),
        ("gemini", "https://proxy.example/v1", "https://proxy.example/v1"),
        ("gemini", "https://proxy.example/v1beta", "https://proxy.example/v1beta"),
        ("azure", "my-resource", "https://my-resource.openai.azure.com"),
        ("azure", "x.services.ai.azure.com", "https://x.services.ai.azure.com"),
        ("azure", "https://x.openai.azure.com/openai/v1/", "https://x.openai.azure.com/openai/v1"),
        ("azure", "https://gateway.example/azure", "https://gateway.example/azure"),
    ] {
        let yaml =
            one(&format!("provider: {provider}\nmodel: m\napi_key: ${{{{ KEY }}}}\nendpoint: {given}"));
        assert_eq!(reached(&runner(&yaml, &env()).provider).0, base_url, "{provider} {given}");
    }
}

#[test]
fn azure_with_agentvs_keys() {
    for (lines, model, version) in [
        ("deployment: d\nversion: v1", "d", None),
        ("deployment_name: d\nmodel: gpt-4o\napi_version: 2024-10-21", "d", Some("2024-10-21")),
        ("model: d\nversion: 2025-04-01-preview", "d", Some("2025-04-01-preview")),
        ("model: d", "d", None),
    ] {
        let yaml = one(&format!("provider: azure\nresource_name: r\napi_key: ${{{{ KEY }}}}\n{lines}"));
        let target = runner(&yaml, &env());
        assert_eq!(target.params.model.as_deref(), Some(model), "{lines}");
        assert_eq!(endpoint(&target.provider).api_version.as_deref(), version, "{lines}");
    }
}

#[test]
fn an_unset_variable_omits_settings_that_are_optional_in_agentv() {
    for key in ["endpoint", "base_url"] {
        let yaml = one(&format!(
            "provider: openai\nmodel: m\napi_key: ${{{{ KEY }}}}\n{key}: ${{{{ OPENAI_ENDPOINT }}}}"
        ));
        assert_eq!(reached(&runner(&yaml, &env()).provider).0, "https://api.openai.com/v1");
        let set = Env::from([("KEY", KEY), ("OPENAI_ENDPOINT", "https://proxy.example/v1")]);
        assert_eq!(reached(&runner(&yaml, &set).provider).0, "https://proxy.example/v1");
        // A part of a value is not a separate setting.
        let (file, _) = load(&yaml.replace("${{ OPENAI_ENDPOINT }}", "https://${{ HOST }}/v1")).unwrap();
        assert!(file.resolve("t", &env()).is_err());
    }
    for key in ["version", "api_version"] {
        let yaml = one(&format!(
            "provider: azure\nresource: r\nmodel: d\napi_key: ${{{{ KEY }}}}\n{key}: ${{{{ AZURE_VERSION }}}}"
        ));
        let target = runner(&yaml, &env());
        assert_eq!(endpoint(&target.provider).api_version, None);
    }
}

#[test]
fn the_mock_answers_in_several_ways() {
    assert!(matches!(mock("").reply, MockReply::Echo));
    assert!(matches!(mock("mode: echo").reply, MockReply::Echo));
    assert!(matches!(mock("response: hello").reply, MockReply::Template(text) if text == "hello"));
    assert!(
        matches!(mock("template: 'you said {{ input }}'").reply, MockReply::Template(text) if text == "you said {{ input }}")
    );
    let MockReply::Script(path) = mock("script: replies/a.jsonl").reply else { panic!("a script") };
    assert!(path.is_absolute() && path.ends_with("replies/a.jsonl"), "{}", path.display());
    let settings = mock(
        "latency: 250ms\nerror_rate: 0.1\nrate_limit_rate: 1\nretry_after: 2s\nseed: 42\ntrace: []\nmodel: x",
    );
    assert_eq!(
        (settings.latency, settings.retry_after),
        (Duration::from_millis(250), Duration::from_secs(2))
    );
    assert_eq!((settings.error_rate, settings.rate_limit_rate, settings.seed), (0.1, 1.0, 42));
}

#[test]
fn a_runner_repository_and_the_keys_that_agentv_reads() {
    let base = "provider: github-actions\nrepo: o/n\nworkflow: w.yaml";
    let target = remote(&one(base));
    assert_eq!((target.git_ref, target.target, target.poll_interval), (None, None, None));
    assert_eq!(target.results, RemoteResults::Branch("eval-results".into()));
    assert_eq!((target.timeout, target.shards), (Duration::from_mins(30), Shards::Auto));
    let more = "shards: 256\nresults_artifact: true\ncommand: run-evals adapter {PROMPT_FILE}\n\
                timeout_seconds: 60\ncwd: .\nverbose: true\nkeep_temp_files: true\nworkers: 50\n\
                healthcheck: { url: http://localhost }\nfiles_format: '{path}'\nmax_retries: 0";
    let target = remote(&one(&format!("{base}\n{more}")));
    assert_eq!(target.shards, Shards::Exactly(NonZeroU32::new(256).unwrap()));
    assert_eq!(target.results, RemoteResults::Artifact);
}

#[test]
fn references_work_anywhere_and_take_the_type_of_their_key() {
    let yaml = one("
        provider: ${{ PROVIDER }}
        model: ${{ MODEL }}
        base_url: http://${{ HOST }}:8000/v1
        max_concurrency: ${{ N }}
        timeout: ${{ T:-2m }}
        temperature: '${{ TEMP }}'
        dedupe: ${{ YES }}
        reasoning_effort: ${{ NONE:-}}
        stop: ['${{ MODEL }}']
        price: { input_per_mtok: '${{ TEMP }}', output_per_mtok: 1 }
        response_format: { type: '${{ FORMAT:-json_object }}' }");
    let env = Env::from([
        ("PROVIDER", "openai-compatible"),
        ("MODEL", "7"),
        ("HOST", "localhost"),
        ("N", "9"),
        ("TEMP", "0.5"),
        ("YES", "true"),
    ]);
    let target = runner(&yaml, &env);
    assert_eq!(reached(&target.provider).0, "http://localhost:8000/v1");
    assert_eq!(target.params.model.as_deref(), Some("7"));
    assert_eq!(target.limits.max_concurrency.get(), 9);
    assert_eq!(target.timeout, Duration::from_mins(2));
    assert_eq!((target.params.temperature, target.params.stop), (Some(0.5), vec!["7".to_owned()]));
    assert_eq!((target.params.reasoning_effort, target.dedupe), (None, true));
    let price = Price { input_per_mtok: 0.5, output_per_mtok: 1.0, cached_input_per_mtok: None };
    assert_eq!(target.price, Some(price));
    assert_eq!(target.params.response_format, Some(ResponseFormat::JsonObject));
}

#[test]
fn links_are_followed_through_variables_to_the_end() {
    let yaml = "targets:\n  - { name: a, use_target: '${{ NEXT:-b }}' }\n  - { name: b, use_target: c, grader_target: '${{ G:-g }}' }\n  - { name: c, provider: mock, judge_target: other }\n  - { name: d, provider: mock }\n";
    let (file, _) = load(yaml).unwrap();
    let end = |env: &Env| file.resolve("a", env).unwrap().name().to_owned();
    assert_eq!((end(&Env::default()), end(&Env::from([("NEXT", "d")]))), ("c".into(), "d".into()));
}

#[test]
fn ten_links_are_followed_and_no_more() {
    let mut yaml = "targets:\n  - { name: t0, provider: mock }\n".to_owned();
    for i in 1..=11 {
        yaml = format!("{yaml}  - {{ name: t{i}, use_target: t{} }}\n", i - 1);
    }
    let (file, _) = load(&yaml).unwrap();
    assert_eq!(file.resolve("t10", &env()).unwrap().name(), "t0");
    let message = told(&file.resolve("t11", &env()).unwrap_err());
    assert!(
        message.starts_with("`use_target` is nested more than 10 levels deep: t11 → t10 → "),
        "{message}"
    );
}

#[test]
fn a_byte_order_mark_and_crlf_are_accepted() {
    let yaml = format!("\u{feff}{}", one("provider: mock").replace('\n', "\r\n"));
    assert_eq!(runner(&yaml, &env()).name, "t");
}

#[test]
fn the_nearest_file_is_used_and_files_are_not_merged() {
    let dir = tempfile::tempdir().unwrap();
    let (root, inner) = (dir.path().to_path_buf(), dir.path().join("evals/a"));
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::create_dir_all(root.join(".agentv")).unwrap();
    std::fs::create_dir_all(inner.join("targets.yaml")).unwrap();
    let roots = Roots::new(&inner, &root);
    assert_eq!(TargetsFile::discover(&roots), None, "a directory is not a file");
    for place in
        [".agentv/targets.yml", ".agentv/targets.yaml", "targets.yml", "targets.yaml", "evals/targets.yml"]
    {
        std::fs::write(root.join(place), "").unwrap();
        assert_eq!(TargetsFile::discover(&roots), Some(root.join(place)));
    }
}
