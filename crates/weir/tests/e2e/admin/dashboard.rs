//! The dashboard: its pages over HTTP, and in a real browser, with and without scripts.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::{Managed, asked};
use crate::support::browser::Browser;
use crate::support::programs::{Refusing, curl_command};

const TOKEN: &str = "correct-horse-battery-staple";
/// The Base64 of `weir:` and the token.
const BASIC: &str = "Basic d2Vpcjpjb3JyZWN0LWhvcnNlLWJhdHRlcnktc3RhcGxl";
const ONE: &str = "/v1/pools/app/endpoints/one";

/// Starts a Weir with an admin address over TCP that accepts the token.
fn start(more: &str) -> (Managed, String) {
    let directory = crate::support::Directory::new();
    let file = directory.file("token", format!("{TOKEN}\n"));
    let admin = format!("admin 127.0.0.1:0 token_file={};\n{more}", file.display());
    let managed = Managed::start(&admin, 1);
    let url = format!("http://{}", managed.weir.addresses[1]);
    (managed, url)
}

#[test]
fn pages_need_nothing_from_elsewhere_and_run_no_script_that_stands_in_them() {
    let managed = Managed::start("admin unix:DIRECTORY/look.sock read_only;", 0);
    managed.answers(8);
    let socket = managed.directory.text("look.sock");
    let (_, head) = asked(&["--unix-socket", &socket, "--head", "http://weir/"]);
    assert!(
        head.contains("content-security-policy: default-src 'none'; script-src 'self';"),
        "{head}"
    );
    assert!(head.contains("frame-ancestors 'none'"), "{head}");
    for path in ["/", "/pools/app/one"] {
        let (status, page) = asked(&["--unix-socket", &socket, &format!("http://weir{path}")]);
        assert_eq!(status, 200);
        assert!(page.contains("one</a>") || page.contains("<h1>one"), "{page}");
        assert!(!page.contains("<form") && !page.contains("://"), "{page}");
        assert!(page.contains("http-equiv=\"refresh\""), "{page}");
    }
    let (_, page) = managed.ask(&["/"]);
    assert!(page.contains("<form method=\"post\""), "who may write has buttons: {page}");
    for (file, kind) in
        [("weir.css", "text/css"), ("weir.js", "text/javascript"), ("weir.svg", "image/svg")]
    {
        let (status, head) = managed.ask(&["--head", &format!("/assets/{file}")]);
        assert_eq!(status, 200, "{file}");
        assert!(head.contains(&format!("content-type: {kind}")), "{head}");
    }
    assert_eq!(managed.ask(&["/assets/..%2f..%2fweir.conf"]).0, 404);
    let (status, page) = managed.ask(&["/pools/app/%3Cscript%3E"]);
    assert_eq!(status, 404);
    assert!(page.contains("“&lt;script&gt;”"), "{page}");
}

#[test]
fn a_page_of_another_origin_changes_nothing() {
    let managed = Managed::start("", 0);
    let form = |headers: &[&str]| {
        let headers: Vec<&str> = headers.iter().flat_map(|header| ["-H", header]).collect();
        managed.ask(&[&headers[..], &["--data", "order=draining", "/pools/app/one"]].concat()).0
    };
    let patch = |origin: &str| {
        let body = r#"{"order": "draining"}"#;
        managed
            .ask(&["-X", "PATCH", "-H", "Host: localhost:9900", "-H", origin, "--data", body, ONE])
            .0
    };
    assert_eq!(form(&[]), 403, "no browser");
    assert_eq!(form(&["Host: localhost:9900", "Origin: http://evil.example"]), 403);
    assert_eq!(form(&["Host: evil.example", "Origin: http://evil.example"]), 403, "rebound");
    assert_eq!(form(&["Host: localhost:9900", "Origin: null"]), 403);
    assert_eq!(form(&["Host: localhost:9900", "Sec-Fetch-Site: cross-site"]), 403);
    assert_eq!(patch("Origin: http://evil.example"), 403);
    assert_eq!(patch("Sec-Fetch-Site: same-site"), 403);
    assert_eq!(managed.json(ONE)["order"], "ready");
    assert_eq!(form(&["Host: localhost:9900", "Origin: http://localhost:9900"]), 303);
    assert_eq!(managed.json(ONE)["order"], "draining");
    let nonsense =
        ["-H", "Host: localhost", "-H", "Origin: http://localhost", "--data", "order=off"];
    assert_eq!(managed.ask(&[&nonsense[..], &["/pools/app/one"]].concat()).0, 422);
}

