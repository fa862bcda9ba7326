//! The canonical layout: what it looks like, that it is stable, and that it means the same, for
//! written texts, for the examples and the documentation, and for generated texts.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir_config::source::Sources;
use weir_config::syntax::lexer::Dialect;
use weir_config::syntax::tree::{self, Directive};
use weir_config::{formatted as format, parse_str};

fn formatted(text: &str) -> String {
    format("weir.conf", text).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

/// A directive without its places.
#[derive(Debug, PartialEq)]
struct Meaning {
    words: Vec<(String, usize)>,
    block: Option<Vec<Meaning>>,
}

fn meaning(text: &str) -> Vec<Meaning> {
    fn of(directives: &[Directive]) -> Vec<Meaning> {
        let one = |directive: &Directive| Meaning {
            words: std::iter::once(&directive.name)
                .chain(&directive.words)
                .map(|word| (word.text.clone(), word.bare))
                .collect(),
            block: directive.block.as_ref().map(|block| of(&block.directives)),
        };
        directives.iter().map(one).collect()
    }
    let mut sources = Sources::default();
    let file = sources.add("weir.conf", text);
    of(&tree::parse(&sources, file, Dialect::Native(&|_| Some("x".into()))).0)
}

/// Returns every comment, in order.
fn comments(text: &str) -> Vec<String> {
    let mut sources = Sources::default();
    let file = sources.add("weir.conf", text);
    let (tokens, _) =
        weir_config::syntax::lexer::lex(text, file, Dialect::Native(&|_| Some("x".into())));
    let mut end = 0;
    let mut gaps = Vec::new();
    for token in &tokens {
        gaps.push(&text[end..token.span.start]);
        end = token.span.end;
    }
    gaps.push(&text[end..]);
    let lines = gaps.into_iter().flat_map(|gap| gap.split('\n'));
    let comment = |line: &str| line.find('#').map(|at| line[at..].trim_end().to_owned());
    lines.filter_map(comment).collect()
}

/// Checks what holds for every text that can be formatted.
fn check_properties(text: &str) {
    let once = formatted(text);
    assert_eq!(meaning(&once), meaning(text), "{text:?} became {once:?}");
    assert_eq!(comments(&once), comments(text), "{text:?} became {once:?}");
    assert_eq!(formatted(&once), once, "formatted twice: {text:?}");
    match (parse_str("weir.conf", text), parse_str("weir.conf", &once)) {
        (Ok(before), Ok(after)) => assert_eq!(before.config, after.config, "{text}"),
        (Err(_), Err(_)) => {}
        (before, after) => panic!("{before:?} became {after:?} for {text}"),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(formatted(text), expected);
    check_properties(text);
}

#[test]
fn spaces_and_lines_are_canonical() {
    check("", "");
    check("\n\n# only a comment  \n\n", "# only a comment\n");
    check("workers  2 ;listen   :80  ->  x;", "workers 2;\nlisten :80 -> x;\n");
    check("a;\r\n\r\n\r\n\r\nb;\r\n", "a;\n\nb;\n");
    check("a;;; b;\n;\n;c;", "a;\nb;\nc;\n");
    check(
        "pool app\n{\n\n  server a;\n\n\n server b;\n\n}\n",
        "pool app {\n    server a;\n\n    server b;\n}\n",
    );
    check(
        "a \"b  c;\" 'd{' e=\"f \\\" g\" ~^/x\\.y$;",
        "a \"b  c;\" 'd{' e=\"f \\\" g\" ~^/x\\.y$;\n",
    );
    check("a ${HOME} \"${X:-a b}\";", "a ${HOME} \"${X:-a b}\";\n");
}

#[test]
fn a_block_stays_on_its_line_if_it_fits() {
    check("pool a{server b;server c ;}", "pool a { server b; server c; }\n");
    check("listen :80 { host a { route -> b; }; }", "listen :80 { host a { route -> b; } }\n");
    check("pool a { }", "pool a {}\n");
    check("pool a {\n}", "pool a {}\n");
    check("pool a { server b;\nserver c; }", "pool a {\n    server b;\n    server c;\n}\n");
    let long = format!("pool a {{ server {}; host b {{ c; }} }}", "x".repeat(90));
    let expected = format!("pool a {{\n    server {};\n    host b {{ c; }}\n}}\n", "x".repeat(90));
    check(&long, &expected);
}

#[test]
fn comments_stay_where_they_are() {
    check("a; # x\nbbb;#y\n", "a;    # x\nbbb;  #y\n");
    check("a; # x\nb;\nccc; # y\n", "a;    # x\nb;\nccc;  # y\n");
    check("a; # x\n\nbbb; # y\n", "a;  # x\n\nbbb;  # y\n");
    check(
        "pool a { # first\n# second\nserver b; # third\n# last\n} # end\n",
        "pool a {  # first\n    # second\n    server b;  # third\n    # last\n}  # end\n",
    );
    check("# top\n\n\n# next\na;\n\n# bottom", "# top\n\n# next\na;\n\n# bottom\n");
}

#[test]
fn comments_inside_a_directive_are_kept() {
    check("pool a # x\n# y\n{ b; }", "pool a {  # x\n    # y\n    b;\n}\n");
    check("a b # x\n;", "a b;  # x\n");
    check("a b # x\n# y\n; # z", "a b;  # x\n# y\n# z\n");
    check("a b # x\n  c # y\n  # z\n  d;", "a b  # x\n    c  # y\n    # z\n    d;\n");
}

#[test]
fn line_ends_between_words_stay() {
    check(
        "route path /a\nor path /b\n-> c { x; };",
        "route path /a\n    or path /b\n    -> c {\n    x;\n}\n",
    );
    check("rule a { client b\nor cookie c }", "rule a {\n    client b\n        or cookie c\n}\n");
    check("rule a { client b or cookie c }", "rule a { client b or cookie c }\n");
    check("a \"b\nc\"   d; # x\ne; # y", "a \"b\nc\" d;  # x\ne;  # y\n");
}

#[test]
fn a_byte_order_mark_does_not_come_into_being() {
    check("\u{feff}a;", "a;\n");
    check("\u{feff}\u{feff}a;", "\u{feff}\u{feff}a;\n");
}

#[test]
fn a_text_with_an_error_of_syntax_is_refused() {
    let refused = |text: &str, part: &str| {
        let errors = format("x.conf", text).unwrap_err().to_string();
        assert!(errors.contains(part) && errors.contains("x.conf:1:"), "{text}: {errors}");
    };
    refused("pool a { server b; ", "never closed");
    refused("a; }", "no matching");
    refused("a \"b;", "this quote is never closed");
    refused("listen { a }", "`;` is missing");
    refused("a b", "`;` is missing");
    refused("{ a; }", "needs a name");
    refused("a ${b:-c};", "not a name");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repository().join(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == ending));
    paths.sort();
    assert!(!paths.is_empty(), "no {ending} files in {folder}");
    paths
}

#[test]
fn the_examples_are_formatted() {
    for path in files("examples", "conf") {
        let text = fs::read_to_string(&path).unwrap();
        check_properties(&text);
        if std::env::var_os("WEIR_BLESS").is_some() {
            fs::write(&path, formatted(&text)).unwrap();
        } else {
            assert_eq!(formatted(&text), text, "{}: run `weir fmt`", path.display());
        }
    }
}

#[test]
fn what_the_documentation_shows_means_the_same_when_formatted() {
    let mut shown = 0;
    let mut pages = files("docs", "md");
    pages.push(repository().join("README.md"));
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for snippet in text.split("```nginx\n").skip(1) {
            let snippet = snippet.split("```").next().unwrap();
            // Some show a condition or a target alone.
            if format("weir.conf", snippet).is_ok() {
                check_properties(snippet);
                shown += 1;
            }
        }
    }
    assert!(shown > 60, "{shown} snippets");
}

