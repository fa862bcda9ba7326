//! `fair` against decisions of the C module in nginx (`fair_recorded.txt`), against decisions
//! worked out by hand (`fair.txt`), and against a slow model of the same algorithm.

use std::sync::Arc;

use proptest::prelude::*;
mod pool;

use pool::pick;
use weir_balance::{
    Balancer, FairSettings, Member, PassiveSettings, PolicyKind, Rejection, Settings, Slot, Tried,
    WeightMode,
};

const WINDOW_US: u64 = 1000;

fn new_pool(fair: FairSettings, errors: u32, weights: &[u32]) -> Arc<Balancer> {
    let passive =
        PassiveSettings { errors, window_us: WINDOW_US, eject_us: 0, max_ejected_percent: 0 };
    let member = |weight: &u32| Member {
        identity: 0,
        weight: *weight,
        max_conn: None,
        tier: 0,
        ejection: None,
        slow_start_us: 0,
        state: Arc::default(),
    };
    let settings = Settings { passive, ..Settings::new(PolicyKind::Fair(fair)) };
    Balancer::new(settings, weights.iter().map(member).collect())
}

fn weight_mode(word: &str) -> WeightMode {
    *WeightMode::all().iter().find(|mode| mode.as_str() == word).unwrap()
}

/// Parses `pool MODE [no_rr] errors=N: WEIGHTS` without the first word.
fn pool_of_line(line: &str) -> Arc<Balancer> {
    let (settings, weights) = line.split_once(": ").unwrap();
    let (mode, rest) = settings.split_once(' ').unwrap();
    let no_rr = rest.starts_with("no_rr ");
    let errors = rest.rsplit_once('=').unwrap().1.parse().unwrap();
    let weights: Vec<u32> = weights.split(' ').map(|weight| weight.parse().unwrap()).collect();
    new_pool(FairSettings { no_rr, weight_mode: weight_mode(mode) }, errors, &weights)
}

/// Takes the steps of a text and compares every decision. Returns the number of decisions.
fn check_decisions(text: &str) -> usize {
    let mut pool = pool_of_line("default errors=0: 1");
    let mut slots: Vec<Slot> = Vec::new();
    let (mut now_us, mut decisions) = (0, 0);
    for (number, line) in text.lines().enumerate() {
        let place = format!("line {}: {line}", number + 1);
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<usize> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
        match word {
            "" | "#" => {}
            "pool" => {
                slots.clear();
                pool = pool_of_line(rest);
            }
            "arrive" | "retry" => {
                let mut tried = Tried::new();
                if word == "retry" {
                    tried.insert(numbers[0]);
                }
                let expected = numbers.get(usize::from(word == "retry"));
                match (pick(&pool, now_us, 0, &tried), expected) {
                    (Ok(slot), Some(expected)) => {
                        assert_eq!(slot.index(), *expected, "{place}");
                        slots.push(slot);
                    }
                    (Err(Rejection::Full), None) => {}
                    (outcome, _) => panic!("{place}: {outcome:?}"),
                }
                decisions += 1;
            }
            "leave" => {
                let at = slots.iter().position(|slot| slot.index() == numbers[0]);
                drop(slots.remove(at.unwrap_or_else(|| panic!("{place}: nobody is there"))));
            }
            "fail" => {
                pool.endpoint_failed(numbers[0], now_us, 0);
            }
            "later" => now_us += WINDOW_US + 1,
            _ => panic!("{place}"),
        }
    }
    decisions
}

#[test]
fn decisions_are_those_worked_out_by_hand() {
    let decisions = check_decisions(include_str!("fair.txt"));
    assert!(decisions >= 50, "only {decisions}");
}

#[test]
fn decisions_are_those_of_the_c_module() {
    let decisions = check_decisions(include_str!("fair_recorded.txt"));
    assert!(decisions >= 2000, "only {decisions}");
}

/// One event.
#[derive(Clone, Debug)]
enum Step {
    Arrive,
    Retry(usize),
    Leave(usize),
    Fail(usize),
    Later,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Arrive),
        1 => (0_usize..5).prop_map(Step::Retry),
        5 => (0_usize..64).prop_map(Step::Leave),
        1 => (0_usize..5).prop_map(Step::Fail),
        1 => Just(Step::Later),
    ]
}

/// The algorithm as a plain sequential program that computes everything anew each time.
struct Model {
    settings: FairSettings,
    errors: u64,
    weights: Vec<u64>,
    in_flight: Vec<u64>,
    failures: Vec<Vec<u64>>,
    chosen_at: Vec<u64>,
    turns: Vec<u64>,
    requests: u64,
    last: usize,
}

impl Model {
    fn fails(&self, index: usize, now_us: u64) -> u64 {
        let recent = |at: &&u64| now_us - **at <= WINDOW_US;
        (self.failures[index].iter().rev().filter(recent).count() as u64).min(self.errors)
    }

