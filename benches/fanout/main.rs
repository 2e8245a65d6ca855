//! How fast the runner fans out, next to the plainest loop that could do the same.
//!
//! `cargo bench --bench fanout [-- [--quick] [--only-minimal] [SCENARIO…]]` runs the released binary against a mock
//! server on this machine and prints a row for each run, with its goals. A missed goal is printed, not an error: how
//! fast a machine is says nothing about whether the code is right. `scenarios` holds what is measured, `client` the two
//! programs, `minimal` the plain loop, `server` the mock server, `measure` wall, CPU and memory, `table` the rows.

mod client;
mod keyless;
mod measure;
mod minimal;
mod scenarios;
mod server;
mod table;

use std::io::Write as _;

use anyhow::{Result, bail};

use scenarios::{Bench, SCENARIOS};

const HELP: &str = "\
Usage: cargo bench --bench fanout [-- [OPTIONS] [SCENARIO…]]

Options:
  --quick          a tenth of the requests
  --only-minimal   only the plain loop, without the program itself
  --list           prints the scenarios

Without a scenario all of them run, for about four minutes.
";

fn main() -> Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == minimal::SUBCOMMAND) {
        return minimal::main(&arguments[1..]);
    }
    // Cargo itself adds this one.
    arguments.retain(|argument| argument != "--bench");
    let mut stdout = std::io::stdout();
    let (mut quick, mut only_minimal, mut chosen) = (false, false, Vec::new());
    for argument in &arguments {
        match argument.as_str() {
            "--quick" => quick = true,
            "--only-minimal" => only_minimal = true,
            "-h" | "--help" => return Ok(stdout.write_all(HELP.as_bytes())?),
            "--list" => {
                for scenario in SCENARIOS {
                    writeln!(stdout, "{:<12} {}", scenario.name, scenario.about)?;
                }
                return Ok(());
            }
            name => match SCENARIOS.iter().find(|scenario| scenario.name == name) {
                Some(scenario) => chosen.push(scenario),
                None => bail!("unknown scenario or option `{name}`\n\nhint: `--list` prints the scenarios"),
            },
        }
    }
    if chosen.is_empty() {
        chosen.extend(SCENARIOS);
    }
    let bench = Bench::new(quick, only_minimal)?;
    table::print_head()?;
    for scenario in chosen {
        (scenario.run)(&bench, scenario.name)?;
    }
    Ok(())
}
