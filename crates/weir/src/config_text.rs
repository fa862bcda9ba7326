//! Helpers of commands that have no configuration file and write one from their flags, so that
//! flags pass the same checks as a file. Nothing is served here.

use std::path::{Path, absolute};

use weir_config::Config;

use crate::failure::CommandFailure;

/// Returns a word in the configuration's quotes, with every special character escaped.
pub(crate) fn quote(word: &str) -> String {
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{}\"", escaped.replace("${", "\\${"))
}

/// Returns the absolute path, quoted: the text that it goes into has no directory of its own.
pub(crate) fn quote_path(path: &Path) -> Result<String, CommandFailure> {
    let path = absolute(path)
        .map_err(|error| CommandFailure::Usage(format!("{}: {error}", path.display())))?;
    match path.to_str() {
        Some(path) => Ok(quote(path)),
        None => {
            Err(CommandFailure::Usage(format!("{}: the path is not valid UTF-8", path.display())))
        }
    }
}

/// Checks a `text` made from flags. Messages do not show the text, because the operator did not
/// write it.
pub(crate) fn check(text: &str) -> Result<Config, CommandFailure> {
    match weir_config::parse_str("command line", text) {
        Ok(checked) => Ok(checked.config),
        Err(diagnostics) => {
            let messages: Vec<&str> =
                diagnostics.iter().map(|entry| entry.message.as_str()).collect();
            Err(CommandFailure::Usage(messages.join("\nweir: ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_comes_out_as_it_went_in() {
        for word in [
            "plain",
            "two words",
            "a\"b",
            "back\\slash",
            "a;b{c}",
            "${HOME}",
            "#",
            "\\${X}",
            "a\nb",
            "k=v",
        ] {
            let path = format!("/{word}");
            let text = format!("listen 127.0.0.1:1 -> files {};", quote(&path));
            let json = weir_config::to_json(&check(&text).unwrap());
            let written: serde_json::Value = serde_json::from_str(&json).unwrap();
            assert_eq!(
                written["listeners"][0]["default"][0]["action"]["files"]["root"], path,
                "{text}"
            );
        }
    }
}
