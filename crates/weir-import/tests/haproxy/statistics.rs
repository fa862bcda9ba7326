//! The statistics page beside requests.

use weir_config::model::{Action, AdminAccess, Role};

use super::{config, outcome, proxies, statuses, text};

#[test]
fn the_statistics_page_beside_requests_is_a_route() {
    let page = |lines: &str| proxies(lines, "");
    let imported = page("stats uri /stats\n stats auth ops:secret\n stats refresh 5s");
    for line in ["stats uri", "stats auth", "stats refresh"] {
        assert_ne!(outcome(&imported.coverage, line).0, "refused", "{line}");
    }
    let native = imported.native();
    let config = config(imported);
    let [admin] = &config.admin[..] else { panic!("{native}") };
    assert!(admin.address.is_abstract(), "{native}");
    assert_eq!(admin.access, AdminAccess::ReadOnly);
    let roles: Vec<_> =
        admin.roles.iter().map(|role| (role.role, role.password.as_deref())).collect();
    assert_eq!(roles, [(Role::Read, Some("ops:secret"))]);
    let pool = config.pools.iter().position(|pool| pool.name == "statistics").unwrap();
    let leads = |action: &Action| matches!(action, Action::Pool(choice) if format!("{choice:?}").contains(&pool.to_string()));
    let routes = config.listeners[0].default.iter().filter(|route| leads(&route.action));
    assert_eq!(routes.count(), 4, "{native}");
    assert!(native.contains("/statistics?refresh=5"), "{native}");
    // The native form is the same configuration.
    weir_config::parse_str("native", &native).unwrap_or_else(|errors| panic!("{errors}\n{native}"));
}

#[test]
fn a_page_that_cannot_be_guarded_is_closed() {
    for (lines, refused) in [
        ("stats uri /s\n stats scope a&b", "stats scope"),
        ("stats uri /s\n stats http-request auth", "stats http-request"),
        ("stats uri /s\n stats auth ops", "stats auth"),
    ] {
        let imported = proxies(lines, "");
        assert_eq!(outcome(&imported.coverage, refused).0, "refused", "{lines}");
        let config = config(imported);
        assert!(config.admin.is_empty(), "{lines}");
        assert_eq!(statuses(&config), [403], "{lines}");
    }
}

#[test]
fn a_page_shows_the_sections_of_its_scope() {
    let native = proxies("stats uri /s\n stats scope b\n stats scope .", "").native();
    let targets = native.matches("scope=b,f").count();
    assert_eq!((targets, native.matches("/statistics").count()), (3, 3), "{native}");
}

#[test]
fn pages_with_the_same_users_share_an_address() {
    let imported = text(
        "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n stats uri /s\n\
         frontend f\n bind 127.0.0.1:1\n default_backend b\n\
         frontend g\n bind 127.0.0.1:2\n default_backend b\n stats auth a:b\n\
         backend b\n server s 127.0.0.1:3\n\
         frontend bytes\n mode tcp\n bind 127.0.0.1:4\n default_backend c\n stats enable\n\
         backend c\n mode tcp\n server s 127.0.0.1:5\n",
    );
    let (word, reason) = outcome(&imported.coverage, "stats enable");
    assert!(word == "ignored" && reason.contains("mode http"), "{word} {reason}");
    let native = imported.native();
    let admin = config(imported).admin;
    assert_eq!(admin.iter().map(|one| one.roles.len()).collect::<Vec<_>>(), [0, 1], "{native}");
    // The lines of a section replace those of `defaults` as a whole.
    assert!(native.contains("/haproxy?stats"), "{native}");
}

#[test]
fn a_section_for_statistics_alone_is_guarded_as_a_page_is() {
    let section = |lines: &str| {
        text(&format!(
            "defaults\n mode http\n timeout client 1s\n timeout connect 1s\n timeout server 1s\n stats auth guest:guest\n\
             listen stats\n bind 127.0.0.1:9\n stats enable\n {lines}\n\
             frontend f\n bind 127.0.0.1:1\n default_backend b\nbackend b\n server s 127.0.0.1:3\n"
        ))
    };
    for guard in ["stats http-request deny unless { src 10.0.0.0/8 }", "stats scope ."] {
        let imported = section(guard);
        assert_eq!(outcome(&imported.coverage, "bind 127.0.0.1:9").0, "refused", "{guard}");
        assert!(config(imported).admin.iter().all(|one| one.roles.len() == 1), "{guard}");
    }
    // The users of the section replace those of `defaults`, who cannot change anything.
    let imported = section("stats auth admin:x\n stats admin if TRUE");
    let native = imported.native();
    assert!(native.contains("role operate password=admin:x"), "{native}");
    assert!(!native.contains("operate password=guest"), "{native}");
}