fn blank() -> impl Strategy<Value = String> {
    let piece =
        select(&[" ", " ", "\t", "\n", "\n\n\n", "\r\n", " # c\n", "#\n", "\n# d \n", "\u{a0}"]);
    vec(piece, 1..3).prop_map(|pieces| pieces.concat())
}

/// White space and comments, or nothing.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), blank()]
}

fn word() -> impl Strategy<Value = &'static str> {
    select(&[
        "a",
        "rule",
        "->",
        "b=c",
        "\"d e\"",
        "'f;{'",
        "g=\"h\\\"\"",
        "~^/i$",
        "\\.j",
        "${K}",
        "\"l\nm\"",
        "$n",
        "\"\"",
        "o#p",
        "ü",
        "${Q:-r s}",
    ])
}

fn directive() -> impl Strategy<Value = String> {
    let words = || {
        let pair = (blank(), word()).prop_map(|(blank, word)| format!("{blank}{word}"));
        (word(), vec(pair, 0..4)).prop_map(|(name, rest)| format!("{name}{}", rest.concat()))
    };
    let line = (words(), gap(), select(&[";", ";", ";;", "; ;"]))
        .prop_map(|(words, gap, end)| format!("{words}{gap}{end}"));
    line.prop_recursive(3, 12, 4, move |inner| {
        let inside = vec((gap(), inner).prop_map(|(gap, inner)| gap + &inner), 0..4);
        (words(), blank(), inside, gap(), select(&["}", "};"])).prop_map(
            |(words, blank, inside, gap, end)| {
                format!("{words}{blank}{{{}{gap}{end}", inside.concat())
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_text_means_the_same_when_formatted(
        parts in vec((gap(), directive()), 0..5),
        end in gap(),
    ) {
        let text: String = parts.into_iter().map(|(gap, directive)| gap + &directive).collect();
        check_properties(&(text + &end));
    }

    #[test]
    fn any_bytes_are_formatted_or_refused(text in "[a-z\"'\\\\${}A:;# \n\t=ü\u{feff}-]{0,60}") {
        if format("weir.conf", &text).is_ok() {
            check_properties(&text);
        }
    }
}
