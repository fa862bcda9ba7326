//! The queue against an obvious reference: over random events with shrinking, over very many random
//! events, and over all orders of events in small pools. The same checkers must also fail a queue
//! that is known to be broken.

mod exhaustive;
mod random;
mod reference;
mod world;
