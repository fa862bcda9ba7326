//! Tests of defined variables, on the sample exchange.

use super::*;
use crate::exchange::sample;

fn map(source: &str, keys: MapKeys, default: &str, entries: &[(&str, &str)]) -> DefinedVariables {
    let mut defined = DefinedVariables::default();
    defined.add_map("m", &MapLines { source, keys, default, entries }).unwrap();
    defined
}

fn value(defined: &DefinedVariables, text: &str, how: Escape) -> String {
    let mut out = Vec::new();
    defined.template(text).unwrap().append(&sample::entry(), how, &mut out);
    String::from_utf8(out).unwrap()
}

/// Looks `source` up as the value of a constant text.
fn find(keys: MapKeys, entries: &[(&str, &str)], source: &str) -> String {
    value(&map(source, keys, "default", entries), "$m", Escape::None)
}

const PLAIN: MapKeys = MapKeys { ignore_case: false, hosts: false, networks: false };
const HOSTS: MapKeys = MapKeys { ignore_case: false, hosts: true, networks: false };
const NETWORKS: MapKeys = MapKeys { ignore_case: false, hosts: false, networks: true };

#[test]
fn exact_keys_come_before_regexes() {
    let entries = [("~^a", "regex"), ("ab", "exact"), ("~*B$", "second"), ("", "empty")];
    assert_eq!(find(PLAIN, &entries, "ab"), "exact");
    assert_eq!(find(PLAIN, &entries, "ac"), "regex");
    assert_eq!(find(PLAIN, &entries, "xb"), "second");
    assert_eq!(find(PLAIN, &entries, "AB"), "second");
    assert_eq!(find(PLAIN, &entries, ""), "empty");
    assert_eq!(find(PLAIN, &entries, "x"), "default");
    let folded = MapKeys { ignore_case: true, ..PLAIN };
    assert_eq!(find(folded, &[("Ab", "exact")], "aB"), "exact");
    assert_eq!(find(PLAIN, &[("\\~a", "escaped")], "~a"), "escaped");
}

#[test]
fn the_longest_wildcard_host_decides() {
    let entries = [
        ("example.com", "exact"),
        ("*.example.com", "wide"),
        ("*.a.example.com", "narrow"),
        (".example.org", "both"),
        ("mail.*", "trailing"),
        ("mail.example.*", "longer"),
        ("~^www", "regex"),
    ];
    for (host, expected) in [
        ("example.com", "exact"),
        ("EXAMPLE.com.", "exact"),
        ("x.example.com", "wide"),
        ("x.a.example.com", "narrow"),
        ("example.org", "both"),
        ("y.x.example.org", "both"),
        ("mail.test", "trailing"),
        ("mail.example.test", "longer"),
        ("www.test", "regex"),
        ("notexample.com", "default"),
        (".example.com", "default"),
        ("", "default"),
    ] {
        assert_eq!(find(HOSTS, &entries, host), expected, "{host}");
    }
}

#[test]
fn the_longest_network_decides() {
    let entries = [
        ("10.0.0.0/8", "wide"),
        ("10.1.0.0/16", "narrow"),
        ("10.1.2.3", "one"),
        ("2001:db8::/32", "six"),
        ("0.0.0.0/0", "four"),
    ];
    for (address, expected) in [
        ("10.9.0.1", "wide"),
        ("10.1.9.9", "narrow"),
        ("10.1.2.3", "one"),
        ("::ffff:10.1.2.3", "one"),
        ("2001:db8::1", "six"),
        ("192.0.2.1", "four"),
        ("2001:db9::1", "default"),
        ("no address", "default"),
    ] {
        assert_eq!(find(NETWORKS, &entries, address), expected, "{address}");
    }
    let defined = map("$remote_addr", NETWORKS, "-", &[("192.0.2.0/24", "near")]);
    assert_eq!(value(&defined, "$m", Escape::None), "near");
}

#[test]
fn values_use_groups_and_other_variables() {
    let entries = [("~^/(?<lang>[a-z]+)(/.*)?$", "<$lang|$1|$host>"), ("/x", "never")];
    let defined = map("$uri", PLAIN, "none", &entries);
    assert_eq!(value(&defined, "$m", Escape::None), "<a|a|shop.example.com>");
    let mut more = defined.clone();
    let entries = [("~^<(a)", "got $1")];
    let lines = MapLines { source: "$m", keys: PLAIN, default: "", entries: &entries };
    more.add_map("n", &lines).unwrap();
    assert_eq!(value(&more, "[$n]", Escape::None), "[got a]");
}

