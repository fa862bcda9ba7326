//! The `stream` context: listeners that pass on bytes.

use weir_config::model::{Action, PassiveCause, Pool, Protocol, Route, SendProxy};

use super::{config, outcome, stream};

#[test]
fn streams_become_listeners_that_pass_on_bytes() {
    let imported = stream(
        "upstream db { least_conn; server 10.0.0.1:5432; server 10.0.0.2:5432 backup; }
         server { listen 127.0.0.1:5432; proxy_pass db; proxy_connect_timeout 1s; proxy_timeout 3m;
                  deny 10.9.0.0/16; allow all; }
         server { listen 127.0.0.1:25 proxy_protocol; proxy_pass 10.0.0.3:25; proxy_protocol on;
                  set_real_ip_from 0.0.0.0/0; set_real_ip_from ::/0; proxy_next_upstream off; }",
    );
    assert_eq!(imported.coverage.totals().refused, 0, "{}", imported.coverage.text());
    let config = config(imported);
    let [db, mail] = &config.listeners[..] else { panic!("{:?}", config.listeners) };
    assert_eq!([db.protocol, mail.protocol], [Protocol::Tcp; 2]);
    assert_eq!((db.access.len(), db.proxy_protocol.len()), (2, 0));
    assert_eq!(mail.proxy_protocol.len(), 2);
    let [db, mail] = &config.pools[..] else { panic!("{:?}", config.pools) };
    let seconds =
        |pool: &Pool| [pool.timeouts.connect, pool.timeouts.tunnel].map(|wait| wait.as_secs());
    assert_eq!((seconds(db), db.retry.attempts, db.send_proxy), ([1, 180], 1, None));
    // In nginx too, only a failed connect leaves a server out.
    assert_eq!(db.passive.on, [PassiveCause::Connect]);
    let sends = Some(SendProxy::V1);
    assert_eq!((seconds(mail), mail.retry.attempts, mail.send_proxy), ([60, 600], 0, sends));
}

#[test]
fn a_map_of_server_names_becomes_a_route_for_each_name_in_the_order_of_nginx() {
    let imported = stream(
        "map $ssl_preread_server_name $pool {
             hostnames; ~^api[0-9]+\\.test$ api; *.b.test wide; .a.b.test narrow; b.test one; default rest; }
         upstream api { server 10.0.0.1:443; } upstream wide { server 10.0.0.2:443; }
         upstream narrow { server 10.0.0.3:443; } upstream one { server 10.0.0.4:443; }
         upstream rest { server 10.0.0.5:443; }
         server { listen 127.0.0.1:443; ssl_preread on; preread_timeout 5s; proxy_pass $pool; }",
    );
    assert_eq!(imported.coverage.totals().refused, 0, "{}", imported.coverage.text());
    let config = config(imported);
    let listener = &config.listeners[0];
    assert_eq!(listener.timeouts.handshake.as_secs(), 5);
    let pool = |route: &Route| match route.action {
        Action::Pool(index) => config.pools[index].name.clone(),
        _ => panic!("{route:?}"),
    };
    let named =
        listener.sites.iter().map(|site| (site.hosts[0].to_string(), pool(&site.routes[0])));
    let named: Vec<String> = named.map(|(host, pool)| format!("{host} {pool}")).collect();
    let expected = [
        "a.b.test narrow",
        "b.test one",
        "*.a.b.test narrow",
        "*.b.test wide",
        "~^api[0-9]+\\.test$ api",
    ];
    assert_eq!(named, expected);
    assert_eq!(pool(&listener.default[0]), "rest");
}

#[test]
fn what_a_stream_of_weir_cannot_do_is_refused_by_name() {
    let check = |contents: &str, directive: &str, reason: &str| {
        let imported = stream(contents);
        let (word, found) = outcome(&imported.coverage, directive);
        assert_eq!(word, "refused", "{contents}");
        assert!(found.contains(reason), "{contents}: {found}");
    };
    check("server { listen 53 udp; proxy_pass 10.0.0.1:53; }", "listen 53", "UDP");
    check("server { listen 1; }", "server", "neither `proxy_pass` nor `return`");
    check("server { listen 1; return a; proxy_pass 10.0.0.1:1; }", "return", "the last of both");
    check("server { listen 1; return $no; }", "return", "$no");
    check("server { listen 1; set $remote_addr x; return a; }", "set", "your own");
    check("server { listen 1; pass 127.0.0.1:80; }", "pass", "proxy_protocol on");
    check("server { listen 1; proxy_pass $x; }", "proxy_pass", "map $x $server");
    check(
        "map $ssl_preread_protocol $x { default 10.0.0.1:1; } server { listen 1; proxy_pass $x; }",
        "proxy_pass",
        "ssl_preread on",
    );
    check(
        "server { listen 1 proxy_protocol; proxy_pass 10.0.0.1:1; deny all; }",
        "deny all",
        "set_real_ip_from",
    );
    check("server { listen 1; proxy_pass 10.0.0.1:1; js_filter a; }", "js_filter", "");
}

#[test]
fn a_stream_may_return_a_text() {
    let imported = stream(
        "server { listen 127.0.0.1:1; set $who \"$remote_addr $protocol\"; return \"bye $who\n\"; }
         server { listen 127.0.0.1:2; set $to 10.0.0.1:7; proxy_pass $to; }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    let native = imported.native();
    let line = "default -> respond 200 \"bye ${remote_addr} TCP\\n\";";
    assert!(native.contains(line) && native.contains("server 10.0.0.1:7"), "{native}");
    config(imported);
}
