use weir_config::model::{MatchedPath, Treatment};

use super::*;
use crate::http::sample::{KEEP, SampleRequest};

const NORMAL: PathRules = PathRules {
    normalize: true,
    matched: MatchedPath::Resolved,
    merge_slashes: true,
    encoded_slash: Treatment::Refuse,
    backslash: Treatment::Refuse,
    parameters: Treatment::Refuse,
    nul: Treatment::Refuse,
    invalid: Treatment::Keep,
};

/// As an imported nginx file has it.
const RECEIVED: PathRules = PathRules { normalize: false, invalid: Treatment::Refuse, ..NORMAL };

fn text(text: &str) -> Template {
    Template::parse(text).unwrap()
}

fn prefix(from: &str, to: &str) -> Rewrite {
    Rewrite::Prefix(from.into(), to.into())
}

fn strip(prefix: &str) -> Rewrite {
    Rewrite::StripPrefix(prefix.into())
}

fn regex(pattern: &str, to: &str) -> Rewrite {
    Rewrite::Regex(pattern.parse().unwrap(), text(to))
}

fn path(to: &str) -> Rewrite {
    Rewrite::Path(text(to))
}

fn query(to: &str) -> Rewrite {
    Rewrite::Query(text(to))
}

fn set(name: &str, value: &str) -> Rewrite {
    Rewrite::SetParameter(name.into(), text(value))
}

fn add(name: &str, value: &str) -> Rewrite {
    Rewrite::AddParameter(name.into(), text(value))
}

fn remove(name: &str) -> Rewrite {
    Rewrite::RemoveParameter(name.into())
}

