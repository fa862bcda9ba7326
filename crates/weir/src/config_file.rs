//! The configuration file of the commands that read one: Weir's own, or another program's, which is
//! converted.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::Value;
use weir_config::source::Mappings;
use weir_config::{Checked, Config, Origins};
use weir_import::{Coverage, HaproxyVersion, Imported, Language, NginxVersion};

use crate::failure::CommandFailure;
use crate::terminal;

/// The default configuration file.
pub(crate) const CONFIGURATION_FILE: &str = "/etc/weir/weir.conf";

/// The flags about addresses and paths of a configuration file that are others on this machine.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MappingArguments {
    /// Use another address than the file does, to run it on a test machine; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    map_addr: Vec<String>,
    /// Use another path than the file does, for all that is below it too; may be repeated
    #[arg(long, value_name = "FROM=TO")]
    map_path: Vec<String>,
}

impl MappingArguments {
    fn mappings(&self) -> Result<Mappings, CommandFailure> {
        Mappings::parse(&self.map_addr, &self.map_path).map_err(CommandFailure::Usage)
    }
}

/// The flags about the language of a configuration file.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct LanguageArguments {
    /// Language of the file [default: found by its directives]
    #[arg(long, value_name = "LANGUAGE")]
    from: Option<LanguageName>,
    /// Accept a file of another program although directives in it are refused
    #[arg(long)]
    accept_ignored: bool,
    #[command(flatten)]
    mapping: MappingArguments,
    #[command(flatten)]
    assume: AssumeArguments,
}

/// The flag about the version of another program.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct AssumeArguments {
    /// Version whose defaults hold, such as nginx=1.31 or haproxy=2.6 [default: nginx=1.22,
    /// haproxy=3.4]
    #[arg(long = "assume", value_name = "PROGRAM=VERSION", value_parser = AssumedVersion::parse)]
    version: Option<AssumedVersion>,
}

impl LanguageArguments {
    /// Returns the arguments for a command that starts nothing, so that refused directives are
    /// reported and do not stop it.
    pub(crate) fn of(
        from: Option<LanguageName>,
        mapping: MappingArguments,
        assume: AssumeArguments,
    ) -> Self {
        Self { from, accept_ignored: true, mapping, assume }
    }

    /// Returns what is said of a file that was taken for one of this language by its directives.
    fn supposed(&self, language: Language) -> &'static str {
        match (self.from, language) {
            (Some(_), _) | (None, Language::Native) => "",
            (None, Language::Nginx) => {
                ", read as a file of nginx (--from weir reads it as one of Weir)"
            }
            (None, Language::Haproxy) => {
                ", read as a file of HAProxy (--from weir reads it as one of Weir)"
            }
        }
    }

    fn nginx_version(&self, path: &Path) -> Result<NginxVersion, CommandFailure> {
        match self.assume.version {
            None => Ok(NginxVersion::USUAL),
            Some(AssumedVersion::Nginx(version)) => Ok(version),
            Some(AssumedVersion::Haproxy(_)) => Err(wrong_program(path, "nginx")),
        }
    }

    fn haproxy_version(&self, path: &Path) -> Result<HaproxyVersion, CommandFailure> {
        match self.assume.version {
            None => Ok(HaproxyVersion::LATEST),
            Some(AssumedVersion::Haproxy(version)) => Ok(version),
            Some(AssumedVersion::Nginx(_)) => Err(wrong_program(path, "HAProxy")),
        }
    }
}

/// The name of a language on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LanguageName {
    Weir,
    Nginx,
    Haproxy,
}

/// The value of `--assume`.
#[derive(Clone, Copy, Debug)]
enum AssumedVersion {
    Nginx(NginxVersion),
    Haproxy(HaproxyVersion),
}

impl AssumedVersion {
    fn parse(text: &str) -> Result<Self, String> {
        let (program, version) = text.split_once('=').unwrap_or_default();
        let assumed = match program {
            "nginx" => NginxVersion::parse(version).map(Self::Nginx),
            "haproxy" => HaproxyVersion::parse(version).map(Self::Haproxy),
            _ => None,
        };
        assumed.ok_or_else(|| "write `nginx=1.31` or `haproxy=2.6`".to_owned())
    }
}

/// Returns the failure for a version of another program.
fn wrong_program(path: &Path, program: &str) -> CommandFailure {
    CommandFailure::Usage(format!(
        "{}: this is a file of {program}, and `--assume` names another program",
        path.display()
    ))
}

/// A configuration file that was read.
pub(crate) enum ConfigFile {
    /// A file in Weir's own syntax or its JSON form.
    Native,
    /// A file of nginx or HAProxy.
    Imported(Box<Imported>),
}

/// Reads and checks a file, and returns the lines that its values come from too. Warnings go to
/// standard error, and so do the directives of another program's file that are refused.
pub(crate) fn load(
    path: &Path,
    language: &LanguageArguments,
) -> Result<(Config, Origins), CommandFailure> {
    let checked = checked_file(path, language)?;
    let origins = Origins::of(&checked);
    Ok((checked.config, origins))
}

