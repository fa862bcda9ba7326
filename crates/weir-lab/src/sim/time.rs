//! The time of the simulation, nanoseconds in a `u64`, and its notation. It reads no clock.

/// One second in nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// A time later than all events.
pub(crate) const NEVER: u64 = u64::MAX / 4;

/// The shortest notation that `units::time_ns` reads back to the same value.
pub(crate) fn format(nanoseconds: u64) -> String {
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    let (name, factor) = match nanoseconds {
        0..1_000 => ("ns", 1),
        1_000..1_000_000 => ("us", 1_000),
        1_000_000..SECOND => ("ms", 1_000_000),
        _ => ("s", SECOND),
    };
    let (whole, rest) = (nanoseconds / factor, nanoseconds % factor);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let width = factor.ilog10() as usize;
    let decimals = format!("{rest:0width$}");
    format!("{whole}.{}{name}", decimals.trim_end_matches('0'))
}

/// The time in microseconds, rounded down.
pub(crate) fn micros(nanoseconds: u64) -> u64 {
    nanoseconds / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::time_ns;

    #[test]
    fn times_read_back_as_they_are_written() {
        for (nanoseconds, text) in [
            (20_000_000, "20ms"),
            (1_500_000_000, "1.5s"),
            (120 * SECOND, "120s"),
            (7_000, "7us"),
            (12_250_000, "12.25ms"),
            (1_000_001, "1.000001ms"),
            (0, "0s"),
        ] {
            assert_eq!(format(nanoseconds), text);
            assert_eq!(time_ns(text), Ok(nanoseconds));
        }
    }
}
