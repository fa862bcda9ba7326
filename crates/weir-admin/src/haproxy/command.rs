//! The commands of HAProxy's command line. Errors have HAProxy's wording, because scripts look for
//! it. The tables that commands print are made in the other files of this folder.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use weir_config::model::{
    AdminState, Change, ChangeRefusal, Endpoint, EndpointOverride, Limit, RefusalKind,
};
use weir_control::admin_port::Trial;

use super::errors::errors;
use super::info;
use super::servers::{servers_conn, servers_state};
use super::sessions::sessions;
use super::stat::{RowChoice, proxy_number, rows};
use super::table::{csv, info_json, lines, stat_json, typed, typed_lines};
use crate::access::caller::{Caller, Right};
use crate::context::AdminContext;
use crate::status::EndpointStatus;
use crate::status::collect::status;
use crate::status::read_model::ReadModel;

/// The effect of a command.
pub(super) enum CommandReply {
    /// A text to send.
    Text(String),
    /// Prompt mode is switched: the connection continues after each line, or no longer.
    Prompt,
    /// The connection ends.
    Quit,
    /// The connection may be idle for this long.
    Patience(Duration),
}

/// The commands for `help`, with their descriptions and the rights they need.
const HELP: &[(&str, &str, Right)] = &[
    ("add server <bk>/<srv> <addr>", "create a new server, in maintenance", Right::Admin),
    ("clear counters [all]", "clear max statistics counters (or all counters)", Right::Operate),
    ("del server <bk>/<srv>", "remove a server that is in maintenance", Right::Admin),
    ("disable server <bk>/<srv>", "disable a server for maintenance", Right::Operate),
    ("enable server <bk>/<srv>", "enable a disabled server", Right::Operate),
    ("get weight <bk>/<srv>", "report a server's current weight", Right::Read),
    (
        "set maxconn frontend <frontend> <value>",
        "change a frontend's maxconn setting",
        Right::Operate,
    ),
    ("set maxconn global <value>", "change the per-process maxconn setting", Right::Operate),
    ("set maxconn server <bk>/<srv> <value>", "change a server's maxconn setting", Right::Operate),
    ("set server <bk>/<srv> [opts]", "change a server's state, weight or maxconn", Right::Operate),
    ("set timeout cli <delay>", "change the timeout of this connection", Right::Read),
    ("set weight <bk>/<srv> <weight>", "change a server's weight", Right::Operate),
    ("show backend", "list backends in the current running config", Right::Read),
    ("show cli level", "display the level of the current CLI session", Right::Read),
    ("show errors", "report last request and/or response errors for each proxy", Right::Read),
    ("show info [json|typed]", "report information about the running process", Right::Read),
    ("show servers conn [<backend>]", "dump server connections status", Right::Read),
    ("show servers state [<backend>]", "dump volatile server information", Right::Read),
    ("show sess", "report the list of current sessions", Right::Read),
    (
        "show stat [json|no-maint|typed|up]*",
        "report counters for each proxy and server",
        Right::Read,
    ),
    ("show version", "show version of the current process", Right::Read),
    ("help [<command>]", "list matching or all commands", Right::Read),
    ("prompt", "toggle interactive mode with prompt", Right::Read),
    ("quit", "disconnect", Right::Read),
];

/// Executes a command.
pub(super) async fn execute(
    words: &[String],
    context: &AdminContext,
    caller: &Caller,
) -> CommandReply {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let asked = AskedCommand { context, caller };
    let done = match words.as_slice() {
        ["quit" | "_getsocks", ..] => return CommandReply::Quit,
        ["prompt", ..] => return CommandReply::Prompt,
        ["set", "timeout", "cli", delay] => {
            return match delay_of(delay) {
                Some(patience) => CommandReply::Patience(patience),
                None => CommandReply::Text("Invalid timeout value.".to_owned()),
            };
        }
        ["help", rest @ ..] => Ok(help(rest, caller)),
        ["show", "sess", ..] => {
            let running = context.operations().sessions().await;
            Ok(sessions(&running, &caller.who, SystemTime::now()))
        }
        ["show", what @ ..] => asked.show(what),
        ["get", "weight", place @ ..] => asked.weight(place.first().copied()),
        // A caller that may only read must not learn from refusals which names exist.
        ["set" | "enable" | "disable" | "clear", ..] if caller.right < Right::Operate => {
            Err("Permission denied".to_owned())
        }
        ["add" | "del", ..] if caller.right < Right::Admin => Err("Permission denied".to_owned()),
        ["set", "server", rest @ ..] => asked.set_server(rest).await,
        ["set", "weight", rest @ ..] => asked.set_weight(rest).await,
        ["set", "maxconn", "server", rest @ ..] => asked.set_max_conn(rest).await,
        ["enable", "server", rest @ ..] => {
            asked.order(rest.first().copied(), AdminState::Ready).await
        }
        ["disable", "server", rest @ ..] => {
            asked.order(rest.first().copied(), AdminState::Maintenance).await
        }
        ["set", "maxconn", "frontend", rest @ ..] => asked.set_frontend(rest).await,
        ["set", "maxconn", "global", rest @ ..] => asked.set_global(rest).await,
        ["enable" | "disable", "health", rest @ ..] => asked.health(words[0], rest),
        ["add", "server", rest @ ..] => asked.add_server(rest).await,
        ["del", "server", rest @ ..] => asked.del_server(rest.first().copied()).await,
        ["clear", "counters", ..] => {
            context.clear_counters(&caller.who);
            Ok(String::new())
        }
        _ => Err(unknown(&words, caller)),
    };
    CommandReply::Text(done.unwrap_or_else(|error| error))
}