#[test]
fn many_regexes_are_tried_in_their_order() {
    let keys: Vec<String> = (0..50).map(|number| format!("~^k{number}")).collect();
    let entries: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), &key[2..])).collect();
    assert_eq!(find(PLAIN, &entries, "k7"), "k7");
    // `k4` comes before `k42`.
    assert_eq!(find(PLAIN, &entries, "k42"), "k4");
    assert_eq!(find(PLAIN, &entries, "x"), "default");
}

#[test]
fn values_are_escaped_for_their_context() {
    let defined = map("$http_user_agent", PLAIN, "", &[("~(.*)", "\"$1\r\n")]);
    assert_eq!(value(&defined, "$m", Escape::Log), "\\x22curl/8\\x22\\x0D\\x0A");
    assert_eq!(value(&defined, "$m", Escape::Header), "\"curl/8\"  ");
}

#[test]
fn what_is_left_of_a_decoded_path_stays_encoded_in_a_target() {
    let entries = [("~^(?<rest>.*)$", "/b%41$rest%")];
    let decoded = map("$decoded_uri", PLAIN, "", &entries);
    assert_eq!(value(&decoded, "$m", Escape::Path), "/b%2541/a%25");
    assert_eq!(value(&decoded, "$m", Escape::None), "/b%41/a%");
    let mut more = decoded.clone();
    let entries = [("~(.*)", "$1")];
    more.add_map("n", &MapLines { source: "$m", keys: PLAIN, default: "", entries: &entries })
        .unwrap();
    assert_eq!(value(&more, "$n", Escape::Path), "/b%2541/a%25");
    let received = map("$uri", PLAIN, "", &[("~^(?<rest>.*)$", "$rest%20")]);
    assert_eq!(value(&received, "$m", Escape::Path), "/a%20");
}

#[test]
fn a_split_has_the_hash_and_the_bounds_of_nginx() {
    // Reference values of MurmurHash2 with seed 0.
    assert_eq!(split_hash(b""), 0);
    assert_eq!(split_hash(b"a"), 0x9268_5f5e);
    let mut counts = [0_u32; 3];
    for number in 0..20_000 {
        let mut defined = DefinedVariables::default();
        let source = format!("client{number}");
        let shares = [(Some(50), "0"), (Some(2_000), "1"), (None, "2")];
        defined.add_split("s", &SplitShares { source: &source, shares: &shares }).unwrap();
        let share: usize = value(&defined, "$s", Escape::None).parse().unwrap();
        counts[share] += 1;
    }
    assert!((70..140).contains(&counts[0]), "{counts:?}");
    assert!((3_800..4_200).contains(&counts[1]), "{counts:?}");
}

#[test]
fn definitions_are_refused_with_the_part_that_is_wrong() {
    let check = |name: &str, keys: MapKeys, source: &str, entries: &[(&str, &str)], expected| {
        let mut defined = map("$host", PLAIN, "", &[]);
        let lines = MapLines { source, keys, default: "", entries };
        let error = defined.add_map(name, &lines).unwrap_err();
        assert_eq!((error.part, error.message.as_str()), expected);
    };
    let (name, source) = (DefinitionPart::Name, DefinitionPart::Source);
    check("1a", PLAIN, "", &[], (name, "`1a` is not the name of a variable"));
    check("host", PLAIN, "", &[], (name, "`$host` is a variable of Weir itself"));
    check("m", PLAIN, "", &[], (name, "there is a variable `$m` already"));
    check("x", PLAIN, "$y", &[], (source, "unknown variable `$y`"));
    let twice = [("a", ""), ("a", "")];
    check("x", PLAIN, "", &twice, (DefinitionPart::Key(1), "there is an entry `a` already"));
    let open = [("~(", "")];
    check("x", PLAIN, "", &open, (DefinitionPart::Key(0), "this regex is invalid: unclosed group"));
    let unknown = (DefinitionPart::Value(0), "unknown variable `$name`");
    check("x", PLAIN, "", &[("~(a)", "$name")], unknown);
    let nets = [("10.0.0.0/33", "")];
    check(
        "x",
        NETWORKS,
        "",
        &nets,
        (
            DefinitionPart::Key(0),
            "`10.0.0.0/33` is not a network: write `10.0.0.0/8` or `192.0.2.1`",
        ),
    );
}

