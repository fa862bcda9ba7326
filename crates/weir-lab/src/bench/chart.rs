//! Charts of a run as SVG: response times by percentile on the axis of 1/(1−p), their course in time, and every request. Only points that
//! were measured are drawn.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::record::{Record, Sample, Second};
use super::report::percent_text;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
/// Room for the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [70.0, 40.0, 24.0, 48.0];
const PLOT_WIDTH: f64 = WIDTH - MARGIN[0] - MARGIN[2];
const COLOURS: [&str; 2] = ["#0b6bcb", "#c8551b"];
/// Points of a scatter in one column of a pixel's width; of more, the slowest are drawn.
const COLUMN_POINTS: usize = 40;
const LINES: f64 = 5.0;

/// The area of a chart and how values lie in it.
struct Frame {
    x_max: f64,
    y_max: f64,
    svg: String,
}

impl Frame {
    /// An empty chart with a scale of times on the left; `y_max` is in milliseconds.
    fn new(title: &str, x_title: &str, x_max: f64, y_max: f64) -> Self {
        let step = nice_step(y_max.max(1e-3) / LINES);
        let y_max = (y_max.max(1e-3) / step).ceil() * step;
        let mut frame = Self { x_max: x_max.max(1e-9), y_max, svg: String::new() };
        let _ = write!(
            frame.svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
            font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        frame.text(
            MARGIN[0],
            22.0,
            "start",
            &format!("<tspan font-size=\"15\">{}</tspan>", escape(title)),
        );
        let mut tick = 0.0;
        while tick <= frame.y_max * 1.000_001 {
            let y = frame.y(tick);
            frame.line(MARGIN[0], y, WIDTH - MARGIN[2], y);
            frame.text(MARGIN[0] - 8.0, y + 4.0, "end", &milliseconds(tick, step));
            tick += step;
        }
        frame.text(MARGIN[0] + PLOT_WIDTH / 2.0, HEIGHT - 10.0, "middle", &escape(x_title));
        frame
    }

    fn x(&self, value: f64) -> f64 {
        MARGIN[0] + value / self.x_max * PLOT_WIDTH
    }

    fn y(&self, value: f64) -> f64 {
        let height = HEIGHT - MARGIN[1] - MARGIN[3];
        HEIGHT - MARGIN[3] - value / self.y_max * height
    }

    fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        let _ = writeln!(
            self.svg,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>"
        );
    }

    /// Text that is markup already.
    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        );
    }

    fn x_tick(&mut self, value: f64, text: &str) {
        let x = self.x(value);
        self.line(x, self.y(0.0), x, self.y(self.y_max));
        self.text(x, HEIGHT - MARGIN[3] + 18.0, "middle", text);
    }

    fn curve(&mut self, points: &[(f64, f64)], number: usize, name: &str) {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        let _ = writeln!(
            self.svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\"/>",
            path.join(" ")
        );
        let y = MARGIN[1] + 14.0 + 18.0 * number as f64;
        let _ = writeln!(
            self.svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{colour}\"/>",
            MARGIN[0] + 12.0,
            y - 6.0
        );
        self.text(MARGIN[0] + 32.0, y, "start", &escape(name));
    }

    fn dot(&mut self, x: f64, y: f64, number: usize) {
        let _ = writeln!(
            self.svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.4\" fill=\"{}\" fill-opacity=\"0.6\"/>",
            self.x(x),
            self.y(y),
            COLOURS[number % COLOURS.len()]
        );
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>\n");
        self.svg
    }
}

