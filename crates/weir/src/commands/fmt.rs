//! `weir fmt`: rewrites files in Weir's syntax in their canonical layout. The layout itself is in
//! `weir-config`.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use clap::Args;
use weir_import::Language;

use crate::failure::CommandFailure;
use crate::terminal;

/// Format configuration files
///
/// Indentation, spaces and blank lines get one canonical form; comments stay. The names of the
/// files that were changed are printed. A file with an error of syntax is left as it is.
#[derive(Args, Debug)]
pub(crate) struct FmtArguments {
    /// Configuration files; `-` formats standard input to standard output
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Change nothing; print the names of the files that would change, and exit with 1 if there are
    /// any
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &FmtArguments) -> Result<(), CommandFailure> {
    let mut code = 0;
    let mut changed = false;
    for path in &arguments.files {
        match format_one(path, arguments.check) {
            Ok(false) => {}
            Ok(true) => changed = true,
            Err(failure) => {
                terminal::say(&failure.message());
                code = code.max(failure.code());
            }
        }
    }
    match code {
        0 if changed && arguments.check => Err(CommandFailure::Exit(1)),
        0 => Ok(()),
        code => Err(CommandFailure::Exit(code)),
    }
}

/// Formats one file, or standard input. Returns true if the text was not in its canonical form.
fn format_one(path: &Path, check: bool) -> Result<bool, CommandFailure> {
    let input = path == Path::new("-");
    let name = if input { "<stdin>".to_owned() } else { path.display().to_string() };
    let failed = |error: io::Error| CommandFailure::RunTime(format!("{name}: {error}"));
    let mut bytes = Vec::new();
    if input {
        io::stdin().lock().read_to_end(&mut bytes).map_err(failed)?;
    } else {
        bytes = fs::read(path).map_err(failed)?;
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| CommandFailure::NotConverted(format!("{name}: this is not UTF-8 text")))?;
    native_only(&name, &text)?;
    let formatted = weir_config::formatted(&name, &text)
        .map_err(|diagnostics| CommandFailure::Rejected { name: name.clone(), diagnostics })?;
    let changed = formatted != text;
    if input && !check {
        terminal::print(&formatted)?;
    } else if changed {
        if !check {
            replace(path, &formatted).map_err(failed)?;
        }
        terminal::print(&format!("{name}\n"))?;
    }
    Ok(changed)
}

/// Refuses a text in another language, which would lose its meaning.
fn native_only(name: &str, text: &str) -> Result<(), CommandFailure> {
    let refused = |what: &str| Err(CommandFailure::Usage(format!("{name}: {what}")));
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return refused("this is JSON; `weir fmt` formats Weir's own syntax");
    }
    if Language::of(text) == Language::Native {
        return Ok(());
    }
    refused(
        "this is a file of another program; `weir import` prints it in Weir's syntax, formatted",
    )
}

/// Replaces the contents of a file at once: a reader finds the old or the new text. Owner and mode
/// stay, and a symbolic link stays one.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let before = fs::metadata(&path)?;
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.fmt", std::process::id()));
    let beside = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (before.uid(), before.gid()) {
            fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(before.permissions())?;
        file.sync_all()?;
        fs::rename(&beside, &path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
