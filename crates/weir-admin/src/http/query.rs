//! The fields of a query or a form, and percent-encoding. It knows no request.

/// The fields of a query or a form.
pub(crate) fn query_of(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        })
        .collect()
}

/// Decodes percent-encoding; invalid sequences stay as they are.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|_| *first == b'%').and_then(|digits| {
            let digits = std::str::from_utf8(digits).ok()?;
            let are_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            are_digits.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
        });
        bytes.push(hex.unwrap_or(*first));
        rest = if hex.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_taken_apart() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let found = query_of(text);
            let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found, expected);
        };
        check("", &[]);
        check("dry_run=true&x", &[("dry_run", "true"), ("x", "")]);
        check("a=1%202&b=%zz%+4%4&&c=+", &[("a", "1 2"), ("b", "%zz% 4%4"), ("c", " ")]);
    }
}
