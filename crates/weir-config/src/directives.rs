//! The directive table: every word of the language once, with its contexts, arguments, default,
//! description and example. Each module holds the directives of one subject. The checks, the
//! reference page and completion are derived from them.

mod limit;
mod listen;
mod log;
mod pool;
mod process;
mod reference_page;
mod route;
mod spec;
mod types;
mod variable;

use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};

pub use reference_page::reference;
pub use spec::{Arrow, BlockRule, Context, OptionSpec, Repeats, Spec};

/// The modules of the table.
const PARTS: [&[Spec]; 8] = [
    process::DIRECTIVES,
    log::DIRECTIVES,
    pool::DIRECTIVES,
    listen::DIRECTIVES,
    limit::DIRECTIVES,
    route::DIRECTIVES,
    variable::DIRECTIVES,
    types::DIRECTIVES,
];

/// Returns every directive.
fn all() -> impl Iterator<Item = &'static Spec> {
    PARTS.into_iter().flatten()
}

/// The directives of each name, in the order of the table.
static BY_NAME: LazyLock<HashMap<&'static str, Vec<&'static Spec>>> = LazyLock::new(|| {
    let mut by_name: HashMap<_, Vec<_>> = HashMap::new();
    for spec in all() {
        by_name.entry(spec.name).or_default().push(spec);
    }
    by_name
});

/// Returns the directive with that name in that context.
pub fn find(name: &str, context: Context) -> Option<&'static Spec> {
    BY_NAME.get(name)?.iter().find(|spec| spec.contexts.contains(&context)).copied()
}

/// Returns every directive that may stand in a context, in the order of the table.
pub fn of_context(context: Context) -> impl Iterator<Item = &'static Spec> {
    all().filter(move |spec| spec.contexts.contains(&context))
}

/// Returns the contexts in which a word is a directive.
pub fn contexts_of(name: &str) -> Vec<Context> {
    let all = all().filter(|spec| spec.name == name);
    all.flat_map(|spec| spec.contexts.iter().copied()).collect()
}

/// Returns every word of the configuration language, sorted, for completion.
pub fn words() -> Vec<&'static str> {
    let directives = all().map(|spec| spec.name);
    let options = all().flat_map(|spec| spec.options.iter().map(|option| option.name));
    let mut words: Vec<&str> =
        directives.chain(options).filter(|word| !word.contains(char::is_uppercase)).collect();
    words.sort_unstable();
    words.dedup();
    words
}
