//! Untrusted files in a checkout, an exchange or a suite's folder cannot make git run commands.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::adapter::stage::Calls;
use crate::support::{Output, Workspace};

/// Settings whose value git runs.
const KEYS: [&str; 27] = [
    "core.fsmonitor",
    "core.sshCommand",
    "core.gitProxy",
    "core.editor",
    "core.pager",
    "core.askPass",
    "core.alternateRefsCommand",
    "credential.helper",
    "filter.evil.clean",
    "filter.evil.smudge",
    "filter.evil.process",
    "diff.evil.textconv",
    "diff.evil.command",
    "diff.external",
    "merge.evil.driver",
    "uploadpack.packObjectsHook",
    "remote.origin.uploadpack",
    "remote.origin.receivepack",
    "gpg.program",
    "gc.recentObjectsHook",
    "sequence.editor",
    "alias.status",
    "alias.cat-file",
    "alias.lfs",
    "pager.log",
    "trace2.eventTarget",
    "interactive.diffFilter",
];

/// A directory with a suite, and a file that appears if an untrusted command is run.
struct HostileCheckout {
    workspace: Workspace,
    mark: PathBuf,
}

impl HostileCheckout {
    fn new() -> Self {
        Self::with(Workspace::new())
    }

    fn with(workspace: Workspace) -> Self {
        let mark = workspace.path("was-run");
        let scene = Self { workspace, mark };
        scene.suite("");
        scene
    }

    /// The suite and its targets in a folder.
    fn suite(&self, folder: &str) {
        self.workspace.write(
            &format!("{folder}targets.yaml"),
            "targets:\n  - {name: m, provider: mock, response: hi}\n",
        );
        self.workspace
            .write(&format!("{folder}s.eval.yaml"), "tests:\n  - {id: a, input: hi, criteria: x}\n");
        self.workspace.write(
            &format!("{folder}requests.jsonl"),
            "{\"id\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n",
        );
    }

    /// A shell command that creates the marker file.
    fn evil(&self) -> String {
        format!("touch {}; cat", self.mark.display())
    }

    fn eval(&self, more: &[&str]) -> Output {
        self.workspace.run(&[&["eval", "s.eval.yaml", "--target", "m", "--no-grade", "-q"], more].concat())
    }

    fn config(&self, file: &str, key: &str, value: &str) {
        config(&self.workspace, file, key, value);
    }

    fn promisor(&self, dir: &str) {
        promisor(&self.workspace, dir, &self.mark);
    }

    fn git(&self, dir: &str, args: &[&str]) -> String {
        let mut git = Command::new("git");
        let dir = self.workspace.path(dir);
        fs::create_dir_all(&dir).unwrap();
        self.workspace.like(git.args(args)).current_dir(dir);
        for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            git.env(format!("{name}_NAME"), "a").env(format!("{name}_EMAIL"), "a@example.com");
        }
        let output = git.output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// A checkout with one commit of the suite, whose files all have a filter.
    fn checkout(&self, dir: &str) {
        self.suite(&format!("{dir}/"));
        self.workspace.write(&format!("{dir}/.gitattributes"), "* filter=evil diff=evil merge=evil\n");
        self.git(dir, &["init", "-q", "--initial-branch=main"]);
        self.git(dir, &["add", "."]);
        self.git(dir, &["commit", "-q", "-m", "one"]);
        // Another length and time, so that git has to look at the content.
        self.workspace
            .write(&format!("{dir}/s.eval.yaml"), "tests:\n  - {id: a, input: hello, criteria: x}\n");
    }

    /// Fails if the untrusted command was run.
    fn check(&self, what: &str) {
        assert!(!self.mark.exists(), "{what}: a command of the stranger was run");
    }
}

