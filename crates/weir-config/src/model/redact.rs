//! The configuration without its secret values, to be shown. It determines the values to hide; the
//! admin interface decides which callers may see the rest.

use weir_stats::Template;

use super::variable::names_in;
use super::{
    Config, HIDDEN, HeaderEdit, HttpProbe, Probe, ProbeStep, Route, Rule, Secret,
    VariableDefinition,
};
use crate::pattern::TextPattern;

impl Config {
    /// Returns the configuration with every secret value replaced by a placeholder.
    #[must_use]
    pub fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        let hidden = &self.hidden_headers;
        for pool in &mut shown.pools {
            if let Some(sticky) = &mut pool.sticky
                && let Some(Secret::Text(text)) = &mut sticky.secret
            {
                HIDDEN.clone_into(text);
            }
            if let Some(check) = &mut pool.check {
                hide_probe(&mut check.probe, hidden);
            }
        }
        for role in shown.admin.iter_mut().flat_map(|admin| &mut admin.roles) {
            role.password.iter_mut().for_each(|pair| HIDDEN.clone_into(pair));
        }
        for definition in &mut shown.variables {
            match definition {
                VariableDefinition::Map(map) if reads_secret(&map.source, hidden) => {
                    for (key, _) in &mut map.entries {
                        HIDDEN.clone_into(key);
                    }
                }
                VariableDefinition::Convert(conversion) => {
                    hide_steps(&conversion.source, &mut conversion.steps, hidden);
                }
                _ => {}
            }
        }
        for listener in &mut shown.listeners {
            let when = listener.explain_header.as_mut().and_then(|explain| explain.when.as_mut());
            if let Some(value) = when.and_then(|when| when.value.as_mut()) {
                HIDDEN.clone_into(value);
            }
            hide_edits(&mut listener.request_headers, hidden);
            hide_edits(&mut listener.response_headers, hidden);
            let routes = listener.sites.iter_mut().flat_map(|site| &mut site.routes);
            for route in routes.chain(&mut listener.default) {
                let Route { when, request_headers, response_headers, .. } = route;
                hide_edits(request_headers, hidden);
                hide_edits(response_headers, hidden);
                hide_conditions(when, hidden);
            }
        }
        shown
    }
}

/// Hides what a probe sends to log in.
fn hide_probe(probe: &mut Probe, hidden: &[String]) {
    match probe {
        Probe::Tcp(probe) => {
            probe.send.iter_mut().for_each(hide_login);
            for step in &mut probe.steps {
                match step {
                    ProbeStep::Send(text) => hide_login(text),
                    ProbeStep::SendHex(bytes) => {
                        if is_login(&String::from_utf8_lossy(bytes.bytes())) {
                            *step = ProbeStep::Send(HIDDEN.to_owned());
                        }
                    }
                    ProbeStep::Connect(_) | ProbeStep::Expect(_) => {}
                }
            }
        }
        Probe::Http(probe) => hide_request(probe, hidden),
        Probe::Tls | Probe::Grpc(_) => {}
    }
}

fn hide_request(probe: &mut HttpProbe, hidden: &[String]) {
    for header in probe.headers.iter_mut().filter(|header| is_secret(&header.name, hidden)) {
        HIDDEN.clone_into(&mut header.value);
    }
    probe.send.iter_mut().for_each(hide_login);
    if let Some((path, query)) = probe.path.split_once('?') {
        let mut names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default());
        if names.any(|name| is_secret(name, hidden)) {
            probe.path = format!("{path}?{HIDDEN}");
        }
    }
    for request in &mut probe.then {
        hide_request(request, hidden);
    }
}

fn hide_login(text: &mut String) {
    if is_login(text) {
        HIDDEN.clone_into(text);
    }
}

