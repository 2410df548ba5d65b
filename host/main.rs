//! The `oncehost` command.

fn main() -> std::process::ExitCode {
    oncehost::cli::main()
}
