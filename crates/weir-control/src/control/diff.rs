//! The differences between two configurations, in lines for the operator: by pool, server, listener
//! and log, and within these by the keys of the canonical JSON form. It applies no change.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use weir_config::Config;
use weir_config::model::{AdminListener, ListenAddress};

/// The largest number of differences listed for one pool or listener; the rest are counted.
const MOST: usize = 12;

/// All differences, one line each.
pub(crate) fn lines(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    if before.max_connections != after.max_connections {
        let show = |cap: Option<usize>| cap.map_or("none".to_owned(), |cap| cap.to_string());
        let (old, new) = (show(before.max_connections), show(after.max_connections));
        lines.push(format!("max_connections {old} -> {new}"));
    }
    if before.memory != after.memory {
        lines.push(format!("memory max={} -> max={}", before.memory, after.memory));
    }
    if before.shutdown_timeout != after.shutdown_timeout {
        let (old, new) = (before.shutdown_timeout, after.shutdown_timeout);
        lines.push(format!("shutdown_timeout {old:?} -> {new:?}"));
    }
    if before.watchdog != after.watchdog {
        let show =
            |time: Option<Duration>| time.map_or("off".to_owned(), |time| format!("{time:?}"));
        lines.push(format!("watchdog {} -> {}", show(before.watchdog), show(after.watchdog)));
    }
    if before.error_logs != after.error_logs {
        lines.push("error_log changed".to_owned());
    }
    if before.audit_logs != after.audit_logs {
        lines.push("audit_log changed".to_owned());
    }
    if before.resolver != after.resolver {
        lines.push("resolver changed".to_owned());
    }
    if before.cpu_credits != after.cpu_credits {
        lines.push("cpu_credits changed".to_owned());
    }
    let path = |path: &Option<PathBuf>| match path {
        Some(path) => path.display().to_string(),
        None => "none".to_owned(),
    };
    for (word, old, new) in [
        ("state_file", &before.state_file, &after.state_file),
        ("pid_file", &before.pid_file, &after.pid_file),
    ] {
        if old != new {
            lines.push(format!("{word} {} -> {}", path(old), path(new)));
        }
    }
    // Routes refer to pools by number, which is not what the operator wrote.
    let named = |config: &Config| {
        let names: Vec<&str> = config.pools.iter().map(|pool| pool.name.as_str()).collect();
        let mut listeners = list(&config.listeners);
        for listener in &mut listeners {
            name_pools(listener, &names);
        }
        listeners
    };
    let admin = |config: &Config| config.admin.iter().map(by_address).collect::<Vec<_>>();
    things("admin", &admin(before), &admin(after), &mut lines);
    things("pool", &list(&before.pools), &list(&after.pools), &mut lines);
    things("listener", &named(before), &named(after), &mut lines);
    things("log", &list(&before.logs), &list(&after.logs), &mut lines);
    lines
}

/// An admin address as JSON, with the address as its name: the operator knows it by that.
fn by_address(admin: &AdminListener) -> Value {
    let mut value = serde_json::to_value(admin).unwrap_or_default();
    let (address, mode) = match &admin.address {
        ListenAddress::Socket(address) => (address.to_string(), None),
        ListenAddress::Unix { path, mode } => (format!("unix:{}", path.display()), *mode),
    };
    if let Some(fields) = value.as_object_mut() {
        fields.remove("address");
        fields.insert("name".to_owned(), address.into());
        fields.insert("mode".to_owned(), mode.map(|mode| format!("{mode:04o}")).into());
    }
    value
}

/// Changes that take effect only after a restart, one sentence each.
pub(crate) fn not_reloadable(before: &Config, after: &Config) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut note = |changed: bool, word: &str, takes: &str| {
        if changed {
            sentences.push(format!("the change of `{word}` needs {takes} to take effect"));
        }
    };
    let workers = |config: &Config| (config.workers, config.worker_cores.clone());
    note(workers(before) != workers(after), "workers", "`weir upgrade` or a restart");
    note(before.agent != after.agent, "agent", "`weir upgrade` or a restart");
    let users = |config: &Config| (config.user.clone(), config.group.clone());
    note(users(before) != users(after), "user", "a restart");
    note(before.sandbox != after.sandbox, "sandbox", "a restart");
    note(before.supervisor != after.supervisor, "supervisor", "a restart");
    note(before.chroot != after.chroot, "chroot", "a restart");
    sentences
}

