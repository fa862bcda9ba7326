//! The results are those of HAProxy 2.6.

use super::*;
use crate::exchange::sample;

fn converted(steps: &[&[&str]], present: bool, value: &str) -> Option<String> {
    let steps: Vec<Vec<String>> =
        steps.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
    let lines = ConvertLines { source: "", steps: &steps };
    let conversion = Conversion::new(&lines, &Variable::named).unwrap();
    let mut value = value.as_bytes().to_vec();
    let entry = sample::entry();
    let found = conversion.apply(present, &mut value, &entry, &mut Clock::utc());
    found.then(|| String::from_utf8_lossy(&value).into_owned())
}

fn check(words: &[&str], value: &str, expected: &str) {
    assert_eq!(converted(&[words], true, value).as_deref(), Some(expected), "{words:?} {value}");
}

fn nothing(words: &[&str], value: &str) {
    assert_eq!(converted(&[words], true, value), None, "{words:?} {value}");
}

#[test]
fn a_text_is_converted_beside_any_definition() {
    let digest = convert_text("abc", &[&["sha2", "256"], &["hex"], &["bytes", "0", "8"]]);
    assert_eq!(digest.as_deref(), Some("BA7816BF"));
    assert_eq!(convert_text("abc", &[&["frob"]]), None);
    assert_eq!(convert_text("/", &[&["word", "1", "/"]]), None);
    // A digest without `hex` is no text.
    assert_eq!(convert_text("abc", &[&["sha2", "256"]]), None);
}

#[test]
fn parts_of_texts() {
    check(&["lower"], "MiXed", "mixed");
    check(&["upper"], "MiXed", "MIXED");
    check(&["length"], "", "0");
    check(&["bytes", "1", "3"], "xabcdefs", "abc");
    check(&["bytes", "2"], "ab", "");
    check(&["bytes", "9"], "ab", "");
    check(&["ltrim", "x"], "xxab", "ab");
    check(&["rtrim", "b"], "abb", "a");
    check(&["rtrim", "b"], "bb", "");
    check(&["host_only"], "A.Test:80", "a.test");
    check(&["host_only"], "[::1]:80", "[::1]");
    check(&["port_only"], "a.test:80", "80");
    check(&["port_only"], "a.test", "0");
}

#[test]
fn numbers_are_times() {
    let check = |words: &[&str], value: &str, expected: &str| check(words, value, expected);
    check(&["http_date"], "1764234000", "Thu, 27 Nov 2025 09:00:00 GMT");
    check(&["http_date", "-3600"], "1764234000.123", "Thu, 27 Nov 2025 08:00:00 GMT");
    check(&["utime", "%Y-%m-%dT%H:%M:%SZ"], "0", "1970-01-01T00:00:00Z");
    check(&["utime", "%d/%b/%y, day %j", "86400"], "0", "02/Jan/70, day 002");
    check(&["utime", "plain"], "5", "plain");
    nothing(&["http_date"], "");
    nothing(&["http_date"], "99999999999999");
    nothing(&["http_date", "5"], "9223372036854775807");
    for wrong in [&["utime", "%~"][..], &["utime"], &["http_date", "x"], &["ltime", "%Y", "x"]] {
        let words: Vec<String> = wrong.iter().map(|word| (*word).to_owned()).collect();
        assert!(converter_fault(&words).is_err(), "{wrong:?}");
    }
}

#[test]
fn fields_and_words() {
    let path = "/a/b/c/";
    check(&["field", "3", "/"], path, "b");
    check(&["field", "1", "/"], path, "");
    check(&["field", "-1", "/"], path, "");
    check(&["field", "-2", "/", "2"], path, "b/c");
    check(&["field", "2", "/", "2"], path, "a/b");
    check(&["field", "2", "/", "0"], path, "a/b/c/");
    nothing(&["field", "9", "/"], path);
    check(&["word", "1", "/", "2"], path, "a/b");
    check(&["word", "1", "/", "0"], path, "a/b/c/");
    check(&["word", "-1", "/", "2"], path, "b/c");
    check(&["word", "-2", "/"], path, "b");
    nothing(&["word", "5", "/"], path);
    nothing(&["word", "1", "/"], "//");
}

