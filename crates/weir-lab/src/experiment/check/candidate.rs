//! Roles and candidates: commands, cores, and printed configurations.

use std::path::{Component, Path};

use weir_config::source::{MOST_FILE_BYTES, read_bounded, system_message};
use weir_config::syntax::tree::Directive;

use crate::experiment::directives::LabBlock;
use crate::experiment::model::{LabCandidate, LabRole, PrintedConfig, RoleCores};
use crate::experiment::ports_in;
use crate::experiment::reader::BlockReader;

/// The file in `${dir}` that gets the output of a program.
pub(crate) const OUTPUT_FILE: &str = "output";

/// The place that printed configurations are named from.
pub(super) struct ReadPlace<'a> {
    pub(super) directory: &'a Path,
}

/// `weir origin` with a port for HTTP and one for HTTPS.
pub(super) fn default_origin(name: &str, cores: RoleCores) -> LabRole {
    let line = "${weir} origin --listen 127.0.0.1:${port_origin} --listen-tls 127.0.0.1:${port_origin_tls} \
        --cert ${cert} --key ${key} --workers ${cores} --log 0";
    let command: Vec<String> = line.split(' ').map(str::to_owned).collect();
    LabRole {
        name: name.to_owned(),
        cores,
        program: "${weir}".to_owned(),
        package: String::new(),
        version: ["${weir}", "--version"].map(str::to_owned).to_vec(),
        ready: ports_in(line),
        command,
    }
}

pub(super) fn origin(reader: &mut BlockReader, directive: &Directive) -> LabRole {
    let name = directive.words.first().map_or("origin", |word| word.text.as_str());
    let given = role(reader, directive, name);
    if given.command.is_empty() { default_origin(name, given.cores) } else { given }
}

/// Reads a role's block.
pub(super) fn role(reader: &mut BlockReader, directive: &Directive, name: &str) -> LabRole {
    let mut found = empty(name);
    let block =
        directive.block.as_ref().map(|block| block.directives.as_slice()).unwrap_or_default();
    for directive in reader.block(block, LabBlock::Role) {
        part_of_role(reader, directive, &mut found);
    }
    complete(&mut found);
    if found.command.is_empty() && directive.name.text == "beside" {
        reader.report(directive.span(), format!("`{name}` has no `command`"));
    }
    found
}

fn empty(name: &str) -> LabRole {
    LabRole {
        name: name.to_owned(),
        cores: RoleCores::Rest,
        program: String::new(),
        package: String::new(),
        version: Vec::new(),
        command: Vec::new(),
        ready: Vec::new(),
    }
}

/// Fills in what follows from the command.
fn complete(role: &mut LabRole) {
    if role.program.is_empty() {
        role.program = role.command.first().cloned().unwrap_or_default();
    }
    if role.package.is_empty() && role.program != "${weir}" {
        role.package = role.program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    if role.version.is_empty() && role.program == "${weir}" {
        role.version = ["${weir}", "--version"].map(str::to_owned).to_vec();
    }
}

fn part_of_role(reader: &mut BlockReader, directive: &Directive, found: &mut LabRole) {
    match directive.name.text.as_str() {
        "cpus" => found.cores = reader.value(directive, cores).unwrap_or(RoleCores::Rest),
        "program" => found.program = BlockReader::text(directive),
        "package" => found.package = BlockReader::text(directive),
        "version" => found.version = BlockReader::texts(directive),
        "command" => {
            found.command = BlockReader::texts(directive);
            if found.ready.is_empty() {
                found.ready = ports_in(&found.command.join(" "));
            }
        }
        "ready" => {
            let texts = BlockReader::texts(directive);
            for (text, word) in texts.iter().zip(&directive.words) {
                if ports_in(&format!("${{{text}}}")).is_empty() {
                    reader.report(
                        word.span,
                        format!("`{text}` is no name of a port: write `port` or `port_NAME`"),
                    );
                }
            }
            found.ready = texts;
        }
        _ => {}
    }
}

fn cores(text: &str) -> Result<RoleCores, String> {
    match text {
        "half" => return Ok(RoleCores::Half),
        "rest" => return Ok(RoleCores::Rest),
        "all" => return Ok(RoleCores::All),
        _ => {}
    }
    let wrong =
        || format!("`{text}` is no list of cores: write `0-3`, `0,2`, `half`, `rest` or `all`");
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if first <= last && last < 1024 => found.extend(first..=last),
            _ => return Err(wrong()),
        }
    }
    Ok(RoleCores::List(found))
}

