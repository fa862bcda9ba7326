//! The area of a chart as SVG: axes, lines, dots and text. Colours are attributes, for programs
//! without style sheets; a style sheet with the colours for dark pages overrides them. It computes
//! no figures.

use std::fmt::Write;

pub(super) const WIDTH: f64 = 860.0;
pub(super) const HEIGHT: f64 = 400.0;
/// Margins for the axes: left, top, right, bottom.
const MARGIN: [f64; 4] = [76.0, 40.0, 24.0, 50.0];
pub(super) const PLOT_WIDTH: f64 = WIDTH - MARGIN[0] - MARGIN[2];
/// Colours on white. The first four can be distinguished with colour blindness.
pub(super) const COLOURS: [&str; 6] =
    ["#0b6bcb", "#c8551b", "#1b8a5a", "#8a4fbf", "#7a6a00", "#5c6670"];
/// The same colours for a dark page.
const DARK: [&str; 6] = ["#6cb4ff", "#ff9a62", "#5fd3a0", "#c79bff", "#e0cc4a", "#a9b4c0"];
const LINES: f64 = 5.0;
/// Approximate width of a letter in the legend.
const LETTER_WIDTH: f64 = 7.0;
/// Largest number of letters of a title.
const TITLE_LETTERS: usize = 88;

/// A chart that is being drawn.
pub(super) struct ChartFrame {
    x_max: f64,
    y_max: f64,
    svg: String,
}

impl ChartFrame {
    /// An empty chart with a time scale on the left; `y_max` is in milliseconds.
    pub(super) fn new(title: &str, x_title: &str, x_max: f64, y_max: f64) -> Self {
        let step = nice_step(y_max.max(1e-3) / LINES);
        let y_max = (y_max.max(1e-3) / step - 1e-9).ceil() * step;
        let mut frame = Self { x_max: x_max.max(1e-9), y_max, svg: String::new() };
        frame.words(MARGIN[0], 22.0, "start", 15, &shortened(title));
        for number in 0..=(y_max / step).round() as u32 {
            let tick = f64::from(number) * step;
            let y = frame.y(tick);
            frame.line(MARGIN[0], y, WIDTH - MARGIN[2], y);
            frame.words(MARGIN[0] - 8.0, y + 4.0, "end", 12, &time_tick(tick, y_max, step));
        }
        frame.words(MARGIN[0] + PLOT_WIDTH / 2.0, HEIGHT - 10.0, "middle", 12, x_title);
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
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dcdcdc\" class=\"grid\"/>"
        );
    }

    fn words(&mut self, x: f64, y: f64, anchor: &str, size: u32, text: &str) {
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"#1c1c1c\" class=\"ink\">{}</text>",
            escape(text)
        );
    }

    pub(super) fn x_tick(&mut self, value: f64, text: &str) {
        let x = self.x(value);
        self.line(x, self.y(0.0), x, self.y(self.y_max));
        self.words(x, HEIGHT - MARGIN[3] + 18.0, "middle", 12, text);
    }

    /// Draws ticks of seconds up to `x_max`.
    pub(super) fn time_ticks(&mut self) {
        let step = nice_step(self.x_max / 10.0);
        let mut number = 0_u32;
        while f64::from(number) * step <= self.x_max * 1.000_001 {
            let tick = f64::from(number) * step;
            self.x_tick(tick, &format!("{}", (tick * 1e6).round() / 1e6));
            number += 1;
        }
    }

    pub(super) fn curve(&mut self, points: &[(f64, f64)], number: usize) {
        let colour = number % COLOURS.len();
        // When the colours are used up, lines are dashed.
        let dashes = if number < COLOURS.len() { "" } else { " stroke-dasharray=\"6 3\"" };
        let path: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", self.x(*x), self.y(*y))).collect();
        let _ = writeln!(
            self.svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"{dashes} class=\"line{colour}\"/>",
            path.join(" "),
            COLOURS[colour],
        );
    }

    /// Draws the legend entry of a curve or of a kind of dots, in line `place`.
    pub(super) fn legend(&mut self, place: usize, number: usize, name: &str) {
        let colour = number % COLOURS.len();
        let y = MARGIN[1] + 16.0 + 18.0 * place as f64;
        // Keeps the text legible above curves.
        let _ = writeln!(
            self.svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"18\" fill=\"#ffffff\" fill-opacity=\"0.85\" class=\"paper\"/>",
            MARGIN[0] + 8.0,
            y - 13.0,
            30.0 + LETTER_WIDTH * name.chars().count() as f64,
        );
        let _ = writeln!(
            self.svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"4\" fill=\"{}\" class=\"fill{colour}\"/>",
            MARGIN[0] + 12.0,
            y - 6.0,
            COLOURS[colour],
        );
        self.words(MARGIN[0] + 32.0, y, "start", 12, name);
    }

    pub(super) fn dot(&mut self, x: f64, y: f64, number: usize) {
        let colour = number % COLOURS.len();
        let _ = writeln!(
            self.svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.5\" fill=\"{}\" fill-opacity=\"0.6\" class=\"fill{colour}\"/>",
            self.x(x),
            self.y(y),
            COLOURS[colour],
        );
    }

    /// The SVG elements of the chart, without an enclosing picture.
    pub(super) fn finish(self) -> String {
        self.svg
    }
}

