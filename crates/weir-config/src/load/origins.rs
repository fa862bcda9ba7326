//! The source of each value of a configuration in effect: a line of a file, the command line, a
//! change at run time, or a default. Of the texts only names and line numbers are kept.

use std::sync::Arc;

use serde_json::Value;

use super::checked::Checked;
use super::json::to_json;
use super::parse_str;
use crate::model::Config;

/// Values of which an element has one each are compared with those of these texts: what a text
/// does not say is a default in it. The first one that has a field counts; those after it have what
/// is not there by default.
const USUAL: [&str; 3] = [
    "pool p { server 192.0.2.255:1; }\n\
     listen 192.0.2.255:1 { host h.invalid { route -> p; } default -> p; }",
    "log l { to stderr; }\n\
     admin unix:/run/weir/admin.sock;\n\
     pool p { server 192.0.2.255:1; check tcp; }\n\
     listen 192.0.2.255:1 -> p;",
    "pool p { server 192.0.2.255:1; check http /; sticky cookie c insert; }\n\
     listen 192.0.2.255:1 {\n\
         limit client rate=1/s;\n\
         default -> p { retry 1; }\n\
     }",
];
/// Fields whose objects are one value.
const WHOLE: [&str; 5] = ["workers", "address", "addresses", "when", "action"];

/// Fields without a default.
const WRITTEN: [&str; 4] = ["address", "addresses", "when", "action"];

/// The lines that the parts of a configuration come from.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// The names of the files.
    files: Vec<Arc<str>>,
    /// The parts by their paths in the JSON form, in order, each with its file and line.
    parts: Vec<(Box<str>, u32, u32)>,
    /// The paths of values that the command line replaces.
    replaced: Vec<&'static str>,
}

/// The source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueSource {
    /// A line of a file.
    Line {
        /// The file's name.
        file: Arc<str>,
        /// The line, from 1.
        line: u32,
    },
    /// The command line of the process.
    CommandLine,
    /// A change at run time.
    RunTime {
        /// The pool, if the value belongs to one.
        pool: Option<String>,
        /// The endpoint or listener, if the value belongs to one.
        name: Option<String>,
        /// The field, with the name that changes have.
        field: String,
    },
    /// The value that holds where nothing is written.
    Default,
}

/// A value of the configuration in effect, with its source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedValue {
    /// Its path in the JSON form, with names in place of numbers: `pools[app].keepalive.idle`.
    pub path: String,
    /// The value.
    pub value: Value,
    /// Its source.
    pub source: ValueSource,
}

impl Origins {
    /// Returns the origins of a configuration that was just read.
    pub fn of(checked: &Checked) -> Self {
        let files = checked.sources.files();
        let starts: Vec<Vec<usize>> = files
            .iter()
            .map(|file| file.text.match_indices('\n').map(|(at, _)| at).collect())
            .collect();
        let part = |(path, file, start): (String, usize, usize)| {
            let line = starts.get(file)?.partition_point(|&end| end < start) + 1;
            Some((path.into_boxed_str(), u32::try_from(file).ok()?, u32::try_from(line).ok()?))
        };
        let mut parts: Vec<_> = checked.places.each().filter_map(part).collect();
        parts.sort_unstable();
        let files = files.iter().map(|file| file.name.as_str().into()).collect();
        Self { files, parts, replaced: Vec::new() }
    }

    /// Notes that the command line replaces the value at this path.
    pub fn replace(&mut self, path: &'static str) {
        self.replaced.push(path);
    }

    /// Returns the source of exactly this part.
    fn exactly(&self, path: &str) -> Option<ValueSource> {
        if self.replaced.contains(&path) {
            return Some(ValueSource::CommandLine);
        }
        let at = self.parts.binary_search_by(|(own, ..)| (**own).cmp(path)).ok()?;
        let (_, file, line) = self.parts.get(at)?;
        let file = self.files.get(*file as usize)?.clone();
        Some(ValueSource::Line { file, line: *line })
    }

