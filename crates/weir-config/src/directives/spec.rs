//! The types of the directive table, and the sets of contexts that its rows share. The rows
//! themselves are in the other modules of this folder.

/// The number of words of a directive that takes any number.
pub(super) const MANY: usize = usize::MAX;

// The contexts of directives, named after the blocks.
pub(super) const TOP: &[Context] = &[Context::Top];
pub(super) const ADMIN: &[Context] = &[Context::Admin];
pub(super) const LOG: &[Context] = &[Context::Log];
pub(super) const CHECK: &[Context] = &[Context::Check];
pub(super) const POOL: &[Context] = &[Context::Pool];
pub(super) const POOL_AND_ROUTE: &[Context] = &[Context::Pool, Context::Route];
pub(super) const LISTEN: &[Context] = &[Context::Listen];
pub(super) const CONDITION: &[Context] = &[Context::Condition];
pub(super) const TARGET: &[Context] = &[Context::Target];
pub(super) const LIMITED: &[Context] = &[Context::Listen, Context::Route];
pub(super) const EDITS: &[Context] = &[Context::Listen, Context::Route];
pub(super) const ROUTES: &[Context] = &[Context::Listen, Context::Host];

/// A place in which a directive may stand.
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
    /// In the block of a `check`.
    Check,
    /// In `listen … { … }`.
    Listen,
    /// In `host … { … }`.
    Host,
    /// In the block of a route.
    Route,
    /// In a condition of a route or rule.
    Condition,
    /// After `->`.
    Target,
}

impl Context {
    /// Every context, in the order of the reference page.
    pub const ALL: [Self; 10] = [
        Self::Top,
        Self::Admin,
        Self::Log,
        Self::Pool,
        Self::Check,
        Self::Listen,
        Self::Host,
        Self::Route,
        Self::Condition,
        Self::Target,
    ];

    /// Returns the place in the words of messages.
    pub fn place(self) -> &'static str {
        match self {
            Self::Top => "at the top level",
            Self::Admin => "in `admin`",
            Self::Log => "in `log`",
            Self::Pool => "in `pool`",
            Self::Check => "in `check`",
            Self::Listen => "in `listen`",
            Self::Host => "in `host`",
            Self::Route => "in a route's block",
            Self::Condition => "in a condition",
            Self::Target => "in a target",
        }
    }
}

/// The braces of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockRule {
    /// No braces.
    None,
    /// Optional braces with directives of this context.
    Optional(Context),
    /// Required braces with directives of this context.
    Required(Context),
    /// Optional braces with an expression.
    Expression,
    /// Optional braces with entries of a key and a value.
    Entries,
    /// Required braces with converters.
    Steps,
}

/// The number of times that a directive may stand in one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// At most once.
    Once,
    /// Any number of times.
    Many,
}

/// The use of `-> TARGET` after a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrow {
    /// It must not follow.
    Never,
    /// It may follow.
    Optional,
    /// It must follow.
    Required,
}

/// One option of a directive: `key=value` or a lone word.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The key.
    pub name: &'static str,
    /// The value as the reference shows it; empty for a lone word.
    pub value: &'static str,
    /// The default; empty where there is none.
    pub default: &'static str,
    /// The description.
    pub doc: &'static str,
}

/// One directive, for all contexts in which it has the same meaning.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The first word.
    pub name: &'static str,
    /// The contexts in which it may stand.
    pub contexts: &'static [Context],
    /// The syntax, as the reference shows it.
    pub syntax: &'static str,
    /// The fewest and the most words that are not options.
    pub words: (usize, usize),
    /// The options.
    pub options: &'static [OptionSpec],
    /// The braces.
    pub block: BlockRule,
    /// The number of times that it may stand in one block.
    pub repeats: Repeats,
    /// The target.
    pub arrow: Arrow,
    /// The default; empty where its options have their own.
    pub default: &'static str,
    /// The description.
    pub doc: &'static str,
    /// An example.
    pub example: &'static str,
}

/// Returns a directive without options and block that stands once in its block and takes exactly
/// one word.
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

    /// Returns the option with that name.
    pub fn option(&self, name: &str) -> Option<&'static OptionSpec> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// Returns an option with a value.
pub(crate) const fn option(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec { name, value, default, doc }
}

/// Returns an option that is a lone word.
pub(crate) const fn flag(name: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { name, value: "", default: "", doc }
}
