//! The output files of `weir bench`, and the files of other runs to compare with. The formats
//! themselves are in `weir-lab`.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use weir_lab::bench::chart::{Charts, png};
use weir_lab::bench::files::{csv, json};
use weir_lab::bench::report::ReportInput;
use weir_lab::bench::spectrum::{Curve, spectrum};

use super::BenchArguments;
use crate::failure::CommandFailure;

/// The output files. They are opened before the run, so that a name that cannot be written to does
/// not cost the results of a long run.
pub(super) struct OutputFiles {
    json: Option<File>,
    hgrm: Option<File>,
    csv: Option<File>,
    svg: Option<File>,
    png: Option<File>,
    html: Option<File>,
}

impl OutputFiles {
    pub(super) fn open(arguments: &BenchArguments) -> Result<Self, CommandFailure> {
        let json = arguments.json.as_deref().filter(|_| !arguments.is_json_to_stdout());
        Ok(Self {
            json: json.map(create).transpose()?,
            hgrm: arguments.hgrm.as_deref().map(create).transpose()?,
            csv: arguments.csv.as_deref().map(create).transpose()?,
            svg: arguments.svg.as_deref().map(create).transpose()?,
            png: arguments.png.as_deref().map(create).transpose()?,
            html: arguments.html.as_deref().map(create).transpose()?,
        })
    }

    /// Writes all files; `text` is the report.
    pub(super) fn write(
        self,
        figures: &ReportInput<'_>,
        url: &str,
        text: &str,
        others: &[Curve],
    ) -> Result<(), CommandFailure> {
        let record = &figures.outcome.record;
        let charts = Charts { title: url, record, others };
        if let Some(file) = self.json {
            write(file, json_text(figures, url).as_bytes())?;
        }
        if let Some(file) = self.hgrm {
            write(file, spectrum(&record.response).as_bytes())?;
        }
        if let Some(file) = self.csv {
            write(file, csv(record.samples.as_deref().unwrap_or_default()).as_bytes())?;
        }
        if let Some(file) = self.svg {
            write(file, charts.svg().as_bytes())?;
        }
        if let Some(file) = self.png {
            write(file, &png(&charts.svg()).map_err(CommandFailure::RunTime)?)?;
        }
        if let Some(file) = self.html {
            write(file, charts.page(&figures.verdict().join("\n"), text).as_bytes())?;
        }
        Ok(())
    }
}

pub(super) fn json_text(figures: &ReportInput<'_>, url: &str) -> String {
    format!("{:#}\n", json(figures, url))
}

/// Reads the runs named by `--compare`.
pub(super) fn other_runs(names: &[String]) -> Result<Vec<Curve>, CommandFailure> {
    names.iter().map(|name| other_run(name)).collect()
}

fn other_run(argument: &str) -> Result<Curve, CommandFailure> {
    let (name, path) = match argument.split_once('=') {
        Some((name, path)) if !name.is_empty() && !Path::new(argument).exists() => (name, path),
        _ => {
            let stem = Path::new(argument).file_stem().and_then(|stem| stem.to_str());
            (stem.unwrap_or(argument), argument)
        }
    };
    let text = fs::read_to_string(path)
        .map_err(|error| CommandFailure::RunTime(format!("cannot read {path}: {error}")))?;
    let curve = Curve::read(path, &text).map_err(CommandFailure::RunTime)?;
    Ok(Curve { name: name.to_owned(), ..curve })
}

fn create(path: &Path) -> Result<File, CommandFailure> {
    File::create(path).map_err(|error| {
        CommandFailure::RunTime(format!("cannot write {}: {error}", path.display()))
    })
}

fn write(mut file: File, bytes: &[u8]) -> Result<(), CommandFailure> {
    file.write_all(bytes)
        .map_err(|error| CommandFailure::RunTime(format!("cannot write a results file: {error}")))
}
