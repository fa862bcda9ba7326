//! "Did you mean": finds the known word that is nearest to a misspelt one. It writes no message.

/// Returns the candidate nearest to `word` if it is near enough to be a typing mistake.
pub(crate) fn nearest<'word>(
    word: &str,
    candidates: impl IntoIterator<Item = &'word str>,
) -> Option<&'word str> {
    let allowed = (word.chars().count() / 3).clamp(1, 3);
    let plain = |text: &str| text.to_ascii_lowercase().replace('-', "_");
    let wanted = plain(word);
    candidates
        .into_iter()
        .map(|candidate| (distance(&wanted, &plain(candidate)), candidate))
        .filter(|(distance, candidate)| {
            *distance <= allowed && *distance < candidate.chars().count()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment
/// distance).
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(64).collect();
    let right: Vec<char> = right.chars().take(64).collect();
    let mut before = vec![0; right.len() + 1];
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, &a) in left.iter().enumerate() {
        let mut current = vec![row + 1; right.len() + 1];
        for (column, &b) in right.iter().enumerate() {
            let replaced = above[column] + usize::from(a != b);
            let mut best = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && a == right[column - 1] && left[row - 1] == b;
            if swapped {
                best = best.min(before[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        before = std::mem::replace(&mut above, current);
    }
    above[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("listen", "listen"), 0);
        assert_eq!(distance("lsiten", "listen"), 1);
        assert_eq!(distance("keepaliv", "keepalive"), 1);
        assert_eq!(distance("", "abc"), 3);
    }

    #[test]
    fn only_near_words_are_suggested() {
        let words = ["keepalive", "listen", "pool", "max_conn"];
        assert_eq!(nearest("keepaliv", words), Some("keepalive"));
        assert_eq!(nearest("Listen", words), Some("listen"));
        assert_eq!(nearest("max-con", words), Some("max_conn"));
        assert_eq!(nearest("zzz", words), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