    fn score(&self, index: usize, now_us: u64) -> u64 {
        let age = self.requests - self.chosen_at[index];
        let score = self.in_flight[index] * (1 << 20) + (1 << 20) - 1 - age;
        let sound = self.errors.saturating_sub(self.fails(index, now_us));
        let left = (self.turns[index] * sound).checked_div(self.errors);
        let left = left.unwrap_or(self.turns[index]);
        match self.settings.weight_mode {
            WeightMode::Default if left > 0 => score / left,
            _ => score,
        }
    }

    fn choose(&self, failed: Option<usize>, now_us: u64) -> Option<usize> {
        let len = self.weights.len();
        let mode = self.settings.weight_mode;
        let from = failed.unwrap_or(self.last) + 1;
        let order = (0..len).map(|step| (from + step) % len).filter(|index| {
            let full = mode == WeightMode::Peak && self.in_flight[*index] >= self.weights[*index];
            Some(*index) != failed && !full
        });
        let order: Vec<usize> = order.collect();
        let counts_as_idle = |index: &usize| {
            let most = if mode == WeightMode::Idle { self.weights[*index] } else { 1 };
            self.in_flight[*index] < most && self.fails(*index, now_us) == 0
        };
        let idle: Vec<usize> = order.iter().copied().filter(counts_as_idle).collect();
        if mode == WeightMode::Idle && self.settings.no_rr && !idle.is_empty() {
            // The first, unless that one has some in flight and a later one has fewer, but not
            // none.
            let first = idle[0];
            let rank = |index: &usize| self.in_flight[*index];
            let fewest = idle.iter().copied().filter(|index| rank(index) > 0).min_by_key(rank);
            return Some(match fewest {
                Some(fewest) if rank(&first) > 0 => fewest,
                _ => first,
            });
        }
        if let Some(first) = idle.first() {
            return Some(*first);
        }
        order.iter().copied().rev().min_by_key(|index| self.score(*index, now_us))
    }

    fn take(&mut self, index: usize) {
        self.in_flight[index] += 1;
        self.chosen_at[index] = self.requests;
        if !self.settings.no_rr {
            self.last = index;
        }
        self.turns[index] = match self.turns[index] {
            0 => self.weights[index],
            turns => turns - 1,
        };
    }
}

fn run(settings: FairSettings, errors: u32, weights: &[u32], steps: &[Step]) {
    let len = weights.len();
    let pool = new_pool(settings, errors, weights);
    let weights: Vec<u64> = weights.iter().map(|weight| u64::from(*weight)).collect();
    let mut model = Model {
        settings,
        errors: u64::from(errors),
        turns: vec![0; len],
        weights,
        in_flight: vec![0; len],
        failures: vec![Vec::new(); len],
        chosen_at: vec![0; len],
        requests: 0,
        last: len - 1,
    };
    let mut slots: Vec<Slot> = Vec::new();
    let mut now_us = 1;
    for step in steps {
        now_us += 1;
        match *step {
            Step::Arrive | Step::Retry(_) => {
                let failed = match step {
                    Step::Retry(index) => Some(*index % len),
                    _ => None,
                };
                let mut tried = Tried::new();
                if let Some(index) = failed {
                    tried.insert(index);
                }
                model.requests += u64::from(failed.is_none());
                let expected = model.choose(failed, now_us);
                let picked = pick(&pool, now_us, 0, &tried);
                assert_eq!(picked.as_ref().ok().map(Slot::index), expected);
                if let Some(index) = expected {
                    model.take(index);
                }
                slots.extend(picked);
            }
            Step::Leave(at) if !slots.is_empty() => {
                let slot = slots.swap_remove(at % slots.len());
                model.in_flight[slot.index()] -= 1;
            }
            Step::Fail(index) => {
                pool.endpoint_failed(index % len, now_us, 0);
                model.failures[index % len].push(now_us);
            }
            Step::Later => now_us += WINDOW_US,
            Step::Leave(_) => {}
        }
        // No slot leaks, which nginx-upstream-fair never got right.
        let in_flight: u64 = model.in_flight.iter().sum();
        assert_eq!((pool.in_flight(), slots.len() as u64), (in_flight, in_flight));
    }
    drop(slots);
    assert_eq!(pool.in_flight(), 0);
}

proptest! {
    #[test]
    fn decisions_are_the_model_s(
        no_rr in any::<bool>(),
        mode in 0_usize..3,
        errors in 0_u32..5,
        weights in proptest::collection::vec(1_u32..6, 1..5),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let settings = FairSettings { no_rr, weight_mode: WeightMode::all()[mode] };
        run(settings, errors, &weights, &steps);
    }
}
