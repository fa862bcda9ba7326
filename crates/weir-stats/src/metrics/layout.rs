//! The mapping of times to places: HdrHistogram's log-linear layout for 1 µs to 1 h with three
//! digits, so that counts can be added to those of any other program with that layout. It counts
//! nothing.

/// The longest time that is distinguished, 1 h in µs. Longer times count as this.
pub const HIGHEST_US: u64 = 3_600_000_000;

/// The binary digits of a place within its octave: 1,024 places, each at most a thousandth wide.
const PLACE_BITS: u32 = 10;
/// The number of places in an octave.
const PLACES: usize = 1 << PLACE_BITS;
/// The number of octaves; the first two hold the times up to 2,047 µs one by one.
const OCTAVES: usize = index_of(HIGHEST_US) / PLACES + 1;
/// The number of places.
pub const INDEXES: usize = OCTAVES * PLACES;

/// The place of a time.
#[inline]
pub const fn index_of(us: u64) -> usize {
    let us = if us > HIGHEST_US { HIGHEST_US } else { us };
    let octave = shift_of_value(us);
    ((octave as usize) << PLACE_BITS) + (us >> octave) as usize
}

/// The number of low bits of a time that are dropped.
const fn shift_of_value(us: u64) -> u32 {
    (u64::BITS - 1 - PLACE_BITS) - (us | (2 * PLACES as u64 - 1)).leading_zeros()
}

/// The number of low bits that are dropped at a place.
const fn shift_of_index(index: usize) -> u32 {
    ((index >> PLACE_BITS) as u32).saturating_sub(1)
}

/// The shortest time of a place, µs.
pub const fn lowest_us(index: usize) -> u64 {
    let shift = shift_of_index(index);
    ((index - ((shift as usize) << PLACE_BITS)) as u64) << shift
}

/// The longest time of a place, µs.
pub const fn highest_us(index: usize) -> u64 {
    lowest_us(index) + (1 << shift_of_index(index)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_stands_between_the_bounds_of_its_place() {
        let check = |us: u64| {
            let index = index_of(us);
            assert!(lowest_us(index) <= us && us <= highest_us(index), "{us} at {index}");
            assert!(highest_us(index) - lowest_us(index) <= us / 1_000, "{us} at {index}");
        };
        (0..20_000).for_each(check);
        (0..32).map(|digit| 1 << digit).filter(|us| *us <= HIGHEST_US).for_each(|us| {
            check(us - 1);
            check(us);
            check(us + 1);
        });
        assert_eq!(index_of(u64::MAX), index_of(HIGHEST_US));
    }

    #[test]
    fn places_follow_each_other_without_a_gap() {
        for index in 1..INDEXES {
            assert_eq!(lowest_us(index), highest_us(index - 1) + 1, "{index}");
            assert_eq!(index_of(lowest_us(index)), index.min(index_of(HIGHEST_US)));
        }
    }
}
