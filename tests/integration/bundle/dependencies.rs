//! What scripts need without naming it as a file: local packages, modules of a project, computed paths, the repository itself.

use insta::assert_snapshot;
use serde_json::Value;

use super::{ECHO, check_out, contents, repository, workspace};
use crate::support::Workspace;

/// A suite whose grader runs this.
fn suite(command: &str) -> String {
    format!(
        "tests:\n  - id: one\n    criteria: c\n    input: hello\n    assertions: [{{type: code-grader, name: check, command: {command}}}]\n"
    )
}

fn bundled(files: &[(&str, &str)], command: &str) -> Workspace {
    let text = suite(command);
    let workspace = repository(&[&[ECHO, ("evals/suite.eval.yaml", text.as_str())], files].concat());
    let told = workspace.run(&["bundle", "repo/evals/suite.eval.yaml", "-o", "out"]).expect(0).stderr;
    workspace.write("stderr", told);
    workspace
}

fn files(workspace: &Workspace) -> String {
    let found = contents(&workspace.path("out"));
    found
        .keys()
        .map(|path| format!("{}\n", path.display()))
        .filter(|path| path.starts_with("scripts/"))
        .collect()
}

/// What stays behind, with the file and the line that need it.
fn left(workspace: &Workspace) -> String {
    let manifest: Value = serde_json::from_str(&workspace.read("out/manifest.json")).unwrap();
    let text =
        |one: &Value| format!("{}:{} {}\n", one["file"].as_str().unwrap_or("-"), one["line"], one["what"]);
    manifest["left_behind"].as_array().unwrap().iter().map(text).collect()
}

