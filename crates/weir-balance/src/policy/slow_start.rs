//! Slow start: the share of an endpoint that returns grows linearly from a hundredth to the whole
//! (HAProxy's `slowstart`, nginx's `slow_start`). Turns and draws pass over such an endpoint as
//! often as its share requires, comparisons use the reduced weight, and in a pool with a queue its
//! limit is reduced as well. Nothing here is looked at for endpoints without slow start.

use crate::policy::hashing::xxh64::mix;
use crate::policy::picker::{Candidate, Picker};
use crate::policy::query::Query;
use crate::policy::tier::Tier;
use crate::state::member::Member;
use crate::sync::Ordering;

/// The number of bits of a [`SlowShare`].
const BITS: u32 = 10;

/// The time between two steps of limits: those of many endpoints are taken together.
const MIN_STEP_US: u64 = 10_000;

/// The part of its weight that an endpoint has at a moment, in 1/1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlowShare(u32);

impl SlowShare {
    /// The share of an endpoint that is not in slow start.
    pub(crate) const WHOLE: Self = Self(1 << BITS);
    /// The share at the beginning of a slow start.
    const LEAST: Self = Self((1 << BITS) / 100);

    pub(crate) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// The part of `weight`, in 1/1024.
    pub(crate) fn of(self, weight: u32) -> u64 {
        u64::from(weight.max(1)) * u64::from(self.0)
    }

    /// Decides whether a draw of the endpoint counts, so that it counts as often as the share says.
    pub(crate) fn keeps_draw(self, random: u64) -> bool {
        // Not the number that decides the next draw.
        self.is_whole() || (mix(!random) >> (u64::BITS - BITS)) < u64::from(self.0)
    }
}

impl Member {
    /// The part of its weight that the endpoint has at `now_us`.
    #[inline]
    pub(crate) fn share(&self, now_us: u64) -> SlowShare {
        if self.slow_start_us == 0 { SlowShare::WHOLE } else { self.share_of_slow(now_us) }
    }

    fn share_of_slow(&self, now_us: u64) -> SlowShare {
        let since_us = self.state.slow_since();
        let passed_us = passed_us(since_us, now_us);
        if since_us == 0 || passed_us >= self.slow_start_us {
            return SlowShare::WHOLE;
        }
        let share = (u128::from(passed_us) << BITS) / u128::from(self.slow_start_us);
        SlowShare(share as u32).max(SlowShare::LEAST)
    }

    /// The end of the latest slow start, past or future, µs; `None` if it came before the clock
    /// began.
    pub(crate) fn slow_until_us(&self) -> Option<u64> {
        let since_us = Some(self.state.slow_since()).filter(|since_us| *since_us > 0)?;
        let until_us = since_us.wrapping_add(self.slow_start_us);
        (self.slow_start_us > 0 && until_us as i64 > 0).then_some(until_us)
    }

    /// Forgets a slow start that has ended, so that a longer one configured later does not revive
    /// it.
    fn forget_ended_slow_start(&self, now_us: u64) {
        if passed_us(self.state.slow_since(), now_us) >= self.slow_start_us.max(1) {
            self.state.forget_slow_start();
        }
    }

    /// The time since the slow start began, µs; `None` if the endpoint is in none.
    pub(crate) fn slow_for_us(&self, now_us: u64) -> Option<u64> {
        let passed_us = passed_us(self.state.slow_since(), now_us);
        (!self.share(now_us).is_whole()).then_some(passed_us)
    }

    /// The limit at `now_us`: it grows from 1.
    pub(crate) fn reduced_limit(&self, now_us: u64) -> Option<u32> {
        let whole = self.state.whole_limit()?;
        if self.share(now_us).is_whole() || whole == 0 {
            return Some(whole);
        }
        let passed_us = passed_us(self.state.slow_since(), now_us);
        let limit = u128::from(whole) * u128::from(passed_us) / u128::from(self.slow_start_us);
        Some((limit as u32).max(1))
    }