impl ReadPlace<'_> {
    pub(super) fn candidate(
        &self,
        reader: &mut BlockReader,
        directive: &Directive,
    ) -> LabCandidate {
        let name = BlockReader::text(directive);
        let mut found = LabCandidate {
            role: empty(&name),
            configs: Vec::new(),
            instances: Some(1),
            notes: Vec::new(),
        };
        let block =
            directive.block.as_ref().map(|block| block.directives.as_slice()).unwrap_or_default();
        for directive in reader.block(block, LabBlock::Candidate) {
            match directive.name.text.as_str() {
                "config" => {
                    if let Some(config) = self.config(reader, directive) {
                        refuse_taken_name(reader, directive, &config, &found.configs);
                        found.configs.push(config);
                    }
                }
                "note" => found.notes.push(BlockReader::text(directive)),
                "instances" if BlockReader::text(directive) == "cores" => found.instances = None,
                "instances" => {
                    found.instances = reader.number(directive, 1, 64).map(|number| number as u32);
                }
                _ => part_of_role(reader, directive, &mut found.role),
            }
        }
        complete(&mut found.role);
        if found.role.command.is_empty() {
            reader.report(directive.span(), format!("the candidate `{name}` has no `command`"));
        }
        // The ports of a candidate are mostly those of its configuration.
        if !found.role.ready.iter().any(|port| port == "port") {
            found.role.ready.push("port".to_owned());
        }
        let mut texts = found.role.command.join(" ");
        for config in &found.configs {
            texts += &config.text;
            config.maps.iter().for_each(|[_, to, _]| texts += to);
        }
        for port in found.role.ready.iter().filter(|port| !ports_in(&texts).contains(port)) {
            let message = format!(
                "the candidate `{name}` does not listen on `${{{port}}}`: neither its command nor its configuration has it"
            );
            reader.report(directive.span(), message);
        }
        found
    }

    fn config(&self, reader: &mut BlockReader, directive: &Directive) -> Option<PrintedConfig> {
        let word = directive.words.first()?;
        if !Path::new(&word.text).components().all(|part| matches!(part, Component::Normal(_))) {
            let message =
                format!("`{}` does not lie beside the experiment file or below it", word.text);
            reader.report(word.span, message);
            return None;
        }
        let path = self.directory.join(&word.text);
        let name = path.file_name()?.to_str()?.to_owned();
        let bytes = match read_bounded(&path, MOST_FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => {
                reader.report(
                    word.span,
                    format!("cannot read {}: {}", path.display(), system_message(&error)),
                );
                return None;
            }
        };
        let Ok(text) = String::from_utf8(bytes) else {
            reader.report(word.span, format!("{} is not UTF-8 text", path.display()));
            return None;
        };
        let mut maps = Vec::new();
        let mut mapped = text.clone();
        let block =
            directive.block.as_ref().map(|block| block.directives.as_slice()).unwrap_or_default();
        for directive in reader.block(block, LabBlock::Config) {
            let mut words = BlockReader::texts(directive).into_iter();
            let (Some(from), Some(to)) = (words.next(), words.next()) else { continue };
            if from.is_empty() || !mapped.contains(&from) {
                reader.report(directive.span(), format!("{name} has no text `{from}`"));
                continue;
            }
            let added = to.len().saturating_sub(from.len());
            let length = mapped.matches(&from).count().saturating_mul(added) + mapped.len();
            if length as u64 > MOST_FILE_BYTES {
                let message = format!("{name} becomes larger than {MOST_FILE_BYTES} bytes");
                reader.report(directive.span(), message);
                break;
            }
            mapped = mapped.replace(&from, &to);
            maps.push([from, to, words.next().unwrap_or_default()]);
        }
        Some(PrintedConfig { path: word.text.clone(), name, text, maps })
    }
}

/// Reports a configuration that would be written over another one, or over the program's output.
fn refuse_taken_name(
    reader: &mut BlockReader,
    directive: &Directive,
    config: &PrintedConfig,
    others: &[PrintedConfig],
) {
    if others.iter().any(|other| other.name == config.name) {
        let message = format!("two configurations are written as `{}`", config.name);
        reader.report(directive.span(), message);
    } else if config.name == OUTPUT_FILE {
        let message = format!("`{OUTPUT_FILE}` is the file of the program's output");
        reader.report(directive.span(), message);
    }
}
