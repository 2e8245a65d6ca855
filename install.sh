#!/bin/sh
# Installs run-evals on Linux: downloads the binary of a release, verifies its checksum, and copies it to ~/.local/bin.
#
#   curl -fsSL https://github.com/agentv/run-evals/releases/latest/download/install.sh | sh
#   sh install.sh --version 0.1.0 --to /usr/local/bin
#
# RUN_EVALS_DOWNLOAD is another place with the files of a release: an https:// or file:// URL.
set -eu

releases=https://github.com/agentv/run-evals/releases

usage() {
    cat <<END
usage: install.sh [--to DIR] [--version VERSION]

  --to DIR            install to this directory [default: ~/.local/bin]
  --version VERSION   install this version, such as 0.1.0 [default: the latest]

RUN_EVALS_DOWNLOAD=URL downloads from another place: https:// or file://, with the files of one release.
END
}

fail() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  hint: %s\n' "$2" >&2
    exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# download NAME: the file of the release with this name, to $temp.
download() {
    case $base in
    file://*) cp -- "${base#file://}/$1" "$temp/$1" ;;
    *)
        if has curl; then
            curl --fail --silent --show-error --location --retry 3 --proto '=https' --tlsv1.2 --output "$temp/$1" "$base/$1"
        else
            wget -q -O "$temp/$1" "$base/$1"
        fi
        ;;
    esac || fail "cannot download $base/$1" "the releases are listed at $releases"
}

sha256() {
    if has sha256sum; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | cut -d ' ' -f 1
}

main() {
    to=${HOME:+$HOME/.local/bin}
    version=
    while [ $# -gt 0 ]; do
        case $1 in
        --to | --version)
            [ $# -gt 1 ] && [ -n "$2" ] || fail "$1 needs a value"
            if [ "$1" = --to ]; then to=$2; else version=${2#v}; fi
            shift 2
            ;;
        -h | --help) usage && exit ;;
        *) usage >&2 && exit 2 ;;
        esac
    done
    [ -n "$to" ] || fail "HOME is not set" "name a directory: --to DIR"
    base=$releases/latest/download
    [ -z "$version" ] || base=$releases/download/v$version
    base=${RUN_EVALS_DOWNLOAD:-$base}
    base=${base%/}
    case $base in
    https://* | file://*) ;;
    *) fail "RUN_EVALS_DOWNLOAD is not an https:// or file:// URL: $base" ;;
    esac

    from_source="build it from source: cargo install --locked --git https://github.com/agentv/run-evals"
    system=$(uname -s)
    [ "$system" = Linux ] || fail "there is no binary for $system, only for Linux" "$from_source"
    machine=$(uname -m)
    case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no binary for $machine, only for x86_64 and aarch64" "$from_source" ;;
    esac
    case $base in
    https://*) has curl || has wget || fail "curl or wget is needed for the download" "apt-get install curl ca-certificates" ;;
    esac
    has sha256sum || has shasum || fail "sha256sum or shasum is needed to verify the download" "apt-get install coreutils"
    for program in tar gzip; do
        has "$program" || fail "$program is needed to unpack the download" "apt-get install $program"
    done

    mkdir -p -- "$to" 2>/dev/null || fail "cannot create the directory $to" "name one that you can write to: --to DIR"
    to=$(CDPATH='' cd -- "$to" && pwd) || fail "cannot open the directory $to"
    [ -w "$to" ] || fail "no permission to write to $to" "name another directory: --to DIR"
    [ ! -d "$to/run-evals" ] || fail "$to/run-evals is a directory" "name another directory: --to DIR"

    new=
    temp=$(mktemp -d)
    trap 'rm -rf -- "$temp" ${new:+"$new"}' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    name=run-evals-$machine-linux
    archive=$name.tar.gz
    download SHA256SUMS
    download "$archive"
    expected=$(awk -v name="$archive" '$2 == name { print $1 }' "$temp/SHA256SUMS")
    case $expected in
    *[!0-9a-f]* | '') fail "SHA256SUMS of $base has no valid checksum for $archive" ;;
    esac
    found=$(sha256 "$temp/$archive")
    [ "$found" = "$expected" ] || fail "the checksum of $archive is wrong; nothing was installed
  expected $expected
  found    $found" "the download is damaged or was changed; try again"

    # One file and no other leaves the archive, and no link to another file.
    tar -xzf "$temp/$archive" -C "$temp" "$name/run-evals" || fail "cannot unpack $archive"
    [ -f "$temp/$name/run-evals" ] && [ ! -h "$temp/$name/run-evals" ] || fail "run-evals in $archive is not a file"
    # A new name, which no link can have in a directory that others write to.
    new=$(mktemp "$to/.run-evals.XXXXXX") || fail "cannot write to $to"
    cp -- "$temp/$name/run-evals" "$new" && chmod 755 "$new" || fail "cannot write to $to"
    installed=$("$new" --version) || fail "the binary does not run on this machine; nothing was installed"
    [ -z "$version" ] || [ "$installed" = "run-evals $version" ] ||
        fail "expected version $version, found $installed; nothing was installed"
    # A rename: a run-evals that is running keeps its file.
    mv -f -- "$new" "$to/run-evals" || fail "cannot replace $to/run-evals"
    echo "installed $installed to $to/run-evals"
    case :$PATH: in
    *:"$to":*) ;;
    *) echo "$to is not in PATH; add it: export PATH=\"$to:\$PATH\"" ;;
    esac
    has git || echo "run-evals needs git, which is not installed: apt-get install git"
}

# Nothing runs before the last line has arrived.
main "$@"
