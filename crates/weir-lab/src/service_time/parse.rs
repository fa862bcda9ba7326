//! Parses service times as written on the command line. It reads no file.

use super::{MixShare, ServiceTime};
use crate::units::time_ns;

const FORMS: &str =
    "`constant:20ms`, `exp:20ms`, `lognormal:MEDIAN,SIGMA`, `list:FILE` or `mix:98%10ms+2%500ms`";
/// Largest number of times in a list.
const MAX_LIST: usize = 1_000_000;
/// Largest number of parts in a mix.
const MAX_SHARES: usize = 64;

pub(super) fn parse(
    text: &str,
    read: impl FnOnce(&str) -> Result<String, String>,
) -> Result<ServiceTime, String> {
    match text.split_once(':') {
        Some(("list", file)) => list(file, &read(file)?),
        Some(("mix", parts)) => mix(parts),
        _ => simple(text),
    }
}

/// Parses a distribution that can also be a part of a mix. A bare time is constant.
fn simple(text: &str) -> Result<ServiceTime, String> {
    let Some((kind, value)) = text.split_once(':') else {
        return match time_ns(text) {
            Ok(time) => Ok(ServiceTime::Constant(time)),
            Err(_) => Err(format!("`{text}` is not a service time: write {FORMS}")),
        };
    };
    match kind {
        "constant" => Ok(ServiceTime::Constant(time_ns(value)?)),
        "exp" => Ok(ServiceTime::Exponential { mean_ns: positive(value)? }),
        "lognormal" => {
            let Some((median, sigma)) = value.split_once(',') else {
                return Err(format!(
                    "`{text}` needs a median and a sigma, as in `lognormal:20ms,0.5`"
                ));
            };
            let parsed = sigma.parse::<f64>().ok().filter(|sigma| *sigma > 0.0 && *sigma <= 10.0);
            let Some(sigma) = parsed else {
                return Err(format!(
                    "sigma must be a number above 0 and at most 10, not `{sigma}`"
                ));
            };
            Ok(ServiceTime::LogNormal { median_ns: positive(median)?, sigma })
        }
        _ => Err(format!("`{kind}` is not a kind of service time: write {FORMS}")),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match time_ns(text)? {
        0 => Err(format!("`{text}`: this time must be above zero")),
        time => Ok(time as f64),
    }
}

fn mix(text: &str) -> Result<ServiceTime, String> {
    let mut shares = Vec::new();
    let mut percent_sum = 0.0;
    for part in text.split('+') {
        let parsed = part.split_once('%').and_then(|(percent, time)| {
            Some((percent.parse::<f64>().ok().filter(|percent| *percent > 0.0)?, time))
        });
        let Some((percent, time)) = parsed else {
            return Err(format!(
                "`{part}` is not a part of a mix: write `98%10ms` or `2%exp:500ms`"
            ));
        };
        percent_sum += percent;
        shares.push(MixShare { cumulative: percent_sum / 100.0, time: simple(time)? });
    }
    // Tolerates the rounding of shares such as thirds written with a few digits.
    if (percent_sum - 100.0).abs() > 0.001 {
        return Err(format!("the parts of a mix must add up to 100 %, not {percent_sum} %"));
    }
    if shares.len() > MAX_SHARES {
        return Err(format!("a mix has at most {MAX_SHARES} parts"));
    }
    if let Some(last) = shares.last_mut() {
        last.cumulative = 1.0;
    }
    Ok(ServiceTime::Mix(shares))
}

/// Parses a list: one time per line; empty lines and text after a `#` are skipped.
fn list(file: &str, text: &str) -> Result<ServiceTime, String> {
    let mut times = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let word = line.split('#').next().unwrap_or_default().trim();
        if word.is_empty() {
            continue;
        }
        times.push(time_ns(word).map_err(|error| format!("{file}:{}: {error}", number + 1))?);
        if times.len() > MAX_LIST {
            return Err(format!("{file}: a list has at most {MAX_LIST} times"));
        }
    }
    if times.is_empty() {
        Err(format!("{file} has no times"))
    } else {
        Ok(ServiceTime::List(times))
    }
}
