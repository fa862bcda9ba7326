//! The servers that a route prefers for its requests (`use_server`), compiled. The balancer, not this
//! file, gives a slot.

use weir_config::model::{Pool, ServerPreference};
use weir_stats::{Entry, Escape, Template};

/// The lines of a route, in order.
#[derive(Clone, Debug)]
pub(crate) struct PreferredServers {
    lines: Box<[PreferredServer]>,
    /// The names of the pool's endpoints, if a line has a name with variables.
    names: Box<[Box<str>]>,
}

#[derive(Clone, Debug)]
struct PreferredServer {
    when: Option<Template>,
    server: ServerName,
}

#[derive(Clone, Debug)]
enum ServerName {
    /// The endpoint of this number; `None` if the pool has none of that name any more.
    Fixed(Option<usize>),
    Varying(Template),
}

impl PreferredServers {
    /// Compiles the lines of a route to this pool; `None` if there are none.
    pub(crate) fn compile(lines: &[ServerPreference], pool: &Pool) -> Option<Self> {
        let number = |name: &str| pool.endpoints.iter().position(|one| one.name == name);
        let line = |line: &ServerPreference| PreferredServer {
            when: line.when.clone(),
            server: match line.constant_name() {
                Some(name) => ServerName::Fixed(number(name)),
                None => ServerName::Varying(line.name.clone()),
            },
        };
        let lines: Box<[PreferredServer]> = lines.iter().map(line).collect();
        let varies = lines.iter().any(|line| matches!(line.server, ServerName::Varying(_)));
        let names = pool.endpoints.iter().filter(|_| varies).map(|one| one.name.as_str().into());
        (!lines.is_empty()).then(|| Self { lines, names: names.collect() })
    }

    /// The endpoint of the first line that holds for the request of an entry and is available.
    pub(crate) fn find(
        &self,
        entry: &Entry<'_>,
        is_available: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut text = Vec::new();
        for line in &self.lines {
            if line.when.as_ref().is_some_and(|when| !holds(when, entry, &mut text)) {
                continue;
            }
            let index = match &line.server {
                ServerName::Fixed(index) => *index,
                // As in HAProxy, a name that no server has ends the list.
                ServerName::Varying(name) => Some(self.number(name, entry, &mut text)?),
            };
            if index.is_some_and(&is_available) {
                return index;
            }
        }
        None
    }

    fn number(&self, name: &Template, entry: &Entry<'_>, text: &mut Vec<u8>) -> Option<usize> {
        text.clear();
        name.append(entry, Escape::None, text);
        self.names.iter().position(|name| name.as_bytes() == *text)
    }
}

/// Returns true if a text is neither empty nor `0`.
fn holds(when: &Template, entry: &Entry<'_>, text: &mut Vec<u8>) -> bool {
    text.clear();
    when.append(entry, Escape::None, text);
    !text.is_empty() && *text != b"0"
}
