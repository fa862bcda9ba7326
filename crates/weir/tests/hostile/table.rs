//! Writes the table of `docs/security.md`: the same patterns against Weir, nginx and haproxy.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::judge::{Effort, Measured, Pattern, Verdict, measure};
use crate::proxies::{Kind, weir_program};
use crate::support::process::{command, finish};

/// The effort of the table: about three seconds per pattern and proxy.
const THOROUGH: Effort =
    Effort { rounds: 3, quiet: Duration::from_millis(300), hostile: Duration::from_millis(600) };
/// The marks around the table in the page.
const BEGIN: &str = "<!-- make hostile-table: begin -->\n";
const END: &str = "<!-- make hostile-table: end -->";

/// Formats the results of a pattern in one line.
pub(crate) fn line(pattern: &Pattern, measured: &Measured) -> String {
    format!(
        "{}: p50 {} -> {}, p99 {} -> {}, {} failed, cpu {:.0}%, +{:.1} MB, {:?} descriptors, {:?}: {}",
        pattern.name,
        ms(measured.quiet.p50),
        ms(measured.hostile.p50),
        ms(measured.quiet.p99),
        ms(measured.hostile.p99),
        measured.failed,
        measured.processor * 100.0,
        megabytes(measured.memory),
        measured.descriptors,
        measured.outcome.verdict,
        measured.outcome.said,
    )
}

fn ms(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    if ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") }
}

fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Formats the results of a pattern at one proxy as three cells.
fn cells(measured: &Measured) -> [String; 3] {
    if let Some(died) = &measured.died {
        return ["**ended**".to_owned(), "–".to_owned(), died.clone()];
    }
    let mut latency = format!("{} → {}", ms(measured.quiet.p99), ms(measured.hostile.p99));
    if measured.failed > 0 {
        let _ = write!(latency, ", {} failed", measured.failed);
    }
    if !measured.honest_client_is_served() {
        latency = format!("**{latency}**");
    }
    let said = match measured.outcome.verdict {
        Verdict::Held => measured.outcome.said.clone(),
        Verdict::Broken => format!("**{}**", measured.outcome.said),
        Verdict::Absent => "–".to_owned(),
    };
    [latency, format!("{:.1}", megabytes(measured.memory)), said]
}

/// Returns the names and versions of the programs and the machine.
fn versions() -> String {
    let said = |program: &str, flag: &str| {
        let done = finish(command(program).arg(flag), b"");
        let all = [done.stdout, done.stderr].concat();
        String::from_utf8_lossy(&all).lines().next().unwrap_or_default().trim().to_owned()
    };
    let haproxy = said("haproxy", "-v");
    let haproxy = haproxy.split(' ').nth(2).unwrap_or_default().to_owned();
    let nginx = said("nginx", "-v").replace("nginx version: nginx/", "");
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processors = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let cpu = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown", |(_, name)| name)
        .to_owned();
    let kernel = said("uname", "-r");
    let built = if weir_program().contains("/debug/") { "debug" } else { "release" };
    format!(
        "Weir {} ({built} build), nginx {nginx}, HAProxy {haproxy}; {processors} processors ({cpu}), \
         Linux {kernel}.",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the cells that the page has for a pattern, three for each proxy.
fn former_cells(table: &str, name: &str) -> Vec<String> {
    let start = format!("| `{name}` |");
    let row = table.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
    let row = row.trim_end_matches(" |");
    let mut cells: Vec<_> = row.split(" | ").skip(2).map(str::to_owned).collect();
    cells.resize(9, "–".to_owned());
    cells
}

/// Returns the page's path, the text before the table, the table, and the text after it.
fn page() -> (PathBuf, String, String, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    (path, before.to_owned(), table.to_owned(), after.to_owned())
}

/// Writes a pattern's cells of one proxy into the page.
fn put(patterns: &[Pattern], name: &str, place: usize, measured: &Measured) {
    let (path, before, former, after) = page();
    let mut table = format!("{}\n\n", versions());
    table.push_str(
        "| pattern | class | Weir p99 | MB | outcome | nginx p99 | MB | outcome | HAProxy p99 | MB | outcome |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for pattern in patterns {
        let mut row = former_cells(&former, pattern.name);
        if pattern.name == name {
            row[3 * place..3 * place + 3].clone_from_slice(&cells(measured));
        }
        let _ = writeln!(table, "| `{}` | {} | {} |", pattern.name, pattern.class, row.join(" | "));
    }
    std::fs::write(path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
}

/// Writes the table into the page, row by row. `WEIR_HOSTILE_PROXIES=weir,nginx` measures these and
/// keeps the page's values of the others.
#[test]
#[ignore = "takes ten minutes: make hostile-table"]
fn the_table_alone_on_the_machine() {
    let chosen = std::env::var("WEIR_HOSTILE_PROXIES");
    let chosen = chosen.as_deref().unwrap_or("weir,nginx,haproxy");
    let patterns = super::all();
    for pattern in &patterns {
        for (place, kind) in [Kind::Weir, Kind::Nginx, Kind::Haproxy].into_iter().enumerate() {
            if chosen.split(',').any(|name| name.eq_ignore_ascii_case(&format!("{kind:?}"))) {
                let measured = measure(kind, pattern, THOROUGH);
                println!("{kind:?} {}", line(pattern, &measured));
                put(&patterns, pattern.name, place, &measured);
            }
        }
    }
}
