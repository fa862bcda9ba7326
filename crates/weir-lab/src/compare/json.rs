//! The comparison as JSON. Times are in microseconds, rates in requests per second.

use serde_json::{Value, json};

use super::comparison::{
    ComparedFigure, Design, DifferenceDirection, FigureConfidence, FigureDifference, RunComparison,
};
use super::statistics::{ConfidenceInterval, LEVEL};

impl RunComparison {
    /// All figures of the comparison.
    pub fn json(&self) -> Value {
        json!({
            "level": LEVEL,
            "design": match self.design {
                Design::InTurns => "in_turns",
                Design::Apart => "apart",
                Design::OneRun => "one_run",
            },
            "variants": self.variants.iter().enumerate().map(|(index, variant)| {
                json!({
                    "name": variant.name,
                    "runs": variant.runs.iter().enumerate().map(|(number, run)| json!({
                        "began": run.began,
                        "target": run.target,
                        "objections": run.objections,
                        "figures": self.values_of_run(index, number, variant.runs.len()),
                    })).collect::<Vec<_>>(),
                })
            }).collect::<Vec<_>>(),
            "figures": self.figures.iter().map(|figure| self.figure(figure)).collect::<Vec<_>>(),
            "sentences": self.sentences(),
        })
    }

    fn values_of_run(&self, variant: usize, run: usize, runs: usize) -> Value {
        let value = |figure: &ComparedFigure| {
            let value = figure.value_of_run(variant, run, runs)?;
            Some((figure.name.clone(), value.into()))
        };
        Value::Object(self.figures.iter().filter_map(value).collect())
    }

    fn figure(&self, figure: &ComparedFigure) -> Value {
        let values = self.variants.iter().zip(&figure.values);
        let others = self.variants.iter().skip(1).zip(&figure.differences);
        json!({
            "name": figure.name,
            "unit": figure.figure.unit(),
            "values": Value::Object(
                values.map(|(variant, data)| (variant.name.clone(), data.whole.into())).collect(),
            ),
            "differences": others.map(|(variant, found)| difference(&variant.name, found)).collect::<Vec<_>>(),
        })
    }
}

fn difference(variant: &str, difference: &FigureDifference) -> Value {
    let certainty = difference.certainty.as_ref();
    let limits = |pick: fn(&FigureConfidence) -> ConfidenceInterval| {
        certainty.map(|certainty| {
            let interval = pick(certainty);
            [interval.low, interval.high]
        })
    };
    json!({
        "variant": variant,
        "difference": difference.absolute,
        "difference_interval": limits(|certainty| certainty.absolute),
        "ratio": difference.ratio,
        "ratio_interval": limits(|certainty| certainty.ratio),
        "p_value": certainty.map(|certainty| certainty.p_value),
        "outcome": certainty.map(|certainty| match certainty.outcome() {
            DifferenceDirection::Higher => "higher",
            DifferenceDirection::Lower => "lower",
            DifferenceDirection::NotSeen => "not_seen",
        }),
        "holds_together": certainty.map(|certainty| certainty.holds_together),
    })
}
