//! From directives to an [`Experiment`]: values are parsed, names are resolved, printed
//! configurations are read.

mod candidate;
mod load;

use std::path::Path;
use std::sync::Arc;

use weir_config::diagnostic::{Diagnostic, Diagnostics};
use weir_config::source::Sources;
use weir_config::syntax::lexer::{Dialect, Environment};
use weir_config::syntax::tree::{Directive, parse, read as read_file};

use super::directives::LabBlock;
use super::level::share_of;
use super::model::{
    ClientLink, CreditRules, DIRECT, Experiment, JudgedFigure, LabCandidate, LabRole,
    LatencyBudget, LoadEventAction, LoadPace, QuickExperiment, RoleCores, RunOrder, StopLimit,
    StopRule,
};
use super::reader::BlockReader;
use crate::units::time_ns;
pub(crate) use candidate::OUTPUT_FILE;
use candidate::ReadPlace;

/// The largest number of candidates, and of workloads, origins and programs beside the load.
const MOST_PARTS: usize = 16;
/// The longest run, in nanoseconds.
pub(super) const MOST_DURATION_NS: u64 = 24 * 3_600 * 1_000_000_000;

/// Reads and checks an experiment file. Printed configurations are read from beside it.
///
/// # Errors
/// Every error of the file, each with its place.
pub fn read(path: &Path, environment: Environment<'_>) -> Result<Experiment, Diagnostics> {
    let mut sources = Sources::default();
    let file = match read_file(path, &mut sources) {
        Ok(file) => file,
        Err(message) => {
            return Err(Diagnostics::new(vec![Diagnostic::general(message)], Arc::new(sources)));
        }
    };
    let (directives, errors) = parse(&sources, file, Dialect::Native(environment));
    let mut reader = BlockReader { errors };
    let directory = path.parent().unwrap_or(Path::new(""));
    let experiment = ExperimentDraft::default().fill(&mut reader, &directives, directory);
    if reader.errors.is_empty() {
        Ok(experiment)
    } else {
        Err(Diagnostics::new(reader.errors, Arc::new(sources)))
    }
}

#[derive(Default)]
struct ExperimentDraft<'tree> {
    origins: Vec<LabRole>,
    beside: Vec<LabRole>,
    candidates: Vec<LabCandidate>,
    workloads: Vec<(&'tree Directive, super::model::Workload)>,
}

impl<'tree> ExperimentDraft<'tree> {
    fn fill(
        mut self,
        reader: &mut BlockReader,
        directives: &'tree [Directive],
        directory: &Path,
    ) -> Experiment {
        let is_whole = reader.errors.is_empty();
        let top = reader.block(directives, LabBlock::Top);
        for directive in &top {
            self.part(reader, directive, directory);
        }
        let mut found = Experiment {
            title: String::new(),
            question: String::new(),
            source: String::new(),
            repeats: 3,
            order: RunOrder::Interleaved,
            seed: 1,
            stops: Vec::new(),
            budget: None,
            refine: 0,
            judged: [50.0, 99.0, 99.9].map(JudgedFigure::Percentile).to_vec(),
            direct: true,
            network_bits: None,
            link: None,
            credits: None,
            client: RoleCores::Rest,
            proxy: RoleCores::Half,
            origins: std::mem::take(&mut self.origins),
            beside: std::mem::take(&mut self.beside),
            candidates: std::mem::take(&mut self.candidates),
            workloads: self.workloads.iter().map(|(_, workload)| workload.clone()).collect(),
            is_quick: false,
            quick: QuickExperiment::default(),
        };
        found.judged.push(JudgedFigure::Cpu);
        if found.origins.is_empty() {
            found.origins.push(candidate::default_origin("origin", RoleCores::Rest));
        }
        for directive in &top {
            setting(reader, directive, &mut found);
        }
        // The bandwidth of the link is the one that can be used up.
        found.network_bits = found.network_bits.or(found.link.and_then(|link| link.rate_bits));
        let parts = [
            ("title", found.title.is_empty()),
            ("candidate", found.candidates.is_empty()),
            ("workload", found.workloads.is_empty()),
        ];
        // The text behind a fault of the syntax may not have been read.
        for (part, _) in parts.into_iter().filter(|(_, is_missing)| is_whole && *is_missing) {
            let message = format!("the experiment has no `{part}`");
            reader.errors.push(Diagnostic::general(message));
        }
        self.check_names(reader, &top, &found);
        found
    }

