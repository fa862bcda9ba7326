//! Sticky sessions with curl's cookie jar: a client stays at its server over restarts of Weir and a
//! drain, and not after the secret changes.

use crate::support::Directory;
use crate::support::programs::{Certificate, Nginx, curl};
use crate::support::weir::Weir;

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Starts nginx origins that return their name and the cookies they see.
fn origins(directory: &Directory) -> [Nginx; 3] {
    NAMES.map(|name| {
        let server = format!(
            "access_log off; server {{ listen ADDRESS; location / {{ return 200 \"{name} [$http_cookie]\"; }} }}"
        );
        Nginx::start(directory, name, &server)
    })
}

/// Starts Weir over TLS in front of them; `words` are the options of the server `name`.
fn weir(directory: &Directory, origins: &[Nginx; 3], (name, words): (&str, &str)) -> Weir {
    let servers = NAMES.iter().zip(origins).map(|(own, origin)| {
        let words = if *own == name { words } else { "" };
        format!("server {} name={own} {words};", origin.address)
    });
    let certificate = Certificate {
        chain: directory.path().join("localhost.pem"),
        key: directory.path().join("localhost.key"),
    };
    let config = format!(
        "pool app {{ {} sticky cookie SRV insert httponly secure samesite=lax secret_file=sticky.secret; }}
         listen 127.0.0.1:0 tls -> app {{ {} }}",
        servers.collect::<String>(),
        certificate.directive()
    );
    Weir::start(directory, &config)
}

/// Sends a request with a cookie jar, which keeps the cookies of the response.
fn ask(directory: &Directory, weir: &Weir, jar: &str) -> String {
    let jar = directory.text(jar);
    let port = weir.address().port();
    let (url, resolve) =
        (format!("https://localhost:{port}/"), format!("localhost:{port}:127.0.0.1"));
    let arguments =
        ["--insecure", "--resolve", &resolve, "-b", &jar, "-c", &jar, "-b", "theme=dark", &url];
    String::from_utf8(curl(arguments)).unwrap()
}

#[test]
fn a_cookie_jar_stays_at_its_server_over_restarts_and_through_a_drain() {
    let directory = Directory::new();
    let origins = origins(&directory);
    Certificate::localhost(&directory);
    directory.file("sticky.secret", "0123456789abcdef0123456789abcdef\n");
    let first = weir(&directory, &origins, ("", ""));
    let bound = ask(&directory, &first, "jar");
    let name = bound.split(' ').next().unwrap().to_owned();
    assert_eq!(bound, format!("{name} [theme=dark]"), "always set by Weir");
    let jar = std::fs::read_to_string(directory.text("jar")).unwrap();
    assert!(jar.contains("#HttpOnly_localhost\tFALSE\t/\tTRUE\t0\tSRV\t"), "{jar}");
    for _ in 0..6 {
        assert_eq!(ask(&directory, &first, "jar"), bound);
    }
    drop(first);

    let restarted = weir(&directory, &origins, ("", ""));
    assert_eq!(ask(&directory, &restarted, "jar"), bound);
    assert_eq!(std::fs::read_to_string(directory.text("jar")).unwrap(), jar, "nothing was set");
    drop(restarted);

    let draining = weir(&directory, &origins, (&name, "drain"));
    assert_eq!(ask(&directory, &draining, "jar"), bound);
    for other in ["jar2", "jar3", "jar4"] {
        assert_ne!(ask(&directory, &draining, other), bound);
    }
    drop(draining);

    directory.file("sticky.secret", "another-secret-of-32-bytes------\n");
    let changed = weir(&directory, &origins, ("", ""));
    ask(&directory, &changed, "jar");
    assert_ne!(
        std::fs::read_to_string(directory.text("jar")).unwrap(),
        jar,
        "the cookie was replaced"
    );
    drop(changed);

    directory.file("sticky.secret", "0123456789abcdef0123456789abcdef\n");
    std::fs::write(directory.text("jar"), jar).unwrap();
    let down = weir(&directory, &origins, (&name, "down"));
    let moved = ask(&directory, &down, "jar");
    assert_ne!(moved, bound);
    assert_eq!(ask(&directory, &down, "jar"), moved, "and stays where it moved");
}
