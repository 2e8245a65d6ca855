//! The requests sent to each provider.

use std::path::Path;

use serde_json::{Value, json};

use super::{caller, endpoint, request, target, wire_of};
use crate::model::{Api, Block, Content, Digest, Endpoint, Params, Provider, Request};
use crate::providers::Retry;

/// A name for snapshots, an API and its version.
type Vendor = (&'static str, Api, Option<&'static str>);

const OPENAI: Vendor = ("OpenAi(OpenAi)", Api::OpenAi, None);
const COMPATIBLE: Vendor = ("OpenAi(Compatible)", Api::OpenAiCompatible, None);
const AZURE_DATED: Vendor = ("Azure(AzureDeployment)", Api::Azure, Some("2024-10-21"));
const ANTHROPIC: Vendor = ("Anthropic", Api::Anthropic, None);
const GEMINI: Vendor = ("Gemini", Api::Gemini, None);
const ALL: [Vendor; 5] = [OPENAI, COMPATIBLE, AZURE_DATED, ANTHROPIC, GEMINI];

/// The body, one top-level key per line.
fn body((_, api, version): Vendor, request: &Request, dir: &Path) -> String {
    let bytes = wire_of(api, version).body(request, &request.params, "m-1", dir).unwrap();
    let value: Value = serde_json::from_slice(&bytes).unwrap();
    let Value::Object(map) = value else { panic!("a body is an object") };
    let lines: Vec<String> = map.into_iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
    lines.concat()
}

fn refusal((_, api, version): Vendor, request: &Request, dir: &Path) -> String {
    let error = wire_of(api, version).body(request, &request.params, "m-1", dir).unwrap_err();
    assert_eq!(error.retry, Retry::No);
    format!("{}: {}", error.kind.as_str(), error.message)
}

fn conversation() -> Request {
    request(json!({
        "id": "a",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "system", "content": [{"type": "text", "text": "Be kind."}]},
            {"role": "user", "content": "Hi \"there\"\n"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": [{"type": "text", "text": "Who"}, {"type": "text", "text": "are you?"}]},
        ],
    }))
}

fn every_parameter() -> Request {
    request(json!({
        "id": "a",
        "messages": [{"role": "user", "content": "Hi"}],
        "params": {
            "temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["###"], "max_tokens": 100,
            "reasoning_effort": "low", "response_format": schema(),
        },
    }))
}

fn schema() -> Value {
    json!({"type": "json_schema", "json_schema": {"name": "answer", "strict": true, "schema": {
        "type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number"}},
        "required": ["z", "a"], "additionalProperties": false,
    }}})
}

/// A folder with one attachment, and a request whose only message has a word and the attachment.
fn with_file(
    name: &str,
    media_type: &str,
    bytes: &[u8],
    block: &str,
    role: &str,
) -> (tempfile::TempDir, Request) {
    let dir = tempfile::tempdir().unwrap();
    let sha256 = Digest::of(bytes);
    std::fs::write(dir.path().join(sha256.to_string()), bytes).unwrap();
    let request = request(json!({
        "id": "a",
        "messages": [{"role": role, "content": [{"type": "text", "text": "Look:"}, {"type": block, "sha256": sha256}]}],
        "files": [{"sha256": sha256, "name": name, "media_type": media_type, "size": bytes.len()}],
    }));
    (dir, request)
}

