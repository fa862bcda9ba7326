//! The account of an imported file: what became of each directive, as text and as JSON. The
//! verdicts are found in `nginx`.

use std::fmt::Write as _;

use serde::Serialize;

/// The outcome of one directive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", content = "reason", rename_all = "snake_case")]
pub enum CoverageOutcome {
    /// Weir does the same.
    Honoured,
    /// Weir does it in another way, which this text describes.
    Differently(String),
    /// The directive has no effect, for this reason.
    Ignored(String),
    /// Weir cannot do it; the text says what to do instead.
    Refused(String),
}

impl CoverageOutcome {
    /// Returns the word for the kind of outcome.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Honoured => "honoured",
            Self::Differently(_) => "differently",
            Self::Ignored(_) => "ignored",
            Self::Refused(_) => "refused",
        }
    }

    /// Returns the description, which an honoured directive does not need.
    pub fn reason(&self) -> &str {
        match self {
            Self::Honoured => "",
            Self::Differently(reason) | Self::Ignored(reason) | Self::Refused(reason) => reason,
        }
    }

    /// Returns the worse of two outcomes of one directive that is used twice, such as one of `http`
    /// in two servers. Of two differences both are told.
    pub(crate) fn or_worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Differently(mut one), Self::Differently(other)) => {
                if !one.contains(&other) && one.len() < MOST_REASON {
                    one.push_str("; ");
                    one.push_str(&other);
                }
                Self::Differently(one)
            }
            (one, other) if other.severity() > one.severity() => other,
            (one, _) => one,
        }
    }

    fn severity(&self) -> u8 {
        match self {
            Self::Ignored(_) => 0,
            Self::Honoured => 1,
            Self::Differently(_) => 2,
            Self::Refused(_) => 3,
        }
    }
}

/// One occurrence of a directive.
#[derive(Clone, Debug, Serialize)]
pub struct CoverageEntry {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The directive with its words, shortened.
    pub directive: String,
    /// The outcome.
    #[serde(flatten)]
    pub outcome: CoverageOutcome,
}

/// The length of a reason to which no other is added.
const MOST_REASON: usize = 400;

/// The most characters of a directive that a report shows.
const SHOWN: usize = 80;

/// Returns the words of a directive as they were written, shortened.
pub(crate) fn shortened(words: &[&str]) -> String {
    let mut text = String::new();
    let mut before = "";
    for word in words {
        let is_secret = matches!(before, "password" | "insecure-password")
            || before == "auth" && words.first() == Some(&"stats");
        before = word;
        // Reports are shown and kept where files with passwords are not.
        let word = if is_secret { "…" } else { *word };
        if text.chars().count() > SHOWN {
            break;
        }
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(word);
    }
    let text: String = text
        .chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// A default of the other program that the conversion sets, or that Weir does not have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DefaultDifference {
    /// The directive that was not given.
    pub directive: &'static str,
    /// The other program's default and what Weir does.
    pub how: String,
}

/// The number of directives by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CoverageTotals {
    /// Honoured exactly.
    pub honoured: usize,
    /// Honoured in another way.
    pub differently: usize,
    /// Without effect.
    pub ignored: usize,
    /// Refused.
    pub refused: usize,
}

/// The account of a file.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    /// The directives, in the order of reading.
    pub entries: Vec<CoverageEntry>,
    /// The defaults that matter.
    pub defaults: Vec<DefaultDifference>,
}

impl Coverage {
    /// Returns the number of directives by outcome.
    pub fn totals(&self) -> CoverageTotals {
        let mut totals = CoverageTotals::default();
        for entry in &self.entries {
            match entry.outcome {
                CoverageOutcome::Honoured => totals.honoured += 1,
                CoverageOutcome::Differently(_) => totals.differently += 1,
                CoverageOutcome::Ignored(_) => totals.ignored += 1,
                CoverageOutcome::Refused(_) => totals.refused += 1,
            }
        }
        totals
    }

    /// Returns the refused directives.
    pub fn refused(&self) -> impl Iterator<Item = &CoverageEntry> {
        self.entries.iter().filter(|entry| matches!(entry.outcome, CoverageOutcome::Refused(_)))
    }

    /// Returns the report as text: a line for each directive, the defaults, and the totals.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for entry in &self.entries {
            let CoverageEntry { file, line, directive, outcome } = entry;
            let _ = write!(text, "{file}:{line}: {}: {directive}", outcome.word());
            match outcome.reason() {
                "" => text.push('\n'),
                reason => {
                    let _ = writeln!(text, ": {reason}");
                }
            }
        }
        for DefaultDifference { directive, how } in &self.defaults {
            let _ = writeln!(text, "default: {directive}: {how}");
        }
        let CoverageTotals { honoured, differently, ignored, refused } = self.totals();
        let _ = writeln!(
            text,
            "{} directives: {honoured} honoured, {differently} honoured differently, {ignored} ignored, {refused} refused",
            self.entries.len()
        );
        text
    }

    /// Returns the report as JSON, with the totals.
    pub fn json(&self) -> String {
        let value = serde_json::json!({
            "directives": self.entries,
            "defaults": self.defaults,
            "totals": self.totals(),
        });
        format!("{value:#}\n")
    }
}
