//! Decodes the bytes that a terminal sends for keys. It reads no terminal.

/// A key that `weir top` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PressedKey {
    Character(char),
    Up,
    Down,
    Escape,
    Enter,
}

/// Returns the keys in the bytes of one read. Unknown sequences are skipped.
pub(super) fn keys(bytes: &[u8]) -> Vec<PressedKey> {
    let mut keys = Vec::new();
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        rest = tail;
        match (first, tail) {
            (0x1b, [b'[' | b'O', ..]) => {
                // A CSI sequence: parameters, and a final byte that identifies the key.
                let end = tail.iter().skip(1).position(|byte| (0x40..=0x7e).contains(byte));
                let end = end.map_or(tail.len(), |end| end + 2);
                match tail.get(end - 1) {
                    Some(b'A') => keys.push(PressedKey::Up),
                    Some(b'B') => keys.push(PressedKey::Down),
                    _ => {}
                }
                rest = tail.get(end..).unwrap_or_default();
            }
            (0x1b, _) => keys.push(PressedKey::Escape),
            (b'\r' | b'\n', _) => keys.push(PressedKey::Enter),
            (0x03, _) => keys.push(PressedKey::Character('q')),
            (byte @ 0x20..=0x7e, _) => keys.push(PressedKey::Character(char::from(*byte))),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let check = |bytes: &[u8], expected: &[PressedKey]| assert_eq!(keys(bytes), expected);
        check(b"q", &[PressedKey::Character('q')]);
        check(b"\x03", &[PressedKey::Character('q')]);
        check(b"\x1b[A\x1bOBj", &[PressedKey::Up, PressedKey::Down, PressedKey::Character('j')]);
        check(b"\x1b", &[PressedKey::Escape]);
        check(
            b"\x1b[15~\x1b[1;5Ay\r",
            &[PressedKey::Up, PressedKey::Character('y'), PressedKey::Enter],
        );
        check(b"\x1b[", &[]);
        check("ü".as_bytes(), &[]);
    }
}
