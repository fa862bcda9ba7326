//! Conversions: a text goes through a row of converters, each of which changes the result of the
//! one before it. Names and results are those of HAProxy's converters where it has one.

mod digest;
mod list;
mod number;
mod operand;
mod text;
mod time;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddrV4};
use std::ops::Range;

use ipnet::IpNet;
use regex::bytes::{Regex, RegexBuilder};

use super::error::{DefinitionError, DefinitionPart};
use super::map::{REGEX_BYTES, network, regex_message};
use super::result::{FindVariable, ResultText};
use crate::access_log::scratch::Scratch;
use crate::{Clock, Entry, Variable};
use digest::ValueDigest;
use list::ListPart;
use number::NumberRange;
use operand::{OperandTexts, TextComparison};
use time::TimeForm;

/// The most converters of one conversion.
const MOST_CONVERTERS: usize = 32;
/// The most bytes that a conversion may make of a value.
const MOST_BYTES: usize = 64 << 10;

/// A conversion as it is configured.
#[derive(Clone, Copy, Debug)]
pub struct ConvertLines<'a> {
    /// The text that is converted.
    pub source: &'a str,
    /// The converters with their arguments, in order.
    pub steps: &'a [Vec<String>],
}

/// A compiled conversion.
#[derive(Debug)]
pub(super) struct Conversion {
    steps: Box<[ConvertStep]>,
    /// The arguments that may have variables.
    texts: Box<[ResultText]>,
    fingerprint: u64,
}

/// The values that the arguments of converters have for one exchange.
pub(super) struct ConvertScope<'a> {
    texts: &'a [ResultText],
    /// `None` if no argument has variables.
    exchange: Option<(&'a Entry<'a>, &'a mut Clock)>,
}

#[derive(Debug)]
enum ConvertStep {
    Lower,
    Upper,
    Length,
    Bytes {
        offset: usize,
        length: usize,
    },
    Field(ListPart),
    Word(ListPart),
    ListItem(i64),
    ListCount,
    /// A text where there is no value, by its number.
    Default(usize),
    /// The converters after it look at each of these parts; one that gives something is enough.
    Any {
        part: AnyPart,
        /// Set if a part without a result is the last one.
        until_none: bool,
    },
    /// The value that a map has for the text; the number is that of the map's variable.
    Lookup(usize),
    /// The order of the value and the text with this number.
    Compare(TextComparison, usize),
    Parameter(Box<[u8]>),
    Cookie(Box<[u8]>),
    HostOnly,
    PortOnly,
    Replace {
        regex: Regex,
        text: Box<[u8]>,
        all: bool,
    },
    UrlDecode {
        form: bool,
    },
    UrlEncode,
    Hex,
    Base64 {
        url_safe: bool,
    },
    FromBase64 {
        url_safe: bool,
    },
    Json {
        utf8: bool,
        lenient: bool,
    },
    TrimStart(Box<[u8]>),
    TrimEnd(Box<[u8]>),
    Mask(u8, u8),
    Hash(number::HashKind, i64),
    Digest(ValueDigest),
    FromHex,
    /// Writes a number in hexadecimal digits, at least so many.
    HexNumber(usize),
    /// Writes the bytes of an address in hexadecimal digits.
    HexAddress,
    /// Ends a text before its first line end.
    CutLine,
    Arithmetic(number::Arithmetic),
    /// The same with the number that the text with this number is.
    ArithmeticWith(number::Arithmetic, usize),
    Choice(Box<[u8]>, Box<[u8]>),
    Range(Box<[NumberRange]>),
    Matches(Regex),
    Network(Box<[IpNet]>),
    Time(Box<TimeForm>),
}

/// The parts of a value that are looked at one by one.
#[derive(Debug)]
enum AnyPart {
    /// The items of a list with commas.
    Item,
    /// The parameters of a query with this name.
    Parameter(Box<[u8]>),
    /// The cookies with this name that have a value.
    Cookie(Box<[u8]>),
}

