//! Numbers in values: arithmetic, ranges, and hashes, with HAProxy's results.

use std::io::Write as _;

use weir_balance::hash_key_seeded;

/// Reads a number as HAProxy does: leading digits after a sign, 0 if there are none. An empty text
/// is none.
pub(super) fn read(value: &[u8]) -> Option<i64> {
    let (negative, digits) = match value {
        [] => return None,
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let mut number = 0_i64;
    for byte in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        let digit = i64::from(byte - b'0');
        let signed = if negative { -digit } else { digit };
        number = number.saturating_mul(10).saturating_add(signed);
    }
    Some(number)
}

/// Reads a hexadecimal number, modulo 2^64 as in HAProxy.
pub(super) fn read_hex(value: &[u8]) -> Option<i64> {
    let number = value.iter().try_fold(0_u64, |number, byte| {
        Some(number << 4 | u64::from(char::from(*byte).to_digit(16)?))
    });
    Some(number? as i64)
}

/// Writes a number in place of a value.
pub(super) fn write(number: i64, value: &mut Vec<u8>) {
    value.clear();
    value.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes a number in hexadecimal digits, a negative one modulo 2^64, with zeros before it up to a
/// number of digits.
pub(super) fn write_hex(number: i64, least: usize, value: &mut Vec<u8>) {
    value.clear();
    // Writing to a `Vec` cannot fail.
    let _ = write!(value, "{number:0least$X}");
}

/// Parses the least number of digits, up to the 16 that a number has.
pub(super) fn digits(text: &str) -> Result<usize, String> {
    let digits = text.parse().ok().filter(|digits| (1..=16).contains(digits));
    digits.ok_or_else(|| format!("`{text}` is not a number of digits from 1 to 16"))
}

pub(super) fn parse(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

pub(super) fn size(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number from 0"))
}

/// Parses a place in a list, which is not 0.
pub(super) fn place(text: &str) -> Result<i64, String> {
    let place = parse(text)?;
    if place == 0 {
        Err("places count from 1, or from -1 at the end".to_owned())
    } else {
        Ok(place)
    }
}

/// Numbers from one to another, both included.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberRange {
    first: i64,
    last: i64,
}

impl NumberRange {
    /// Parses `5`, `5..8`, `5..` or `..8`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let first = if first.is_empty() { i64::MIN } else { parse(first)? };
        let last = if last.is_empty() { i64::MAX } else { parse(last)? };
        Ok(Self { first, last })
    }

    pub(super) fn contains(self, number: i64) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Arithmetic {
    Add(i64),
    Subtract(i64),
    Multiply(i64),
    Divide(i64),
    Remainder(i64),
    And(i64),
    Or(i64),
    Xor(i64),
    Negate,
    Complement,
    Even,
    Odd,
    Bool,
    Not,
}

impl Arithmetic {
    /// Parses a converter of numbers; `None` for another one.
    pub(super) fn parse(name: &str, arguments: &[&str]) -> Result<Option<Self>, String> {
        let number = || parse(arguments.first().copied().unwrap_or_default());
        Ok(Some(match name {
            "add" => Self::Add(number()?),
            "sub" => Self::Subtract(number()?),
            "mul" => Self::Multiply(number()?),
            "div" => Self::Divide(number()?),
            "mod" => Self::Remainder(number()?),
            "and" => Self::And(number()?),
            "or" => Self::Or(number()?),
            "xor" => Self::Xor(number()?),
            "neg" => Self::Negate,
            "cpl" => Self::Complement,
            "even" => Self::Even,
            "odd" => Self::Odd,
            "bool" => Self::Bool,
            "not" => Self::Not,
            _ => return Ok(None),
        }))
    }

    /// Returns the same with another operand.
    pub(super) fn with(self, operand: i64) -> Self {
        match self {
            Self::Add(_) => Self::Add(operand),
            Self::Subtract(_) => Self::Subtract(operand),
            Self::Multiply(_) => Self::Multiply(operand),
            Self::Divide(_) => Self::Divide(operand),
            Self::Remainder(_) => Self::Remainder(operand),
            Self::And(_) => Self::And(operand),
            Self::Or(_) => Self::Or(operand),
            Self::Xor(_) => Self::Xor(operand),
            Self::Negate | Self::Complement | Self::Even | Self::Odd | Self::Bool | Self::Not => {
                self
            }
        }
    }

    pub(super) fn apply(self, number: i64) -> i64 {
        match self {
            Self::Add(other) => number.saturating_add(other),
            Self::Subtract(other) => number.saturating_sub(other),
            Self::Multiply(other) => number.saturating_mul(other),
            Self::Divide(0) => i64::MAX,
            Self::Divide(other) => number.checked_div(other).unwrap_or(i64::MAX),
            Self::Remainder(0) => 0,
            Self::Remainder(other) => number.checked_rem(other).unwrap_or(0),
            Self::And(other) => number & other,
            Self::Or(other) => number | other,
            Self::Xor(other) => number ^ other,
            Self::Negate => number.checked_neg().unwrap_or(i64::MAX),
            Self::Complement => !number,
            Self::Even => i64::from(number & 1 == 0),
            Self::Odd => i64::from(number & 1 == 1),
            Self::Bool => i64::from(number != 0),
            Self::Not => i64::from(number == 0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashKind {
    Crc32,
    Crc32c,
    Djb2,
    Sdbm,
    Wt6,
    Xxh32,
    Xxh64,
}

impl HashKind {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "crc32" => Self::Crc32,
            "crc32c" => Self::Crc32c,
            "djb2" => Self::Djb2,
            "sdbm" => Self::Sdbm,
            "wt6" => Self::Wt6,
            "xxh32" => Self::Xxh32,
            "xxh64" => Self::Xxh64,
            _ => return None,
        })
    }

    /// Returns the hash, with Jenkins' avalanche after it unless the argument is 0; for `xxh32` and
    /// `xxh64` it is the seed.
    pub(super) fn hash(self, value: &[u8], argument: i64) -> i64 {
        let hash = match self {
            Self::Crc32 => crc32(value, 0xedb8_8320),
            Self::Crc32c => crc32(value, 0x82f6_3b78),
            Self::Djb2 => value.iter().fold(5_381_u32, |hash, byte| {
                (hash << 5).wrapping_add(hash).wrapping_add(u32::from(*byte))
            }),
            Self::Sdbm => value.iter().fold(0_u32, |hash, byte| {
                let next = u32::from(*byte).wrapping_add(hash << 6).wrapping_add(hash << 16);
                next.wrapping_sub(hash)
            }),
            Self::Wt6 => wt6(value),
            // A larger seed counts modulo 2^32.
            Self::Xxh32 => return i64::from(xxh32(value, argument as u32)),
            Self::Xxh64 => return hash_key_seeded(value, argument as u64) as i64,
        };
        i64::from(if argument == 0 { hash } else { full(hash) })
    }
}

/// CRC-32 of this polynomial, bits reversed: that of Ethernet and zip, or Castagnoli's.
fn crc32(value: &[u8], polynomial: u32) -> u32 {
    !value.iter().fold(!0_u32, |mut crc, byte| {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { polynomial } else { 0 };
        }
        crc
    })
}

/// HAProxy's `wt6`.
fn wt6(value: &[u8]) -> u32 {
    let (mut h0, mut h1) = (0xa53c_965a_u32, 0x5ca6_953a_u32);
    let (mut step0, mut step1) = (6_u32, 18_u32);
    for byte in value {
        let byte = u32::from(*byte);
        h0 = !(h0 ^ byte);
        h1 = !h1.wrapping_add(byte);
        let next = h1.rotate_left(step0);
        h1 = h0.rotate_left(step1);
        h0 = next;
        let steps = ((h0 >> 16) ^ h1) & 0xffff;
        step0 = steps & 0x1f;
        step1 = steps >> 11;
    }
    h0 ^ h1
}

/// Bob Jenkins' avalanche as HAProxy applies it.
fn full(mut hash: u32) -> u32 {
    hash = hash.wrapping_add(0x7ed5_5d16).wrapping_add(hash << 12);
    hash = (hash ^ 0xc761_c23c) ^ (hash >> 19);
    hash = hash.wrapping_add(0x1656_67b1).wrapping_add(hash << 5);
    hash = hash.wrapping_add(0xd3a2_646c) ^ (hash << 9);
    hash = hash.wrapping_add(0xfd70_46c5).wrapping_add(hash << 3);
    hash = (hash ^ 0xb55a_4f09) ^ (hash >> 16);
    hash.wrapping_mul(3_221_225_473)
}

/// Yann Collet's XXH32.
fn xxh32(value: &[u8], seed: u32) -> u32 {
    const P: [u32; 5] = [2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393];
    let round = |accumulator: u32, lane: u32| {
        let sum = accumulator.wrapping_add(lane.wrapping_mul(P[1]));
        sum.rotate_left(13).wrapping_mul(P[0])
    };
    let (fours, rest) = value.as_chunks::<4>();
    let (stripes, fours_left) = fours.as_chunks::<4>();
    let mut hash = if stripes.is_empty() {
        seed.wrapping_add(P[4])
    } else {
        let mut lanes = [
            seed.wrapping_add(P[0]).wrapping_add(P[1]),
            seed.wrapping_add(P[1]),
            seed,
            seed.wrapping_sub(P[0]),
        ];
        for stripe in stripes {
            for (lane, four) in lanes.iter_mut().zip(stripe) {
                *lane = round(*lane, u32::from_le_bytes(*four));
            }
        }
        let rotated = lanes.iter().zip([1, 7, 12, 18]).map(|(lane, by)| lane.rotate_left(by));
        rotated.fold(0, u32::wrapping_add)
    };
    hash = hash.wrapping_add(value.len() as u32);
    for four in fours_left {
        let lane = u32::from_le_bytes(*four).wrapping_mul(P[2]);
        hash = hash.wrapping_add(lane).rotate_left(17).wrapping_mul(P[3]);
    }
    for byte in rest {
        let lane = u32::from(*byte).wrapping_mul(P[4]);
        hash = hash.wrapping_add(lane).rotate_left(11).wrapping_mul(P[0]);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(P[1]);
    hash = (hash ^ (hash >> 13)).wrapping_mul(P[2]);
    hash ^ (hash >> 16)
}