/// One picture of several charts, one below the other.
pub(super) fn picture(charts: &[String]) -> String {
    let height = HEIGHT * charts.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
        font-family=\"sans-serif\">\n<style>@media (prefers-color-scheme: dark) {{ {} }}</style>\n\
        <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\" class=\"paper\"/>\n",
        dark_style()
    );
    for (number, chart) in charts.iter().enumerate() {
        let _ =
            write!(out, "<g transform=\"translate(0 {})\">\n{chart}</g>\n", HEIGHT * number as f64);
    }
    out.push_str("</svg>\n");
    out
}

pub(super) fn dark_style() -> String {
    let mut out =
        ".paper { fill: #15181c } .ink { fill: #dfe3e8 } .grid { stroke: #363c44 }".to_owned();
    for (number, colour) in DARK.iter().enumerate() {
        let _ =
            write!(out, " .line{number} {{ stroke: {colour} }} .fill{number} {{ fill: {colour} }}");
    }
    out
}

/// The smallest of 1, 2 or 5 times a power of ten that is at least `least`.
pub(super) fn nice_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * 0.999_999).unwrap_or(10.0 * power)
}

/// The label of a time on the axis, in the unit of the longest one.
fn time_tick(ms: f64, longest_ms: f64, step_ms: f64) -> String {
    let (scale, unit) = match longest_ms {
        longest if longest >= 10_000.0 => (1e-3, "s"),
        longest if longest >= 1.0 => (1.0, "ms"),
        _ => (1e3, "µs"),
    };
    let step = step_ms * scale;
    let digits = if step >= 0.999_999 { 0 } else { (-step.log10() - 1e-9).ceil() as usize };
    format!("{:.digits$} {unit}", ms * scale)
}

fn shortened(title: &str) -> String {
    if title.chars().count() <= TITLE_LETTERS {
        return title.to_owned();
    }
    let begin: String = title.chars().take(TITLE_LETTERS - 1).collect();
    format!("{begin}…")
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{TITLE_LETTERS, nice_step, shortened, time_tick};

    #[test]
    fn a_heading_that_is_too_long_ends_in_dots() {
        let exact = "x".repeat(TITLE_LETTERS);
        assert_eq!(shortened(&exact), exact);
        let cut = shortened(&format!("{exact}y"));
        assert!(cut.chars().count() == TITLE_LETTERS && cut.ends_with("x…"));
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

    #[test]
    fn times_have_the_unit_of_the_longest() {
        assert_eq!(time_tick(0.2, 0.8, 0.2), "200 µs");
        assert_eq!(time_tick(0.0, 20.0, 5.0), "0 ms");
        assert_eq!(time_tick(0.5, 2.0, 0.5), "0.5 ms");
        assert_eq!(time_tick(2500.0, 12_500.0, 500.0), "2.5 s");
    }
}