#[test]
fn lists_parameters_and_cookies() {
    let list = r#"a, "b,c" , , d, e,"#;
    check(&["list_item", "1"], list, "a");
    check(&["list_item", "2"], list, r#""b,c""#);
    check(&["list_item", "3"], list, "");
    check(&["list_item", "-2"], list, "e");
    check(&["list_item", "-1"], list, "");
    nothing(&["list_item", "7"], list);
    nothing(&["list_item", "-7"], list);
    check(&["list_count"], list, "6");
    check(&["list_count"], "", "1");
    assert_eq!(converted(&[&["list_count"]], false, "").as_deref(), Some("0"));
    assert_eq!(converted(&[&["length"]], false, ""), None);
    let filled: &[&[&str]] = &[&["lower"], &["default", "none"]];
    assert_eq!(converted(filled, false, "").as_deref(), Some("none"));
    assert_eq!(converted(filled, true, "A").as_deref(), Some("a"));
    check(&["param", "b"], "a=1&b=2&b=3", "2");
    nothing(&["param", "b"], "b&B=1&ab=2");
    check(&["param", "e"], "e=&x", "");
    check(&["cookie", "b"], "a=1; b=\"q\"; c=2", "\"q\"");
    check(&["cookie", "c"], "a=1,c=2", "2");
    nothing(&["cookie", "a"], "A=1");
    let any: &[&[&str]] = &[&["any_item"], &["length"], &["range", "2..3"]];
    assert_eq!(converted(any, true, "a,bb").as_deref(), Some("1"));
    assert_eq!(converted(any, true, "a,bbbb").as_deref(), Some("0"));
    let any_of = |first: &[&str], value: &str| {
        converted(&[first, &["lower"], &["matches", "^y"]], true, value)
    };
    for (query, expected) in
        [("q=n&q=Yes", "1"), ("a=y&q=n;q=y", "1"), ("q=n&Q=y", "0"), ("q&q=", "0"), ("", "0")]
    {
        assert_eq!(any_of(&["any_param", "q"], query).as_deref(), Some(expected), "{query}");
    }
    for (line, expected) in [("s=n; s=y", "1"), ("s=, s = y ", "1"), ("xs=y", "0"), ("s=", "0")] {
        assert_eq!(any_of(&["any_cookie", "s"], line).as_deref(), Some(expected), "{line}");
    }
    let is_there: &[&[&str]] = &[&["any_cookie", "s"], &["length"], &["range", "0.."]];
    assert_eq!(converted(is_there, true, "s=").as_deref(), Some("0"));
}

#[test]
fn other_forms() {
    check(&["regsub", "^/old/", "/new/"], "/old/x", "/new/x");
    check(&["regsub", "a", "b"], "banana", "bbnana");
    check(&["regsub", "a", "b", "g"], "banana", "bbnbnb");
    check(&["regsub", "A(.)", "<\\1\\0>", "gi"], "abAc", "<bab><cAc>");
    check(&["url_dec"], "a%20b+c?d+e", "a b+c?d e");
    check(&["url_dec", "1"], "a+b", "a b");
    nothing(&["url_dec"], "a%zz");
    nothing(&["url_dec"], "a%2");
    check(&["url_enc"], "a b~-._/%?é", "a%20b~-._%2F%25%3F%C3%A9");
    check(&["hex"], "a/", "612F");
    check(&["base64"], "a b/c?", "YSBiL2M/");
    check(&["ub64enc"], "a b", "YSBi");
    check(&["b64dec"], "aGVsbG8=", "hello");
    nothing(&["b64dec"], "!!");
    check(&["json"], "é\"\\", "\\u00c3\\u00a9\\\"\\\\");
    check(&["json", "utf8s"], "/é", "\\/\\u00e9");
    check(&["ipmask", "8"], "127.0.5.6", "127.0.0.0");
    check(&["ipmask", "255.255.0.0"], "10.1.2.3", "10.1.0.0");
    check(&["ipmask", "16", "32"], "1::2", "1::");
    check(&["ipmask", "32"], "10.1.2.3:4567", "10.1.2.3");
    nothing(&["ipmask", "32"], "10.1.2.3:x");
    nothing(&["ipmask", "16"], "zz");
}

#[test]
fn numbers() {
    check(&["add", "1"], "abc", "1");
    check(&["add", "1"], "12abc", "13");
    check(&["add", "1"], "-12", "-11");
    check(&["add", "1"], "+12", "13");
    nothing(&["add", "1"], "");
    check(&["div", "0"], "7", "9223372036854775807");
    check(&["div", "2"], "-7", "-3");
    check(&["mod", "0"], "7", "0");
    check(&["mod", "4"], "-7", "-3");
    check(&["cpl"], "6", "-7");
    check(&["odd"], "5", "1");
    check(&["even"], "5", "0");
    check(&["bool"], "5", "1");
    check(&["not"], "5", "0");
    check(&["iif", "y", "n"], "a", "n");
    check(&["iif", "y", "n"], "1", "y");
    check(&["range", "5..8", "10.."], "8", "1");
    check(&["range", "5..8", "10.."], "9", "0");
    check(&["range", "..-1"], "-5", "1");
    check(&["range", "3"], "99999999999999999999", "0");
    check(&["matches", "~*^AB"], "abc", "1");
    check(&["matches", "^AB"], "abc", "0");
    check(&["network", "10.0.0.0/8", "192.0.2.1"], "10.9.9.9", "1");
    check(&["network", "10.0.0.0/8"], "11.9.9.9", "0");
    nothing(&["network", "10.0.0.0/8"], "x");
}

#[test]
fn hashes() {
    check(&["crc32"], "hello", "907060870");
    check(&["crc32", "1"], "hello", "3902247103");
    check(&["djb2"], "hello", "261238937");
    check(&["djb2", "1"], "hello", "1119739105");
    check(&["sdbm"], "hello", "684824882");
    check(&["sdbm", "1"], "hello", "2061535398");
    check(&["wt6"], "hello", "3538347703");
    check(&["wt6", "1"], "hello", "140457739");
    check(&["xxh32"], "hello", "4211111929");
    check(&["xxh32", "5"], "hello", "3191799670");
    check(&["crc32c"], "123456789", "3808858755");
    let signed = |hash: u64| (hash as i64).to_string();
    check(&["xxh64"], "", &signed(0xef46_db37_51d8_e999));
    check(&["xxh64"], "abc", &signed(0x44bc_2cf5_ad77_0999));
    let long = "Nobody inspects the spammish repetition";
    check(&["xxh64"], long, &signed(0xfbce_a83c_8a37_8bf1));
}

#[test]
fn digests() {
    let hex = |words: &[&str], value: &str, expected: &str| {
        let found = converted(&[words, &["hex"]], true, value);
        assert_eq!(found.as_deref(), Some(expected), "{words:?}");
    };
    hex(&["sha1"], "abc", "A9993E364706816ABA3E25717850C26C9CD0D89D");
    let sha256 = "BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD";
    hex(&["sha2"], "abc", sha256);
    hex(&["sha2", "256"], "abc", sha256);
    hex(&["digest", "SHA256"], "abc", sha256);
    let sha224 = "23097D223405D8228642A477BDA255B32AADBCE4BDA0B3F7E36C9DA7";
    hex(&["sha2", "224"], "abc", sha224);
    // RFC 4231, test case 2.
    let keyed = "5BDCC146BF60754E6A042426089575C75A003F089D2739839DEC58B964EC3843";
    hex(&["hmac", "sha256", "SmVmZQ=="], "what do ya want for nothing?", keyed);
    check(&["hex2i"], "ff", "255");
    check(&["hex2i"], "ffffffffffffffff", "-1");
    nothing(&["hex2i"], "1Fx");
    check(&["hex_number", "4"], "10", "000A");
    check(&["hex_number", "2"], "305419896", "12345678");
    check(&["hex_number", "1"], "-1", "FFFFFFFFFFFFFFFF");
    check(&["hex_address"], "127.0.0.1", "7F000001");
    check(&["hex_address"], "::ffff:10.0.0.255", "0A0000FF");
    check(&["hex_address"], "2001:db8::1", "20010DB8000000000000000000000001");
    nothing(&["hex_address"], "unix:");
    check(&["cut_crlf"], "a\r\nb", "a");
    check(&["cut_crlf"], "a", "a");
}

#[test]
fn what_is_no_converter_is_refused() {
    let refused = |words: &[&str]| {
        let steps = [words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()];
        let lines = ConvertLines { source: "", steps: &steps };
        Conversion::new(&lines, &Variable::named).unwrap_err().message
    };
    assert!(refused(&["lowr"]).contains("no converter `lowr`"));
    assert!(refused(&["lower", "x"]).contains("arguments"));
    assert!(refused(&["field", "0", "/"]).contains("count from 1"));
    assert!(refused(&["hex_number", "17"]).contains("from 1 to 16"));
    assert!(refused(&["field", "x", "/"]).contains("not a number"));
    assert!(refused(&["matches", "("]).contains("regex"));
    assert!(refused(&["ipmask", "33"]).contains("not a mask"));
    assert!(refused(&["range", "a..b"]).contains("not a number"));
    assert!(refused(&["network", "x"]).contains("not a network"));
    assert!(refused(&["digest", "md5"]).contains("`sha256`"));
    assert!(refused(&["sha2", "100"]).contains("`sha256`"));
    assert!(refused(&["hmac", "sha1", "%"]).contains("base64"));
    assert!(refused(&["any_item", "x"]).contains("until_none"));
    assert!(refused(&["lookup", "$host"]).contains("variable of a `map`"));
    assert!(refused(&["lookup", "text"]).contains("variable of a `map`"));
    assert!(refused(&["add", "$frob"]).contains("unknown variable `$frob`"));
    let lines = ConvertLines { source: "", steps: &[] };
    assert!(Conversion::new(&lines, &Variable::named).is_err());
}

#[test]
fn arguments_may_have_variables() {
    check(&["strcmp", "a"], "a", "0");
    check(&["strcmp", "b"], "a", "-1");
    check(&["strcmp", "a"], "aa", "1");
    check(&["strcmp", "$http_user_agent"], "curl/8\"", "0");
    check(&["secure_memcmp", "a$arg_b"], "ac", "1");
    check(&["secure_memcmp", "a"], "b", "0");
    check(&["secure_memcmp", "a"], "aa", "0");
    nothing(&["strcmp", "$http_none"], "a");
    check(&["add", "$server_port"], "7", "450");
    check(&["mod", "$server_port"], "450", "7");
    check(&["add", "$host"], "7", "7");
    nothing(&["add", "$http_none"], "7");
    assert_eq!(converted(&[&["default", "<$host>"]], true, "a").as_deref(), Some("a"));
    let missing = converted(&[&["default", "<$host>"]], false, "");
    assert_eq!(missing.as_deref(), Some("<shop.example.com>"));
    assert_eq!(converted(&[&["default", "$http_none"]], false, ""), None);
}

#[test]
fn items_after_one_without_a_result_do_not_count_where_it_says_so() {
    let found = |words: &[&str], value: &str| {
        converted(&[words, &["field", "2", ":"], &["matches", "^b$"]], true, value).unwrap()
    };
    assert_eq!(found(&["any_item"], "a, c:b"), "1");
    assert_eq!(found(&["any_item", "until_none"], "a, c:b"), "0");
    assert_eq!(found(&["any_item", "until_none"], "a:c, c:b"), "1");
    assert_eq!(found(&["any_param", "x", "until_none"], "x=1&x=2:b"), "0");
    assert_eq!(found(&["any_param", "x"], "x=1&x=2:b"), "1");
    assert_eq!(found(&["any_cookie", "x", "until_none"], "x=1; x=2:b"), "0");
    // Nothing has no items, whatever stands in for one.
    let steps: [&[&str]; 3] = [&["any_item"], &["default", "b"], &["matches", "b"]];
    assert_eq!(converted(&steps, false, ""), None);
}
