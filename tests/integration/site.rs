//! `leaderboard site` through the binary: size, links, numbers, hostile names, and what happens to the directory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use run_evals::testing::{Digest, Leaderboard};
use serde_json::{Value, json};

use crate::support::Workspace;

const LARGEST_PAGE: usize = 200_000;

/// An entry of four cases with ten fields each, of which the first `right` of each case are correct.
fn entry(skill: &str, commit: usize, model: &str, right: [u32; 4]) -> Value {
    let share = |part: u32, whole: u32| (f64::from(part) / f64::from(whole) * 1e4).round_ties_even() / 1e4;
    let digest = |letter: &str| letter.repeat(64);
    let sum: u32 = right.iter().sum();
    let score = share(sum, 40);
    let cases = right.iter().zip(["alder", "birch", "cedar", "elm"]);
    let cases: Vec<Value> = cases
        .map(|(right, case)| json!({"case": case, "accuracy": share(*right, 10), "reproducibility": null, "ok": 1, "errors": 0}))
        .collect();
    let interval = [(score - 0.1).max(0.0), 1.0].map(|end: f64| (end * 1e4).round() / 1e4);
    json!({
        "skill": skill, "skill_version": format!("1.{commit}.0"), "prompt_commit": format!("{commit:040x}"),
        "prompt_sha256": digest("a"), "prompt_body_sha256": digest("b"), "dataset_commit": null, "cases_sha256": digest("c"),
        "model": model, "alias_target": null,
        "params": {"temperature": 0.0, "max_tokens": null, "seed": null, "structured_output": "json_schema"},
        "replicates": 1, "scorer_version": 2, "rules_sha256": digest("d"), "cases": {"total": 4, "run": 4, "skipped": []},
        "calls": {"attempted": 4, "ok": 4, "api_error": 0, "parse_error": 0, "truncated": 0},
        "schema_valid": {"n": 4, "of": 4, "rate": 1.0},
        "accuracy": {"score": score, "interval": interval,
            "n_correct": sum, "n_incorrect": 40 - sum, "n_missing": 0, "n_hallucinated": 0, "n_correct_absent": 0},
        "prose": {"score": null, "overlap": null, "n_correct": 0, "n_incorrect": 0, "n_missing": 0},
        "reproducibility": {"score": null, "interval": null, "fields_probed": 0, "fields_full_agreement": 0, "exact_output_rate": null},
        "tokens": {"prompt": 1, "completion": 1}, "per_case": cases,
    })
}

fn board(entries: &[Value]) -> Vec<u8> {
    let mut board = Leaderboard::empty();
    for entry in entries {
        board.insert(serde_json::from_value(entry.clone()).unwrap());
    }
    board.to_bytes()
}

/// Every file below a directory, by its path.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, files);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(dir, dir, &mut found);
    found
}

/// The document as XML, which every page of ours is but for its first line and elements without an end.
fn parsed(html: &str) -> roxmltree::Document<'_> {
    roxmltree::Document::parse(html).unwrap_or_else(|error| panic!("{error}\n{html}"))
}

/// Closes what HTML leaves open, and removes attributes without a value.
fn as_xml(html: &str) -> String {
    let mut xml = html.replacen("<!doctype html>\n", "", 1);
    for void in ["meta", "link", "img", "br"] {
        let mut out = String::new();
        let mut rest = xml.as_str();
        let start = format!("<{void}");
        while let Some(at) = rest.find(&start) {
            let next = rest.as_bytes().get(at + start.len());
            let end = at + rest[at..].find('>').unwrap();
            out.push_str(&rest[..end]);
            if matches!(next, Some(b' ' | b'>')) {
                out.push('/');
            }
            out.push('>');
            rest = &rest[end + 1..];
        }
        out.push_str(rest);
        xml = out;
    }
    xml
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == extension)
}

fn is_page(path: &str) -> bool {
    has_extension(path, "html")
}

