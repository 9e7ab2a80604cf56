//! Chance as an argument: jitter and new ids come through [`Random`], so that a test can replay
//! them from a seed.

use std::sync::Mutex;

/// Who draws lots and makes new ids.
pub trait Random: Send + Sync {
    /// A number drawn uniformly from 0 (included) to 1 (excluded).
    fn unit(&self) -> f64;

    /// A new UUIDv7 as text, 36 characters.
    fn uuid_v7(&self) -> String;

    /// A new UUIDv4 as text, 36 characters.
    fn uuid_v4(&self) -> String;
}

/// The operating system's randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn unit(&self) -> f64 {
        unit_from(uuid::Uuid::new_v4().as_u128() as u64)
    }

    fn uuid_v7(&self) -> String {
        uuid::Uuid::now_v7().to_string()
    }

    fn uuid_v4(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }
}

/// A generator that gives the same numbers and ids for the same seed (SplitMix64). For tests and
/// simulations.
#[derive(Debug)]
pub struct SeededRandom(Mutex<u64>);

impl SeededRandom {
    /// The generator of this seed.
    pub fn new(seed: u64) -> SeededRandom {
        SeededRandom(Mutex::new(seed))
    }

    /// The next number, drawn uniformly from all of `u64`.
    pub fn next_u64(&self) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn next_u128(&self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }
}

impl Random for SeededRandom {
    fn unit(&self) -> f64 {
        unit_from(self.next_u64())
    }

    fn uuid_v7(&self) -> String {
        uuid::Builder::from_unix_timestamp_millis(
            0,
            &self.next_u128().to_le_bytes()[..10].try_into().unwrap_or_default(),
        )
        .into_uuid()
        .to_string()
    }

    fn uuid_v4(&self) -> String {
        uuid::Builder::from_random_bytes(self.next_u128().to_le_bytes()).into_uuid().to_string()
    }
}

/// The upper 53 bits as a fraction: every value is exact in an `f64`.
fn unit_from(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_itself() {
        let (a, b) = (SeededRandom::new(7), SeededRandom::new(7));
        assert_eq!(a.unit().to_bits(), b.unit().to_bits());
        assert_eq!(a.uuid_v4(), b.uuid_v4());
        assert_ne!(a.uuid_v7(), a.uuid_v7());
    }

    #[test]
    fn a_unit_is_below_one() {
        assert_eq!(unit_from(0), 0.0);
        assert!(unit_from(u64::MAX) < 1.0);
        assert!((0.0..1.0).contains(&SystemRandom.unit()));
    }
}
