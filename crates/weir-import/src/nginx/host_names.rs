//! `server_name`: the names of a server by their kind, and those that a server before it has.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use weir_config::pattern::HostPattern;

use super::state::{Converter, HostNames};
use super::statements::StatementId;

impl Converter<'_, '_> {
    /// Returns the names of a server, which are read once.
    pub(crate) fn host_names(&mut self, server: StatementId) -> Rc<HostNames> {
        if let Some(names) = self.host_names.get(&server) {
            return Rc::clone(names);
        }
        let names = Rc::new(self.read_host_names(server));
        self.host_names.insert(server, Rc::clone(&names));
        names
    }

    /// Returns the names of a server without those of servers before it at the same address, which
    /// nginx ignores with a warning: those are in `claimed`.
    pub(crate) fn unclaimed_names(
        &mut self,
        server: StatementId,
        claimed: &mut HashSet<String>,
    ) -> Rc<HostNames> {
        let names = self.host_names(server);
        let all = [&names.exact, &names.leading, &names.trailing, &names.regexes];
        let is_repeated = |name: &&String| !claimed.insert(name.to_ascii_lowercase());
        let repeated: BTreeSet<String> =
            all.into_iter().flatten().filter(is_repeated).cloned().collect();
        if repeated.is_empty() {
            return names;
        }
        for &id in self.statements.named(Some(server), "server_name") {
            for name in &repeated {
                self.outcomes.differs(id, format!("a server before it has `{name}` at this address: requests for it go there, as in nginx, which warns"));
            }
        }
        let without = |list: &[String]| {
            let is_own = |name: &&String| !repeated.contains(*name);
            list.iter().filter(is_own).cloned().collect()
        };
        Rc::new(HostNames {
            exact: without(&names.exact),
            leading: without(&names.leading),
            trailing: without(&names.trailing),
            regexes: without(&names.regexes),
            first: names.first.clone(),
        })
    }

    /// Returns the names of a server. Names that Weir cannot match are refused.
    fn read_host_names(&mut self, server: StatementId) -> HostNames {
        let mut names = HostNames::default();
        for &id in self.statements.named(Some(server), "server_name") {
            self.outcomes.honour(id);
            for word in self.statements.words(id) {
                let text = word.text.as_str();
                if names.first.is_empty() && !text.starts_with('~') {
                    text.clone_into(&mut names.first);
                }
                if text.is_empty() {
                    self.outcomes.differs(id, "requests without `Host` go to the default server");
                    continue;
                }
                let trailing = text.strip_suffix(".*").filter(|base| !base.starts_with(['~', '*']));
                let (pattern, list) = if let Some(base) = trailing {
                    if let Err(message) = base.parse::<HostPattern>() {
                        self.outcomes.refuse(id, message);
                        continue;
                    }
                    (format!("~^{}\\..+", base.replace('.', "\\.")), &mut names.trailing)
                } else if text.starts_with('~') {
                    (text.to_owned(), &mut names.regexes)
                } else if text.starts_with("*.") {
                    (text.to_owned(), &mut names.leading)
                } else if let Some(base) = text.strip_prefix('.') {
                    names.exact.push(base.to_owned());
                    (format!("*.{base}"), &mut names.leading)
                } else {
                    (text.to_owned(), &mut names.exact)
                };
                match pattern.parse::<HostPattern>() {
                    Ok(_) => list.push(pattern),
                    Err(message) => self.outcomes.refuse(id, message),
                }
            }
        }
        names.exact.retain(|name| name.parse::<HostPattern>().is_ok());
        names
    }
}