fn list<T: Serialize>(things: &[T]) -> Vec<Value> {
    things.iter().map(|thing| serde_json::to_value(thing).unwrap_or_default()).collect()
}

/// Replaces `{"pool": NUMBER}` by the pool's name, at any depth.
fn name_pools(value: &mut Value, names: &[&str]) {
    match value {
        Value::Object(fields) => {
            if let Some(number) = fields.get("pool").and_then(Value::as_u64) {
                let name = names.get(number as usize).copied().unwrap_or_default();
                fields.insert("pool".to_owned(), name.into());
            }
            for value in fields.values_mut() {
                name_pools(value, names);
            }
        }
        Value::Array(values) => {
            for value in values {
                name_pools(value, names);
            }
        }
        _ => {}
    }
}

fn name_of(value: &Value) -> Option<&str> {
    value.get("name")?.as_str()
}

fn things(kind: &str, before: &[Value], after: &[Value], lines: &mut Vec<String>) {
    let (old, new) = (by_name(before), by_name(after));
    for name in before.iter().filter_map(name_of).filter(|name| !new.contains_key(name)) {
        lines.push(format!("{kind} {name} removed"));
    }
    for one in after {
        let name = name_of(one).unwrap_or_default();
        let Some(old) = old.get(name) else {
            lines.push(format!("{kind} {name} added"));
            continue;
        };
        let mut differences = Vec::new();
        compare("", old, one, &mut differences);
        if differences.is_empty() {
            continue;
        }
        let more = differences.len().saturating_sub(MOST);
        differences.truncate(MOST);
        if more > 0 {
            differences.push(format!("and {more} more"));
        }
        lines.push(format!("{kind} {name}: {}", differences.join("; ")));
    }
}

fn by_name(values: &[Value]) -> HashMap<&str, &Value> {
    values.iter().filter_map(|value| Some((name_of(value)?, value))).collect()
}

fn compare(path: &str, before: &Value, after: &Value, differences: &mut Vec<String>) {
    match (before, after) {
        _ if before == after => {}
        _ if is_secret(path) => differences.push(format!("{path} changed")),
        (Value::Object(old), Value::Object(new)) => {
            let mut seen = HashSet::new();
            let keys = old.keys().chain(new.keys());
            for key in keys.filter(|key| seen.insert(key.as_str())) {
                let null = &Value::Null;
                let (old, new) = (old.get(key).unwrap_or(null), new.get(key).unwrap_or(null));
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, old, new, differences);
            }
        }
        (Value::Array(old), Value::Array(new))
            if old.iter().chain(new).all(|one| name_of(one).is_some()) =>
        {
            named(path, old, new, differences);
        }
        _ => differences.push(match (scalar(before), scalar(after)) {
            (Some(before), Some(after)) => format!("{path} {before} -> {after}"),
            _ => format!("{path} changed"),
        }),
    }
}

/// Returns true if the value at this path must not be shown. Lists, such as those of header edits,
/// are never shown as values.
fn is_secret(path: &str) -> bool {
    let mut words = path.split('.');
    words.any(|word| word == "secret")
        || path.ends_with("explain_header.when.value")
        || path.ends_with("probe.tcp.send")
}

/// Compares lists of named things: servers, routes.
fn named(path: &str, before: &[Value], after: &[Value], differences: &mut Vec<String>) {
    let word = match path.rsplit('.').next().unwrap_or(path) {
        "endpoints" => "server",
        "default" | "routes" => "route",
        other => other,
    };
    let (old, new) = (by_name(before), by_name(after));
    for name in before.iter().filter_map(name_of).filter(|name| !new.contains_key(name)) {
        differences.push(format!("{word} {name} removed"));
    }
    for one in after {
        let name = name_of(one).unwrap_or_default();
        match old.get(name) {
            None => differences.push(format!("{word} {name} added")),
            Some(old) => compare(&format!("{word} {name}"), old, one, differences),
        }
    }
    let kept_before = before.iter().filter_map(name_of).filter(|name| new.contains_key(name));
    let kept_after = after.iter().filter_map(name_of).filter(|name| old.contains_key(name));
    if !kept_before.eq(kept_after) {
        differences.push(format!("{path}: another order"));
    }
}

