//! HTTP on loopback: `/metrics` for Prometheus, `/healthz` for load balancers and scripts.
//!
//! | request | answer |
//! |---|---|
//! | `GET /metrics` | the metrics, in Prometheus' text format |
//! | `GET /healthz` | 200 `healthy`, or 503 with the reasons |
//! | `GET /healthz/CONTEXT` | the same, and 404 when the dialplan has no such context |
//!
//! There is no authentication, hence loopback only (the configuration refuses other addresses).

use crate::control::health;
use crate::program::Program;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Requests at a time; the next one is closed unheard.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to say what it wants.
const HEAD_MAX: Duration = Duration::from_secs(5);

/// How long a connection may last.
const CONNECTION_MAX: Duration = Duration::from_secs(30);

/// How often the metrics' histograms are tidied up.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// What pages are made of.
pub(crate) struct Pages {
    pub(crate) metrics: PrometheusHandle,
    pub(crate) program: Arc<Program>,
}

/// Serves until the thread ends.
pub(crate) async fn serve(listener: TcpListener, pages: Arc<Pages>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let keeper = Arc::clone(&pages);
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP_EVERY).await;
            keeper.metrics.run_upkeep();
        }
    });
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: others must close theirs first.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            // A client that goes away in the middle is nobody's fault.
            let _ = tokio::time::timeout(CONNECTION_MAX, converse(stream, pages)).await;
            drop(place);
        });
    }
}

async fn converse(stream: TcpStream, pages: Arc<Pages>) -> hyper::Result<()> {
    let answer = service_fn(move |request| {
        let pages = Arc::clone(&pages);
        async move { Ok::<_, Infallible>(page(&request, &pages).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .keep_alive(true)
        .serve_connection(TokioIo::new(stream), answer)
        .await
}

async fn page(request: &Request<Incoming>, pages: &Pages) -> Response<Full<Bytes>> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n");
    }
    match request.uri().path() {
        "/metrics" => text(StatusCode::OK, pages.metrics.render()),
        "/healthz" => healthz(&pages.program).await,
        path => match path.strip_prefix("/healthz/") {
            Some(context) if pages.program.plan().has_context(context) => {
                healthz(&pages.program).await
            }
            Some(_) => text(StatusCode::NOT_FOUND, "the dialplan has no such context\n"),
            None => text(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
        },
    }
}

async fn healthz(program: &Program) -> Response<Full<Bytes>> {
    let Ok(shards) = program.shard_counts().await else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "a shard does not answer\n");
    };
    let (_, wrong) = health(program, &shards);
    if wrong.is_empty() {
        text(StatusCode::OK, "healthy\n")
    } else {
        text(StatusCode::SERVICE_UNAVAILABLE, wrong.join("\n") + "\n")
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let kind = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
    response
}
