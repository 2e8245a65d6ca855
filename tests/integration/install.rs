//! `install.sh` with a release that was changed, truncated or forged: nothing is installed.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use run_evals::testing::Digest;

use crate::support::{Output, Workspace};

const SCRIPT: &str = include_str!("../../install.sh");
/// The binary of a release.
const PROGRAM: &str = "#!/bin/sh\necho run-evals 9.9.9\n";

/// A directory with the files of a release, and a home.
struct Release {
    workspace: Workspace,
    archive: String,
}

impl Release {
    /// A release whose archive has what `make` puts in the place of the binary.
    fn new(make: impl Fn(&Path)) -> Self {
        let workspace = Workspace::new();
        let machine = Command::new("uname").arg("-m").output().unwrap().stdout;
        let name = format!("run-evals-{}-linux", String::from_utf8(machine).unwrap().trim());
        std::fs::create_dir_all(workspace.path(&format!("made/{name}"))).unwrap();
        make(&workspace.path(&format!("made/{name}/run-evals")));
        let archive = format!("{name}.tar.gz");
        std::fs::create_dir(workspace.path("release")).unwrap();
        let mut tar = Command::new("tar");
        tar.arg("-C")
            .arg(workspace.path("made"))
            .arg("-czf")
            .arg(workspace.path(&format!("release/{archive}")));
        assert!(tar.arg(&name).status().unwrap().success());
        let release = Self { workspace, archive };
        release.sign();
        release
    }

    fn good() -> Self {
        Self::new(|path| std::fs::write(path, PROGRAM).unwrap())
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.workspace.path(&format!("release/{}", self.archive))).unwrap()
    }

    fn sums(&self, text: &str) {
        self.workspace.write("release/SHA256SUMS", text);
    }

    /// Writes the checksum of the archive.
    fn sign(&self) {
        self.sums(&format!("{}  {}\n", Digest::of(&self.bytes()), self.archive));
    }

    /// Runs a script that may be cut off, as `curl … | sh` does.
    fn run(&self, script: &str) -> Output {
        self.workspace.write("script.sh", script);
        let mut sh = Command::new("sh");
        sh.arg("-c").arg("sh -s -- --to bin <script.sh").current_dir(self.workspace.root());
        let url = format!("file://{}", self.workspace.path("release").display());
        sh.env("HOME", self.workspace.path("home")).env("RUN_EVALS_DOWNLOAD", url);
        Output::of(&mut sh)
    }

    /// The files in the directories that the script may write to.
    fn installed(&self) -> Vec<String> {
        let dirs = ["bin", "home/.local/bin"].map(|dir| self.workspace.path(dir));
        let entries = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten());
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    /// The first line of the message of a release that is not installed.
    fn refused(&self) -> String {
        let output = self.run(SCRIPT);
        assert_ne!(output.code, Some(0), "{}", output.stdout);
        assert_eq!(self.installed(), [""; 0], "{}", output.stderr);
        let line = output.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        line.replace(&self.archive, "ARCHIVE").replace(self.workspace.root().to_str().unwrap(), "")
    }
}

#[test]
fn a_sound_release_is_installed_over_a_link() {
    let release = Release::good();
    release.workspace.write("victim", "keep");
    std::fs::create_dir(release.workspace.path("bin")).unwrap();
    symlink(release.workspace.path("victim"), release.workspace.path("bin/run-evals")).unwrap();
    let output = release.run(SCRIPT).expect(0);
    assert!(output.stdout.contains("installed run-evals 9.9.9"), "{}", output.stdout);
    assert_eq!(release.installed(), ["run-evals"]);
    assert_eq!(release.workspace.read("bin/run-evals"), PROGRAM);
    assert_eq!(release.workspace.read("victim"), "keep");
}

#[test]
fn a_release_that_is_not_what_its_checksum_says_is_not_installed() {
    let mut told = Vec::new();
    let mut change = |change: &dyn Fn(&Release)| {
        let release = Release::good();
        change(&release);
        told.push(release.refused());
    };
    let archive = |release: &Release, bytes: &[u8]| {
        release.workspace.write(&format!("release/{}", release.archive), bytes);
    };
    let digest = |release: &Release| Digest::of(&release.bytes()).to_string();
    // Changed, cut off, and missing.
    change(&|release| archive(release, &[&release.bytes()[..], b"x"].concat()));
    change(&|release| archive(release, &release.bytes()[..100]));
    change(&|release| archive(release, b""));
    change(&|release| {
        std::fs::remove_file(release.workspace.path(&format!("release/{}", release.archive))).unwrap();
    });
    // Checksums that are cut off, of another file, ambiguous, or none.
    change(&|release| release.sums(&format!("{}  {}\n", &digest(release)[..40], release.archive)));
    change(&|release| release.sums(&format!("{}  other.tar.gz\n", digest(release))));
    change(&|release| {
        let line = format!("{}  {}\n", digest(release), release.archive);
        release.sums(&format!("{line}{line}"));
    });
    change(&|release| release.sums(&format!("$(touch ran)  {}\n", release.archive)));
    change(&|release| release.sums(""));
    insta::assert_snapshot!(told.join("\n"), @r"
    error: the checksum of ARCHIVE is wrong; nothing was installed
    error: the checksum of ARCHIVE is wrong; nothing was installed
    error: the checksum of ARCHIVE is wrong; nothing was installed
    error: cannot download file:///release/ARCHIVE
    error: the checksum of ARCHIVE is wrong; nothing was installed
    error: SHA256SUMS of file:///release has no valid checksum for ARCHIVE
    error: SHA256SUMS of file:///release has no valid checksum for ARCHIVE
    error: SHA256SUMS of file:///release has no valid checksum for ARCHIVE
    error: SHA256SUMS of file:///release has no valid checksum for ARCHIVE
    ");
}

#[test]
fn an_archive_without_a_binary_is_not_installed() {
    let mut told = Vec::new();
    for make in [
        |path: &Path| symlink("/bin/true", path).unwrap(),
        |path: &Path| std::fs::create_dir(path).unwrap(),
        |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        |_: &Path| {},
        |path: &Path| std::fs::write(path, "#!/bin/sh\nexit 1\n").unwrap(),
    ] {
        told.push(Release::new(make).refused());
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    error: run-evals in ARCHIVE is not a file
    error: run-evals in ARCHIVE is not a file
    error: run-evals in ARCHIVE is not a file
    error: cannot unpack ARCHIVE
    error: the binary does not run on this machine; nothing was installed
    ");
}

/// `curl … | sh` runs what has arrived.
#[test]
fn a_script_that_is_cut_off_does_nothing() {
    let release = Release::good();
    let lines: Vec<&str> = SCRIPT.split_inclusive('\n').collect();
    for end in 0..lines.len() {
        release.run(&lines[..end].concat());
        assert_eq!(release.installed(), [""; 0], "after {end} lines");
    }
    release.run(SCRIPT).expect(0);
    assert_eq!(release.installed(), ["run-evals"]);
}
