//! Hostile callers with a valid token: fields that choose models or hosts, endless bodies, ids with markup.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::limits::{Host, exit_code, log, read_request, run_of};
use super::stage::{GATEWAY_TOKEN, Gateway, MODEL_KEY, REPO, Stage, metadata, template};
use crate::support::MockLlm;

const PATH: &str = "/rollout_id/r1/invocation_id/i/experiment_id/e/run_id/r/row_id/7/chat/completions";

fn question() -> Value {
    json!({"model": "mock-model", "messages": [{"role": "user", "content": "hello"}]})
}

/// A gateway with these options, and the model behind it.
fn start(options: &[&str]) -> (MockLlm, Gateway) {
    let llm = MockLlm::start(&["--require-key", MODEL_KEY]);
    let files = [("tokens", GATEWAY_TOKEN)];
    let gateway =
        Gateway::start_with_files(&llm, &files, &[&["--auth-token-file", "tokens"], options].concat());
    (llm, gateway)
}

#[test]
fn fields_outside_the_closed_list_do_not_reach_the_upstream() {
    let (llm, gateway) = start(&[]);
    let fields = json!({
        "models": ["dear"],
        "fallbacks": [{"model": "dear"}],
        "n": 64,
        "base_url": "https://evil.example",
        "api_base": "https://evil.example",
        "api_key": "sk-other",
        "extra_headers": {"Host": "evil.example"},
        "web_search_options": {},
        "service_tier": "priority",
        "a\nb": 1,
    });
    let mut told = String::new();
    for (name, value) in fields.as_object().unwrap() {
        let mut body = question();
        body[name] = value.clone();
        let (status, answer) = gateway.ask("POST", PATH, Some(&body));
        assert_eq!(status, 400, "{name}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        told.push_str(answer["error"]["message"].as_str().unwrap());
        told.push('\n');
    }
    assert_eq!(llm.counter("requests"), 0, "a refused field reached the model");
    insta::assert_snapshot!(told, @r"
    this gateway does not accept the field `models`
    this gateway does not accept the field `fallbacks`
    `n` must be 1
    this gateway does not accept the field `base_url`
    this gateway does not accept the field `api_base`
    this gateway does not accept the field `api_key`
    this gateway does not accept the field `extra_headers`
    this gateway does not accept the field `web_search_options`
    this gateway does not accept the field `service_tier`
    this gateway does not accept the field `a\nb`
    ");

    let mut body = question();
    for (name, value) in json!({
        "n": 1, "models": null, "temperature": 0.5, "top_p": 1, "top_k": 3, "seed": 1, "stop": ["x"], "max_tokens": 9,
        "presence_penalty": 0, "frequency_penalty": 0, "logit_bias": {}, "logprobs": false, "user": "u", "tools": [],
        "tool_choice": "none", "response_format": {"type": "text"}, "reasoning_effort": "low", "stream": false,
    })
    .as_object()
    .unwrap()
    {
        body[name] = value.clone();
    }
    let (status, answer) = gateway.ask("POST", PATH, Some(&body));
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn the_operator_can_add_fields_and_their_models_are_checked() {
    let (llm, gateway) =
        start(&["--trace-field", "service_tier", "--trace-field", "models", "--trace-field", "n"]);
    let ask = |name: &str, value: Value| {
        let mut body = question();
        body[name] = value;
        gateway.ask("POST", PATH, Some(&body))
    };
    assert_eq!(ask("service_tier", json!("flex")).0, 200);
    assert_eq!(ask("models", json!(["mock-model"])).0, 200);
    assert_eq!(ask("n", json!(2)).0, 200);
    let calls = llm.counter("requests");
    let (status, answer) = ask("models", json!(["mock-model", "dear"]));
    assert_eq!((status, llm.counter("requests")), (403, calls), "{answer}");
    assert!(answer.contains("does not allow the model `dear`"), "{answer}");
    assert_eq!(ask("fallbacks", json!(["mock-model"])).0, 400);
}

#[test]
fn no_field_lets_a_caller_choose_a_host_or_a_key() {
    let workspace = crate::support::Workspace::new().env("RUN_EVALS_SERVE_TOKEN", GATEWAY_TOKEN);
    workspace.write_target("http://127.0.0.1:9/v1", "api_key: k\n");
    let mut told = String::new();
    for field in ["base_url", "api_base", "api_key", "extra_headers", "messages", "a b", ""] {
        let args = ["serve", "--listen", "127.0.0.1:0", "--traces", "traces", "--trace-upstream", "llm"];
        let output = workspace.run(&[&args[..], &["--trace-field", field]].concat()).expect(2);
        told.push_str(output.stderr.lines().next().unwrap());
        told.push('\n');
    }
    insta::assert_snapshot!(told, @r"
    error: invalid value 'base_url' for '--trace-field <FIELD>': a caller must not choose the host, the key or the headers of a call
    error: invalid value 'api_base' for '--trace-field <FIELD>': a caller must not choose the host, the key or the headers of a call
    error: invalid value 'api_key' for '--trace-field <FIELD>': a caller must not choose the host, the key or the headers of a call
    error: invalid value 'extra_headers' for '--trace-field <FIELD>': a caller must not choose the host, the key or the headers of a call
    error: invalid value 'messages' for '--trace-field <FIELD>': this field is always accepted
    error: invalid value 'a b' for '--trace-field <FIELD>': a field name consists of letters, digits and `_`
    error: invalid value '' for '--trace-field <FIELD>': a field name consists of letters, digits and `_`
    ");
}

/// A request whose body stops after this many bytes.
fn half_sent(gateway: &Gateway, length: usize, sent: usize) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {GATEWAY_TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let block = vec![b' '; 1 << 16];
    for _ in 0..sent / block.len() {
        // The gateway may reject it on the way.
        if stream.write_all(&block).is_err() {
            break;
        }
    }
    stream
}

#[test]
fn incomplete_bodies_take_little_memory_do_not_block_others_and_time_out() {
    let (llm, gateway) = start(&["--trace-body-timeout", "8s"]);
    let before = gateway.peak_memory();
    let open: Vec<TcpStream> = (0..40).map(|_| half_sent(&gateway, 16 << 20, 15 << 20)).collect();
    let small: Vec<TcpStream> = (0..40).map(|_| half_sent(&gateway, 4 << 10, 0)).collect();
    // Another caller is served meanwhile.
    let (status, answer) = gateway.ask("POST", PATH, Some(&question()));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(llm.counter("ok"), 1);
    // Each of them gets a response and is closed, without another byte.
    for mut stream in open.into_iter().chain(small) {
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) => {
                let answer = String::from_utf8_lossy(&answer).into_owned();
                let status = answer.split(' ').nth(1).unwrap_or_default();
                assert!(["408", "503"].contains(&status), "{answer}");
            }
            // A connection with unread bytes ends this way.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}"),
        }
    }
    let grown = gateway.peak_memory() - before;
    assert!(grown < 200 << 20, "40 half-sent bodies took {} MiB", grown >> 20);
    assert_eq!(gateway.ask("POST", PATH, Some(&question())).0, 200);
}

/// A listed proxy that honors an address in the request.
fn proxy() -> Host {
    Host::start(|line| {
        if line.contains("/chat/completions") {
            let message = json!({"role": "assistant", "content": "a"});
            (200, json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
        } else if line.contains("traces") {
            (200, json!({"traces": []}))
        } else {
            (200, json!({"status": null}))
        }
    })
}

#[test]
fn every_address_of_a_rollout_is_checked_against_the_allowlist() {
    let stage = Stage::new();
    let proxy = proxy();
    stage.allow(&proxy.url());
    let evil = "https://evil.example/v1";
    let params = [
        json!({"model": "m", "base_url": evil}),
        json!({"model": "m", "extra_body": {"base_url": evil}}),
        json!({"model": "m", "base_url": {"url": evil}}),
        json!({"model": "openai/https://evil.example/v1"}),
    ];
    let mut told = String::new();
    for (index, params) in params.iter().enumerate() {
        let id = format!("r{index}");
        let mut inputs = stage.inputs(&id, "france");
        // The repository's own key is used.
        inputs["api_key"] = Value::Null;
        inputs["model_base_url"] = proxy.url().into();
        inputs["completion_params"] = params.to_string().into();
        stage.send(&inputs);
        let run = run_of(&stage, &id);
        assert_eq!(exit_code(&run), Some(3), "{params}: {}", log(&run));
        let line = log(&run).lines().find(|line| line.contains("error")).unwrap_or_default().to_owned();
        told.push_str(line.split_once("error").unwrap().1);
        told.push('\n');
    }
    // One row of many is enough.
    let mut many = metadata("many", "rows");
    many["rows"] =
        json!([{"rollout_id": "many-a", "row_id": "france", "completion_params": {"base_url": evil}}]);
    let mut inputs = stage.inputs("many", "rows");
    inputs["api_key"] = Value::Null;
    inputs["model_base_url"] = proxy.url().into();
    inputs["metadata"] = many.to_string().into();
    stage.send(&inputs);
    assert_eq!(exit_code(&run_of(&stage, "many")), Some(3));
    // It cannot be hidden in an id, either, which is part of the path of the call.
    let mut inputs = stage.inputs("hidden", "france/encoded_base_url/aHR0cHM6Ly9ldmlsLmV4YW1wbGU=");
    inputs["api_key"] = Value::Null;
    inputs["model_base_url"] = proxy.url().into();
    stage.send(&inputs);
    assert_eq!(exit_code(&run_of(&stage, "hidden")), Some(3));
    let heard = proxy.received().concat();
    assert!(!heard.contains("/chat/completions"), "{heard}");
    assert!(!heard.contains("encoded_base_url"), "{heard}");
    insta::assert_snapshot!(told, @r"
    : `completion_params.base_url`: rollouts may not call `evil.example`
    : `completion_params.base_url`: rollouts may not call `evil.example`
    : `completion_params.base_url` is not a plain `http` or `https` URL
    : `completion_params.model` is an address
    ");

    // An address that the owner lists is passed on.
    let url = "https://models.example/v1";
    stage.github.put_file(
        REPO,
        ".run-evals.yml",
        format!("rollout:\n  model_base_urls: ['{}', '{url}']\n", proxy.url()),
    );
    let mut inputs = stage.inputs("listed", "france");
    inputs["api_key"] = Value::Null;
    inputs["model_base_url"] = proxy.url().into();
    inputs["completion_params"] = json!({"model": "m", "base_url": format!("{url}/")}).to_string().into();
    stage.send(&inputs);
    let run = run_of(&stage, "listed");
    assert_eq!(exit_code(&run), Some(0), "{}", log(&run));
    assert!(proxy.received().iter().any(|request| request.contains("/encoded_base_url/")));
}

#[test]
fn a_command_gets_no_address_key_or_header_from_the_client() {
    let stage = Stage::new();
    let call = r#"curl -sS -H "Authorization: Bearer $OPENAI_API_KEY" -d "$EP_COMPLETION_PARAMS" "$OPENAI_BASE_URL/chat/completions""#;
    stage.github.put_file(REPO, "agent.sh", call);
    let step = "      - run: run-evals rollout run --command 'sh agent.sh'\n        env:\n          ROLLOUT_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n          GITHUB_TOKEN: ${{ github.token }}\n";
    let workflow = template("workflows/rollout.yml");
    let (head, _) = workflow.split_once("      # A tag, so that fixes").unwrap();
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", format!("{head}{step}"));
    let evil = "https://evil.example/v1";
    let params = [
        json!({"api_base": evil}),
        json!({"api_key": "sk-theirs"}),
        json!({"extra_headers": {"X-Forward-To": evil}}),
        json!({"extra_body": {"extra_body": {"api_base": evil}}}),
        json!({"fallbacks": ["dear"]}),
        json!({"custom": 1}),
    ];
    for (index, more) in params.iter().enumerate() {
        let id = format!("r{index}");
        let mut inputs = stage.inputs(&id, "france");
        inputs["api_key"] = Value::Null;
        let mut params = more.clone();
        params["model"] = "mock-model".into();
        inputs["completion_params"] = params.to_string().into();
        stage.send(&inputs);
        let run = run_of(&stage, &id);
        assert_eq!(exit_code(&run), Some(3), "{more}: {}", log(&run));
    }
    assert_eq!(stage.calls(), 0);
    assert_eq!(stage.gateway.code("r5"), Some(3));
    insta::assert_snapshot!(stage.gateway.message("r5"), @r"`completion_params`: rollouts of this repository may not set `custom`; allowed: `model`, `temperature`, `top_p`, `seed`, `stop`, `max_tokens`, `max_completion_tokens`, `reasoning_effort`, `response_format`, `top_k`, `min_p`, `n`, `presence_penalty`, `frequency_penalty`, `repetition_penalty`, `logit_bias`, `logprobs`, `top_logprobs`, `tools`, `tool_choice`, `parallel_tool_calls`, `functions`, `function_call`, `verbosity`, `thinking`, `reasoning`, `chat_template_kwargs`, `user`, `safety_identifier`, `prompt_cache_key`, `stream`, `stream_options`, `base_url`, `extra_body`");
}

#[test]
fn ids_and_messages_are_escaped_in_the_step_summary() {
    let stage = Stage::new();
    let hostile = "r|<img src=x> ![a](https://evil.example) [b](c) @octocat `x` **bold** www.evil.example";
    stage.send(&stage.inputs(hostile, "france"));
    let run = run_of(&stage, hostile);
    assert_eq!(exit_code(&run), Some(0), "{}", log(&run));
    let summary: String = run.jobs.iter().map(|job| job.summary.clone()).collect();
    let row = summary.lines().last().unwrap();
    for sign in ['<', '>', '[', '!', '(', '@', '`', '*', '.', ':'] {
        let text = row.replace("<code>", "").replace("</code>", "");
        assert!(!text.contains(sign), "{sign} in {row}");
    }
    assert_eq!(row.matches('|').count(), 4, "{row}");
    assert!(row.contains("octocat"), "{row}");

    // The id of a missing row is repeated in the message.
    stage.send(&stage.inputs("r2", "[x](https://evil.example) <b> @octocat"));
    let run = run_of(&stage, "r2");
    let summary: String = run.jobs.iter().map(|job| job.summary.clone()).collect();
    for text in ["](", "<b>", "@octocat", "https://"] {
        assert!(!summary.contains(text), "{text} in {summary}");
    }
}

/// The base URL of an upstream that echoes its API key. The response is sent in two parts, split inside the key.
fn repeating_upstream(response: impl Fn(&str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let request = read_request(&mut stream);
            let key =
                request.lines().find_map(|line| line.split_once("Bearer ").or(line.split_once("bearer ")));
            let key = key.map(|(_, key)| key.trim()).unwrap_or_default();
            let response = response(key);
            let cut = response.rfind(&key[..8]).map_or(response.len() / 2, |at| at + 8);
            let _ = stream.write_all(&response.as_bytes()[..cut]);
            std::thread::sleep(Duration::from_millis(50));
            let _ = stream.write_all(&response.as_bytes()[cut..]);
        }
    });
    url
}

fn http(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Everything that a caller of the gateway receives, head and body.
fn received(gateway: &Gateway, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    write!(
        stream,
        "POST {PATH} HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nAuthorization: Bearer {GATEWAY_TOKEN}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn completion(content: &str) -> Value {
    json!({
        "id": format!("id-{content}"),
        "model": content,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
    })
}

#[test]
fn a_key_echoed_by_the_upstream_is_redacted() {
    type Response = fn(&str) -> String;
    let responses: [(&str, Response); 7] = [
        ("an error", |key| {
            http(401, "", &json!({"error": {"message": format!("bad {key}"), "code": key}}).to_string())
        }),
        ("an answer", |key| http(200, "", &completion(key).to_string())),
        ("a page", |key| {
            http(502, "Content-Type: text/html\r\n", &format!("<h1>Authorization: Bearer {key}</h1>"))
        }),
        ("a header", |key| {
            let headers = format!("X-Request-Id: req-{key}\r\nRetry-After: {key}\r\n");
            http(429, &headers, r#"{"error": {"message": "slow down"}}"#)
        }),
        ("escapes in JSON", |key| {
            let escaped: String = key.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
            http(
                400,
                "",
                &format!(r#"{{"error": {{"message": "{escaped}", "message": "x"}}, "{escaped}": 1}}"#),
            )
        }),
        ("hex", |key| {
            let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
            http(400, "", &json!({"error": {"message": hex}}).to_string())
        }),
        ("bytes that are not text", |key| {
            http(200, "Content-Type: text/event-stream\r\n", &format!("data: {key}\n\n"))
        }),
    ];
    let escaped: String = MODEL_KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    let hex: String = MODEL_KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    for (what, response) in responses {
        let gateway = Gateway::start_with(&repeating_upstream(response), "");
        for stream in [false, true] {
            let mut body = question();
            body["stream"] = stream.into();
            let text = received(&gateway, &body);
            for form in [MODEL_KEY, &escaped, &hex] {
                assert!(!text.contains(form), "{what}, stream {stream}: {text}");
            }
            assert!(text.contains("***") || what == "escapes in JSON", "{what}, stream {stream}: {text}");
        }
        let files = gateway.files();
        assert!(!files.contains(MODEL_KEY) && !files.contains(&hex), "{what}: {files}");
    }
}

#[test]
fn nested_fields_outside_the_closed_list_do_not_reach_the_upstream() {
    let (llm, gateway) = start(&[]);
    let function = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let calls = [
        json!({"tools": [function, {"type": "mcp", "server_url": "https://evil.example"}]}),
        json!({"tools": [{"type": "function", "function": {"name": "f"}, "server_url": "https://evil.example"}]}),
        json!({"tools": {"type": "mcp"}}),
        json!({"tool_choice": {"type": "mcp", "server_label": "x"}}),
        json!({"chat_template_kwargs": {"chat_template": "{{ x }}"}}),
        json!({"chat_template_kwargs": {"enable_thinking": "{{ x }}"}}),
        json!({"reasoning": {"effort": "low", "models": ["dear"]}}),
        json!({"reasoning": {"base_url": "https://evil.example"}}),
        json!({"thinking": {"type": "enabled", "n": 4}}),
        json!({"thinking": {"type": "enabled", "budget_tokens": 1e308}}),
        json!({"max_tokens": 1e308}),
        json!({"max_completion_tokens": 18_446_744_073_709_551_615_u64}),
        json!({"max_tokens": -1}),
        json!({"top_k": 1.5}),
        json!({"user": {"base_url": "https://evil.example"}}),
        json!({"response_format": {"type": "json_object", "base_url": "https://evil.example"}}),
        json!({"stop": [{"a": 1}]}),
    ];
    let mut told = String::new();
    for fields in calls {
        let mut body = question();
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let (status, answer) = gateway.ask("POST", PATH, Some(&body));
        assert_eq!(status, 400, "{fields}: {answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        told.push_str(answer["error"]["message"].as_str().unwrap());
        told.push('\n');
    }
    assert_eq!(llm.counter("requests"), 0, "a refused field reached the model");
    insta::assert_snapshot!(told, @r"
    `tools[1].type` must be `function`
    `tools[0].server_url` is not accepted; legal there: `type`, `function`
    `tools` must be a list
    `tool_choice.type` must be `function`
    `chat_template_kwargs.chat_template` is not accepted; legal there: `enable_thinking`, `thinking`
    `chat_template_kwargs.enable_thinking` must be true or false
    `reasoning.models` is not accepted; legal there: `effort`, `summary`, `generate_summary`, `max_tokens`, `exclude`, `enabled`
    `reasoning.base_url` is not accepted; legal there: `effort`, `summary`, `generate_summary`, `max_tokens`, `exclude`, `enabled`
    `thinking.n` is not accepted; legal there: `type`, `budget_tokens`
    `thinking.budget_tokens` must be a whole number from 0 to 2147483647
    `max_tokens` must be a whole number from 0 to 2147483647
    `max_completion_tokens` must be a whole number from 0 to 2147483647
    `max_tokens` must be a whole number from 0 to 2147483647
    `top_k` must be a whole number from -1 to 2147483647
    `user` must be a string, a number or a boolean
    `response_format.base_url` is not accepted; legal there: `type`, `json_schema`, `schema`, `grammar`
    `stop[0]` must be a string, a number or a boolean
    ");

    let mut body = question();
    let legal = json!({
        "tools": [function], "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
        "chat_template_kwargs": {"enable_thinking": false, "thinking": true}, "max_tokens": 9, "top_k": -1, "stop": "x",
        "reasoning": {"effort": "low", "summary": "auto", "max_tokens": 9, "exclude": true, "enabled": true},
        "thinking": {"type": "enabled", "budget_tokens": 1024}, "logit_bias": {"7": -100}, "seed": 9_007_199_254_740_993_i64,
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"properties": {"base_url": {}}}}},
    });
    body.as_object_mut().unwrap().extend(legal.as_object().unwrap().clone());
    let (status, answer) = gateway.ask("POST", PATH, Some(&body));
    assert_eq!(status, 200, "{answer}");

    // The operator can lift the limits of a field by name.
    let (_llm, gateway) = start(&["--trace-field", "chat_template_kwargs"]);
    let mut body = question();
    body["chat_template_kwargs"] = json!({"language": "en"});
    assert_eq!(gateway.ask("POST", PATH, Some(&body)).0, 200);
}

#[test]
fn the_command_of_a_rollout_has_no_relative_folder_in_its_path() {
    let stage = Stage::new();
    stage.github.put_file(REPO, "sh", "#!/bin/sh\necho the-shell-of-the-checkout\n");
    let step = "      - run: chmod +x sh && PATH=\".::bin:$PATH:\" run-evals rollout run --command 'echo \"path=$PATH=\"'\n        env:\n          ROLLOUT_API_KEY: ${{ secrets.ROLLOUT_API_KEY }}\n          GITHUB_TOKEN: ${{ github.token }}\n";
    let workflow = template("workflows/rollout.yml");
    let (head, _) = workflow.split_once("      # A tag, so that fixes").unwrap();
    stage.github.put_file(REPO, ".github/workflows/rollout.yml", format!("{head}{step}"));
    stage.send(&stage.inputs("r1", "france"));
    let run = run_of(&stage, "r1");
    let (_, path) = log(&run).split_once("path=/").unwrap_or_else(|| panic!("{}", log(&run)));
    let path = path.split_once('=').unwrap().0;
    assert!(path.split(':').skip(1).all(|folder| folder.starts_with('/')), "{path}");
    assert!(!log(&run).contains("the-shell-of-the-checkout"), "{}", log(&run));
}
