//! The metrics for Prometheus: the view of the status that `/metrics` shows, with the counts of
//! requests and the use of the machine.

mod limits;
mod pools;
mod process;
#[cfg(test)]
mod tests;

use hyper::header;
use weir_stats::exposition::{
    CountedMetrics, Exposition, Format, lines_by_worker, write_credits, write_machine,
};
use weir_stats::metrics::Figures;

use super::write::yes;
use crate::http::call::Call;
use crate::http::error::ApiError;
use crate::http::reply::HttpReply;
use crate::status::Status;
use crate::status::read_model::ReadModel;
use crate::status::sampler::MachineUse;

/// The largest number of lines of metrics with separate workers; some 40 MB.
const MAX_LINES_BY_WORKER: usize = 250_000;

/// All metrics for Prometheus; on request with separate counts for each worker.
pub(crate) fn metrics(call: &Call) -> Result<HttpReply, ApiError> {
    let accept = call.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::accepted(accept.unwrap_or_default());
    let model = ReadModel::new(&call.context.sources);
    let by_worker = if yes(call, "per_worker")? {
        bounded(model.process().numbers.read_by_worker(), MAX_LINES_BY_WORKER)?
    } else {
        Vec::new()
    };
    let counted = CountedMetrics {
        figures: &model.look().now,
        by_worker: &by_worker,
        recent: &model.look().recent.figures,
        slowest: &model.slowest(None, usize::MAX),
    };
    let body = expose(&model.status(), &model.machine(), &counted, format);
    Ok(HttpReply::new(format.content_type(), body))
}

fn bounded(by_worker: Vec<Figures>, most: usize) -> Result<Vec<Figures>, ApiError> {
    let lines = lines_by_worker(&by_worker);
    if lines <= most {
        return Ok(by_worker);
    }
    let message = format!(
        "the counts of {} workers would be some {lines} lines, and at most {most} are allowed; without `per_worker` \
        the response has the sums over all workers, and the metrics `weir_worker_…`",
        by_worker.len()
    );
    Err(ApiError::field("per_worker", message))
}

/// Writes all metrics.
fn expose(
    status: &Status,
    machine: &MachineUse,
    counted: &CountedMetrics<'_>,
    format: Format,
) -> Vec<u8> {
    let mut text = Exposition::new(format);
    process::write(status, counted.figures.histogram_bytes, &mut text);
    pools::write(&status.pools, &mut text);
    write_machine(&machine.figures, &machine.recent, &mut text);
    if let Some(credits) = &status.credits {
        write_credits(credits, &mut text);
    }
    if let Some(limits) = &status.limits {
        limits::write(limits, &mut text);
    }
    counted.write(&mut text);
    text.finish()
}
