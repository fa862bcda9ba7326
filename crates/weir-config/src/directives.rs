//! The directive table: every word of the language once, with its contexts, arguments, default,
//! description and example. Each module holds the directives of one subject. The types are in
//! `table`.

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

/// Words that are reserved for a later version: using one is an error that says so.
pub(crate) const LATER: &[(Context, &str)] = &[];

/// Policies that are reserved for a later version.
pub(crate) const LATER_POLICIES: &[&str] = &["peak_ewma"];

/// The modules of the table.
const PARTS: [&[Spec]; 6] = [
    process::DIRECTIVES,
    log::DIRECTIVES,
    pool::DIRECTIVES,
    listen::DIRECTIVES,
    limit::DIRECTIVES,
    route::DIRECTIVES,
];

/// Returns every directive.
pub(crate) fn all() -> impl Iterator<Item = &'static Spec> {
    PARTS.into_iter().flatten()
}
