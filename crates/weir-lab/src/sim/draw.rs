//! Random numbers as a function of a seed, a purpose and an index, like service times: request 17
//! draws the same number in every run and in any order. All candidates share the numbers without
//! storing them.

use crate::service_time::uniform;

/// The purpose of random numbers; two purposes never share any.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RandomPurpose {
    Arrival = 1,
    Key = 2,
    Balancer = 3,
    Sticky = 4,
    Pause = 5,
    Ejection = 6,
    Worker = 7,
    Resample = 8,
    Stream = 9,
    StreamTime = 10,
}

/// The numbers for one purpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    base: u64,
}

/// The step of SplitMix64, 2⁶⁴ divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draws {
    pub(crate) fn new(seed: u64, purpose: RandomPurpose) -> Self {
        Self { base: mix(mix(seed.wrapping_add(STEP)) ^ (purpose as u64).wrapping_mul(STEP)) }
    }

    /// 64 random bits.
    pub(crate) fn bits(self, number: u64) -> u64 {
        mix(self.base.wrapping_add(number.wrapping_add(1).wrapping_mul(STEP)))
    }

    /// A number between 0 and 1, both excluded.
    pub(crate) fn unit(self, number: u64) -> f64 {
        uniform(self.base, number)
    }

    /// A uniformly distributed number below `count`; 0 for a `count` of 0.
    pub(crate) fn below(self, number: u64, count: u64) -> u64 {
        ((u128::from(self.bits(number)) * u128::from(count)) >> 64) as u64
    }

    /// An exponentially distributed number with mean 1.
    pub(crate) fn exponential(self, number: u64) -> f64 {
        -self.unit(number).ln()
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// 2014).
pub(crate) fn mix(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 200_000;

    fn moments(draw: impl Fn(u64) -> f64) -> (f64, f64) {
        let (mut sum, mut squares) = (0.0, 0.0);
        for number in 0..COUNT {
            let value = draw(number);
            sum += value;
            squares += value * value;
        }
        let mean = sum / COUNT as f64;
        (mean, squares / COUNT as f64 - mean * mean)
    }

    fn check(name: &str, (mean, variance): (f64, f64), expected: (f64, f64)) {
        assert!((mean - expected.0).abs() < 0.01, "{name}: mean {mean}");
        assert!((variance - expected.1).abs() < 0.03, "{name}: variance {variance}");
    }

    #[test]
    fn mean_and_variance_are_those_of_the_distribution() {
        let draws = Draws::new(7, RandomPurpose::Arrival);
        check("unit", moments(|number| draws.unit(number)), (0.5, 1.0 / 12.0));
        check("exponential", moments(|number| draws.exponential(number)), (1.0, 1.0));
        let ten = |number| draws.below(number, 10) as f64 / 10.0;
        check("below", moments(ten), (0.45, 0.0825));
    }

    #[test]
    fn seeds_and_purposes_differ_and_neighbours_do_not_follow_each_other() {
        let one = Draws::new(1, RandomPurpose::Arrival);
        let correlation = |left: &dyn Fn(u64) -> f64, right: &dyn Fn(u64) -> f64| {
            moments(|number| (left(number) - 0.5) * (right(number) - 0.5)).0 * 12.0
        };
        let own = |number| one.unit(number);
        let service = |number| uniform(1, number);
        let other_seed = |number| Draws::new(2, RandomPurpose::Arrival).unit(number);
        let other_purpose = |number| Draws::new(1, RandomPurpose::Key).unit(number);
        let next = |number| one.unit(number + 1);
        for other in [&service as &dyn Fn(u64) -> f64, &other_seed, &other_purpose, &next] {
            assert!(correlation(&own, other).abs() < 0.01);
        }
        assert!((correlation(&own, &own) - 1.0).abs() < 0.01);
    }
}
