//! Variants of a run: each has flags of its own, they run in turns, and are compared.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use clap::{FromArgMatches, Parser};
use serde_json::Value;
use weir_lab::bench::files::json;
use weir_lab::compare::{ComparedVariant, RecordedRun, RunComparison};

use super::compare::{ComparisonOutput, cannot};
use super::{BenchArguments, PreparedRun, count};
use crate::failure::CommandFailure;
use crate::terminal;

/// A variant of the command line.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    name: String,
    flags: VariantFlags,
}

/// The flags that a variant may have. They have the meaning of those of `weir bench`.
#[derive(Clone, Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct VariantFlags {
    #[arg(value_name = "URL")]
    urls: Vec<String>,
    #[arg(short, long, value_name = "N", value_parser = count)]
    connections: Option<f64>,
    #[arg(short = 'H', long, value_name = "HEADER")]
    header: Vec<String>,
    #[arg(long)]
    no_keepalive: bool,
    #[arg(long)]
    http2: bool,
    #[arg(short = 'm', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    streams: Option<u32>,
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"])]
    tls: Option<String>,
    #[arg(long, value_name = "LIST")]
    ciphers: Option<String>,
    #[arg(long)]
    no_resumption: bool,
    #[arg(long, value_name = "HOST:PORT")]
    connect_to: Option<String>,
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    #[arg(long, value_name = "PORT")]
    port: Vec<u16>,
}

impl Variant {
    /// Parses `NAME=FLAGS`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, flags) = text.split_once('=').unwrap_or((text, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.starts_with(['.', '-']) || !name.bytes().all(is_plain) {
            return Err(format!(
                "`{name}` is not a name: write `NAME=FLAGS` with letters, digits, dots and dashes"
            ));
        }
        let matches = <VariantFlags as clap::CommandFactory>::command()
            .try_get_matches_from(words(flags)?)
            .and_then(|matches| VariantFlags::from_arg_matches(&matches));
        let flags = matches.map_err(|error| {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.strip_prefix("error: ").unwrap_or(first).to_owned()
        })?;
        Ok(Self { name: name.to_owned(), flags })
    }

    /// Refuses flags that exclude each other, of the variant and of all.
    ///
    /// # Errors
    /// One sentence.
    pub(super) fn check(&self, common: &BenchArguments) -> Result<(), CommandFailure> {
        let all = self.arguments(common);
        let wrong = if all.http2 && all.no_keepalive {
            "`--http2` and `--no-keepalive` exclude each other"
        } else if self.flags.streams.is_some() && !all.http2 {
            "`--streams` needs `--http2`"
        } else {
            return Ok(());
        };
        Err(CommandFailure::Usage(format!("variant {}: {wrong}", self.name)))
    }

    /// The arguments of its runs.
    fn arguments(&self, common: &BenchArguments) -> BenchArguments {
        let flags = self.flags.clone();
        let several =
            |own: Vec<_>, common: &[_]| if own.is_empty() { common.to_vec() } else { own };
        let is_watched = !flags.pid.is_empty() || !flags.port.is_empty();
        let (pid, port) = if is_watched {
            (flags.pid, flags.port)
        } else {
            (common.pid.clone(), common.port.clone())
        };
        BenchArguments {
            urls: several(flags.urls, &common.urls),
            connections: flags.connections.unwrap_or(common.connections),
            header: [common.header.clone(), flags.header].concat(),
            no_keepalive: flags.no_keepalive || common.no_keepalive,
            http2: flags.http2 || common.http2,
            streams: flags.streams.unwrap_or(common.streams),
            tls: flags.tls.or_else(|| common.tls.clone()),
            ciphers: flags.ciphers.or_else(|| common.ciphers.clone()),
            no_resumption: flags.no_resumption || common.no_resumption,
            connect_to: flags.connect_to.or_else(|| common.connect_to.clone()),
            source: flags.source.or(common.source),
            pid,
            port,
            ..common.clone()
        }
    }
}

/// Splits a line into words. Quotes join words, as in a shell.
fn words(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("the quote {quote} is not closed"));
    }
    words.extend(word);
    Ok(words)
}

/// Runs the variants in turns and compares them.
pub(super) fn run(common: &BenchArguments) -> Result<(), CommandFailure> {
    let variants = named(common)?;
    common.variant.iter().try_for_each(|variant| variant.check(common))?;
    // Mistakes and targets that do not respond come before the first run.
    for (_, arguments) in &variants {
        PreparedRun::of(arguments)?;
    }
    let kept = common.keep.as_deref();
    for (name, _) in &variants {
        if let Some(directory) = kept.map(|kept| kept.join(name)) {
            create(&directory)?;
        }
    }
    let output = ComparisonOutput::open(common.json.as_deref())?;
    let mut compared: Vec<ComparedVariant> = variants
        .iter()
        .map(|(name, _)| ComparedVariant { name: (*name).to_owned(), runs: Vec::new() })
        .collect();
    let ended = run_rounds(common, &variants, &mut compared);
    if compared.iter().any(|variant| variant.runs.is_empty()) {
        ended?;
        return Err(CommandFailure::RunTime("no round was completed".to_owned()));
    }
    // An error in a later round does not lose the ones before it.
    let comparison = RunComparison::of(compared).map_err(CommandFailure::RunTime)?;
    output.write(&comparison)?;
    ended
}

