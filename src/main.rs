//! The `run-evals` command.

fn main() -> std::process::ExitCode {
    run_evals::main()
}
