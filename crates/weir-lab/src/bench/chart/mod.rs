//! Charts of a run: response times by percentile on an axis of 1/(1−p), over time, and for every
//! request. Only measured points are drawn; nothing is smoothed or interpolated.

mod frame;
mod plot;
mod png;

use super::record::{PART_NS, RequestSample, RunRecord};
use super::report::percent_text;
use super::spectrum::Curve;
pub(crate) use frame::escape;
use frame::{ChartFrame, PLOT_WIDTH};
pub use plot::{Plot, PlotAxis, PlotPoint, PlotSeries};
pub use png::png;

/// Largest number of points of a scatter chart per column of pixels; the slowest ones are drawn.
const COLUMN_POINTS: usize = 40;
/// Colour numbers of successful and of failed requests.
const GOOD: usize = 0;
const BAD: usize = 1;
/// Largest number of tenths of a second that a chart can show separately, and the mean number of
/// requests that each must have for a meaningful mean.
const FINE_PARTS: usize = 600;
const FINE_COUNT: u64 = 5;
const TIME_AXIS: &str = "seconds since the start of the measurement, by intended start";

/// The input of the charts.
#[derive(Clone, Copy, Debug)]
pub struct Charts<'a> {
    /// The title of the first chart.
    pub title: &'a str,
    /// The run.
    pub record: &'a RunRecord,
    /// Percentiles of other runs, for comparison in the same chart.
    pub others: &'a [Curve],
}

impl Charts<'_> {
    /// All charts in one picture. The scatter chart is included only if every request was recorded.
    pub fn svg(&self) -> String {
        frame::picture(&self.each(self.title))
    }

    /// A self-contained page with the charts and the report. `verdict` stands at its top.
    pub fn page(&self, verdict: &str, report: &str) -> String {
        let charts: String = self
            .each("Response times by percentile")
            .into_iter()
            .map(|chart| frame::picture(&[chart]))
            .collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
            <meta name=\"viewport\" content=\"width=device-width\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
            <title>{title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n<p class=\"verdict\">{verdict}</p>\n{charts}\
            <pre>{report}</pre>\n</html>\n",
            title = escape(self.title),
            verdict = escape(verdict),
            report = escape(report),
        )
    }

    fn each(&self, title: &str) -> Vec<String> {
        let record = self.record;
        let mut curves = vec![
            Curve::of("response time", &record.response),
            Curve::of("service time", &record.service),
        ];
        curves.extend_from_slice(self.others);
        let mut charts = vec![percentiles(title, &curves), course(record)];
        if let Some(samples) = &record.samples {
            charts.push(scatter(samples));
        }
        charts
    }
}

const STYLE: &str = "\
body { font-family: sans-serif; margin: 2em auto; padding: 0 1em; max-width: 60em; color: #1c1c1c; background: #fff } \
h1 { font-size: 1.4em; overflow-wrap: anywhere } svg { display: block; margin: 1em 0; width: 100%; height: auto } \
pre { background: #f4f4f4; padding: 1em; overflow-x: auto } .verdict { font-weight: bold; white-space: pre-line } \
@media (prefers-color-scheme: dark) { body { color: #dfe3e8; background: #15181c } pre { background: #20252b } }";

/// Response times by percentile. Each further nine takes the same width on the axis.
fn percentiles(title: &str, curves: &[Curve]) -> String {
    let samples = curves.iter().map(|curve| curve.samples).max().unwrap_or(0).max(2) as f64;
    let longest = curves.iter().flat_map(|curve| &curve.points).map(|(_, ms)| *ms);
    let x_max = samples.log10();
    let mut frame = ChartFrame::new(title, "percentile", x_max, longest.fold(0.0, f64::max));
    let mut nines = 0;
    while f64::from(nines) <= x_max {
        let percent = 100.0 * (1.0 - 10_f64.powi(-nines));
        frame.x_tick(f64::from(nines), &format!("{}%", percent_text(percent)));
        nines += 1;
    }
    for (number, curve) in curves.iter().enumerate() {
        // The slowest sample is at the place of one in all samples.
        let end = (curve.samples.max(1) as f64).log10();
        let place = |share: f64| if share < 1.0 { (-(1.0 - share).log10()).min(end) } else { end };
        let points: Vec<_> = curve.points.iter().map(|(share, ms)| (place(*share), *ms)).collect();
        frame.curve(&points, number);
    }
    for (number, curve) in curves.iter().enumerate() {
        frame.legend(number, number, &format!("{} ({} samples)", curve.name, curve.samples));
    }
    frame.finish()
}

