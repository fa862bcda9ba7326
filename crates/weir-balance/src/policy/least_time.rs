//! The policies by response time: the endpoint with the lowest score, which is the average response
//! time, multiplied by the load with this exchange, relative to the weight. An endpoint that has
//! not responded yet counts as fast as the fastest one, so that it gets its share and no more.
//!
//! Of many endpoints the better of two drawn by weight is taken, as Finagle and Envoy do: a score
//! changes with time, so no order of them can be kept.

use smallvec::SmallVec;

use crate::policy::crowd::MANY;
use crate::policy::hashing::xxh64::mix;
use crate::policy::load_tree::WantedLoad;
use crate::policy::pick::Chosen;
use crate::policy::picker::{Candidate, Picker};
use crate::policy::query::Query;
use crate::policy::tier::Tier;
use crate::policy::{MeasuredTime, PeakEwmaSettings, PolicyKind};
use crate::state::decision::{ChosenBy, Decision};
use crate::state::endpoint::EndpointState;
use crate::state::response_time::AveragingRule;

/// A candidate with its average response time, µs, if it has responded.
#[derive(Clone, Copy)]
struct TimedCandidate {
    candidate: Candidate,
    average_us: Option<f64>,
}

impl TimedCandidate {
    /// The score, if endpoints that have not responded yet are as fast as `fastest_us`.
    fn score(&self, fastest_us: f64) -> f64 {
        let load = self.candidate.load.saturating_add(1) as f64;
        self.average_us.unwrap_or(fastest_us) * load / self.candidate.weight as f64
    }
}

impl PolicyKind {
    /// The average that the policy compares, if it compares one.
    pub(crate) fn averaging(self) -> Option<AveragingRule> {
        match self {
            Self::LeastTime(_) => Some(AveragingRule::new(PeakEwmaSettings::DECAY_US, false)),
            Self::PeakEwma(settings) => Some(AveragingRule::new(settings.decay_us, true)),
            _ => None,
        }
    }

    /// The response time that the policy averages, if it does.
    pub fn measures(self) -> Option<MeasuredTime> {
        match self {
            Self::LeastTime(measured) => Some(measured),
            Self::PeakEwma(_) => Some(MeasuredTime::Header),
            _ => None,
        }
    }
}

impl Picker {
    /// The endpoint with the lowest score; equal ones go in turn.
    pub(crate) fn fastest(
        &self,
        tier: &Tier,
        query: Query<'_>,
        rule: AveragingRule,
    ) -> Option<Chosen> {
        let timed = |candidate: Candidate| {
            let state = self.members.get(candidate.index).map(|member| &member.state);
            let average_us = state.and_then(|state| state.response_time().at(query.now_us, rule));
            TimedCandidate { candidate, average_us }
        };
        let candidates: SmallVec<[TimedCandidate; MANY]> = if tier.loads.is_some() {
            let first = self.draw(tier, query, |_| true)?;
            let again = Query { random: mix(query.random), ..query };
            let second = self.draw(tier, again, |candidate| candidate.index != first.index);
            [Some(first), second].into_iter().flatten().map(timed).collect()
        } else {
            self.candidates(tier, query).map(timed).collect()
        };
        let averages = candidates.iter().filter_map(|one| one.average_us);
        let fastest_us = averages.fold(f64::INFINITY, f64::min);
        let fastest_us = if fastest_us.is_finite() { fastest_us } else { 1.0 };
        let mut best: Option<(&TimedCandidate, f64)> = None;
        let mut second: Option<(&TimedCandidate, f64)> = None;
        for one in &candidates {
            let score = one.score(fastest_us);
            if best.is_none_or(|(_, lowest)| score < lowest) {
                second = best.replace((one, score));
            } else if second.is_none_or(|(_, other)| score < other) {
                second = Some((one, score));
            }
        }
        let (best, lowest) = best?;
        let tied = second.is_some_and(|(_, score)| score <= lowest);
        let equal = |other: &Candidate| timed(*other).score(fastest_us) <= lowest;
        let turn = if tied && tier.loads.is_none() {
            self.in_turn(tier, query, WantedLoad::Open, equal)
        } else {
            None
        };
        let index = turn.map_or(best.candidate.index, |turn| turn.index);
        let rival =
            if index == best.candidate.index { second.map(|(one, _)| one) } else { Some(best) };
        let chosen_by = match (turn, rival) {
            (Some(_), _) => ChosenBy::Turn,
            (None, Some(_)) => ChosenBy::Better,
            (None, None) => ChosenBy::Left,
        };
        let rival = rival.map(|rival| (rival.candidate.index, rival.candidate.load));
        Some(Chosen::unseen(index, Decision::new(chosen_by).over(rival)))
    }

    /// Notes a failure of an endpoint for the policies that compare response times.
    pub(crate) fn note_slow_failure(&self, state: &EndpointState, now_us: u64) {
        if let Some(rule) = self.averaging {
            state.response_time().note_failure(now_us, rule);
        }
    }
}
