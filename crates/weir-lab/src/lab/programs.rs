//! The programs of an experiment: which are there, their versions, their cores, their directories
//! and configurations; and starting those of a run.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::directory::LabDirectory;
use super::facts::version_of;
use super::process::{GuardedProcess, ProcessSpec, free_ports, leaked, may_go_first, path_of};
use crate::experiment::{Experiment, LabCandidate, LabRole, OUTPUT_FILE, Placeholders, ports_in};

/// The cores of each role.
#[derive(Clone, Debug)]
pub(super) struct AssignedCores {
    pub(super) client: Vec<usize>,
    pub(super) proxy: Vec<usize>,
    pub(super) origin: Vec<usize>,
}

impl AssignedCores {
    /// Assigns the allowed cores to the roles.
    pub(super) fn of(experiment: &Experiment, allowed: &[usize]) -> Result<Self, String> {
        let named = |role: &str, cores: &crate::experiment::RoleCores| {
            cores.of(allowed).map_err(|error| format!("{role} cannot be pinned: {error}"))
        };
        let origin = experiment.origins.first().ok_or("there is no origin")?;
        for role in experiment.origins.iter().chain(&experiment.beside) {
            named(&role.name, &role.cores)?;
        }
        Ok(Self {
            client: named("the client", &experiment.client)?,
            proxy: named("the proxy", &experiment.proxy)?,
            origin: named(&origin.name, &origin.cores)?,
        })
    }

    pub(super) fn json(&self) -> Value {
        json!({"client": self.client, "proxy": self.proxy, "origin": self.origin})
    }
}

/// The programs of an experiment, and what they need.
pub(super) struct Programs<'a> {
    pub(super) experiment: &'a Experiment,
    weir: PathBuf,
    allowed: Vec<usize>,
    pub(super) cores: AssignedCores,
    /// Set if the generator goes before all ordinary programs: where it has cores of its own and
    /// this user may have that, so that programs outside of the experiment do not make it late.
    pub(super) is_generator_first: bool,
    directory: LabDirectory,
    /// The directory of the configurations that are kept.
    kept: PathBuf,
    placeholders: Placeholders,
    /// The path of the certificate.
    pub(super) certificate: PathBuf,
}

/// The processes of a role.
pub(super) struct RunningProgram {
    pub(super) name: String,
    pub(super) processes: Vec<GuardedProcess>,
    /// The port under test.
    pub(super) port: u16,
    ports: Vec<u16>,
}

/// The place that a program is started in.
#[derive(Clone, Copy)]
struct StartPlace<'a> {
    directory: &'a Path,
    /// Its control group, if it has one of its own.
    group: Option<&'a Path>,
}

/// The reason why a program does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartFailure {
    /// The laboratory could not do its part, such as writing a configuration to a full disk. It is
    /// no fault of the program.
    Laboratory(String),
    /// The program ended, or does not listen.
    Program(String),
}

impl StartFailure {
    pub(super) fn sentence(self) -> String {
        match self {
            Self::Laboratory(sentence) | Self::Program(sentence) => sentence,
        }
    }
}

/// Sentences without a reason of the program's are the laboratory's.
impl From<String> for StartFailure {
    fn from(sentence: String) -> Self {
        Self::Laboratory(sentence)
    }
}

impl RunningProgram {
    pub(super) fn ended(&mut self) -> Option<String> {
        self.processes.iter_mut().find_map(GuardedProcess::ended)
    }

    /// Ends it; a sentence if its port is still open.
    pub(super) fn stop(mut self) -> Option<String> {
        let pids: Vec<u32> = self.processes.iter().flat_map(GuardedProcess::pids).collect();
        self.processes.clear();
        self.ports.iter().find_map(|port| leaked(*port, &pids))
    }
}

