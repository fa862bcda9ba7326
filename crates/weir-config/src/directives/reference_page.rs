//! Generates `docs/configuration.md` from the directive table and the list of variables. No
//! description is written here.

use std::fmt::Write;

use weir_stats::Variable;

use super::of_context;
use super::spec::{Arrow, BlockRule, Context, Spec};

const INTRODUCTION: &str = "\
# Configuration

This page is generated from the directive table: change the tables in `crates/weir-config/src/directives/`, not this file, and run that
crate's tests with `WEIR_BLESS=1`.

A file consists of directives: words that end with `;` or with a block in braces. `#` starts a comment. Words that contain
spaces, `;` or braces are quoted, with single or double quotes; in quotes `\\\"`, `\\'`, `\\\\`, `\\n`, `\\r` and `\\t` are escapes, and any other
backslash is kept. `->` precedes a target. Options are `key=value` without spaces.

- Times have a unit: `100us`, `100ms`, `5s`, `2m`, `1h`, `1d`. Sizes too: `512b`, `16k`, `8m`, `1g` (1k is 1024 bytes). Shares are written `50%`.
- `${NAME}` and `${NAME:-default}`, with the name in capitals, are replaced by an environment variable, in words and in double
  quotes. The value is always one word. Names in small letters, such as `${host}`, are variables of a request.
- Relative paths are relative to the directory of the file that contains them.
- Routes are tried from top to bottom, and the first match wins.
- A file that starts with `{` is the JSON form of the same configuration.

The smallest file: `listen :8080 -> 127.0.0.1:3000;`
";

/// Returns the reference page.
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for context in Context::ALL {
        let specs = of_context(context);
        let _ = write!(page, "\n## {}\n", title(context));
        for spec in specs {
            directive(&mut page, spec);
        }
    }
    page.push_str("\n## Variables\n\n");
    page.push_str("Variables are written `$name` or `${name}` in log formats, header values, redirects and fixed responses; `$$` is a dollar sign.\n\n");
    page.push_str("| variable | value |\n| --- | --- |\n");
    for (name, doc) in Variable::reference() {
        let _ = writeln!(page, "| `${name}` | {} |", doc.replace('|', "\\|"));
    }
    page
}

fn title(context: Context) -> &'static str {
    match context {
        Context::Top => "At the top level",
        Context::Admin => "In `admin`",
        Context::Log => "In `log`",
        Context::Pool => "In `pool`",
        Context::Check => "In `check`",
        Context::Listen => "In `listen`",
        Context::Host => "In `host`",
        Context::Route => "In the block of a route",
        Context::Condition => "Conditions, in `route` and `rule`",
        Context::Target => "Targets, after `->`",
    }
}

fn directive(page: &mut String, spec: &Spec) {
    let _ = write!(page, "\n### `{}`\n\n```\n{}", spec.name, spec.name);
    if !spec.syntax.is_empty() {
        let _ = write!(page, " {}", spec.syntax);
    }
    for option in spec.options {
        let value = if option.value.is_empty() { "" } else { "=…" };
        let _ = write!(page, " [{}{value}]", option.name);
    }
    page.push_str(match spec.arrow {
        Arrow::Never => "",
        Arrow::Optional => " [-> TARGET]",
        Arrow::Required => " -> TARGET",
    });
    page.push_str(match spec.block {
        BlockRule::None | BlockRule::Expression => "",
        BlockRule::Entries => " { KEY VALUE; … }",
        BlockRule::Steps => " { CONVERTER…; … }",
        BlockRule::Optional(_) => " [{ … }]",
        BlockRule::Required(_) => " { … }",
    });
    let _ = write!(page, "\n```\n\n{}\n", spec.doc);
    if !spec.default.is_empty() {
        let _ = write!(page, "\nDefault: `{}`.\n", spec.default);
    }
    if !spec.options.is_empty() {
        page.push_str("\n| option | value | default | |\n| --- | --- | --- | --- |\n");
    }
    for option in spec.options {
        let code = |text: &str| match text {
            "" => String::new(),
            text => format!("`{}`", text.replace('|', "\\|")),
        };
        let (value, default) = (code(option.value), code(option.default));
        let _ = writeln!(page, "| `{}` | {value} | {default} | {} |", option.name, option.doc);
    }
    if !spec.example.is_empty() {
        let _ = write!(page, "\n```nginx\n{}\n```\n", spec.example);
    }
}
