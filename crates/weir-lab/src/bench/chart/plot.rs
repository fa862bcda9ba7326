//! Charts of several series with a legend below: by rate, by percentile, by number. Measured points
//! are marked; a line between two of them is straight and thin. It computes no figures.

use std::fmt::Write;

use super::frame::{COLOURS, dark_style, escape, nice_step};

const WIDTH: f64 = 860.0;
const PLOT_HEIGHT: f64 = 300.0;
/// Margins for the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [84.0, 64.0, 26.0, 56.0];
/// Height of a line of the legend, and its columns.
const LEGEND_LINE: f64 = 20.0;
const LEGEND_COLUMNS: usize = 2;
/// Largest number of letters of a legend entry and of a title.
const LEGEND_LETTERS: usize = 52;
const TITLE_LETTERS: usize = 84;
const Y_LINES: f64 = 5.0;
/// The width of a letter of a tick.
const TICK_LETTER: f64 = 7.8;
/// The distance of words from their vertical line, and the height of a row of them.
const MARK_GAP: f64 = 5.0;
const MARK_ROW: f64 = 16.0;
/// The most ticks of an axis of rates.
const X_TICKS: f64 = 8.0;

/// The meaning of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotAxis {
    /// Times in milliseconds, from zero.
    Time,
    /// Times in milliseconds, each power of ten with the same height.
    LogTime,
    /// Percent, from zero.
    Percent,
    /// Microseconds, from zero.
    Micros,
    /// Plain numbers, from zero.
    Number,
    /// Percentiles as the number of nines: each further nine has the same width.
    Nines,
}

/// One point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlotPoint {
    /// Its place.
    pub x: f64,
    /// Its value.
    pub y: f64,
    /// Set for a point that is part of another one, such as one of several runs.
    pub is_small: bool,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotSeries {
    /// Its name in the legend.
    pub name: String,
    /// Its points, by place.
    pub points: Vec<PlotPoint>,
    /// Set if its points have no marks, as those of a distribution.
    pub is_curve: bool,
    /// Set if there is no line between its points.
    pub is_scatter: bool,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// Its title.
    pub title: String,
    /// The meaning of the places.
    pub x_axis: PlotAxis,
    /// The words below.
    pub x_title: String,
    /// The meaning of the values.
    pub y_axis: PlotAxis,
    /// The words above the values.
    pub y_title: String,
    /// The series.
    pub series: Vec<PlotSeries>,
    /// Vertical lines with a word each.
    pub marks: Vec<(f64, String)>,
    /// A horizontal line with a word, such as a budget.
    pub line: Option<(f64, String)>,
}

/// The place of the words of a vertical line.
struct MarkWords {
    from: f64,
    to: f64,
    row: u32,
    is_right: bool,
}

impl MarkWords {
    fn meets(&self, other: &Self) -> bool {
        self.is_right == other.is_right
            && self.row == other.row
            && self.from < other.to
            && other.from < self.to
    }
}

struct PlotScale {
    axis: PlotAxis,
    low: f64,
    high: f64,
    step: f64,
}

impl PlotScale {
    fn of(axis: PlotAxis, values: impl Iterator<Item = f64> + Clone, lines: f64) -> Self {
        let values = values.filter(|value| value.is_finite());
        let largest = values.clone().fold(0.0, f64::max);
        if axis == PlotAxis::LogTime {
            let smallest = values.filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
            let (low, high) = if smallest.is_finite() {
                (smallest.log10().floor(), largest.log10().ceil())
            } else {
                (0.0, 1.0)
            };
            return Self { axis, low, high: if high > low { high } else { low + 1.0 }, step: 1.0 };
        }
        if axis == PlotAxis::Nines {
            return Self { axis, low: 0.0, high: largest.max(1.0), step: 1.0 };
        }
        let step = nice_step(largest.max(1e-6) / lines);
        Self { axis, low: 0.0, high: ((largest.max(1e-6) / step) - 1e-9).ceil() * step, step }
    }

