//! Proof by machine: the queue against an obvious reference, over random events, over very many random events, and over all
//! orders of events in small pools; and the same checkers against a queue that is known to be broken.

mod exhaustive;
mod random;
mod reference;
mod world;