/// The text of a reply. An error is a mistake of the caller, sent the same way.
type Said = Result<String, String>;

struct AskedCommand<'a> {
    context: &'a AdminContext,
    caller: &'a Caller,
}

impl AskedCommand<'_> {
    fn show(&self, words: &[&str]) -> Said {
        match words {
            ["info", options @ ..] => {
                let fields = info::fields(&status(&self.context.sources));
                Ok(match options {
                    options if options.contains(&"json") => info_json(&fields),
                    options if options.contains(&"typed") => typed_lines(&fields),
                    _ => lines(&fields),
                })
            }
            ["stat", options @ ..] => self.stat(options),
            ["servers", "state", rest @ ..] => servers_state(
                &status(&self.context.sources),
                &self.context.operations().served().file,
                rest.first().copied(),
            )
            .ok_or_else(no_backend),
            ["servers", "conn", rest @ ..] => {
                servers_conn(&status(&self.context.sources), rest.first().copied())
                    .ok_or_else(no_backend)
            }
            ["backend"] => {
                let pools = status(&self.context.sources).pools.into_iter();
                Ok(pools.fold("# name\n".to_owned(), |text, pool| text + &pool.name + "\n"))
            }
            ["errors", rest @ ..] => {
                let (count, captured) = self.context.operations().served().process.captures.read();
                Ok(errors(&status(&self.context.sources), count, &captured, rest))
            }
            ["version"] => Ok(env!("CARGO_PKG_VERSION").to_owned()),
            ["cli", "level"] => Ok(match self.caller.right {
                Right::Read => "user".to_owned(),
                Right::Operate => "operator".to_owned(),
                Right::Admin => "admin".to_owned(),
            }),
            _ => Err(unknown(&[&["show"], words].concat(), self.caller)),
        }
    }

    fn stat(&self, options: &[&str]) -> Said {
        let status = status(&self.context.sources);
        let mut choice = RowChoice::ALL;
        if let [proxy, kinds, server, ..] = options
            && let (Ok(kinds), Ok(server)) = (kinds.parse(), server.parse())
        {
            let number = proxy_number(&status, proxy).and_then(|it| i64::try_from(it).ok());
            let number = number.or_else(|| proxy.parse().ok());
            choice.proxy = number.ok_or_else(|| "No such proxy.".to_owned())?;
            (choice.kinds, choice.server) = (kinds, server);
        }
        choice.up = options.contains(&"up");
        choice.no_maintenance = options.contains(&"no-maint");
        let rows = rows(&status, &choice);
        Ok(match options {
            options if options.contains(&"json") => stat_json(&rows),
            options if options.contains(&"typed") => typed(&rows),
            _ => csv(&rows),
        })
    }

    fn weight(&self, place: Option<&str>) -> Said {
        let (_, endpoint) = self.endpoint(place)?;
        Ok(format!("{} (initial {})", endpoint.weight, self.initial_weight(&endpoint)))
    }

    /// The weight in the configuration file, to which percentages refer.
    fn initial_weight(&self, endpoint: &EndpointStatus) -> u32 {
        let file = self.context.operations().served().file;
        let pool = file.pools.iter().find(|pool| pool.name == endpoint.pool);
        let of = self.context.operations().served().addressed(&endpoint.pool, &endpoint.name);
        let name = of.map_or_else(|| endpoint.name.clone(), |of| of.endpoint);
        let own = pool.and_then(|pool| pool.endpoints.iter().find(|own| own.name == name));
        own.map_or(endpoint.weight, |own| own.weight)
    }

    async fn set_server(&self, words: &[&str]) -> Said {
        let (place, rest) = match words {
            [place, rest @ ..] => (Some(*place), rest),
            [] => (None, words),
        };
        self.endpoint(place)?;
        match rest {
            ["state", state, ..] => {
                let order = match *state {
                    "ready" => AdminState::Ready,
                    "drain" => AdminState::Draining,
                    "maint" => AdminState::Maintenance,
                    _ => {
                        let text = "'set server <srv> state' expects 'ready', 'drain' and 'maint'.";
                        return Err(text.to_owned());
                    }
                };
                self.order(place, order).await
            }
            ["state"] => {
                Err("'set server <srv> state' expects 'ready', 'drain' and 'maint'.".to_owned())
            }
            ["weight", ..] => self.set_weight(&[&[words[0]], &rest[1..]].concat()).await,
            ["maxconn", ..] => self.set_max_conn(&[&[words[0]], &rest[1..]].concat()).await,
            _ => Err("usage: set server <backend>/<server> maxconn | state | weight".to_owned()),
        }
    }

    async fn set_weight(&self, words: &[&str]) -> Said {
        let (_, endpoint) = self.endpoint(words.first().copied())?;
        let Some(text) = words.get(1) else {
            return Err("Require <weight> or <weight%>.".to_owned());
        };
        let digits = text.strip_suffix('%').unwrap_or(text);
        let number: u32 = digits
            .parse()
            .map_err(|_| "Empty weight string empty or preceded by garbage".to_owned())?;
        let weight = match text.strip_suffix('%') {
            None => number,
            Some(_) if number > 100 => {
                return Err("Relative weight can only be between 0 and 100% inclusive.".to_owned());
            }
            // A weight in the file is at least 1, so a percentage above 0 gives at least 1.
            Some(_) => (self.initial_weight(&endpoint) * number / 100).max(u32::from(number > 0)),
        };
        if weight == 0 {
            // Weight 0 is HAProxy's way to drain a server.
            return self.order(words.first().copied(), AdminState::Draining).await;
        }
        self.set(
            &endpoint,
            EndpointOverride { weight: Some(weight), ..EndpointOverride::default() },
        )
        .await
    }

    async fn set_max_conn(&self, words: &[&str]) -> Said {
        let (_, endpoint) = self.endpoint(words.first().copied())?;
        let Some(text) = words.get(1) else { return Err("Require <maxconn>.".to_owned()) };
        let limit: u32 =
            text.parse().map_err(|_| "maxconn string empty or preceded by garbage".to_owned())?;
        // HAProxy's value 0 means no limit.
        let limit = if limit == 0 { Limit::Unlimited } else { Limit::At(limit) };
        self.set(
            &endpoint,
            EndpointOverride { max_conn: Some(limit), ..EndpointOverride::default() },
        )
        .await
    }

    async fn set_frontend(&self, words: &[&str]) -> Said {
        let Some(name) = words.first() else { return Err("Frontend name required.".to_owned()) };
        let Some(text) = words.get(1) else { return Err("Integer value expected.".to_owned()) };
        let status = status(&self.context.sources);
        if !status.listeners.iter().any(|listener| listener.name == *name) {
            return Err("No such frontend.".to_owned());
        }
        let max_connections = text.parse().map_err(|_| "Integer value expected.".to_owned())?;
        let listener = (*name).to_owned();
        self.change(&Change::Listener { listener, max_connections }).await
    }

    async fn set_global(&self, words: &[&str]) -> Said {
        let Some(text) = words.first() else { return Err("Expects an integer value.".to_owned()) };
        let limit = text.parse().map_err(|_| "Expects an integer value.".to_owned())?;
        self.change(&Change::MaxConnections(limit)).await
    }

    /// Probes are not switched on or off at run time: `enable` fails for a server without probes
    /// and `disable` for one with them; otherwise a command has no effect.
    fn health(&self, verb: &str, words: &[&str]) -> Said {
        let (_, endpoint) = self.endpoint(words.first().copied())?;
        if endpoint.health == "unchecked" {
            let text = "Health check was not configured on this server, cannot enable.";
            return if verb == "enable" { Err(text.to_owned()) } else { Ok(String::new()) };
        }
        if verb == "enable" {
            return Ok(String::new());
        }
        Err("Health checks cannot be switched off at run time here: write check=off for the server.".to_owned())
    }

    async fn add_server(&self, words: &[&str]) -> Said {
        let required = || "Require 'backend/server'.".to_owned();
        let Some(place) = words.first() else { return Err(required()) };
        let (pool, name) = place.split_once('/').ok_or_else(required)?;
        let address = words.get(1).ok_or_else(|| {
            "'server' expects <name> and <addr>[:<port>] as arguments.".to_owned()
        })?;
        let address =
            weir_config::endpoint_address(address).map_err(|error| format!("{error}."))?;
        let mut endpoint = Endpoint::new(name, address);
        // As in HAProxy, a new server gets no requests until it is enabled.
        endpoint.order = AdminState::Maintenance;
        let mut rest = words.get(2..).unwrap_or_default().iter();
        while let Some(word) = rest.next() {
            let mut number = || {
                let text = rest.next().copied().unwrap_or_default();
                text.parse().map_err(|_| format!("'{word}' expects a number."))
            };
            match *word {
                "weight" => endpoint.weight = number()?,
                "maxconn" => endpoint.max_conn = Some(number()?).filter(|limit| *limit > 0),
                "backup" => endpoint.backup = true,
                "enabled" => endpoint.order = AdminState::Ready,
                // The pool's check applies to all of its servers.
                "check" | "disabled" => {}
                _ => return Err(format!("'{word}' option is not accepted for dynamic server.")),
            }
        }
        let change = Change::Add { pool: pool.to_owned(), endpoint: Box::new(endpoint) };
        self.change(&change).await.map(|_| "New server registered.".to_owned())
    }

    async fn del_server(&self, place: Option<&str>) -> Said {
        let (pool, endpoint) = self.endpoint(place)?;
        if endpoint.order != "maintenance" {
            return Err("Only servers in maintenance mode can be deleted.".to_owned());
        }
        let change = Change::Remove { pool, endpoint: endpoint.name };
        self.change(&change).await.map(|_| "Server deleted.".to_owned())
    }

    async fn order(&self, place: Option<&str>, order: AdminState) -> Said {
        let (_, endpoint) = self.endpoint(place)?;
        self.set(&endpoint, EndpointOverride { order: Some(order), ..EndpointOverride::default() })
            .await
    }

    async fn set(&self, endpoint: &EndpointStatus, set: EndpointOverride) -> Said {
        let (pool, name) = (endpoint.pool.clone(), endpoint.name.clone());
        self.change(&Change::Endpoint { pool, endpoint: name, set }).await
    }

    async fn change(&self, change: &Change) -> Said {
        let done = self.context.operations().change(&self.caller.who, change, Trial::Real).await;
        done.map(|_| String::new()).map_err(|refusal| refused(&refusal))
    }

    /// The endpoint named by `backend/server`.
    fn endpoint(&self, place: Option<&str>) -> Result<(String, EndpointStatus), String> {
        let required = || "Require 'backend/server'.".to_owned();
        let place = place.ok_or_else(required)?;
        // Names of servers may contain slashes, those of backends seldom do.
        let (pool, name) = place.split_once('/').ok_or_else(required)?;
        let model = ReadModel::new(&self.context.sources);
        if !model.has_pool(pool) {
            return Err("No such backend.".to_owned());
        }
        model
            .endpoint_named(pool, name)
            .map(|endpoint| (pool.to_owned(), endpoint))
            .ok_or_else(|| "No such server.".to_owned())
    }
}

