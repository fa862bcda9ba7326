//! Counts the endpoints and nodes that a pick looks at, in unit tests: their number must not grow
//! with the number of endpoints. Elsewhere it costs nothing.

#[cfg(test)]
thread_local! {
    static LOOKS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts one look.
#[inline]
pub(crate) fn count() {
    #[cfg(test)]
    LOOKS.with(|looks| looks.set(looks.get() + 1));
}

/// The looks of this thread since the last call.
#[cfg(test)]
pub(crate) fn take() -> u64 {
    LOOKS.with(|looks| looks.replace(0))
}
