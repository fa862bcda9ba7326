//! Sample expressions: a fetch with arguments, such as `req.hdr(host)`, and converters after
//! commas. What a text can hold of them is turned into Weir's variables.

use super::format::FormatPlace;
use super::patterns::is_single;

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

/// Returns the header of which an expression takes only what follows the last comma.
pub(super) fn partial_header(text: &str) -> Option<String> {
    let fetch = SampleExpression::parse(text).ok()?.fetch;
    let name = fetch.arguments.into_iter().next()?;
    let takes_one = matches!(fetch.name.as_str(), "hdr" | "req.hdr" | "res.hdr");
    (takes_one && !is_single(&name)).then_some(name)
}

/// Returns an expression as a text with Weir's variables.
pub(super) fn variable(text: &str, place: FormatPlace) -> Result<String, String> {
    let expression = SampleExpression::parse(text)?;
    if let Some(converter) = expression.converters.first() {
        return Err(format!("the converter `{}` has no conversion in a text", converter.name));
    }
    let SampleCall { name, arguments } = &expression.fetch;
    let argument = arguments.first().map_or("", String::as_str);
    let one = |name: &str| Ok(format!("${{{name}}}"));
    let named = |prefix: &str| {
        let plain =
            argument.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if argument.is_empty() || !plain || arguments.len() > 1 {
            return Err(format!("`{text}` has no variable in Weir"));
        }
        Ok(format!("${{{prefix}{}}}", argument.to_ascii_lowercase().replace('-', "_")))
    };
    match name.as_str() {
        "src" => one("remote_addr"),
        "src_port" => one("remote_port"),
        "dst" => one("server_addr"),
        "dst_port" => one("server_port"),
        "method" | "capture.req.method" => one("request_method"),
        "path" => one("uri"),
        "query" => one("args"),
        "url" | "capture.req.uri" | "pathq" => one("request_uri"),
        "unique-id" => one("request_id"),
        "hostname" => one("hostname"),
        "ssl_fc_sni" => one("ssl_server_name"),
        "ssl_fc_protocol" => one("ssl_protocol"),
        "ssl_fc_cipher" => one("ssl_cipher"),
        "fe_name" | "fe_defbe" if name == "fe_name" => one("listener"),
        "be_name" => one("pool"),
        "srv_name" if place != FormatPlace::Request => one("endpoint"),
        "status" if place != FormatPlace::Request => one("status"),
        "hdr" | "req.hdr" | "req.fhdr" if place != FormatPlace::Response || name != "hdr" => {
            named("http_")
        }
        "hdr" | "res.hdr" | "res.fhdr" if place != FormatPlace::Request => named("sent_http_"),
        "url_param" | "urlp" => named("arg_"),
        "cook" | "req.cook"
            if argument.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && !argument.is_empty() =>
        {
            Ok(format!("${{cookie_{argument}}}"))
        }
        "str" => Ok(argument.replace('$', "$$")),
        "int" if argument.parse::<i64>().is_ok() => Ok(argument.to_owned()),
        _ => Err(format!("Weir has no variable for `{text}`")),
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
