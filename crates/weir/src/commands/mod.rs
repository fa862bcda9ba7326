//! The subcommands, each with its flags and its code. What several of them use is beside this
//! folder.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod ctl;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod fmt;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod origin;
pub(crate) mod proxy;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sim;
pub(crate) mod top;
