//! Bounded loads for the hashing policies: no endpoint gets more than `balance_factor` times its
//! fair share; the excess goes to the key's next choice (Mirrokni, Thorup and Zadimoghaddam,
//! "Consistent Hashing with Bounded Loads").

/// The most that an endpoint may have in flight, as a multiple of its fair share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BalanceFactor(u32);

impl BalanceFactor {
    /// Creates a factor from percent. Returns `None` below 100, where not even the fair shares of
    /// all endpoints together would hold the load.
    pub fn from_percent(percent: u32) -> Option<Self> {
        (percent >= 100).then_some(Self(percent))
    }

    /// The factor in percent, from 100.
    pub fn percent(self) -> u32 {
        self.0
    }
}

/// The bound for one pick: each endpoint may hold ⌈factor × (in flight over all endpoints + 1) ×
/// its share of their weights⌉. The bounds add up to more than the load, so at least one endpoint
/// always has room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// Percent × exchanges, including this one.
    room: u128,
    /// Percent × weights.
    weights: u128,
}

impl Bound {
    /// Computes the bound from the load and weight of all endpoints of the tier that may be picked
    /// or are full.
    pub(crate) fn new(factor: BalanceFactor, endpoints: impl Iterator<Item = (u64, u64)>) -> Self {
        // A load has 33 bits and a weight 16; the sums of no real pool exceed 64 bits.
        let (mut in_flight, mut weights) = (0_u64, 0_u64);
        for (load, weight) in endpoints {
            in_flight = in_flight.saturating_add(load);
            weights = weights.saturating_add(weight);
        }
        Self {
            room: u128::from(factor.0) * (u128::from(in_flight) + 1),
            weights: 100 * u128::from(weights),
        }
    }

    /// Returns true if an endpoint of that load and weight has room for one more exchange.
    pub(crate) fn admits(&self, load: u64, weight: u64) -> bool {
        // load + 1 ≤ ⌈room × weight ÷ weights⌉, without a division.
        u128::from(load) * self.weights < self.room * u128::from(weight)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn admitted(percent: u32, endpoints: &[(u64, u64)]) -> Vec<bool> {
        let factor = BalanceFactor::from_percent(percent).unwrap();
        let bound = Bound::new(factor, endpoints.iter().copied());
        endpoints.iter().map(|(load, weight)| bound.admits(*load, *weight)).collect()
    }

    #[test]
    fn the_bound_is_rounded_up() {
        // 1.25 × 4 ÷ 3 = 1.67, so the bound is two each.
        assert_eq!(admitted(125, &[(2, 1), (1, 1), (0, 1)]), [false, true, true]);
        // 1.25 × 1 ÷ 3 = 0.42: the first exchange may go to any endpoint.
        assert_eq!(admitted(125, &[(0, 1), (0, 1), (0, 1)]), [true; 3]);
        // 1.5 × 8 × ¾ = 9, 1.5 × 8 × ¼ = 3.
        assert_eq!(admitted(150, &[(4, 3), (3, 1)]), [true, false]);
        // A single endpoint takes everything.
        assert_eq!(admitted(100, &[(1_000_000, 7)]), [true]);
    }

    #[test]
    fn less_than_a_fair_share_is_none() {
        assert_eq!(BalanceFactor::from_percent(99), None);
        assert_eq!(BalanceFactor::from_percent(100).unwrap().percent(), 100);
    }

    proptest! {
        #[test]
        fn the_bound_is_that_of_the_paper_and_some_endpoint_has_room(
            percent in 100_u32..400,
            endpoints in proptest::collection::vec((0_u64..100, 1_u64..10), 1..10),
        ) {
            let admitted = admitted(percent, &endpoints);
            let in_flight: u64 = endpoints.iter().map(|(load, _)| load).sum();
            let weights: u64 = endpoints.iter().map(|(_, weight)| weight).sum();
            for ((load, weight), admits) in endpoints.iter().zip(&admitted) {
                let most = (u64::from(percent) * (in_flight + 1) * weight).div_ceil(100 * weights);
                prop_assert_eq!(*admits, *load < most);
            }
            prop_assert!(admitted.contains(&true));
        }
    }
}
