//! `oncehost serve`

use clap::Args;

use super::{Fail, complain, plugin, print};
use crate::config::Settings;
use crate::http::admin;
use crate::serve::{self, Server, Signals};
use crate::tables::{self, Pending};

/// Run a host for callers with credentials
#[derive(Debug, Args)]
#[command(
    after_help = "Everything but /healthz and /readyz needs credentials: tokens made by `oncehost token create`, or \
    JWTs of the issuer in the settings auth_jwt_* ([auth.jwt] in oncehost.toml). Without either it listens on loopback \
    addresses only.\n\nIt speaks plain HTTP: for TLS put a proxy in front of it, and let the host listen where only the \
    proxy reaches it.\n\nTables are changed by `oncehost schema apply`, never by this.\n\n\
    Example: oncehost serve --listen 127.0.0.1:7070"
)]
pub(super) struct Serve {}

impl Serve {
    pub(super) async fn run(self, settings: Settings) -> Result<(), Fail> {
        let (stop, hurry) = Signals::take()?.stop_and_hurry();
        let app = serve::open(Settings { dev: false, ..settings })?;
        let server = Server::start(app).await?;
        let app = server.app();
        if !app.auth.has_credentials() {
            complain(
                "nobody can call yet: make a token with `oncehost token create`, or set auth_jwt_jwks and its kin; \
                 either way `oncehost serve --help` says more",
            );
        }
        for (id, plugin) in &app.registry().plugins {
            if let Some(pending) = tables::pending(app, plugin).await {
                let (says, data) = (pending.says(), tables::data_flag(app));
                let run = match pending {
                    Pending::Unknown(_) => "doctor".to_owned(),
                    Pending::Missing | Pending::Differ | Pending::Changed(_) => format!("schema plan {id}"),
                };
                complain(&format!("the tables of {id} {says}; run: oncehost {run}{data}"));
            }
        }
        let greeted = print(&format!(
            "oncehost {} serving on http://{}\nplugins in {}, data in {}\n\n{}",
            env!("CARGO_PKG_VERSION"),
            server.address(),
            app.settings.plugins.display(),
            app.settings.data.display(),
            plugin::list(&admin::plugins(&app.registry())),
        ));
        if greeted != Err(Fail::Pipe) {
            greeted?;
        }
        Ok(server.run(stop, hurry).await?)
    }
}
