//! A request as its handler sees it, and the route that leads to the handler. The table of routes
//! is in `api/routes.rs`.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use hyper::Method;
use hyper::body::Bytes;
use hyper::header::HeaderMap;

use super::error::ApiError;
use super::reply::HttpReply;
use crate::access::caller::{Caller, Right};
use crate::context::AdminContext;

/// A request as its handler sees it.
pub(crate) struct Call {
    pub(crate) context: Arc<AdminContext>,
    pub(crate) caller: Rc<Caller>,
    /// The values of the braces in the route's path, in order.
    pub(crate) parameters: Vec<String>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// The value of the n-th braces in the route's path.
    pub(crate) fn parameter(&self, index: usize) -> &str {
        self.parameters.get(index).map_or("", String::as_str)
    }

    /// The value of a query parameter.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }
}

/// A response that is computed asynchronously.
pub(crate) type Later = Pin<Box<dyn Future<Output = Result<HttpReply, ApiError>>>>;

/// A route of the interface.
pub(crate) struct ApiRoute {
    pub(crate) method: Method,
    /// The path, with `{names}` for parameters.
    pub(crate) path: &'static str,
    pub(crate) right: Right,
    /// A description in one line.
    pub(crate) summary: &'static str,
    pub(crate) answer: Handler,
}

/// The handler of a route.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// A handler that replies at once.
    Now(fn(&Call) -> Result<HttpReply, ApiError>),
    /// An asynchronous handler.
    Later(fn(Call) -> Later),
}
