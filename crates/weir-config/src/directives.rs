//! The directive table: every word of the language once, with where it may stand, what it takes, what holds without it, what
//! it does and how it is written. A part for each subject.

mod limit;
mod listen;
mod log;
mod pool;
mod process;
mod route;

use crate::table::{Context, Spec};

const MANY: usize = usize::MAX;
const TOP: &[Context] = &[Context::Top];
const ADMIN: &[Context] = &[Context::Admin];
const LOG: &[Context] = &[Context::Log];
const POOL: &[Context] = &[Context::Pool];
const LISTEN: &[Context] = &[Context::Listen];
const CONDITION: &[Context] = &[Context::Condition];
const TARGET: &[Context] = &[Context::Target];
const LIMITED: &[Context] = &[Context::Listen, Context::Route];
const EDITS: &[Context] = &[Context::Listen, Context::Route];
const ROUTES: &[Context] = &[Context::Listen, Context::Host];

/// Words that are planned but do nothing yet: an error says so, so that nobody counts on them.
pub(crate) const LATER: &[(Context, &str)] = &[];

/// Policies that are planned.
pub(crate) const LATER_POLICIES: &[&str] = &["peak_ewma"];

/// The parts of the table.
const PARTS: [&[Spec]; 6] = [
    process::DIRECTIVES,
    log::DIRECTIVES,
    pool::DIRECTIVES,
    listen::DIRECTIVES,
    limit::DIRECTIVES,
    route::DIRECTIVES,
];

/// Every directive.
pub(crate) fn all() -> impl Iterator<Item = &'static Spec> {
    PARTS.into_iter().flatten()
}
