//! Start and stop, in order: the app, the addresses, the requests; and back.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::app::lock::Holder;
use crate::app::{App, StartError};
use crate::clock::SystemClock;
use crate::config::Settings;
use crate::events;
use crate::http::{self, Door};
use crate::ids::SystemIds;
use crate::trace::Exporter;

pub mod room;
mod rounds;

/// The name of the local socket in the data folder.
const SOCKET: &str = "oncehost.sock";
/// The longest path of a Unix socket, in bytes, on every system that has them.
const SOCKET_PATH: usize = 100;

/// The most connections at one time over the local socket.
const LOCAL_CONNECTIONS: usize = 64;
/// Signals within this time of the first are one with it.
const TOGETHER: Duration = Duration::from_millis(250);
/// What closing may take in any case, where requests took all of `stop_grace`.
const CLOSE: Duration = Duration::from_secs(1);

/// Opens the data and the plugins with the machine's clock and ids.
///
/// # Errors
/// See [`App::open`]; also when this process may open too few files.
pub fn open(settings: Settings) -> Result<Arc<App>, StartError> {
    room::raise_open_files()?;
    App::open(settings, Arc::new(SystemClock), Arc::new(SystemIds::default()))
}

/// The same for a command that works on the data where no host runs. Another command that does so is waited for.
///
/// # Errors
/// As [`open`].
pub fn open_for_command(settings: Settings) -> Result<Arc<App>, StartError> {
    room::raise_open_files()?;
    App::open_as(Holder::Command, settings, Arc::new(SystemClock), Arc::new(SystemIds::default()))
}

/// A host that has its data and its addresses, and serves nobody yet.
pub struct Server {
    app: Arc<App>,
    tcp: TcpListener,
    address: SocketAddr,
    local: Option<UnixListener>,
}

impl Server {
    /// Binds the addresses of an app.
    ///
    /// # Errors
    /// When the address cannot be had; the app is closed then.
    pub async fn start(app: Arc<App>) -> Result<Self, StartError> {
        match bind(&app).await {
            Ok((tcp, address)) => {
                // An app is served once.
                let _first = app.address.set(address);
                app.registry().plugins.values().for_each(|plugin| plugin.tell_lacking());
                let local = bind_local(&app.settings.data)
                    .inspect_err(|error| {
                        let data = app.settings.data.display();
                        tracing::warn!("no local socket in {data}: {error}; commands cannot reach this host");
                    })
                    .ok();
                Ok(Self { app, tcp, address, local })
            }
            Err(error) => {
                app.close().await;
                Err(error)
            }
        }
    }

    /// What this host serves.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// The address that is bound, with the real port where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` ends; then accepts no more, lets requests under way end within `stop_grace`, closes the
    /// app and removes the local socket. When `hurry` ends meanwhile, it stops at once.
    ///
    /// # Errors
    /// When it was hurried.
    pub async fn run(self, stop: impl Future<Output = ()>, hurry: impl Future<Output = ()>) -> Result<(), StartError> {
        let Self { app, tcp, address, local } = self;
        let (stopper, stopped) = watch::channel(false);
        let door = if app.settings.dev { Door::Dev { port: address.port() } } else { Door::Serve };
        let over_tcp = http::listen::serve(tcp, &app, door, room::connection_limit(&app.settings), stopped.clone());
        let over_local = async {
            if let Some(local) = local {
                http::listen::serve(local, &app, Door::Local, LOCAL_CONNECTIONS, stopped).await;
            }
        };
        let stopped_at = OnceLock::new();
        let stopping = async {
            stop.await;
            stopped_at.get_or_init(Instant::now);
            tracing::info!("stopping");
            app.events.end();
            let _nobody_listens = stopper.send(true);
        };
        let all = async {
            let mut exporter = app.exporter();
            tokio::select! {
                _ = async { tokio::join!(over_tcp, over_local, stopping, events::run(&app)) } => {}
                () = rounds::clear_now_and_then(&app) => {}
                () = rounds::keep_a_thread() => {}
                () = export(&mut exporter) => {}
                () = app.auth.keep_fresh() => {}
                () = rounds::follow_tokens(&app), if app.stores.is_shared() => {}
                () = rounds::look_after_others(&app), if app.stores.has_server() => {}
                () = rounds::hear_others(&app) => {}
                () = rounds::show_life(&app), if app.stores.is_shared() => {}
                () = app.flows.run(&app) => {}
            }
            // Requests have had of the grace what they needed; a commit takes no second.
            let until = *stopped_at.get_or_init(Instant::now) + app.settings.stop_grace;
            app.close_by(until.max(Instant::now() + CLOSE)).await;
            if let Some(exporter) = &mut exporter {
                exporter.rest().await;
            }
            if let Ok(path) = Reach::of(&app.settings.data) {
                let _gone = std::fs::remove_file(&path.path);
            }
        };
        tokio::select! {
            () = all => Ok(()),
            () = hurry => Err(StartError("stopped at once, without waiting for requests under way".to_owned())),
        }
    }
}