/// A value that fits into a line.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("none".to_owned()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::String(text) if text.len() <= 80 => Some(text.clone()),
        Value::String(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, expected: &[&str]) {
        let read = |text: &str| match weir_config::parse_str("test", text) {
            Ok(checked) => checked.config,
            Err(wrong) => panic!("{wrong}"),
        };
        assert_eq!(lines(&read(before), &read(after)), expected, "{before} => {after}");
    }

    #[test]
    fn what_is_different_is_said_in_the_operators_words() {
        let base = "pool app { server 10.0.0.1:80 name=app1; } listen :80 -> app;";
        check(base, base, &[]);
        check(
            base,
            "pool app { server 10.0.0.1:80 name=app1 weight=3; server 10.0.0.3:80 name=app3; } listen :80 -> app;",
            &["pool app: server app1.weight 1 -> 3; server app3 added"],
        );
        check(
            "pool app { server 10.0.0.1:80 name=a; server 10.0.0.2:80 name=b; } listen :80 -> app;",
            "pool app { server 10.0.0.2:80 name=b; } listen :80 -> app;",
            &["pool app: server a removed"],
        );
        check(
            "pool app { server 10.0.0.1:80; queue max=10; } listen :80 -> app;",
            "pool app { server 10.0.0.1:80; queue max=20; } listen :80 -> app;",
            &["pool app: queue.max 10 -> 20"],
        );
    }

    #[test]
    fn a_pool_that_comes_before_another_does_not_change_the_routes_to_that() {
        check(
            "pool app { server 10.0.0.1:80; } listen :80 -> app;",
            "pool new { server 10.0.0.9:80; } pool app { server 10.0.0.1:80; } listen :80 -> app; listen :81 -> new;",
            &["pool new added", "listener :81 added"],
        );
    }

    #[test]
    fn admin_addresses_and_own_files_are_told_by_their_place() {
        let text = |more: &str| format!("{more} listen :80 -> respond 204;");
        check(
            &text("admin unix:/run/a.sock; admin unix:/run/b.sock; pid_file /run/weir.pid;"),
            &text("admin unix:/run/a.sock mode=0600 read_only; admin 127.0.0.1:9900 read_only;"),
            &[
                "pid_file /run/weir.pid -> none",
                "admin unix:/run/b.sock removed",
                "admin unix:/run/a.sock: access write -> read_only; mode 0660 -> 0600",
                "admin 127.0.0.1:9900 added",
            ],
        );
    }

    #[test]
    fn secrets_are_not_told() {
        let text = |secret: &str| {
            format!(
                "pool app {{ server 10.0.0.1:80; sticky cookie S insert secret={secret}; }} listen :80 -> app;"
            )
        };
        let (old, new) =
            (text("0123456789abcdef0123456789abcdef"), text("another-secret-of-thirty-two-bytes"));
        check(&old, &new, &["pool app: sticky.secret changed"]);
    }

    #[test]
    fn values_of_headers_are_not_told() {
        let text = |value: &str| {
            format!(
                "pool app {{ server 10.0.0.1:80; check tcp send=\"AUTH {value}\"; }}
                 listen :80 {{ header set X-Api-Key {value}; explain_header when=X={value};
                     route header X-Token={value} -> app {{ response_header set X-Key {value}; }} }}"
            )
        };
        let read = |text: &str| weir_config::parse_str("test", text).unwrap().config;
        let lines = lines(&read(&text("first-secret")), &read(&text("second-secret")));
        assert!(!lines.is_empty());
        assert!(!lines.concat().contains("-secret"), "{lines:?}");
    }

    #[test]
    fn what_takes_a_restart_is_said() {
        let read = |text: &str| weir_config::parse_str("test", text).unwrap().config;
        let before = read("workers 1; listen :80 -> respond 204;");
        let after = read("workers 2; listen :80 -> respond 204;");
        let expected = ["the change of `workers` needs `weir upgrade` or a restart to take effect"];
        assert_eq!(not_reloadable(&before, &after), expected);
        assert!(not_reloadable(&before, &before).is_empty());
    }
}