fn config(workspace: &Workspace, file: &str, key: &str, value: &str) {
    let file = workspace.path(file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let status = Command::new("git").arg("config").arg("-f").arg(file).args([key, value]).status();
    assert!(status.unwrap().success(), "{key}");
}

/// A repository in a folder of the workspace with missing objects and a command to fetch them.
fn promisor(workspace: &Workspace, dir: &str, mark: &Path) {
    workspace.write(&format!("{dir}/HEAD"), "ref: refs/heads/main\n");
    for inner in ["objects", "refs"] {
        fs::create_dir_all(workspace.path(dir).join(inner)).unwrap();
    }
    let (missing, branches) = ("1".repeat(40), ["eval-batch", "main"]);
    let packed: String = branches.map(|name| format!("{missing} refs/heads/{name}\n")).concat();
    workspace.write(&format!("{dir}/packed-refs"), packed);
    for (key, value) in [
        ("core.repositoryformatversion", "1"),
        ("core.bare", "true"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::touch {}", mark.display())),
        ("protocol.ext.allow", "always"),
        ("protocol.allow", "always"),
    ] {
        config(workspace, &format!("{dir}/config"), key, value);
    }
}

#[test]
fn an_exchange_in_a_checkout_runs_nothing_in_the_adapter() {
    let calls = Calls::new();
    let workspace = &calls.stage.workspace;
    let mark = workspace.path("was-run");
    promisor(workspace, ".run-evals/exchange.git", &mark);
    let done = calls.call("a", "message 0", 0, &["--exchange", ".run-evals/exchange.git"]);
    assert!(!mark.exists(), "a command of the stranger was run: {}", done.stderr);
}

#[test]
fn an_exchange_in_a_checkout_runs_nothing() {
    let commands: [&[&str]; 7] = [
        &["eval", "s.eval.yaml", "--target", "m", "--no-grade"],
        &["dispatch", "--requests", "requests.jsonl", "--target", "m", "--output", "out"],
        &["dispatch", "--requests", "requests.jsonl", "--target", "m", "--output", "out", "--batch-id", "b"],
        &["collect", "b", "--output", "out"],
        &["run", "--batch-id", "b", "--shard", "0"],
        &["dispatch", "--resume", "b", "--output", "out"],
        &["eval", "s.eval.yaml", "--target", "m", "--no-grade", "--baseline", "main"],
    ];
    for args in commands {
        let scene = HostileCheckout::new();
        scene.promisor(".run-evals/exchange.git");
        let output = scene.workspace.run(args);
        // A wrong option would end before git starts.
        assert_ne!(output.code, Some(2), "{args:?}: {}", output.stderr);
        scene.check(&format!("{args:?}: {}", output.stderr));
        let scene = HostileCheckout::new();
        scene.promisor(".run-evals/exchange.git");
        // The repository of the checkout is untrusted, too.
        scene.promisor(".git");
        scene.workspace.run(args);
        scene.check(&format!("{args:?} in a checkout"));
    }
}

#[test]
fn an_exchange_in_the_container_of_the_action_runs_nothing() {
    let workspace = Workspace::new()
        .env("GITHUB_ACTIONS", "true")
        .env("RUN_EVALS_IMAGE", "1")
        .env("INPUT_MODE", "eval")
        .env("INPUT_SUITE", "s.eval.yaml")
        .env("INPUT_TARGET", "m")
        .env("INPUT_NO-GRADE", "true");
    let scene = HostileCheckout::with(workspace);
    scene.promisor(".run-evals/exchange.git");
    let output = scene.workspace.run(&[]);
    assert!(!output.stderr.contains("unknown"), "{}", output.stderr);
    scene.check("the action");
}

#[test]
fn settings_of_an_exchange_are_removed() {
    let scene = HostileCheckout::new();
    scene.eval(&[]).expect(0);
    let config = ".run-evals/exchange.git/config";
    let ours = scene.workspace.read(config);
    for key in KEYS {
        scene.config(config, key, &scene.evil());
        scene.config(config, "core.bare", "false");
        scene.config(config, "core.worktree", "..");
        scene.eval(&[]).expect(0);
        scene.check(key);
        assert_eq!(scene.workspace.read(config), ours, "{key}");
    }
    for (key, value) in [("include.path", "../../evil.ini"), ("includeIf.gitdir:**.path", "../../evil.ini")] {
        scene.config("evil.ini", "core.fsmonitor", &scene.evil());
        scene.config(config, key, value);
        scene.eval(&[]).expect(0);
        scene.check(key);
        assert_eq!(scene.workspace.read(config), ours, "{key}");
    }
}

#[test]
fn an_exchange_that_points_elsewhere_is_rejected() {
    type Make = fn(&Path);
    let cases: [(&str, Make); 11] = [
        ("commondir", |dir| fs::write(dir.join("commondir"), "../../other").unwrap()),
        ("config.worktree", |dir| fs::write(dir.join("config.worktree"), "").unwrap()),
        ("objects/info/alternates", |dir| {
            fs::create_dir_all(dir.join("objects/info")).unwrap();
            fs::write(dir.join("objects/info/alternates"), "/tmp\n").unwrap();
        }),
        ("worktrees", |dir| fs::create_dir(dir.join("worktrees")).unwrap()),
        ("modules", |dir| fs::create_dir(dir.join("modules")).unwrap()),
        ("hooks/post-update", |dir| {
            fs::create_dir_all(dir.join("hooks")).unwrap();
            fs::write(dir.join("hooks/post-update"), "#!/bin/sh\n").unwrap();
        }),
        ("objects/pack/pack-1.promisor", |dir| {
            fs::create_dir_all(dir.join("objects/pack")).unwrap();
            fs::write(dir.join("objects/pack/pack-1.promisor"), "").unwrap();
        }),
        ("packed-refs", |dir| symlink("/etc/hostname", dir.join("packed-refs")).unwrap()),
        ("refs/heads/link", |dir| symlink("../../..", dir.join("refs/heads/link")).unwrap()),
        ("journal/b/x", |dir| {
            fs::create_dir_all(dir.join("journal/b")).unwrap();
            symlink("/etc/hostname", dir.join("journal/b/x")).unwrap();
        }),
        ("config", |dir| {
            fs::remove_file(dir.join("config")).unwrap();
            symlink("../../targets.yaml", dir.join("config")).unwrap();
        }),
    ];
    for (path, make) in cases {
        let scene = HostileCheckout::new();
        scene.eval(&[]).expect(0);
        let _ = fs::remove_file(scene.workspace.path(".run-evals/exchange.git/packed-refs"));
        make(&scene.workspace.path(".run-evals/exchange.git"));
        for args in [&["eval", "s.eval.yaml", "--target", "m", "--no-grade"][..], &["collect", "b"]] {
            let stderr = scene.workspace.run(args).expect(3).stderr;
            assert!(
                stderr.contains("is not trusted: `") && stderr.contains(&format!("`{path}`")),
                "{stderr}"
            );
            assert!(stderr.contains("hint: it may have come with a checkout"), "{stderr}");
        }
        assert!(scene.workspace.read("targets.yaml").starts_with("targets:"), "written through a link");
    }
    // A damaged exchange is repaired, but nothing is moved through a link.
    let scene = HostileCheckout::new();
    scene.eval(&[]).expect(0);
    let exchange = scene.workspace.path(".run-evals/exchange.git");
    fs::remove_file(exchange.join("config")).unwrap();
    fs::create_dir(exchange.join("config")).unwrap();
    fs::write(exchange.join("config/file"), "x").unwrap();
    fs::create_dir(scene.workspace.path("outside")).unwrap();
    symlink("../../outside", exchange.join("damaged")).unwrap();
    let stderr = scene.eval(&[]).expect(3).stderr;
    assert!(stderr.contains("`damaged` is a link"), "{stderr}");
    assert!(exchange.join("config/file").exists());
    assert_eq!(fs::read_dir(scene.workspace.path("outside")).unwrap().count(), 0);

    let scene = HostileCheckout::new();
    scene.eval(&[]).expect(0);
    fs::rename(scene.workspace.path(".run-evals/exchange.git"), scene.workspace.path("real.git")).unwrap();
    symlink("../real.git", scene.workspace.path(".run-evals/exchange.git")).unwrap();
    let stderr = scene.eval(&[]).expect(3).stderr;
    assert!(stderr.contains("is a link"), "{stderr}");
}

#[test]
fn a_suite_folder_that_is_a_bare_repository_runs_nothing() {
    let scene = HostileCheckout::new();
    scene.suite("two/");
    for dir in ["two/objects", "two/refs"] {
        fs::create_dir_all(scene.workspace.path(dir)).unwrap();
    }
    scene.workspace.write("two/HEAD", "ref: refs/heads/main\n");
    for key in KEYS {
        scene.config("two/config", key, &scene.evil());
    }
    scene.config("two/config", "core.repositoryformatversion", "0");
    scene.config("two/config", "core.bare", "false");
    scene.config("two/config", "core.worktree", ".");
    for args in
        [&["bundle", "two/s.eval.yaml", "--check"][..], &["bundle", "two/s.eval.yaml", "--output", "b"]]
    {
        scene.workspace.run(args).expect(0);
        scene.check(&format!("{args:?}"));
    }
}

#[test]
fn bundle_ignores_git_settings_of_a_checkout() {
    for key in KEYS {
        let scene = HostileCheckout::new();
        scene.checkout("repo");
        scene.config("repo/.git/config", key, &scene.evil());
        let output = scene.workspace.run(&["bundle", "repo/s.eval.yaml", "--output", "b"]).expect(0);
        scene.check(&format!("{key}: {}", output.stderr));
        // The repository was still inspected.
        assert!(scene.workspace.read("b/manifest.json").contains("\"dirty\": true"), "{key}");
    }
}

#[test]
fn bundle_ignores_repositories_elsewhere() {
    type Make = fn(&HostileCheckout);
    let cases: [(&str, Make); 6] = [
        ("a file `.git`", |scene| {
            fs::rename(scene.workspace.path("repo/.git"), scene.workspace.path("repo/elsewhere")).unwrap();
            scene.workspace.write("repo/.git", "gitdir: elsewhere\n");
            scene.config("repo/elsewhere/config", "filter.evil.clean", &scene.evil());
            scene.config("repo/elsewhere/config", "core.fsmonitor", &scene.evil());
        }),
        ("a file `commondir`", |scene| {
            fs::rename(scene.workspace.path("repo/.git"), scene.workspace.path("repo/elsewhere")).unwrap();
            fs::create_dir(scene.workspace.path("repo/.git")).unwrap();
            for name in ["HEAD", "index"] {
                let from = scene.workspace.path("repo/elsewhere").join(name);
                fs::copy(from, scene.workspace.path("repo/.git").join(name)).unwrap();
            }
            scene.workspace.write("repo/.git/commondir", "../elsewhere\n");
            scene.config("repo/elsewhere/config", "filter.evil.clean", &scene.evil());
        }),
        ("the configuration of a work tree", |scene| {
            scene.config("repo/.git/config", "core.repositoryformatversion", "1");
            scene.config("repo/.git/config", "extensions.worktreeConfig", "true");
            scene.config("repo/.git/config.worktree", "filter.evil.clean", &scene.evil());
        }),
        ("an included file", |scene| {
            scene.config("repo/evil.ini", "filter.evil.clean", &scene.evil());
            scene.config("repo/.git/config", "include.path", "../evil.ini");
        }),
        ("a submodule", |scene| {
            scene.workspace.write("repo/sub/file", "one\n");
            scene.git("repo/sub", &["init", "-q"]);
            scene.git("repo/sub", &["add", "."]);
            scene.git("repo/sub", &["commit", "-q", "-m", "one"]);
            scene.git("repo", &["-c", "advice.addEmbeddedRepo=false", "add", "sub"]);
            scene.config("repo/sub/.git/config", "filter.evil.clean", &scene.evil());
            scene.config("repo/sub/.git/config", "core.fsmonitor", &scene.evil());
            scene.workspace.write("repo/sub/.gitattributes", "* filter=evil\n");
            scene.workspace.write("repo/sub/file", "two and more\n");
        }),
        ("objects that are missing", |scene| {
            fs::remove_dir_all(scene.workspace.path("repo/.git")).unwrap();
            scene.promisor("repo/.git");
            scene.config("repo/.git/config", "core.bare", "false");
        }),
    ];
    for (what, make) in cases {
        let scene = HostileCheckout::new();
        scene.checkout("repo");
        make(&scene);
        let check = scene.workspace.run(&["bundle", "repo/s.eval.yaml", "--check"]);
        scene.check(&format!("{what}: {}", check.stderr));
        scene.workspace.run(&["bundle", "repo/s.eval.yaml", "--output", "b"]);
        scene.check(what);
    }
}

#[test]
fn a_repository_named_by_a_suite_is_queried_without_running_anything() {
    for url in ["ext::touch MARK", "./evil", "file:///WORK/repo/evil"] {
        let scene = HostileCheckout::new();
        scene.checkout("repo");
        for (key, value) in [("protocol.ext.allow", "always"), ("protocol.allow", "always")] {
            scene.config("repo/.git/config", key, value);
        }
        let ext = format!("url.ext::touch {} .insteadOf", scene.mark.display());
        scene.config("repo/.git/config", &ext, "./");
        scene.promisor("repo/evil");
        let root = scene.workspace.root().display().to_string();
        let url = url.replace("MARK", &scene.mark.display().to_string()).replace("/WORK", &root);
        let suite = format!(
            "tests:\n  - {{id: a, input: hi, criteria: x}}\nworkspace:\n  repos:\n    - path: ./x\n      repo: \"{url}\"\n      commit: main\n"
        );
        scene.workspace.write("repo/s.eval.yaml", suite);
        let output = scene.workspace.run(&["bundle", "repo/s.eval.yaml", "--check"]);
        scene.check(&format!("{url}: {}", output.stderr));
    }
}

#[test]
fn a_program_called_git_in_the_checkout_is_not_run() {
    let scene = HostileCheckout::new();
    scene.workspace.write_program("git", format!("#!/bin/sh\ntouch {}\n", scene.mark.display()));
    let path = format!(".:{}", std::env::var("PATH").unwrap());
    let mut command = scene.workspace.command(&["eval", "s.eval.yaml", "--target", "m", "--no-grade"]);
    assert!(command.env("PATH", path).status().unwrap().success());
    scene.check("a relative folder in PATH");
}

#[test]
fn control_characters_of_a_checkout_do_not_reach_the_terminal() {
    let scene = HostileCheckout::new();
    scene.eval(&[]).expect(0);
    let odd = "refs/heads/a\u{1b}[2Jb";
    symlink("/", scene.workspace.path(".run-evals/exchange.git").join(odd)).unwrap();
    let stderr = scene.eval(&[]).expect(3).stderr;
    assert!(!stderr.contains('\u{1b}') && stderr.contains("a\\u{1b}[2Jb"), "{stderr:?}");
}

#[test]
fn programs_in_the_checkout_are_not_run() {
    let real = std::env::var("PATH").unwrap();
    for path in [format!(".:{real}"), format!(":{real}"), format!("bin:{real}"), format!("/nowhere::{real}")]
    {
        let scene = HostileCheckout::with(
            Workspace::new().env("PATH", &path).env("GITHUB_API_URL", "http://127.0.0.1:9"),
        );
        for name in ["gh", "ssh", "git-lfs", "bin/gh", "bin/ssh", "x/ssh", "x/bin/ssh"] {
            scene.workspace.write_program(name, format!("#!/bin/sh\ntouch {}\n", scene.mark.display()));
        }
        scene.workspace.write(
            "cloud.yaml",
            "targets:\n  - {name: cloud, provider: github-actions, repo: a/b, workflow: w.yml}\n",
        );
        let dispatch =
            ["dispatch", "--requests", "requests.jsonl", "--target", "cloud", "--targets", "cloud.yaml"];
        scene.workspace.run(&[&dispatch[..], &["--output", "out"]].concat());
        scene.check(&format!("gh, {path}"));
        scene.checkout("x");
        scene.workspace.write(
            "x/s.eval.yaml",
            "tests:\n  - {id: a, input: hi, criteria: x}\nworkspace:\n  repos:\n    - {path: ./y, repo: \"ssh://git@127.0.0.1:9/a.git\", commit: main}\n",
        );
        scene.workspace.run(&["bundle", "x/s.eval.yaml", "--output", "b"]);
        let mut command = scene.workspace.command(&["bundle", "s.eval.yaml", "--output", "b"]);
        command.current_dir(scene.workspace.path("x")).output().unwrap();
        scene.check(&format!("ssh, {path}"));
    }
}

#[test]
fn links_in_the_git_directory_of_a_checkout_are_rejected() {
    let names = [
        "HEAD",
        "config",
        "index",
        "logs",
        "objects",
        "objects/pack",
        "packed-refs",
        "refs",
        "refs/heads",
        "refs/heads/main",
        "shallow",
        "run-evals.lock",
        "run-evals-forward.lock",
        "run-evals-forward.json",
    ];
    for name in names {
        let scene = HostileCheckout::new();
        scene.checkout("repo");
        let (inner, outer) = (scene.workspace.path("repo/.git").join(name), scene.workspace.path("outer"));
        fs::create_dir(&outer).unwrap();
        let target = outer.join(name.rsplit('/').next().unwrap());
        if inner.exists() {
            fs::rename(&inner, &target).unwrap();
        }
        symlink(&target, &inner).unwrap();
        let output = scene.workspace.run(&["bundle", "repo/s.eval.yaml", "--check"]);
        assert_eq!(output.code, Some(3), "{name}: {}", output.stderr);
        assert!(output.stderr.contains(&format!("`{name}` is a link")), "{name}: {}", output.stderr);
        if name == "refs" {
            let said = output.stderr.replace(scene.workspace.root().to_str().unwrap(), "<dir>");
            insta::assert_snapshot!(said, @r"
            error: the git directory `<dir>/repo/.git` is not trusted: `refs` is a link

            hint: git would change files elsewhere: clone the repository again, or put the file or directory itself there
            ");
        }
    }
}

#[test]
fn a_linked_work_tree_is_accepted() {
    let scene = HostileCheckout::new();
    scene.checkout("repo");
    scene.git("repo", &["worktree", "add", "-q", "../linked"]);
    let output = scene.workspace.run(&["bundle", "linked/s.eval.yaml", "--output", "b"]).expect(0);
    let commit = scene.git("repo", &["rev-parse", "HEAD"]);
    let files = scene.workspace.tree();
    let has = |bytes: &Vec<u8>| memchr::memmem::find(bytes, commit.as_bytes()).is_some();
    let is_named = files
        .iter()
        .any(|(path, bytes)| path.starts_with(scene.workspace.path("b")) && bytes.as_ref().is_some_and(has));
    assert!(is_named, "no file of the bundle names {commit}: {}", output.stderr);
}

#[test]
fn control_characters_do_not_reach_an_annotation() {
    let workspace = Workspace::new().env("GITHUB_ACTIONS", "true").env("GITHUB_RUN_ID", "7");
    workspace.write("targets.yaml", "targets:\n  - {name: m, provider: mock, response: hi}\n");
    let stderr = workspace.run(&["eval", "a\u{1b}[2J\u{202e}.eval.yaml", "--target", "m"]).expect(3).stderr;
    let annotation = stderr.lines().find(|line| line.starts_with("::error ")).unwrap();
    assert!(annotation.contains("a\\u{1b}[2J\\u{202e}.eval.yaml"), "{annotation}");
    assert!(!stderr.contains(['\u{1b}', '\u{202e}']), "{stderr}");
}
