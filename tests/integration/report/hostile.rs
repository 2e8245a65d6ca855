//! Model output is displayed and never interpreted, in every format.

use super::workspace;
use crate::support::{Came, Results, Workspace};

const HOSTILE: [&str; 8] = [
    "<script>document.title = 'obeyed'</script><img src=x onerror=\"document.title='obeyed'\">",
    "</textarea></pre></script><script>document.title = 'obeyed'</script>",
    "\u{1b}[31mred\u{1b}[2J\u{7}",
    "::error::obeyed\n##[error]obeyed\n::add-mask::a",
    "\u{202e}backwards\u{2066}\u{200f}",
    "nul\u{0}nul",
    "]]> <!-- --> <![CDATA[ &amp; @octocat [a](https://evil.example) ![b](https://evil.example) | \\| `c` ```",
    "\u{2028}\u{ffff}\u{feff}",
];

fn hostile() -> Results {
    let long = "x".repeat(1_000_000);
    let all = HOSTILE.iter().copied().chain([long.as_str()]);
    all.enumerate().fold(Results::new(HOSTILE[0]), |results, (number, answer)| {
        // The id as well, as far as ids allow it.
        let id: String = answer.chars().filter(|c| !c.is_control()).take(80).collect();
        results.test(&format!("{number} {id}"), &[Came::To(0.0, answer)])
    })
}

fn written() -> Workspace {
    let workspace = workspace(&hostile(), &Results::new("s").test("a", &[Came::To(1.0, "a")]));
    let args = [
        "report",
        "now",
        "--baseline",
        "before",
        "--html",
        "r.html",
        "--junit",
        "r.xml",
        "--markdown",
        "r.md",
    ];
    workspace.run(&[&args[..], &["--fail-on", "never"]].concat()).expect(0);
    workspace
}

#[test]
fn a_terminal_gets_no_control_sequences() {
    let workspace = written();
    let output = workspace.run(&["report", "now"]).expect(4).stdout;
    let obeyed = |c: char| c != '\n' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
    assert!(!output.contains(obeyed), "{output:?}");
    assert!(output.lines().all(|line| line.chars().count() < 300), "{output}");
}

#[test]
fn markdown_has_no_injected_markup() {
    let text = written().read("r.md");
    let allowed = text.replace("<code>", "").replace("</code>", "").replace("| ", "").replace(" |", "");
    for sign in ['<', '>', '`', '@', '\u{1b}', '\u{202e}', '\u{0}'] {
        assert!(!allowed.contains(sign), "{sign:?} in {text}");
    }
    for words in ["](", "https:", "::error", "##["] {
        assert!(!text.contains(words), "{words} in {text}");
    }
}

#[test]
fn the_html_page_has_model_output_only_in_its_data() {
    let page = written().read("r.html");
    assert_eq!(page.matches("<script").count(), 2, "the data and the program");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img") && !page.contains("evil.example\"") && !page.contains("</textarea"));
    let obeyed = |c: char| c != '\n' && (c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
    assert!(!page.contains(obeyed));
    assert!(page.len() < 200_000, "the long line is cut: {}", page.len());
    assert!(page.contains("characters left out"));
}

#[test]
fn in_a_step_the_log_has_no_injected_workflow_commands() {
    let workspace = written();
    let workspace =
        ["GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"].into_iter().fold(workspace, |workspace, name| {
            let path = workspace.path(name).display().to_string();
            workspace.env(name, &path)
        });
    let workspace = workspace.env("GITHUB_ACTIONS", "true");
    for args in [&["report", "now"][..], &["report", "now", "--format", "json"]] {
        let output = workspace.run(args).expect(4);
        for line in output.stdout.lines() {
            assert!(!line.trim_start().starts_with("::") && !line.contains("##["), "{line}");
        }
        for line in output.stderr.lines() {
            let ours =
                line.starts_with("::error file=suite.eval.yaml,line=") || line.starts_with("::add-mask::");
            assert!(ours || !line.trim_start().starts_with("::"), "{line}");
            assert!(!line.contains("##["), "{line}");
        }
    }
}