fn no_backend() -> String {
    "Can't find backend.".to_owned()
}

/// A refusal in HAProxy's words, if it has words for it.
fn refused(refusal: &ChangeRefusal) -> String {
    match (refusal.kind, refusal.field.as_str()) {
        (RefusalKind::Unknown, "pool") => "No such backend.".to_owned(),
        (RefusalKind::Unknown, "endpoint") => "No such server.".to_owned(),
        (RefusalKind::Conflict, "name") => {
            "Already exists a server with the same name in backend.".to_owned()
        }
        _ => format!("{}.", refusal.message),
    }
}

/// A duration in HAProxy's format: a number of seconds, or a number with a unit.
fn delay_of(text: &str) -> Option<Duration> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: u64 = digits.parse().ok()?;
    let milliseconds = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // One day is as good as unlimited and delays no other client.
    let most = 86_400_000;
    Some(Duration::from_millis(number.saturating_mul(milliseconds).clamp(1, most)))
}

fn help(words: &[&str], caller: &Caller) -> String {
    if words.is_empty() {
        return listing("The following commands are valid at this level:", |_| true, caller);
    }
    let wanted = words.join(" ");
    listing(
        "The following commands are valid at this level:",
        |name| name.starts_with(&wanted),
        caller,
    )
}

fn unknown(words: &[&str], caller: &Caller) -> String {
    let first = words.first().copied().unwrap_or_default();
    let near = |name: &str| !first.is_empty() && name.split(' ').next() == Some(first);
    if HELP.iter().any(|(name, ..)| near(name)) {
        let title = "Unknown command, but maybe one of the following ones is a better match:";
        return listing(title, near, caller);
    }
    listing("Unknown command. Please enter one of the following commands only:", |_| true, caller)
}

/// The commands that the caller may use, filtered by `chosen`.
fn listing(title: &str, chosen: impl Fn(&str) -> bool, caller: &Caller) -> String {
    let last = ["help [<command>]", "prompt", "quit"];
    let may = |right: Right| right <= caller.right;
    let rows =
        HELP.iter().filter(|(name, _, right)| may(*right) && (chosen(name) || last.contains(name)));
    rows.fold(format!("{title}\n"), |mut text, (name, what, _)| {
        let _ = writeln!(text, "  {name:<40}: {what}");
        text
    })
}
