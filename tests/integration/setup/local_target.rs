//! The dispatcher's target in the local `targets.yaml`, which keeps everything that it has.

use super::scene::Account;

const REPO: &str = "mona/eval-runner";

#[test]
fn an_entry_is_appended_in_the_style_of_the_file() {
    for (before, addition) in [
        (
            "targets:\n  - name: demo\n    provider: mock\n# the end\n",
            "  - name: cloud-eval-runner\n    provider: github-actions\n",
        ),
        (
            "targets:\n- name: demo\n  provider: mock",
            "\n- name: cloud-eval-runner\n  provider: github-actions\n",
        ),
        (
            "targets:\n    - { name: demo, provider: mock }\n",
            "    - name: cloud-eval-runner\n      provider: github-actions\n",
        ),
    ] {
        let account = Account::new();
        account.workspace.write("targets.yaml", before);
        account.init(REPO, &[]).expect(0);
        let after = account.workspace.read("targets.yaml");
        assert!(after.starts_with(&format!("{before}{addition}")), "{after}");
        let told = account.workspace.run(&["doctor", "--offline"]).expect(0).stdout;
        assert!(told.contains("2 targets of `targets.yaml`: 2 fine"), "{told}");
    }
}

#[test]
fn a_file_that_nothing_can_be_appended_to_is_left_to_the_user() {
    for before in [
        "targets: [{ name: demo, provider: mock }]\n",
        "targets:\n  - name: demo\n    provider: mock\n$schema: x\n",
    ] {
        let account = Account::new();
        account.workspace.write("targets.yaml", before);
        let output = account.init(REPO, &[]).expect(0);
        assert_eq!(account.workspace.read("targets.yaml"), before);
        assert!(output.stderr.contains("add       this entry to `targets.yaml`"), "{}", output.stderr);
        assert!(output.stderr.contains("\n  - name: cloud-eval-runner\n"), "{}", output.stderr);
    }
}

#[test]
fn a_linked_file_is_rejected_before_anything_is_created() {
    let account = Account::new();
    let outside = crate::support::temporary();
    let before = "targets:\n  - name: demo\n    provider: mock\n";
    std::fs::write(outside.path().join("t.yaml"), before).unwrap();
    for to in ["t.yaml", "nowhere.yaml"] {
        let link = account.workspace.path("targets.yaml");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(outside.path().join(to), &link).unwrap();
        insta::allow_duplicates! {
            insta::assert_snapshot!(account.init(REPO, &[]).expect(3).stderr, @r"
            error: `targets.yaml` is a link or is in a linked directory, expected a file: nothing was written

            hint: check it; `--targets FILE` sets the file for the new target
            ");
        }
        assert!(account.github.settings(REPO).is_none());
    }
    assert_eq!(std::fs::read_to_string(outside.path().join("t.yaml")).unwrap(), before);
    assert!(!outside.path().join("nowhere.yaml").exists());
    let _ = std::fs::remove_file(account.workspace.path("targets.yaml"));
}

#[test]
fn a_file_in_a_linked_folder_is_rejected_too() {
    let account = Account::new();
    let outside = crate::support::temporary();
    let before = "targets:\n  - name: demo\n    provider: mock\n";
    std::fs::write(outside.path().join("targets.yaml"), before).unwrap();
    std::os::unix::fs::symlink(outside.path(), account.workspace.path(".agentv")).unwrap();
    let told = account.init(REPO, &[]).expect(3).stderr;
    assert!(told.contains("`.agentv/targets.yaml` is a link or is in a linked directory"), "{told}");
    assert!(account.github.settings(REPO).is_none());
    assert_eq!(std::fs::read_to_string(outside.path().join("targets.yaml")).unwrap(), before);
}

#[test]
fn a_name_that_is_taken_is_an_error_before_anything_is_created() {
    let account = Account::new();
    account.workspace.write("targets.yaml", "targets:\n  - name: cloud-eval-runner\n    provider: mock\n");
    insta::assert_snapshot!(account.init(REPO, &[]).expect(3).stderr, @r"
    error: `targets.yaml` has another target `cloud-eval-runner`

    hint: choose another name for the new one with `--target NAME`
    ");
    assert!(account.github.settings(REPO).is_none());
    account.init(REPO, &["--target", "runner"]).expect(0);
    assert!(account.workspace.read("targets.yaml").contains("- name: runner\n"));
}

#[test]
fn an_invalid_file_is_an_error_before_anything_is_created() {
    let account = Account::new();
    account.workspace.write("targets.yaml", "targets: 7\n");
    account.init(REPO, &[]).expect(3);
    assert!(account.github.settings(REPO).is_none());
    assert_eq!(account.workspace.read("targets.yaml"), "targets: 7\n");
}