#[test]
fn conversations() {
    let all = ALL.map(|vendor| format!("{}\n{}", vendor.0, body(vendor, &conversation(), Path::new(""))));
    insta::assert_snapshot!(all.join("\n"), @r#"
    OpenAi(OpenAi)
    model: "m-1"
    messages: [{"role":"system","content":"Be brief."},{"role":"system","content":"Be kind."},{"role":"user","content":"Hi \"there\"\n"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Who\n\nare you?"}]

    OpenAi(Compatible)
    model: "m-1"
    messages: [{"role":"system","content":"Be brief."},{"role":"system","content":"Be kind."},{"role":"user","content":"Hi \"there\"\n"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Who\n\nare you?"}]

    Azure(AzureDeployment)
    messages: [{"role":"system","content":"Be brief."},{"role":"system","content":"Be kind."},{"role":"user","content":"Hi \"there\"\n"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Who\n\nare you?"}]

    Anthropic
    model: "m-1"
    max_tokens: 16384
    system: "Be brief.\n\nBe kind."
    messages: [{"role":"user","content":"Hi \"there\"\n"},{"role":"assistant","content":"Hello."},{"role":"user","content":[{"type":"text","text":"Who\n\nare you?"}]}]

    Gemini
    systemInstruction: {"parts":[{"text":"Be brief."},{"text":"Be kind."}]}
    contents: [{"role":"user","parts":[{"text":"Hi \"there\"\n"}]},{"role":"model","parts":[{"text":"Hello."}]},{"role":"user","parts":[{"text":"Who\n\nare you?"}]}]
    "#);
}

#[test]
fn parameters() {
    let mut anthropic = every_parameter();
    anthropic.params.seed = None;
    let all = ALL.map(|vendor| {
        let request = if vendor == ANTHROPIC { anthropic.clone() } else { every_parameter() };
        format!("{}\n{}", vendor.0, body(vendor, &request, Path::new("")))
    });
    insta::assert_snapshot!(all.join("\n"), @r####"
    OpenAi(OpenAi)
    model: "m-1"
    messages: [{"role":"user","content":"Hi"}]
    max_completion_tokens: 100
    temperature: 0.5
    top_p: 0.9
    seed: 7
    stop: ["###"]
    reasoning_effort: "low"
    response_format: {"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z","a"],"additionalProperties":false}}}

    OpenAi(Compatible)
    model: "m-1"
    messages: [{"role":"user","content":"Hi"}]
    max_tokens: 100
    temperature: 0.5
    top_p: 0.9
    seed: 7
    stop: ["###"]
    reasoning_effort: "low"
    response_format: {"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z","a"],"additionalProperties":false}}}

    Azure(AzureDeployment)
    messages: [{"role":"user","content":"Hi"}]
    max_completion_tokens: 100
    temperature: 0.5
    top_p: 0.9
    seed: 7
    stop: ["###"]
    reasoning_effort: "low"
    response_format: {"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z","a"],"additionalProperties":false}}}

    Anthropic
    model: "m-1"
    max_tokens: 100
    messages: [{"role":"user","content":"Hi"}]
    temperature: 0.5
    top_p: 0.9
    stop_sequences: ["###"]
    output_config: {"effort":"low","format":{"type":"json_schema","schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z","a"],"additionalProperties":false}}}

    Gemini
    contents: [{"role":"user","parts":[{"text":"Hi"}]}]
    generationConfig: {"maxOutputTokens":100,"temperature":0.5,"topP":0.9,"seed":7,"stopSequences":["###"],"thinkingConfig":{"thinkingLevel":"low"},"responseMimeType":"application/json","responseJsonSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z","a"],"additionalProperties":false}}
    "####);
}