/// Does the same, and returns the places of the configuration's parts too.
pub(crate) fn checked_file(
    path: &Path,
    language: &LanguageArguments,
) -> Result<Checked, CommandFailure> {
    match open(path, language)? {
        ConfigFile::Native => native_mapped(path, language.mapping.mappings()?),
        ConfigFile::Imported(imported) => {
            for entry in imported.coverage.refused() {
                let (file, line) = (&entry.file, entry.line);
                let reason = entry.outcome.reason();
                let text = format!("weir: {file}:{line}: refused: {}: {reason}\n", entry.directive);
                terminal::say(&text);
            }
            accept(&imported, path, language)?;
            checked(*imported, path)
        }
    }
}

/// Returns the line of a value in a list of values with their sources.
pub(crate) fn value_line(source: &str, path: &str, value: &Value) -> String {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    format!("{source}: {path} = {value}\n")
}

/// Finds the language of a file, and converts it if it is another program's.
pub(crate) fn open(
    path: &Path,
    language: &LanguageArguments,
) -> Result<ConfigFile, CommandFailure> {
    let found = match language.from {
        Some(LanguageName::Weir) => Language::Native,
        Some(LanguageName::Nginx) => Language::Nginx,
        Some(LanguageName::Haproxy) => Language::Haproxy,
        // A pipe can be read only once, and a file that cannot be read is reported later.
        None if !path.is_file() => Language::Native,
        None => match std::fs::read(path) {
            Ok(bytes) => Language::of(&String::from_utf8_lossy(&bytes)),
            Err(_) => Language::Native,
        },
    };
    let imported = match found {
        Language::Native => return Ok(ConfigFile::Native),
        Language::Nginx => {
            let version = language.nginx_version(path)?;
            weir_import::nginx_file_as(path, version, language.mapping.mappings()?)
        }
        Language::Haproxy => {
            let version = language.haproxy_version(path)?;
            weir_import::haproxy_file(path, version, language.mapping.mappings()?)
        }
    };
    match imported {
        Ok(imported) => Ok(ConfigFile::Imported(Box::new(imported))),
        Err(diagnostics) => {
            let name = format!("{}{}", path.display(), language.supposed(found));
            Err(CommandFailure::Rejected { name, diagnostics })
        }
    }
}

/// Fails if directives are refused, unless that is accepted.
pub(crate) fn accept(
    imported: &Imported,
    path: &Path,
    language: &LanguageArguments,
) -> Result<(), CommandFailure> {
    let refused = imported.coverage.refused().count();
    if refused == 0 || language.accept_ignored {
        return Ok(());
    }
    let plural = if refused == 1 { "directive is" } else { "directives are" };
    // A file of which nothing is known is probably one of another language.
    let is_known = refused < imported.coverage.entries.len();
    let supposed = if is_known { "" } else { language.supposed(imported.language()) };
    Err(CommandFailure::NotConverted(format!(
        "{}{supposed}: {refused} {plural} refused; --accept-ignored goes on without them",
        path.display()
    )))
}

/// Reads and checks a native file.
pub(crate) fn native(path: &Path) -> Result<Checked, CommandFailure> {
    native_mapped(path, Mappings::default())
}

fn native_mapped(path: &Path, mappings: Mappings) -> Result<Checked, CommandFailure> {
    let environment = |name: &str| std::env::var(name).ok();
    verdict(weir_config::load_mapped(path, &environment, mappings), path)
}

/// Fails if a mapping matched nothing in the file.
pub(crate) fn all_match(mappings: &Mappings, path: &Path) -> Result<(), CommandFailure> {
    mappings.unmatched().map_or(Ok(()), |sentence| {
        Err(CommandFailure::Usage(format!("{}: {sentence}", path.display())))
    })
}

/// Checks a converted file.
pub(crate) fn checked(imported: Imported, path: &Path) -> Result<Checked, CommandFailure> {
    verdict(imported.check(), path)
}

/// Checks a converted file, and prints the report on it before what the check finds.
pub(crate) fn checked_with_report(
    imported: Imported,
    path: &Path,
    report: fn(&Coverage) -> String,
) -> Result<Checked, CommandFailure> {
    let (checked, report) = imported.check_beside(|coverage| {
        let _batching = weir_memory::batch_here();
        report(&coverage)
    });
    terminal::print(&report)?;
    verdict(checked, path)
}

fn verdict(
    outcome: Result<Checked, weir_config::Diagnostics>,
    path: &Path,
) -> Result<Checked, CommandFailure> {
    match outcome {
        Ok(checked) => {
            all_match(checked.sources.mappings(), path)?;
            terminal::warn(&checked.warnings);
            Ok(checked)
        }
        Err(diagnostics) => Err(rejected(path, diagnostics)),
    }
}

fn rejected(path: &Path, diagnostics: weir_config::Diagnostics) -> CommandFailure {
    CommandFailure::Rejected { name: path.display().to_string(), diagnostics }
}