#[test]
fn what_a_project_keeps_in_src_travels() {
    let workspace = workspace();
    let suite = check_out(&workspace, "python-src-layout", "repo");
    workspace.run(&["bundle", suite.to_str().unwrap(), "-q", "-o", "out"]).expect(0);
    assert_snapshot!(files(&workspace), @r"
    scripts/evals/.keep
    scripts/project/README.md
    scripts/project/pyproject.toml
    scripts/project/scripts/check.py
    scripts/project/src/wording/__init__.py
    scripts/project/src/wording/grader.py
    scripts/project/src/wording/rules/words.py
    ");
    assert_snapshot!(left(&workspace), @r#"project/scripts/check.py:4 "the installed Python project of `wording`""#);
}

#[test]
fn modules_are_found_where_the_project_says() {
    let workspace = bundled(
        &[
            (
                "app/pyproject.toml",
                "[tool.pytest.ini_options]\npythonpath = [\"source\"]\n[tool.uv.sources]\nshared = { path = \"../shared\" }\n",
            ),
            ("app/source/inner/a.py", ""),
            ("app/check.py", "import inner.a\nfrom shared import b\nimport yaml\n"),
            ("shared/pyproject.toml", ""),
            ("shared/src/shared/b.py", ""),
            ("shared/src/unused/c.py", ""),
            ("tool/run.py", "import sys\nsys.path.insert(0, '../other/lib')\nimport near\n"),
            ("lib/near.py", ""),
        ],
        "'python3 ../app/check.py && python3 ../tool/run.py'",
    );
    assert_snapshot!(files(&workspace), @r"
    scripts/app/check.py
    scripts/app/pyproject.toml
    scripts/app/source/inner/a.py
    scripts/evals/.keep
    scripts/lib/near.py
    scripts/shared/pyproject.toml
    scripts/shared/src/shared/b.py
    scripts/tool/run.py
    ");
}

#[test]
fn packages_of_the_repository_travel_with_what_they_depend_on() {
    let workspace = bundled(
        &[
            (".gitignore", "dist\n"),
            ("package.json", "{\"workspaces\": [\"packages/*\", \"evals\"]}"),
            ("bun.lock", "{}"),
            (
                "evals/package.json",
                "{\n  \"name\": \"e\",\n  \"dependencies\": {\n    \"@x/a\": \"workspace:*\",\n    \"gone\": \"workspace:^\",\n    \"far\": \"file:../../far\",\n    \"zod\": \"^3.0.0\"\n  }\n}\n",
            ),
            ("evals/graders/check.js", "import '@x/a';"),
            (
                "packages/a/package.json",
                "{\"name\": \"@x/a\", \"main\": \"dist/index.js\", \"dependencies\": {\"b\": \"link:../../libs/b\"}}",
            ),
            ("packages/a/src/index.ts", ""),
            ("packages/unused/package.json", "{\"name\": \"@x/unused\"}"),
            ("packages/unused/index.js", ""),
            ("libs/b/package.json", "{\"name\": \"b\", \"main\": \"none.js\"}"),
        ],
        "[node, graders/check.js]",
    );
    // Built, and ignored by git: the package is imported by it.
    workspace.write("repo/packages/a/dist/index.js", "import './chunk.js';");
    workspace.write("repo/packages/a/dist/chunk.js", "");
    workspace.write("repo/packages/a/node_modules/z/index.js", "");
    let output = workspace.run(&["bundle", "repo/evals/suite.eval.yaml", "-o", "out", "--force"]).expect(0);
    assert_snapshot!(files(&workspace), @r"
    scripts/bun.lock
    scripts/evals/graders/check.js
    scripts/evals/package.json
    scripts/libs/b/package.json
    scripts/package.json
    scripts/packages/a/dist/chunk.js
    scripts/packages/a/dist/index.js
    scripts/packages/a/package.json
    scripts/packages/a/src/index.ts
    scripts/packages/unused/package.json
    ");
    assert_snapshot!(left(&workspace), @r#"
    evals/package.json:4 "evals/node_modules"
    evals/package.json:6 "evals/node_modules"
    -:null "packages/a/node_modules"
    packages/a/package.json:1 "packages/a/node_modules"
    packages/a/package.json:1 "the entry files of the package `b`"
    evals/package.json:6 "the package `far`"
    evals/package.json:5 "the package `gone`"
    "#);
    let (_, rest) = output.stderr.split_once("warning: the package `far`").unwrap();
    assert_snapshot!(rest.split("warning:").next().unwrap().trim(), @r#"
    is left behind: it is outside the repository
      --> evals/package.json:6:5
       |
     6 |     "far": "file:../../far",
       |     ^^^^^^^^^^^^^^^^^^^^^^^^

    hint: publish it, or move it into the repository
    "#);
}

#[test]
fn paths_with_variables_travel_as_far_as_they_are_known() {
    let script = r#"#!/bin/bash
HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cp -r "$HERE/../variants/$1" "$2"
cat "$HERE/../evals/case-$3.txt"
cat "$HERE/../evals/$3"
cat "$UNKNOWN/x/y" "/etc/$1" "../outside/$1"
"#;
    let workspace = bundled(
        &[
            ("tools/setup.sh", script),
            ("variants/one/a.txt", ""),
            ("variants/two/.hidden", ""),
            ("evals/case-1.txt", ""),
            ("evals/other.txt", ""),
            (
                "tools/more.py",
                "HERE = Path(__file__).parent\nopen(HERE.parent / 'x')\nopen(HERE / '..' / 'data' / f'{n}.json')\n",
            ),
            ("data/1.json", ""),
        ],
        "[bash, ../tools/setup.sh, one, out]",
    );
    assert_snapshot!(files(&workspace), @r"
    scripts/data/1.json
    scripts/evals/case-1.txt
    scripts/tools/more.py
    scripts/tools/setup.sh
    scripts/variants/one/a.txt
    scripts/variants/two/.hidden
    ");
    assert_snapshot!(left(&workspace), @r#"tools/setup.sh:5 "a file in `evals`""#);
}

#[test]
fn scripts_that_use_the_repository_are_reported() {
    let workspace = bundled(
        &[
            ("tools/a.sh", "#!/bin/sh\nROOT=$(git rev-parse --show-toplevel)\ncp -r \"$ROOT\" /tmp/copy\n"),
            ("tools/b.py", "import subprocess\nsubprocess.run(['git', 'log', '-1'])\n"),
            (
                "tools/c.sh",
                "cd \"$1\" && git init -q && git add -A && git status\ngit clone https://example.com/x\n",
            ),
        ],
        "'sh ../tools/a.sh; git -C .. diff --stat'",
    );
    assert_snapshot!(left(&workspace), @r#"
    tools/a.sh:3 "the rest of the repository"
    evals/suite.eval.yaml:5 "what `git diff` needs"
    tools/b.py:2 "what `git log` needs"
    tools/a.sh:2 "what `git rev-parse` needs"
    "#);
    let check = workspace.run(&["bundle", "repo/evals/suite.eval.yaml", "--check"]).expect(3);
    for place in ["tools/a.sh:2", "tools/a.sh:3", "tools/b.py:2", "evals/suite.eval.yaml:5"] {
        assert!(check.stdout.contains(&format!("({place})")), "{place}: {}", check.stdout);
    }
    assert!(check.stderr.contains("tools/b.py:2:1"), "{}", check.stderr);
    let json =
        workspace.run(&["bundle", "repo/evals/suite.eval.yaml", "--check", "--format", "json"]).expect(3);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["left_behind"][0]["file"], "tools/a.sh");
    assert_eq!(json["left_behind"][0]["line"], 3);
}

/// Programs that run their arguments, lists that grow, and scripts of `package.json`.
#[test]
fn git_behind_another_program_is_reported() {
    let script = "#!/bin/sh\ntimeout 5 git fetch\nsudo -u runner git log\nls | xargs -n 1 git add\nfind . -exec git rm {} +\n";
    let program = "import subprocess\ncmd = ['git']\ncmd += ['log']\nsubprocess.run(cmd)\n";
    let package = "{\"scripts\": {\n\"check\": \"git diff --exit-code && node ../lib/c.js\",\n\"test\": \"node ../lib/t.js\"\n}}\n";
    let workspace = bundled(
        &[
            ("tools/a.sh", script),
            ("tools/b.py", program),
            ("evals/package.json", package),
            ("lib/c.js", ""),
            ("lib/t.js", ""),
        ],
        "'sh ../tools/a.sh; yarn check && npm test'",
    );
    assert_snapshot!(left(&workspace), @r#"
    tools/a.sh:4 "what `git add` needs"
    evals/package.json:2 "what `git diff` needs"
    tools/a.sh:2 "what `git fetch` needs"
    tools/a.sh:3 "what `git log` needs"
    tools/a.sh:5 "what `git rm` needs"
    tools/b.py:2 "what `git` needs"
    "#);
    assert!(files(&workspace).contains("scripts/lib/t.js"), "{}", files(&workspace));
}

/// After `cd` and `pushd`, `$(pwd)` and relative paths are somewhere else.
#[test]
fn a_script_that_changes_its_directory_is_followed() {
    let script = r#"#!/bin/bash
pushd "$(dirname "${BASH_SOURCE[0]}")" >/dev/null; HERE="$(pwd)"; popd >/dev/null
cat "$HERE/near/$1.txt"
cd "$HERE/../.."
cat settings/$1.json
python3 more/check.py
cat VERSION.txt
cp -r . "$2"
cd "$2"
cat data/$1.json VERSION.md
cp -r x/. .
"#;
    let workspace = bundled(
        &[
            ("tools/deep/setup.sh", script),
            ("tools/deep/near/a.txt", ""),
            ("settings/a.json", ""),
            ("more/check.py", ""),
            ("VERSION.txt", ""),
            ("other.txt", ""),
            ("data/a.json", ""),
        ],
        "[bash, ../tools/deep/setup.sh, a, out]",
    );
    assert_snapshot!(files(&workspace), @r"
    scripts/VERSION.txt
    scripts/evals/.keep
    scripts/more/check.py
    scripts/settings/a.json
    scripts/tools/deep/near/a.txt
    scripts/tools/deep/setup.sh
    ");
    assert_snapshot!(left(&workspace), @r#"tools/deep/setup.sh:8 "the rest of the repository""#);
    let workspace = bundled(
        &[(
            "evals/setup.sh",
            "#!/bin/sh\ncp -r .. \"$1\"\ncd ..\ncp -r . \"$1\"\ncp -r x .\ntar -c -C . x\n",
        )],
        "[sh, setup.sh, out]",
    );
    assert_snapshot!(left(&workspace), @r#"
    evals/setup.sh:2 "the rest of the repository"
    evals/setup.sh:4 "the rest of the repository"
    evals/setup.sh:6 "the rest of the repository"
    "#);
}

#[test]
fn packages_by_path_alias_and_override_travel() {
    let workspace = bundled(
        &[
            ("package.json", "{\"workspaces\": [\"packages/*\", \"evals\"]}"),
            (
                "evals/package.json",
                "{\n\"dependencies\": {\"bare\": \"../libs/bare\", \"alias\": \"workspace:@x/a@^\"},\n\"overrides\": {\"zod\": \"file:../libs/zod\", \"b\": \"1.0.0\"},\n\"pnpm\": {\"patchedDependencies\": {\"y@1\": \"patches/y.patch\"}},\n\"resolutions\": {\"far\": \"portal:../../far\"}\n}\n",
            ),
            ("evals/check.js", ""),
            ("evals/patches/y.patch", ""),
            ("packages/a/package.json", "{\"name\": \"@x/a\"}"),
            ("packages/a/a.js", ""),
            ("packages/b/package.json", "{\"name\": \"b\"}"),
            ("packages/b/b.js", ""),
            ("libs/bare/package.json", "{}"),
            ("libs/bare/bare.js", ""),
            ("libs/zod/package.json", "{}"),
            ("libs/zod/zod.js", ""),
        ],
        "[node, check.js]",
    );
    assert_snapshot!(files(&workspace), @r"
    scripts/evals/check.js
    scripts/evals/package.json
    scripts/evals/patches/y.patch
    scripts/libs/bare/bare.js
    scripts/libs/bare/package.json
    scripts/libs/zod/package.json
    scripts/libs/zod/zod.js
    scripts/package.json
    scripts/packages/a/a.js
    scripts/packages/a/package.json
    scripts/packages/b/package.json
    ");
    assert!(
        left(&workspace).contains("evals/package.json:5 \"the package `far`\"\n"),
        "{}",
        left(&workspace)
    );
}

#[test]
fn projects_in_requirements_travel() {
    let inline = "# /// script\n# dependencies = [\"inner\"]\n# [tool.uv.sources]\n# inner = { path = \"../inner\", editable = true }\n# ///\nimport inner\n";
    let workspace = bundled(
        &[
            ("tools/check.py", "import words\n"),
            ("tools/requirements.txt", "requests\n-r more/base.txt\n-e ../gone\n-e ../../far\n"),
            ("tools/more/base.txt", "words @ file:../../words\n"),
            ("words/setup.py", ""),
            ("words/words/__init__.py", ""),
            ("words/words/list.txt", ""),
            ("evals/inline.py", inline),
            ("inner/pyproject.toml", ""),
            ("inner/inner.py", ""),
        ],
        "'python3 ../tools/check.py; uv run inline.py'",
    );
    assert_snapshot!(files(&workspace), @r"
    scripts/evals/inline.py
    scripts/inner/inner.py
    scripts/inner/pyproject.toml
    scripts/tools/check.py
    scripts/tools/more/base.txt
    scripts/tools/requirements.txt
    scripts/words/setup.py
    scripts/words/words/__init__.py
    scripts/words/words/list.txt
    ");
    assert_snapshot!(left(&workspace), @r#"
    tools/requirements.txt:4 "the project `../../far`"
    tools/requirements.txt:3 "the project `../gone`"
    "#);
}

/// Every command of git needs a repository; what the script has made itself is one.
#[test]
fn repositories_of_the_script_are_distinguished_from_the_suites() {
    let hook = "#!/bin/sh\ncd \"$1\"\ngit init -q .\ngit add -A\n(cd \"$2\" && git fetch)\ngit -C \"$3\" \\\n  reset --hard\n/usr/bin/git -C ../.. tag\n";
    let program = "import subprocess\nsubprocess.run(\n    [\n        'git',\n        'pull',\n    ],\n    cwd=there,\n)\nsubprocess.run(['git', 'init'], cwd=here)\nsubprocess.run(['git', 'commit', '-m', 'x'], cwd=here)\nsubprocess.run(['git', 'merge', 'x'])\n";
    let library =
        "from git import Repo\nRepo.clone_from('https://example.com/x', to)\nRepo(to).head\nRepo('.').head\n";
    let workspace = bundled(
        &[("tools/a.sh", hook), ("tools/b.py", program), ("tools/c.py", library)],
        "'sh ../tools/a.sh; git apply x.patch; git --version'",
    );
    assert_snapshot!(left(&workspace), @r#"
    evals/suite.eval.yaml:5 "what `git apply` needs"
    tools/a.sh:5 "what `git fetch` needs"
    tools/b.py:11 "what `git merge` needs"
    tools/b.py:4 "what `git pull` needs"
    tools/a.sh:6 "what `git reset` needs"
    tools/a.sh:8 "what `git tag` needs"
    tools/c.py:4 "what `git.Repo` needs"
    "#);
    let repository = workspace_of("script-makes-repository");
    repository.run(&["bundle", "repo/evals/suite.eval.yaml", "--check"]).expect(0);
    let python = workspace_of("python-calls-git");
    let check = python.run(&["bundle", "repo/evals/suite.eval.yaml", "--check"]).expect(3);
    assert!(check.stdout.contains("what `git rev-parse` needs"), "{}", check.stdout);
    assert!(check.stdout.contains("(evals/check.py:9)"), "{}", check.stdout);
}

fn workspace_of(fixture: &str) -> Workspace {
    let workspace = workspace();
    check_out(&workspace, fixture, "repo");
    workspace
}

/// A line that is drawn could hold a password.
#[test]
fn a_line_with_a_password_is_not_drawn() {
    let script = "#!/bin/sh\ngit remote add x https://me:hunter2hunter2@example.com/x\n";
    let workspace = bundled(&[("tools/a.sh", script)], "[sh, ../tools/a.sh]");
    let told = workspace.read("stderr");
    assert!(told.contains("tools/a.sh:2"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

/// Every report draws its line, so a script of such lines alone would take minutes.
#[test]
fn a_script_of_git_calls_is_reported_up_to_a_limit() {
    let script = "git log\n".repeat(100_000);
    let workspace = bundled(&[("evals/check.sh", script.as_str())], "[sh, check.sh]");
    let left = left(&workspace);
    assert_eq!(left.lines().count(), 50, "{left}");
    assert!(left.contains("evals/check.sh:50 \"what later lines of the script need\"\n"), "{left}");
}

/// A repository may hold long chains: following them must not use up the stack.
#[test]
fn long_chains_of_scripts_are_followed() {
    let names: Vec<(String, String)> = (0..4000)
        .map(|i| (format!("evals/s{i}.sh"), format!("#!/bin/sh\n. ./s{}.sh\n", i + 1)))
        .chain([("evals/s4000.sh".to_owned(), "#!/bin/sh\n".to_owned())])
        .collect();
    let named: Vec<(&str, &str)> = names.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let workspace = bundled(&named, "[sh, s0.sh]");
    assert!(workspace.path("out/scripts/evals/s4000.sh").is_file());
}

#[test]
fn long_chains_of_settings_and_packages_are_followed() {
    let package = |i: usize| {
        let next = if i < 1500 { format!("\"d\": \"file:../p{}\"", i + 1) } else { String::new() };
        (format!("p{i}/package.json"), format!("{{\"name\": \"p{i}\", \"dependencies\": {{{next}}}}}"))
    };
    let settings = |i: usize| (format!("ts/t{i}.json"), format!("{{\"extends\": \"./t{}.json\"}}", i + 1));
    let mut files: Vec<(String, String)> = (0..=1500).map(package).chain((0..1500).map(settings)).collect();
    files.push(("p0/tsconfig.json".to_owned(), "{\"extends\": \"../ts/t0.json\"}".to_owned()));
    files.push(("p0/check.js".to_owned(), String::new()));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let workspace = bundled(&files, "[node, ../p0/check.js]");
    assert!(workspace.path("out/scripts/p1500/package.json").is_file());
    assert!(workspace.path("out/scripts/ts/t1499.json").is_file());
}

#[test]
fn package_scripts_may_run_themselves() {
    let package = "{\"scripts\": {\"a\": \"bun run b\", \"b\": \"bun run a && node b.js\"}}";
    let workspace = bundled(&[("evals/package.json", package), ("evals/b.js", "")], "[bun, run, a]");
    assert!(workspace.path("out/scripts/evals/b.js").is_file());
}

#[test]
fn directories_of_many_scripts_are_read_once() {
    let names: Vec<String> = (0..3000).map(|i| format!("tools/m{i}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "import os\n")).collect();
    let workspace = bundled(&files, "[python3, ../tools/m1.py]");
    assert!(workspace.path("out/scripts/tools/m2999.py").is_file());
}

#[test]
fn large_package_files_are_reported() {
    let dependencies: Vec<String> = (0..100_000).map(|i| format!("\"dep{i}\": \"1\"")).collect();
    let package = format!("{{\"dependencies\": {{\n{}\n}}}}", dependencies.join(",\n"));
    let workspace = bundled(&[("evals/package.json", &package), ("evals/a.js", "")], "[node, a.js]");
    assert_snapshot!(left(&workspace), @r#"evals/package.json:1 "the local dependencies of `package.json`""#);
    assert!(workspace.read("stderr").contains("it is larger than 1 MiB"));
}

#[test]
fn many_dependencies_on_packages_of_the_repository() {
    let dependencies: Vec<String> = (0..20_000).map(|i| format!("\"dep{i}\": \"file:../a\"")).collect();
    let package = format!("{{\"dependencies\": {{\n{}\n}}}}", dependencies.join(",\n"));
    let workspace = bundled(
        &[("evals/package.json", &package), ("evals/a.js", ""), ("a/package.json", "{}")],
        "[node, a.js]",
    );
    let left = left(&workspace);
    assert!(left.contains("evals/package.json:20001 "), "{left}");
}

#[test]
fn members_of_a_workspace_may_depend_on_each_other() {
    let member = |i: usize| {
        let text =
            format!("{{\"name\": \"m{i}\", \"dependencies\": {{\"m{}\": \"workspace:*\"}}}}", (i + 1) % 1000);
        (format!("packages/m{i}/package.json"), text)
    };
    let mut files: Vec<(String, String)> = (0..1000).map(member).collect();
    files.push(("package.json".to_owned(), "{\"workspaces\": [\"packages/*\"]}".to_owned()));
    files.push(("packages/m0/check.js".to_owned(), String::new()));
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let workspace = bundled(&files, "[node, ../packages/m0/check.js]");
    assert!(workspace.path("out/scripts/packages/m999/package.json").is_file());
}

#[test]
fn repeated_names_are_looked_up_once() {
    let project = format!("[tool.x]\nnames = [{}]\n", "\"lib\",".repeat(150_000));
    let mut names: Vec<String> = (0..300).map(|i| format!("d/f{i}.sh")).collect();
    names.sort();
    let walks = "ls ../d/\n".repeat(50_000);
    let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "#!/bin/sh\n")).collect();
    files.extend([
        ("app/pyproject.toml", project.as_str()),
        ("app/lib/inner.py", ""),
        ("app/check.py", "import inner\n"),
        ("tools/walk.sh", walks.as_str()),
    ]);
    let workspace = bundled(&files, "'python3 ../app/check.py; sh ../tools/walk.sh'");
    assert!(workspace.path("out/scripts/app/lib/inner.py").is_file());
    assert!(workspace.path("out/scripts/d/f299.sh").is_file());
}

#[test]
fn scripts_with_many_names_for_directories() {
    let names: String = (0..15_000).map(|i| format!("N{i} = Path(__file__).parent\n")).collect();
    let script = format!("{names}{}open(N7 / 'x.txt')\n", "print(1)\n".repeat(40_000));
    let workspace = bundled(&[("evals/a.py", &script), ("evals/x.txt", "")], "[python3, a.py]");
    assert!(workspace.path("out/scripts/evals/x.txt").is_file());
}

#[test]
fn commands_that_change_the_directory_often() {
    let command = format!("'{}sh x.sh'", "cd ../evals && cd ../tools && ".repeat(5000));
    let workspace = bundled(&[("tools/x.sh", "")], &command);
    assert!(workspace.path("out/scripts/tools/x.sh").is_file());
}