#[test]
fn json_objects_and_plain_text() {
    let mut request =
        request(json!({"id": "a", "messages": [], "params": {"response_format": {"type": "json_object"}}}));
    let last =
        |vendor, request: &Request| body(vendor, request, Path::new("")).lines().last().unwrap().to_owned();
    assert_eq!(last(OPENAI, &request), r#"response_format: {"type":"json_object"}"#);
    assert_eq!(last(GEMINI, &request), r#"generationConfig: {"responseMimeType":"application/json"}"#);
    insta::assert_snapshot!(refusal(ANTHROPIC, &request, Path::new("")), @"bad_request: Anthropic has no parameter `response_format: json_object`: remove it from the request and the target");
    request.params = serde_json::from_value(json!({"response_format": {"type": "text"}})).unwrap();
    assert_eq!(last(OPENAI, &request), r#"response_format: {"type":"text"}"#);
    assert_eq!(last(GEMINI, &request), r#"generationConfig: {"responseMimeType":"text/plain"}"#);
    assert_eq!(last(ANTHROPIC, &request), "messages: []");
}

#[test]
fn parameters_that_a_provider_lacks_are_rejected() {
    insta::assert_snapshot!(refusal(ANTHROPIC, &every_parameter(), Path::new("")), @"bad_request: Anthropic has no parameter `seed`: remove it from the request and the target");
    let mut large = every_parameter();
    large.params.seed = Some(1 << 40);
    insta::assert_snapshot!(refusal(GEMINI, &large, Path::new("")), @"bad_request: parameter `seed`: Gemini takes only 32-bit numbers");
}

#[test]
fn pictures() {
    let (dir, request) = with_file("a/cat.jpg", "image/jpg", b"\xff\xd8picture", "image", "user");
    let all = ALL.map(|vendor| body(vendor, &request, dir.path()));
    insta::assert_snapshot!(all.join("\n"), @r#"
    model: "m-1"
    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9hwaWN0dXJl"}}]}]

    model: "m-1"
    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9hwaWN0dXJl"}}]}]

    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9hwaWN0dXJl"}}]}]

    model: "m-1"
    max_tokens: 16384
    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"/9hwaWN0dXJl"}}]}]

    contents: [{"role":"user","parts":[{"text":"Look:"},{"inlineData":{"mimeType":"image/jpeg","data":"/9hwaWN0dXJl"}}]}]
    "#);
}

