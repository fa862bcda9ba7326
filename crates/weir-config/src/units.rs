//! Durations, sizes and percentages with their units. Each module parses the text of a
//! configuration, formats a value in the shortest exact spelling, and serves as a serde `with`
//! module. A bare number is refused where a unit is needed.

/// Durations: `100us`, `100ms`, `5s`, `2m`, `1h`, `1d`.
pub mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    /// The units from large to small, each in microseconds.
    const UNITS: [(&str, u64); 6] = [
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
        ("us", 1),
    ];

    /// Parses a duration.
    pub fn parse(text: &str) -> Result<Duration, String> {
        let (number, unit) = super::split(text);
        if number.is_empty() {
            return Err(format!(
                "`{text}` is not a time: write a number and a unit, as in `100ms`, `5s`, `2m`, `1h`, `1d`"
            ));
        }
        if unit.is_empty() {
            return Err(format!(
                "a time needs a unit: did you mean `{text}s` (or `ms`, `m`, `h`, `d`)?"
            ));
        }
        if unit.starts_with('.') {
            return Err(format!(
                "`{text}`: times are whole numbers; write `1500ms` instead of `1.5s`"
            ));
        }
        let Some((_, microseconds)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!(
                "`{unit}` is not a unit of time: use `us`, `ms`, `s`, `m`, `h` or `d`"
            ));
        };
        let number: u64 = number.parse().map_err(|_| format!("`{text}` is too long"))?;
        number
            .checked_mul(*microseconds)
            .map(Duration::from_micros)
            .ok_or_else(|| format!("`{text}` is too long"))
    }

    /// Returns the shortest exact spelling in one unit.
    pub fn format(duration: Duration) -> String {
        let total = duration.as_micros();
        if total == 0 {
            return "0s".into();
        }
        let exact = |unit: &&(&str, u64)| total.is_multiple_of(u128::from(unit.1));
        let (name, microseconds) = UNITS.iter().find(exact).unwrap_or(&("us", 1));
        format!("{}{name}", total / u128::from(*microseconds))
    }

    /// Serialises it in the form of `format`.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(*duration))
    }

    /// Deserialises the form that `parse` accepts.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }

    /// A duration that may be absent.
    pub mod option {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

        /// Serialises it in the form of `format`, or as null.
        pub fn serialize<S: Serializer>(
            duration: &Option<Duration>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            duration.map(super::format).serialize(serializer)
        }

        /// Deserialises the form that `parse` accepts, or null.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Duration>, D::Error> {
            let text = Option::<String>::deserialize(deserializer)?;
            text.map(|text| super::parse(&text).map_err(de::Error::custom)).transpose()
        }
    }
}

/// Sizes in bytes with 1024-based units: `512b`, `1k`, `8m`, `1g`.
pub mod size {
    use serde::{Deserialize, Deserializer, Serializer, de};

    const UNITS: [(&str, u64); 3] = [("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)];

    /// Parses a size. A bare number other than 0 is refused: users often mean kilobytes by it.
    pub fn parse(text: &str) -> Result<u64, String> {
        let (number, unit) = super::split(text);
        if number.is_empty() {
            return Err(format!(
                "`{text}` is not a size: write a number and a unit, as in `512b`, `16k`, `8m`, `1g`"
            ));
        }
        let value: u64 = number.parse().map_err(|_| format!("`{text}` is too large"))?;
        let lower = unit.to_ascii_lowercase();
        let factor = match lower.as_str() {
            "" if value == 0 => 1,
            "" => {
                return Err(format!(
                    "a size needs a unit: did you mean `{text}k` (or `b`, `m`, `g`)?"
                ));
            }
            "b" => 1,
            name => match UNITS.iter().find(|(unit, _)| *unit == name) {
                Some((_, factor)) => *factor,
                None => {
                    return Err(format!(
                        "`{unit}` is not a unit of size: use `b`, `k`, `m` or `g` (1k is 1024 bytes)"
                    ));
                }
            },
        };
        value.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
    }

    /// Returns the shortest exact spelling.
    pub fn format(bytes: u64) -> String {
        match UNITS.iter().find(|(_, factor)| bytes != 0 && bytes.is_multiple_of(*factor)) {
            Some((name, factor)) => format!("{}{name}", bytes / factor),
            None => format!("{bytes}b"),
        }
    }

    /// Serialises it in the form of `format`.
    pub fn serialize<S: Serializer>(bytes: &usize, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(*bytes as u64))
    }

    /// Deserialises the form that `parse` accepts.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
        let bytes = parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)?;
        usize::try_from(bytes).map_err(de::Error::custom)
    }

    /// A size that may be absent.
    pub mod option {
        use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

        /// Serialises it in the form of `format`, or as null.
        pub fn serialize<S: Serializer>(
            bytes: &Option<u64>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            bytes.map(super::format).serialize(serializer)
        }

        /// Deserialises the form that `parse` accepts, or null.
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<u64>, D::Error> {
            let text = Option::<String>::deserialize(deserializer)?;
            text.map(|text| super::parse(&text).map_err(de::Error::custom)).transpose()
        }
    }
}

