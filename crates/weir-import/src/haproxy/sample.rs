//! Sample expressions: a fetch with arguments, such as `req.hdr(host)`, and converters after
//! commas. Their meaning is in `expressions`.

/// The most converters of an expression.
const MOST_CONVERTERS: usize = 16;

/// A fetch or a converter with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SampleCall {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

/// A fetch and the converters after it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SampleExpression {
    pub(super) fetch: SampleCall,
    pub(super) converters: Vec<SampleCall>,
}

impl SampleExpression {
    /// Parses an expression, such as `path,field(2,/),lower`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut calls = Vec::new();
        let mut rest = text;
        loop {
            let (call, after) = call(rest)?;
            calls.push(call);
            if calls.len() > MOST_CONVERTERS {
                return Err(format!("an expression has more than {MOST_CONVERTERS} converters"));
            }
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None if after.is_empty() => break,
                None => return Err(format!("`{after}` is not expected in `{text}`")),
            }
        }
        let fetch = calls.remove(0);
        if fetch.name.is_empty() {
            return Err("an expression is missing".to_owned());
        }
        Ok(Self { fetch, converters: calls })
    }
}

/// Splits a call from the text after it.
fn call(text: &str) -> Result<(SampleCall, &str), String> {
    let end = text.find(['(', ',']).unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    let name = name.trim().to_owned();
    let Some(mut rest) = after.strip_prefix('(') else {
        return Ok((SampleCall { name, arguments: Vec::new() }, after));
    };
    let mut arguments = vec![String::new()];
    let mut quote = None;
    loop {
        let Some(character) = rest.chars().next() else {
            return Err(format!("the `(` after `{name}` is never closed"));
        };
        rest = &rest[character.len_utf8()..];
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('"' | '\'', None) => quote = Some(character),
            ('\\', None | Some('"')) if rest.starts_with(['\\', '"', '\'', ' ', ',', ')', '(']) => {
                let next = rest.chars().next().unwrap_or_default();
                rest = &rest[next.len_utf8()..];
                push(&mut arguments, next);
            }
            (',', None) => arguments.push(String::new()),
            (')', None) => break,
            _ => push(&mut arguments, character),
        }
    }
    if arguments.len() == 1 && arguments[0].is_empty() {
        arguments.clear();
    }
    Ok((SampleCall { name, arguments }, rest))
}

fn push(arguments: &mut [String], character: char) {
    if let Some(last) = arguments.last_mut() {
        last.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_split() {
        let parsed = SampleExpression::parse(r#"path,regsub("^/(a|b)",\)x,g),lower"#).unwrap();
        assert_eq!(parsed.fetch.name, "path");
        assert_eq!(parsed.converters[0].arguments, ["^/(a|b)", ")x", "g"]);
        assert_eq!(parsed.converters[1].name, "lower");
        assert_eq!(SampleExpression::parse("src").unwrap().converters.len(), 0);
        assert_eq!(SampleExpression::parse("hdr()").unwrap().fetch.arguments.len(), 0);
        for text in ["", "hdr(", "hdr(a)b", ",lower", "a,b(\"c"] {
            assert!(SampleExpression::parse(text).is_err(), "{text}");
        }
    }
}
