//! The meaning of a condition: tests of a request joined by operators. Tests of the address that a
//! request arrived at are resolved for each listener; the others become conditions of routes.

use std::collections::HashMap;
use std::rc::Rc;

use weir_config::model::LoadMeasure;
use weir_config::syntax::lexer::Word;

use super::patterns::MatchKind;
use super::sample::SampleExpression;
use super::scope::ChangedRequest;
use super::sections::LineId;
use crate::native::NativeLine;

/// The most tests of a condition.
pub(super) const MOST_TESTS: usize = 2_000;

/// The listener that routes are written for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenPlace {
    pub(super) tls: bool,
    pub(super) port: Option<u16>,
}

/// The named conditions of one section: each is its lines, joined by `or`. Those of `defaults` hold
/// for the rules there only.
pub(super) type AclTable = HashMap<String, Vec<LineId>>;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AclTest {
    Always(bool),
    /// The connection uses TLS.
    Tls,
    /// The port that the client connected to is in one of these ranges.
    Port(Vec<(u16, u16)>),
    Native(NativeTest),
    All(Vec<AclTest>),
    Any(Vec<AclTest>),
    Not(Box<AclTest>),
}

/// A condition of Weir's syntax.
#[derive(Clone, Debug)]
pub(super) struct NativeTest {
    pub(super) keyword: &'static str,
    pub(super) values: Rc<[String]>,
    /// Its parts, from which it can be made again as a variable.
    pub(super) origin: Option<Rc<Criterion>>,
}

/// A criterion after its flags were read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Criterion {
    pub(super) expression: SampleExpression,
    pub(super) kind: Option<MatchKind>,
    pub(super) ignore_case: bool,
    pub(super) patterns: Vec<String>,
}

impl PartialEq for NativeTest {
    fn eq(&self, other: &Self) -> bool {
        self.keyword == other.keyword && self.values == other.values
    }
}

impl NativeTest {
    /// Returns true if the test counts servers or exchanges of a pool.
    fn is_of_pool(&self) -> bool {
        self.keyword == "servers" || LoadMeasure::parse(self.keyword).is_some()
    }

    /// Returns true if the test reads something that was changed.
    fn reads(&self, changed: &ChangedRequest) -> bool {
        match self.keyword {
            "header" => self
                .values
                .iter()
                .any(|value| changed.has_header(value.split('=').next().unwrap_or_default())),
            "cookie" => changed.has_header("cookie"),
            "path" => changed.path,
            "query" => changed.query,
            "variable" => self.values.iter().any(|value| {
                let name = value.split('=').next().unwrap_or_default().trim_start_matches('$');
                changed.is_in(&format!("${{{name}}}"))
            }),
            _ => false,
        }
    }
}

impl AclTest {
    /// Returns a condition of Weir's with one value.
    pub(super) fn native(keyword: &'static str, value: String) -> Self {
        Self::Native(NativeTest { keyword, values: Rc::new([value]), origin: None })
    }

    /// Returns the test with the criterion that it was made of. Of several patterns each test has
    /// its own.
    pub(super) fn with_origin(self, origin: &Criterion) -> Self {
        let with = |test: Self, criterion: Criterion| match test {
            Self::Native(test) => {
                Self::Native(NativeTest { origin: Some(Rc::new(criterion)), ..test })
            }
            other => other,
        };
        match self {
            Self::Any(tests) if tests.len() == origin.patterns.len() => {
                let single = |pattern: &String| Criterion {
                    patterns: vec![pattern.clone()],
                    ..origin.clone()
                };
                let tests = tests.into_iter().zip(&origin.patterns);
                Self::Any(tests.map(|(test, pattern)| with(test, single(pattern))).collect())
            }
            // The number of a header's values is 0.
            Self::Not(test) => {
                let patterns = ["gt", "0"].map(str::to_owned).into();
                Self::Not(Box::new(with(*test, Criterion { patterns, ..origin.clone() })))
            }
            test => with(test, origin.clone()),
        }
    }

    pub(super) fn not(self) -> Self {
        match self {
            Self::Always(value) => Self::Always(!value),
            Self::Not(inner) => *inner,
            other => Self::Not(Box::new(other)),
        }
    }

    pub(super) fn all(tests: Vec<Self>) -> Self {
        Self::join(tests, true)
    }

    pub(super) fn any(tests: Vec<Self>) -> Self {
        Self::join(tests, false)
    }

    /// Joins tests; a constant decides or falls away.
    fn join(tests: Vec<Self>, every: bool) -> Self {
        let mut kept = Vec::new();
        for test in tests {
            match test {
                Self::Always(value) if value == every => {}
                Self::Always(value) => return Self::Always(value),
                Self::All(inner) if every => kept.extend(inner),
                Self::Any(inner) if !every => kept.extend(inner),
                other => kept.push(other),
            }
        }
        match kept.len() {
            0 => Self::Always(every),
            1 => kept.remove(0),
            _ if every => Self::All(kept),
            _ => Self::Any(kept),
        }
    }