/// Sends spans to the collector, where there is one, for as long as the host serves.
async fn export(exporter: &mut Option<Exporter>) {
    match exporter {
        Some(exporter) => exporter.run().await,
        None => std::future::pending().await,
    }
}

/// Refuses to listen where others than this machine can reach a host that asks for no credentials, or that has none
/// to compare with.
async fn check_reach(app: &App) -> Result<(), StartError> {
    let address = app.settings.listen;
    if app.settings.dev {
        return check_loopback(address);
    }
    if let Err(unusable) = app.auth.look_at_keys().await {
        // A file is as it is until somebody mends it; a server may be back in a moment, and tokens do without it.
        if unusable.is_file || !(address.ip().is_loopback() || app.auth.has_tokens()) {
            return Err(StartError(format!("{unusable}; {}", unusable.fix())));
        }
        if unusable.others_only {
            tracing::error!("{unusable}; {}: until then nobody is let in with a JWT", unusable.fix());
        } else {
            tracing::error!(
                "{unusable}; nobody is let in with a JWT until that answers, and it is asked again and again"
            );
        }
    }
    if address.ip().is_loopback() || app.auth.has_credentials() {
        return Ok(());
    }
    Err(StartError(format!(
        "not listening on {address}: there are no credentials that callers could have. Make a token first \
         (oncehost token create --tenant TENANT --subject NAME --scope invoke:PLUGIN), or let JWTs in (the settings \
         auth_jwt_jwks, auth_jwt_issuer and auth_jwt_audience); on 127.0.0.1:{} it starts without",
        address.port()
    )))
}

/// Refuses an address that others than this machine can reach: `dev` asks for no credentials.
///
/// # Errors
/// One sentence with an address that would do.
pub fn check_loopback(address: SocketAddr) -> Result<(), StartError> {
    if address.ip().is_loopback() {
        return Ok(());
    }
    Err(StartError(format!(
        "dev needs no credentials and so listens on loopback addresses only, not on {address}; use 127.0.0.1:{}",
        address.port()
    )))
}

async fn bind(app: &App) -> Result<(TcpListener, SocketAddr), StartError> {
    let wanted = app.settings.listen;
    check_reach(app).await?;
    let bound = TcpListener::bind(wanted).await.and_then(|tcp| tcp.local_addr().map(|address| (tcp, address)));
    bound.map_err(|error| StartError(not_bound(wanted, &error)))
}

/// Why nobody can listen on an address, and what to do.
pub fn not_bound(wanted: SocketAddr, error: &io::Error) -> String {
    let why = error.kind();
    if why == io::ErrorKind::AddrInUse {
        format!("another program listens on {wanted} already; stop it, or choose another address with --listen")
    } else if why == io::ErrorKind::PermissionDenied {
        format!("not allowed to listen on {wanted}; ports below 1024 need a privilege, choose another with --listen")
    } else if why == io::ErrorKind::AddrNotAvailable {
        format!("this machine has no address {}; choose another with --listen", wanted.ip())
    } else {
        format!("cannot listen on {wanted}: {error}; choose another address with --listen")
    }
}

/// A path by which the local socket of a data folder can be bound or connected to, for as long as this value lives.
#[derive(Debug)]
pub struct Reach {
    pub path: PathBuf,
    _folder: Option<File>,
}

impl Reach {
    /// The socket's path; where it is too long for a socket's address, a short one through the open folder.
    ///
    /// # Errors
    /// When the folder cannot be opened, or the system has no short way to it.
    pub fn of(data: &Path) -> Result<Self, io::Error> {
        let path = data.join(SOCKET);
        if path.as_os_str().len() <= SOCKET_PATH {
            return Ok(Self { path, _folder: None });
        }
        let folder = File::open(data)?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        if !short.exists() {
            return Err(io::Error::other(format!(
                "the path is longer than {SOCKET_PATH} bytes; choose a shorter --data"
            )));
        }
        Ok(Self { path: short.join(SOCKET), _folder: Some(folder) })
    }
}

