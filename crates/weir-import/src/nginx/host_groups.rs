//! The groups of regexes in `server_name`, whose values are maps of the requested host.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

use weir_config::pattern::HostPattern;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::state::Converter;
use super::statements::StatementId;
use super::values::{DefinedNames, SetValue, SetVariables};
use crate::native::NativeLine;
use crate::pcre;

impl Converter<'_, '_> {
    /// Returns the variables that the names of a server give a value.
    pub(crate) fn variables_of_host(&mut self, server: StatementId) -> Rc<SetVariables> {
        if let Some(known) = self.host_groups.get(&server) {
            return Rc::clone(known);
        }
        let mut variables = SetVariables::new();
        let statements = self.statements;
        for &id in statements.named(Some(server), "server_name") {
            for word in statements.words(id).iter().filter(|word| word.text.starts_with('~')) {
                self.groups_of_host(server, id, &word.text, &mut variables);
            }
        }
        let variables = Rc::new(variables);
        self.host_groups.insert(server, Rc::clone(&variables));
        variables
    }

    /// Defines the named groups of names of servers that definitions refer to: which one has which
    /// value follows from the host of a request.
    pub(crate) fn name_host_groups(
        &mut self,
        http: StatementId,
        definitions: &[StatementId],
        names: &mut DefinedNames,
    ) {
        let statements = self.statements;
        let servers = statements.named(Some(http), "server");
        let of_server = |server: &StatementId| statements.named(Some(*server), "server_name");
        let words: Vec<&Word> =
            servers.iter().flat_map(of_server).flat_map(|id| statements.words(*id)).collect();
        let regexes = || words.iter().filter(|word| word.text.starts_with('~'));
        let groups: BTreeSet<String> = regexes()
            .flat_map(|word| pcre::group_names(word.text.trim_start_matches(['~', '*'])))
            .collect();
        for group in groups {
            let uses = |word: &Word| {
                [format!("${group}"), format!("${{{group}}}")]
                    .iter()
                    .any(|it| names_it(&word.text, it))
            };
            let in_block = |id: &StatementId| {
                let directive = statements.get(*id).directive;
                let lines = directive.block.iter().flat_map(|block| &block.directives);
                directive.words.iter().chain(lines.flat_map(|line| &line.words)).any(uses)
            };
            if group.is_empty()
                || names.native(&group).is_some()
                || !definitions.iter().any(in_block)
            {
                continue;
            }
            let native = self.free_variable(format!("host_{group}"));
            if let Some(map) = map_of_group(&group, &words, &native) {
                self.logs.directives.push(map);
                names.insert(&group, native);
            }
        }
    }

    /// Returns true if requests of the server are compared with regexes besides those of its names.
    fn has_regexes(&self, server: StatementId) -> bool {
        let statements = self.statements;
        let mut blocks = vec![server];
        while let Some(block) = blocks.pop() {
            for &id in statements.children(block) {
                let words = statements.words(id).iter();
                let is_regex = match statements.name(id) {
                    "rewrite" => true,
                    "location" | "if" => words.clone().any(|word| word.text.contains('~')),
                    _ => false,
                };
                if is_regex {
                    return true;
                }
                blocks.push(id);
            }
        }
        false
    }

    fn groups_of_host(
        &mut self,
        server: StatementId,
        id: StatementId,
        name: &str,
        variables: &mut SetVariables,
    ) {
        let pattern = name.trim_start_matches(['~', '*']);
        let Ok(native) = pcre::native(pattern) else { return };
        let names = pcre::group_names(pattern);
        let numbers: Vec<String> =
            (1..=names.len().min(9)).map(|number| number.to_string()).collect();
        // In nginx a regex that is tried later takes the groups away, whether it matches or not.
        let keeps = !self.has_regexes(server);
        let numbered = numbers.iter().enumerate();
        let numbered =
            numbered.filter(|(_, number)| keeps && self.statements.is_used_in_text(number));
        let named = names.iter().enumerate().take(9).filter(|(_, name)| !name.is_empty());
        for (index, group) in named.chain(numbered).collect::<Vec<_>>() {
            self.set_maps += 1;
            let variable = format!("host_{group}_{}", self.set_maps);
            let span = self.statements.span(id);
            // A name that another regex of the server has counts where this one does not match.
            let other = variables.get(group).and_then(|value| value.text.clone().ok());
            let value = format!("${{{}}}", index + 1);
            let lines = vec![
                NativeLine::entry(&format!("~*{native}"), span).value(&value).end(),
                NativeLine::new("default", span).value(&other.unwrap_or_default()).end(),
            ];
            let map = NativeLine::new("map", span).value("${host}").value(&format!("${variable}"));
            self.logs.directives.push(map.block(lines));
            let text = Ok(format!("${{{variable}}}"));
            let value = SetValue { text, cases: None, possible: None, has_groups: false };
            variables.insert(group.clone(), value);
        }
    }
}

/// Returns true if a text has this variable, and not only one whose name begins so.
fn names_it(text: &str, variable: &str) -> bool {
    let is_end = |rest: &str| {
        variable.ends_with('}')
            || !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
    };
    text.match_indices(variable).any(|(at, _)| is_end(&text[at + variable.len()..]))
}

/// Returns the map of hosts to a group of names. Names without a regex come before all with one.
fn map_of_group(group: &str, words: &[&Word], native: &str) -> Option<Directive> {
    let span = words.first()?.span;
    let mut lines = Vec::new();
    let mut seen = HashSet::new();
    for word in words.iter().filter(|word| !word.text.is_empty() && word.text != "_") {
        if !seen.insert(word.text.to_ascii_lowercase()) {
            continue;
        }
        let name = word.text.as_str();
        let Some(pattern) = name.strip_prefix('~') else {
            if name.parse::<HostPattern>().is_ok() || name.starts_with('.') {
                lines.push(NativeLine::entry(name, word.span).value("").end());
            }
            continue;
        };
        let pattern = pattern.trim_start_matches('*');
        let names = pcre::group_names(pattern);
        let index = names.iter().position(|own| own == group);
        let value = index.map(|index| format!("${{{}}}", index + 1)).unwrap_or_default();
        let regex = pcre::native(pattern).ok()?;
        lines.push(NativeLine::entry(&format!("~*{regex}"), word.span).value(&value).end());
    }
    lines.push(NativeLine::new("default", span).value("").end());
    let map = NativeLine::new("map", span).value("${host}").value(&format!("${native}"));
    Some(map.keyword("ignore_case").keyword("hosts").block(lines))
}
