//! Log lines go to standard error: text for people at a terminal, JSON lines for everything else.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use super::Fail;
use crate::config::{LogFormat, Settings};

/// Starts writing log lines; `usual` is the filter where none is set.
pub(super) fn start(settings: &Settings, usual: &str) -> Result<(), Fail> {
    let filter = settings.log.as_deref().unwrap_or(usual);
    // The watch of plugins cannot help removing what is gone already, and warns of it.
    let parsed = EnvFilter::try_new(format!("notify=error,tokio_postgres=warn,rustls_platform_verifier=off,{filter}"));
    let filter = parsed.map_err(|error| {
        Fail::Usage(format!(
            "{filter:?} is no filter of log lines: {error}; write a level, such as info or debug,script=info"
        ))
    })?;
    let terminal = io::stderr().is_terminal();
    let format = settings.log_format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    // Whoever stops reading the log must not stop the host: without this a line that cannot be written panics.
    // A second start (in a test) keeps the first.
    let _kept = match format {
        LogFormat::Text => lines.with_ansi(terminal).with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
    Ok(())
}
