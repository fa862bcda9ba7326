//! The faults that a request can ask for. They are performed in `connection.rs`.

/// A way in which a response fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OriginFault {
    /// The connection is closed in place of the head.
    Close,
    /// The connection is closed after half of the head.
    CloseHead,
    /// The connection is closed after the head and half of the body.
    CloseBody,
    /// The connection is reset in place of the head.
    Reset,
    /// The connection is reset after the head and half of the body.
    ResetBody,
    /// Bytes that are not HTTP, then a close.
    Garbage,
    /// No response until the client closes.
    Hang,
    /// The head and half of the body, then no more bytes until the client closes.
    HangBody,
}

impl OriginFault {
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

    /// The fault with this name.
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