impl<'a> Programs<'a> {
    /// Prepares the directories and the certificate.
    pub(super) fn prepare(
        experiment: &'a Experiment,
        weir: &Path,
        allowed: &[usize],
        kept: &Path,
    ) -> Result<Self, String> {
        let cores = AssignedCores::of(experiment, allowed)?;
        // On a core of the proxy or of a server it would be in the way of what is measured.
        let is_apart = !cores
            .client
            .iter()
            .any(|core| cores.proxy.contains(core) || cores.origin.contains(core));
        let directory = LabDirectory::create(&std::env::temp_dir(), weir)?;
        let mut placeholders = Placeholders::default();
        placeholders.set("weir", weir.display().to_string());
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        // A P-256 key, the default of the library.
        let signed = rcgen::generate_simple_self_signed(names);
        let signed = signed.map_err(|error| format!("cannot make a certificate: {error}"))?;
        let (chain, key) = (signed.cert.pem(), signed.signing_key.serialize_pem());
        let certificate = directory.path().join("site.pem");
        for (name, file, text) in [
            ("cert", "site.pem", chain.clone()),
            ("key", "site.key", key.clone()),
            ("bundle", "site.bundle.pem", chain + &key),
        ] {
            let path = directory.path().join(file);
            write(&path, &text)?;
            placeholders.set(name, path.display().to_string());
        }
        Ok(Self {
            experiment,
            weir: weir.to_owned(),
            allowed: allowed.to_vec(),
            cores,
            is_generator_first: is_apart && may_go_first(weir),
            directory,
            kept: kept.to_owned(),
            placeholders,
            certificate,
        })
    }

    /// The names of the candidates that are there, the versions of all programs, and a sentence for
    /// each program that is missing.
    pub(super) fn present(&self) -> Result<(Vec<String>, Value, Vec<String>), String> {
        let (mut present, mut versions, mut missing) = (Vec::new(), Map::new(), Vec::new());
        let candidates = self.experiment.candidates.iter().map(|candidate| (&candidate.role, true));
        let others =
            self.experiment.origins.iter().chain(&self.experiment.beside).map(|role| (role, false));
        for (role, is_candidate) in candidates.chain(others) {
            let program = self.placeholders.fill(&role.program);
            let Some(path) = path_of(&program) else {
                let sentence = format!(
                    "{} is left out: there is no program {program}; on Debian: apt-get install {}",
                    role.name, role.package
                );
                if !is_candidate {
                    return Err(sentence.replace("is left out", "cannot run"));
                }
                missing.push(sentence);
                continue;
            };
            let command: Vec<String> =
                role.version.iter().map(|word| self.placeholders.fill(word)).collect();
            versions.insert(role.name.clone(), version_of(&self.weir, &command, &path)?.into());
            if is_candidate {
                present.push(role.name.clone());
            }
        }
        if present.is_empty() {
            return Err(format!("no candidate is there: {}", missing.join("; ")));
        }
        Ok((present, Value::Object(versions), missing))
    }

    /// Starts the origins. Their ports become placeholders of all other programs.
    pub(super) fn start_origins(&mut self) -> Result<Vec<RunningProgram>, String> {
        let experiment = self.experiment;
        experiment.origins.iter().map(|role| self.start_origin(role)).collect()
    }

    fn start_origin(&mut self, role: &LabRole) -> Result<RunningProgram, String> {
        let cores = role.cores.of(&self.allowed)?;
        // Ports stay the same when an origin is started again.
        let names: Vec<String> = ports_in(&role.command.join(" "))
            .into_iter()
            .filter(|name| self.placeholders.value(name).is_none())
            .collect();
        for (name, port) in names.iter().zip(free_ports(names.len())?) {
            self.placeholders.set(name, port.to_string());
        }
        self.start(role, &cores, &self.placeholders.clone()).map_err(StartFailure::sentence)
    }

    /// Starts the programs beside the load.
    pub(super) fn start_beside(&self, port: u16) -> Result<Vec<RunningProgram>, String> {
        let mut placeholders = self.placeholders.clone();
        placeholders.set("port", port.to_string());
        let start = |role: &LabRole| {
            let started = self.start(role, &role.cores.of(&self.allowed)?, &placeholders);
            started.map_err(StartFailure::sentence)
        };
        self.experiment.beside.iter().map(start).collect()
    }

    /// The address of an origin's port for a scheme, for the direct run.
    pub(super) fn origin_address(&self, is_tls: bool) -> Result<SocketAddr, String> {
        let role = self.experiment.origins.first().ok_or("there is no origin")?;
        let ports = ports_in(&role.command.join(" "));
        let is_wanted = |name: &&String| name.ends_with("_tls") == is_tls;
        let name = ports.iter().find(is_wanted).ok_or_else(|| {
            let scheme = if is_tls { "HTTPS" } else { "HTTP" };
            format!(
                "{} has no port for {scheme} (`${{port_NAME{}}}`)",
                role.name,
                if is_tls { "_tls" } else { "" }
            )
        })?;
        let port = self.placeholders.value(name).and_then(|port| port.parse().ok()).unwrap_or(0);
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }

