//! The groups of regexes in `server_name`, whose values are maps of the requested host.

use std::rc::Rc;

use super::state::Converter;
use super::statements::StatementId;
use super::values::{SetValue, SetVariables};
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
