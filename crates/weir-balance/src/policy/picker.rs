//! A pool's endpoints under its policy: which of them may be picked, and the state from which the
//! policies pick (`pick.rs`). It knows no queue; what exchanges wait for is the dispatcher's
//! business.

use std::sync::Arc;

use crate::policy::PolicyKind;
use crate::policy::crowd::Crowd;
use crate::policy::fair::{FairSettings, WeightMode};
use crate::policy::load_tree::{LoadKey, LoadTree};
use crate::policy::looks;
use crate::policy::query::Query;
use crate::policy::slow_start::SlowShare;
use crate::policy::tier::Tier;
use crate::state::endpoint::{AdminState, EndpointState, Health};
use crate::state::member::Member;
use crate::state::passive::{FailureWindow, PassiveSettings};
use crate::state::pulse::StallSettings;
use crate::state::regret::Regret;
use crate::state::response_time::AveragingRule;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The endpoints of a pool and the policy that picks among them.
#[derive(Debug)]
pub(crate) struct Picker {
    pub(crate) policy: PolicyKind,
    /// The average response time that the policy compares.
    pub(crate) averaging: Option<AveragingRule>,
    pub(crate) members: Box<[Member]>,
    pub(crate) tiers: Box<[Tier]>,
    pub(crate) stall: Option<StallSettings>,
    /// Number of endpoints that count as stalled.
    pub(crate) stalled: AtomicU32,
    /// Set if a stall was found and not reported yet.
    pub(crate) stall_news: AtomicBool,
    /// Set if stalls changed in a way that may leave waiting exchanges in the wrong line.
    pub(crate) stall_unsettled: AtomicBool,
    pub(crate) windows: Box<[Arc<FailureWindow>]>,
    pub(crate) passive: PassiveSettings,
    /// The meter of bad choices, shared with the balancers before and after this one.
    pub(crate) regret: Arc<Regret>,
    /// The state of a pool of many endpoints.
    pub(crate) crowd: Option<Crowd>,
    /// Set if any endpoint has slow starts.
    pub(crate) has_slow_starts: bool,
    /// The end of the last slow start, µs; 0 if there was none.
    pub(crate) slow_until_us: AtomicU64,
    panic_percent: u8,
    /// Set while so few endpoints are healthy that probes are ignored.
    panicking: AtomicBool,
}

/// The settings by which endpoints are picked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PickSettings {
    pub(crate) policy: PolicyKind,
    pub(crate) passive: PassiveSettings,
    pub(crate) stall: Option<StallSettings>,
    pub(crate) panic_percent: u8,
}

/// An endpoint that may be picked, with its load at the time of the check.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) index: usize,
    /// Exchanges in flight at the endpoint and waiting for it.
    pub(crate) load: u64,
    /// The endpoint's weight times its [`SlowShare`].
    pub(crate) weight: u64,
    pub(crate) share: SlowShare,
}

impl Candidate {
    pub(crate) fn new(index: usize, member: &Member, now_us: u64) -> Self {
        Self::with(index, member, member.state.in_flight(), now_us)
    }

    fn with(index: usize, member: &Member, in_flight: u32, now_us: u64) -> Self {
        let share = member.share(now_us);
        Self {
            index,
            load: u64::from(in_flight) + u64::from(member.state.queued()),
            weight: share.of(member.weight),
            share,
        }
    }

    /// The load in the order of a tree.
    pub(crate) fn key(&self) -> LoadKey {
        LoadKey::new(self.load, self.weight as u32)
    }

    /// Compares load relative to weight, without a division.
    pub(crate) fn is_less_loaded_than(&self, other: &Self) -> bool {
        self.load * other.weight < other.load * self.weight
    }
}

impl Picker {
    /// Creates a picker without setting the limits of its endpoints. With `before`, it keeps the
    /// failures of endpoints that stay.
    pub(crate) fn new(settings: PickSettings, members: Vec<Member>, before: Option<&Self>) -> Self {
        let PickSettings { policy, passive, stall, panic_percent } = settings;
        let window = |member: &Member| {
            let rule = member.ejection.unwrap_or(passive.rule());
            let kept =
                before.and_then(|before| before.windows.get(before.position(&member.state)?));
            let kept = kept.filter(|kept| kept.rule == rule).cloned();
            kept.unwrap_or_else(|| Arc::new(FailureWindow::new(rule)))
        };
        let stalled = members.iter().filter(|member| member.state.is_stalled()).count() as u32;
        Self {
            policy,
            averaging: policy.averaging(),
            tiers: Tier::all(&members, policy),
            stall,
            stalled: AtomicU32::new(stalled),
            stall_news: AtomicBool::new(false),
            stall_unsettled: AtomicBool::new(false),
            windows: members.iter().map(window).collect(),
            passive,
            regret: before
                .map_or_else(|| Arc::new(Regret::new()), |before| Arc::clone(&before.regret)),
            crowd: Crowd::new(&members),
            has_slow_starts: members.iter().any(|member| member.slow_start_us > 0),
            slow_until_us: AtomicU64::new(
                members.iter().filter_map(Member::slow_until_us).max().unwrap_or(0),
            ),
            panic_percent,
            panicking: AtomicBool::new(false),
            members: members.into(),
        }
    }

    /// The position of the endpoint that has this state.
    pub(crate) fn position(&self, state: &Arc<EndpointState>) -> Option<usize> {
        match &self.crowd {
            Some(crowd) => crowd.position(state),
            None => self.members.iter().position(|member| Arc::ptr_eq(&member.state, state)),
        }
    }

