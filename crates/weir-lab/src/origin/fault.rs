//! What a request can ask the origin to do wrong.

/// How an answer fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection is closed in order where the head should come.
    Close,
    /// Closed after half of the head.
    CloseHead,
    /// Closed after the head and half of the body.
    CloseBody,
    /// The connection is reset where the head should come.
    Reset,
    /// Reset after the head and half of the body.
    ResetBody,
    /// Bytes that are no HTTP, then closed.
    Garbage,
    /// No answer at all, until the client goes.
    Hang,
    /// The head and half of the body, then nothing more until the client goes.
    HangBody,
}

impl Fault {
    pub(super) const ALL: [(&str, Self); 8] = [
        ("close", Self::Close),
        ("close-head", Self::CloseHead),
        ("close-body", Self::CloseBody),
        ("reset", Self::Reset),
        ("reset-body", Self::ResetBody),
        ("garbage", Self::Garbage),
        ("hang", Self::Hang),
        ("hang-body", Self::HangBody),
    ];

    /// By its name.
    pub(super) fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(own, _)| *own == name);
        found.map(|(_, fault)| *fault).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("`{name}` is not a fault: {}", names.join(", "))
        })
    }

    pub(super) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, fault)| *fault == self).map_or("", |(name, _)| name)
    }
}