/// Runs all rounds. Whatever ends them, `compared` has all complete ones.
fn run_rounds(
    common: &BenchArguments,
    variants: &[(&str, BenchArguments)],
    compared: &mut [ComparedVariant],
) -> Result<(), CommandFailure> {
    for round in 0..common.repeat {
        let Some(results) = run_round(variants, round)? else {
            terminal::say("weir: stopped; the unfinished round is left out\n");
            break;
        };
        let runs: Result<Vec<_>, String> =
            results.iter().map(|result| RecordedRun::of(result.clone())).collect();
        for (variant, run) in compared.iter_mut().zip(runs.map_err(CommandFailure::RunTime)?) {
            variant.runs.push(run);
        }
        if let Some(kept) = common.keep.as_deref() {
            for ((name, _), result) in variants.iter().zip(&results) {
                write(kept, name, round, result)?;
            }
        }
    }
    Ok(())
}

/// The variants by name, with their arguments.
fn named(common: &BenchArguments) -> Result<Vec<(&str, BenchArguments)>, CommandFailure> {
    let usage = |sentence: String| Err(CommandFailure::Usage(sentence));
    if common.variant.len() < 2 {
        return usage("give at least two variants to compare".to_owned());
    }
    let mut variants: Vec<(&str, BenchArguments)> = Vec::new();
    for variant in &common.variant {
        if variants.iter().any(|(name, _)| *name == variant.name) {
            return usage(format!("there are two variants `{}`", variant.name));
        }
        let arguments = variant.arguments(common);
        if arguments.urls.is_empty() {
            return usage(format!("the variant `{}` has no URL", variant.name));
        }
        variants.push((&variant.name, arguments));
    }
    Ok(variants)
}

/// Runs every variant once and returns their results, in the order of the variants; `None` if it
/// was stopped. The order of the runs is turned round in every second round, so that a change in
/// the course of a round is not that of a variant.
fn run_round(
    variants: &[(&str, BenchArguments)],
    round: u32,
) -> Result<Option<Vec<Value>>, CommandFailure> {
    let mut results = vec![Value::Null; variants.len()];
    let mut order: Vec<usize> = (0..variants.len()).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    for index in order {
        let Some((_, arguments)) = variants.get(index) else { continue };
        // Another sequence of arrivals in each round, and the same for all its variants.
        let seed = arguments.seed.wrapping_add(u64::from(round));
        let arguments = &BenchArguments { seed, ..arguments.clone() };
        let prepared = PreparedRun::of(arguments)?;
        let (outcome, usage) = prepared.measure()?;
        if outcome.is_cut_short {
            return Ok(None);
        }
        let figures = prepared.figures(arguments, &outcome, &usage);
        if let Some(place) = results.get_mut(index) {
            *place = json(&figures, &prepared.url);
        }
    }
    Ok(Some(results))
}

/// Creates a directory for results. It has to be empty: results of other runs would be compared
/// too.
fn create(directory: &Path) -> Result<(), CommandFailure> {
    let failed = |error| cannot("create", directory, &error);
    fs::create_dir_all(directory).map_err(failed)?;
    if fs::read_dir(directory).map_err(failed)?.next().is_some() {
        let sentence = format!("{} is not empty; name a new directory", directory.display());
        return Err(CommandFailure::Usage(sentence));
    }
    Ok(())
}

fn write(kept: &Path, name: &str, round: u32, result: &Value) -> Result<(), CommandFailure> {
    let path: PathBuf = kept.join(name).join(format!("{:04}.json", round + 1));
    fs::write(&path, format!("{result:#}\n")).map_err(|error| cannot("write", &path, &error))
}

#[cfg(test)]
mod tests {
    use super::{Variant, words};

    #[test]
    fn quotes_join_words() {
        let check = |line: &str, expected: &[&str]| assert_eq!(words(line).unwrap(), expected);
        check("", &[]);
        check("  --tls 1.2  -k ", &["--tls", "1.2", "-k"]);
        check("-H 'X-Y: z' http://a/\"b c\"''", &["-H", "X-Y: z", "http://a/b c"]);
        check("''", &[""]);
        assert!(words("-H 'a").unwrap_err().contains("not closed"));
    }

    #[test]
    fn mistakes_in_variants_are_one_sentence() {
        let check = |text: &str, expected: &str| {
            let error = Variant::parse(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        };
        check("=--tls 1.2", "NAME=FLAGS");
        check("../a=--tls 1.2", "NAME=FLAGS");
        check("a=--tsl 1.2", "--tsl");
        check("a=--tls 1.1", "1.1");
        check("a=-R 100", "-R");
        assert!(Variant::parse("1.2=--tls 1.2 --ciphers A:B https://a/").is_ok());
    }
}