/// The longest and the mean response time of each second, or of each tenth of a second if the run
/// is short enough and has enough requests.
fn course(record: &RunRecord) -> String {
    let requests: u64 = record.parts.iter().map(|part| u64::from(part.count)).sum();
    let is_fine = record.parts.len() <= FINE_PARTS
        && requests >= record.parts.len() as u64 * FINE_COUNT
        && requests > 0;
    let (width_s, each, words): (f64, Vec<(u64, u64, u64)>, &str) = if is_fine {
        let each = record.parts.iter().map(|part| (part.count.into(), part.sum_ns, part.max_ns));
        (PART_NS as f64 / 1e9, each.collect(), "tenth of a second")
    } else {
        let each = record.seconds.iter().map(|second| (second.count, second.sum_ns, second.max_ns));
        (1.0, each.collect(), "second")
    };
    let y_max = each.iter().map(|(_, _, max_ns)| *max_ns).max().unwrap_or(0) as f64 / 1e6;
    let x_max = record.seconds.len().max(1) as f64;
    let mut frame = ChartFrame::new("Response times over the run", TIME_AXIS, x_max, y_max);
    frame.time_ticks();
    let points = |value: fn(u64, u64, u64) -> f64| -> Vec<(f64, f64)> {
        let filled = each.iter().enumerate().filter(|(_, (count, ..))| *count > 0);
        let middle = |number: usize| (number as f64 + 0.5) * width_s;
        filled
            .map(|(number, (count, sum, max))| (middle(number), value(*count, *sum, *max) / 1e6))
            .collect()
    };
    frame.curve(&points(|_, _, max_ns| max_ns as f64), BAD);
    frame.curve(&points(|count, sum_ns, _| sum_ns as f64 / count as f64), GOOD);
    frame.legend(0, BAD, &format!("longest response time of each {words}"));
    frame.legend(1, GOOD, "mean");
    frame.finish()
}

/// Every request by its intended start.
fn scatter(samples: &[RequestSample]) -> String {
    let response_ms =
        |sample: &RequestSample| sample.ended_ns.saturating_sub(sample.intended_ns) as f64 / 1e6;
    let is_failure = |sample: &RequestSample| sample.failure.is_some() || sample.status >= 400;
    let last_ns = samples.iter().map(|sample| sample.intended_ns).max().unwrap_or(0);
    // The same length as the chart above.
    let x_max = (last_ns / 1_000_000_000 + 1) as f64;
    let y_max = samples.iter().map(response_ms).fold(0.0, f64::max);
    let mut frame = ChartFrame::new("Every request", TIME_AXIS, x_max, y_max);
    frame.time_ticks();
    let columns = PLOT_WIDTH as usize + 1;
    let mut by_column: Vec<Vec<&RequestSample>> = vec![Vec::new(); columns];
    for sample in samples {
        let column = (sample.intended_ns as f64 / 1e9 / x_max * PLOT_WIDTH) as usize;
        if let Some(column) = by_column.get_mut(column.min(columns - 1)) {
            column.push(sample);
        }
    }
    let mut left_out = 0;
    for mut column in by_column {
        column.sort_by(|one, other| response_ms(other).total_cmp(&response_ms(one)));
        left_out += column.len().saturating_sub(COLUMN_POINTS);
        for sample in column.into_iter().take(COLUMN_POINTS) {
            let colour = if is_failure(sample) { BAD } else { GOOD };
            frame.dot(sample.intended_ns as f64 / 1e9, response_ms(sample), colour);
        }
    }
    let words = match left_out {
        0 => "response time".to_owned(),
        count => format!("response time ({count} fast requests are not drawn)"),
    };
    frame.legend(0, GOOD, &words);
    if samples.iter().any(is_failure) {
        frame.legend(1, BAD, "failed, or status 400 or above");
    }
    frame.finish()
}

#[cfg(test)]
mod tests {
    use super::{Charts, Curve, course, percentiles, png, scatter};
    use crate::bench::record::{RequestSample, RunRecord};