    /// Returns the source of this part, or of the innermost part around it that has one.
    fn around(&self, path: &str) -> Option<ValueSource> {
        let mut path = path;
        loop {
            if let Some(source) = self.exactly(path) {
                return Some(source);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

/// Returns every value of the configuration in effect. `file` is the one that was read, which
/// `origins` belongs to; they differ in changes made at run time alone.
pub fn sourced(config: &Config, file: &Config, origins: &Origins) -> Vec<SourcedValue> {
    let json = |config: &Config| serde_json::from_str(&to_json(config)).unwrap_or_default();
    let usual = |text| parse_str("default", text).map(|read| json(&read.config));
    let usual = USUAL.map(|text| usual(text).unwrap_or_default());
    let mut walk = SourceWalk { origins, place: RunTimePlace::default(), found: Vec::new() };
    let node = SourceNode {
        path: String::new(),
        in_file: String::new(),
        file: Some(&json(file)),
        usual: usual.each_ref().map(Some),
    };
    walk.value(&json(config), &node);
    walk.found
}

/// The pool, endpoint or listener that is being walked through.
#[derive(Clone, Default)]
struct RunTimePlace {
    pool: Option<String>,
    name: Option<String>,
}

/// A place in the JSON forms that are walked through together.
struct SourceNode<'a> {
    /// The path with names.
    path: String,
    /// The path with numbers, as the file has it.
    in_file: String,
    /// The value in the file; `None` if the file has none.
    file: Option<&'a Value>,
    /// The values by default; `None` if there is none.
    usual: [Option<&'a Value>; USUAL.len()],
}

struct SourceWalk<'a> {
    origins: &'a Origins,
    place: RunTimePlace,
    found: Vec<SourcedValue>,
}

impl SourceWalk<'_> {
    fn value(&mut self, value: &Value, node: &SourceNode<'_>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    let below = |path: &str| match path {
                        "" => key.clone(),
                        path => format!("{path}.{key}"),
                    };
                    let field = SourceNode {
                        path: below(&node.path),
                        in_file: below(&node.in_file),
                        file: node.file.and_then(|file| file.get(key)),
                        usual: node.usual.map(|usual| usual?.get(key)),
                    };
                    if WHOLE.contains(&key.as_str()) {
                        self.leaf(value, &field);
                    } else {
                        self.value(value, &field);
                    }
                }
            }
            Value::Array(elements) if elements.iter().any(Value::is_object) => {
                self.elements(elements, node);
            }
            _ => self.leaf(value, node),
        }
    }

    fn elements(&mut self, elements: &[Value], node: &SourceNode<'_>) {
        let in_file = node.file.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (number, element) in elements.iter().enumerate() {
            let name = element.get("name").and_then(Value::as_str);
            // Endpoints are added and removed at run time, so that numbers differ.
            let same = |own: &Value| own.get("name").and_then(Value::as_str) == name;
            let at = match name {
                Some(_) if in_file.get(number).is_some_and(same) => Some(number),
                Some(_) => in_file.iter().position(same),
                None => (number < in_file.len()).then_some(number),
            };
            let label = name.map_or_else(|| number.to_string(), str::to_owned);
            let outer = self.place.clone();
            match node.path.as_str() {
                "pools" => self.place.pool = name.map(str::to_owned),
                "listeners" => self.place.name = name.map(str::to_owned),
                path if path.ends_with(".endpoints") => self.place.name = name.map(str::to_owned),
                _ => {}
            }
            let below = SourceNode {
                path: format!("{}[{label}]", node.path),
                in_file: format!("{}[{}]", node.in_file, at.unwrap_or(usize::MAX)),
                file: at.and_then(|at| in_file.get(at)),
                usual: node.usual.map(|usual| usual?.as_array()?.first()),
            };
            self.value(element, &below);
            self.place = outer;
        }
    }

    fn leaf(&mut self, value: &Value, node: &SourceNode<'_>) {
        let source = self.source(value, node);
        self.found.push(SourcedValue { path: node.path.clone(), value: value.clone(), source });
    }

    fn source(&self, value: &Value, node: &SourceNode<'_>) -> ValueSource {
        if node.file != Some(value) {
            let RunTimePlace { pool, name } = self.place.clone();
            let is_idle = node.path.ends_with(".keepalive.idle");
            let field = match (node.file, node.path.rsplit('.').next()) {
                (None, _) => "server",
                _ if is_idle => "keepalive_idle",
                (_, field) => field.unwrap_or_default(),
            };
            return ValueSource::RunTime { pool, name, field: field.to_owned() };
        }
        if let Some(exact) = self.origins.exactly(&node.in_file) {
            return exact;
        }
        let is_written = node.path.rsplit('.').next().is_some_and(|own| WRITTEN.contains(&own));
        if is_written {
            return self.origins.around(&node.in_file).unwrap_or(ValueSource::Default);
        }
        let usual = node.usual.iter().flatten().next();
        if usual == Some(&value) || node.usual[0].is_none() && value.is_null() {
            return ValueSource::Default;
        }
        self.origins.around(&node.in_file).unwrap_or(ValueSource::Default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Change, EndpointOverride, Overrides};

    const FILE: &str = "workers 2;
pool app {
    server 10.0.0.1:80 name=one weight=1;
    server 10.0.0.2:80 name=two;
    keepalive idle=100 timeout=9s;
    timeout
        connect=2s;
    check http GET /up interval=7s;
}
listen 127.0.0.1:80 name=front {
    limits requests=9;
    host a.example { route path /x -> app; }
    default -> app { timeout response=3s; }
}
";

    fn text(source: &ValueSource) -> String {
        match source {
            ValueSource::Line { file, line } => format!("{file}:{line}"),
            ValueSource::CommandLine => "command line".to_owned(),
            ValueSource::RunTime { pool, name, field } => format!(
                "{}/{}/{field}",
                pool.as_deref().unwrap_or_default(),
                name.as_deref().unwrap_or_default()
            ),
            ValueSource::Default => "default".to_owned(),
        }
    }

    fn check(values: &[SourcedValue], expected: &[(&str, &str)]) {
        for (path, source) in expected {
            let found = values.iter().find(|value| value.path == *path);
            let found = found.map(|value| text(&value.source));
            assert_eq!(found.as_deref(), Some(*source), "{path} in {values:#?}");
        }
    }

    #[test]
    fn each_value_has_the_line_that_says_it_or_is_a_default() {
        let checked = parse_str("weir.conf", FILE).unwrap();
        let origins = Origins::of(&checked);
        check(
            &sourced(&checked.config, &checked.config, &origins),
            &[
                ("workers", "weir.conf:1"),
                ("pools[app].name", "weir.conf:2"),
                ("pools[app].endpoints[one].address", "weir.conf:3"),
                ("pools[app].endpoints[one].weight", "weir.conf:3"),
                ("pools[app].endpoints[two].weight", "default"),
                // The value of the file, although it is the default.
                ("pools[app].keepalive.idle", "weir.conf:5"),
                ("pools[app].keepalive.timeout", "weir.conf:5"),
                ("pools[app].keepalive.max_age", "default"),
                ("pools[app].timeouts.connect", "weir.conf:7"),
                ("pools[app].timeouts.read", "default"),
                ("pools[app].check.interval", "weir.conf:8"),
                ("pools[app].check.rise", "default"),
                ("pools[app].sticky", "default"),
                ("listeners[front].limits.requests", "weir.conf:11"),
                ("listeners[front].max_connections", "default"),
                ("listeners[front].sites[0].routes[front/a.example/1].when", "weir.conf:12"),
                ("listeners[front].default[front/default/1].action", "weir.conf:13"),
                ("max_connections", "default"),
            ],
        );
    }

    #[test]
    fn values_of_blocks_that_are_not_there_by_default_have_defaults_too() {
        let text = "pool app {
    server 10.0.0.1:80;
    server 10.0.0.2:80;
    check http /health rise=5;
    sticky cookie SRV insert;
    retry 2;
}
listen :80 {
    limit client rate=7/s;
    default -> app { retry 4; }
}";
        let checked = parse_str("weir.conf", text).unwrap_or_else(|error| panic!("{error}"));
        let route = "listeners[:80].default[:80/default/1]";
        check(
            &sourced(&checked.config, &checked.config, &Origins::of(&checked)),
            &[
                ("pools[app].check.probe.http.path", "weir.conf:4"),
                ("pools[app].check.rise", "weir.conf:4"),
                ("pools[app].check.probe.http.expect", "default"),
                ("pools[app].sticky.cookie", "weir.conf:5"),
                ("pools[app].sticky.path", "default"),
                ("pools[app].retry.attempts", "weir.conf:6"),
                ("pools[app].retry.budget", "default"),
                (&format!("{route}.upstream.retry.attempts"), "weir.conf:10"),
                (&format!("{route}.upstream.retry.budget"), "default"),
            ],
        );
    }

    #[test]
    fn changes_at_run_time_and_the_command_line_come_before_the_file() {
        let checked = parse_str("weir.conf", FILE).unwrap();
        let mut origins = Origins::of(&checked);
        origins.replace("workers");
        let pool = || "app".to_owned();
        let set = EndpointOverride { weight: Some(9), ..EndpointOverride::default() };
        let mut added = checked.config.pools[0].endpoints[0].clone();
        added.name = "three".to_owned();
        let changes = [
            Change::Remove { pool: pool(), endpoint: "one".to_owned() },
            Change::Endpoint { pool: pool(), endpoint: "two".to_owned(), set },
            Change::Add { pool: pool(), endpoint: Box::new(added) },
            Change::Pool { pool: pool(), keepalive_idle: 7 },
            Change::Listener { listener: "front".to_owned(), max_connections: 3 },
            Change::MaxConnections(4),
        ];
        let overrides = changes
            .iter()
            .fold(Overrides::default(), |own, change| own.with(&checked.config, change).unwrap());
        check(
            &sourced(&overrides.over(&checked.config), &checked.config, &origins),
            &[
                ("workers", "command line"),
                ("pools[app].endpoints[two].weight", "app/two/weight"),
                ("pools[app].endpoints[two].address", "weir.conf:4"),
                ("pools[app].endpoints[three].address", "app/three/server"),
                ("pools[app].keepalive.idle", "app//keepalive_idle"),
                ("pools[app].keepalive.timeout", "weir.conf:5"),
                ("listeners[front].max_connections", "/front/max_connections"),
                ("max_connections", "//max_connections"),
            ],
        );
    }

    #[test]
    fn the_usual_configurations_are_without_errors() {
        for text in USUAL {
            parse_str("default", text).unwrap_or_else(|error| panic!("{error}"));
        }
    }

    #[test]
    fn a_value_of_a_json_file_has_its_line() {
        let checked = parse_str("weir.conf", FILE).unwrap();
        let json = parse_str("weir.json", &crate::to_json(&checked.config)).unwrap();
        let values = sourced(&json.config, &json.config, &Origins::of(&json));
        let is_line = |value: &SourcedValue| matches!(value.source, ValueSource::Line { .. });
        let first = values.iter().find(|value| !is_line(value));
        assert!(first.is_none(), "{first:?}");
    }
}
