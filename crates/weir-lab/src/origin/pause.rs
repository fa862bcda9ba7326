//! A server that pauses periodically, as with garbage collection. Pure: times are arguments.

use crate::units::time_ns;

/// Pauses of `length` at every multiple of `every` since the start, except at the start itself.
/// Both are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OriginPause {
    every: u64,
    length: u64,
}

impl OriginPause {
    /// Reads `every=5s,for=200ms`.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut every, mut length) = (None, None);
        for part in text.split(',') {
            match part.split_once('=') {
                Some(("every", value)) => every = Some(time_ns(value)?),
                Some(("for", value)) => length = Some(time_ns(value)?),
                _ => return Err(format!("`{part}`: write a pause as `every=5s,for=200ms`")),
            }
        }
        match (every, length) {
            (Some(every), Some(length)) if length > 0 && length < every => {
                Ok(Self { every, length })
            }
            (Some(_), Some(_)) => Err(format!(
                "`{text}`: a pause must be longer than zero and shorter than its interval"
            )),
            _ => Err(format!("`{text}`: a pause needs both, as in `every=5s,for=200ms`")),
        }
    }

    /// The end of work of this length that begins at `start`, in nanoseconds after the server's own
    /// start. No work is done during a pause.
    pub fn finish_ns(self, start: u64, work: u64) -> u64 {
        let (period, phase) = (start / self.every, start % self.every);
        let start =
            if period > 0 && phase < self.length { start - phase + self.length } else { start };
        let next = (start / self.every + 1) * self.every;
        let Some(left) = work.checked_sub(next - start).filter(|left| *left > 0) else {
            return start + work;
        };
        // Whole intervals between pauses, and the remaining work after the last pause.
        let stretch = self.every - self.length;
        let whole = (left - 1) / stretch;
        next + whole * self.every + self.length + (left - whole * stretch)
    }
}

#[cfg(test)]
mod tests {
    use super::OriginPause;

    #[test]
    fn pauses_are_read_and_nonsense_is_refused() {
        let pause = OriginPause::parse("every=5s,for=200ms").unwrap();
        assert_eq!(pause, OriginPause { every: 5_000_000_000, length: 200_000_000 });
        assert_eq!(OriginPause::parse("for=200ms,every=5s").unwrap(), pause);
        for wrong in [
            "",
            "every=5s",
            "5s",
            "every=5s,for=5s",
            "every=5s,for=0s",
            "every=5,for=1s",
            "every=1s,for=1ms,x=1",
        ] {
            assert!(OriginPause::parse(wrong).is_err(), "{wrong}");
        }
    }

    /// The reference: step by step in time.
    fn slowly(pause: OriginPause, start: u64, work: u64) -> u64 {
        let is_pausing = |now: u64| now >= pause.every && now % pause.every < pause.length;
        let (mut now, mut left) = (start, work);
        while left > 0 {
            left -= u64::from(!is_pausing(now));
            now += 1;
        }
        while work == 0 && is_pausing(now) {
            now += 1;
        }
        now
    }

    #[test]
    fn work_stops_during_pauses_and_continues_after_them() {
        for (every, length) in [(10, 3), (10, 9), (7, 1), (2, 1)] {
            let pause = OriginPause { every, length };
            for start in 0..40 {
                for work in 0..60 {
                    let expected = slowly(pause, start, work);
                    assert_eq!(pause.finish_ns(start, work), expected, "{pause:?} {start} {work}");
                }
            }
        }
    }
}
