//! `weir ctl`: shows and changes a running Weir over its admin interface. `weir reload`,
//! `weir upgrade` and `weir stop` are also here; they are separate commands because users expect
//! them. The interface itself is in `weir-admin`.

mod percentiles;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use weir_admin::encoded;

use crate::admin_client::{self as client, AdminPlace, sentence};
use crate::failure::CommandFailure;
use crate::terminal;

/// Show and change a running Weir
#[derive(Args, Debug)]
pub(crate) struct CtlArguments {
    #[command(flatten)]
    place: AdminPlace,
    /// Print the response of the admin interface, as JSON
    #[arg(long, global = true)]
    json: bool,
    /// Check a change and print its effect, but do not make it
    #[arg(long, global = true)]
    dry_run: bool,
    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    #[command(flatten)]
    Asking(Asking),
    /// Show percentiles up to one in a million, of one or several instances
    Percentiles(percentiles::PercentilesArguments),
}

/// The commands that send one request to one instance.
#[derive(Debug, Subcommand)]
enum Asking {
    /// Show the process, its listeners and workers
    Status,
    /// Show every pool with its servers
    Pools,
    /// Show a pool or one of its servers
    Show {
        /// `POOL` or `POOL/SERVER`
        what: String,
    },
    /// Set a server to ready
    Ready {
        /// `POOL/SERVER`
        server: String,
    },
    /// Drain a server: only clients bound to it are still sent there
    Drain {
        /// `POOL/SERVER`
        server: String,
    },
    /// Set a server to maintenance: no requests are sent there
    Maintenance {
        /// `POOL/SERVER`
        server: String,
    },
    /// Change a server: `max_conn=NUMBER`, `max_conn=none`, `weight=NUMBER`; or a pool:
    /// `keepalive_idle=NUMBER`
    Set {
        /// `POOL/SERVER` or `POOL`
        what: String,
        /// Values to change
        #[arg(required = true, value_name = "NAME=VALUE")]
        values: Vec<String>,
    },
    /// Add a server to a pool
    Add {
        /// The pool
        pool: String,
        /// Address of the server, as in the `server` directive
        address: String,
        /// `name=`, `weight=`, `max_conn=`, `priority=`, `order=`, or `backup`
        #[arg(value_name = "NAME=VALUE")]
        values: Vec<String>,
    },
    /// Remove a server; running requests finish
    Remove {
        /// `POOL/SERVER`
        server: String,
    },
    /// List the requests that wait in the queue of a pool, or of all pools
    Queue {
        /// The pool
        pool: Option<String>,
    },
    /// Show the limits on clients and keys, and the clients and keys limited most often
    Limits,
    /// List events: changes of health and of the configuration
    Events {
        /// Only events after this number
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
    },
    /// List the slowest requests of the last 15 minutes
    Slow {
        /// Only requests of this route
        #[arg(long, value_name = "NAME")]
        route: Option<String>,
        /// Number of requests
        #[arg(long, value_name = "NUMBER", default_value_t = 20)]
        limit: usize,
    },
    /// Explain where a request went and why it took as long as it did
    Why {
        /// Request id, from the log or the request id header
        id: String,
    },
    /// Show the configuration in effect, including changes made at run time
    Config {
        /// Show the configuration of the file, without these changes
        #[arg(long)]
        file: bool,
        /// Show each value with its source: a line of the file, a change at run time or a default
        #[arg(long)]
        sources: bool,
    },
    /// Show the differences from the configuration file
    Diff,
    /// Print the lines that would make the changes permanent in the file
    Adopt,
    /// Revert changes to the values of the file: all, of a pool, or of a server
    Revert {
        /// `POOL` or `POOL/SERVER`
        what: Option<String>,
    },
    /// Reset the displayed counters to 0
    ClearCounters,
}

/// Reload the configuration and wait for the result
#[derive(Args, Debug)]
pub(crate) struct Reload {
    #[command(flatten)]
    place: AdminPlace,
}

/// Replace the process by a new one without losing a request, and wait until it serves
#[derive(Args, Debug)]
pub(crate) struct UpgradeArguments {
    /// New program [default: the path that the running one was started from]
    #[arg(value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Seconds within which the new process must serve
    #[arg(long, value_name = "SECONDS", default_value_t = weir_control::UPGRADE_PATIENCE.as_secs_f64())]
    timeout: f64,
    #[command(flatten)]
    place: AdminPlace,
}

