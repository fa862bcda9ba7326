//! Checks `cpu_credits …;` and `agent ADDRESS;`. Known machine types are in the model.

use super::arguments::Arguments;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::credits::{CpuCredits, CreditMachine, Shed, machine, machines};
use crate::model::{Config, values};
use crate::units::percent;

/// A substitute for an unknown machine type.
const ANY: CreditMachine = CreditMachine { earn: 1.0, max: 1e6, launch: 0.0 };

impl<'a> Checker<'a> {
    /// Checks the agent and credit lines. They come after the listeners and the admin addresses, so
    /// that an address in use by both is reported at the agent line.
    pub(super) fn credits(&mut self, top: &[Arguments<'a>], config: &mut Config) {
        let agents = top.iter().filter(|line| line.name() == "agent");
        config.agent = agents.filter_map(|line| self.own_address(line, None)).collect();
        let Some(line) = top.iter().find(|line| line.name() == "cpu_credits") else { return };
        config.cpu_credits = self.cpu_credits(line);
        let told = !config.agent.is_empty() || !config.admin.is_empty();
        let lowered =
            config.cpu_credits.as_ref().is_some_and(|own| own.shed.contains(&Shed::Weight));
        if lowered && !told && !self.is_wrong() {
            let place = line.option("shed").map_or(line.span(), |value| value.word.span);
            let warning = Diagnostic::warning(
                place,
                "the weight is not reported: there is neither an `agent` nor an `admin` address",
            );
            self.report(warning.help(
                "add `agent :9777;`, and `agent-check agent-port 9777` to HAProxy's `server` line",
            ));
        }
    }

    fn cpu_credits(&mut self, line: &Arguments<'a>) -> Option<CpuCredits> {
        let kind = self.credit_machine(line);
        // The other options are checked even if the machine type is unknown.
        let mut own = CpuCredits::of(&kind.unwrap_or(ANY));
        own.balance = self.setting(line, "balance", credits);
        own.file = line.option("file").and_then(|value| self.file(value));
        self.set(line, "warn", &mut own.warn, values::wait_or_off);
        self.set(line, "shed", &mut own.shed, shed);
        self.set(line, "within", &mut own.within, values::wait);
        self.set(line, "floor", &mut own.floor_percent, percent::parse);
        for (field, message) in own.objections() {
            let place = line.option(field).map_or(line.span(), |option| option.word.span);
            self.report(Diagnostic::error(place, format!("`{field}`: {message}")));
        }
        for field in ["within", "floor"] {
            if let (Some(value), None) = (line.option(field), line.option("shed")) {
                let message = format!("`{field}=` without `shed=` has no effect");
                self.report(Diagnostic::error(value.word.span, message));
            }
        }
        kind.map(|_| own)
    }

    /// Returns the values of the named machine type, or those given as numbers.
    fn credit_machine(&mut self, line: &Arguments<'a>) -> Option<CreditMachine> {
        let known = line.word(0).map(|name| (name, machine(name.text())));
        if let Some((name, None)) = known {
            let message = format!("`{}` is not a known machine type", name.text());
            let names: Vec<String> = machines().collect();
            let error = Diagnostic::error(name.span(), message);
            let error =
                error.suggest(&name.text().to_ascii_lowercase(), names.iter().map(String::as_str));
            self.report(error.help(
                "known types are Amazon's t2, t3, t3a and t4g (`t3.small`) and Azure's first B series (`Standard_B2s`); for others write `earn=` and `max=`",
            ));
            return None;
        }
        let known = known.and_then(|(_, kind)| kind);
        let mut figure = |name| self.setting(line, name, credits);
        let (earn, max, launch) = (figure("earn"), figure("max"), figure("launch"));
        let earn = earn.or_else(|| known.map(|kind| kind.earn));
        let max = max.or_else(|| known.map(|kind| kind.max));
        let (Some(earn), Some(max)) = (earn, max) else {
            if line.option("earn").is_none() || line.option("max").is_none() {
                let message = "`cpu_credits` needs the machine type, or `earn=` and `max=`";
                let error = Diagnostic::error(line.span(), message);
                self.report(
                    error.help("as in `cpu_credits t3.small;` or `cpu_credits earn=24 max=576;`"),
                );
            }
            return None;
        };
        let launch = launch.or_else(|| known.map(|kind| kind.launch)).unwrap_or(0.0);
        Some(CreditMachine { earn, max, launch })
    }
}

/// Parses a number of credits, which may have decimals.
fn credits(text: &str) -> Result<f64, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match text.parse::<f64>() {
        Ok(number) if plain => Ok(number),
        _ => Err(format!(
            "`{text}` is not a number of credits, such as `24` or `81.6`; one credit is one core at full use for a minute"
        )),
    }
}

/// Parses the values to lower, separated by commas.
fn shed(text: &str) -> Result<Vec<Shed>, String> {
    let mut list = Vec::new();
    for word in text.split(',') {
        let one = match word {
            "weight" => Shed::Weight,
            "connections" => Shed::Connections,
            _ => {
                return Err(format!(
                    "`{word}` cannot be lowered: `weight`, `connections` or both, with a comma"
                ));
            }
        };
        if list.contains(&one) {
            return Err(format!("`{word}` is given twice"));
        }
        list.push(one);
    }
    Ok(list)
}