    fn part(&mut self, reader: &mut BlockReader, directive: &'tree Directive, directory: &Path) {
        match directive.name.text.as_str() {
            "origin" => self.origins.push(candidate::origin(reader, directive)),
            "beside" => {
                self.beside.push(candidate::role(reader, directive, &BlockReader::text(directive)));
            }
            "candidate" => {
                let place = ReadPlace { directory };
                self.candidates.push(place.candidate(reader, directive));
            }
            "workload" => {
                let workload = load::workload(reader, directive);
                self.workloads.push((directive, workload));
            }
            _ => {}
        }
    }

    /// Names are single, and those that are referred to exist.
    fn check_names(&self, reader: &mut BlockReader, top: &[&Directive], found: &Experiment) {
        let mut names: Vec<(String, &Directive)> = Vec::new();
        for directive in top {
            let kind = directive.name.text.as_str();
            let name = match kind {
                "origin" if directive.words.is_empty() => "origin".to_owned(),
                "candidate" | "workload" | "beside" | "origin" => BlockReader::text(directive),
                _ => continue,
            };
            if !is_part_name(&name) {
                let message = format!(
                    "`{name}` is no name of a {kind}: use letters, digits, `-`, `_` and `.`"
                );
                reader.report(directive.span(), message);
            } else if name == DIRECT || (name == "proxy" && kind != "workload") {
                reader.report(
                    directive.span(),
                    format!("`{name}` is the name of something else; choose another"),
                );
            } else if let Some((_, first)) = names.iter().find(|(other, first)| {
                *other == name && (kind == "workload") == (first.name.text == "workload")
            }) {
                let error =
                    Diagnostic::error(directive.span(), format!("there are two parts `{name}`"));
                reader.errors.push(error.related(first.span(), "first here"));
            }
            names.push((name, directive));
        }
        for (kind, count) in [
            ("candidates", found.candidates.len()),
            ("workloads", found.workloads.len()),
            ("origins", found.origins.len()),
            ("programs beside the load", found.beside.len()),
        ] {
            if count > MOST_PARTS {
                reader.errors.push(Diagnostic::general(format!(
                    "there are {count} {kind}; at most {MOST_PARTS} are allowed"
                )));
            }
        }
        self.check_references(reader, found);
    }

    fn check_references(&self, reader: &mut BlockReader, found: &Experiment) {
        let candidates: Vec<&str> =
            found.candidates.iter().map(|one| one.role.name.as_str()).collect();
        let mut roles: Vec<&str> = vec!["proxy"];
        roles.extend(found.origins.iter().chain(&found.beside).map(|role| role.name.as_str()));
        for (directive, workload) in &self.workloads {
            let paces = [Some(&workload.pace), workload.quick.pace.as_ref()];
            for pace in paces.into_iter().flatten() {
                let LoadPace::Shares(_, names) = pace else { continue };
                for name in names.iter().filter(|name| !candidates.contains(&name.as_str())) {
                    let error = Diagnostic::error(
                        directive.span(),
                        format!("`rates` refers to an unknown candidate `{name}`"),
                    );
                    reader.errors.push(error.suggest(name, candidates.iter().copied()));
                }
            }
            for event in &workload.events {
                let LoadEventAction::Signal(name, _) = &event.action else { continue };
                if !roles.contains(&name.as_str()) {
                    let error = Diagnostic::error(
                        directive.span(),
                        format!("`event` refers to an unknown role `{name}`"),
                    );
                    reader.errors.push(error.suggest(name, roles.iter().copied()));
                }
            }
        }
    }
}

/// Returns true if a name can be that of a candidate, a workload or a role: it is part of the names
/// of files.
pub fn is_part_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 40
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        && !name.starts_with('.')
}