    /// Returns the condition at a listener.
    pub(super) fn at(&self, place: ListenPlace) -> Self {
        match self {
            Self::Tls => Self::Always(place.tls),
            Self::Port(ranges) => Self::Always(place.port.is_some_and(|port| {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&port))
            })),
            Self::All(tests) => Self::all(tests.iter().map(|test| test.at(place)).collect()),
            Self::Any(tests) => Self::any(tests.iter().map(|test| test.at(place)).collect()),
            Self::Not(test) => test.at(place).not(),
            other => other.clone(),
        }
    }

    /// Returns true if the condition is the same for all requests of a listener.
    pub(super) fn is_static(&self) -> bool {
        match self {
            Self::Always(_) | Self::Tls | Self::Port(_) => true,
            Self::Native(_) => false,
            Self::All(tests) | Self::Any(tests) => tests.iter().all(Self::is_static),
            Self::Not(test) => test.is_static(),
        }
    }

    /// Returns true if the condition only looks at the connection, or at the state of servers.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            Self::Native(test) => test.keyword == "client" || test.is_of_pool(),
            Self::All(tests) | Self::Any(tests) => tests.iter().all(Self::is_of_connection),
            Self::Not(test) => test.is_of_connection(),
            _ => true,
        }
    }

    /// Returns true if the condition looks at no request, but at the client and the name of a TLS
    /// client at most.
    pub(super) fn is_of_bytes(&self) -> bool {
        match self {
            Self::Native(test) => {
                let known = ["$ssl_server_name", "$ssl_preread_alpn_protocols"];
                let is_of_hello = |value: &String| known.iter().any(|name| value.starts_with(name));
                test.keyword == "client"
                    || test.is_of_pool()
                    || test.keyword == "variable" && test.values.iter().all(is_of_hello)
            }
            Self::All(tests) | Self::Any(tests) => tests.iter().all(Self::is_of_bytes),
            Self::Not(test) => test.is_of_bytes(),
            _ => true,
        }
    }

    /// Returns true if only clients that begin with TLS meet the condition: they ask for a name,
    /// or offer protocols.
    pub(super) fn asks_for_name(&self) -> bool {
        match self {
            Self::Native(test) => {
                let known = ["$ssl_server_name", "$ssl_preread_alpn_protocols="];
                let is_told = |value: &String| known.iter().any(|name| value.starts_with(name));
                test.values.iter().all(is_told)
            }
            Self::All(tests) => tests.iter().any(Self::asks_for_name),
            Self::Any(tests) => tests.iter().all(Self::asks_for_name),
            _ => false,
        }
    }

    /// Returns true if the condition reads something that was changed.
    pub(super) fn reads(&self, changed: &ChangedRequest) -> bool {
        match self {
            Self::Native(test) => test.reads(changed),
            Self::All(tests) | Self::Any(tests) => tests.iter().any(|test| test.reads(changed)),
            Self::Not(test) => test.reads(changed),
            _ => false,
        }
    }

    /// Returns the number of tests.
    pub(super) fn tests(&self) -> usize {
        self.sum(&|_| 1)
    }

    /// Returns the number of tests and of the values that they compare with.
    pub(super) fn size(&self) -> usize {
        self.sum(&|test| 1 + test.values.len())
    }

    fn sum(&self, of: &dyn Fn(&NativeTest) -> usize) -> usize {
        match self {
            Self::All(tests) | Self::Any(tests) => {
                1 + tests.iter().map(|test| test.sum(of)).sum::<usize>()
            }
            Self::Not(test) => 1 + test.sum(of),
            Self::Port(ranges) => 1 + ranges.len(),
            Self::Native(test) => of(test),
            Self::Always(_) | Self::Tls => 1,
        }
    }

    /// Returns the words of the condition; constants must have been resolved.
    pub(super) fn words(&self, span: weir_config::source::SourceSpan) -> Vec<Word> {
        let mut line = NativeLine::new("", span);
        line = self.write(line, false);
        line.into_words()
    }

    fn write(&self, line: NativeLine, inner: bool) -> NativeLine {
        match self {
            Self::Native(NativeTest { keyword, values, .. }) => {
                values.iter().fold(line.keyword(keyword), |line, value| line.value(value))
            }
            Self::Not(test) => test.write(line.keyword("not"), true),
            Self::All(tests) | Self::Any(tests) => {
                let word = if matches!(self, Self::All(_)) { "and" } else { "or" };
                let mut line = if inner { line.keyword("(") } else { line };
                for (index, test) in tests.iter().enumerate() {
                    if index > 0 {
                        line = line.keyword(word);
                    }
                    line = test.write(line, true);
                }
                if inner { line.keyword(")") } else { line }
            }
            // Resolved before: `at` leaves none of these below an operator.
            Self::Always(_) | Self::Tls | Self::Port(_) => line,
        }
    }
}
