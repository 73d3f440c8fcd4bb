//! The server: each request is checked, understood and answered.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use berth_http::{Bodies, BodyError, BodyLimits, Limits, Protocol, Server};
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::session::Session;

use super::answers::{Body, LARGEST_BODY, Refused, answer, cleaned, json_answer};
use super::guard::{Guard, Token};
use super::planner;
use super::read::State;
use super::routes::{Key, Route, Verb, route};
use super::{actions, views, watch};

/// A browser keeps at most six connections, and a stream ends long before `request`.
const LIMITS: Limits = Limits {
    connections: 64,
    connections_per_peer: 64,
    handshake: Duration::from_secs(10),
    first_request: Duration::from_secs(10),
    idle: Duration::from_secs(120),
    request: Duration::from_secs(900),
    streams: 1,
    buffer: 16 << 10,
    // An open stream ends only with the process.
    end: Duration::from_millis(100),
};

/// Bodies are small, so that they need no memory budget.
const BODIES: BodyLimits = BodyLimits {
    largest: LARGEST_BODY,
    factor: 1,
    total: LARGEST_BODY,
    wait: Duration::from_secs(1),
    deadline: Duration::from_secs(10),
};

/// The server's state.
struct Site {
    state: Arc<State>,
    guard: Guard,
    bodies: Bodies,
}

/// Serves the page until `end`.
pub(super) async fn serve(
    session: Arc<Session>,
    listener: TcpListener,
    token: Token,
    end: impl Future<Output = ()>,
) {
    let port = listener.local_addr().map_or(0, |address| address.port());
    let (planner, plans) = planner::new(session.clone());
    let site = Arc::new(Site {
        state: Arc::new(State { session, planner }),
        guard: Guard { port, token },
        bodies: Bodies::new(BODIES),
    });
    let service = service_fn(move |request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    let server = Server::new("dashboard", Protocol::Http1, None, LIMITS);
    tokio::select! {
        () = server.serve(listener, service, end) => {}
        () = plans.make() => {}
    }
}

impl Site {
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let answered = self.try_answer(request).await;
        answered.unwrap_or_else(|refused| refused.answer())
    }

    async fn try_answer(
        self: Arc<Self>,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, Refused> {
        let (parts, body) = request.into_parts();
        self.guard.check_origin(&parts)?;
        let path = parts.uri.path();
        if path.starts_with("/api/") {
            self.guard.check_token(&parts)?;
        }
        match route(&parts.method, path, parts.uri.query().unwrap_or_default())? {
            Route::File(file) => {
                let body = Full::from(file.text).boxed_unsync();
                Ok(answer(StatusCode::OK, file.content, body))
            }
            Route::Show(view) => {
                let data = views::show(&self.state, &view).await?;
                Ok(json_answer(StatusCode::OK, &data))
            }
            Route::Watch(view) => {
                let frames = watch::stream(self.state.clone(), view)
                    .map(|text| Ok(Frame::data(Bytes::from(text))));
                let body = StreamBody::new(frames).boxed_unsync();
                Ok(answer(StatusCode::OK, "text/event-stream", body))
            }
            Route::Act(key, verb) => {
                let data = cleaned(self.act(&key, verb, body).await?);
                Ok(json_answer(StatusCode::OK, &data))
            }
        }
    }

    async fn act(&self, key: &Key, verb: Verb, body: Incoming) -> Result<Value, Refused> {
        let received = self.bodies.read(body).await.map_err(|error| match error {
            BodyError::TooLarge(_) => Refused::too_large(),
            other => Refused::new(other.status(), other.to_string()),
        })?;
        let wanted = serde_json::from_slice(&received.bytes);
        let wanted =
            wanted.map_err(|error| Refused::invalid(format!("the request's body: {error}")))?;
        actions::act(&self.state.session, key, verb, &wanted).await
    }
}
