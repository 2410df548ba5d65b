//! Connections: accepting them, and ending them in good order.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::Door;
use super::wire::Wire;
use crate::app::App;

/// How long a client may take for a request's head; a connection that is idle for so long is closed.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Bytes of a request's head; and of what is read ahead of use.
const HEAD_SIZE: usize = 32 << 10;
const READ_AHEAD: usize = 64 << 10;

/// Serves until `stop` turns true, then accepts no more and lets the requests under way end, at most for `stop_grace`.
/// Of more than `connections` at one time the rest wait to be accepted.
pub async fn serve<L>(mut listener: L, app: &Arc<App>, door: Door, connections: usize, stop: watch::Receiver<bool>)
where
    L: Listener,
    L::Addr: Send,
{
    let (router, grace) = (super::router(app.clone(), door), app.settings.stop_grace);
    let places = Arc::new(Semaphore::new(connections));
    let mut open = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        tokio::select! {
            biased;
            () = turned_true(&mut stopping) => break,
            Some(_ended) = open.join_next() => {}
            Some((io, place)) = accept(&mut listener, &places) => {
                open.spawn(connection(Wire::new(io, app.clone()), router.clone(), stop.clone(), place));
            }
        }
    }
    drop(listener);
    let ended = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!(connections = open.len(), "closed connections whose requests outlasted stop_grace");
        open.shutdown().await;
    }
}

async fn accept<L: Listener>(listener: &mut L, places: &Arc<Semaphore>) -> Option<(L::Io, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    let (io, _) = listener.accept().await;
    Some((io, place))
}

async fn turned_true(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone stops as well.
    let _gone = stop.wait_for(|stop| *stop).await;
}

async fn connection<I>(io: I, router: Router, mut stop: watch::Receiver<bool>, _place: OwnedSemaphorePermit)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    // A client that closed its sending half still waits for its answer.
    http.half_close(true);
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_header_size(HEAD_SIZE).max_buf_size(READ_AHEAD);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(io), TowerToHyperService::new(router)));
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = turned_true(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("a connection ended early: {error}");
    }
}
