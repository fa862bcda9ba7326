//! `log_format` and `access_log` become native logs. Weir has logs by listener.

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values::template;
use crate::native::NativeLine;

impl<'t> Converter<'_, 't> {
    pub(crate) fn log_format(&mut self, id: StatementId) {
        let words = self.statements.words(id);
        let Some((name, words)) = words.split_first() else { return };
        let escaped = words.first().filter(|word| word.text.starts_with("escape="));
        let parts = if escaped.is_some() { &words[1..] } else { words };
        let text: String = parts.iter().map(|word| word.text.as_str()).collect();
        let text = match escaped.map(|word| word.text.as_str()) {
            None | Some("escape=default") => template(&text, self.known(), false),
            Some(other) => {
                Err(format!("`{other}` has no conversion: write `format json` natively"))
            }
        };
        match &text {
            Ok(_) => self.outcomes.honour(id),
            Err(reason) => self.outcomes.refuse(id, reason.clone()),
        }
        self.logs.formats.insert(name.text.clone(), text.ok());
    }

    /// Returns the names of the native logs that hold in a block.
    pub(crate) fn access_logs(&mut self, scope: &InheritanceScope<'_, 't>) -> Vec<String> {
        let all = scope.all("access_log");
        if all.is_empty() {
            self.default(
                "access_log",
                "nginx writes its own file; Weir writes none that is not named",
            );
        }
        all.iter().filter_map(|id| self.access_log(*id)).collect()
    }

    fn access_log(&mut self, id: StatementId) -> Option<String> {
        let words = self.statements.words(id);
        let target = self.statements.word(id, 0);
        if target == "off" && words.len() == 1 {
            self.outcomes.honour(id);
            return None;
        }
        let target = match target {
            "/dev/stdout" => "stdout".to_owned(),
            "/dev/stderr" => "stderr".to_owned(),
            _ if target.starts_with("syslog:") || target.contains('$') || target.is_empty() => {
                self.outcomes.refuse(id, "write a native `log` for this kind of target");
                return None;
            }
            _ => self.path(target),
        };
        let mut format = "combined".to_owned();
        for (index, word) in words.iter().enumerate().skip(1) {
            match word.text.split_once('=').map(|(key, _)| key) {
                None if index == 1 && word.text != "gzip" => {
                    format = self.format_of(id, &word.text)?;
                }
                // Weir writes lines in batches of its own and holds none back for long.
                Some("buffer" | "flush") => {}
                _ => self.outcomes.refuse(id, format!("`{}` has no conversion", word.text)),
            }
        }
        self.outcomes.honour(id);
        let key = (target.clone(), format.clone());
        if let Some(name) = self.logs.made.get(&key) {
            return Some(name.clone());
        }
        let span = self.statements.span(id);
        let name = format!("access{}", self.logs.made.len() + 1);
        self.logs.made.insert(key, name.clone());
        let lines = vec![
            NativeLine::new("to", span).value(&target).end(),
            NativeLine::new("format", span).value(&format).end(),
        ];
        self.logs.directives.push(NativeLine::new("log", span).value(&name).block(lines));
        Some(name)
    }

    /// Returns the format of that name, or refuses the log.
    fn format_of(&mut self, log: StatementId, name: &str) -> Option<String> {
        if name == "combined" {
            return Some(name.to_owned());
        }
        match self.logs.formats.get(name) {
            Some(Some(text)) => Some(text.clone()),
            Some(None) => {
                self.outcomes.refuse(log, format!("its format `{name}` is refused"));
                None
            }
            None => {
                self.outcomes.refuse(log, format!("there is no `log_format {name}`"));
                None
            }
        }
    }
}
