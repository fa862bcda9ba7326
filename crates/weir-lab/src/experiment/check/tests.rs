use std::fs;
use std::path::PathBuf;

use super::read;
use crate::experiment::{
    CreditRules, Experiment, JudgedFigure, LatencyBudget, LoadEventAction, LoadLevel, LoadPace,
    RateShare, RoleCores, RunOrder, StopLimit, Workload,
};

/// A directory that is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-lab-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn read(&self, text: &str) -> Result<Experiment, String> {
        let path = self.0.join("x.lab");
        fs::write(&path, text).unwrap();
        let directory = self.0.display().to_string() + "/";
        read(&path, &|_| None).map_err(|errors| errors.render(false).replace(&directory, ""))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const WHOLE: &str = r#"
title "A comparison";
question "Which one?";
repeats 5;
order consecutive;
credits baseline=40% start=60m max=576m;
network 600mbit;
stop proxy_cpu>=98%;
stop p99>100ms each;
budget p99.9<=20ms;
judge p99 cpu mean;
proxy { cpus 0; }
origin { cpus rest; }
beside slow { command sleep 60; }
candidate nginx {
    version nginx -v;
    config nginx.conf { map "listen 443" "listen ${port}" "another port"; }
    command nginx -c ${dir}/nginx.conf -g "daemon off;";
    instances cores;
}
candidate weir { command ${weir} proxy --listen :${port} --to 127.0.0.1:${port_origin}; }
workload main {
    tls 1.3 TLS_AES_256_GCM_SHA384;
    connections 100; threads 4; duration 30s; path /10k; http2 8;
    rates 3000 1000..2000:500;
    event 1s signal origin STOP;
    event 500ms every=100ms until=1s run true;
    soak memory<=5% threads<=3;
    quick { duration 1s; rates 50% 100% of nginx; }
}
quick { repeats 2; credits baseline=20% start=5s; }
"#;

#[test]
fn a_whole_file_is_read_as_it_is_meant() {
    let place = Place::new("whole");
    fs::write(place.0.join("nginx.conf"), "server { listen 443 ssl; }\n").unwrap();
    let found = place.read(WHOLE).unwrap();
    assert_eq!(
        (found.title.as_str(), found.repeats, found.order),
        ("A comparison", 5, RunOrder::Consecutive)
    );
    assert_eq!(found.stops[0].limit, StopLimit::ProxyCpu(0.98));
    assert_eq!(
        (found.stops[1].limit, found.stops[1].each),
        (StopLimit::Percentile(99.0, 100_000_000), true)
    );
    assert_eq!(found.budget.unwrap().time_ns, 20_000_000);
    assert_eq!(
        found.judged,
        [JudgedFigure::Percentile(99.0), JudgedFigure::Cpu, JudgedFigure::Mean]
    );
    assert_eq!((&found.proxy, &found.client), (&RoleCores::List(vec![0]), &RoleCores::Rest));
    assert_eq!(
        (found.origins[0].program.as_str(), found.beside[0].package.as_str()),
        ("${weir}", "sleep")
    );
    let [nginx, weir] = found.candidates.as_slice() else { panic!() };
    assert_eq!((nginx.instances, weir.instances), (None, Some(1)));
    assert_eq!(nginx.configs[0].maps[0][1], "listen ${port}");
    assert_eq!(nginx.role.command.last().unwrap(), "daemon off;");
    assert_eq!(
        (nginx.role.ready.as_slice(), weir.role.ready.len()),
        (["port".to_owned()].as_slice(), 2)
    );
    let workload = &found.workloads[0];
    assert_eq!(workload.streams, Some(8));
    assert_eq!(
        workload.pace,
        LoadPace::Levels([1000.0, 1500.0, 2000.0, 3000.0].map(LoadLevel::Rate).to_vec())
    );
    assert_eq!(
        workload.events[0].action,
        LoadEventAction::Signal("origin".to_owned(), "STOP".to_owned())
    );
    assert_eq!(workload.events[1].every_ns, Some((100_000_000, 1_000_000_000)));
    let limits = workload.soak.unwrap();
    assert_eq!((limits.memory, limits.threads, limits.files), (0.05, 3.0, 5.0));
    let rules = CreditRules { baseline: 0.4, start_us: 3600e6, max_us: 576.0 * 60e6 };
    assert_eq!((found.credits, found.network_bits), (Some(rules), Some(6e8)));
    let quick = found.into_quick();
    let rules = CreditRules { baseline: 0.2, start_us: 5e6, max_us: 5e6 };
    assert_eq!(quick.credits, Some(rules));
    assert_eq!((quick.repeats, quick.workloads[0].duration_ns), (2, 1_000_000_000));
    let shares = LoadPace::Shares(vec![RateShare(0.5), RateShare(1.0)], vec!["nginx".to_owned()]);
    assert_eq!((quick.workloads[0].pace.clone(), quick.workloads[0].connections), (shares, 100));
}