/// The names of the converters, with the fewest and the most arguments.
const NAMES: [(&str, usize, usize); 67] = [
    ("lower", 0, 0),
    ("upper", 0, 0),
    ("length", 0, 0),
    ("bytes", 1, 2),
    ("field", 2, 3),
    ("word", 2, 3),
    ("list_item", 1, 1),
    ("list_count", 0, 0),
    ("default", 1, 1),
    ("any_item", 0, 1),
    ("any_param", 1, 2),
    ("any_cookie", 1, 2),
    ("lookup", 1, 1),
    ("strcmp", 1, 1),
    ("secure_memcmp", 1, 1),
    ("param", 1, 1),
    ("cookie", 1, 1),
    ("host_only", 0, 0),
    ("port_only", 0, 0),
    ("regsub", 2, 3),
    ("url_dec", 0, 1),
    ("url_enc", 0, 0),
    ("hex", 0, 0),
    ("base64", 0, 0),
    ("b64dec", 0, 0),
    ("ub64enc", 0, 0),
    ("ub64dec", 0, 0),
    ("json", 0, 1),
    ("ltrim", 1, 1),
    ("rtrim", 1, 1),
    ("ipmask", 1, 2),
    ("crc32", 0, 1),
    ("djb2", 0, 1),
    ("sdbm", 0, 1),
    ("wt6", 0, 1),
    ("xxh32", 0, 1),
    ("crc32c", 0, 1),
    ("xxh64", 0, 1),
    ("sha1", 0, 0),
    ("sha2", 0, 1),
    ("digest", 1, 1),
    ("hmac", 2, 2),
    ("hex2i", 0, 0),
    ("hex_number", 1, 1),
    ("hex_address", 0, 0),
    ("cut_crlf", 0, 0),
    ("add", 1, 1),
    ("sub", 1, 1),
    ("mul", 1, 1),
    ("div", 1, 1),
    ("mod", 1, 1),
    ("and", 1, 1),
    ("or", 1, 1),
    ("xor", 1, 1),
    ("neg", 0, 0),
    ("cpl", 0, 0),
    ("even", 0, 0),
    ("odd", 0, 0),
    ("bool", 0, 0),
    ("not", 0, 0),
    ("iif", 2, 2),
    ("http_date", 0, 1),
    ("utime", 1, 2),
    ("ltime", 1, 2),
    ("range", 1, usize::MAX),
    ("matches", 1, 1),
    ("network", 1, usize::MAX),
];

/// Returns the names of all converters.
pub fn converters() -> impl Iterator<Item = &'static str> {
    NAMES.iter().map(|(name, ..)| *name)
}

/// Returns true if there is a converter of that name.
pub fn is_converter(name: &str) -> bool {
    NAMES.iter().any(|(known, ..)| *known == name)
}

/// Checks a converter with its arguments.
///
/// # Errors
/// The reason why there is no such converter.
pub fn converter_fault(words: &[String]) -> Result<(), String> {
    let (name, arguments) =
        words.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    ConvertStep::parse(name, &arguments, &mut OperandTexts::unknown()).map(|_| ())
}

/// Returns the argument of a converter that may have variables, if it has one.
pub fn converter_text(words: &[String]) -> Option<&str> {
    let (name, arguments) = words.split_first()?;
    operand::takes_text(name).then(|| arguments.first().map(String::as_str)).flatten()
}

/// Returns what converters make of a text; `None` if there is no such converter or no result.
pub fn convert_text(text: &str, steps: &[&[&str]]) -> Option<String> {
    let mut texts = OperandTexts::new(&|_| None);
    let parse = |words: &&[&str]| {
        let (name, arguments) = words.split_first()?;
        ConvertStep::parse(name, arguments, &mut texts).ok()
    };
    let steps = steps.iter().map(parse).collect::<Option<Vec<_>>>()?;
    let mut value = text.as_bytes().to_vec();
    let texts = texts.into_texts();
    let mut scope = ConvertScope { texts: &texts, exchange: None };
    run(&steps, true, &mut value, &mut scope).then_some(())?;
    String::from_utf8(value).ok()
}