    /// The place from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let value = if self.axis == PlotAxis::LogTime { value.max(1e-9).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let count = ((self.high - self.low) / self.step + 1e-9).floor() as u32;
        (0..=count)
            .map(|number| {
                let value = self.low + f64::from(number) * self.step;
                match self.axis {
                    PlotAxis::LogTime => {
                        (10_f64.powf(value), time_word(10_f64.powf(value), 10_f64.powf(value)))
                    }
                    PlotAxis::Time => (value, time_word(value, self.high)),
                    PlotAxis::Percent => (value, format!("{} %", plain(value))),
                    PlotAxis::Micros => (value, format!("{} µs", plain(value))),
                    PlotAxis::Number => (value, grouped(value)),
                    PlotAxis::Nines => {
                        let percent = 100.0 * (1.0 - 10_f64.powi(-(number as i32)));
                        (value, format!("{} %", super::percent_text(percent)))
                    }
                }
            })
            .collect()
    }
}

impl Plot {
    /// The chart as a picture.
    pub fn svg(&self) -> String {
        let rows = self.series.len().div_ceil(LEGEND_COLUMNS);
        let height = MARGIN[1] + PLOT_HEIGHT + MARGIN[3] + LEGEND_LINE * rows as f64 + 10.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
            font-family=\"sans-serif\" role=\"img\" aria-label=\"{}\">\n<style>@media (prefers-color-scheme: dark) {{ {} }}</style>\n\
            <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\" class=\"paper\"/>\n",
            escape(&self.title),
            dark_style()
        );
        let points = || self.series.iter().flat_map(|series| &series.points);
        let limit = self.line.iter().map(|(value, _)| *value);
        let x = PlotScale::of(self.x_axis, points().map(|point| point.x), X_TICKS);
        let y = PlotScale::of(self.y_axis, points().map(|point| point.y).chain(limit), Y_LINES);
        self.frame(&mut out, &x, &y);
        for (number, series) in self.series.iter().enumerate() {
            draw(&mut out, series, number, &x, &y);
        }
        self.legend(&mut out);
        out.push_str("</svg>\n");
        out
    }

    fn frame(&self, out: &mut String, x: &PlotScale, y: &PlotScale) {
        let bottom = MARGIN[1] + PLOT_HEIGHT;
        words(out, [MARGIN[0] - 60.0, 24.0], "start", 16, &shortened(&self.title, TITLE_LETTERS));
        words(out, [MARGIN[0] - 60.0, 48.0], "start", 13, &self.y_title);
        for (value, text) in y.ticks() {
            let at = bottom - y.share(value) * PLOT_HEIGHT;
            grid(out, [MARGIN[0], at, WIDTH - MARGIN[2], at]);
            words(out, [MARGIN[0] - 8.0, at + 4.5], "end", 13, &text);
        }
        for (value, text) in x.ticks() {
            let at = place_x(x, value);
            grid(out, [at, MARGIN[1], at, bottom]);
            // The last one may be long: it ends with the picture.
            let most = WIDTH - 4.0 - TICK_LETTER * text.chars().count() as f64 / 2.0;
            words(out, [at.min(most), bottom + 19.0], "middle", 13, &text);
        }
        words(out, [MARGIN[0] + plot_width() / 2.0, bottom + 42.0], "middle", 13, &self.x_title);
        if let Some((value, text)) = &self.line {
            let at = bottom - y.share(*value) * PLOT_HEIGHT;
            rule(out, [MARGIN[0], at, WIDTH - MARGIN[2], at]);
            // Rates begin right of zero, so no curve runs through words at the left end.
            words(out, [MARGIN[0] + 4.0, at - 5.0], "start", 13, text);
        }
        self.draw_marks(out, x);
    }

    /// Draws the vertical lines. After a change for the worse curves are high, before it low: words
    /// to the right of a line stand at the bottom, words to its left at the top. Words that would
    /// run into others have a row of their own.
    fn draw_marks(&self, out: &mut String, x: &PlotScale) {
        let bottom = MARGIN[1] + PLOT_HEIGHT;
        let mut placed: Vec<MarkWords> = Vec::new();
        for (value, text) in &self.marks {
            let at = place_x(x, *value);
            rule(out, [at, MARGIN[1], at, bottom]);
            let text = shortened(text, LEGEND_LETTERS);
            let width = TICK_LETTER * text.chars().count() as f64;
            let is_right = at + MARK_GAP + width <= WIDTH - 4.0;
            let from = if is_right { at + MARK_GAP } else { at - MARK_GAP - width };
            let mut words_here = MarkWords { from, to: from + width, row: 0, is_right };
            while placed.iter().any(|other| other.meets(&words_here)) {
                words_here.row += 1;
            }
            let shift = MARK_ROW * f64::from(words_here.row);
            if is_right {
                words(out, [at + MARK_GAP, bottom - 6.0 - shift], "start", 13, &text);
            } else {
                words(out, [at - MARK_GAP, MARGIN[1] + 14.0 + shift], "end", 13, &text);
            }
            placed.push(words_here);
        }
    }

    fn legend(&self, out: &mut String) {
        let top = MARGIN[1] + PLOT_HEIGHT + MARGIN[3] + 12.0;
        let column = (WIDTH - 40.0) / LEGEND_COLUMNS as f64;
        for (number, series) in self.series.iter().enumerate() {
            let left = 24.0 + column * (number % LEGEND_COLUMNS) as f64;
            let at = top + LEGEND_LINE * (number / LEGEND_COLUMNS) as f64;
            let colour = number % COLOURS.len();
            if !series.is_scatter {
                let _ = writeln!(
                    out,
                    "<path d=\"M{left:.1} {:.1}h26\" stroke=\"{}\" stroke-width=\"2.4\"{} class=\"line{colour}\"/>",
                    at - 4.5,
                    COLOURS[colour],
                    dashes(number, series.is_curve)
                );
            }
            if !series.is_curve {
                mark(out, [left + 13.0, at - 4.5], number, false);
            }
            words(out, [left + 34.0, at], "start", 13, &shortened(&series.name, LEGEND_LETTERS));
        }
    }
}

