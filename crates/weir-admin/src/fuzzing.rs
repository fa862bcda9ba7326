//! Entry points for the targets of `weir-fuzz`, which feed them bytes from outside the process.
//! They are not an interface for other callers.

use hyper::Method;

use crate::api::routes::{RouteMatch, find};
use crate::haproxy;
use crate::http::query::query_of;

/// Splits a line of HAProxy's command line into its commands.
pub fn command_line(line: &str) -> Vec<Vec<String>> {
    haproxy::commands(line)
}

/// The parameters of the path, if an admin address has a route for it, and the fields of the query.
pub fn admin_target(
    method: &str,
    path: &str,
    query: &str,
) -> (Option<Vec<String>>, Vec<(String, String)>) {
    let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
    let parameters = match find(&method, path) {
        RouteMatch::Route(_, parameters) => Some(parameters),
        RouteMatch::OtherMethods(_) | RouteMatch::Nothing => None,
    };
    (parameters, query_of(query))
}