    /// The time of the next step of the limit, µs: by one, or by a hundredth of a high limit.
    fn next_limit_us(&self, now_us: u64) -> Option<u64> {
        let until_us = self.slow_until_us().filter(|until_us| now_us < *until_us)?;
        let whole = u128::from(self.state.whole_limit()?.max(1));
        let next = u128::from(self.reduced_limit(now_us)?) + (whole / 100).max(1);
        let passed_us = (next * u128::from(self.slow_start_us)).div_ceil(whole);
        let passed_us = u64::try_from(passed_us).unwrap_or(u64::MAX);
        let at_us = self.state.slow_since().wrapping_add(passed_us);
        // A step may be due before the clock began.
        let at_us = if at_us as i64 > 0 { at_us } else { 0 };
        Some(at_us.max(now_us.saturating_add(MIN_STEP_US)).min(until_us))
    }
}

/// The time since the beginning of a slow start, µs; 0 if it lies ahead. It may have begun before
/// the caller's clock, in another process: its beginning then is below 0.
fn passed_us(since_us: u64, now_us: u64) -> u64 {
    u64::try_from(now_us.wrapping_sub(since_us) as i64).unwrap_or(0)
}

impl Picker {
    /// Begins a slow start at `from_us`, which may lie ahead, if the endpoint has one.
    pub(crate) fn begin_slow_start(&self, index: usize, from_us: u64) {
        let Some(member) = self.members.get(index).filter(|member| member.slow_start_us > 0) else {
            return;
        };
        member.state.begin_slow_start(from_us);
        let until_us = member.slow_until_us().unwrap_or(0);
        self.slow_until_us.fetch_max(until_us, Ordering::Relaxed);
    }

    /// Takes over the slow starts of the endpoints that stay from the picker before this one.
    pub(crate) fn take_over_slow_starts(&self, before: &Self, now_us: u64) {
        if before.has_slow_starts {
            before.members.iter().for_each(|member| member.forget_ended_slow_start(now_us));
        }
        let until_us = self.members.iter().filter_map(Member::slow_until_us).max().unwrap_or(0);
        self.slow_until_us.store(until_us, Ordering::Relaxed);
    }

    /// Returns true if an endpoint may be in slow start.
    pub(crate) fn is_slow(&self, now_us: u64) -> bool {
        now_us < self.slow_until_us.load(Ordering::Relaxed)
    }

    /// Returns true if there ever was a slow start.
    pub(crate) fn had_slow_starts(&self) -> bool {
        self.slow_until_us.load(Ordering::Relaxed) > 0
    }

    /// The time of the next step of a limit, µs.
    pub(crate) fn next_limit_us(&self, now_us: u64) -> Option<u64> {
        if !self.is_slow(now_us) {
            return None;
        }
        self.members.iter().filter_map(|member| member.next_limit_us(now_us)).min()
    }

    /// Returns true if the endpoint takes the turn that is its own: in a slow start it takes as
    /// many as its share says, evenly spread.
    #[inline]
    pub(crate) fn takes_turn(
        &self,
        tier: &Tier,
        candidate: Candidate,
        query: Query<'_>,
        accept: impl Fn(&Candidate) -> bool,
    ) -> bool {
        candidate.share.is_whole() || self.takes_slow_turn(tier, candidate, query, accept)
    }

    #[cold]
    fn takes_slow_turn(
        &self,
        tier: &Tier,
        candidate: Candidate,
        query: Query<'_>,
        accept: impl Fn(&Candidate) -> bool,
    ) -> bool {
        // Shares are relative to the largest one, so that endpoints that all returned at once take
        // turns as always. Among many the largest one is taken for whole.
        let most = if tier.loads.is_some() {
            SlowShare::WHOLE
        } else {
            let shares = self.candidates(tier, query).filter(accept).map(|other| other.share);
            shares.max().unwrap_or(SlowShare::WHOLE)
        };
        let Some(member) = self.members.get(candidate.index) else { return false };
        let part = (u64::from(candidate.share.0) << u32::BITS) / u64::from(most.0.max(1));
        u32::try_from(part).map_or(true, |part| member.state.saves_up_a_turn(part))
    }
}
