//! The real AgentV's dashboard shows what `sync --register` adds, and both resolve a relative path alike.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::agentv::agentv;
use crate::support::{Workspace, until};

/// A running `agentv dashboard`, killed with the test.
struct Dashboard {
    child: Child,
    port: u16,
}

impl Dashboard {
    fn start(workspace: &Workspace, dir: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(agentv());
        workspace.like(command.args(["dashboard", "--port", &port.to_string()])).current_dir(dir);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let dashboard = Self { child, port };
        until("the dashboard", || dashboard.ask().is_some());
        dashboard
    }

    fn ask(&self) -> Option<Value> {
        let url = format!("http://127.0.0.1:{}/api/projects", self.port);
        let output = Command::new("curl").args(["-fsS", "--max-time", "5", &url]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The id and the path of each project.
    fn projects(&self) -> Vec<(String, String)> {
        let answer = self.ask().unwrap();
        let text = |project: &Value, name: &str| project[name].as_str().unwrap().to_owned();
        let projects = answer["projects"].as_array().unwrap();
        projects.iter().map(|project| (text(project, "id"), text(project, "path"))).collect()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A repository with one commit.
fn upstream(workspace: &Workspace) -> String {
    workspace.write("upstream/README.md", "one\n");
    let dir = workspace.path("upstream");
    let who = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
    for args in [&["init", "-q", "-b", "main"][..], &["add", "-A"], &["commit", "-q", "-m", "one"]] {
        let done = Command::new("git").args(who).args(args).current_dir(&dir).status().unwrap();
        assert!(done.success());
    }
    format!("file://{}", dir.display())
}

#[test]
fn the_dashboard_shows_a_registered_benchmark() {
    let workspace = Workspace::new();
    let url = upstream(&workspace);
    let registry = format!(
        "benchmarks:\n  - id: one\n    path: {}/clones/one\n    source: {{ url: '{url}', ref: main }}\n",
        workspace.root().display()
    );
    workspace.write(".agentv/benchmarks.yaml", registry);
    workspace.run(&["sync", "one", "--register", "--allow-local"]).expect(0);
    // AgentV adds the directory that it is started in if that has an `.agentv`.
    std::fs::create_dir(workspace.path("elsewhere")).unwrap();
    let dashboard = Dashboard::start(&workspace, &workspace.path("elsewhere"));
    let clone = workspace.path("clones/one").display().to_string();
    assert_eq!(dashboard.projects(), [("one".to_owned(), clone)]);
}

/// AgentV clones a project when its dashboard starts: relative to the directory that it is started in.
#[test]
fn a_relative_path_of_a_project_is_the_same_directory_for_both() {
    let workspace = Workspace::new();
    let url = upstream(&workspace);
    let project = format!(
        "projects:\n  - id: rel\n    name: rel\n    repo_url: '{url}'\n    ref: main\n    path: clones/rel\n    added_at: 2026-01-01T00:00:00Z\n    last_opened_at: 2026-01-01T00:00:00Z\n"
    );
    workspace.write(".agentv/config.yaml", project);
    for dir in ["theirs", "ours"] {
        std::fs::create_dir(workspace.path(dir)).unwrap();
    }
    let dashboard = Dashboard::start(&workspace, &workspace.path("theirs"));
    assert_eq!(dashboard.projects(), [("rel".to_owned(), "clones/rel".to_owned())]);
    assert_eq!(workspace.read("theirs/clones/rel/README.md"), "one\n");
    let mut command = workspace.command(&["sync", "rel", "--allow-local"]);
    let output = command.current_dir(workspace.path("ours")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(workspace.read("ours/clones/rel/README.md"), "one\n");
}
