//! The shape of the directive table: what a directive may have, and how one is found. The table itself is in `directives`;
//! checks, the reference page and completion are drawn from it.

use crate::directives::{self, LATER};

/// Where a directive may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Context {
    /// Outside every block.
    Top,
    /// In `admin ADDRESS { … }`.
    Admin,
    /// In `log NAME { … }`.
    Log,
    /// In `pool NAME { … }`.
    Pool,
    /// In `listen … { … }`.
    Listen,
    /// In `host … { … }`.
    Host,
    /// In the block of a route.
    Route,
    /// A condition of a route or rule.
    Condition,
    /// What stands after `->`.
    Target,
}

impl Context {
    /// Every context, in the order of the reference page.
    pub const ALL: [Self; 9] = [
        Self::Top,
        Self::Admin,
        Self::Log,
        Self::Pool,
        Self::Listen,
        Self::Host,
        Self::Route,
        Self::Condition,
        Self::Target,
    ];

    /// Where that is, in messages.
    pub fn place(self) -> &'static str {
        match self {
            Self::Top => "at the top level",
            Self::Admin => "in `admin`",
            Self::Log => "in `log`",
            Self::Pool => "in `pool`",
            Self::Listen => "in `listen`",
            Self::Host => "in `host`",
            Self::Route => "in a route's block",
            Self::Condition => "in a condition",
            Self::Target => "in a target",
        }
    }
}

/// What may be in a directive's braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRule {
    /// It has none.
    None,
    /// Directives of this context, if there are braces.
    Optional(Context),
    /// Directives of this context.
    Required(Context),
    /// An expression, if there are braces.
    Expression,
}

/// Whether a directive may stand in one block more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// Once only.
    Once,
    /// Any number of times.
    Many,
}

/// Whether `-> TARGET` follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// Never.
    Never,
    /// It may.
    Optional,
    /// It has to.
    Required,
}

/// One `key=value`, or a lone word, of a directive.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The key.
    pub name: &'static str,
    /// What the value is, as the reference shows it; empty for a lone word.
    pub value: &'static str,
    /// What holds without it; empty where nothing does.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
}

/// One directive, in the contexts where it means one thing.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its first word.
    pub name: &'static str,
    /// Where it may stand.
    pub contexts: &'static [Context],
    /// Its words, as the reference shows them.
    pub syntax: &'static str,
    /// Fewest and most words that are not options.
    pub words: (usize, usize),
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Its braces.
    pub block: BlockRule,
    /// How often.
    pub repeats: Repeats,
    /// Its target.
    pub arrow: Arrow,
    /// What holds without it; empty where its options say so.
    pub default: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// How it is written.
    pub example: &'static str,
}

/// A directive without options and block, once in its block, of exactly one word.
pub(crate) const fn directive(
    name: &'static str,
    contexts: &'static [Context],
    syntax: &'static str,
    doc: &'static str,
) -> Spec {
    Spec {
        name,
        contexts,
        syntax,
        words: (1, 1),
        options: &[],
        block: BlockRule::None,
        repeats: Repeats::Once,
        arrow: Arrow::Never,
        default: "",
        doc,
        example: "",
    }
}

impl Spec {
    pub(crate) const fn words(mut self, least: usize, most: usize) -> Self {
        self.words = (least, most);
        self
    }

    pub(crate) const fn options(mut self, options: &'static [OptionSpec]) -> Self {
        self.options = options;
        self
    }

    pub(crate) const fn block(mut self, block: BlockRule) -> Self {
        self.block = block;
        self
    }

    pub(crate) const fn many(mut self) -> Self {
        self.repeats = Repeats::Many;
        self
    }

    pub(crate) const fn arrow(mut self, arrow: Arrow) -> Self {
        self.arrow = arrow;
        self
    }

    pub(crate) const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    pub(crate) const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    /// The option of that name.
    pub fn option(&self, name: &str) -> Option<&'static OptionSpec> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// An option with a value.
pub(crate) const fn option(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec { name, value, default, doc }
}

/// An option that is a lone word.
pub(crate) const fn flag(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { name, value: "", default: "", doc }
}

/// The directive of that name in that context.
pub fn find(name: &str, context: Context) -> Option<&'static Spec> {
    directives::all().find(|spec| spec.name == name && spec.contexts.contains(&context))
}

/// Every directive that may stand in a context, in the order of the table.
pub fn of_context(context: Context) -> impl Iterator<Item = &'static Spec> {
    directives::all().filter(move |spec| spec.contexts.contains(&context))
}

/// The contexts in which a word is a directive.
pub fn contexts_of(name: &str) -> Vec<Context> {
    let all = directives::all().filter(|spec| spec.name == name);
    all.flat_map(|spec| spec.contexts.iter().copied()).collect()
}

/// Whether a word is planned there but does nothing yet in this version.
pub fn is_later(name: &str, context: Context) -> bool {
    LATER.iter().any(|(place, word)| *place == context && *word == name)
}

/// Every word of the configuration language, sorted, for completion.
pub fn words() -> Vec<&'static str> {
    let directives = directives::all().map(|spec| spec.name);
    let options = directives::all().flat_map(|spec| spec.options.iter().map(|option| option.name));
    let mut words: Vec<&str> =
        directives.chain(options).filter(|word| !word.contains(char::is_uppercase)).collect();
    words.sort_unstable();
    words.dedup();
    words
}