/// Hides the keys of `hmac`, which stand after the digest, and what a credential is compared with.
fn hide_steps(source: &str, steps: &mut [Vec<String>], hidden: &[String]) {
    let is_of_credential = |step: &Vec<String>| match step.as_slice() {
        [part, name] => {
            matches!(part.as_str(), "param" | "any_param" | "cookie" | "any_cookie")
                && is_secret(name, hidden)
        }
        _ => false,
    };
    let compares = reads_secret(source, hidden) || steps.iter().any(is_of_credential);
    for step in steps {
        let shown = match step.first().map(String::as_str) {
            Some("hmac") => 2,
            Some("matches") if compares => 1,
            _ => continue,
        };
        step.iter_mut().skip(shown).for_each(|text| HIDDEN.clone_into(text));
    }
}

/// Returns true if a text contains a header, cookie or query parameter whose values are hidden.
fn reads_secret(text: &str, hidden: &[String]) -> bool {
    names_in(text).any(|name| {
        let name =
            ["http_", "headers_", "cookie_", "arg_"].iter().find_map(|one| name.strip_prefix(one));
        name.is_some_and(|name| {
            is_secret(&name.replace('_', "-"), hidden) || is_secret(name, hidden)
        })
    })
}

fn hide_edits(edits: &mut [HeaderEdit], hidden: &[String]) {
    for edit in edits {
        let mut edit = edit;
        while let HeaderEdit::When(_, inner) | HeaderEdit::SendEmpty(inner) = edit {
            edit = inner;
        }
        if let HeaderEdit::Set(name, value)
        | HeaderEdit::Add(name, value)
        | HeaderEdit::Replace(name, _, value)
        | HeaderEdit::ReplaceItem(name, _, value)
        | HeaderEdit::ReplaceAttribute(name, _, _, value)
        | HeaderEdit::ReplacePrefix(name, _, value) = edit
            && is_secret(name, hidden)
            && let Ok(text) = Template::parse(HIDDEN)
        {
            *value = text;
        }
    }
}

fn hide_conditions(rule: &mut Rule, hidden: &[String]) {
    match rule {
        Rule::All(rules) | Rule::Any(rules) => {
            for rule in rules {
                hide_conditions(rule, hidden);
            }
        }
        Rule::Not(rule) => hide_conditions(rule, hidden),
        Rule::Header(name, Some(value))
        | Rule::Cookie(name, Some(value))
        | Rule::Query(name, Some(value))
            if is_secret(name, hidden) =>
        {
            hide_pattern(value);
        }
        Rule::Variable(text, Some(value)) if reads_secret(text.as_str(), hidden) => {
            hide_pattern(value);
        }
        _ => {}
    }
}

fn hide_pattern(pattern: &mut TextPattern) {
    if let Ok(text) = HIDDEN.parse() {
        *pattern = text;
    }
}

/// Returns true if values of this header, cookie or query parameter are hidden: because of its
/// name, or because an edit was marked `secret`.
fn is_secret(name: &str, hidden: &[String]) -> bool {
    hidden.iter().any(|own| own.eq_ignore_ascii_case(name)) || looks_secret(name)
}

/// Returns true if a name denotes a credential: `Authorization`, `Cookie`, `X-Api-Key`,
/// `X-Auth-Token`.
pub(crate) fn looks_secret(name: &str) -> bool {
    const PARTS: [&str; 9] = [
        "token",
        "secret",
        "passw",
        "credential",
        "authorization",
        "api-key",
        "apikey",
        "api_key",
        "session",
    ];
    let name = name.to_ascii_lowercase();
    matches!(name.as_str(), "cookie" | "set-cookie" | "key" | "auth" | "x-auth")
        || name.ends_with("-key")
        || name.ends_with("_key")
        || name.ends_with("-auth")
        || PARTS.iter().any(|part| name.contains(part))
}