impl Conversion {
    pub(super) fn new(
        lines: &ConvertLines<'_>,
        known: FindVariable<'_>,
    ) -> Result<Self, DefinitionError> {
        if lines.steps.is_empty() {
            let message = "a conversion needs at least one converter, such as `lower`";
            return Err(DefinitionError::new(DefinitionPart::Source, message));
        }
        let mut steps = Vec::with_capacity(lines.steps.len());
        let mut texts = OperandTexts::new(known);
        for (number, words) in lines.steps.iter().enumerate() {
            let wrong =
                |message: String| DefinitionError::new(DefinitionPart::Key(number), message);
            if number == MOST_CONVERTERS {
                return Err(wrong(format!(
                    "at most {MOST_CONVERTERS} converters follow each other"
                )));
            }
            let (name, arguments) =
                words.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let step = ConvertStep::parse(name, &arguments, &mut texts);
            let unknown = texts.take_unknown();
            steps.push(step.map_err(|message| DefinitionError { unknown, ..wrong(message) })?);
        }
        let mut hasher = DefaultHasher::new();
        lines.steps.hash(&mut hasher);
        let (steps, texts) = (steps.into(), texts.into_texts());
        Ok(Self { steps, texts, fingerprint: hasher.finish() })
    }

    /// The arguments that may have variables.
    pub(super) fn texts(&self) -> &[ResultText] {
        &self.texts
    }

    /// Converts a value. Returns false if there is no result.
    pub(super) fn apply(
        &self,
        present: bool,
        value: &mut Vec<u8>,
        entry: &Entry<'_>,
        clock: &mut Clock,
    ) -> bool {
        let mut scope = ConvertScope { texts: &self.texts, exchange: Some((entry, clock)) };
        run(&self.steps, present, value, &mut scope)
    }

    pub(super) fn hash(&self, hasher: &mut DefaultHasher) {
        ("convert", self.fingerprint).hash(hasher);
    }
}

fn run(
    steps: &[ConvertStep],
    mut present: bool,
    value: &mut Vec<u8>,
    scope: &mut ConvertScope<'_>,
) -> bool {
    for (at, step) in steps.iter().enumerate() {
        match step {
            ConvertStep::ListCount => {
                let count = if present { list::count(value) } else { 0 };
                number::write(count, value);
                present = true;
            }
            ConvertStep::Default(text) => {
                if !present {
                    value.clear();
                    present = scope.append(*text, value) && value.len() <= MOST_BYTES;
                }
            }
            // Nothing has no parts.
            ConvertStep::Any { .. } if !present => return false,
            _ if !present => {}
            ConvertStep::Any { part, until_none } => {
                let rest = steps.get(at + 1..).unwrap_or_default();
                let found = any(part, *until_none, value, |value| run(rest, true, value, scope));
                number::write(i64::from(found), value);
                return true;
            }
            ConvertStep::Lookup(_) | ConvertStep::Compare(..) | ConvertStep::ArithmeticWith(..) => {
                present = step.apply_with(value, scope) && value.len() <= MOST_BYTES;
            }
            step => present = step.apply(value) && value.len() <= MOST_BYTES,
        }
    }
    present
}

/// Returns true if converters give something for one of these parts.
fn any(
    part: &AnyPart,
    until_none: bool,
    value: &[u8],
    mut convert: impl FnMut(&mut Vec<u8>) -> bool,
) -> bool {
    let mut own = Scratch::take();
    // Returns none for a part without a result.
    let mut holds = |text: &[u8]| {
        own.0.clear();
        own.0.extend_from_slice(text);
        convert(&mut own.0).then(|| !own.0.is_empty() && own.0 != b"0")
    };
    // The part that decides, and what it says.
    let mut decides = |text: &[u8]| match holds(text) {
        Some(true) => Some(true),
        None if until_none => Some(false),
        Some(false) | None => None,
    };
    let text = |range: Range<usize>| value.get(range).unwrap_or_default();
    let found = match part {
        AnyPart::Item => list::items(value).find_map(decides),
        AnyPart::Parameter(name) => {
            list::parameters(value, name).find_map(|range| decides(text(range)))
        }
        AnyPart::Cookie(name) => {
            let values = list::cookies(value, name).map(text);
            values.filter(|text| !text.is_empty()).find_map(decides)
        }
    };
    found.unwrap_or(false)
}

/// Reads the word after the parts of an `any_…`.
fn until_none(word: Option<&&str>) -> Result<bool, String> {
    match word {
        None => Ok(false),
        Some(&"until_none") => Ok(true),
        Some(other) => Err(format!("`{other}` is not `until_none`")),
    }
}

