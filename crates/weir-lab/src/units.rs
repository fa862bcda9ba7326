//! Times and sizes in the notation of the laboratory's command lines: fractions are allowed, and a
//! size may be a bare number of bytes. The configuration file has its own parser.

/// Units of time from small to large, each in nanoseconds.
const TIMES: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
/// Units of size, each in bytes.
const SIZES: [(&str, u64); 5] = [("", 1), ("b", 1), ("k", 1 << 10), ("m", 1 << 20), ("g", 1 << 30)];
/// The longest time: 2^53 ns (104 days), the largest value up to which an `f64` holds every
/// nanosecond.
const MAX_TIME_NS: f64 = 9_007_199_254_740_992.0;

/// A time in nanoseconds: `250us`, `20ms`, `1.5s`, `2m`, `1h`.
///
/// # Errors
/// One sentence about the mistake in `text`.
pub fn time_ns(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let Some(value) = number.parse::<f64>().ok().filter(|value| value.is_finite()) else {
        return Err(format!(
            "`{text}` is not a time: write a number and a unit, as in `250us`, `20ms`, `1.5s`"
        ));
    };
    if unit.is_empty() {
        return Err(format!("a time needs a unit: did you mean `{text}ms`?"));
    }
    let Some((_, nanoseconds)) = TIMES.iter().find(|(name, _)| *name == unit) else {
        return Err(format!(
            "`{unit}` is not a unit of time: use `ns`, `us`, `ms`, `s`, `m` or `h`"
        ));
    };
    let time = (value * nanoseconds).round();
    if time > MAX_TIME_NS { Err(format!("`{text}` is too long")) } else { Ok(time as u64) }
}

/// A size in bytes: `100`, `1k`, `8m`; 1k is 1024 bytes.
///
/// # Errors
/// One sentence about the mistake in `text`.
pub fn size_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let lower = unit.to_ascii_lowercase();
    let factor = SIZES.iter().find(|(name, _)| *name == lower);
    let (Ok(value), Some((_, factor))) = (number.parse::<u64>(), factor) else {
        return Err(format!(
            "`{text}` is not a size: write whole bytes or a unit, as in `100`, `1k`, `8m`"
        ));
    };
    value.checked_mul(*factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// A duration in wrk's notation, in nanoseconds: a bare number of seconds, `30s`, `2m`, `1h`, and
/// all that [`time_ns`] reads.
///
/// # Errors
/// One sentence about the mistake in `text`.
pub fn wrk_time_ns(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    match unit {
        "" => time_ns(&format!("{number}s")).map_err(|_| {
            format!(
                "`{text}` is not a time: write seconds or a unit, as in `30`, `30s`, `2m`, `500ms`"
            )
        }),
        _ => time_ns(&format!("{number}{}", unit.to_ascii_lowercase())),
    }
}

/// A count in wrk's notation: `100`, `2k`, `1M`; 1k is 1,000 here. Fractions are allowed.
///
/// # Errors
/// One sentence about the mistake in `text`.
pub fn wrk_count(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        _ => f64::NAN,
    };
    let count = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
    if count.is_finite() {
        Ok(count)
    } else {
        Err(format!("`{text}` is not a count: write a number, as in `100`, `2500`, `2k`, `1M`"))
    }
}

/// The number at the start, and the remaining text.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::{size_bytes, time_ns, wrk_count, wrk_time_ns};

    #[test]
    fn times_need_a_unit_and_may_be_fractions() {
        let check = |text, expected| assert_eq!(time_ns(text).ok(), expected, "{text}");
        check("20ms", Some(20_000_000));
        check("1.5s", Some(1_500_000_000));
        check("250us", Some(250_000));
        check("0ms", Some(0));
        check("2h", Some(7_200_000_000_000));
        check("7ns", Some(7));
        for wrong in
            ["", "20", "ms", "20 ms", "-1s", "1.2.3s", "1e3s", "20MS", "999999999h", "NaNs"]
        {
            check(wrong, None);
        }
        assert_eq!(time_ns("20").unwrap_err(), "a time needs a unit: did you mean `20ms`?");
    }

    #[test]
    fn sizes_are_whole_bytes_in_units_of_1024() {
        let check = |text, expected| assert_eq!(size_bytes(text).ok(), expected, "{text}");
        check("0", Some(0));
        check("1000", Some(1000));
        check("1k", Some(1024));
        check("2M", Some(2 << 20));
        check("3b", Some(3));
        for wrong in ["", "k", "1.5k", "1kb", "-1", "99999999999999999999", "18446744073709551615k"]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn wrk_takes_bare_seconds_and_counts_by_the_thousand() {
        let time = |text, expected| assert_eq!(wrk_time_ns(text).ok(), expected, "{text}");
        time("30", Some(30_000_000_000));
        time("30s", Some(30_000_000_000));
        time("2M", Some(120_000_000_000));
        time("1h", Some(3_600_000_000_000));
        time("500ms", Some(500_000_000));
        for wrong in ["", "s", "-1", "1d"] {
            time(wrong, None);
        }
        let count =
            |text, expected: Option<f64>| assert_eq!(wrk_count(text).ok(), expected, "{text}");
        count("2500", Some(2500.0));
        count("2k", Some(2000.0));
        count("1.5K", Some(1500.0));
        count("1M", Some(1e6));
        for wrong in ["", "k", "-1", "2kb", "1e5", "NaN"] {
            count(wrong, None);
        }
    }
}
