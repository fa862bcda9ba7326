//! The directive that defines tables of types. The checks are in `check/types.rs`.

use super::spec::{BlockRule, Spec, TOP, directive};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("types", TOP, "NAME", "Defines a table of the types of files, which `files … types=NAME` uses instead of Weir's own. The lines of the block are extensions without their dot and in lower case, each with its `Content-Type`; `default TYPE;` is that of all other files, which otherwise have none. As in nginx, the type is that of the file that is sent, and a file whose name begins with its only dot has no extension.")
        .words(1, 1)
        .block(BlockRule::Entries)
        .many()
        .example("types site { html text/html; css text/css; default application/octet-stream; }"),
];
