//! `valid_referers` becomes a map of `Referer`, whose variable is `$invalid_referer`.

use std::rc::Rc;

use weir_config::pattern::TextPattern;
use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values::SetValue;
use crate::native::NativeLine;
use crate::pcre;

/// The name that nginx gives the variable.
const VARIABLE: &str = "invalid_referer";

/// The end of a host in a URL, as nginx finds it.
const HOST_END: &str = "(?::[0-9]*)?(?:/|\\z)";

impl<'t> Converter<'_, 't> {
    /// Gives `$invalid_referer` the value that it has in a block.
    pub(crate) fn set_invalid_referer(&mut self, scope: &InheritanceScope<'_, 't>) {
        let all = scope.all("valid_referers");
        let Some(&first) = all.first() else { return };
        // A list belongs to one server, so that it has the same meaning wherever it holds.
        let text = match self.referer_maps.get(&first) {
            Some(known) => known.clone(),
            None => self.referer_map(first, all, scope),
        };
        let value = SetValue { text, cases: None, possible: None, has_groups: false };
        Rc::make_mut(&mut self.set).insert(VARIABLE.to_owned(), value);
    }

    /// Makes the map of a list and returns its variable.
    fn referer_map(
        &mut self,
        first: StatementId,
        all: &[StatementId],
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<String, String> {
        let made = self.referer_entries(all, scope).map(|lines| {
            let variable = format!("{VARIABLE}_{}", self.referer_maps.len() + 1);
            let map = NativeLine::new("map", self.statements.span(first)).value("${http_referer}");
            self.logs.directives.push(map.value(&format!("${variable}")).block(lines));
            format!("${{{variable}}}")
        });
        for id in all {
            match &made {
                Ok(_) => self.outcomes.honour(*id),
                Err(reason) => self.outcomes.refuse(*id, reason.clone()),
            }
        }
        self.referer_maps.insert(first, made.clone());
        made
    }

    fn referer_entries(
        &self,
        all: &[StatementId],
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<Vec<Directive>, String> {
        let texts = |ids: &[StatementId]| -> Vec<&'t str> {
            let words = ids.iter().flat_map(|id| self.statements.words(*id));
            words.map(|word| word.text.as_str()).collect()
        };
        let (mut none, mut blocked) = ("1", "1");
        let mut names = Vec::new();
        for text in texts(all) {
            match text {
                "none" => none = "",
                "blocked" => blocked = "",
                "server_names" => names.extend(texts(scope.all("server_name"))),
                name => names.push(name),
            }
        }
        let span = self.statements.span(all[0]);
        let mut lines = vec![NativeLine::entry("", span).value(none).end()];
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let pattern = pattern_of(name)?;
            pattern.parse::<TextPattern>()?;
            lines.push(NativeLine::entry(&pattern, span).value("").end());
        }
        // A value that a firewall has cut has no scheme.
        lines.push(NativeLine::entry("~*^https?://", span).value("1").end());
        lines.push(NativeLine::new("default", span).value(blocked).end());
        Ok(lines)
    }
}

/// Returns the regex for URLs of a host, of a wildcard of hosts, or of a host with a path; nginx
/// looks at a regex without the scheme.
fn pattern_of(name: &str) -> Result<String, String> {
    if let Some(regex) = name.strip_prefix('~') {
        let native = pcre::native(regex.trim_start_matches('*'))?;
        return Ok(match native.strip_prefix('^') {
            Some(rest) => format!("~*^https?://{rest}"),
            None => format!("~*^https?://.*(?:{native})"),
        });
    }
    let escaped = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '/';
        let one =
            |c: char| if plain(c) { c.to_string() } else { format!("\\x{{{:x}}}", u32::from(c)) };
        text.chars().map(one).collect::<String>()
    };
    if let Some((host, path)) = name.split_once('/').filter(|(host, _)| !host.contains('*')) {
        return Ok(format!("~*^https?://{}(?::[0-9]*)?/(?-i:{})", escaped(host), escaped(path)));
    }
    Ok(if let Some(rest) = name.strip_prefix("*.") {
        format!("~*^https?://[^/?#:]+\\.{}{HOST_END}", escaped(rest))
    } else if let Some(rest) = name.strip_prefix('.') {
        format!("~*^https?://(?:[^/?#:]+\\.)?{}{HOST_END}", escaped(rest))
    } else if let Some(rest) = name.strip_suffix(".*") {
        format!("~*^https?://{}\\.[^/?#:]+{HOST_END}", escaped(rest))
    } else {
        format!("~*^https?://{}{HOST_END}", escaped(name))
    })
}