/// Stop gracefully
#[derive(Args, Debug)]
pub(crate) struct Stop {
    #[command(flatten)]
    place: AdminPlace,
}

/// A function that formats a response for people.
type View = fn(&str) -> Result<String, CommandFailure>;

/// The request of a command.
struct CtlRequest {
    method: &'static str,
    path: String,
    body: Option<Value>,
    view: View,
}

pub(crate) fn run(arguments: &CtlArguments) -> Result<(), CommandFailure> {
    let question = match &arguments.command {
        CtlCommand::Asking(asking) => asking.question()?,
        CtlCommand::Percentiles(wanted) => {
            let form = if arguments.json {
                percentiles::PercentilesFormat::Json
            } else {
                percentiles::PercentilesFormat::Table
            };
            return percentiles::run(wanted, &arguments.place, form);
        }
    };
    let mut path = question.path;
    if arguments.dry_run && question.method != "GET" {
        path.push_str("?dry_run=true");
    }
    let told = arguments.place.ask(question.method, &path, question.body.as_ref())?;
    if arguments.json {
        return terminal::print(&told.body);
    }
    terminal::print(&(question.view)(&told.body)?)
}

pub(crate) fn reload(arguments: &Reload) -> Result<(), CommandFailure> {
    let told = arguments.place.exchange("POST", "/v1/reload", Some(&json!({})))?;
    match told.status {
        200..=299 => terminal::print(&show::reloaded(&told.body)?),
        422 => Err(CommandFailure::RejectedThere(client::message(&told.body))),
        status => Err(CommandFailure::RunTime(sentence(status, &told.body))),
    }
}

pub(crate) fn upgrade(arguments: &UpgradeArguments) -> Result<(), CommandFailure> {
    let mut body = json!({"timeout_s": arguments.timeout});
    if let Some(path) = &arguments.binary {
        // The running process has a different working directory.
        let path = std::path::absolute(path)
            .map_err(|error| CommandFailure::RunTime(format!("{}: {error}", path.display())))?;
        body["binary"] = path.display().to_string().into();
    }
    let told = arguments.place.exchange("POST", "/v1/upgrade", Some(&body))?;
    match told.status {
        200..=299 => terminal::print(&show::upgraded(&told.body)?),
        422 if client::is_about(&told.body, "configuration") => {
            Err(CommandFailure::RejectedThere(client::message(&told.body)))
        }
        status => Err(CommandFailure::RunTime(sentence(status, &told.body))),
    }
}

pub(crate) fn stop(arguments: &Stop) -> Result<(), CommandFailure> {
    let told = arguments.place.ask("POST", "/v1/stop", Some(&json!({})))?;
    terminal::print(&show::stopping(&told.body)?)
}

