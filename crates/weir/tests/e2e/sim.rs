//! `weir sim` replays a recorded day: the access log that Weir writes is accepted as a trace.

use serde_json::Value;

use crate::support::process::finish;
use crate::support::programs::curl;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

#[test]
fn the_json_access_log_is_a_trace() {
    let directory = Directory::new();
    let origin = Weir::origin(&["--listen", "127.0.0.1:0", "--service-time", "3ms"], 1);
    let log = directory.path().join("access.json");
    let weir = Weir::start(
        &directory,
        &format!(
            "log access {{ to {}; format json; }}\npool app {{ server {}; }}\n\
            listen 127.0.0.1:0 {{\n    log access;\n    route path /here -> respond 200 here;\n    route -> app;\n}}\n",
            log.display(),
            origin.address()
        ),
    );
    for _ in 0..5 {
        curl([weir.url(0, "/1k").as_str()]);
    }
    curl([weir.url(0, "/here").as_str()]);
    eventually("all is logged", || {
        let text = std::fs::read_to_string(&log).ok()?;
        (text.lines().count() == 6).then_some(())
    });
    let mut command = weir_command();
    command.args(["sim", "--max-conn", "none,1", "--json", "-", "--trace"]).arg(&log);
    let output = finish(&mut command, b"");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["title"].as_str().unwrap().contains("1 line"), "{json}");
    let scenario = &json["scenarios"][0];
    assert_eq!((&scenario["requests"], &scenario["service"]), (&5.into(), &"trace".into()));
    let row = &scenario["rows"][0];
    assert_eq!(row["ends"]["answered"], 5);
    let text = std::fs::read_to_string(&log).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_pool: Vec<Value> = lines.filter(|line| line["pool"] == "app").collect();
    let part = |line: &Value, name: &str| line[name].as_u64().unwrap();
    assert!(of_pool.iter().all(|line| part(line, "t_total") >= 3_000), "the origin's 3 ms: {text}");
    let served = of_pool.iter().map(|line| part(line, "t_response") + part(line, "t_data"));
    let fastest = row["fastest_us"].as_f64().unwrap().round() as u64;
    assert_eq!(fastest, served.min().unwrap(), "{row} {text}");
}