    fn record(count: u64) -> RunRecord {
        let mut record = RunRecord::new(true);
        for n in 0..count {
            let intended_ns = n * 10_000_000;
            record.add(&RequestSample {
                n,
                intended_ns,
                sent_ns: intended_ns,
                ended_ns: intended_ns + 1_000_000 + (n % 100) * 10_000,
                free_ns: 0,
                opening_ns: 0,
                status: if n == 7 { 500 } else { 200 },
                bytes: 1,
                failure: None,
            });
        }
        record
    }

    fn curve(name: &str, count: u64) -> Curve {
        Curve::of(name, &record(count).response)
    }

    #[test]
    fn the_axis_gives_each_nine_the_same_room() {
        let svg = percentiles("A & B", &[curve("one", 1000), curve("other", 10)]);
        let tick = |text: &str| -> f64 {
            let end =
                svg.find(&format!(">{text}</text>")).unwrap_or_else(|| panic!("{text}: {svg}"));
            let start = svg[..end].rfind("x=\"").unwrap() + 3;
            svg[start..].split('"').next().unwrap().parse().unwrap()
        };
        let places = ["0%", "90%", "99%", "99.9%"].map(tick);
        let gaps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (gap - gaps[0]).abs() < 0.2), "{places:?}");
        // A thousand samples say nothing about the 99.99th percentile.
        assert!(
            !svg.contains("99.99%") && svg.contains("A &amp; B") && svg.contains("(1000 samples)")
        );
        assert_eq!(svg.matches("<polyline").count(), 2);
        // The slowest of ten samples is the 90th percentile, where the curve ends.
        let ends: Vec<f64> = svg
            .split("<polyline points=\"")
            .skip(1)
            .map(|line| {
                let points = line.split('"').next().unwrap();
                points.split(' ').next_back().unwrap().split(',').next().unwrap().parse().unwrap()
            })
            .collect();
        assert!((ends[0] - places[3]).abs() < 0.2 && (ends[1] - places[1]).abs() < 0.2, "{ends:?}");
    }

    #[test]
    fn nothing_measured_is_an_empty_chart() {
        let empty = RunRecord::new(true);
        let charts = Charts { title: "x", record: &empty, others: &[] };
        for svg in [charts.svg(), charts.page("", "y"), course(&empty), scatter(&[])] {
            assert!(!svg.contains("NaN") && !svg.contains(">inf"), "{svg}");
        }
        assert!(png(&charts.svg()).is_ok());
    }

    #[test]
    fn every_request_is_a_point_and_the_slowest_stay_when_there_are_too_many() {
        let few = record(500);
        let svg = scatter(few.samples.as_ref().unwrap());
        assert_eq!(svg.matches("<circle").count(), 500);
        assert_eq!(svg.matches("<circle").count() - svg.matches("#0b6bcb\" fill-op").count(), 1);
        assert!(svg.contains("status 400 or above"));
        let mut many = few.samples.unwrap();
        for sample in &mut many {
            sample.intended_ns = 5_000_000_000;
            sample.ended_ns = sample.intended_ns + sample.n * 1_000_000;
        }
        let svg = scatter(&many);
        assert_eq!(svg.matches("<circle").count(), super::COLUMN_POINTS);
        assert!(svg.contains("(460 fast requests"), "{svg}");
        let course = course(&record(500));
        assert!(course.matches("<polyline").count() == 2 && course.contains("each tenth"));
    }

    #[test]
    fn a_page_and_a_picture_hold_all_charts_and_other_runs_beside_this_one() {
        let record = record(300);
        let others = [curve("the day before", 300), curve("<b>", 300)];
        let charts = Charts { title: "http://a/<script>", record: &record, others: &others };
        let picture = charts.svg();
        assert_eq!((picture.matches("<svg").count(), picture.matches("<polyline").count()), (1, 6));
        let page = charts.page("NOT VALID: \"so\"", "a<b");
        assert_eq!((page.matches("<svg").count(), page.matches("<polyline").count()), (3, 6));
        assert!(page.contains("the day before (300 samples)") && page.contains("&lt;b&gt; (300"));
        assert!(page.contains("NOT VALID: &quot;so&quot;") && page.contains("a&lt;b"));
        assert!(!page.contains("<script>") && page.contains("prefers-color-scheme: dark"));
        let png = png(&picture).unwrap();
        assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{}", png.len());
    }
}