#[test]
fn a_browser_brings_the_token_as_its_password() {
    let (_managed, url) = start("");
    let (status, head) = asked(&["--head", &url]);
    assert_eq!(status, 401);
    assert!(head.contains("www-authenticate: Basic realm="), "{head}");
    assert!(head.contains("www-authenticate: Bearer"), "{head}");
    assert_eq!(asked(&["-u", &format!("weir:{TOKEN}"), &url]).0, 200);
    assert_eq!(asked(&["-u", &format!("{TOKEN}:weir"), &url]).0, 401);
}

#[test]
fn a_browser_brings_a_user_and_a_password() {
    let managed = Managed::start(
        "admin 127.0.0.1:0 { role read password=ops:secret; role operate password=dev:s3cr3t; }",
        1,
    );
    let address = managed.weir.addresses[1];
    let url = format!("http://{address}/v1/pools/app/endpoints/one");
    let check = |pair: &str, looks: u16, changes: u16| {
        assert_eq!(asked(&["-u", pair, &url]).0, looks, "{pair}");
        let change = ["-u", pair, "-X", "PATCH", "--data", r#"{"weight": 2}"#, &url];
        assert_eq!(asked(&change).0, changes, "{pair}");
    };
    check("ops:secret", 200, 403);
    check("dev:s3cr3t", 200, 200);
    check("dev:secret", 401, 401);
    check("ops:", 401, 401);
    assert_eq!(asked(&[&url]).0, 401);
    let said = managed.weir.process.said();
    assert!(!said.contains("s3cr3t"), "{said}");
}

/// Starts curl on a stream of events.
fn stream(socket: &str, path: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut curl = curl_command();
    curl.args(["--no-buffer", "--fail", "--unix-socket", socket, &format!("http://weir{path}")]);
    let mut child = curl.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (child, lines)
}

#[test]
fn a_page_is_told_of_each_second_and_listeners_are_bounded() {
    let managed = Managed::start("", 0);
    let socket = managed.socket.display().to_string();
    let mut open: Vec<_> = (0..16).map(|_| stream(&socket, "/live")).collect();
    for (_, lines) in &mut open {
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert_eq!(first, "event: history\n");
    }
    let (status, said) = managed.ask(&["/live"]);
    assert_eq!(status, 503, "{said}");
    let mut names = Vec::new();
    let mut lines = open.pop().unwrap();
    for line in (&mut lines.1).lines().map(Result::unwrap) {
        if let Some(name) = line.strip_prefix("event: ") {
            names.push(name.to_owned());
        }
        if let Some(data) = line.strip_prefix("data: ") {
            let data: serde_json::Value = serde_json::from_str(data).unwrap();
            match names.last().map(String::as_str) {
                Some("main") => assert!(data.as_str().unwrap().starts_with("<main id=\"main\"")),
                None => assert_eq!(data["points"][0]["pools"]["app"]["queued"], 0),
                Some(_) => assert_eq!(data["pools"]["app"]["queued"], 0, "{data}"),
            }
        }
        if names.len() == 4 {
            break;
        }
    }
    assert_eq!(names, ["main", "point", "main", "point"]);
    for (mut child, _) in open.into_iter().chain([lines]) {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    crate::support::eventually("there is room again", || {
        let (mut child, mut lines) = stream(&socket, "/live?pool=app&endpoint=one");
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        (!first.is_empty()).then_some(())
    });
}

#[test]
fn a_browser_shows_it_live_and_drains_a_server_by_its_button() {
    let dead = Refusing::new();
    let (managed, url) = start(&format!(
        "pool other {{ check http / interval=100ms timeout=50ms; server {} name=dead; }}",
        dead.address
    ));
    let Some(mut browser) = Browser::start(&managed.directory) else { return };
    // The credentials in the URL stand for the browser's password prompt.
    browser.open(&url.replace("http://", &format!("http://weir:{TOKEN}@")));
    browser.until("document.getElementById('pulse')?.textContent === 'live'");
    // The page is updated: it shows the servers' answers, and charts are drawn.
    let total = "document.querySelector('#app tr.sum td[data-label=total]').textContent";
    browser.until(&format!("{total} === '0'"));
    managed.answers(8);
    browser.until(&format!("{total} === '8'"));
    browser.until("document.querySelectorAll('#app figure canvas').length === 4");
    let drawn = "(() => { const canvas = document.querySelector('#app figure[data-chart=rate] canvas');
        return canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(byte => byte > 0) })()";
    browser.until(drawn);
    // A server that is down shows the reason.
    browser.until(
        "document.querySelector('#other tr.why.down')?.textContent.includes('connect refused')",
    );
    browser.until("document.title.startsWith('! 1 server out')");
    // The focused element keeps the focus while the page is redrawn.
    let button = "document.querySelector('form[data-name=\"app/one\"] button[value=draining]')";
    browser.value(&format!(
        "{button}.focus(), window.then = document.querySelector('dl.summary dd').textContent"
    ));
    browser.until("document.querySelector('dl.summary dd').textContent !== window.then");
    assert_eq!(browser.value(&format!("document.activeElement === {button}")), true);
    browser.value(&format!("{button}.click()"));
    browser.until("document.querySelector('#app tr.line.draining th a')?.textContent === 'one'");
    browser.until("document.getElementById('said').textContent.includes('app/one: draining. it survives reloads')");
    assert_eq!(managed.json(ONE)["order"], "draining");
    managed.weir.process.says("order ready -> draining, by the token from 127.0.0.1:");
    // A field of the pool keeps what is typed while the page is redrawn, until it is sent.
    let field = "document.querySelector('form.settings[data-name=app] input')";
    assert_eq!(browser.value(&format!("{field}.value")), "100");
    browser.value(&format!(
        "{field}.value = 7, window.then = document.querySelector('dl.summary dd').textContent"
    ));
    browser.until("document.querySelector('dl.summary dd').textContent !== window.then");
    browser.value(&format!("{field}.form.requestSubmit({field}.form.querySelector('button'))"));
    browser.until("document.getElementById('said').textContent.includes('app: at most 7 idle connections to each server. it survives reloads')");
    assert_eq!(managed.json("/v1/pools/app")["keepalive_idle"], 7);
    assert_eq!(managed.change("PATCH", "/v1/pools/app", r#"{"keepalive_idle": 8}"#).0, 200);
    browser.until(&format!("{field}.value === '8'"));
    // The filter hides all lines but those that match.
    browser.value("filter.value = 'two', filter.dispatchEvent(new Event('input'))");
    let shown = "[...document.querySelectorAll('section.pool tr.line[data-find]')].filter(line => line.offsetParent).length";
    assert_eq!(browser.value(shown), 1);
    browser.open(&format!("{url}/pools/app/one"));
    browser.until("document.querySelector('h1')?.textContent.includes('draining')");
    browser.until(
        "document.querySelector('.events')?.textContent.includes('order ready -> draining')",
    );
    assert_eq!(managed.ask(&["-X", "DELETE", ONE]).0, 200);
    browser
        .until("document.querySelector('main').textContent.includes('has this endpoint no more')");
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
}

#[test]
fn a_browser_without_script_shows_everything_and_its_buttons_work() {
    let (managed, url) = start("");
    managed.answers(8);
    let Some(mut browser) = Browser::start(&managed.directory) else { return };
    browser.bring(BASIC);
    browser.call("Emulation.setScriptExecutionDisabled", &serde_json::json!({"value": true}));
    browser.open(&url);
    browser
        .until("document.querySelector('#app tr.sum td[data-label=total]')?.textContent === '8'");
    assert_eq!(
        browser.value("getComputedStyle(document.querySelector('.script')).display"),
        "none"
    );
    browser.value(
        "document.querySelector('form[data-name=\"app/one\"] button[value=maintenance]').click()",
    );
    browser.until("document.querySelector('#app tr.line.maintenance th a')?.textContent === 'one'");
    assert_eq!(browser.value("location.pathname"), "/");
    assert_eq!(managed.json(ONE)["order"], "maintenance");
    let form = "document.querySelector('form.settings[data-name=app]')";
    browser.value(&format!(
        "{form}.querySelector('input').value = 7, {form}.querySelector('button').click()"
    ));
    browser.until(&format!("{form}?.querySelector('input').getAttribute('value') === '7'"));
    assert_eq!(managed.json("/v1/pools/app")["keepalive_idle"], 7);
    assert_eq!(browser.complaints(), Vec::<serde_json::Value>::new());
}
