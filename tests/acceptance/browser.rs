//! A real headless Chromium, driven over WebDriver: plain HTTP and JSON.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// WebDriver's key for elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one page.
pub(crate) struct Browser {
    driver: Child,
    address: String,
    session: String,
    profile: TempDir,
}

/// Starts the driver; `None` if it ended before it had a port.
fn start_driver() -> Option<(Child, String)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("`chromedriver` is installed");
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map_while(Result::ok);
    let port = lines.find_map(|line| {
        let rest = line.split("successfully on port ").nth(1)?;
        Some(rest.trim_end_matches('.').to_owned())
    });
    if port.is_none() {
        driver.wait().unwrap();
    }
    Some((driver, port?))
}

impl Browser {
    pub(crate) fn start() -> Self {
        // The driver takes a free port for IPv4 and ends if something else has it for IPv6.
        let (driver, port) =
            (0..5).find_map(|_| start_driver()).expect("the driver found no port for IPv4 and IPv6");
        let profile = tempfile::tempdir().unwrap();
        let mut browser =
            Self { driver, address: format!("127.0.0.1:{port}"), session: String::new(), profile };
        let data = format!("--user-data-dir={}", browser.profile.path().display());
        let args = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--window-size=1280,1600",
            &data,
        ];
        let capabilities = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": args},
            "goog:loggingPrefs": {"browser": "ALL"},
            "unhandledPromptBehavior": "ignore",
        }}});
        let session = browser.call("POST", "/session", &capabilities);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        browser
    }

    pub(crate) fn open(&self, file: &Path) {
        self.post("url", &json!({"url": format!("file://{}", file.display())}));
    }

    /// Goes to an address.
    pub(crate) fn visit(&self, url: &str) {
        self.post("url", &json!({"url": url}));
    }

    /// Disables scripts on pages from now on.
    pub(crate) fn without_scripts(&self) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    }

    /// Runs a script with the driver's privileges, whatever the page's policy.
    pub(crate) fn evaluate(&self, script: &str) {
        self.devtools("Runtime.evaluate", &json!({"expression": script}));
    }

    /// The value that a script passes to the function in its last argument.
    pub(crate) fn script_async(&self, script: &str) -> Value {
        self.post("execute/async", &json!({"script": script, "args": []}))
    }

    /// The visible text of an element; works without scripts and during navigation.
    pub(crate) fn text(&self, selector: &str) -> String {
        let start = Instant::now();
        let session = &self.session;
        let wanted = json!({"using": "css selector", "value": selector});
        loop {
            let (status, found) = self.try_call("POST", &format!("/session/{session}/element"), &wanted);
            if let (200, Some(element)) = (status, found[ELEMENT].as_str()) {
                let path = format!("/session/{session}/element/{element}/text");
                if let (200, Value::String(text)) = self.try_call("GET", &path, &Value::Null) {
                    return text;
                }
            }
            assert!(start.elapsed() < PATIENCE, "it never came: {selector}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until an element exists.
    pub(crate) fn until_shown(&self, selector: &str) {
        let start = Instant::now();
        let path = format!("/session/{}/element", self.session);
        let body = json!({"using": "css selector", "value": selector});
        while self.try_call("POST", &path, &body).0 != 200 {
            assert!(start.elapsed() < PATIENCE, "it never came: {selector}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The result of a script on the page.
    pub(crate) fn script(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script returns true.
    pub(crate) fn until(&self, script: &str) {
        let start = Instant::now();
        while self.script(script) != true {
            assert!(start.elapsed() < PATIENCE, "it never came to that: {script}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Types into the focused element.
    pub(crate) fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key.to_string()})))
            .collect();
        self.post("actions", &json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]}));
    }

    pub(crate) fn click(&self, selector: &str) {
        let found = self.post("element", &json!({"using": "css selector", "value": selector}));
        let element = found[ELEMENT].as_str().unwrap().to_owned();
        self.post(&format!("element/{element}/click"), &json!({}));
    }

    /// Shows the page with this width and color scheme.
    pub(crate) fn look(&self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 1600, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &media);
    }

    pub(crate) fn screenshot(&self, file: &Path) {
        let picture = self.call("GET", &format!("/session/{}/screenshot", self.session), &Value::Null);
        std::fs::write(file, STANDARD.decode(picture.as_str().unwrap()).unwrap()).unwrap();
    }

    /// The console messages since the last call.
    pub(crate) fn console(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({"type": "browser"}));
        log.as_array().unwrap().iter().map(ToString::to_string).collect()
    }

    /// Whether a dialog is open.
    pub(crate) fn has_dialog(&self) -> bool {
        let path = format!("/session/{}/alert/text", self.session);
        self.try_call("GET", &path, &Value::Null).0 == 200
    }

    fn devtools(&self, command: &str, params: &Value) {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": params}));
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, value) = self.try_call(method, path, body);
        assert_eq!(status, 200, "{method} {path}: {value}");
        value
    }

    fn try_call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut answer = vec![0; length];
        reader.read_exact(&mut answer).unwrap();
        let mut answer: Value = serde_json::from_slice(&answer).unwrap();
        (status, answer["value"].take())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.try_call("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
