//! The checks of a sticky cookie: above all that browsers will accept it. It makes no cookie.

use std::time::Duration;

use super::objection::Objection;
use crate::model::{SameSite, Secret, Secure, Sticky, StickyMode, values};

/// Returns every reason why a cookie is invalid.
pub(crate) fn objections(sticky: &Sticky) -> Vec<Objection> {
    let mut objections = cross_objections(sticky);
    let mut hold = |path, outcome: Result<(), String>| {
        if let Err(message) = outcome {
            objections.push(Objection { path, options: &[], message, help: "" });
        }
    };
    hold(".cookie", values::token(&sticky.cookie, "a cookie"));
    hold(".path", path(&sticky.path));
    hold(".domain", sticky.domain.as_deref().map_or(Ok(()), domain));
    hold(".max_age", sticky.max_age.map_or(Ok(()), max_age));
    if let Some(Secret::Text(text)) = &sticky.secret {
        hold(".secret", Secret::check(text.as_bytes()));
    }
    objections
}

/// Returns the contradictions between attributes: browsers reject such a cookie.
pub(crate) fn cross_objections(sticky: &Sticky) -> Vec<Objection> {
    let mut objections = Vec::new();
    let mut object = |path, options: &'static [&'static str], message: &str, help| {
        objections.push(Objection { path, options, message: message.to_owned(), help });
    };
    if sticky.same_site == Some(SameSite::None) && sticky.secure == Secure::Off {
        let message = "browsers reject a cookie with `samesite=none` unless it is `secure`";
        object(".same_site", &["samesite"], message, "add `secure`, or `secure=auto`");
    }
    let prefixed = |prefix: &str| {
        let start = sticky.cookie.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    if (prefixed("__Secure-") || prefixed("__Host-")) && sticky.secure != Secure::On {
        let message = "browsers reject a cookie of such a name unless it is `secure`";
        object(".cookie", &[], message, "add `secure`, or give it another name");
    }
    let for_insert = [
        (".visible", "visible", sticky.visible),
        (".preserve", "preserve", sticky.preserve),
        (".post_only", "postonly", sticky.post_only),
    ];
    for (path, option, given) in for_insert {
        if given && sticky.mode != StickyMode::Insert {
            let options: &[&str] = match option {
                "visible" => &["visible"],
                "preserve" => &["preserve"],
                _ => &["postonly"],
            };
            let message = format!("`{option}` belongs to the mode `insert`");
            object(path, options, &message, "in the other modes servers set the cookie");
        }
    }
    if prefixed("__Host-") && (sticky.domain.is_some() || sticky.path != "/") {
        let message = "browsers reject a `__Host-` cookie with a domain or a path other than `/`";
        object(
            ".cookie",
            &["domain", "path"],
            message,
            "remove `domain=` and `path=`, or give it another name",
        );
    }
    objections
}

/// Checks the value of a server (RFC 6265 section 4.1.1).
pub(crate) fn value(text: &str) -> Result<(), String> {
    let is_octet = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(is_octet) {
        return Err(format!(
            "`{text}` is not a value of a sticky cookie: letters, digits and marks without quotes, `,`, `;`, `|`, `~` and backslashes are allowed"
        ));
    }
    Ok(())
}

pub(crate) fn path(text: &str) -> Result<(), String> {
    if !text.starts_with('/') {
        return Err(format!("`{text}` is not a path of a cookie: it must start with `/`"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';') {
        return Err(format!(
            "`{text}` is not a path of a cookie: only visible ASCII without `;` is allowed"
        ));
    }
    Ok(())
}

/// Checks a `Domain`. A leading dot is allowed and ignored (RFC 6265 section 5.2.3).
pub(crate) fn domain(text: &str) -> Result<(), String> {
    values::host_name(text.strip_prefix('.').unwrap_or(text))
        .map_err(|_| format!("`{text}` is not a domain of a cookie: write `example.com`"))
}

pub(crate) fn max_age(age: Duration) -> Result<(), String> {
    if age.is_zero() || age.subsec_nanos() != 0 {
        return Err("the lifetime of a cookie is in whole seconds, at least `1s`".into());
    }
    Ok(())
}