    /// Returns true if any endpoint has a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.members.iter().any(|member| self.limit_of(member, member.max_conn).is_some())
    }

    /// Sets the limits of all endpoints.
    pub(crate) fn set_limits(&self) {
        for member in &self.members {
            member.state.set_max_conn(self.limit_of(member, member.max_conn));
        }
    }

    /// The limit that applies to an endpoint for which `max_conn` is set. With `fair` in weight
    /// mode `peak` the weight is a limit too.
    pub(crate) fn limit_of(&self, member: &Member, max_conn: Option<u32>) -> Option<u32> {
        match self.policy {
            PolicyKind::Fair(FairSettings { weight_mode: WeightMode::Peak, .. }) => {
                Some(max_conn.map_or(member.weight, |limit| limit.min(member.weight)))
            }
            _ => max_conn,
        }
    }

    /// Exchanges in flight over all endpoints, as last noted if they are many.
    pub(crate) fn in_flight_noted(&self) -> u64 {
        self.crowd.as_ref().map_or_else(|| self.in_flight(), Crowd::in_flight)
    }

    /// Exchanges in flight over all endpoints.
    pub(crate) fn in_flight(&self) -> u64 {
        self.members.iter().map(|member| u64::from(member.state.in_flight())).sum()
    }

    /// Returns true if probes are ignored because too few endpoints are healthy.
    pub(crate) fn is_panicking(&self) -> bool {
        self.panicking.load(Ordering::Relaxed)
    }

    /// Decides anew whether probes are ignored, from the current health and admin states. They
    /// are if too few endpoints of the first tier are healthy and none of a later tier is: a
    /// healthy endpoint of a later tier stands in for the first. Endpoints that are out by an order
    /// or by their own word do not count: they take nothing even then.
    pub(crate) fn refresh_panic(&self) {
        let first = self.members.iter().map(|member| member.tier).min();
        let ready = self.members.iter().filter(|member| {
            member.state.admin_state() == AdminState::Ready && !member.state.is_out_by_itself()
        });
        let (mut all, mut healthy, mut spare) = (0, 0, 0);
        for member in ready {
            let own = usize::from(member.state.health() == Health::Healthy);
            if Some(member.tier) == first {
                all += 1;
                healthy += own;
            } else {
                spare += own;
            }
        }
        let panicking = spare == 0 && healthy * 100 < all * usize::from(self.panic_percent);
        if self.panicking.swap(panicking, Ordering::Relaxed) != panicking {
            self.note_all();
        }
    }

    /// The end of the first ejection after `now_us`, µs.
    pub(crate) fn next_change_us(&self, now_us: u64) -> Option<u64> {
        let ends = self.members.iter().map(|member| member.state.ejected_until());
        ends.filter(|end| *end > now_us).min()
    }

    /// The number of failures of an endpoint within the window, and the number that ejects.
    pub(crate) fn recent_failures(&self, index: usize, now_us: u64) -> (u32, u32) {
        let window = self.windows.get(index);
        window.map_or((0, 0), |window| (window.recent(now_us), window.rule.errors))
    }

    /// The active tier; `None` if no endpoint may serve this exchange.
    pub(crate) fn active_tier(&self, query: Query<'_>) -> Option<&Tier> {
        self.tiers
            .iter()
            .find(|tier| tier.indexes().iter().any(|index| self.is_usable(*index, query)))
    }

    /// Returns true if an exchange that any endpoint may serve would be sent to this one if it had
    /// a free slot.
    pub(crate) fn is_eligible(&self, index: usize, query: Query<'_>) -> bool {
        let Some(member) = self.members.get(index) else { return false };
        self.is_usable(index, query)
            && self.active_tier(query).is_some_and(|tier| tier.rank == member.tier)
    }

    pub(crate) fn is_usable(&self, index: usize, query: Query<'_>) -> bool {
        looks::count();
        let usable = self.members.get(index).is_some_and(|member| {
            member.state.is_usable(query.now_us, query.panic)
                && !self.is_out_for_stall(index, &member.state, query)
        });
        usable && !query.tried.contains(index)
    }

    pub(crate) fn is_usable_if_bound(&self, index: usize, query: Query<'_>) -> bool {
        let usable = self
            .members
            .get(index)
            .is_some_and(|member| member.state.is_usable_if_bound(query.now_us, query.panic));
        usable && !query.tried.contains(index)
    }

    /// The endpoint as a candidate, if it may be picked now.
    pub(crate) fn candidate(&self, index: usize, query: Query<'_>) -> Option<Candidate> {
        looks::count();
        let member = self.members.get(index)?;
        let in_flight = member.state.in_flight_if_free()?;
        self.is_usable(index, query)
            .then(|| Candidate::with(index, member, in_flight, query.now_us))
    }

    /// The endpoints of a tier that may be picked now; of many, only those with room are looked at.
    pub(crate) fn open_candidates<'a>(
        &'a self,
        tier: &'a Tier,
        query: Query<'a>,
    ) -> impl Iterator<Item = Candidate> + 'a {
        let few = if tier.loads.is_none() { tier.indexes() } else { &[] };
        let many = tier.loads.iter().flat_map(LoadTree::open);
        few.iter().copied().chain(many).filter_map(move |index| self.candidate(index, query))
    }

    /// The endpoints of a tier that may be picked now.
    pub(crate) fn candidates<'a>(
        &'a self,
        tier: &'a Tier,
        query: Query<'a>,
    ) -> impl Iterator<Item = Candidate> + 'a {
        tier.indexes().iter().filter_map(move |&index| self.candidate(index, query))
    }
}
