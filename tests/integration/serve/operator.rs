//! The operator's view: mistakes are reported before the port opens.

use super::service::{OURS, Service, bare_args, bare_workspace};
use crate::support::{Workspace, until};

/// The exit code and the message of a failed start.
fn refused(workspace: &Workspace, more: &[&str]) -> String {
    let output = workspace.run(&bare_args(more));
    assert_eq!(output.stdout, "");
    let dir = workspace.root().to_str().unwrap().to_owned();
    format!("exit {}\n{}", output.code.unwrap(), output.stderr.replace(&dir, "[dir]"))
}

#[test]
fn tokens_must_exist_and_be_private_and_long() {
    let workspace = bare_workspace();
    let missing = refused(&workspace, &[]);
    workspace.write_private("tokens", "# none yet\n\n");
    let empty = refused(&workspace, &[]);
    workspace.write_private("tokens", "secret");
    let short = refused(&workspace, &[]);
    workspace.write_private("tokens", &format!("{OURS}\n").repeat(9));
    let many = refused(&workspace, &[]);
    workspace.write("open", OURS);
    std::fs::set_permissions(workspace.path("open"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    let open = refused(&workspace, &["--auth-token-file", "open"]);
    let none = workspace.run(&["serve", "--library", "library", "--no-publish"]).expect(3).stderr;
    insta::assert_snapshot!([missing, empty, short, many, open, none].join("---\n"), @r#"
    exit 3
    error: cannot read the tokens in `tokens`: No such file or directory (os error 2)

    hint: `--auth-token-file` takes a file with one token per line; generate one with `openssl rand -hex 32`
    ---
    exit 3
    error: no token in `tokens`

    hint: generate one with `openssl rand -hex 32`
    ---
    exit 3
    error: token 1 in `tokens` has 6 characters, at least 32 are needed

    hint: generate one with `openssl rand -hex 32`
    ---
    exit 3
    error: 9 tokens; at most 8 are allowed

    hint: two are enough for a rotation
    ---
    exit 3
    error: `open` is open to others (mode 0644): its tokens are not secret

    hint: chmod 600 open and replace the token
    ---
    error: no token for clients

    hint: pass a file with `--auth-token-file`, or set `RUN_EVALS_SERVE_TOKEN`; generate one with `openssl rand -hex 32`
    "#);
}

#[test]
fn a_public_port_without_tls_is_refused() {
    let workspace = bare_workspace();
    workspace.write_private("tokens", OURS);
    let all =
        ["0.0.0.0:0", "[::]:0", "192.0.2.1:8443"].map(|address| refused(&workspace, &["--listen", address]));
    insta::assert_snapshot!(all.join("---\n"), @r#"
    exit 2
    error: without TLS, clients of `0.0.0.0:0` would send tokens in cleartext

    hint: pass `--tls-cert` and `--tls-key`, or `--behind-proxy` behind a TLS proxy, or listen on `127.0.0.1`
    ---
    exit 2
    error: without TLS, clients of `[::]:0` would send tokens in cleartext

    hint: pass `--tls-cert` and `--tls-key`, or `--behind-proxy` behind a TLS proxy, or listen on `127.0.0.1`
    ---
    exit 2
    error: without TLS, clients of `192.0.2.1:8443` would send tokens in cleartext

    hint: pass `--tls-cert` and `--tls-key`, or `--behind-proxy` behind a TLS proxy, or listen on `127.0.0.1`
    "#);
    let service = Service::bare(&workspace, &["--listen", "0.0.0.0:0", "--behind-proxy"]);
    assert!(service.stderr().starts_with("listening on http://0.0.0.0:"), "{}", service.stderr());
}

#[test]
fn the_evaluated_library_cannot_choose_where_keys_are_sent() {
    let workspace = bare_workspace();
    workspace.write_private("tokens", OURS);
    let targets = workspace.read("targets.yaml");
    workspace.write("library/targets.yaml", targets);
    // As a systemd unit would, with the clone as its working directory.
    let args = ["serve", "--listen", "127.0.0.1:0", "--auth-token-file", "../tokens", "--library", "."];
    let output = workspace.command(&args).current_dir(workspace.path("library")).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    insta::assert_snapshot!(String::from_utf8(output.stderr).unwrap(), @r"
    error: `targets.yaml` is in the evaluated repository, so a commit could redirect the API keys

    hint: keep the targets file elsewhere and pass it with `--targets FILE`; passing this one trusts everyone who can write to the checked-out branch
    ");
}

#[test]
fn requirements_are_checked_before_the_port_opens() {
    let workspace = bare_workspace();
    workspace.write_private("tokens", OURS);
    workspace.write("empty/x", "");
    workspace.write("networks", "10.0.0.0/8\n10.1.2.3/8\n");
    workspace.write("cert.pem", "nonsense");
    workspace.write("state-file", "");
    let told = [
        refused(&workspace, &["--library", "empty"]),
        refused(&workspace, &["--targets", "nowhere.yaml"]),
        refused(&workspace, &["--allow-from", "nowhere"]),
        refused(&workspace, &["--allow-from", "networks"]),
        refused(&workspace, &["--tls-cert", "cert.pem", "--tls-key", "nowhere.pem"]),
        refused(&workspace, &["--repo", "nonsense"]),
        refused(&workspace, &["--log-dir", "state-file/log"]),
        workspace.run(&["serve", "--auth-token-file", "tokens"]).expect(2).stderr,
    ];
    insta::assert_snapshot!(told.join("---\n"), @r"
    exit 3
    error: `empty` is not a git clone

    hint: `git clone URL empty` creates one
    ---
    exit 3
    error: cannot read `nowhere.yaml`: No such file or directory (os error 2)

    hint: `--targets FILE` names another file
    ---
    exit 3
    error: cannot read the list of networks `nowhere`: No such file or directory (os error 2)
    ---
    exit 3
    error: networks:2: not a network: `10.1.2.3/8` (the address has more than 8 bits)

    hint: one network per line, for example `10.20.0.0/16` or `2001:db8::/32`
    ---
    exit 3
    error: cannot use the certificate `cert.pem`: it contains no certificate

    hint: `--tls-cert` and `--tls-key` must be PEM files of the same key pair
    ---
    exit 2
    error: `nonsense` is not a repository

    hint: `--repo` takes `<owner>/<name>`
    ---
    exit 3
    error: cannot write the log in `state-file/log`: Not a directory (os error 20)

    hint: `--log-dir` sets another directory, `--log-stderr` needs none
    ---
    error: nothing to serve: no skill library

    hint: pass a clone: `--library DIR`; `--studio` serves the page alone, `--traces DIR` a trace gateway
    ");
}

#[test]
fn a_state_directory_serves_one_service() {
    let workspace = bare_workspace();
    let service = Service::bare(&workspace, &[]);
    insta::assert_snapshot!(refused(&workspace, &[]), @r#"
    exit 6
    error: another service uses `state`

    hint: each service needs its own `--state`
    "#);
    drop(service);
    // A killed service leaves no lock behind.
    drop(Service::bare(&workspace, &[]));
}

#[test]
fn the_startup_message_shows_address_tokens_and_state() {
    let workspace = bare_workspace();
    workspace.write("networks", "# the office\n10.20.0.0/16\n127.0.0.1\n");
    let service = Service::bare(&workspace, &["--allow-from", "networks", "--keep-logs", "7"]);
    until("it", || service.stderr().contains("log:"));
    let told = service.stderr().replace(&service.address, "[address]");
    insta::assert_snapshot!(told, @r#"
    listening on http://[address]
      access: 1 token, from 2 networks
      log: state/log, kept 7 days
    "#);
}
