//! The HTTP side of an admin connection: bounds on requests, authorization, and dispatch to a
//! handler. The routes are in `routes.rs`.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Bytes, Incoming};
use hyper::header;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::access::caller::{Right, Visitor};
use crate::access::seats::{AdminSeat, CallerStanding};
use crate::api::routes::{RouteMatch, find};
use crate::context::AdminContext;
use crate::http::call::{Call, Handler};
use crate::http::csrf::{self, Guarded, OwnNames};
use crate::http::error::ApiError;
use crate::http::query::query_of;
use crate::http::reply::{HttpReply, ReplyBody};
use crate::status::collect::host_name;
use crate::stream::AdminStream;

/// The largest number of bytes of the request line and headers.
const HEAD_BYTES: usize = 16 * 1024;
/// The largest number of header lines.
const HEADERS: usize = 64;
/// The largest number of bytes of a request's body.
const BODY_BYTES: usize = 64 * 1024;
/// The longest wait for a request's head, including the idle time before it.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// The longest wait for a request's body.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// The longest time without any progress on the connection.
pub(crate) const IDLE_PATIENCE: Duration = Duration::from_mins(1);

/// The challenge for browsers, which ask for the token as a password. Programs send it as a bearer
/// token.
const CHALLENGE: &str = "Basic realm=\"Weir (the token is the password)\", charset=\"UTF-8\"";

/// Serves requests until the connection ends.
pub(crate) async fn serve<S>(
    mut stream: AdminStream<S>,
    context: Arc<AdminContext>,
    visitor: Rc<Visitor>,
    seat: Rc<AdminSeat>,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    stream.set_patience(IDLE_PATIENCE);
    let service =
        service_fn(move |request| answer(request, context.clone(), visitor.clone(), seat.clone()));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEADERS);
    // If a connection ends early, the client has caused it and knows.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    context: Arc<AdminContext>,
    visitor: Rc<Visitor>,
    seat: Rc<AdminSeat>,
) -> Result<Response<ReplyBody>, Infallible> {
    let head = request.method() == Method::HEAD;
    let handled = handle(request, context, &visitor, &seat).await;
    let mut reply = handled.unwrap_or_else(HttpReply::from);
    // A stream continues after this.
    seat.set_busy(matches!(reply.body, ReplyBody::Stream(_)));
    if head {
        if let ReplyBody::Whole(body) = &reply.body {
            reply.headers.push((header::CONTENT_LENGTH, body.len().to_string()));
        }
        reply.body = ReplyBody::Whole(Bytes::new());
    }
    Ok(reply.into_response())
}

async fn handle(
    request: Request<Incoming>,
    context: Arc<AdminContext>,
    visitor: &Visitor,
    seat: &AdminSeat,
) -> Result<HttpReply, ApiError> {
    let (parts, body) = request.into_parts();
    let token = parts.headers.get(header::AUTHORIZATION).map(header::HeaderValue::as_bytes);
    let Some(caller) = visitor.caller(token) else {
        context.turned_away(visitor);
        if !visitor.may_bring_token() {
            let message = "you have no role at this address: see `role` in its `admin` block";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        let message = "the token is missing or wrong: send `Authorization: Bearer TOKEN`";
        let refused = HttpReply::from(ApiError::new(StatusCode::UNAUTHORIZED, message));
        return Ok(refused
            .header(header::WWW_AUTHENTICATE, CHALLENGE.to_owned())
            .header(header::WWW_AUTHENTICATE, "Bearer".to_owned()));
    };
    let host_name = host_name();
    let own = OwnNames { host_name: &host_name, names: &visitor.names };
    if caller.standing == CallerStanding::Anonymous
        && let Some(message) = csrf::misdirected(&parts.headers, &own)
    {
        return Err(ApiError::new(StatusCode::MISDIRECTED_REQUEST, message));
    }
    if seat.show(caller.standing).is_err() {
        let message = "too many admin connections";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message));
    }
    seat.set_busy(true);
    let caller = Rc::new(caller);
    let (route, parameters) = match find(&parts.method, parts.uri.path()) {
        RouteMatch::Route(route, parameters) => (route, parameters),
        RouteMatch::Nothing => {
            let message = format!("there is nothing at {}", parts.uri.path());
            return Err(ApiError::new(StatusCode::NOT_FOUND, message));
        }
        RouteMatch::OtherMethods(methods) => {
            let message = format!("{} is not for {}", parts.uri.path(), parts.method);
            let refused = HttpReply::from(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message));
            return Ok(refused.header(header::ALLOW, methods.join(", ")));
        }
    };
    if caller.right < route.right {
        let request = format!("{} {}", route.method, route.path);
        let message = context.denied(&caller, &request, route.right);
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    if route.right > Right::Read {
        // A Unix socket is open only to users of this machine, but a port forwarded to it may be
        // used by a browser.
        let is_guarded = visitor.uid.is_none() && caller.standing == CallerStanding::Known;
        let guarded = if is_guarded { Guarded::ByToken } else { Guarded::ByNothing };
        if let Some(message) = csrf::objection(&parts.headers, guarded, &own) {
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
    }
    let query = query_of(parts.uri.query().unwrap_or_default());
    let body = timeout(BODY_PATIENCE, whole(body)).await.map_err(|_| {
        ApiError::new(StatusCode::REQUEST_TIMEOUT, "the body of the request did not arrive in time")
    })??;
    let call = Call { context, caller, parameters, query, headers: parts.headers, body };
    match route.answer {
        Handler::Now(answer) => answer(&call),
        Handler::Later(answer) => answer(call).await,
    }
}

/// Reads a body of bounded size.
async fn whole(mut body: Incoming) -> Result<Bytes, ApiError> {
    let too_large = || {
        let message = format!("the body of a request has at most {BODY_BYTES} bytes");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    if body.size_hint().lower() > BODY_BYTES as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(frame) =
        std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
    {
        let broken =
            |_| ApiError::new(StatusCode::BAD_REQUEST, "the body of the request ended early");
        let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
        if bytes.len() + piece.len() > BODY_BYTES {
            return Err(too_large());
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes.into())
}
