//! The workers that a configuration asks for and the cores that they are pinned to, on this
//! machine.

use weir_config::Config;
use weir_config::model::Workers;
use weir_proxy::start::allowed_cores;

/// The number of workers that a configuration asks for.
pub(crate) fn worker_count(config: &Config) -> usize {
    match config.workers {
        Workers::Auto => worker_cores(config).sets.len().max(1),
        Workers::Count(count) => count.max(1),
    }
}

/// The cores of the workers.
pub(crate) struct CoresFound {
    /// A set for each worker in turn.
    pub(crate) sets: Vec<Vec<usize>>,
    /// A sentence about cores that the file names and this process may not use: the file may have
    /// been written on another machine.
    pub(crate) warning: Option<String>,
}

/// Returns the cores of the workers.
pub(crate) fn worker_cores(config: &Config) -> CoresFound {
    found_within(config, &allowed_cores())
}

fn found_within(config: &Config, allowed: &[usize]) -> CoresFound {
    let each = || allowed.iter().map(|core| vec![*core]).collect();
    let Some(cores) = &config.worker_cores else {
        return CoresFound { sets: each(), warning: None };
    };
    let (sets, missing) = cores.within(allowed);
    let names: Vec<String> = missing.iter().map(u16::to_string).collect();
    let warning = |instead: &str| {
        format!(
            "workers cpus={cores}: this process may not use the cores {}; {instead}",
            names.join(", ")
        )
    };
    if sets.is_empty() {
        let warning = warning("its workers use all cores that it may use");
        return CoresFound { sets: each(), warning: Some(warning) };
    }
    let warning = (!names.is_empty()).then(|| warning("its workers use the other ones"));
    CoresFound { sets, warning }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_are_not_there_are_warned_of_and_not_used() {
        let found = |line: &str| {
            let text = format!("{line} listen :80 -> respond 204;");
            found_within(&weir_config::parse_str("test", &text).unwrap().config, &[0, 1, 4])
        };
        let check = |line: &str, sets: &[&[usize]], warning: Option<&str>| {
            let found = found(line);
            assert_eq!(found.sets, sets, "{line}");
            let said = found.warning.as_deref();
            assert!(said.is_none() == warning.is_none(), "{line}: {said:?}");
            let part = warning.unwrap_or_default();
            assert!(said.unwrap_or_default().contains(part), "{line}: {said:?}");
        };
        check("", &[&[0], &[1], &[4]], None);
        check("workers 2 cpus=4,0;", &[&[4], &[0]], None);
        check("workers auto cpus=0+1,4;", &[&[0, 1], &[4]], None);
        check("workers auto cpus=0-3;", &[&[0], &[1]], Some("may not use the cores 2, 3; its"));
        check("workers auto cpus=8-9;", &[&[0], &[1], &[4]], Some("workers use all cores"));
    }
}