/// Reads a setting of the whole experiment.
fn setting(reader: &mut BlockReader, directive: &Directive, found: &mut Experiment) {
    match directive.name.text.as_str() {
        "title" => found.title = BlockReader::text(directive),
        "question" => found.question = BlockReader::text(directive),
        "source" => found.source = BlockReader::text(directive),
        "repeats" => {
            found.repeats = reader.number(directive, 1, 100).map_or(3, |number| number as u32);
        }
        "refine" => {
            found.refine = reader.number(directive, 0, 10).map_or(0, |number| number as u32);
        }
        "seed" => found.seed = reader.number(directive, 0, u64::MAX).unwrap_or(1),
        "order" => {
            let orders =
                [("interleaved", RunOrder::Interleaved), ("consecutive", RunOrder::Consecutive)];
            found.order = reader.choice(directive, &orders).unwrap_or(RunOrder::Interleaved);
        }
        "direct" => {
            found.direct =
                reader.choice(directive, &[("on", true), ("off", false)]).unwrap_or(true);
        }
        "network" => found.network_bits = reader.value(directive, bits),
        "link" => found.link = link(reader, directive),
        "credits" => found.credits = credits(reader, directive),
        "stop" => found.stops.extend(stop(reader, directive)),
        "budget" => found.budget = reader.value(directive, budget),
        "judge" => {
            let figures = directive.words.iter().filter_map(|word| reader.word(word, judged));
            found.judged = figures.collect();
        }
        "client" => found.client = candidate::role(reader, directive, "client").cores,
        "proxy" => {
            let block = directive
                .block
                .as_ref()
                .map(|block| block.directives.as_slice())
                .unwrap_or_default();
            let has_cpus = block.iter().any(|one| one.name.text == "cpus");
            let cores = candidate::role(reader, directive, "proxy").cores;
            found.proxy = if has_cpus { cores } else { RoleCores::Half };
        }
        "quick" => {
            let block = directive
                .block
                .as_ref()
                .map(|block| block.directives.as_slice())
                .unwrap_or_default();
            for directive in reader.block(block, LabBlock::Quick) {
                let number = |reader: &mut BlockReader, least, most| {
                    reader.number(directive, least, most).map(|number| number as u32)
                };
                match directive.name.text.as_str() {
                    "repeats" => found.quick.repeats = number(reader, 1, 100),
                    "credits" => found.quick.credits = credits(reader, directive),
                    _ => found.quick.refine = number(reader, 0, 10),
                }
            }
        }
        _ => {}
    }
}