/// Every link leads to a file of the site, and every fragment to an id of it.
fn links_resolve(files: &BTreeMap<String, Vec<u8>>) -> usize {
    let mut ids: HashMap<&str, BTreeSet<String>> = HashMap::new();
    let mut links: Vec<(&str, String)> = Vec::new();
    for (path, bytes) in files.iter().filter(|(path, _)| is_page(path)) {
        let xml = as_xml(std::str::from_utf8(bytes).unwrap());
        let document = parsed(&xml);
        for node in document.descendants() {
            if let Some(id) = node.attribute("id") {
                assert!(ids.entry(path).or_default().insert(id.to_owned()), "{path}: twice {id}");
            }
            for name in ["href", "src"] {
                links.extend(node.attribute(name).map(|link| (path.as_str(), link.to_owned())));
            }
        }
    }
    for (path, link) in &links {
        assert!(!link.contains(':') && !link.starts_with('/'), "{path}: {link} leaves the site");
        let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
        let mut place: Vec<&str> = path.split('/').collect();
        place.pop();
        for part in target.split('/').filter(|part| !part.is_empty()) {
            if part == ".." {
                assert!(place.pop().is_some(), "{path}: {link} leaves the site");
            } else {
                place.push(part);
            }
        }
        let target = if target.is_empty() { (*path).to_owned() } else { place.join("/") };
        assert!(files.contains_key(&target), "{path}: {link} leads nowhere");
        // A row may be on a later page of its document.
        let dir = target.strip_suffix("index.html").unwrap_or(&target);
        let has = ids.iter().any(|(page, ids)| page.starts_with(dir) && ids.contains(fragment));
        assert!(fragment.is_empty() || has, "{path}: {link} has no such place");
    }
    links.len()
}

#[test]
fn a_site_of_five_thousand_entries() {
    let workspace = Workspace::new();
    let mut random = fastrand::Rng::with_seed(7);
    let mut entries = Vec::new();
    for skill in 0..50 {
        for model in 0..10 {
            for commit in 0..10 {
                let mut case = || random.u32(1..=10 - model / 3);
                let right = [case(), case(), case(), case()];
                entries.push(entry(
                    &format!("skill-{skill:02}"),
                    commit,
                    &format!("meadow/quill-{model}"),
                    right,
                ));
            }
        }
    }
    assert_eq!(entries.len(), 5000);
    workspace.write("leaderboard.json", board(&entries));
    let start = Instant::now();
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    let took = start.elapsed();
    let site = files(&workspace.path("_site"));
    let pages: Vec<(&String, &Vec<u8>)> = site.iter().filter(|(path, _)| is_page(path)).collect();
    let largest = pages.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let figures = format!(
        "{} pages, {} files in {took:?}; the largest: {} with {} bytes\n",
        pages.len(),
        site.len(),
        largest.0,
        largest.1.len()
    );
    std::io::stderr().write_all(figures.as_bytes()).unwrap();
    assert!(largest.1.len() <= LARGEST_PAGE, "{}: {}", largest.0, largest.1.len());
    let links = links_resolve(&site);
    assert!(links > 10_000, "{links}");
    assert_eq!(site["leaderboard.json"], std::fs::read(workspace.path("leaderboard.json")).unwrap());

    // The cells of the matrix, the rows of a skill and its chart have the numbers of the file.
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let newest = |skill: &str, model: &str| {
        let of = entries.iter().find(|entry| {
            entry["skill"] == skill && entry["model"] == model && entry["skill_version"] == "1.9.0"
        });
        of.unwrap()["accuracy"].clone()
    };
    let xml = as_xml(std::str::from_utf8(&site["index.html"]).unwrap());
    let document = parsed(&xml);
    let class = |node: &roxmltree::Node<'_, '_>, name: &str| {
        node.attribute("class").is_some_and(|class| class.split(' ').any(|part| part == name))
    };
    let matrix = document.descendants().find(|node| class(node, "matrix")).unwrap();
    let text = |node: roxmltree::Node<'_, '_>| {
        node.descendants()
            .filter_map(|node| node.text().filter(|_| node.is_text()))
            .collect::<String>()
            .trim()
            .to_owned()
    };
    let tag = |name: &'static str| move |node: &roxmltree::Node<'_, '_>| node.has_tag_name(name);
    let rows: Vec<_> = matrix.descendants().filter(tag("tr")).collect();
    let models: Vec<String> = rows[0].children().filter(tag("th")).skip(1).map(text).collect();
    assert_eq!((rows.len(), models.len()), (51, 10));
    for row in &rows[1..] {
        let skill = text(row.children().find(tag("th")).unwrap());
        for (model, cell) in models.iter().zip(row.children().filter(tag("td"))) {
            let accuracy = newest(&skill, model);
            let [low, high] = [0, 1].map(|end| accuracy["interval"][end].as_f64().unwrap() * 100.0);
            let expected = format!("{} {low:.1}–{high:.1}", percent(accuracy["score"].as_f64().unwrap()));
            assert_eq!(text(cell), expected, "{skill} {model}");
        }
    }
    // The means of the ranking.
    let ranking = document.descendants().find(|node| class(node, "ranking")).unwrap();
    for row in ranking.descendants().filter(tag("tr")).skip(1) {
        let model = row.attribute("data-model").unwrap();
        let sum: f64 =
            (0..50).map(|skill| newest(&format!("skill-{skill:02}"), model)["score"].as_f64().unwrap()).sum();
        let mean = text(row.descendants().find(tag("b")).unwrap());
        assert_eq!(mean, percent(sum / 50.0), "{model}");
    }
    let xml = as_xml(std::str::from_utf8(&site["skills/skill-07/index.html"]).unwrap());
    let document = parsed(&xml);
    let drawn: Vec<_> = document.descendants().filter(|node| class(node, "point")).collect();
    assert_eq!(drawn.len(), 60, "six lines of ten commits");
    for point in drawn {
        let [model, commit, accuracy] =
            ["data-model", "data-commit", "data-accuracy"].map(|name| point.attribute(name).unwrap());
        let of = entries.iter().find(|entry| {
            entry["skill"] == "skill-07" && entry["model"] == model && entry["prompt_commit"] == commit
        });
        assert_eq!(of.unwrap()["accuracy"]["score"].to_string(), accuracy);
    }

    // Once more: the same bytes, and foreign files stay.
    workspace.write("_site/CNAME", "skills.example.org");
    workspace.write("_site/skills/skill-07/mine.txt", "mine");
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    let mut again = files(&workspace.path("_site"));
    assert!(again.remove("CNAME").is_some() && again.remove("skills/skill-07/mine.txt").is_some());
    assert!(again == site, "other bytes");
    // With fewer skills, the pages of the others go, and foreign files stay.
    workspace.write("leaderboard.json", board(&entries[..100]));
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    let fewer = files(&workspace.path("_site"));
    assert!(
        !fewer.contains_key("skills/skill-07/index.html") && fewer.contains_key("skills/skill-07/mine.txt")
    );
    assert!(fewer.contains_key("CNAME") && !workspace.path("_site/skills/skill-08").exists());
}