impl Asking {
    fn question(&self) -> Result<CtlRequest, CommandFailure> {
        let look = |path: String, view: View| CtlRequest { method: "GET", path, body: None, view };
        let order =
            |server: &str, order: &str| changed("PATCH", server, Some(json!({"order": order})));
        Ok(match self {
            Self::Status => look("/v1/status".into(), show::status),
            Self::Pools => look("/v1/pools".into(), show::pools),
            Self::Show { what } if what.contains('/') => look(endpoint_path(what)?, show::endpoint),
            Self::Show { what } => look(format!("/v1/pools/{}", encoded(what)), show::pool),
            Self::Ready { server } => order(server, "ready")?,
            Self::Drain { server } => order(server, "draining")?,
            Self::Maintenance { server } => order(server, "maintenance")?,
            Self::Set { what, values } => {
                let body = Some(Value::Object(fields(values)?));
                if what.contains('/') {
                    changed("PATCH", what, body)?
                } else {
                    let path = format!("/v1/pools/{}", encoded(what));
                    CtlRequest { method: "PATCH", path, body, view: show::outcome }
                }
            }
            Self::Add { pool, address, values } => {
                let mut body = fields(values)?;
                body.insert("address".to_owned(), address.as_str().into());
                CtlRequest {
                    method: "POST",
                    path: format!("/v1/pools/{}/endpoints", encoded(pool)),
                    body: Some(Value::Object(body)),
                    view: show::outcome,
                }
            }
            Self::Remove { server } => changed("DELETE", server, None)?,
            Self::Queue { pool: Some(pool) } => {
                look(format!("/v1/pools/{}/queue", encoded(pool)), show::queue)
            }
            Self::Queue { pool: None } => look("/v1/queues".into(), show::queues),
            Self::Limits => look("/v1/limits".into(), show::limits),
            Self::Events { after } => look(format!("/v1/events?after={after}"), show::events),
            Self::Slow { route, limit } => {
                let route = route.as_ref().map(|name| format!("&route={}", encoded(name)));
                look(format!("/v1/slow?limit={limit}{}", route.unwrap_or_default()), show::slow)
            }
            Self::Why { id } => look(format!("/v1/why/{}", encoded(id)), show::why),
            Self::Config { file, sources: true } => {
                look(format!("/v1/config?sources=true&file={file}"), show::sources)
            }
            Self::Config { file, sources: false } => {
                look(format!("/v1/config?file={file}"), show::as_it_is)
            }
            Self::Diff => look("/v1/overrides".into(), show::differences),
            Self::Adopt => CtlRequest {
                method: "POST",
                path: "/v1/overrides/adopt".into(),
                body: None,
                view: show::lines,
            },
            Self::Revert { what } => CtlRequest {
                method: "POST",
                path: "/v1/overrides/revert".into(),
                body: Some(reverted(what.as_deref())),
                view: show::outcome,
            },
            Self::ClearCounters => CtlRequest {
                method: "POST",
                path: "/v1/counters/clear".into(),
                body: None,
                view: |_| Ok("the displayed counters start from 0\n".to_owned()),
            },
        })
    }
}

fn changed(
    method: &'static str,
    server: &str,
    body: Option<Value>,
) -> Result<CtlRequest, CommandFailure> {
    Ok(CtlRequest { method, path: endpoint_path(server)?, body, view: show::outcome })
}

fn endpoint_path(server: &str) -> Result<String, CommandFailure> {
    let (pool, name) = server
        .split_once('/')
        .filter(|(pool, name)| !pool.is_empty() && !name.is_empty())
        .ok_or_else(|| CommandFailure::Usage(format!("`{server}` is not POOL/SERVER")))?;
    Ok(format!("/v1/pools/{}/endpoints/{}", encoded(pool), encoded(name)))
}

fn reverted(what: Option<&str>) -> Value {
    match what.map(|what| what.split_once('/').ok_or(what)) {
        None => json!({}),
        Some(Ok((pool, endpoint))) => json!({"pool": pool, "endpoint": endpoint}),
        Some(Err(pool)) => json!({"pool": pool}),
    }
}

/// Converts `name=value` words into the fields of a request. The server checks them.
fn fields(words: &[String]) -> Result<Map<String, Value>, CommandFailure> {
    let mut fields = Map::new();
    for word in words {
        let (name, value) = match word.split_once('=') {
            Some(("name" | "order", value)) => {
                (word.split_once('=').map_or("", |it| it.0), value.into())
            }
            Some((name, "none")) => (name, Value::Null),
            Some((name, value)) => {
                let number = value.parse::<u64>();
                (name, number.map_or_else(|_| Value::from(value), Value::from))
            }
            None if word == "backup" => ("backup", Value::Bool(true)),
            None => {
                return Err(CommandFailure::Usage(format!("`{word}` is not NAME=VALUE")));
            }
        };
        fields.insert(name.to_owned(), value);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_fields() {
        let words =
            ["max_conn=none", "weight=7", "name=12", "order=draining", "backup", "priority=x"];
        let fields = fields(&words.map(str::to_owned)).unwrap();
        let expected = json!({
            "max_conn": null, "weight": 7, "name": "12", "order": "draining", "backup": true, "priority": "x"
        });
        assert_eq!(Value::Object(fields), expected);
        assert!(super::fields(&["weight".to_owned()]).is_err());
    }

    #[test]
    fn a_server_is_named_with_its_pool() {
        let path = endpoint_path("app/unix:/run/a.sock").unwrap();
        assert_eq!(path, "/v1/pools/app/endpoints/unix:%2Frun%2Fa.sock");
        for wrong in ["app", "app/", "/one", ""] {
            assert!(endpoint_path(wrong).is_err(), "{wrong}");
        }
    }
}