impl ConvertScope<'_> {
    /// Appends the text with this number. Returns false if it is a variable without a value.
    fn append(&mut self, number: usize, out: &mut Vec<u8>) -> bool {
        match self.texts.get(number) {
            Some(ResultText::Constant(text)) => {
                out.extend_from_slice(text);
                true
            }
            Some(ResultText::Varying(template)) => {
                let Some((entry, clock)) = &mut self.exchange else { return false };
                operand::append(template, entry, clock, out)
            }
            None => false,
        }
    }

    /// Returns the map that the variable with this number is.
    fn table(&self, number: usize) -> Option<&Variable> {
        match self.texts.get(number)? {
            ResultText::Varying(template) => template.lone_variable(),
            ResultText::Constant(_) => None,
        }
    }
}

impl ConvertStep {
    fn parse(name: &str, arguments: &[&str], texts: &mut OperandTexts<'_>) -> Result<Self, String> {
        let bounds = NAMES.iter().find(|(known, ..)| *known == name);
        let Some(&(_, least, most)) = bounds else {
            return Err(format!("there is no converter `{name}`"));
        };
        if arguments.len() < least || arguments.len() > most {
            let expected =
                if least == most { format!("{least}") } else { format!("at least {least}") };
            return Err(format!("`{name}` takes {expected} arguments"));
        }
        if let Some(step) = operand::parse(name, arguments, texts)? {
            return Ok(step);
        }
        if let Some(arithmetic) = number::Arithmetic::parse(name, arguments)? {
            return Ok(Self::Arithmetic(arithmetic));
        }
        if let Some(kind) = number::HashKind::parse(name) {
            let argument = match arguments {
                [] => 0,
                [text] => number::parse(text)?,
                _ => return Err(format!("`{name}` takes at most one argument")),
            };
            return Ok(Self::Hash(kind, argument));
        }
        if let Some(digest) = ValueDigest::parse(name, arguments)? {
            return Ok(Self::Digest(digest));
        }
        if let Some(form) = TimeForm::parse(name, arguments)? {
            return Ok(Self::Time(Box::new(form)));
        }
        Self::parse_text(name, arguments)
    }

    fn parse_text(name: &str, arguments: &[&str]) -> Result<Self, String> {
        let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
        let bytes = |at: usize| Box::from(argument(at).as_bytes());
        Ok(match name {
            "lower" => Self::Lower,
            "upper" => Self::Upper,
            "length" => Self::Length,
            "bytes" => Self::Bytes {
                offset: number::size(argument(0))?,
                length: arguments.get(1).map_or(Ok(usize::MAX), |text| number::size(text))?,
            },
            "field" => Self::Field(ListPart::parse(arguments)?),
            "word" => Self::Word(ListPart::parse(arguments)?),
            "list_item" => Self::ListItem(number::place(argument(0))?),
            "list_count" => Self::ListCount,
            "any_item" => {
                Self::Any { part: AnyPart::Item, until_none: until_none(arguments.first())? }
            }
            "any_param" => Self::Any {
                part: AnyPart::Parameter(bytes(0)),
                until_none: until_none(arguments.get(1))?,
            },
            "any_cookie" => Self::Any {
                part: AnyPart::Cookie(bytes(0)),
                until_none: until_none(arguments.get(1))?,
            },
            "param" => Self::Parameter(bytes(0)),
            "cookie" => Self::Cookie(bytes(0)),
            "host_only" => Self::HostOnly,
            "port_only" => Self::PortOnly,
            "regsub" => replacement(arguments)?,
            "url_dec" => Self::UrlDecode { form: !matches!(argument(0), "" | "0") },
            "url_enc" => Self::UrlEncode,
            "hex" => Self::Hex,
            "hex2i" => Self::FromHex,
            "hex_number" => Self::HexNumber(number::digits(argument(0))?),
            "hex_address" => Self::HexAddress,
            "cut_crlf" => Self::CutLine,
            "base64" | "ub64enc" => Self::Base64 { url_safe: name == "ub64enc" },
            "b64dec" | "ub64dec" => Self::FromBase64 { url_safe: name == "ub64dec" },
            "json" => match argument(0) {
                "" | "ascii" => Self::Json { utf8: false, lenient: true },
                "utf8" => Self::Json { utf8: true, lenient: false },
                "utf8s" => Self::Json { utf8: true, lenient: true },
                other => return Err(format!("`{other}` is none of `ascii`, `utf8` and `utf8s`")),
            },
            "ltrim" => Self::TrimStart(bytes(0)),
            "rtrim" => Self::TrimEnd(bytes(0)),
            "ipmask" => mask(arguments)?,
            "iif" => Self::Choice(bytes(0), bytes(1)),
            "range" => {
                let ranges = arguments.iter().map(|text| NumberRange::parse(text));
                Self::Range(ranges.collect::<Result<_, _>>()?)
            }
            "matches" => Self::Matches(regex(argument(0))?),
            "network" => {
                let networks = arguments.iter().map(|text| network(text));
                Self::Network(networks.collect::<Result<_, _>>()?)
            }
            _ => return Err(format!("there is no converter `{name}`")),
        })
    }