/// Times by percentile; the axis stretches so that each further nine has the same room.
pub fn percentiles(title: &str, record: &Record) -> String {
    let curves = [("response time", &record.response), ("service time", &record.service)];
    let samples = record.response.len().max(2) as f64;
    let y_max = curves.iter().map(|(_, histogram)| histogram.max()).max().unwrap_or(0) as f64 / 1e6;
    let x_max = samples.log10();
    let mut frame = Frame::new(title, "percentile", x_max, y_max);
    let mut nines = 0;
    while f64::from(nines) <= x_max {
        let percent = 100.0 * (1.0 - 10_f64.powi(-nines));
        frame.x_tick(f64::from(nines), &format!("{}%", percent_text(percent)));
        nines += 1;
    }
    for (number, (name, histogram)) in curves.into_iter().enumerate() {
        let words = format!("{name}, ms ({} samples)", histogram.len());
        frame.curve(&spectrum(histogram, x_max), number, &words);
    }
    frame.finish()
}

/// The points of a spectrum: place on the axis of 1/(1−p), milliseconds.
fn spectrum(histogram: &Histogram<u64>, x_max: f64) -> Vec<(f64, f64)> {
    let steps = histogram.iter_quantiles(5);
    steps
        .map(|step| {
            let left = 1.0 - step.quantile_iterated_to();
            // The slowest one stands where one of all samples stands.
            let x = if left > 0.0 { (-left.log10()).clamp(0.0, x_max) } else { x_max };
            (x, step.value_iterated_to() as f64 / 1e6)
        })
        .collect()
}

/// The course of a run: of each second its longest and its mean response time.
pub fn course(title: &str, seconds: &[Second]) -> String {
    let y_max = seconds.iter().map(|second| second.max_ns).max().unwrap_or(0) as f64 / 1e6;
    let x_max = seconds.len().max(1) as f64;
    let mut frame =
        Frame::new(title, "seconds since the measurement began, by intended start", x_max, y_max);
    time_ticks(&mut frame, x_max);
    let points = |value: fn(&Second) -> f64| -> Vec<(f64, f64)> {
        let filled = seconds.iter().enumerate().filter(|(_, second)| second.count > 0);
        filled.map(|(number, second)| (number as f64 + 0.5, value(second))).collect()
    };
    frame.curve(
        &points(|second| second.max_ns as f64 / 1e6),
        1,
        "longest response time of each second, ms",
    );
    frame.curve(&points(|second| second.sum_ns as f64 / second.count as f64 / 1e6), 0, "mean, ms");
    frame.finish()
}

/// Every request by its intended start; the other colour is that of failures.
pub fn scatter(title: &str, samples: &[Sample]) -> String {
    let response_ms =
        |sample: &Sample| sample.ended_ns.saturating_sub(sample.intended_ns) as f64 / 1e6;
    let x_max = samples.iter().map(|sample| sample.intended_ns).max().unwrap_or(0) as f64 / 1e9;
    let y_max = samples.iter().map(response_ms).fold(0.0, f64::max);
    let mut frame =
        Frame::new(title, "seconds since the measurement began, by intended start", x_max, y_max);
    time_ticks(&mut frame, x_max);
    let columns = PLOT_WIDTH as usize + 1;
    let mut by_column: Vec<Vec<&Sample>> = vec![Vec::new(); columns];
    for sample in samples {
        let column = (sample.intended_ns as f64 / 1e9 / frame.x_max * PLOT_WIDTH) as usize;
        if let Some(column) = by_column.get_mut(column.min(columns - 1)) {
            column.push(sample);
        }
    }
    for mut column in by_column {
        column.sort_by(|one, other| response_ms(other).total_cmp(&response_ms(one)));
        for sample in column.into_iter().take(COLUMN_POINTS) {
            let is_failure = sample.failure.is_some() || sample.status >= 400;
            frame.dot(
                sample.intended_ns as f64 / 1e9,
                response_ms(sample),
                usize::from(is_failure),
            );
        }
    }
    frame.finish()
}

fn time_ticks(frame: &mut Frame, x_max: f64) {
    let step = nice_step(x_max / 10.0);
    let mut tick = 0.0;
    while tick <= x_max {
        frame.x_tick(tick, &format!("{}", (tick * 1e6).round() / 1e6));
        tick += step;
    }
}