/// Each mistake is reported, all of them at once, with its place and what to write instead.
#[test]
fn all_mistakes_are_reported_at_once_with_their_places() {
    let place = Place::new("bad");
    let errors = place
        .read(
            "titel \"x\";\nrepeats many;\norder mixed;\ncandidate weir {\n  comand x;\n}\n\
            workload main { rates 5..1:1; connections 0; tls 1.4; event 1s signal nobody STOP; }\n\
            stop p99;\nrepeats 3\n",
        )
        .unwrap_err();
    for part in [
        "x.lab:1:1",
        "unknown word `titel` at the top level",
        "did you mean `title`?",
        "`many` is no `repeats`: write a whole number from 1 to 100",
        "unknown value `mixed` of `order`",
        "did you mean `command`?",
        "x.lab:5:3",
        "`5..1:1` ends before it begins",
        "`0` is no `connections`",
        "unknown value `1.4` of `tls`",
        "unknown role `nobody`",
        "`p99` is no condition",
        "a `;` is missing after `3`",
        "`repeats` is allowed here only once",
        "the experiment has no `title`",
        "the candidate `weir` has no `command`",
    ] {
        assert!(errors.contains(part), "no {part:?} in\n{errors}");
    }
}

#[test]
fn the_generator_is_in_time_up_to_the_highest_percentile_that_decides() {
    let place = Place::new("lateness");
    fs::write(place.0.join("nginx.conf"), "server { listen 443 ssl; }\n").unwrap();
    let found = place.read(WHOLE).unwrap();
    let percent = |figures: &[JudgedFigure], workloads: &[Workload]| {
        let budget = found.budget.map(|budget| LatencyBudget { percentile: 95.0, ..budget });
        let judged = figures.to_vec();
        let workloads = workloads.to_vec();
        let own = Experiment { judged, budget, stops: Vec::new(), workloads, ..found.clone() };
        own.lateness_percent().to_string()
    };
    let percent_of = |figures: &[JudgedFigure]| percent(figures, &[]);
    let [p50, p9999] = [50.0, 99.99].map(JudgedFigure::Percentile);
    assert_eq!(percent_of(&[JudgedFigure::Cpu, p50]), "95", "the knee's");
    assert_eq!(percent(&[JudgedFigure::Cpu], &found.workloads), "99", "that of a soak");
    assert_eq!(percent_of(&[p50, p9999]), "99.9");
    assert_eq!(percent_of(&[p50, JudgedFigure::Mean]), "99.9");
}