fn plot_width() -> f64 {
    WIDTH - MARGIN[0] - MARGIN[2]
}

fn place_x(x: &PlotScale, value: f64) -> f64 {
    MARGIN[0] + x.share(value) * plot_width()
}

fn draw(out: &mut String, series: &PlotSeries, number: usize, x: &PlotScale, y: &PlotScale) {
    let colour = number % COLOURS.len();
    let place = |point: &PlotPoint| {
        [place_x(x, point.x), MARGIN[1] + PLOT_HEIGHT - y.share(point.y) * PLOT_HEIGHT]
    };
    let large = series.points.iter().filter(|point| !point.is_small);
    if series.is_scatter {
        // A line of no length with round ends is a dot in few letters.
        let dots: Vec<String> = large
            .map(|point| {
                let [x, y] = place(point);
                format!("M{x:.0} {y:.1}h0")
            })
            .collect();
        let _ = writeln!(
            out,
            "<path d=\"{}\" stroke=\"{}\" stroke-width=\"3\" stroke-linecap=\"round\" stroke-opacity=\"0.6\" class=\"line{colour}\"/>",
            dots.concat(),
            COLOURS[colour]
        );
        return;
    }
    let path: Vec<String> = large
        .clone()
        .map(|point| {
            let [x, y] = place(point);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let _ = writeln!(
        out,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{} class=\"line{colour}\"/>",
        path.join(" "),
        COLOURS[colour],
        if series.is_curve { 2.2 } else { 1.2 },
        dashes(number, series.is_curve)
    );
    for point in series.points.iter().filter(|_| !series.is_curve) {
        mark(out, place(point), number, point.is_small);
    }
}

/// Curves differ by their dashes too, for readers and printers without colours.
fn dashes(number: usize, is_curve: bool) -> &'static str {
    const KINDS: [&str; 4] = [
        "",
        " stroke-dasharray=\"9 4\"",
        " stroke-dasharray=\"3 3\"",
        " stroke-dasharray=\"12 3 3 3\"",
    ];
    if is_curve { KINDS[number % KINDS.len()] } else { "" }
}

/// Draws a mark whose shape depends on the number; small ones are hollow.
fn mark(out: &mut String, place: [f64; 2], number: usize, is_small: bool) {
    let colour = number % COLOURS.len();
    let [x, y] = place;
    let r = if is_small { 2.6 } else { 4.6 };
    let shape = match number % 4 {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\""),
        1 => format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{w:.1}\" height=\"{w:.1}\"",
            x - r * 0.9,
            y - r * 0.9,
            w = r * 1.8
        ),
        2 => format!(
            "<path d=\"M{x:.1} {:.1}l{r} {h:.1}h-{d:.1}z\"",
            y - r,
            h = r * 1.8,
            d = r * 2.0
        ),
        _ => format!("<path d=\"M{x:.1} {:.1}l{r} {r}l-{r} {r}l-{r} -{r}z\"", y - r),
    };
    let _ = if is_small {
        writeln!(
            out,
            "{shape} fill=\"none\" stroke=\"{}\" stroke-width=\"1\" class=\"line{colour}\"/>",
            COLOURS[colour]
        )
    } else {
        writeln!(out, "{shape} fill=\"{}\" class=\"fill{colour}\"/>", COLOURS[colour])
    };
}

