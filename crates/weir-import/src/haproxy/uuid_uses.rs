//! The fetch `uuid`, which draws a number at each place that uses it. It reads no other part of the
//! file.

use std::collections::HashMap;

use weir_config::source::SourceSpan;

use super::sample::SampleCall;

/// The places of a file that use `uuid()`. Each has a value of its own for a request, however often
/// the place is read.
#[derive(Default)]
pub(super) struct UuidUses {
    numbers: HashMap<(SourceSpan, usize), usize>,
    /// The place of the field in the text that is being read.
    field: usize,
}

/// A text and the converters that make a number of it.
type UuidSource = (String, Vec<Vec<String>>);

impl UuidUses {
    /// Notes the place of the field that is read next.
    pub(super) fn begin_field(&mut self, at: usize) {
        self.field = at;
    }

    /// Returns a number of 128 bits in the form of RFC 9562, with the bits that tell the version:
    /// the id of the request at the first place, and a digest of it at any other. There is none for
    /// versions that HAProxy does not have.
    pub(super) fn uuid(&mut self, call: &SampleCall, span: SourceSpan) -> Option<UuidSource> {
        let version = match call.arguments.first().map_or("", String::as_str) {
            "" | "4" => "4",
            "7" => "7",
            _ => return None,
        };
        let next = self.numbers.len();
        let number = *self.numbers.entry((span, self.field)).or_insert(next);
        let step = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let form = "^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$";
        let shaped = step(&["regsub", form, &format!("\\1-\\2-{version}\\3-a\\4-\\5")]);
        Some(if number == 0 {
            ("${request_id}".to_owned(), vec![shaped])
        } else {
            let digest = ["sha1", "hex", "lower"].map(|name| step(&[name]));
            let steps = digest.into_iter().chain([shaped]).collect();
            (format!("${{request_id}}-{number}"), steps)
        })
    }
}
