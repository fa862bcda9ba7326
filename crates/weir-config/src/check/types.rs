//! Checks `types`, the tables of the types of files.

use std::collections::BTreeMap;

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{TypeTable, types, values};

impl<'a> Checker<'a> {
    /// Returns the tables of the file.
    pub(super) fn type_tables(&mut self, top: &[Arguments<'a>]) -> Vec<TypeTable> {
        let tables = top.iter().filter(|arguments| arguments.name() == "types");
        tables.filter_map(|arguments| self.type_table(arguments)).collect()
    }

    fn type_table(&mut self, arguments: &Arguments<'a>) -> Option<TypeTable> {
        let place = arguments.word(0)?;
        let name = self.value(place, values::name)?;
        if let Some(first) = self.type_names.insert(place.text(), place.span()) {
            let message = format!("there is a table of types `{name}` already");
            self.report(Diagnostic::error(place.span(), message).related(first, "first here"));
            return None;
        }
        let mut table = TypeTable { name, types: BTreeMap::new(), default: String::new() };
        for (line, value) in self.entries(arguments) {
            let value = ArgumentValue::new(value);
            self.value(value, values::line_text);
            if line.name.is("default") {
                value.text().clone_into(&mut table.default);
                continue;
            }
            let extension = line.name.text.as_str();
            if let Some(fault) = types::extension_fault(extension) {
                self.report(Diagnostic::error(line.name.span, fault));
            }
            let text = value.text().to_owned();
            if table.types.insert(extension.to_owned(), text).is_some() {
                let message = format!("there is a type of `{extension}` already");
                self.report(Diagnostic::error(line.name.span, message));
            }
        }
        Some(table)
    }

    /// Returns the name of a table that is defined.
    pub(super) fn type_table_named(&mut self, value: ArgumentValue<'a>) -> Option<String> {
        let name = value.text();
        if self.type_names.contains_key(name) {
            self.used_types.insert(name);
            return Some(name.to_owned());
        }
        let names = self.type_names.keys().copied().collect();
        self.unknown("table of types", value, names);
        None
    }
}
