//! Connections: accepting them, and ending them in good order.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::serve::Listener;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::seats::{Seats, Taken};
use super::wire::Wire;
use super::{Door, Site};
use crate::app::App;

/// Bytes of a request's head; and of what is read ahead of use.
const HEAD_SIZE: usize = 32 << 10;
const READ_AHEAD: usize = 64 << 10;

/// Serves until `stop` turns true, then accepts no more and lets the requests under way end, at most for `stop_grace`.
/// Where there are `connections`, whoever knocks gets the place of the one that has been silent for longest.
pub async fn serve<L>(mut listener: L, app: &Arc<App>, door: Door, connections: usize, stop: watch::Receiver<bool>)
where
    L: Listener,
    L::Addr: Send,
{
    let (site, grace) = (super::site(app.clone(), door, connections), app.settings.stop_grace);
    let (seats, mut knocking) = (Seats::new(connections), None);
    let mut open = JoinSet::new();
    let mut stopping = stop.clone();
    loop {
        tokio::select! {
            biased;
            () = turned_true(&mut stopping) => break,
            Some(_ended) = open.join_next() => {}
            taken = seats.take(), if knocking.is_some() => {
                if let Some(io) = knocking.take() {
                    let wire = Wire::new(io, app.clone(), taken.seat.clone());
                    open.spawn(connection(wire, site.clone(), app.settings.head_time, stop.clone(), taken));
                }
            }
            (io, _) = listener.accept(), if knocking.is_none() => knocking = Some(io),
        }
    }
    drop((listener, knocking));
    let ended = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, ended).await.is_err() {
        tracing::warn!(connections = open.len(), "closed connections whose requests outlasted stop_grace");
        open.shutdown().await;
    }
}

async fn turned_true(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone stops as well.
    let _gone = stop.wait_for(|stop| *stop).await;
}

async fn connection<I>(io: I, site: Site, head_time: Duration, mut stop: watch::Receiver<bool>, taken: Taken)
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    // A client that closed its sending half still waits for its answer.
    http.half_close(true);
    http.timer(TokioTimer::new()).header_read_timeout(head_time).max_header_size(HEAD_SIZE).max_buf_size(READ_AHEAD);
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = site.clone().answer(request.map(Body::new));
        async { Ok::<_, Infallible>(answer.await) }
    });
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(io), answer));
    let served = tokio::select! {
        served = serving.as_mut() => served,
        () = turned_true(&mut stop) => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
        () = taken.seat.wanted() => {
            if !taken.seat.has_begun() {
                return;
            }
            // What is under way is answered first.
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = served {
        tracing::debug!("a connection ended early: {error}");
    }
}
