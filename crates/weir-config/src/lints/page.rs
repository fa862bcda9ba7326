//! The page `docs/lints.md`, written from the tables of lints.

use std::fmt::Write as _;

use super::Lint;

/// Returns the page; `foreign` are the lints about files of other programs.
pub fn lints_page(foreign: &[Lint]) -> String {
    let mut page = String::from(INTRODUCTION);
    // A test checks what stands under `nginx`: it is Weir's own syntax.
    let own = super::LINTS.iter().map(|lint| (lint, "nginx"));
    let mut lints: Vec<(&Lint, &str)> =
        own.chain(foreign.iter().map(|lint| (lint, "conf"))).collect();
    lints.sort_by_key(|(lint, _)| lint.code);
    page.push_str("| code | finds |\n| --- | --- |\n");
    for (lint, _) in &lints {
        let _ = writeln!(page, "| [{0}](#{0}) | {1} |", lint.code, lint.what);
    }
    for (Lint { code, what, why, example, better }, syntax) in lints {
        let _ = write!(
            page,
            "\n## {code}\n\nFinds {what}.\n\n{why}\n\n```{syntax}\n{}\n```\n\nBetter:\n\n```{syntax}\n{}\n```\n",
            example.trim_end(),
            better.trim_end()
        );
    }
    page
}

const INTRODUCTION: &str = "<!-- Generated from the tables of lints; `WEIR_BLESS=1 cargo test -p weir-import` writes it anew. -->
# Lints

`weir check FILE` reports what a configuration may say and its author most likely did not mean, in
Weir's own files, in JSON, and in files of other programs, with the place in the file that you
wrote. Each report has a code. Warnings do not change the exit code; with `--deny-warnings` they
make it 3.

A comment on the line of the report, or directly above it, silences one:

```nginx
pool app {
    server 10.0.0.11:8000 max_conn=4;
    # weir: allow max-conn-without-queue, the clients retry
    queue off;
}
```

Several codes are separated by commas. JSON has no comments, so nothing can be silenced there.

";
