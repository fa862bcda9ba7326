//! The native syntax: words, then directives and blocks. No directive has a meaning here.

pub mod layout;
pub mod lexer;
pub mod tree;
