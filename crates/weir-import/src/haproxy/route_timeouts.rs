//! `http-request set-timeout`: a `timeout` of the routes that its condition leads to.

use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::lexer::LineWord;
use super::rule_effect::RuleEffect;
use super::sections::LineId;
use crate::native::NativeLine;

/// The name of the native line.
const TIMEOUT: &str = "timeout";

impl HaproxyConverter<'_> {
    /// Converts `set-timeout server|tunnel TIME`.
    pub(super) fn timeout_action(
        &self,
        line: LineId,
        arguments: &[LineWord],
    ) -> Result<RuleEffect, String> {
        if self.sections.get(self.sections.section_of(line)).kind == "frontend" {
            return Err("HAProxy refuses it in a `frontend`: write it in the backends, with the \
                        same condition"
                .to_owned());
        }
        let [kind, time] = arguments else {
            return Err("write `set-timeout server` or `set-timeout tunnel` and a time".to_owned());
        };
        let kind = kind.text.as_str();
        if !matches!(kind, "server" | "tunnel") {
            return Err(match kind {
                "client" => "the time of a client is that of its frontend: write `timeout client` \
                             there, or a frontend of its own for these clients"
                    .to_owned(),
                other => format!("`{other}` is neither `server` nor `tunnel`"),
            });
        }
        let Some(time) = super::values::microseconds(&time.text) else {
            return Err(format!(
                "`{}` is an expression, and times of routes are fixed: write a rule with a time \
                 and an `if` for each value, such as `set-timeout {kind} 5s if {{ path_beg /a }}`",
                time.text
            ));
        };
        if time == 0 {
            return Err("a time of 0 has no conversion: write the longest time that a response \
                        may take"
                .to_owned());
        }
        let time = super::values::time(time);
        let native = NativeLine::new(TIMEOUT, self.sections.span(line));
        let native = match kind {
            "server" => {
                native.option("send", &time).option("response", &time).option("read", &time)
            }
            _ => native.option("tunnel", &time),
        };
        Ok(RuleEffect::Bounds(native.end()))
    }
}

/// Makes one line of the times of a route, of which the last of each kind counts.
pub(super) fn merged(lines: Vec<Directive>) -> Vec<Directive> {
    let is_time = |line: &Directive| line.name.text == TIMEOUT;
    if lines.iter().filter(|line| is_time(line)).count() < 2 {
        return lines;
    }
    let (times, mut others): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_time);
    let mut times = times.into_iter();
    let Some(mut all) = times.next() else { return others };
    for word in times.flat_map(|line| line.words) {
        let key = word.text.get(..word.bare).unwrap_or_default();
        let same = all.words.iter_mut().find(|known| known.text.starts_with(key));
        match same {
            Some(known) => *known = word,
            None => all.words.push(word),
        }
    }
    others.push(all);
    others
}
