//! The handlers that change something. What a change means is `weir-config`'s, that it takes effect `context.rs`'s; here a request
//! is read strictly, and every mistake names its field.

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use serde_json::{Map, Value, json};
use weir_config::Config;
use weir_config::model::{Change, Endpoint, EndpointOverride, Limit, Order, Refusal};

use super::context::{Context, Outcome, Trial};
use super::error::ApiError;
use super::gather::View;
use super::http::Call;
use super::reply::Reply;
use super::routes::Later;
use super::status::EndpointStatus;

/// `PATCH` of an endpoint.
pub(crate) fn patch(call: Call) -> Later {
    Box::pin(async move {
        let (pool, name) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
        endpoint(&call.context, &pool, &name)?;
        let set = endpoint_fields(&object(&call.body)?)?;
        let change = Change::Endpoint { pool: pool.clone(), endpoint: name.clone(), set };
        let outcome = make(&call, &change, Some((&pool, &name))).await?;
        let now = endpoint(&call.context, &pool, &name)?;
        let tag = tag(&now);
        Ok(told(&outcome, json!({"endpoint": now})).header(header::ETAG, tag))
    })
}

/// One endpoint, or the error that says that there is none.
pub(crate) fn endpoint(
    context: &Context,
    pool: &str,
    name: &str,
) -> Result<EndpointStatus, ApiError> {
    let view = View::new(context);
    if view.pool_named(pool).is_none() {
        return Err(ApiError::unknown("pool", pool));
    }
    view.endpoint_named(pool, name).ok_or_else(|| ApiError::unknown("endpoint", name))
}

/// What tells one state of an endpoint's settings from another.
pub(crate) fn tag(endpoint: &EndpointStatus) -> String {
    tag_of(&endpoint.order, endpoint.weight, endpoint.max_conn)
}

fn tag_of(order: &str, weight: u32, max_conn: Option<u32>) -> String {
    let limit = max_conn.map_or("none".to_owned(), |limit| limit.to_string());
    format!("\"{order}-{weight}-{limit}\"")
}

/// Makes a change, or only checks it, as the request says.
async fn make(
    call: &Call,
    change: &Change,
    place: Option<(&str, &str)>,
) -> Result<Outcome, ApiError> {
    let trial = if yes(call, "dry_run")? { Trial::Dry } else { Trial::Real };
    let mut moved = false;
    let still = |config: &Config| {
        moved = place.is_some_and(|place| !matches(&call.headers, config, place));
        if moved {
            let message = "it was changed by somebody else meanwhile: look again";
            return Err(Refusal::conflict("If-Match", message));
        }
        Ok(())
    };
    let outcome = call.context.change_if(&call.caller.who, change, trial, still).await;
    outcome.map_err(|refusal| {
        let error = ApiError::from(refusal);
        if moved { ApiError { status: StatusCode::PRECONDITION_FAILED, ..error } } else { error }
    })
}

/// Whether the request's `If-Match`, if it has one, is about what is now.
fn matches(headers: &HeaderMap, config: &Config, (pool, name): (&str, &str)) -> bool {
    let Some(wanted) = headers.get(header::IF_MATCH) else { return true };
    let Ok(wanted) = wanted.to_str() else { return false };
    let pool = config.pools.iter().find(|own| own.name == *pool);
    let endpoint =
        pool.and_then(|pool| pool.endpoints.iter().find(|endpoint| endpoint.name == *name));
    let Some(Endpoint { order, weight, max_conn, .. }) = endpoint else { return false };
    let own = tag_of(order.as_str(), *weight, *max_conn);
    wanted.split(',').map(str::trim).any(|tag| tag == "*" || tag == own)
}

/// The answer to a change: what became of it, and more.
fn told(outcome: &Outcome, more: Value) -> Reply {
    let mut value = serde_json::to_value(outcome).unwrap_or_default();
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    Reply::json(&value)
}

/// A query parameter that is `true` or `false`; absent is false, without a value true.
pub(crate) fn yes(call: &Call, name: &str) -> Result<bool, ApiError> {
    match call.query(name) {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("" | "true" | "1" | "yes") => Ok(true),
        Some(other) => {
            Err(ApiError::field(name, format!("`{other}` is neither `true` nor `false`")))
        }
    }
}

/// The body as a JSON object; an empty one is an empty object.
pub(crate) fn object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(bad_body("the body has to be a JSON object")),
        Err(error) => Err(bad_body(&format!("the body is no JSON: {error}"))),
    }
}

fn bad_body(message: &str) -> ApiError {
    ApiError { status: StatusCode::BAD_REQUEST, ..ApiError::field("body", message) }
}

/// What may be changed of an endpoint.
fn endpoint_fields(fields: &Map<String, Value>) -> Result<EndpointOverride, ApiError> {
    let mut set = EndpointOverride::default();
    for (name, value) in fields {
        match name.as_str() {
            "order" => set.order = Some(order(value)?),
            "weight" => set.weight = Some(number(name, value)?),
            "max_conn" if value.is_null() => set.max_conn = Some(Limit::Unlimited),
            "max_conn" => set.max_conn = Some(Limit::At(number(name, value)?)),
            _ => return Err(unknown_field(name, "order, weight and max_conn")),
        }
    }
    Ok(set)
}

fn unknown_field(name: &str, known: &str) -> ApiError {
    ApiError::field(name, format!("there is no field `{name}`: there are {known}"))
}

fn order(value: &Value) -> Result<Order, ApiError> {
    match value.as_str() {
        Some("ready") => Ok(Order::Ready),
        Some("draining" | "drain") => Ok(Order::Draining),
        Some("maintenance" | "maint") => Ok(Order::Maintenance),
        _ => Err(ApiError::field(
            "order",
            format!("{value} is not an order: `ready`, `draining` or `maintenance`"),
        )),
    }
}

fn number(field: &str, value: &Value) -> Result<u32, ApiError> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| {
        ApiError::field(field, format!("{value} is not a whole number from 0 to {}", u32::MAX))
    })
}
