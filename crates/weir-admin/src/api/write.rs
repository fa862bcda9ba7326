//! The handlers of requests that change something. They parse a request strictly, and every error
//! names its field. The meaning of a change is defined in `weir-config`, and `context.rs` applies
//! it.

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use weir_config::model::{AdminState, Change, ChangeRefusal, Endpoint, EndpointOverride, Limit};
use weir_control::admin_port::{ChangeOutcome, Served, Trial};

use crate::http::call::{Call, Later};
use crate::http::error::ApiError;
use crate::http::reply::HttpReply;
use crate::status::EndpointStatus;
use crate::status::read_model::ReadModel;
use crate::status::sources::StatusSources;

/// `PATCH` of an endpoint.
pub(crate) fn patch(call: Call) -> Later {
    Box::pin(async move {
        let (pool, name) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
        endpoint(&call.context.sources, &pool, &name)?;
        let set = endpoint_fields(&object(&call.body)?)?;
        let change = Change::Endpoint { pool: pool.clone(), endpoint: name.clone(), set };
        let outcome = make(&call, &change, Some((&pool, &name))).await?;
        let now = endpoint(&call.context.sources, &pool, &name)?;
        let tag = tag(&now);
        Ok(told(&outcome, json!({"endpoint": now})).header(header::ETAG, tag))
    })
}

/// `POST` of an endpoint.
pub(crate) fn add(call: Call) -> Later {
    Box::pin(async move {
        let pool = call.parameter(0).to_owned();
        if !ReadModel::new(&call.context.sources).has_pool(&pool) {
            return Err(ApiError::unknown("pool", &pool));
        }
        let endpoint = Box::new(new_endpoint(&object(&call.body)?)?);
        let name = endpoint.name.clone();
        let change = Change::Add { pool: pool.clone(), endpoint };
        let outcome = make(&call, &change, None).await?;
        let now = ReadModel::new(&call.context.sources).endpoint_named(&pool, &name);
        Ok(told(&outcome, json!({"endpoint": now})))
    })
}

/// `DELETE` of an endpoint.
pub(crate) fn remove(call: Call) -> Later {
    Box::pin(async move {
        let (pool, endpoint) = (call.parameter(0).to_owned(), call.parameter(1).to_owned());
        let change = Change::Remove { pool: pool.clone(), endpoint: endpoint.clone() };
        Ok(told(&make(&call, &change, Some((&pool, &endpoint))).await?, json!({})))
    })
}

/// `PATCH` of a pool.
pub(crate) fn patch_pool(call: Call) -> Later {
    Box::pin(async move {
        let (pool, keepalive_idle) = (call.parameter(0).to_owned(), only(&call, "keepalive_idle")?);
        let change = Change::Pool { pool: pool.clone(), keepalive_idle };
        let outcome = make(&call, &change, None).await?;
        let now = ReadModel::new(&call.context.sources).pool_named(&pool);
        Ok(told(&outcome, json!({"pool": now})))
    })
}

/// `PATCH` of a listener.
pub(crate) fn patch_listener(call: Call) -> Later {
    Box::pin(async move {
        let (listener, max_connections) = (call.parameter(0).to_owned(), connections(&call)?);
        let change = Change::Listener { listener, max_connections };
        Ok(told(&make(&call, &change, None).await?, json!({})))
    })
}

/// `PATCH` of the process.
pub(crate) fn patch_process(call: Call) -> Later {
    Box::pin(async move {
        let change = Change::MaxConnections(connections(&call)?);
        let outcome = make(&call, &change, None).await?;
        Ok(told(&outcome, json!({"info": ReadModel::new(&call.context.sources).info()})))
    })
}

fn connections(call: &Call) -> Result<usize, ApiError> {
    only(call, "max_connections").map(|limit| limit as usize)
}

