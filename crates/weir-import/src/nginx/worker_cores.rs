//! `worker_cpu_affinity`: the cores of workers.

use weir_config::model::WorkerCores;

use super::state::Converter;
use super::statements::StatementId;

/// The most characters of a mask, as many as the kernel's sets have cores.
const MOST: usize = 1024;

impl Converter<'_, '_> {
    /// Takes `worker_cpu_affinity`; `workers` is the word of `worker_processes`.
    pub(crate) fn worker_cores(&mut self, workers: &str) -> Option<WorkerCores> {
        let lines = self.statements.named(None, "worker_cpu_affinity");
        for other in lines.iter().skip(1) {
            self.outcomes.refuse(*other, "there is a second `worker_cpu_affinity`");
        }
        let id = *lines.first()?;
        let count = workers.parse().ok();
        match self.affinity(id, count) {
            Ok(None) => self.outcomes.honour(id),
            Ok(cores) if count.is_some() => {
                self.outcomes.honour(id);
                return cores;
            }
            Ok(cores) => {
                self.outcomes.differs(
                    id,
                    "`workers auto cpus=`: a worker for each mask, or for each core of the one behind `auto`; nginx has as many as the machine has cores",
                );
                return cores;
            }
            Err(reason) => self.outcomes.refuse(id, reason),
        }
        None
    }

    fn affinity(
        &self,
        id: StatementId,
        count: Option<usize>,
    ) -> Result<Option<WorkerCores>, &'static str> {
        const WRONG: &str = "write masks of the digits 0 and 1, or `auto` and a mask";
        let words = self.statements.words(id);
        let is_auto = words.first().is_some_and(|word| word.text == "auto");
        let masks = if is_auto { words.get(1..).unwrap_or_default() } else { words };
        let masks: Option<Vec<Vec<u16>>> = masks.iter().map(|word| mask(&word.text)).collect();
        let masks = masks.ok_or(WRONG)?;
        let sets: Vec<Vec<u16>> = match (is_auto, masks.as_slice()) {
            (true, []) => return Ok(None),
            (true, [one]) => one.iter().map(|core| vec![*core]).collect(),
            (false, [.., last]) => {
                // Workers beyond the last mask have that one.
                let more = count.unwrap_or(0).min(MOST).saturating_sub(masks.len());
                let more = std::iter::repeat_n(last.clone(), more).collect::<Vec<_>>();
                masks.into_iter().chain(more).take(count.unwrap_or(MOST)).collect()
            }
            _ => return Err(WRONG),
        };
        WorkerCores::new(sets).map(Some).ok_or("a mask has at least one 1")
    }
}

/// Returns the cores of a mask, whose last digit is the first core.
fn mask(text: &str) -> Option<Vec<u16>> {
    let is_mask = text.len() <= MOST && text.bytes().all(|digit| matches!(digit, b'0' | b'1'));
    let ones = text.bytes().rev().zip(0..).filter(|(digit, _)| *digit == b'1');
    is_mask.then(|| ones.map(|(_, core)| core).collect())
}