#[test]
fn evaluations_are_bounded() {
    let mut defined = DefinedVariables::default();
    let mut last = "host".to_owned();
    let mut refused = 0;
    for level in 0..20 {
        let name = format!("v{level}");
        let source = format!("${last}${last}");
        let lines = MapLines { source: &source, keys: PLAIN, default: "x", entries: &[] };
        match defined.add_map(&name, &lines) {
            Ok(()) => last = name,
            Err(error) => {
                assert!(error.message.contains("too many"), "{error:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn two_definitions_are_equal_if_they_give_the_same_values() {
    let template =
        |entries: &[(&str, &str)]| map("$host", PLAIN, "", entries).template("$m").unwrap();
    assert_eq!(template(&[("a", "1")]), template(&[("a", "1")]));
    assert_ne!(template(&[("a", "1")]), template(&[("a", "2")]));
    assert_ne!(template(&[("a", "1")]), template(&[("b", "1")]));
    let defined = map("$host", PLAIN, "", &[("a", "1"), ("b", "1")]);
    let variable = defined.variable("m").unwrap();
    let constants = variable.constants().unwrap();
    assert_eq!(constants, [&b""[..], b"1"]);
    let varying = map("$host", PLAIN, "$uri", &[]).variable("m").unwrap();
    assert_eq!(varying.constants(), None);
}

#[test]
fn a_variable_knows_what_it_depends_on() {
    let before = |source: &str, value: &str| {
        let variable = map(source, PLAIN, value, &[]).variable("m").unwrap();
        (variable.is_known_before_pick(), variable.is_known_before_route())
    };
    assert_eq!(before("$host", "$http_x"), (true, true));
    assert_eq!(before("$status", ""), (false, false));
    assert_eq!(before("$host", "$sent_http_x"), (false, false));
    assert_eq!(before("$route", ""), (true, false));
    assert_eq!(before("$1", ""), (true, false));
    let secret = |value: &str, key: &str| {
        map("$http_cookie", PLAIN, "", &[(key, value)]).variable("m").unwrap().may_be_secret()
    };
    assert!(secret("$1", "~(a)") && secret("$http_x", "~a") && !secret("b", "~a"));
}

#[test]
fn conversions_look_items_up_in_maps() {
    let entries = [("evil", "bad"), ("good", "fine"), ("~^x", "regex"), ("none", "")];
    let found = |source: &str, steps: &[&[&str]]| {
        let mut defined = map("", PLAIN, "", &entries);
        let steps: Vec<Vec<String>> = steps
            .iter()
            .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
            .collect();
        defined.add_conversion("c", &ConvertLines { source, steps: &steps })?;
        Ok::<_, DefinitionError>(value(&defined, "$c", Escape::None))
    };
    let look = |source: &str| found(source, &[&["lookup", "$m"]]).unwrap();
    assert_eq!([look("evil"), look("xy"), look("other"), look("none")], ["bad", "regex", "", ""]);
    let any = |source: &str, steps: &[&[&str]]| found(source, steps).unwrap();
    let bad: &[&[&str]] = &[&["any_item"], &["lookup", "$m"], &["matches", "^bad$"]];
    assert_eq!([any("a, good,evil", bad), any("a,good", bad)], ["1", "0"]);
    let known: &[&[&str]] = &[&["any_item", "until_none"], &["lookup", "$m"], &["matches", "bad"]];
    assert_eq!([any("good,evil", known), any("a,evil", known)], ["1", "0"]);
    let error = found("a", &[&["lookup", "$later"]]).unwrap_err();
    assert_eq!((error.part, error.unknown.as_deref()), (DefinitionPart::Key(0), Some("later")));
    // A map with values of the request is none to look others up in.
    let mut varying = map("", PLAIN, "", &[("a", "$host")]);
    let steps = [vec!["lookup".to_owned(), "$m".to_owned()]];
    let error = varying.add_conversion("c", &ConvertLines { source: "a", steps: &steps });
    assert!(error.unwrap_err().message.contains("no variables"));
}