#[test]
fn both_layouts_give_the_union_of_merge() {
    let workspace = Workspace::new();
    let entries =
        [entry("alpha", 1, "m", [9; 4]), entry("beta", 1, "m", [8; 4]), entry("beta", 2, "n", [7; 4])];
    workspace.write("leaderboard.json", board(&entries[..2]));
    workspace.write("leaderboard/beta.json", board(&entries[1..]));
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    workspace.run(&["leaderboard", "merge", "-o", "union.json", "leaderboard.json", "leaderboard"]).expect(0);
    assert_eq!(workspace.read("_site/leaderboard.json"), workspace.read("union.json"));
    let index = workspace.read("_site/index.html");
    assert!(
        index.contains("not evaluated") && index.contains("3 entries of 2 skills and 2 models"),
        "{index}"
    );
    // The entry of `m` on `beta` is not of the newest commit.
    assert!(index.contains("<b>80.0 %*</b>"), "{index}");
    let pair = workspace.read("_site/compare/m/n/index.html");
    assert!(pair.contains("not comparable: no commit was evaluated with both"), "{pair}");
    assert!(
        workspace
            .read("_site/skills/alpha/cases/alder/index.html")
            .contains("The answers to this case are not available")
    );
}

#[test]
fn other_rules_are_another_line_and_ties_share_their_rank() {
    let workspace = Workspace::new();
    let mut entries =
        vec![entry("alpha", 1, "m", [9; 4]), entry("alpha", 2, "m", [8; 4]), entry("alpha", 2, "n", [7; 4])];
    entries[0]["rules_sha256"] = json!("e".repeat(64));
    entries[2]["calls"] = json!({"attempted": 4, "ok": 1, "api_error": 2, "parse_error": 1, "truncated": 0});
    for (case, ok) in [1, 0, 0, 0].iter().enumerate() {
        entries[2]["per_case"][case]["ok"] = json!(ok);
        entries[2]["per_case"][case]["errors"] = json!(1 - ok);
    }
    workspace.write("leaderboard.json", board(&entries));
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    let page = workspace.read("_site/skills/alpha/index.html");
    assert!(!page.contains("<polyline"), "two rules are not one line: {page}");
    assert!(page.contains("m (earlier scoring)"), "{page}");
    assert!(page.contains("2 failed") && page.contains("1 unreadable"), "{page}");
    // Four cases separate no models.
    let index = workspace.read("_site/index.html");
    assert_eq!(index.matches("rank\">1–2<").count(), 2, "{index}");
}

