//! serde `with` modules for types of other crates: they use the words and texts of the
//! configuration. It defines no types.

/// The weight mode of `fair`, by its word.
pub(crate) mod weight_mode {
    use weir_balance::WeightMode;

    /// Parses the word.
    pub(crate) fn parse(text: &str) -> Result<WeightMode, String> {
        let mut modes = WeightMode::all().iter().copied();
        modes.find(|mode| mode.as_str() == text).ok_or_else(|| {
            let words: Vec<&str> = WeightMode::all().iter().map(|mode| mode.as_str()).collect();
            format!("there is no weight mode `{text}`: use {}", words.join(", "))
        })
    }
}

/// The response time that `least_time` averages, by its word.
pub(crate) mod measured_time {
    use weir_balance::MeasuredTime;

    /// Parses the word.
    pub(crate) fn parse(text: &str) -> Result<MeasuredTime, String> {
        let mut times = MeasuredTime::all().iter().copied();
        times.find(|time| time.as_str() == text).ok_or_else(|| {
            let words: Vec<&str> = MeasuredTime::all().iter().map(|time| time.as_str()).collect();
            format!("`{text}` is not a response time: use {}", words.join(" or "))
        })
    }
}

/// An optional balance factor in percent: `125%`.
pub(crate) mod balance_factor {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use weir_balance::BalanceFactor;

    const MOST_PERCENT: u32 = 10_000;

    /// Parses the percentage.
    pub(crate) fn parse(text: &str) -> Result<BalanceFactor, String> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let percent: u32 = digits
            .parse()
            .map_err(|_| format!("`{text}` is not a balance factor: write it as `125%`"))?;
        if !text.ends_with('%') {
            return Err(format!(
                "a balance factor needs its percent sign: did you mean `{text}%`?"
            ));
        }
        if percent > MOST_PERCENT {
            return Err(format!("`{text}` is too large: at most {MOST_PERCENT}%"));
        }
        BalanceFactor::from_percent(percent).ok_or_else(|| {
            format!("`{text}` is below the fair share: at least 100%; 125% is common")
        })
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        clippy::ref_option,
        reason = "serde calls it with a reference to the field"
    )]
    pub(crate) fn serialize<S: Serializer>(
        factor: &Option<BalanceFactor>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        factor.map(|factor| format!("{}%", factor.percent())).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<BalanceFactor>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parse(&text).map_err(de::Error::custom)).transpose()
    }
}

/// A share of a whole: `12.5%`, or `*` for the rest.
pub(crate) mod share {
    use serde::{Deserialize, Deserializer, Serializer, de};

    /// Parses a share, in hundredths of a percent; `None` for the rest.
    pub(crate) fn parse(text: &str) -> Result<Option<u32>, String> {
        if text == "*" {
            return Ok(None);
        }
        let wrong =
            || format!("`{text}` is not a share: write `10%`, `0.25%`, or `*` for the rest");
        let number = text.strip_suffix('%').ok_or_else(wrong)?;
        let (whole, part) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let sound = (1..=3).contains(&whole.len()) && part.len() <= 2;
        if !sound || !digits(whole) || !digits(part) || number.ends_with('.') {
            return Err(wrong());
        }
        let hundredths = format!("{whole}{part:0<2}").parse().map_err(|_| wrong())?;
        match hundredths {
            1..=10_000 => Ok(Some(hundredths)),
            _ => Err(format!("`{text}` is not between `0.01%` and `100%`")),
        }
    }

    /// Returns the share as it is written.
    pub(crate) fn format(share: Option<u32>) -> String {
        let Some(share) = share else { return "*".to_owned() };
        let (whole, part) = (share / 100, share % 100);
        match part {
            0 => format!("{whole}%"),
            part => format!("{whole}.{}%", format!("{part:02}").trim_end_matches('0')),
        }
    }

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        clippy::ref_option,
        reason = "serde calls it with a reference to the field"
    )]
    pub(crate) fn serialize<S: Serializer>(
        share: &Option<u32>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format(*share))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u32>, D::Error> {
        parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A text with `$variables`, in the form in which it was written.
pub(crate) mod template {
    use std::cell::RefCell;

    use serde::{Deserialize, Deserializer, Serializer, de};
    use weir_stats::{DefinedVariables, Template};

    thread_local! {
        /// The variables of the configuration that is being read: serde passes nothing to the
        /// functions of a field.
        static DEFINED: RefCell<DefinedVariables> = RefCell::default();
    }

    /// Calls `read` while these variables may be used.
    pub(crate) fn with<R>(defined: DefinedVariables, read: impl FnOnce() -> R) -> R {
        DEFINED.replace(defined);
        let result = read();
        DEFINED.take();
        result
    }

    /// Parses a text with the variables of the configuration that is being read.
    pub(crate) fn of(text: &str) -> Result<Template, String> {
        let parsed = DEFINED.with_borrow(|defined| defined.template(text));
        parsed.map_err(|error| error.message)
    }

    pub(crate) fn parse<E: de::Error>(text: &str) -> Result<Template, E> {
        of(text).map_err(E::custom)
    }

    pub(crate) fn serialize<S: Serializer>(
        template: &Template,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(template.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Template, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }

    /// An optional text with `$variables`.
    pub(crate) mod option {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};
        use weir_stats::Template;

        #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
        pub(crate) fn serialize<S: Serializer>(
            template: &Option<Template>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            template.as_ref().map(Template::as_str).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Template>, D::Error> {
            Option::<String>::deserialize(deserializer)?.map(|text| super::parse(&text)).transpose()
        }
    }
}