/// Reads a bandwidth in bits per second.
fn bits(text: &str) -> Result<f64, String> {
    let units = [("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)];
    let parts = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let number = parts.and_then(|(number, factor)| Some(number.parse::<f64>().ok()? * factor));
    number
        .filter(|bits| bits.is_finite() && *bits > 0.0)
        .ok_or_else(|| format!("`{text}` is no bandwidth: write `600mbit` or `10gbit`"))
}

/// Reads the link between client and proxy.
fn link(reader: &mut BlockReader, directive: &Directive) -> Option<ClientLink> {
    let mut found = ClientLink::default();
    for word in &directive.words {
        let Some((name, from)) = word.option() else {
            reader.report(word.span, format!("`{}` is no part of a link: {LINK}", word.text));
            return None;
        };
        let value = |text: &str| text.get(from..).unwrap_or_default().to_owned();
        let mut time = || {
            let ns = reader.word(word, |text| time_ns(&value(text)))?;
            if ns <= MOST_DELAY_NS {
                return Some(ns);
            }
            reader.report(word.span, "a link delays by at most ten seconds");
            None
        };
        match name {
            "delay" => found.delay_ns = time()?,
            "jitter" => found.jitter_ns = time()?,
            "loss" => found.loss = reader.word(word, |text| share_of(&value(text)))?,
            "rate" => found.rate_bits = Some(reader.word(word, |text| bits(&value(text)))?),
            _ => {
                reader.report(word.span, format!("`{name}` is no part of a link: {LINK}"));
                return None;
            }
        }
    }
    if found.jitter_ns > found.delay_ns {
        reader.report(directive.span(), "the delay cannot vary by more than itself");
        return None;
    }
    if found.loss >= 1.0 {
        reader.report(directive.span(), "nothing passes a link that loses all packets");
        return None;
    }
    if !found.has_netem() && found.rate_bits.is_none() {
        reader.report(directive.span(), format!("this link is the machine's own: {LINK}"));
        return None;
    }
    Some(found)
}

const LINK: &str = "write `delay=20ms`, `jitter=1ms`, `loss=0.1%` or `rate=100mbit`";
/// The longest delay of a link, in nanoseconds.
const MOST_DELAY_NS: u64 = 10_000_000_000;

/// Reads the rules of a machine with processor credits.
fn credits(reader: &mut BlockReader, directive: &Directive) -> Option<CreditRules> {
    let (mut baseline, mut start_us, mut max_us) = (None, None, None);
    for word in &directive.words {
        let us = |text: &str| time_ns(text).map(|time| time as f64 / 1e3);
        let read = match word.option() {
            Some(("baseline", from)) => {
                let value =
                    reader.word(word, |text| share_of(text.get(from..).unwrap_or_default()));
                baseline = value;
                value
            }
            Some(("start", from)) => {
                start_us = reader.word(word, |text| us(text.get(from..).unwrap_or_default()));
                start_us
            }
            Some(("max", from)) => {
                max_us = reader.word(word, |text| us(text.get(from..).unwrap_or_default()));
                max_us
            }
            _ => {
                reader.report(
                    word.span,
                    format!("`{}` is not `baseline=`, `start=` or `max=`", word.text),
                );
                None
            }
        };
        read?;
    }
    let (Some(baseline), Some(start_us)) = (baseline, start_us) else {
        reader.report(directive.span(), "`credits` needs `baseline=` and `start=`");
        return None;
    };
    let max_us = max_us.unwrap_or(start_us);
    if max_us <= 0.0 || start_us > max_us {
        reader.report(
            directive.span(),
            "the largest number of credits is above zero and not below that at the start",
        );
        return None;
    }
    Some(CreditRules { baseline, start_us, max_us })
}

fn stop(reader: &mut BlockReader, directive: &Directive) -> Option<StopRule> {
    let each = match directive.words.get(1) {
        None => false,
        Some(word) if word.text == "each" => true,
        Some(word) => {
            reader.report(word.span, format!("`{}` is not `each`", word.text));
            return None;
        }
    };
    let limit = reader.value(directive, |text| {
        if let Some(share) = text.strip_prefix("proxy_cpu>=") {
            return share_of(share).map(StopLimit::ProxyCpu);
        }
        let (percentile, time) = text.split_once('>').ok_or_else(|| {
            format!("`{text}` is no condition: write `proxy_cpu>=98%` or `p99>100ms`")
        })?;
        Ok(StopLimit::Percentile(percentile_of(percentile)?, time_ns(time)?))
    })?;
    Some(StopRule { limit, each })
}

fn budget(text: &str) -> Result<LatencyBudget, String> {
    let (percentile, time) = text
        .split_once("<=")
        .ok_or_else(|| format!("`{text}` is no budget: write `p99.9<=20ms`"))?;
    Ok(LatencyBudget { percentile: percentile_of(percentile)?, time_ns: time_ns(time)? })
}

fn judged(text: &str) -> Result<JudgedFigure, String> {
    match text {
        "mean" => Ok(JudgedFigure::Mean),
        "cpu" => Ok(JudgedFigure::Cpu),
        _ => percentile_of(text).map(JudgedFigure::Percentile),
    }
}

fn percentile_of(text: &str) -> Result<f64, String> {
    let number = text.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
    number
        .filter(|percent| *percent > 0.0 && *percent < 100.0)
        .ok_or_else(|| format!("`{text}` is no figure: write a percentile such as `p99.9`"))
}

#[cfg(test)]
mod tests;