#[test]
fn hostile_names_and_answers_stay_inside_and_inert() {
    const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}";
    let workspace = Workspace::new();
    let huge = "x".repeat(50_000);
    let models =
        [EVIL, "../../../../etc/passwd", "..", ".", "/etc/passwd", "a\0b", "C:\\con", "", &huge, "M", "m"];
    let mut entries: Vec<Value> = models.iter().map(|model| entry("letters", 1, model, [5; 4])).collect();
    entries[0]["skill_version"] = json!(EVIL);
    for (place, case) in [EVIL, "../../../escape", "index", &huge].iter().enumerate() {
        entries[0]["per_case"][place]["case"] = json!(case);
    }
    entries[1]["skill"] = json!("index");
    let bytes = board(&entries);
    workspace.write("leaderboard/letters.json", &bytes);
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    let first = file["entries"].as_array().unwrap().iter().find(|entry| entry["model"] == EVIL).unwrap();
    let digest = Digest::of(format!("{}\n", serde_json::to_string_pretty(first).unwrap()).as_bytes());
    let fields: Vec<Value> = (0..400)
        .map(|number| {
            json!({"path": format!("{number}.{EVIL}"), "expected": EVIL.repeat(9), "answers": [
            {"value": EVIL.repeat(9), "verdict": "incorrect", "times": 1}]})
        })
        .collect();
    let cases: Vec<Value> = [EVIL, "../../../escape", "index", &huge]
        .iter()
        .map(|case| json!({"case": case, "calls": ["ok"], "fields": fields}))
        .collect();
    let details = json!({"schema_version": 1, "entry_sha256": digest, "cases": cases});
    workspace.write(&format!("leaderboard/cases/letters/{digest}.json"), details.to_string());
    let statement = json!({"subject": [{"name": "entry", "digest": {"sha256": digest}}]});
    workspace.write(&format!("leaderboard/attestations/{digest}.intoto.json"), statement.to_string());
    let before: Vec<PathBuf> = outside(&workspace);
    workspace.run(&["leaderboard", "site", "-o", "out/site", "--title", EVIL]).expect(0);
    assert_eq!(outside(&workspace), before, "nothing outside of the directory");
    let site = files(&workspace.path("out/site"));
    links_resolve(&site);
    assert!(site.contains_key(&format!("attestations/{digest}.intoto.json")));
    let mut shown = 0;
    for (path, bytes) in &site {
        assert!(path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte)), "{path}");
        if is_page(path) || has_extension(path, "svg") {
            let text = std::str::from_utf8(bytes).unwrap();
            assert!(bytes.len() <= LARGEST_PAGE, "{path}: {}", bytes.len());
            for obeyed in ["<script", "<img src=x", "\u{202e}", "\0"] {
                assert!(!text.contains(obeyed), "{path}: {obeyed:?}");
            }
            shown += text.matches("&lt;script&gt;alert(1)&lt;/script&gt;").count();
        }
    }
    assert!(shown > 400, "{shown}");
}

