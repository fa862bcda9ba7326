//! Changes of endpoints: their availability, health, limits and ejections. Each is made under the
//! pool's lock, and the exchanges that wait are served by the new state before it is released.

use crate::dispatcher::balancer::Balancer;
use crate::policy::picker::Picker;
use crate::state::endpoint::{AdminState, Availability, EndpointState, Health};
use crate::state::member::Member;
use crate::state::passive::AfterFailure;
use crate::sync::Ordering;

impl Balancer {
    /// Records whether the address of an endpoint is known.
    pub fn set_availability(&self, index: usize, availability: Availability, now_us: u64) {
        self.change(index, now_us, |state| state.set_availability(availability));
    }

    /// Records the verdict of an endpoint's probes.
    pub fn set_health(&self, index: usize, health: Health, now_us: u64) {
        self.change(index, now_us, |state| state.set_health(health));
    }

    /// Records the verdict of an endpoint's agent, which holds beside that of the probes.
    pub fn set_agent_health(&self, index: usize, health: Health, now_us: u64) {
        self.change(index, now_us, |state| state.set_agent_health(health));
    }

    /// Records that an endpoint answers its probes so that it takes only exchanges that are bound
    /// to it, or does so no longer. Returns true if that has changed.
    pub fn set_probe_draining(&self, index: usize, is_probe_draining: bool, now_us: u64) -> bool {
        let before = self.endpoint(index).is_some_and(EndpointState::is_probe_draining);
        self.change(index, now_us, |state| state.set_probe_draining(is_probe_draining));
        before != is_probe_draining
    }

    /// Records that an endpoint's agent gives it no weight, or does so no longer.
    pub fn set_agent_draining(&self, index: usize, is_agent_draining: bool, now_us: u64) {
        self.change(index, now_us, |state| state.set_agent_draining(is_agent_draining));
    }

    /// Sets the operator's admin state of an endpoint.
    pub fn set_admin_state(&self, index: usize, state: AdminState, now_us: u64) {
        self.change(index, now_us, |endpoint| endpoint.set_admin_state(state));
    }

    /// Sets an endpoint's limit of exchanges in flight. Exchanges above a lower limit finish. If
    /// this pool has a successor, nothing happens: the limit is the successor's to set.
    pub fn set_max_conn(&self, index: usize, max_conn: Option<u32>, now_us: u64) {
        let Some(member) = self.picker.members.get(index) else { return };
        let Ok(mut dispatcher) = self.dispatcher() else { return };
        dispatcher.advance(now_us);
        if max_conn.is_some() && self.queue.is_some() {
            // Set before the limit: a release that finds the limit set must also see that an
            // exchange may wait.
            self.gated.store(true, Ordering::SeqCst);
        }
        member.state.set_max_conn(self.picker.limit_of(member, max_conn));
        self.picker.note(index);
        dispatcher.note_ceiling(index);
        dispatcher.settle();
    }