#[test]
fn pdfs() {
    let (dir, request) = with_file("doc.pdf", "application/pdf", b"%PDF-1.7\n", "file", "user");
    let all = ALL.map(|vendor| body(vendor, &request, dir.path()));
    insta::assert_snapshot!(all.join("\n"), @r#"
    model: "m-1"
    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"file","file":{"filename":"doc.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjcK"}}]}]

    model: "m-1"
    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"file","file":{"filename":"doc.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjcK"}}]}]

    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"file","file":{"filename":"doc.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjcK"}}]}]

    model: "m-1"
    max_tokens: 16384
    messages: [{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjcK"},"title":"doc.pdf"}]}]

    contents: [{"role":"user","parts":[{"text":"Look:"},{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0xLjcK"}}]}]
    "#);
}

#[test]
fn text_files() {
    let (dir, request) = with_file(
        "a \"b\".md",
        "text/markdown; charset=utf-8",
        "\u{feff}\r\n# Ä\r\n\r\nB\r\n".as_bytes(),
        "file",
        "user",
    );
    let all = ALL.map(|vendor| body(vendor, &request, dir.path()));
    insta::assert_snapshot!(all.join("\n"), @r#"
    model: "m-1"
    messages: [{"role":"user","content":"Look:\n\n<file path=\"a &quot;b&quot;.md\">\n# Ä\n\nB\n</file>"}]

    model: "m-1"
    messages: [{"role":"user","content":"Look:\n\n<file path=\"a &quot;b&quot;.md\">\n# Ä\n\nB\n</file>"}]

    messages: [{"role":"user","content":"Look:\n\n<file path=\"a &quot;b&quot;.md\">\n# Ä\n\nB\n</file>"}]

    model: "m-1"
    max_tokens: 16384
    messages: [{"role":"user","content":[{"type":"text","text":"Look:\n\n<file path=\"a &quot;b&quot;.md\">\n# Ä\n\nB\n</file>"}]}]

    contents: [{"role":"user","parts":[{"text":"Look:\n\n<file path=\"a &quot;b&quot;.md\">\n# Ä\n\nB\n</file>"}]}]
    "#);
}

#[test]
fn empty_text_files_are_left_out() {
    let (dir, mut request) = with_file("a.md", "text/markdown", b" \r\n", "file", "user");
    for vendor in ALL {
        let body = body(vendor, &request, dir.path());
        assert!(body.contains("Look:") && !body.contains("a.md"), "{body}");
    }
    let Content::Blocks(blocks) = &mut request.messages[0].content else { panic!("it has blocks") };
    blocks.remove(0);
    insta::assert_snapshot!(refusal(OPENAI, &request, dir.path()), @"bad_request: a message is empty: it has no text, and its files are empty");
}

#[test]
fn text_files_of_other_types_and_in_other_turns() {
    for (name, media_type) in [
        ("a", "application/json"),
        ("a", "application/ld+json"),
        ("a", "image/svg+xml"),
        ("a", "application/x-yaml"),
        ("a.CSV", "application/octet-stream"),
        ("a.rs", ""),
    ] {
        for role in ["user", "assistant", "system"] {
            let (dir, request) = with_file(name, media_type, b"content", "file", role);
            for vendor in ALL {
                let body = body(vendor, &request, dir.path());
                assert!(body.contains(r"\ncontent\n</file>"), "{name} {media_type} {role} {vendor:?} {body}");
            }
        }
    }
}

#[test]
fn attachments_that_cannot_be_sent() {
    let word = |name, media_type, bytes: &[u8], block, role, vendor| {
        let (dir, request) = with_file(name, media_type, bytes, block, role);
        refusal(vendor, &request, dir.path())
    };
    let zip = word("a.zip", "application/zip", b"PK", "file", "user", OPENAI);
    insta::assert_snapshot!(zip, @"bad_request: attachment `a.zip` of type `application/zip` cannot be sent: text, a PDF, or a picture (png, jpeg, gif, webp)");
    let gif = word("a.gif", "image/gif", b"GIF", "image", "user", GEMINI);
    insta::assert_snapshot!(gif, @"bad_request: attachment `a.gif` of type `image/gif` is not a picture that can be sent: png, jpeg, webp, heic, heif");
    let text_as_picture = word("a.txt", "text/plain", b"x", "image", "user", OPENAI);
    insta::assert_snapshot!(text_as_picture, @"bad_request: attachment `a.txt` of type `text/plain` is not a picture that can be sent: png, jpeg, gif, webp");
    let latin1 = word("a.csv", "text/csv", b"caf\xe9", "file", "user", OPENAI);
    insta::assert_snapshot!(latin1, @"bad_request: attachment `a.csv` is not UTF-8 text: convert it");
    let system = word("a.png", "image/png", b"x", "image", "system", ANTHROPIC);
    insta::assert_snapshot!(system, @"bad_request: attachment `a.png` is in a system message: only user messages may carry pictures and PDFs");
    let assistant = word("a.pdf", "application/pdf", b"x", "file", "assistant", ANTHROPIC);
    insta::assert_snapshot!(assistant, @"bad_request: attachment `a.pdf` is in an assistant message: only user messages may carry pictures and PDFs");
}

#[test]
fn attachments_with_equal_bytes_are_distinguished_by_name() {
    let (dir, mut request) = with_file("x.md", "text/markdown", b"same", "file", "user");
    let mut second = request.files[0].clone();
    second.name = "y.md".to_owned();
    request.files.push(second);
    assert!(body(OPENAI, &request, dir.path()).contains(r#"<file path=\"x.md\">"#));
    let Content::Blocks(blocks) = &mut request.messages[0].content else { panic!("it has blocks") };
    blocks[1] = Block::File { sha256: request.files[0].sha256, name: Some("y.md".to_owned()) };
    assert!(body(OPENAI, &request, dir.path()).contains(r#"<file path=\"y.md\">"#));
    request.files.pop();
    let line = serde_json::to_vec(&request).unwrap();
    let told = "a message refers to attachment 0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5, which `files` does not list";
    assert_eq!(refusal(OPENAI, &request, dir.path()), format!("bad_request: {told}"));
    assert_eq!(Request::from_line(&line).unwrap_err().to_string(), told);
}

#[test]
fn missing_attachments() {
    let (dir, mut request) = with_file("a.txt", "text/plain", b"x", "file", "user");
    std::fs::remove_file(dir.path().join(request.files[0].sha256.to_string())).unwrap();
    insta::assert_snapshot!(refusal(OPENAI, &request, dir.path()), @"bad_request: cannot read attachment `a.txt`: No such file or directory (os error 2)");
    request.files.clear();
    insta::assert_snapshot!(refusal(OPENAI, &request, dir.path()), @"bad_request: a message refers to attachment 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, which `files` does not list");
}

#[test]
fn a_request_overrides_its_target() {
    let mut target = target(Provider::Api(endpoint(Api::OpenAi, "https://api.openai.com")));
    target.params = Params { max_tokens: Some(50), seed: Some(1), ..target.params };
    let caller = crate::providers::Caller::new(std::sync::Arc::new(target)).unwrap();
    let request = request(json!({
        "id": "a", "messages": [{"role": "user", "content": "12345678"}], "params": {"max_tokens": 9, "model": "other"},
    }));
    let call = caller.encode(&request, Path::new("")).unwrap();
    assert_eq!(
        call.body(),
        r#"{"model":"other","messages":[{"role":"user","content":"12345678"}],"max_completion_tokens":9,"seed":1}"#
    );
    assert_eq!(total(caller.estimated_tokens(&request)), 8 / 4 + 9);
}

fn total(usage: crate::model::TokenUsage) -> u64 {
    usage.input + usage.output
}

#[test]
fn estimates_count_text_files_by_size_and_others_flat() {
    let caller = caller(Provider::Api(endpoint(Api::OpenAi, "https://api.openai.com")));
    let estimate = |(_, request): (tempfile::TempDir, Request)| total(caller.estimated_tokens(&request));
    // "Look:" is five bytes, and the output has no limit.
    let text = with_file("a.txt", "text/plain", &[b'x'; 395], "file", "user");
    assert_eq!(estimate(text), (5 + 395) / 4 + 512);
    let picture = with_file("a.png", "image/png", &[0; 4000], "image", "user");
    assert_eq!(estimate(picture), 5 / 4 + 1500 + 512);
}

#[test]
fn the_upper_bound_of_a_call_counts_every_byte_every_message_and_all_output() {
    let of = |provider: Provider, (_, request): (tempfile::TempDir, Request)| {
        let most = caller(provider).most_tokens(&request);
        (most.input, most.output)
    };
    let openai = || Provider::Api(endpoint(Api::OpenAi, "https://api.openai.com"));
    let text = || with_file("a.txt", "text/plain", &[b'x'; 395], "file", "user");
    assert_eq!(of(openai(), text()), (5 + 395 + 8, 4096));
    let anthropic = Provider::Api(Endpoint {
        api_version: Some("2023-06-01".to_owned()),
        ..endpoint(Api::Anthropic, "https://api.anthropic.com")
    });
    assert_eq!(of(anthropic, text()), (5 + 395 + 8, 16_384));
    let picture = with_file("a.png", "image/png", &[0; 4000], "image", "user");
    assert_eq!(of(openai(), picture), (5 + 4096 + 8, 4096));
    let pdf = with_file("a.pdf", "application/pdf", &vec![0; 80_000], "file", "user");
    assert_eq!(of(openai(), pdf), (5 + 10_000 + 8, 4096));
    let asked = request(json!({
        "id": "a", "messages": [{"role": "user", "content": ""}, {"role": "user", "content": "é"}],
        "params": {"max_tokens": 2_000_000},
    }));
    let most = caller(openai()).most_tokens(&asked);
    assert_eq!((most.input, most.output), (2 + 16, 2_000_000));
}

#[test]
fn a_target_without_a_model_calls_nothing() {
    let mut target = target(Provider::Api(endpoint(Api::OpenAi, "https://api.openai.com")));
    target.params.model = None;
    let caller = crate::providers::Caller::new(std::sync::Arc::new(target)).unwrap();
    let error = caller.encode(&conversation(), Path::new("")).unwrap_err();
    insta::assert_snapshot!(error, @"neither the request nor target `gpt` names a `model`");
}

fn with_tools() -> Request {
    request(json!({
        "id": "a",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [
            {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters": {
                "type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number"}}, "required": ["z"],
            }}},
            {"type": "function", "function": {"name": "now"}},
        ],
    }))
}

#[test]
fn tools() {
    let all = ALL.map(|vendor| format!("{}\n{}", vendor.0, body(vendor, &with_tools(), Path::new(""))));
    insta::assert_snapshot!(all.join("\n"), @r#"
    OpenAi(OpenAi)
    model: "m-1"
    messages: [{"role":"user","content":"Hi"}]
    tools: [{"type":"function","function":{"name":"get_weather","description":"The weather.","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z"]}}},{"type":"function","function":{"name":"now"}}]

    OpenAi(Compatible)
    model: "m-1"
    messages: [{"role":"user","content":"Hi"}]
    tools: [{"type":"function","function":{"name":"get_weather","description":"The weather.","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z"]}}},{"type":"function","function":{"name":"now"}}]

    Azure(AzureDeployment)
    messages: [{"role":"user","content":"Hi"}]
    tools: [{"type":"function","function":{"name":"get_weather","description":"The weather.","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z"]}}},{"type":"function","function":{"name":"now"}}]

    Anthropic
    model: "m-1"
    max_tokens: 16384
    messages: [{"role":"user","content":"Hi"}]
    tools: [{"name":"get_weather","description":"The weather.","input_schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z"]}},{"name":"now","input_schema":{"type":"object"}}]

    Gemini
    contents: [{"role":"user","parts":[{"text":"Hi"}]}]
    tools: [{"functionDeclarations":[{"name":"get_weather","description":"The weather.","parametersJsonSchema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}},"required":["z"]}},{"name":"now"}]}]
    "#);
}

#[test]
fn tools_are_part_of_the_prompt() {
    let openai = || Provider::Api(endpoint(Api::OpenAi, "https://api.openai.com"));
    let caller = caller(openai());
    let asked = with_tools();
    let without = Request { tools: Vec::new(), ..asked.clone() };
    let bytes = serde_json::to_vec(&asked.tools).unwrap().len() as u64;
    let more = |of: &dyn Fn(&Request) -> u64| of(&asked) - of(&without);
    assert_eq!(more(&|request| caller.most_tokens(request).input), bytes + 1024);
    assert_eq!(more(&|request| caller.estimated_tokens(request).input), bytes / 4 + u64::from(bytes % 4 > 1));
}

#[test]
fn clouds_are_sent_their_own_forms() {
    let dir = Path::new("");
    let mut request = conversation();
    request.params.max_tokens = Some(5);
    insta::assert_snapshot!(body(("Bedrock", Api::Bedrock, None), &request, dir), @r#"
    messages: [{"role":"user","content":[{"text":"Hi \"there\"\n"}]},{"role":"assistant","content":[{"text":"Hello."}]},{"role":"user","content":[{"text":"Who\n\nare you?"}]}]
    system: [{"text":"Be brief."},{"text":"Be kind."}]
    inferenceConfig: {"maxTokens":5}
    "#);
    let vertex = wire_of(Api::Vertex, None);
    let claude = vertex.body(&request, &request.params, "claude-opus-5", dir).unwrap();
    insta::assert_snapshot!(String::from_utf8(claude).unwrap(), @r#"{"anthropic_version":"vertex-2023-10-16","max_tokens":5,"system":"Be brief.\n\nBe kind.","messages":[{"role":"user","content":"Hi \"there\"\n"},{"role":"assistant","content":"Hello."},{"role":"user","content":[{"type":"text","text":"Who\n\nare you?"}]}]}"#);
    let gemini = vertex.body(&request, &request.params, "gemini-3.5-flash", dir).unwrap();
    assert_eq!(gemini, wire_of(Api::Gemini, None).body(&request, &request.params, "m-1", dir).unwrap());
    insta::assert_snapshot!(refusal(("Bedrock", Api::Bedrock, None), &every_parameter(), dir), @"bad_request: Bedrock's Converse has no parameter `seed`: remove it from the request and the target");
}
