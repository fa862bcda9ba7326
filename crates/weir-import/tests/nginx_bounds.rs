//! Files whose texts grow by the values of their variables: each text has a bound, and what exceeds
//! it is refused by name.

use std::fmt::Write as _;

use weir_import::{Imported, nginx_text};

fn imported(text: &str) -> Imported {
    nginx_text("/n.conf", text).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

/// Returns the reason for which a line is refused.
fn refusal(imported: &Imported, start: &str) -> String {
    let entry = imported.coverage.refused().find(|entry| entry.directive.starts_with(start));
    let entry = entry.unwrap_or_else(|| panic!("{start}: {}", imported.coverage.text()));
    entry.outcome.reason().to_owned()
}

#[test]
fn an_address_of_variables_has_no_more_bytes_than_addresses_have() {
    let maps = |length: usize, count: usize| {
        format!(
            "http {{ map $http_x $c {{ default {}; }} map $http_x $b {{ default {}; }}
             map $http_x $a {{ default {}; }}
             server {{ location / {{ proxy_pass http://$a; }} }} }}",
            "x".repeat(length),
            "$c".repeat(count),
            "$b".repeat(count),
        )
    };
    let long = imported(&maps(200, 10));
    assert!(refusal(&long, "proxy_pass").contains("more than 512 bytes"));
    let many = imported(&maps(1, 2).replace("http://$a", &format!("http://{}", "$c".repeat(17))));
    let reason = refusal(&many, "proxy_pass");
    assert!(reason.contains("more than 16 variables"), "{reason}");
    let short = imported(&maps(3, 2));
    assert!(short.native().contains(&"x".repeat(12)), "{}", short.coverage.text());
}

/// Returns a file in which each variable has the one before so many times.
fn chain(variables: usize, times: usize, used: &str) -> String {
    let set = |number: usize| {
        format!("set $a{} \"{}\";", number + 1, format!("$a{number}").repeat(times))
    };
    let sets: String = (0..variables).map(set).collect();
    format!(
        "http {{ server {{ location / {{ set $a0 \"{}\"; {sets} {used} }} }} }}",
        "x".repeat(1000)
    )
}

#[test]
fn a_text_of_variables_has_a_bound() {
    for used in ["proxy_pass http://$a3;", "return 200 $a3;"] {
        let long = imported(&chain(3, 20, used));
        assert!(refusal(&long, "set $a1").contains("more than 8192 bytes"));
        let short = imported(&chain(1, 8, "return 200 $a1;"));
        assert!(short.coverage.refused().next().is_none(), "{}", short.coverage.text());
        assert!(short.native().contains(&"x".repeat(8000)));
    }
    // In a `stream`, too.
    let text = format!(
        "stream {{ server {{ listen 1; set $a \"{}\"; set $b \"{}\"; return $b; }} }}",
        "x".repeat(1000),
        "$a".repeat(20)
    );
    assert!(refusal(&imported(&text), "set $b").contains("more than 8192 bytes"));
}

#[test]
fn the_texts_of_a_file_have_a_bound_together() {
    let locations = (0..9_000).fold(String::new(), |mut out, number| {
        let _ = writeln!(out, "location /{number} {{ return 200 $a1; }}");
        out
    });
    let text = format!(
        "http {{ server {{ set $a0 \"{}\"; set $a1 \"{}\"; {locations} }} }}",
        "x".repeat(1000),
        "$a0".repeat(8)
    );
    let imported = imported(&text);
    let reasons: Vec<_> = imported.coverage.refused().map(|entry| entry.outcome.reason()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("64 MiB")), "{reasons:?}");
}
