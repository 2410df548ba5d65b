//! The commands.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::Value as Json;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::StartError;
use crate::app::lock::LockError;
use crate::config::{ConfigError, Settings, Sources};
use crate::failure::{Code, Failure};
use crate::serve::room::check_threads;
use crate::store::Stores;
use crate::suggest::shell_word;

mod backup;
mod dev;
mod doctor;
mod events;
mod flow;
mod flow_tree;
mod given;
mod invoke;
mod local;
mod log;
mod new;
mod plugin;
mod progress;
mod sample;
mod schema;
mod serve;
mod store;
mod token;
mod types;

/// Runs TypeScript plugins and makes every write they do safe to repeat.
#[derive(Debug, Parser)]
#[command(
    name = "oncehost",
    version,
    max_term_width = 100,
    after_help = "Settings: flags over ONCEHOST_* (such as \
    ONCEHOST_LISTEN) over oncehost.toml.\nExit codes: 0 done, 1 it failed, 2 wrong use.\n\nExample: oncehost dev --plugins plugins"
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct Global {
    /// Folder of the plugins [default: plugins]
    #[arg(long, global = true, value_name = "DIR")]
    plugins: Option<String>,
    /// Folder of the databases [default: data]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<String>,
    /// Address to listen on [default: 127.0.0.1:7070]
    #[arg(long, global = true, value_name = "ADDR")]
    listen: Option<String>,
    /// Where data is kept: sqlite, or postgres://USER:PASSWORD@HOST:PORT/DATABASE [default: sqlite, in the data folder]
    #[arg(long, global = true, value_name = "URL")]
    store: Option<String>,
    /// Settings file [default: oncehost.toml, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<String>,
    /// Which log lines to write, such as info or debug,script=info
    #[arg(long, global = true, value_name = "FILTER")]
    log: Option<String>,
    /// Form of log lines, text or json [default: text on a terminal]
    #[arg(long, global = true, value_name = "FORM")]
    log_format: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::New),
    Dev(dev::Dev),
    Serve(serve::Serve),
    Schema(schema::Schema),
    Invoke(invoke::Invoke),
    Plugin(plugin::Plugin),
    Events(events::Events),
    Flow(flow::Flow),
    Backup(backup::Backup),
    Restore(backup::Restore),
    Doctor(doctor::Doctor),
    Token(token::Token),
    Store(store::Store),
    Types(types::Types),
}

/// SIGXFSZ.
const FILE_TOO_LARGE: i32 = rustix::process::Signal::XFSZ.as_raw();

/// Why a command did not do its work.
#[derive(Debug, PartialEq, Eq)]
enum Fail {
    /// It was used wrongly: exit code 2.
    Usage(String),
    /// It could not be done: exit code 1.
    Failed(String),
    /// The same, and all is said already.
    Said,
    /// Nobody reads on: not a failure.
    Pipe,
}

impl From<ConfigError> for Fail {
    fn from(error: ConfigError) -> Self {
        Fail::Usage(error.0)
    }
}

impl From<StartError> for Fail {
    fn from(error: StartError) -> Self {
        Fail::Failed(error.0)
    }
}

impl From<Failure> for Fail {
    /// What is not valid was given wrong.
    fn from(failure: Failure) -> Self {
        if failure.code == Code::Validation { Fail::Usage(failure.detail) } else { Fail::Failed(failure.to_string()) }
    }
}

impl From<LockError> for Fail {
    fn from(error: LockError) -> Self {
        Fail::Failed(error.to_string())
    }
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Fail::Pipe } else { Fail::Failed(error.to_string()) }
    }
}

/// Reads the command line, runs the command, and gives the exit code: 0 done, 1 it failed, 2 wrong use.
pub fn main() -> ExitCode {
    let read = Cli::command().try_get_matches().and_then(|found| Ok((named(&found), Cli::from_arg_matches(&found)?)));
    let (named, cli) = match read {
        Ok(read) => read,
        Err(error) => {
            let _nobody_reads = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    match run(cli) {
        Ok(()) | Err(Fail::Pipe) => ExitCode::SUCCESS,
        Err(Fail::Said) => ExitCode::FAILURE,
        Err(Fail::Failed(text)) => {
            complain(&text);
            ExitCode::FAILURE
        }
        Err(Fail::Usage(text)) => {
            complain(&format!("{text}\nHelp: {named} --help"));
            ExitCode::from(2)
        }
    }
}

/// The databases that a list had to leave out.
fn missing(found: &serde_json::Value) -> String {
    let of = |it: &serde_json::Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let line = |it| format!("not asked: {} ({})\n", of(it, "plugin"), of(it, "error"));
    items(found, "missing").iter().map(line).collect()
}

/// Exit code 1 where a database was left out.
fn whole(found: &serde_json::Value) -> Result<(), Fail> {
    if items(found, "missing").is_empty() { Ok(()) } else { Err(Fail::Said) }
}

/// The command's words: `oncehost events replay`.
fn named(found: &ArgMatches) -> String {
    let mut words = "oncehost".to_owned();
    let mut at = found;
    while let Some((name, below)) = at.subcommand() {
        words.push(' ');
        words.push_str(name);
        at = below;
    }
    words
}

/// Threads that wait for disks and servers at one time. Without a bound of ours a host with many plugins starts with
/// hundreds of them, which take memory for as long as it runs.
const WAITING_THREADS: usize = 64;

/// Threads that read and write for clients: one for two processors, since lanes have threads of their own. With more of
/// them a request wakes one after the other, which on two processors takes a sixth of the time of a call that is alone.
fn serving_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2))
}

