//! `cpu-map`: the cores of threads, or of processes, become those of workers.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_config::model::WorkerCores;

use super::convert::HaproxyConverter;
use super::sections::LineId;

/// The most processes and threads that a set may name.
const MOST: usize = 1024;

/// The most lines that are read; there is one for each thread at most.
const MOST_LINES: usize = 256;

/// The cores of workers, by the number of the worker.
type CoresByWorker = BTreeMap<usize, Rc<[u16]>>;

/// Threads or processes as a line names them.
enum NamedThreads {
    /// All, however many there are.
    All,
    /// These, from 1.
    These(Vec<usize>),
}

/// A line: the cores of all threads together, or one core for each in turn.
struct CpuMap {
    in_turn: bool,
    threads: NamedThreads,
    cores: Vec<u16>,
}

/// The numbers of processes and threads that a file states.
#[derive(Clone, Copy)]
struct StatedThreads {
    processes: usize,
    threads: Option<usize>,
}

impl StatedThreads {
    /// The number of workers, if the file states it.
    fn workers(self) -> Option<usize> {
        if self.processes > 1 { Some(self.processes) } else { self.threads }
    }
}

impl HaproxyConverter<'_> {
    /// Takes the `cpu-map` lines; returns the cores of the workers.
    pub(super) fn worker_cores(&mut self) -> Option<WorkerCores> {
        let sections = self.sections;
        let globals = sections.all().filter(|(_, section)| section.kind == "global");
        let lines: Vec<LineId> = globals.flat_map(|(_, section)| section.lines.clone()).collect();
        let stated = |name: &str| {
            let line = lines.iter().rev().find(|line| sections.keyword(**line) == name)?;
            sections.word(*line, 0).parse().ok().filter(|number| (1..=MOST).contains(number))
        };
        let stated =
            StatedThreads { processes: stated("nbproc").unwrap_or(1), threads: stated("nbthread") };
        let (mut each, mut own) = (Vec::new(), CoresByWorker::new());
        let mut taken = Vec::new();
        for line in lines.into_iter().filter(|line| sections.keyword(*line) == "cpu-map") {
            if taken.len() == MOST_LINES {
                self.outcomes.refuse(line, "there are too many of these lines");
                continue;
            }
            match self.cpu_map(line, stated) {
                Ok(Some(map)) => {
                    note(map, stated.workers(), &mut each, &mut own);
                    taken.push(line);
                }
                Ok(None) => self.outcomes.ignore(line, "there is no such process or thread"),
                Err(reason) => self.outcomes.refuse(line, reason),
            }
        }
        let most = stated.workers().unwrap_or(MOST);
        let named = own.range(..=most).count();
        let sets = if own.is_empty() {
            each.into_iter().map(|core| vec![core]).collect()
        } else {
            let mut sets: Vec<Rc<[u16]>> = own.into_values().take(named).collect();
            if stated.workers() == Some(named) && sets.iter().all(|set| Some(set) == sets.first()) {
                sets.truncate(1);
            }
            sets.iter().map(|set| set.to_vec()).collect::<Vec<_>>()
        };
        for line in taken {
            match stated.workers() {
                Some(workers) if named < workers => self.outcomes.differs(
                    line,
                    "`workers cpus=`; the workers that have no cores here share those of the others",
                ),
                Some(_) => self.outcomes.honour(line),
                None => self.outcomes.differs(
                    line,
                    "`workers auto cpus=`: a worker for each of these cores, and none for others; write `nbthread` for another number",
                ),
            }
        }
        WorkerCores::new(sets)
    }

    /// Reads a line; `None` if it is about processes or threads that do not exist.
    fn cpu_map(&self, line: LineId, stated: StatedThreads) -> Result<Option<CpuMap>, String> {
        let words = self.sections.words(line);
        let wrong = || "write `cpu-map [auto:]PROCESS[/THREADS] CORES`".to_owned();
        let [first, cores @ ..] = words else { return Err(wrong()) };
        let (in_turn, named) =
            first.text.strip_prefix("auto:").map_or((false, &*first.text), |named| (true, named));
        let (processes, threads) = named.split_once('/').unwrap_or((named, "all"));
        let processes = named_threads(processes).ok_or_else(wrong)?;
        let threads = named_threads(threads).ok_or_else(wrong)?;
        let items = cores.iter().flat_map(|word| word.text.split(','));
        let cores: Option<Vec<Vec<u16>>> = items.map(core_range).collect();
        let cores = cores.ok_or_else(wrong)?.concat();
        if cores.is_empty() || cores.len() > MOST {
            return Err(wrong());
        }
        let has_first = |named: &NamedThreads| match named {
            NamedThreads::All => true,
            NamedThreads::These(list) => list.contains(&1),
        };
        // Each of several processes has one thread.
        let (mine, other) =
            if stated.processes > 1 { (processes, threads) } else { (threads, processes) };
        if !has_first(&other) {
            return Ok(None);
        }
        if let NamedThreads::These(list) = &mine {
            if in_turn && list.len() != cores.len() {
                return Err("`auto:` needs as many cores as threads or processes".into());
            }
            if stated.workers().is_some_and(|most| list.iter().all(|number| *number > most)) {
                return Ok(None);
            }
        }
        Ok(Some(CpuMap { in_turn, threads: mine, cores }))
    }
}

/// Adds what a line says: `own` are the cores of the workers by number, and `each` those of which
/// each is for one worker if the number of workers is not stated.
fn note(map: CpuMap, workers: Option<usize>, each: &mut Vec<u16>, own: &mut CoresByWorker) {
    let CpuMap { in_turn, threads, cores } = map;
    let list = match (threads, workers) {
        (NamedThreads::These(list), _) => list,
        (NamedThreads::All, Some(workers)) => (1..=workers).collect(),
        (NamedThreads::All, None) => {
            *each = cores;
            return;
        }
    };
    let together: Rc<[u16]> = cores.as_slice().into();
    for (at, number) in list.into_iter().enumerate() {
        let own_core = cores.get(at % cores.len()).filter(|_| in_turn);
        own.insert(number, own_core.map_or_else(|| together.clone(), |core| [*core].into()));
    }
}

fn named_threads(text: &str) -> Option<NamedThreads> {
    match text {
        "all" => return Some(NamedThreads::All),
        "odd" | "even" => {
            let first = if text == "odd" { 1 } else { 2 };
            return Some(NamedThreads::These((first..=64).step_by(2).collect()));
        }
        _ => {}
    }
    let range = core_range(text)?;
    let is_sound = range.first().is_some_and(|first| *first > 0);
    is_sound.then(|| NamedThreads::These(range.into_iter().map(usize::from).collect()))
}

/// Returns the numbers of `N` or `N-M`, in either order of the two.
fn core_range(text: &str) -> Option<Vec<u16>> {
    let number = |text: &str| text.parse().ok().filter(|number: &u16| usize::from(*number) < MOST);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    Some((first.min(last)..=first.max(last)).collect())
}