fn rewritten(target: &str, changes: &[Rewrite], rules: &PathRules) -> Result<String, RewriteFault> {
    let text = format!("GET {target} HTTP/1.1\r\nHost: shop\r\nX-In: a b?c#\r\n\r\n");
    let mut request = SampleRequest::new(&text);
    crate::http::path::normalise(&mut request.head, &mut request.bytes, rules, &mut Vec::new())
        .unwrap();
    let rewrites = Rewrites::compile(changes, rules).unwrap().unwrap();
    let view = request.view();
    let entry = request.entry(&view, &());
    let (head, bytes) = (&request.head, request.bytes.as_slice());
    let query = head.query.map(|query| query.of(bytes));
    let mut out = b"used before".to_vec();
    rewrites.apply(head.path_text(bytes), query, rules, Some(&entry), &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn check(target: &str, change: Rewrite, expected: &str) {
    let changes = [change];
    assert_eq!(rewritten(target, &changes, &NORMAL).as_deref(), Ok(expected), "{target}");
}

#[test]
fn a_stripped_prefix_ends_with_a_segment() {
    check("/api/x?y", strip("/api"), "/x?y");
    check("/api/x", strip("/api/"), "/x");
    check("/api", strip("/api"), "/");
    check("/api/", strip("/api"), "/");
    check("/apix", strip("/api"), "/apix");
    check("/x/api/y", strip("/api"), "/x/api/y");
    check("/a%20b/%26x", strip("/a b"), "/%26x");
}

#[test]
fn a_prefix_is_replaced_by_text_as_in_nginx() {
    check("/api/x?y=%2F", prefix("/api/", "/v2/"), "/v2/x?y=%2F");
    check("/api/", prefix("/api/", "/"), "/");
    check("/api", prefix("/api/", "/v2/"), "/v2");
    check("/api", prefix("/api/", "/"), "/");
    check("/apix", prefix("/api", "/v2"), "/v2x");
    check("/api/x", prefix("/api", "/v2/"), "/v2/x");
    check("/other", prefix("/api/", "/v2/"), "/other");
    check("/x", prefix("/", "/a b/"), "/a%20b/x");
    check("/x", prefix("/", "/caf\u{e9}/"), "/caf%C3%A9/x");
    check("/x%20y%C3%A9%26z", prefix("/", "/v/"), "/v/x%20y%C3%A9%26z");
}

#[test]
fn a_regex_replaces_the_whole_path_if_it_matches() {
    check("/u/7/edit?a=b", regex("~^/u/([0-9]+)/", "/users/$1"), "/users/7?a=b");
    check("/U/7", regex("~*^/u/([0-9]+)$", "/users/$1"), "/users/7");
    check("/u/x", regex("~^/u/([0-9]+)", "/users/$1"), "/u/x");
    check("/u/a%20b%2Bc", regex("~^/u/(.*)$", "/users/$1"), "/users/a%20b%2Bc");
    check("/a/b", regex("~^/(?:(x)|a)/(.*)$", "/[$1]/$2"), "/[]/b");
    check("/a", regex("~^/a$", "/$http_x_in/$host"), "/a%20b%3Fc%23/shop");
    check("/a", regex("~^/a$", "/100%"), "/100%25");
}

#[test]
fn a_query_in_the_text_precedes_the_received_one() {
    check("/u/7?a=b", regex("~^/u/(.*)$", "/users?id=$1"), "/users?id=7&a=b");
    check("/u/7", regex("~^/u/(.*)$", "/users?id=$1"), "/users?id=7");
    check("/u/7?a=b", regex("~^/u/(.*)$", "/users?id=$1?"), "/users?id=7");
    check("/u/7?a=b", path("/users?"), "/users");
    check("/u/7?a=b", path("/users"), "/users?a=b");
    check("/u/7?a=b", path("/users?$arg_none"), "/users?a=b");
    check("/u/7?", path("/users?$arg_none"), "/users");
    check("/u/7?", path("/users"), "/users?");
    check("/u?a=%26&b=x", path("/s?q=$arg_a?"), "/s?q=%26");
}

#[test]
fn the_query_is_replaced_and_edited() {
    check("/a?b=c", query("x=$http_x_in"), "/a?x=a%20b?c%23");
    check("/a?b=c", query(""), "/a");
    check("/a?b=c", query("$arg_b"), "/a?c");
    check("/a?b=1&c=2&b=3", set("b", "4"), "/a?c=2&b=4");
    check("/a", set("b", "4"), "/a?b=4");
    check("/a?%62=1&+=2", remove("b"), "/a?+=2");
    check("/a?+=1", remove(" "), "/a");
    check("/a?b=1&", add("b", "x&y=z"), "/a?b=1&&b=x%26y=z");
    check("/a", add("a&b=", "1%"), "/a?a%26b%3D=1%25");
    check("/a?q=1%2C2", add("r", "$arg_q"), "/a?q=1%2C2&r=1%2C2");
}

#[test]
fn changes_apply_in_order() {
    let changes = [strip("/api"), prefix("/v1/", "/v2/"), regex("~^/v2/(.*)$", "/w/$1")];
    assert_eq!(rewritten("/api/v1/x", &changes, &NORMAL).as_deref(), Ok("/w/x"));
}

#[test]
fn the_result_is_normalised_or_refused() {
    check("/a/..b", strip("/a"), "/..b");
    check("/a/x/y", regex("~^/a/(.*)$", "/b//$1//z"), "/b/x/y/z");
    check("/%2562", path("/a/$uri"), "/a/%2562");
    let refused = |target: &str, change: Rewrite, rules: &PathRules| {
        rewritten(target, &[change], rules).unwrap_err()
    };
    let slash = RewriteFault::Path(PathFault::EncodedSlash);
    assert_eq!(refused("/a?x=%2e%2e%2fb", path("/d/$arg_x"), &NORMAL), slash);
    let nul = RewriteFault::Path(PathFault::Nul);
    assert_eq!(refused("/a?x=%00", path("/d/$arg_x"), &NORMAL), nul);
    let above = RewriteFault::Path(PathFault::AboveRoot);
    assert_eq!(refused("/a?x=..%2f..", path("/d/$arg_x"), &RECEIVED), above);
    for rules in [&NORMAL, &RECEIVED] {
        let dots = RewriteFault::Path(PathFault::DotSegment);
        assert_eq!(refused("/a?x=%2e%2e", path("/d/$arg_x"), rules), dots);
        assert_eq!(refused("/a?x=../../b", path("/d/e/f/$arg_x?"), rules), dots);
        assert_eq!(refused("/static../x", prefix("/static", "/files/"), rules), dots);
        for constant in [path("/a/../b"), prefix("/a", "/b/./")] {
            assert!(Rewrites::compile(&[constant], rules).is_err());
        }
    }
    let long = format!("/{}", "$http_x_in".repeat(10_000));
    assert_eq!(refused("/a", path(&long), &NORMAL), RewriteFault::TooLong);
}

#[test]
fn a_path_that_is_not_rewritten_stays_as_received() {
    let keeps = PathRules { invalid: Treatment::Keep, ..RECEIVED };
    for received in ["/a/../b", "/./x", "/%zz", "/../x"] {
        for change in [set("q", "1"), strip("/other"), prefix("/other", "/"), regex("~^/y", "/")] {
            let out = rewritten(received, &[change], &keeps).unwrap();
            assert_eq!(out.split('?').next(), Some(received), "{out}");
        }
    }
}

#[test]
fn a_long_target_that_was_received_may_be_rewritten() {
    let query = "x".repeat(2 * REWRITTEN_BYTES);
    let with = |change: Rewrite, query: &str| {
        let rewrites = Rewrites::compile(&[change], &NORMAL).unwrap().unwrap();
        let mut out = Vec::new();
        rewrites.apply(b"/a", Some(query.as_bytes()), &NORMAL, None, &mut out).map(|()| out.len())
    };
    assert_eq!(with(remove("b"), &format!("{query}&b=1")), Ok(3 + query.len()));
    assert_eq!(with(add("b", "1"), &query), Err(RewriteFault::TooLong));
}

#[test]
fn parts_keep_their_escapes_where_slashes_do() {
    let keeps = |target: &str, change: Rewrite, expected: &str| {
        assert_eq!(rewritten(target, &[change], &KEEP).as_deref(), Ok(expected), "{target}");
    };
    keeps("/api/a%2Fb%252Fc", strip("/api"), "/a%2Fb%252Fc");
    keeps("/api/a%2Fb;c", regex("~^/api/(.*)$", "/x/$1"), "/x/a%2Fb;c");
    keeps("/a%2Fb/c", regex("~^/(a%2Fb)/(.*)$", "/$2/$1"), "/c/a%2Fb");
}

#[test]
fn a_path_as_received_is_decoded_and_encoded_as_in_nginx() {
    let check = |target: &str, change: Rewrite, expected: &str| {
        assert_eq!(rewritten(target, &[change], &RECEIVED).as_deref(), Ok(expected), "{target}");
    };
    check("/api//a/../%62%20c%26d", prefix("/api/", "/v2/"), "/v2/b%20c&d");
    check("/api/%7Bx%7D%3F%23", prefix("/api/", "/v2/"), "/v2/%7Bx%7D%3F%23");
    check("/api/%C3%A9", regex("~^/api/(.*)$", "/$1"), "/%C3%A9");
}

#[test]
fn no_value_ends_the_request_line() {
    for change in [path("/$arg_x"), query("$arg_x"), set("a", "$arg_x"), set("a", "\r\nb")] {
        let out = rewritten("/a?x=%0d%0ab", &[change], &NORMAL).unwrap();
        assert!(out.bytes().all(|byte| byte.is_ascii_graphic()), "{out}");
    }
}

#[test]
fn a_path_that_is_matched_as_received_keeps_its_escapes() {
    let (matched, invalid) = (MatchedPath::Received, Treatment::Keep);
    let rules = PathRules { matched, invalid, ..RECEIVED };
    let check = |target: &str, change: Rewrite, expected: &str| {
        assert_eq!(rewritten(target, &[change], &rules).as_deref(), Ok(expected), "{target}");
    };
    check("/api/%62%20c%26d", prefix("/api/", "/v2/"), "/v2/%62%20c%26d");
    check("/api//%C3%A9%2F", regex("~^/api/(.*)$", "/v2/$1"), "/v2//%C3%A9%2F");
    check("/%61pi/x", prefix("/api/", "/v2/"), "/%61pi/x");
    check("/a/../%zz", prefix("/api/", "/v2/"), "/a/../%zz");
    check("/a/../%zz?x", query("y"), "/a/../%zz?y");
    let dots = rewritten("/api/../x", &[prefix("/api/", "/v2/")], &rules);
    assert_eq!(dots, Err(RewriteFault::Path(PathFault::DotSegment)));
}
