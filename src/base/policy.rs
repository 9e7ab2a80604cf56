//! The retry policy of a flow: how many attempts, and how long between them.
//!
//! Source: the document "Queues, retries and the DLQ", section "Retry configuration". The delay
//! after a failed attempt `n` is `min(initial_delay × backoff_factor ^ (n − 1), max_delay)`, then,
//! beyond the document, drawn uniformly from ± `jitter_factor` of itself.

use crate::base::random::Random;

/// How a flow's failed deliveries are tried again. The ranges are those that the compiler enforces.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RetryPolicy {
    /// Delivery attempts in all, at least 1. The attempt that reaches it is the last.
    pub max_attempts: u32,
    /// Delay before the second attempt, in milliseconds.
    pub initial_delay_ms: u64,
    /// Multiplier for each further attempt: finite, at least 1.0.
    pub backoff_factor: f64,
    /// Ceiling on any single delay, in milliseconds.
    pub max_delay_ms: u64,
    /// Share of the delay by which it is varied either way, 0 to 1. Beyond the document; 0 is
    /// exact.
    pub jitter_factor: f64,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            max_attempts: 3,
            initial_delay_ms: 1000,
            backoff_factor: 2.0,
            max_delay_ms: 60_000,
            jitter_factor: 0.0,
        }
    }
}

impl RetryPolicy {
    /// The delay in milliseconds after failed attempt `attempt` (from 1), or `None` when the budget
    /// is used up and the message is to be dead-lettered.
    pub fn delay_after(&self, attempt: u32, random: &dyn Random) -> Option<u64> {
        if attempt >= self.max_attempts {
            return None;
        }
        let exponent = f64::from(attempt.saturating_sub(1));
        let grown = self.initial_delay_ms as f64 * self.backoff_factor.powf(exponent);
        // 0 × ∞ is not a number; a delay of nothing stays nothing however often it is multiplied.
        let capped = if grown.is_nan() { 0.0 } else { grown.min(self.max_delay_ms as f64) };
        if self.jitter_factor == 0.0 {
            return Some(capped.round() as u64);
        }
        let spread = (random.unit() * 2.0 - 1.0) * self.jitter_factor;
        Some((capped * (1.0 + spread)).max(0.0).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::random::SeededRandom;
    use proptest::prelude::*;

    fn delays(policy: &RetryPolicy) -> Vec<u64> {
        let random = SeededRandom::new(1);
        (1..).map_while(|attempt| policy.delay_after(attempt, &random)).collect()
    }

    #[test]
    fn the_worked_example_of_the_document() {
        let policy = RetryPolicy {
            max_attempts: 5,
            initial_delay_ms: 500,
            backoff_factor: 3.0,
            max_delay_ms: 10_000,
            jitter_factor: 0.0,
        };
        assert_eq!(delays(&policy), [500, 1500, 4500, 10_000]);
    }

    #[test]
    fn the_defaults_are_three_attempts_and_three_seconds() {
        assert_eq!(delays(&RetryPolicy::default()), [1000, 2000]);
    }

    #[test]
    fn one_attempt_never_waits_and_the_cap_holds_for_the_first_delay_too() {
        let once = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        assert_eq!(delays(&once), [] as [u64; 0]);
        let capped =
            RetryPolicy { initial_delay_ms: 10_000, max_delay_ms: 100, ..RetryPolicy::default() };
        assert_eq!(delays(&capped), [100, 100]);
    }

    #[test]
    fn a_fixed_delay_and_no_delay() {
        let fixed = RetryPolicy { max_attempts: 4, backoff_factor: 1.0, ..RetryPolicy::default() };
        assert_eq!(delays(&fixed), [1000, 1000, 1000]);
        let none =
            RetryPolicy { initial_delay_ms: 0, backoff_factor: f64::MAX, max_attempts: 4, ..fixed };
        assert_eq!(delays(&none), [0, 0, 0]);
    }

    proptest! {
        #[test]
        fn a_delay_is_within_its_jitter_and_never_grows_past_the_cap(
            attempt in 1u32..2000, initial in 0u64..2_592_000_000, factor in 1.0f64..100.0,
            max in 0u64..2_592_000_000, jitter in 0.0f64..=1.0, seed: u64,
        ) {
            let policy = RetryPolicy {
                max_attempts: 3000, initial_delay_ms: initial, backoff_factor: factor,
                max_delay_ms: max, jitter_factor: jitter,
            };
            let exact = RetryPolicy { jitter_factor: 0.0, ..policy };
            let random = SeededRandom::new(seed);
            let base = exact.delay_after(attempt, &random).unwrap() as f64;
            let delay = policy.delay_after(attempt, &random).unwrap() as f64;
            prop_assert!(base <= max as f64);
            prop_assert!((delay - base).abs() <= base * jitter + 1.0);
        }
    }
}
