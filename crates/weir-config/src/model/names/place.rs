//! DNS questions, and the names of the endpoints that replace a configured one.

use foldhash::HashSet;

use crate::model::EndpointAddress;

/// A DNS question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// The addresses of this name.
    Host(String),
    /// The servers of this service (RFC 2782).
    Service(String),
}

impl Question {
    /// Returns the question that an endpoint's address requires.
    pub fn of(address: &EndpointAddress) -> Option<Self> {
        match address {
            EndpointAddress::Name(name, _) => Some(Self::Host(name.clone())),
            EndpointAddress::Service(name) => Some(Self::Service(name.clone())),
            EndpointAddress::Socket(_) | EndpointAddress::Unix(_) => None,
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        match self {
            Self::Host(name) | Self::Service(name) => name,
        }
    }
}

/// Returns the name of the endpoint at a place; the first place has the configured name.
pub(super) fn place_name(own: &str, number: usize, written: &HashSet<&str>) -> String {
    if number == 0 {
        return own.to_owned();
    }
    let mut name = format!("{own}~{}", number + 1);
    while written.contains(name.as_str()) {
        name.push('~');
    }
    name
}

/// Returns true if `endpoint` is one of the endpoints that replace the configured endpoint `own`.
pub fn is_place_of(endpoint: &str, own: &str) -> bool {
    let Some(rest) = endpoint.strip_prefix(own) else { return false };
    // A place whose name is taken by another server has further `~` at its end.
    let number = rest.strip_prefix('~').map(|number| number.trim_end_matches('~'));
    rest.is_empty()
        || number.is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
}
