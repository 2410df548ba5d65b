//! The `oncehost` command.

/// Requests and replies go from thread to thread, and the C library takes a lock for each piece that is given back elsewhere.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    oncehost::cli::main()
}
