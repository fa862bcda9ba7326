//! The report of an experiment: a folder with a page, charts, tables for programs, histograms, and
//! the command that runs it again. Everything is derived from the stored runs.

mod charts;
mod compare;
mod export;
mod page;
mod results;
mod summary;
mod tables;

use std::fmt::Write as _;
use std::path::Path;

use crate::bench::chart::png;
use crate::lab::RunStore;

pub use charts::{ExperimentChart, charts};
pub use compare::compare;
pub use results::LabResults;
pub use summary::summary;
pub use tables::ReportTable;

/// Writes all files of the report into the folder of the experiment.
///
/// # Errors
/// One sentence if a file cannot be written.
pub fn write(results: LabResults<'_>, store: &RunStore) -> Result<(), String> {
    let charts = charts(results);
    for chart in &charts {
        store.write(&format!("charts/{}.svg", chart.name), chart.svg.as_bytes())?;
        store.write(&format!("charts/{}.png", chart.name), &png(&chart.svg)?)?;
    }
    for (name, text) in export::files(results) {
        store.write(&name, text.as_bytes())?;
    }
    store.write("summary.txt", summary(results).as_bytes())?;
    store.write("report.html", page::page(results, &charts).as_bytes())?;
    make_executable(&store.path("rerun.sh"))
}

/// Writes the small results that a repository keeps: figures as Markdown, and charts as SVG.
///
/// # Errors
/// One sentence if a file cannot be written.
pub fn publish(results: LabResults<'_>, directory: &Path) -> Result<(), String> {
    let store = RunStore::at(directory);
    let mut text = export::markdown(results);
    for chart in charts(results).iter().filter(|chart| chart.is_published) {
        store.write(&format!("{}.svg", chart.name), chart.svg.as_bytes())?;
        let caption = chart.caption.replace(['[', ']'], "");
        let _ = writeln!(text, "\n![{caption}]({}.svg)", chart.name);
    }
    store.write("README.md", text.as_bytes())
}

fn make_executable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, permissions)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