/// The site is public: a link in the checkout, or a statement that is none, would publish any file of the machine.
#[test]
fn only_statements_of_the_library_are_published() {
    let digest = {
        let bytes = board(&[entry("alpha", 1, "m", [9; 4])]);
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        Digest::of(format!("{}\n", serde_json::to_string_pretty(&file["entries"][0]).unwrap()).as_bytes())
    };
    let dir = "leaderboard/attestations";
    let name = format!("{digest}.intoto.json");
    let own = json!({"subject": [{"name": "entry", "digest": {"sha256": digest}}]}).to_string();
    let other = own.replace(&digest.to_string(), &"0".repeat(64));
    let published = |prepare: &dyn Fn(&Workspace)| {
        let workspace = Workspace::new();
        workspace.write("library/leaderboard.json", board(&[entry("alpha", 1, "m", [9; 4])]));
        workspace.write("outside/secret.json", &own);
        workspace.write(format!("outside/{name}").as_str(), &own);
        prepare(&workspace);
        let told = workspace.run(&["leaderboard", "site", "library", "-o", "_site"]).expect(0).stderr;
        let is_there = workspace.path(&format!("_site/attestations/{name}")).exists();
        let page = workspace.read("_site/skills/alpha/index.html");
        assert_eq!(page.contains(", <b>unsigned</b>"), is_there, "{page}");
        (is_there, told.replace(&digest.to_string(), "DIGEST"))
    };
    let statement =
        |text: &str| published(&|workspace| workspace.write(&format!("library/{dir}/{name}"), text));
    assert!(statement(&own).0);
    let link = |from: &str, to: &str| {
        published(&|workspace| {
            let from = workspace.path(from);
            std::fs::create_dir_all(from.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(workspace.path(to), from).unwrap();
        })
    };
    let wrong = [
        statement("AWS_SECRET_ACCESS_KEY=x"),
        statement(&other),
        link(&format!("library/{dir}/{name}"), "outside/secret.json"),
        link(&format!("library/{dir}/{name}"), "/proc/self/environ"),
        link(&format!("library/{dir}"), "outside"),
    ];
    let told: Vec<&str> = wrong.iter().map(|(_, told)| told.lines().next().unwrap()).collect();
    assert!(wrong.iter().all(|(is_there, _)| !is_there), "{told:?}");
    insta::assert_snapshot!(told.join("\n"), @r"
    warning: `library/leaderboard/attestations/DIGEST.intoto.json` is not a statement about its entry
    warning: `library/leaderboard/attestations/DIGEST.intoto.json` is not a statement about its entry
    warning: cannot read `library/leaderboard/attestations/DIGEST.intoto.json`: it is, or is below, a symbolic link
    warning: cannot read `library/leaderboard/attestations/DIGEST.intoto.json`: it is, or is below, a symbolic link
    warning: cannot read `library/leaderboard/attestations/DIGEST.intoto.json`: it is, or is below, a symbolic link
    ");
}

/// A directory of a checkout can have anything in the place of a page.
#[test]
fn a_pipe_in_the_place_of_a_page_is_replaced() {
    let workspace = Workspace::new();
    workspace.write("leaderboard.json", board(&[entry("alpha", 1, "m", [9; 4])]));
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    std::fs::remove_file(workspace.path("_site/index.html")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(workspace.path("_site/index.html")).status();
    assert!(made.unwrap().success());
    workspace.run_bounded(&["leaderboard", "site", "-o", "_site"]).expect(0);
    assert!(workspace.path("_site/index.html").is_file());
}

/// Every path of the workspace but those of the site.
fn outside(workspace: &Workspace) -> Vec<PathBuf> {
    let all = files(workspace.root()).into_keys().map(PathBuf::from);
    all.filter(|path| !path.starts_with("out")).collect()
}

#[test]
fn only_an_empty_directory_or_a_site_is_written_to() {
    let workspace = Workspace::new();
    workspace.write("leaderboard.json", board(&[entry("alpha", 1, "m", [9; 4])]));
    workspace.write("full/thesis.txt", "mine");
    let refused = workspace.run(&["leaderboard", "site", "-o", "full"]).expect(2);
    insta::assert_snapshot!(refused.stderr.trim(), @r"
    error: `full` is not empty, and not a site of `run-evals`

    hint: name a new or empty directory with `--output`
    ");
    assert_eq!(files(&workspace.path("full")).len(), 1);
    workspace.run(&["leaderboard", "site", "-o", "full/thesis.txt"]).expect(1);
    let none = workspace.run(&["leaderboard", "site", "full", "-o", "_site"]).expect(3);
    insta::assert_snapshot!(none.stderr.trim(), @r"
    error: `full` has neither a `leaderboard.json` nor a `leaderboard/<skill>.json`

    hint: name a checkout of a skill library, or a leaderboard file
    ");
    // A list of files and links that lead out of the directory do no harm.
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    workspace.write("victim.txt", "keep");
    let list = json!({"generator": "run-evals leaderboard site", "files": ["../victim.txt", "/etc/hostname", "link/victim.txt"]});
    workspace.write("_site/site.json", list.to_string());
    std::os::unix::fs::symlink(workspace.root(), workspace.path("_site/link")).unwrap();
    workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(0);
    assert_eq!(workspace.read("victim.txt"), "keep");
    std::fs::remove_dir_all(workspace.path("_site/skills")).unwrap();
    std::fs::create_dir(workspace.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(workspace.path("elsewhere"), workspace.path("_site/skills")).unwrap();
    let refused = workspace.run(&["leaderboard", "site", "-o", "_site"]).expect(2);
    assert!(refused.stderr.contains("is, or is below, a symbolic link"), "{}", refused.stderr);
    assert!(files(&workspace.path("elsewhere")).is_empty());
}