fn run(cli: Cli) -> Result<(), Fail> {
    let Global { plugins, data, listen, store, config, log, log_format } = cli.global;
    let flags = [
        ("plugins", plugins),
        ("data", data),
        ("listen", listen),
        ("store", store),
        ("log", log),
        ("log_format", log_format),
    ];
    let flags = flags.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    let settings = Settings::load(&Sources { config: config.map(Into::into), flags })?;
    Stores::check(&settings).map_err(Fail::Usage)?;
    let hosts = matches!(cli.command, Command::Dev(_) | Command::Serve(_));
    log::start(&settings, if hosts { "info" } else { "warn" })?;
    for name in settings.unknown.iter().filter(|name| !store::names(name)) {
        complain(&format!("{name} in the environment is no setting, and is not looked at"));
    }
    check_threads()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(serving_threads())
        .max_blocking_threads(WAITING_THREADS)
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        // With somebody who listens, a file that reaches its limit (ulimit -f) is an error of the write, not the end.
        let _too_large = signal(SignalKind::from_raw(FILE_TOO_LARGE))?;
        match cli.command {
            Command::New(command) => command.run(settings).await,
            Command::Dev(command) => command.run(settings).await,
            Command::Serve(command) => command.run(settings).await,
            Command::Schema(command) => command.run(settings).await,
            Command::Invoke(command) => command.run(settings).await,
            Command::Plugin(command) => command.run(settings).await,
            Command::Events(command) => command.run(settings).await,
            Command::Flow(command) => command.run(settings).await,
            Command::Backup(command) => command.run(settings).await,
            Command::Restore(command) => command.run(settings).await,
            Command::Doctor(command) => command.run(settings).await,
            Command::Token(command) => command.run(settings).await,
            Command::Store(command) => command.run(settings).await,
            Command::Types(command) => command.run(settings).await,
        }
    });
    // Whatever still blocks a thread must not keep the process.
    runtime.shutdown_background();
    done
}

/// Those of these settings that were given as flags, once more: for a command that is to meet the same host.
fn flags(settings: &Settings, names: &[&str]) -> String {
    let value = |name: &str| match name {
        "plugins" => Some(settings.plugins.display().to_string()),
        "data" => Some(settings.data.display().to_string()),
        "listen" => Some(settings.listen.to_string()),
        _ => None,
    };
    let given = settings.given.iter().filter(|(name, from)| names.contains(name) && from.starts_with("--"));
    given.filter_map(|(name, _)| Some(format!(" --{name} {}", shell_word(&value(name)?)))).collect()
}

/// Writes to standard output; a reader that went away ends the command in silence.
fn print(text: &str) -> Result<(), Fail> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Writes to standard error.
fn complain(text: &str) {
    let _nobody_reads = writeln!(io::stderr().lock(), "oncehost: {text}");
}

/// The list that a member of a reply is; one that is not there is empty.
fn items<'a>(of: &'a Json, name: &str) -> &'a [Json] {
    of.get(name).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

/// The text that a member of a reply is; one that is not there is empty.
fn text<'a>(of: &'a Json, name: &str) -> &'a str {
    of.get(name).and_then(Json::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split(' '))
    }

    #[test]
    fn command_line_is_well_formed() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn every_help_has_an_example() {
        fn look(command: &mut clap::Command) {
            let name = command.get_name().to_owned();
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example: oncehost"), "{name}: {help}");
            command.get_subcommands_mut().filter(|below| below.get_name() != "help").for_each(look);
        }
        look(&mut <Cli as clap::CommandFactory>::command());
    }

    #[test]
    fn settings_may_stand_before_and_after_the_command() {
        let before = parse("oncehost --data d dev").unwrap();
        let after = parse("oncehost dev --data d").unwrap();
        assert_eq!(before.global.data.as_deref(), Some("d"));
        assert_eq!(after.global.data.as_deref(), Some("d"));
    }

    #[test]
    fn reader_that_went_away_is_no_failure() {
        assert_eq!(Fail::from(io::Error::from(io::ErrorKind::BrokenPipe)), Fail::Pipe);
    }
}