/// Percentages from 0 to 100: `50%`.
pub mod percent {
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Parses a percentage.
    pub fn parse(text: &str) -> Result<u8, String> {
        let (number, unit) = super::split(text);
        if number.is_empty() {
            return Err(format!("`{text}` is not a share: write it as `50%`"));
        }
        if unit.is_empty() {
            return Err(format!("a share needs its percent sign: did you mean `{text}%`?"));
        }
        match (number.parse::<u8>(), unit) {
            (Ok(percent @ 0..=100), "%") => Ok(percent),
            (_, "%") => Err(format!("`{text}` is outside 0% to 100%")),
            _ => Err(format!("`{text}` is not a share: write it as `50%`")),
        }
    }

    /// Returns the percentage with its sign.
    pub fn format(percent: u8) -> String {
        format!("{percent}%")
    }

    /// Serialises it in the form of `format`.
    pub fn serialize<S: Serializer>(percent: &u8, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(*percent))
    }

    /// Deserialises the form that `parse` accepts.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Splits a text into its leading ASCII digits and the rest.
fn split(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{duration, percent, size};

    #[test]
    fn durations_read_and_written() {
        let check = |text: &str, milliseconds: u64, canonical: &str| {
            let parsed = duration::parse(text).unwrap();
            assert_eq!(parsed, Duration::from_millis(milliseconds), "{text}");
            assert_eq!(duration::format(parsed), canonical);
        };
        check("100ms", 100, "100ms");
        check("5s", 5_000, "5s");
        check("60s", 60_000, "1m");
        check("90s", 90_000, "90s");
        check("24h", 86_400_000, "1d");
        check("0ms", 0, "0s");
        assert_eq!(duration::format(Duration::from_micros(1500)), "1500us");
    }

    #[test]
    fn duration_errors_name_the_unit() {
        let error = |text| duration::parse(text).unwrap_err();
        assert!(error("5").contains("`5s`"));
        assert!(error("5sec").contains("`sec` is not a unit"));
        assert!(error("1.5s").contains("1500ms"));
        assert!(error("soon").contains("not a time"));
        assert!(error("").contains("not a time"));
        assert!(error("99999999999999999999s").contains("too long"));
        assert!(error("999999999999d").contains("too long"));
        assert!(error("-5s").contains("not a time"));
    }

    #[test]
    fn sizes_read_and_written() {
        let check = |text: &str, bytes: u64, canonical: &str| {
            assert_eq!(size::parse(text), Ok(bytes));
            assert_eq!(size::format(bytes), canonical);
        };
        check("1k", 1024, "1k");
        check("8M", 8 << 20, "8m");
        check("1024m", 1 << 30, "1g");
        check("100b", 100, "100b");
        check("0", 0, "0b");
        assert!(size::parse("512").unwrap_err().contains("`512k`"));
        assert!(size::parse("1kb").unwrap_err().contains("1024"));
        assert!(size::parse("99999999999g").unwrap_err().contains("too large"));
    }

    #[test]
    fn percents() {
        assert_eq!(percent::parse("50%"), Ok(50));
        assert!(percent::parse("50").unwrap_err().contains("`50%`"));
        assert!(percent::parse("101%").unwrap_err().contains("outside"));
        assert!(percent::parse("300%").unwrap_err().contains("outside"));
        assert!(percent::parse("half").unwrap_err().contains("not a share"));
    }
}