    /// Changes a value. Returns false if there is no result.
    fn apply(&self, value: &mut Vec<u8>) -> bool {
        match self {
            Self::Lower => value.make_ascii_lowercase(),
            Self::Upper => value.make_ascii_uppercase(),
            Self::Length => number::write(value.len() as i64, value),
            Self::Bytes { offset, length } => {
                let end = offset.saturating_add(*length).min(value.len());
                list::keep(value, (*offset).min(end)..end);
            }
            Self::Field(part) => return kept(part.field(value), value),
            Self::Word(part) => return kept(part.word(value), value),
            Self::ListItem(place) => return kept(list::item(value, *place), value),
            Self::Parameter(name) => {
                let part = list::parameters(value, name).next();
                return kept(part, value);
            }
            Self::Cookie(name) => {
                let part = list::cookies(value, name).next();
                return kept(part, value);
            }
            Self::HostOnly => {
                let end = text::host_end(value);
                value.truncate(end);
                value.make_ascii_lowercase();
            }
            Self::PortOnly => {
                let start = (text::host_end(value) + 1).min(value.len());
                if start == value.len() {
                    number::write(0, value);
                } else {
                    list::keep(value, start..value.len());
                }
            }
            Self::CutLine => {
                let end = value.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
                value.truncate(end.unwrap_or(value.len()));
            }
            Self::TrimStart(set) => {
                let start = value.iter().position(|byte| !set.contains(byte));
                list::keep(value, start.unwrap_or(value.len())..value.len());
            }
            Self::TrimEnd(set) => {
                let end = value.iter().rposition(|byte| !set.contains(byte));
                value.truncate(end.map_or(0, |at| at + 1));
            }
            Self::ListCount
            | Self::Any { .. }
            | Self::Default(_)
            | Self::Lookup(_)
            | Self::Compare(..)
            | Self::ArithmeticWith(..) => {
                debug_assert!(false, "`run` has them");
            }
            step => return step.apply_whole(value),
        }
        true
    }

    /// Does the same for converters with arguments that may have variables.
    fn apply_with(&self, value: &mut Vec<u8>, scope: &mut ConvertScope<'_>) -> bool {
        if let Self::Lookup(map) = self {
            let mut found = Scratch::take();
            let is_known = scope.table(*map).is_some_and(|map| map.look_up(value, &mut found.0));
            if is_known {
                value.clear();
                value.extend_from_slice(&found.0);
            }
            return is_known;
        }
        let mut other = Scratch::take();
        match self {
            Self::Compare(comparison, text) => {
                if !scope.append(*text, &mut other.0) {
                    return false;
                }
                number::write(comparison.of(value, &other.0), value);
            }
            Self::ArithmeticWith(arithmetic, text) => {
                let operand =
                    scope.append(*text, &mut other.0).then(|| number::read(&other.0)).flatten();
                let (Some(number), Some(operand)) = (number::read(value), operand) else {
                    return false;
                };
                number::write(arithmetic.with(operand).apply(number), value);
            }
            _ => debug_assert!(false, "`apply` has them"),
        }
        true
    }

