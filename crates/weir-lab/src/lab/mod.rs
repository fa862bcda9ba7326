//! Runs experiments: starts and stops every program that takes part, checks an answer, has
//! `weir bench` measure, and keeps each run as soon as it is made.

mod answer;
mod credits;
pub mod directory;
mod events;
mod facts;
pub mod guard;
mod link;
mod measure;
mod process;
mod programs;
mod progress;
mod runner;
mod store;

pub use facts::MachineFacts;
pub use runner::{LabFailure, LabRequest, run};
pub use store::{LabRecord, OpenedStore, RunStore};