/// A page with the charts and the report; it needs nothing else.
pub fn page(title: &str, report: &str, record: &Record) -> String {
    let mut charts = percentiles("Response and service time by percentile", record);
    charts.push_str(&course("Course of the run", &record.seconds));
    if let Some(samples) = &record.samples {
        charts.push_str(&scatter("Every request", samples));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
        <style>body {{ font-family: sans-serif; margin: 2em auto; max-width: 60em }} svg {{ display: block; margin: 1em 0; \
        max-width: 100%; height: auto }} pre {{ background: #f4f4f4; padding: 1em; overflow-x: auto }}</style>\n\
        <h1>{title}</h1>\n{charts}<pre>{report}</pre>\n</html>\n",
        title = escape(title),
        report = escape(report),
    )
}

/// 1, 2 or 5 times a power of ten, at least as large.
fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * 0.999_999).unwrap_or(10.0 * power)
}

fn milliseconds(tick: f64, step: f64) -> String {
    let digits = if step >= 1.0 { 0 } else { (-step.log10()).ceil() as usize };
    format!("{tick:.digits$} ms")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{course, nice_step, page, percentiles, scatter};
    use crate::bench::record::{Record, Sample};

    fn record(count: u64) -> Record {
        let mut record = Record::new(true);
        for n in 0..count {
            let intended_ns = n * 10_000_000;
            record.add(&Sample {
                n,
                intended_ns,
                sent_ns: intended_ns,
                ended_ns: intended_ns + 1_000_000 + (n % 100) * 10_000,
                free_ns: 0,
                status: if n == 7 { 500 } else { 200 },
                bytes: 1,
                failure: None,
            });
        }
        record
    }

    #[test]
    fn the_axis_gives_each_nine_the_same_room() {
        let svg = percentiles("A & B", &record(1000));
        let tick = |text: &str| -> f64 {
            let end =
                svg.find(&format!(">{text}</text>")).unwrap_or_else(|| panic!("{text}: {svg}"));
            let start = svg[..end].rfind("x=\"").unwrap() + 3;
            svg[start..].split('"').next().unwrap().parse().unwrap()
        };
        let places = ["0%", "90%", "99%", "99.9%"].map(tick);
        let gaps: Vec<f64> = places.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (gap - gaps[0]).abs() < 0.2), "{places:?}");
        // A thousand samples say nothing of the 99.99th.
        assert!(
            !svg.contains("99.99%") && svg.contains("A &amp; B") && svg.contains("(1000 samples)")
        );
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_measured_is_an_empty_chart() {
        let empty = Record::new(true);
        for svg in
            [percentiles("x", &empty), course("x", &[]), scatter("x", &[]), page("x", "y", &empty)]
        {
            assert!(
                !svg.contains("NaN") && !svg.contains("inf") && svg.contains("</svg>"),
                "{svg}"
            );
        }
    }

    #[test]
    fn every_request_is_a_point_and_the_slowest_stay_when_there_are_too_many() {
        let few = record(500);
        let svg = scatter("x", few.samples.as_ref().unwrap());
        assert_eq!(svg.matches("<circle").count(), 500);
        assert_eq!(svg.matches("#c8551b").count(), 1);
        let mut many = few.samples.unwrap();
        for sample in &mut many {
            sample.intended_ns = 5_000_000_000;
            sample.ended_ns = sample.intended_ns + sample.n * 1_000_000;
        }
        assert_eq!(scatter("x", &many).matches("<circle").count(), super::COLUMN_POINTS);
        assert_eq!(course("x", &record(500).seconds).matches("<polyline").count(), 2);
    }

    #[test]
    fn steps_are_round() {
        for (least, expected) in [(0.13, 0.2), (1.0, 1.0), (3.0, 5.0), (7.0, 10.0), (200.0, 200.0)]
        {
            assert!(
                (nice_step(least) / expected - 1.0).abs() < 1e-9,
                "{least}: {}",
                nice_step(least)
            );
        }
    }
}
