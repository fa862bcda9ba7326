//! Counters and histograms of all traffic, recorded per worker without contention and summed when
//! they are read, and the slowest and latest exchanges. It knows no configuration, no clock and no
//! socket.
//!
//! ```text
//!  worker ──record──▶ RouteSeries[worker]    7 histograms, the slowest, counters without endpoint
//!                 ├─▶ EndpointSeries[worker] 7 histograms, counters by route
//!                 └─▶ WorkerSeries           the last 2,048 exchanges
//!  reader ──MetricsRegistry::read──▶ Figures: sums by listener, route, pool, endpoint
//! ```

mod counter;
mod distribution;
mod figures;
mod grpc;
mod histogram;
mod layout;
mod native;
mod phase;
mod recent;
mod registry;
mod series;
mod slow;
mod stream;
mod tally;
mod window;

pub use distribution::{Distribution, QUANTILES, Quantile};
pub use figures::{CellFigures, EndpointFigures, Figures, RouteFigures, Subject};
pub use grpc::{GrpcCall, GrpcFigures};
pub use histogram::{Histogram, PageBudget};
pub use layout::{HIGHEST_US, INDEXES, highest_us, index_of, lowest_us};
pub use native::{NativeBuckets, SCHEMA, ZERO_THRESHOLD_S};
pub use phase::{Phase, PhaseDistributions};
pub use recent::{Asked, RecentExchange, id_number};
pub use registry::{Done, Keep, MetricsRegistry};
pub use series::{
    EndpointSeries, GivenUpIdle, Handshake, Http2Excess, ListenerFigures, ListenerSeries, Onward,
    ProxyHeaderRefusal, RouteSeries, WorkerFigures, Yield,
};
pub use slow::{SLOW_WINDOW_US, SLOWEST};
pub use stream::{StreamDistributions, StreamTime};
pub use tally::{GivenUp, Outcome, TallyFigures, TransferredBytes};
pub use window::{Recent, WINDOW_STEPS, Window};