/// The number in the only field that is allowed.
fn only(call: &Call, field: &str) -> Result<u32, ApiError> {
    let fields = object(&call.body)?;
    if let Some(other) = fields.keys().find(|name| *name != field) {
        return Err(unknown_field(other, &format!("{field} alone")));
    }
    let value = fields.get(field).ok_or_else(|| ApiError::field(field, "it is missing"))?;
    number(field, value)
}

/// Discards runtime changes.
pub(crate) fn revert(call: Call) -> Later {
    Box::pin(async move {
        let fields = object(&call.body)?;
        let (mut pool, mut endpoint) = (None, None);
        for (name, value) in &fields {
            match name.as_str() {
                "pool" => pool = Some(text(name, value)?),
                "endpoint" => endpoint = Some(text(name, value)?),
                _ => return Err(unknown_field(name, "pool and endpoint")),
            }
        }
        Ok(told(&make(&call, &Change::Revert { pool, endpoint }, None).await?, json!({})))
    })
}

/// The lines that make the runtime changes permanent in the configuration file.
pub(crate) fn adopt(call: Call) -> Later {
    Box::pin(async move {
        let (served, overrides) =
            (call.context.operations().served(), call.context.operations().overrides());
        let note = "write these lines into the configuration file and reload: a change that the file contains is no longer a runtime change";
        Ok(HttpReply::json(&json!({"lines": overrides.lines(&served.file), "note": note})))
    })
}

/// Restarts the displayed counters at 0.
pub(crate) fn clear_counters(call: Call) -> Later {
    Box::pin(async move {
        if !yes(&call, "dry_run")? {
            call.context.clear_counters(&call.caller.who);
        }
        Ok(HttpReply::json(&json!({"cleared": true})))
    })
}

/// Reloads the configuration.
pub(crate) fn reload(call: Call) -> Later {
    Box::pin(async move {
        if yes(&call, "dry_run")? {
            let message = "a reload has no dry run: use `weir check`, which reads the same files";
            return Err(ApiError::field("dry_run", message));
        }
        let report = call.context.operations().reload(&call.caller.who).await;
        let report = report.map_err(|error| ApiError::field("configuration", error.trim_end()))?;
        Ok(HttpReply::json(&json!({
            "generation": report.generation,
            "changed": report.changes,
            "warnings": report.warnings,
        })))
    })
}

/// Stops the process by sending it the signal.
pub(crate) fn stop(call: Call) -> Later {
    Box::pin(async move {
        let running = ReadModel::new(&call.context.sources).info().requests_running;
        if !yes(&call, "dry_run")? {
            call.context.operations().told_to_stop(&call.caller.who);
            let stop = rustix::process::kill_process(rustix::process::getpid(), Signal::TERM);
            stop.map_err(|error| {
                ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot stop: {error}"))
            })?;
        }
        Ok(HttpReply::json(&json!({"stopping": true, "requests_running": running})))
    })
}

/// One endpoint, or the error that it does not exist.
pub(crate) fn endpoint(
    sources: &StatusSources,
    pool: &str,
    name: &str,
) -> Result<EndpointStatus, ApiError> {
    let model = ReadModel::new(sources);
    if !model.has_pool(pool) {
        return Err(ApiError::unknown("pool", pool));
    }
    model.endpoint_named(pool, name).ok_or_else(|| ApiError::unknown("endpoint", name))
}

/// The entity tag of an endpoint's settings.
pub(crate) fn tag(endpoint: &EndpointStatus) -> String {
    tag_of(&endpoint.order, endpoint.weight, endpoint.max_conn)
}

fn tag_of(order: &str, weight: u32, max_conn: Option<u32>) -> String {
    let limit = max_conn.map_or("none".to_owned(), |limit| limit.to_string());
    format!("\"{order}-{weight}-{limit}\"")
}