    /// Notes a failure of an endpoint at `now_us`: of any kind that the caller counts, such as a
    /// failed connect, a reset, a timeout or a gateway error. Failures of exchanges that were in
    /// flight when the endpoint was ejected do not prolong the ejection. After an ejection the
    /// first failure ejects again. `random` is 64 bits that determine the duration
    /// ([`crate::EjectionRule::ejection_us`]).
    pub fn endpoint_failed(&self, index: usize, now_us: u64, random: u64) -> AfterFailure {
        let (Some(member), Some(window)) =
            (self.picker.members.get(index), self.picker.windows.get(index))
        else {
            return AfterFailure::Counted;
        };
        member.state.count_failure();
        self.picker.note_slow_failure(&member.state, now_us);
        if window.rule.errors == 0 || member.state.is_ejected(now_us) {
            return AfterFailure::Counted;
        }
        let full = window.note(now_us);
        if !full && !member.state.is_on_probation() {
            return AfterFailure::Counted;
        }
        // Under the lock, so that two concurrent ejections cannot exceed the cap.
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            let picker = &dispatcher.pool.picker;
            let outcome = eject(picker, member, now_us, window.rule.ejection_us(random));
            if let AfterFailure::Ejected { until_us } = outcome {
                if let Some(index) = picker.position(&member.state) {
                    picker.note_ejection(index, until_us);
                }
                dispatcher.settle();
            }
            outcome
        })
    }

    /// Ejects an endpoint until `until_us`, to continue an ejection that began elsewhere.
    pub fn eject_until(&self, index: usize, until_us: u64, now_us: u64) {
        let Some(member) = self.picker.members.get(index).filter(|_| until_us > now_us) else {
            return;
        };
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            member.state.eject(until_us);
            let picker = &dispatcher.pool.picker;
            if let Some(index) = picker.position(&member.state) {
                picker.note_ejection(index, until_us);
            }
            dispatcher.settle();
        });
    }

    /// The time since an endpoint's slow start began, µs; `None` if it is in none.
    pub fn slow_for_us(&self, index: usize, now_us: u64) -> Option<u64> {
        self.picker.members.get(index)?.slow_for_us(now_us)
    }

    /// Continues a slow start that began `passed_us` ago elsewhere.
    pub fn continue_slow_start(&self, index: usize, passed_us: u64, now_us: u64) {
        let Some(member) = self.picker.members.get(index) else { return };
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            let picker = &dispatcher.pool.picker;
            let index = picker.position(&member.state);
            let goes_on = |index: &usize| {
                picker.members.get(*index).is_some_and(|member| passed_us < member.slow_start_us)
            };
            let Some(index) = index.filter(goes_on) else { return };
            picker.begin_slow_start(index, now_us.wrapping_sub(passed_us));
            dispatcher.settle();
        });
    }

    /// Notes a success of the kind whose failures count: an endpoint back from an ejection again
    /// gets its full number of errors.
    pub fn endpoint_succeeded(&self, index: usize) {
        let (Some(member), Some(window)) =
            (self.picker.members.get(index), self.picker.windows.get(index))
        else {
            return;
        };
        if member.state.is_on_probation() {
            member.state.end_probation();
            window.clear();
        }
    }

    /// Applies changes that were due by `now_us`, such as the end of an ejection.
    pub fn tick(&self, now_us: u64) {
        self.with_dispatcher(|dispatcher| dispatcher.advance(now_us));
    }

    /// The time at which [`Balancer::tick`] is to be called next, µs: the end of the first ejection
    /// after `now_us`, or the next step of a limit that a slow start reduces.
    pub fn next_change_us(&self, now_us: u64) -> Option<u64> {
        let step = self.queue.and_then(|_| self.picker.next_limit_us(now_us));
        self.picker.next_change_us(now_us).into_iter().chain(step).min()
    }

    /// Ends the stall of an endpoint that answered, and serves the exchanges that wait. Returns the
    /// duration of the stall, µs.
    pub(crate) fn end_stall(&self, state: &EndpointState, now_us: u64) -> Option<u64> {
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            let since_us = state.end_stall()?;
            // A stall that began while this pool took over from another was not counted here.
            let less = |stalled: u32| stalled.checked_sub(1);
            let _ = dispatcher.pool.picker.stalled.fetch_update(
                Ordering::AcqRel,
                Ordering::Relaxed,
                less,
            );
            dispatcher.settle();
            Some(now_us.saturating_sub(since_us))
        })
    }

    fn change(&self, index: usize, now_us: u64, set: impl FnOnce(&EndpointState) -> bool) {
        let Some(member) = self.picker.members.get(index) else { return };
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            let picker = &dispatcher.pool.picker;
            let state = &*member.state;
            let was_out = !state.is_usable_if_bound(now_us, picker.is_panicking());
            let returns = was_out && state.was_in_use();
            if set(state) {
                if let Some(index) = picker.position(&member.state) {
                    if returns && state.is_usable_if_bound(now_us, false) {
                        picker.begin_slow_start(index, now_us);
                    }
                    picker.note(index);
                }
                if state.availability() == Availability::Available {
                    state.note_in_use();
                }
                dispatcher.settle();
            }
        });
    }
}

/// Ejects an endpoint, unless too many others are ejected.
fn eject(picker: &Picker, member: &Member, now_us: u64, lasts_us: u64) -> AfterFailure {
    if member.state.is_ejected(now_us) {
        return AfterFailure::Counted;
    }
    let out = picker.members.iter().filter(|other| other.state.is_ejected(now_us)).count();
    if out + 1 > picker.members.len() * usize::from(picker.passive.max_ejected_percent) / 100 {
        member.state.refuse_ejection();
        return AfterFailure::Refused;
    }
    let until_us = now_us.saturating_add(lasts_us);
    member.state.eject(until_us);
    AfterFailure::Ejected { until_us }
}