/// Binds the local socket, open to the owner only. The app holds the lock of the folder, so a socket that is there
/// was left behind by a host that died. It is bound where nobody else comes and moved when its mode is set: the
/// process's umask would do the same, but also to whatever other threads make at that moment.
fn bind_local(data: &Path) -> io::Result<UnixListener> {
    let reach = Reach::of(data)?;
    let private = reach.path.with_file_name(".new");
    match std::fs::remove_dir_all(&private) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(&private)?;
    let socket = private.join("socket");
    let bound = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
    std::fs::rename(&socket, &reach.path)?;
    std::fs::remove_dir(&private)?;
    Ok(bound)
}

/// The signals that end a host.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// `None` where whoever started this process had it ignored, as `nohup` does: it goes on without its terminal.
    hangup: Option<Signal>,
}

impl Signals {
    /// Takes SIGTERM, SIGINT and SIGHUP over from the system's defaults.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn take() -> io::Result<Self> {
        let hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())?, hangup })
    }

    /// What ends with the first of them, and what ends with the next one after it. What comes together with the first is no
    /// second: a terminal tells all that run in it, and npm and `timeout` tell it once more. One receiver serves both, in turn.
    pub fn stop_and_hurry(mut self) -> (impl Future<Output = ()>, impl Future<Output = ()>) {
        let (pass_on, passed) = oneshot::channel::<Self>();
        let stop = async move {
            self.next().await;
            // Nobody waits for the second where the host has ended already.
            let _ended = pass_on.send(self);
        };
        let hurry = async move {
            let Ok(mut signals) = passed.await else { return std::future::pending().await };
            let together = tokio::time::sleep(TOGETHER);
            tokio::pin!(together);
            loop {
                tokio::select! { biased; () = &mut together => break, () = signals.next() => {} }
            }
            signals.next().await;
        };
        (stop, hurry)
    }

    /// Waits for the next of them.
    async fn next(&mut self) {
        let Self { terminate, interrupt, hangup } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {}, _ = hung_up => {} }
    }
}

/// Whether SIGHUP is ignored. Where there is no `/proc` it counts as not.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // SIGHUP is number 1 everywhere, and number n is bit n - 1.
    mask & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(data: &Path) -> Settings {
        let plugins = data.join("plugins");
        std::fs::create_dir_all(&plugins).unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        Settings { plugins, data: data.to_owned(), listen, dev: true, ..Settings::default() }
    }

    #[tokio::test]
    async fn local_socket_is_the_owners_alone_and_replaces_a_stale_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SOCKET);
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "a dead host leaves its socket behind");
        let server = Server::start(open(settings(folder.path())).unwrap()).await.unwrap();
        assert!(server.local.is_some());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        tokio::net::UnixStream::connect(&path).await.unwrap();
        server.run(std::future::ready(()), std::future::pending()).await.unwrap();
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn socket_in_a_folder_with_a_long_path_is_reached_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("x".repeat(120));
        let server = Server::start(open(settings(&data)).unwrap()).await.unwrap();
        assert!(server.local.is_some());
        assert!(data.join(SOCKET).exists());
        tokio::net::UnixStream::connect(&Reach::of(&data).unwrap().path).await.unwrap();
    }

    #[tokio::test]
    async fn address_that_is_taken_is_told_in_one_sentence() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings { listen: taken.local_addr().unwrap(), ..settings(folder.path()) };
        let error = Server::start(open(settings).unwrap()).await.err().unwrap();
        assert!(error.0.starts_with("another program listens on 127.0.0.1:"), "{error}");
        assert!(error.0.ends_with("choose another address with --listen"), "{error}");
    }

    #[test]
    fn address_that_others_reach_is_refused() {
        for address in ["0.0.0.0:7070", "[::]:7070", "192.168.1.5:7070"] {
            let error = check_loopback(address.parse().unwrap()).unwrap_err();
            assert!(error.0.ends_with("use 127.0.0.1:7070"), "{error}");
        }
        assert!(check_loopback("[::1]:7070".parse().unwrap()).is_ok());
    }

    #[tokio::test]
    async fn hurried_stop_does_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(open(settings(folder.path())).unwrap()).await.unwrap();
        let error = server.run(std::future::pending(), std::future::ready(())).await.unwrap_err();
        assert!(error.0.starts_with("stopped at once"), "{error}");
    }
}