/// Returns true if the bytes of a probe look like a login: `AUTH` of Redis and SMTP, `PASS` of POP3
/// and FTP, a password or a token in the body of a request.
fn is_login(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    ["AUTH", "PASS", "LOGIN", "TOKEN", "SECRET"].iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_names_that_carry_credentials_are_known() {
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "Set-Cookie",
            "X-Api-Key",
            "X-API-KEY",
            "Ocp-Apim-Subscription-Key",
            "X-Auth-Token",
            "X-Vault-Token",
            "X-Amz-Security-Token",
            "X-Secret",
            "X-Password",
            "access_token",
            "X-Proxy-Auth",
            "session_id",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in
            ["Host", "X-Forwarded-For", "X-Client", "Accept", "X-Author", "X-Keyboard", "Server"]
        {
            assert!(!looks_secret(name), "{name}");
        }
    }

    /// Checks that a configuration has the secrets up to this number, and shows none.
    fn check(text: &str, most: u32) {
        let config = crate::parse_str("test", text).unwrap().config;
        let whole = crate::to_json(&config);
        for number in 1..=most {
            assert!(whole.contains(&format!("s3cr3t-{number}\"")), "{number}: {whole}");
        }
        let shown = crate::to_json(&config.without_secrets());
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }

    #[test]
    fn no_credential_of_a_check_is_shown() {
        let text = "pool web { server 10.0.0.1:1;
                check http POST /login?token=s3cr3t-9 {
                    header Authorization s3cr3t-1;
                    send \"password: s3cr3t-2\";
                    request GET /up; header X-Api-Key s3cr3t-3; header X-Shown yes;
                }
            }
            pool redis { server 10.0.0.1:1; check tcp {
                send AUTH-s3cr3t-4; expect +OK; send hex=4155544820783132330d0a; send PING;
            } }
            listen :80 {
                route variable $http_x_api_key=s3cr3t-5 -> redis;
                route -> web;
            }";
        check(text, 5);
        let config = crate::parse_str("test", text).unwrap().config;
        let shown = crate::to_json(&config.without_secrets());
        assert!(!shown.contains("4155544820"), "{shown}");
        assert!(shown.contains("\"/login?(hidden)\""), "{shown}");
        assert!(shown.contains("X-Shown") && shown.contains("yes"), "{shown}");
        assert!(shown.contains("PING") && shown.contains("+OK"), "{shown}");
    }

    #[test]
    fn no_credential_is_shown() {
        let text = "pool redis { server 10.0.0.1:1; check tcp send=\"AUTH s3cr3t-1\\r\\n\"; }
            rule staff { header X-Api-Key=s3cr3t-2 }
            convert $request_uri $signed { hmac sha256 czNjcjN0; hex; }
            admin 127.0.0.1:1 read_only { role read password=ops:s3cr3t-0; }
            convert $headers_authorization $bearer { word 2 \" \"; matches ^s3cr3t-11$; }
            convert $args $token { any_param token; matches ^s3cr3t-12$; }
            convert $args $page { param page; matches ^shown$; }
            listen :80 {
                header set Authorization \"Bearer s3cr3t-3\";
                response_header add Set-Cookie s3cr3t-4;
                header set X-Plain s3cr3t-5 secret;
                header set X-Shown $signed$bearer$token$page;
                explain_header when=X-Explain=s3cr3t-6;
                host a.test {
                    route rule staff -> redis {
                        header add X-Plain s3cr3t-7;
                        header set X-Vault-Token s3cr3t-8;
                    }
                    route not query token=s3cr3t-9 -> redis;
                }
                route cookie session=s3cr3t-10 header X-Seen=this -> redis;
            }";
        let config = crate::parse_str("test", text).unwrap().config;
        let whole = crate::to_json(&config);
        for number in 0..=12 {
            assert!(whole.contains(&format!("s3cr3t-{number}")), "{number}: {whole}");
        }
        let shown = crate::to_json(&config.without_secrets());
        assert!(!shown.contains("s3cr3t"), "{shown}");
        assert!(whole.contains("czNjcjN0") && !shown.contains("czNjcjN0"), "{shown}");
        assert!(shown.contains("X-Shown") && shown.contains("sha256"), "{shown}");
        assert!(shown.contains("^shown$"), "{shown}");
    }
}
