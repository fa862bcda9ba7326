//! The forms of a page without a script: they have the fields of the API, and are answered by a
//! redirect back to the page. Scripts use the API itself.

use hyper::StatusCode;
use hyper::header;
use weir_config::model::{AdminState, Change, EndpointOverride};
use weir_control::admin_port::Trial;

use super::response::sorry;
use crate::http::call::{Call, Later};
use crate::http::csrf;
use crate::http::error::ApiError;
use crate::http::query::query_of;
use crate::http::reply::HttpReply;

/// Changes the order of an endpoint.
pub(super) fn take(call: Call) -> Later {
    Box::pin(async move {
        from_a_form(&call)?;
        let (pool, endpoint) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
        let fields = query_of(&String::from_utf8_lossy(&call.body));
        let order = match fields.as_slice() {
            [(name, order)] if name == "order" => order.as_str(),
            _ => "",
        };
        let order = match order {
            "ready" => AdminState::Ready,
            "draining" => AdminState::Draining,
            "maintenance" => AdminState::Maintenance,
            _ => {
                return Ok(sorry(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "Unknown order: it is ready, draining or maintenance.",
                ));
            }
        };
        let set = EndpointOverride { order: Some(order), ..EndpointOverride::default() };
        let change = Change::Endpoint { pool, endpoint, set };
        Ok(made(&call, &change, back_to(&call)).await)
    })
}

/// Changes a pool.
pub(super) fn take_pool(call: Call) -> Later {
    Box::pin(async move {
        from_a_form(&call)?;
        let fields = query_of(&String::from_utf8_lossy(&call.body));
        let number = match fields.as_slice() {
            [(name, number)] if name == "keepalive_idle" => number.parse().ok(),
            _ => None,
        };
        let Some(keepalive_idle) = number else {
            return Ok(sorry(
                StatusCode::UNPROCESSABLE_ENTITY,
                "The number of idle connections is a whole number.",
            ));
        };
        let change = Change::Pool { pool: call.parameter(0).to_owned(), keepalive_idle };
        Ok(made(&call, &change, "/".to_owned()).await)
    })
}

/// Browsers send the origin of a form; a client that sends none is a program and can use the API.
fn from_a_form(call: &Call) -> Result<(), ApiError> {
    if csrf::is_said(&call.headers) {
        return Ok(());
    }
    let message = "a form needs an `Origin` header; programs use PATCH on /v1/pools/{pool} and /v1/pools/{pool}/endpoints/{endpoint}";
    Err(ApiError::new(StatusCode::FORBIDDEN, message))
}

/// Makes a change; the response leads to `page`.
async fn made(call: &Call, change: &Change, page: String) -> HttpReply {
    let done = call.context.operations().change(&call.caller.who, change, Trial::Real).await;
    match done.map_err(ApiError::from) {
        Err(error) => sorry(error.status, &format!("The change was refused: {}.", error.message)),
        Ok(_) => HttpReply {
            status: StatusCode::SEE_OTHER,
            ..HttpReply::new("text/plain; charset=utf-8", "done\n")
        }
        .header(header::LOCATION, page),
    }
}

/// The page with the button: this endpoint's own page or the overview.
fn back_to(call: &Call) -> String {
    let own = call.headers.get(header::REFERER).and_then(|value| value.to_str().ok());
    let is_own = own.is_some_and(|referer| referer.split('/').nth(3) == Some("pools"));
    if !is_own {
        return "/".to_owned();
    }
    let part = crate::http::query::encoded;
    format!("/pools/{}/{}", part(call.parameter(0)), part(call.parameter(1)))
}