    /// Starts a candidate with fresh ports, in a control group if it has one of its own.
    pub(super) fn start_candidate(
        &self,
        candidate: &LabCandidate,
        group: Option<&Path>,
    ) -> Result<RunningProgram, StartFailure> {
        let mut placeholders = self.placeholders.clone();
        let mut texts = candidate.role.command.join(" ");
        for config in &candidate.configs {
            texts += &config.text;
            config.maps.iter().for_each(|[_, to, _]| texts += to);
        }
        let names: Vec<String> = ports_in(&texts)
            .into_iter()
            .filter(|name| placeholders.value(name).is_none())
            .collect();
        for (name, port) in names.iter().zip(free_ports(names.len())?) {
            placeholders.set(name, port.to_string());
        }
        let instances = candidate.instances.map_or(self.cores.proxy.len(), |count| count as usize);
        let mut found: Option<RunningProgram> = None;
        for number in 1..=instances {
            placeholders.set("instance", number.to_string());
            let cores = if instances > 1 {
                self.cores
                    .proxy
                    .get((number - 1) % self.cores.proxy.len()..)
                    .and_then(|rest| rest.get(..1))
                    .unwrap_or_default()
            } else {
                self.cores.proxy.as_slice()
            };
            placeholders.set("cores", cores.len().to_string());
            let name = &candidate.role.name;
            let directory = self.role_directory(&format!("{name}-{number}"))?;
            placeholders.set("dir", directory.display().to_string());
            for config in &candidate.configs {
                let text = placeholders.config(config);
                write(&directory.join(&config.name), &text)?;
                let kept = self.kept.join(name);
                fs::create_dir_all(&kept)
                    .map_err(|error| format!("cannot write {}: {error}", kept.display()))?;
                write(&kept.join(&config.name), &text)?;
            }
            let place = StartPlace { directory: &directory, group };
            let mut one = self.start_in(&candidate.role, cores, &placeholders, place)?;
            match &mut found {
                Some(program) => {
                    // The first process accepts connections at the same ports.
                    let own = one.processes.iter_mut();
                    let ready = own.map(|process| process.wait_for_own(&one.ports));
                    ready.collect::<Result<(), _>>().map_err(StartFailure::Program)?;
                    program.processes.append(&mut one.processes);
                }
                None => found = Some(one),
            }
        }
        found.ok_or_else(|| format!("{} has no process", candidate.role.name).into())
    }

    fn start(
        &self,
        role: &LabRole,
        cores: &[usize],
        placeholders: &Placeholders,
    ) -> Result<RunningProgram, StartFailure> {
        let mut placeholders = placeholders.clone();
        placeholders.set("cores", cores.len().to_string());
        let directory = self.role_directory(&role.name)?;
        placeholders.set("dir", directory.display().to_string());
        let place = StartPlace { directory: &directory, group: None };
        self.start_in(role, cores, &placeholders, place)
    }

    fn start_in(
        &self,
        role: &LabRole,
        cores: &[usize],
        placeholders: &Placeholders,
        place: StartPlace<'_>,
    ) -> Result<RunningProgram, StartFailure> {
        let port = |name: &str| placeholders.value(name).and_then(|port| port.parse::<u16>().ok());
        let ports: Vec<u16> = role
            .ready
            .iter()
            .filter(|name| port(name).is_some())
            .filter_map(|name| port(name))
            .collect();
        let mut process = GuardedProcess::start(&ProcessSpec {
            weir: self.weir.clone(),
            name: role.name.clone(),
            cores: cores.to_vec(),
            command: role.command.iter().map(|word| placeholders.fill(word)).collect(),
            group: place.group.map(Path::to_owned),
            directory: place.directory.to_owned(),
            log: place.directory.join(OUTPUT_FILE),
        })?;
        process.wait_for(&ports).map_err(StartFailure::Program)?;
        Ok(RunningProgram {
            name: role.name.clone(),
            processes: vec![process],
            port: port("port").unwrap_or(0),
            ports,
        })
    }

    /// Fills in the command of an event.
    pub(super) fn event_command(
        &self,
        words: &[String],
        port: u16,
        directory_of: &str,
    ) -> Vec<String> {
        let mut placeholders = self.placeholders.clone();
        placeholders.set("port", port.to_string());
        placeholders.set(
            "dir",
            self.directory.path().join(format!("{directory_of}-1")).display().to_string(),
        );
        words.iter().map(|word| placeholders.fill(word)).collect()
    }

    /// An empty directory for a program.
    fn role_directory(&self, name: &str) -> Result<PathBuf, String> {
        let directory = self.directory.path().join(name);
        let failed =
            |error: std::io::Error| format!("cannot write {}: {error}", directory.display());
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).map_err(failed)?;
        Ok(directory)
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