fn words(out: &mut String, place: [f64; 2], anchor: &str, size: u32, text: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"#1c1c1c\" class=\"ink\">{}</text>",
        place[0],
        place[1],
        escape(text)
    );
}

fn grid(out: &mut String, [x1, y1, x2, y2]: [f64; 4]) {
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dcdcdc\" class=\"grid\"/>"
    );
}

fn rule(out: &mut String, [x1, y1, x2, y2]: [f64; 4]) {
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#5c6670\" stroke-dasharray=\"2 4\" class=\"line5\"/>"
    );
}

/// A time with the unit that fits the largest one.
fn time_word(ms: f64, largest_ms: f64) -> String {
    let (value, unit) = match largest_ms {
        largest if largest >= 1000.0 => (ms / 1000.0, "s"),
        largest if largest >= 1.0 => (ms, "ms"),
        _ => (ms * 1000.0, "µs"),
    };
    format!("{} {unit}", plain(value))
}

fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number with a comma after each thousand.
fn grouped(value: f64) -> String {
    let text = plain(value);
    let (whole, part) =
        text.split_once('.').map_or((text.as_str(), ""), |(whole, part)| (whole, part));
    let mut out = String::new();
    for (number, digit) in whole.chars().enumerate() {
        if number > 0 && (whole.len() - number).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if part.is_empty() { out } else { format!("{out}.{part}") }
}

fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let begin: String = text.chars().take(letters - 1).collect();
    format!("{begin}…")
}

#[cfg(test)]
mod tests {
    use super::{Plot, PlotAxis, PlotPoint, PlotSeries, grouped, time_word};
    use crate::bench::chart::png;

    fn plot(y_axis: PlotAxis, series: &[(&str, &[(f64, f64)])]) -> Plot {
        let of = |(name, points): &(&str, &[(f64, f64)])| PlotSeries {
            name: (*name).to_owned(),
            points: points
                .iter()
                .map(|(x, y)| PlotPoint { x: *x, y: *y, is_small: false })
                .collect(),
            is_curve: false,
            is_scatter: false,
        };
        Plot {
            title: "A & B".to_owned(),
            x_axis: PlotAxis::Number,
            x_title: "requests per second".to_owned(),
            y_axis,
            y_title: "p99".to_owned(),
            series: series.iter().map(of).collect(),
            marks: Vec::new(),
            line: Some((20.0, "budget".to_owned())),
        }
    }

