//! `POST /v1/upgrade`: starts a successor. The upgrade itself is done by `weir-control`.

use std::path::PathBuf;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use weir_control::admin_port::{NotUpgraded, Successor, UPGRADE_PATIENCE};

use super::write::{object, text, unknown_field, yes};
use crate::http::call::{Call, Later};
use crate::http::error::ApiError;
use crate::http::reply::HttpReply;

/// The longest patience that a caller may ask for.
const LONGEST: Duration = Duration::from_secs(100);

/// Starts the successor and replies when it serves or has failed.
pub(crate) fn upgrade(call: Call) -> Later {
    Box::pin(async move {
        let successor = successor(&object(&call.body)?)?;
        if successor.program.is_some() && !call.caller.is_owner() {
            let message = "only root and Weir's own user may name a program, over a Unix socket: other callers could start any program";
            return Err(ApiError {
                field: Some("binary".to_owned()),
                ..ApiError::new(StatusCode::FORBIDDEN, message)
            });
        }
        if yes(&call, "dry_run")? {
            let message = "an upgrade has no dry run: one that fails changes nothing";
            return Err(ApiError::field("dry_run", message));
        }
        match call.context.operations().upgrade(&call.caller.who, &successor).await {
            Ok(process) => Ok(HttpReply::json(&json!({"process": process}))),
            Err(NotUpgraded::Rejected(why)) => Err(ApiError::field("configuration", why)),
            Err(NotUpgraded::NotNow(why)) => Err(ApiError::new(StatusCode::CONFLICT, why)),
            Err(NotUpgraded::Failed(why)) => Err(ApiError::new(StatusCode::BAD_GATEWAY, why)),
        }
    })
}

fn successor(fields: &Map<String, Value>) -> Result<Successor, ApiError> {
    let mut successor = Successor { program: None, patience: UPGRADE_PATIENCE };
    for (name, value) in fields {
        match name.as_str() {
            "binary" => {
                let program = PathBuf::from(text(name, value)?);
                if !program.is_absolute() {
                    return Err(ApiError::field(name, "it is not an absolute path"));
                }
                successor.program = Some(program);
            }
            "timeout_s" => {
                let time = value.as_f64().filter(|time| *time > 0.0);
                let time = time.and_then(|time| Duration::try_from_secs_f64(time).ok());
                let message =
                    || format!("it is a number of seconds, at most {}", LONGEST.as_secs());
                let time = time.filter(|time| *time <= LONGEST);
                successor.patience = time.ok_or_else(|| ApiError::field(name, message()))?;
            }
            _ => return Err(unknown_field(name, "binary and timeout_s")),
        }
    }
    Ok(successor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_strictly() {
        let check = |body: Value, expected: Result<(Option<&str>, f64), &str>| {
            let read = successor(body.as_object().unwrap());
            let read = read.map(|read| (read.program, read.patience.as_secs_f64()));
            let expected = expected.map(|(program, time)| (program.map(PathBuf::from), time));
            assert_eq!(read.map_err(|error| error.field.unwrap()), expected.map_err(str::to_owned));
        };
        check(json!({}), Ok((None, 30.0)));
        check(json!({"binary": "/opt/weir", "timeout_s": 0.5}), Ok((Some("/opt/weir"), 0.5)));
        check(json!({"binary": "weir"}), Err("binary"));
        check(json!({"binary": 7}), Err("binary"));
        check(json!({"timeout_s": 0}), Err("timeout_s"));
        check(json!({"timeout_s": 101}), Err("timeout_s"));
        check(json!({"patience": 1}), Err("patience"));
    }
}