#[test]
fn each_mistake_has_its_sentence() {
    let place = Place::new("each");
    fs::write(place.0.join("a.conf"), "listen 1;").unwrap();
    let check = |change: &str, expected: &str| {
        let base = "title x; candidate weir { command weir ${port}; } workload main { rates 1; }\n";
        let errors = place.read(&format!("{base}{change}")).unwrap_err();
        assert!(errors.contains(expected), "{change}: no {expected:?} in\n{errors}");
    };
    check("candidate weir { command x ${port}; }", "there are two parts `weir`");
    check("candidate direct { command x ${port}; }", "`direct` is the name of something else");
    check("candidate a/b { command x ${port}; }", "`a/b` is no name of a candidate");
    check("candidate a { command x; }", "does not listen on `${port}`");
    check("candidate a { command x ${port}; config b.conf; }", "cannot read b.conf");
    check(
        "candidate a { command x ${port}; config a.conf { map 443 1; } }",
        "a.conf has no text `443`",
    );
    check("candidate a { command x ${port}; config ../a.conf; }", "does not lie beside");
    fs::create_dir_all(place.0.join("b")).unwrap();
    fs::write(place.0.join("b/a.conf"), "listen 2;").unwrap();
    fs::write(place.0.join("output"), "listen 3;").unwrap();
    check(
        "candidate a { command x ${port}; config a.conf; config b/a.conf; }",
        "two configurations are written as `a.conf`",
    );
    check(
        "candidate a { command x ${port}; config output; }",
        "is the file of the program's output",
    );
    // Each replacement makes the text a hundred times as long.
    let longer = format!("map 1 {};", "1".repeat(100));
    let maps = longer.repeat(20);
    check(
        &format!("candidate a {{ command x ${{port}}; config a.conf {{ {maps} }} }}"),
        "a.conf becomes larger",
    );
    check("candidate a { command x ${port}; ready prt; }", "`prt` is no name of a port");
    check("workload b { path x; rates 1; }", "`x` is no path");
    check("workload b { }", "neither `rates` nor `concurrency`");
    check("workload b { http2 5; rates 1; }", "`http2`, which needs `tls`");
    check("workload b { http2 5; tls 1.3; keepalive off; rates 1; }", "`keepalive on`");
    check("workload b { rates 1; concurrency 2; }", "either `rates` or `concurrency`");
    check("workload b { rates 50% of; }", "write shares and names");
    check("workload b { rates 50% of wier; }", "did you mean `weir`?");
    check("workload b { rates 1; duration 0s; }", "longer than nothing");
    check("workload b { rates 1; duration 25h; }", "at most 24h");
    check("workload b { rates 1; threads 60; }", "60 threads need as many connections");
    check("workload b { rates 1; event 1s jump; }", "needs 3 words");
    check("workload b { rates 1; event 1s jump very high; }", "an event is");
    check("workload b { rates 1; event 1s signal proxy FOO; }", "`FOO` is no signal");
    check("workload b { rates 1; event 1s every=1s run x; }", "belong together");
    check("workload b { rates 1; event 0s every=1ms until=1h run x; }", "at most 1000 times");
    check("network fast;", "`fast` is no bandwidth");
    check("network -1mbit;", "is no bandwidth");
    check("credits baseline=40% max=5s;", "needs `baseline=` and `start=`");
    check("credits baseline=40 start=5s;", "`40` is not a share");
    check("credits baseline=40% start=5;", "a time needs a unit");
    check("credits baseline=40% start=5s max=1s;", "not below that at the start");
    check("credits baseline=40% begin=5s;", "`begin=5s` is not");
    check("workload b { rates 1; soak memory; }", "`memory` is no limit");
    check("workload b { rates 1; soak memory<=2; }", "`2` is not a share");
    check("workload b { rates 1; soak files<=x; }", "`x` is no whole number");
    check("workload b { rates 1; soak disk<=2%; }", "`disk` is not watched");
    check("proxy { cpus 3-1; }", "`3-1` is no list of cores");
    check("beside slow { cpus 0; }", "`slow` has no `command`");
    check("stop proxy_cpu>=98% all;", "`all` is not `each`");
    check("budget p99.9;", "is no budget");
    check("judge p100;", "`p100` is no figure");
    check("quick { order interleaved; }", "unknown word `order` in `quick`");
    check("client { cpus 0 }", "a `;` is missing after `0`");
    check("title \"open", "never closed");
    check("workload b { rates 1..300:1; }", "at most 200");
}

#[test]
fn a_file_that_is_not_there_is_one_sentence() {
    let missing = std::env::temp_dir().join("weir-lab-there-is-no-such-file.lab");
    let errors = read(&missing, &|_| None).unwrap_err().render(false);
    assert!(errors.contains("cannot read"), "{errors}");
}