/// Makes a change or only checks it, as the request says.
async fn make(
    call: &Call,
    change: &Change,
    place: Option<(&str, &str)>,
) -> Result<ChangeOutcome, ApiError> {
    let trial = if yes(call, "dry_run")? { Trial::Dry } else { Trial::Real };
    let mut moved = false;
    let still = |served: &Served| {
        moved = place.is_some_and(|(pool, name)| !matches(&call.headers, served, pool, name));
        if moved {
            let message = "it was changed by another request meanwhile: read it again";
            return Err(ChangeRefusal::conflict("If-Match", message));
        }
        Ok(())
    };
    let outcome = call.context.operations().change_if(&call.caller.who, change, trial, still).await;
    outcome.map_err(|refusal| {
        let error = ApiError::from(refusal);
        if moved { ApiError { status: StatusCode::PRECONDITION_FAILED, ..error } } else { error }
    })
}

/// Returns true if the request has no `If-Match`, or one that matches the current state.
fn matches(headers: &HeaderMap, served: &Served, pool: &str, name: &str) -> bool {
    let Some(wanted) = headers.get(header::IF_MATCH) else { return true };
    let Ok(wanted) = wanted.to_str() else { return false };
    let endpoint = served.endpoint(pool, name);
    let Some(Endpoint { order, weight, max_conn, .. }) = endpoint else { return false };
    let own = tag_of(order.as_str(), *weight, *max_conn);
    wanted.split(',').map(str::trim).any(|tag| tag == "*" || tag == own)
}

/// The response to a change: its outcome and further fields.
fn told(outcome: &ChangeOutcome, more: Value) -> HttpReply {
    let mut value = serde_json::to_value(outcome).unwrap_or_default();
    if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
        value.extend(more);
    }
    HttpReply::json(&value)
}

/// A boolean query parameter; if it is absent it is false, and without a value true.
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
        Err(error) => Err(bad_body(&format!("the body is not valid JSON: {error}"))),
    }
}

fn bad_body(message: &str) -> ApiError {
    ApiError { status: StatusCode::BAD_REQUEST, ..ApiError::field("body", message) }
}

/// Parses the changeable fields of an endpoint.
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

/// Parses an endpoint from the body of a `POST`.
fn new_endpoint(fields: &Map<String, Value>) -> Result<Endpoint, ApiError> {
    let Some(address) = fields.get("address") else {
        return Err(ApiError::field("address", "it is missing: the server's address"));
    };
    let address = text("address", address)?;
    let parsed = weir_config::endpoint_address(&address)
        .map_err(|error| ApiError::field("address", error))?;
    let mut endpoint = Endpoint::new(&address, parsed);
    for (name, value) in fields {
        match name.as_str() {
            "address" => {}
            "name" => endpoint.name = text(name, value)?,
            "weight" => endpoint.weight = number(name, value)?,
            "max_conn" if value.is_null() => endpoint.max_conn = None,
            "max_conn" => endpoint.max_conn = Some(number(name, value)?),
            "priority" => {
                endpoint.priority = u8::try_from(number(name, value)?)
                    .map_err(|_| ApiError::field(name, "at most 254"))?;
            }
            "backup" => {
                endpoint.backup = value
                    .as_bool()
                    .ok_or_else(|| ApiError::field(name, "neither `true` nor `false`"))?;
            }
            "order" => endpoint.order = order(value)?,
            _ => {
                let known = "address, name, weight, max_conn, priority, backup and order";
                return Err(unknown_field(name, known));
            }
        }
    }
    Ok(endpoint)
}

pub(crate) fn text(field: &str, value: &Value) -> Result<String, ApiError> {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.map(str::to_owned)
        .ok_or_else(|| ApiError::field(field, format!("{value} is not a string")))
}

pub(crate) fn unknown_field(name: &str, known: &str) -> ApiError {
    ApiError::field(name, format!("there is no field `{name}`; known are {known}"))
}

fn order(value: &Value) -> Result<AdminState, ApiError> {
    match value.as_str() {
        Some("ready") => Ok(AdminState::Ready),
        Some("draining" | "drain") => Ok(AdminState::Draining),
        Some("maintenance" | "maint") => Ok(AdminState::Maintenance),
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
