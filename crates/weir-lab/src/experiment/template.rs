//! Placeholders `${name}` in commands and configurations, and the replacements of printed
//! configurations.

use std::collections::BTreeMap;

use super::model::PrintedConfig;

/// The values of placeholders, by name. Texts such as nginx's `${request_uri}` that are no
/// placeholder stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placeholders(BTreeMap<String, String>);

impl Placeholders {
    /// Sets a value.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The value of a placeholder.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Fills in a text.
    pub fn fill(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let end = from.find('}');
            let value = end.and_then(|end| self.value(from.get(2..end)?));
            if let (Some(value), Some(end)) = (value, end) {
                out.push_str(value);
                rest = from.get(end + 1..).unwrap_or_default();
            } else {
                out.push_str("${");
                rest = from.get(2..).unwrap_or_default();
            }
        }
        out.push_str(rest);
        out
    }

    /// The text of a configuration: the printed one with its replacements, filled in.
    pub fn config(&self, config: &PrintedConfig) -> String {
        let mut text = config.text.clone();
        for [from, to, _] in &config.maps {
            text = text.replace(from, to);
        }
        self.fill(&text)
    }
}

/// The names of ports among the placeholders of a text: `port` and `port_…`.
pub fn ports_in(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in text.split("${").skip(1) {
        let Some((name, _)) = part.split_once('}') else { continue };
        let is_word = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if is_word
            && (name == "port" || name.starts_with("port_"))
            && !found.iter().any(|one| one == name)
        {
            found.push(name.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Placeholders, ports_in};
    use crate::experiment::PrintedConfig;

    fn placeholders() -> Placeholders {
        let mut found = Placeholders::default();
        found.set("port", "8443");
        found.set("dir", "/tmp/${port}");
        found
    }

    #[test]
    fn placeholders_are_filled_in_once_and_other_variables_stay() {
        let check = |text: &str, expected: &str| assert_eq!(placeholders().fill(text), expected);
        check("listen ${port};", "listen 8443;");
        check("${dir}", "/tmp/${port}");
        check("$host ${request_uri} ${port}", "$host ${request_uri} 8443");
        check("${port", "${port");
        check("${${port}}", "${8443}");
        check("", "");
    }

    #[test]
    fn a_printed_configuration_gets_its_replacements_everywhere() {
        let map = |from: &str, to: &str| [from.to_owned(), to.to_owned(), String::new()];
        let config = PrintedConfig {
            path: "nginx.conf".to_owned(),
            name: "nginx.conf".to_owned(),
            text: "listen 443 ssl;\nlisten 443;\n".to_owned(),
            maps: vec![map("listen 443", "listen ${port}")],
        };
        assert_eq!(placeholders().config(&config), "listen 8443 ssl;\nlisten 8443;\n");
    }

    #[test]
    fn ports_are_found_by_their_names() {
        assert_eq!(
            ports_in("${port} $port ${port_origin} ${ports} ${port} ${dir} ${port_A}"),
            ["port", "port_origin"]
        );
    }
}