    #[test]
    fn points_lie_where_the_axes_say() {
        let svg =
            plot(PlotAxis::LogTime, &[("weir", &[(0.0, 1.0), (5000.0, 10.0), (10_000.0, 100.0)])])
                .svg();
        let place = svg.split("<polyline points=\"").nth(1).unwrap().split('"').next().unwrap();
        // Each power of ten has the same height; the points are a straight line.
        assert_eq!(place, "84.0,364.0 459.0,214.0 834.0,64.0");
        for part in ["A &amp; B", "10,000", "100 ms", "1 ms", "budget", ">weir<"] {
            assert!(svg.contains(part), "no {part} in {svg}");
        }
        assert!(png(&svg).is_ok());
    }

    #[test]
    fn the_last_tick_is_whole() {
        let mut plot = plot(PlotAxis::Time, &[("a", &[(0.0, 1.0), (6.0, 2.0)])]);
        plot.x_axis = PlotAxis::Nines;
        let svg = plot.svg();
        let text = svg.lines().find(|line| line.contains(">99.9999 %<")).unwrap();
        let x: f64 = text.split('"').nth(1).unwrap().parse().unwrap();
        assert!(x + 33.0 <= 860.0, "{text}");
    }

    #[test]
    fn words_of_vertical_lines_keep_apart() {
        let mut plot = plot(PlotAxis::LogTime, &[("a", &[(1.0, 1.0), (20.0, 900.0)])]);
        let places = [10.5, 10.5, 12.5, 17.5, 18.5];
        plot.marks = places.map(|place| (place, format!("at {place}: change of regime"))).to_vec();
        let svg = plot.svg();
        let number = |text: &str, name: &str| -> f64 {
            let value = text.split(&format!(" {name}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().parse().unwrap()
        };
        let mut boxes: Vec<[f64; 3]> = Vec::new();
        for text in svg.lines().filter(|line| line.contains("change of regime")) {
            let letters = text.split('>').nth(1).unwrap().split('<').next().unwrap().len() as f64;
            let (x, y) = (number(text, "x"), number(text, "y"));
            // A letter is about 6.5 wide.
            let from = if text.contains("\"end\"") { x - 6.5 * letters } else { x };
            let to = from + 6.5 * letters;
            assert!(from >= 0.0 && to <= 860.0 && (64.0..364.0).contains(&y), "{text}");
            for [from_other, to_other, y_other] in &boxes {
                let is_apart = (y - y_other).abs() >= 13.0 || to < *from_other || *to_other < from;
                assert!(is_apart, "{text} runs into the words at {from_other} {y_other}");
            }
            boxes.push([from, to, y]);
        }
        assert_eq!(boxes.len(), places.len());
    }

    #[test]
    fn series_differ_by_shape_as_well_as_by_colour() {
        let points: &[(f64, f64)] = &[(1.0, 1.0)];
        let svg =
            plot(PlotAxis::Time, &[("a", points), ("b", points), ("c", points), ("d", points)])
                .svg();
        // Each has one mark in the chart and one in the legend.
        assert_eq!((svg.matches("<circle").count(), svg.matches("<rect x").count()), (2, 2));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn nothing_measured_is_an_empty_chart() {
        for axis in [
            PlotAxis::Time,
            PlotAxis::LogTime,
            PlotAxis::Percent,
            PlotAxis::Micros,
            PlotAxis::Number,
        ] {
            let svg = Plot { line: None, ..plot(axis, &[("a", &[])]) }.svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(png(&svg).is_ok());
        }
    }

    #[test]
    fn numbers_and_times_are_written_as_people_do() {
        let check = |value: f64, expected: &str| assert_eq!(grouped(value), expected);
        check(0.0, "0");
        check(950.0, "950");
        check(12_500.0, "12,500");
        check(1_000_000.0, "1,000,000");
        check(2.5, "2.5");
        assert_eq!(time_word(0.1, 0.1), "100 µs");
        assert_eq!(time_word(2500.0, 2500.0), "2.5 s");
        assert_eq!(time_word(0.0, 20.0), "0 ms");
    }
}
