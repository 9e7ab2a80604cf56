//! The nearest known word, for errors about unknown ones.

/// `did you mean …?` with the known word that is nearest to `word`, if one is near.
pub fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`?"))
}

/// The known word nearest to `word`: at most a third of its letters (and at least one) are wrong.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let allowed = (word.chars().count() / 3).clamp(1, 4);
    known
        .iter()
        .map(|known| (distance(word, known), *known))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Letters of a word that are looked at.
const MAX_LETTERS: usize = 64;

/// How many letters must be added, left out, changed or swapped with their neighbour to make one
/// word of the other.
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(MAX_LETTERS).flat_map(char::to_lowercase).collect();
    let b: Vec<char> = b.chars().take(MAX_LETTERS).flat_map(char::to_lowercase).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let changed = last[j] + usize::from(x != y);
            let mut best = changed.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                best = best.min(before[j - 1] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_a_strange_one_is_not() {
        let known = ["queue_max_attempts", "queue_max_delay_ms", "timeout_ms"];
        assert_eq!(
            did_you_mean("queue_max_attempt", &known).unwrap(),
            "did you mean `queue_max_attempts`?"
        );
        assert_eq!(nearest("timeoutms", &known), Some("timeout_ms"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!((distance("stpe", "Step"), distance("", "ab"), distance("a", "a")), (1, 2, 0));
    }
}