    /// Does the same for converters that write another text.
    fn apply_whole(&self, value: &mut Vec<u8>) -> bool {
        match self {
            Self::Replace { regex, text, all } => text::replace(regex, text, *all, value),
            Self::UrlDecode { form } => return text::url_decode(*form, value),
            Self::UrlEncode => text::url_encode(value),
            Self::Hex => text::hex(value),
            Self::Base64 { url_safe } => text::base64(*url_safe, value),
            Self::FromBase64 { url_safe } => return text::from_base64(*url_safe, value),
            Self::Json { utf8, lenient } => return text::json(*utf8, *lenient, value),
            Self::Mask(four, six) => return text::mask(*four, *six, value),
            Self::Hash(kind, argument) => number::write(kind.hash(value, *argument), value),
            Self::Digest(digest) => digest.apply(value),
            Self::Time(form) => return form.apply(value),
            Self::FromHex => {
                let Some(number) = number::read_hex(value) else { return false };
                number::write(number, value);
            }
            Self::HexNumber(least) => {
                let Some(number) = number::read(value) else { return false };
                number::write_hex(number, *least, value);
            }
            Self::HexAddress => {
                let Some(address) = address(value) else { return false };
                text::hex_address(address, value);
            }
            Self::Arithmetic(arithmetic) => {
                let Some(number) = number::read(value) else { return false };
                number::write(arithmetic.apply(number), value);
            }
            Self::Choice(yes, no) => {
                let Some(number) = number::read(value) else { return false };
                value.clear();
                value.extend_from_slice(if number == 0 { no } else { yes });
            }
            Self::Range(ranges) => {
                let Some(number) = number::read(value) else { return false };
                let inside = ranges.iter().any(|range| range.contains(number));
                number::write(i64::from(inside), value);
            }
            Self::Matches(regex) => {
                let matches = regex.is_match(value);
                number::write(i64::from(matches), value);
            }
            Self::Network(networks) => {
                let Some(address) = address(value) else { return false };
                let inside = networks.iter().any(|network| network.contains(&address));
                number::write(i64::from(inside), value);
            }
            _ => debug_assert!(false, "`apply` has them"),
        }
        true
    }
}

/// Keeps a part of a value. Returns false if there is none.
fn kept(part: Option<std::ops::Range<usize>>, value: &mut Vec<u8>) -> bool {
    let Some(part) = part else { return false };
    list::keep(value, part);
    true
}

fn address(value: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let address = text.parse::<IpAddr>();
    // Some proxies write the port of a client behind its address.
    let address = address.or_else(|_| text.parse::<SocketAddrV4>().map(|both| (*both.ip()).into()));
    Some(address.ok()?.to_canonical())
}

/// Compiles a regex; `~` or `~*` before it is as in maps.
fn regex(text: &str) -> Result<Regex, String> {
    let (pattern, ignore_case) = match (text.strip_prefix("~*"), text.strip_prefix('~')) {
        (Some(pattern), _) => (pattern, true),
        (None, Some(pattern)) => (pattern, false),
        (None, None) => (text, false),
    };
    let built = RegexBuilder::new(pattern)
        .unicode(false)
        .case_insensitive(ignore_case)
        .dot_matches_new_line(true)
        .size_limit(REGEX_BYTES)
        .build();
    built.map_err(|error| regex_message(&error))
}

fn replacement(arguments: &[&str]) -> Result<ConvertStep, String> {
    let (pattern, text) = match arguments {
        [pattern, text, ..] => (*pattern, *text),
        _ => return Err("`regsub` needs a regex and a text".to_owned()),
    };
    let flags = arguments.get(2).copied().unwrap_or_default();
    if flags.chars().any(|flag| !matches!(flag, 'g' | 'i')) {
        return Err(format!("`{flags}` has other flags than `g` and `i`"));
    }
    let mark = if flags.contains('i') { "~*" } else { "~" };
    let regex = regex(&format!("{mark}{pattern}"))?;
    Ok(ConvertStep::Replace { regex, text: text.as_bytes().into(), all: flags.contains('g') })
}

fn mask(arguments: &[&str]) -> Result<ConvertStep, String> {
    let bits = |text: &str, most: u8| {
        let mask = text.parse::<std::net::Ipv4Addr>().ok().filter(|_| most == 32);
        let bits = match mask {
            Some(mask) => {
                let bits = u32::from(mask);
                let whole = bits.leading_ones() + bits.trailing_zeros() == 32;
                whole.then(|| bits.leading_ones() as u8)
            }
            None => text.parse::<u8>().ok().filter(|bits| *bits <= most),
        };
        bits.ok_or_else(|| format!("`{text}` is not a mask of at most {most} bits"))
    };
    let four = bits(arguments.first().copied().unwrap_or_default(), 32)?;
    let six = arguments.get(1).map_or(Ok(128), |text| bits(text, 128))?;
    Ok(ConvertStep::Mask(four, six))
}

#[cfg(test)]
mod tests;
