//! Which valid word was probably meant.
//!
//! Promises: at most one suggestion, and none that is not close. Never does: guessing on behalf of
//! the user.

/// The valid word nearest to `word`, if one is near enough to be worth saying.
pub fn nearest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(word);
    valid
        .into_iter()
        .filter_map(|candidate| Some((distance(&wanted, &folded(candidate))?, candidate)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> String {
    word.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// None when the two are too far apart.
fn distance(word: &str, candidate: &str) -> Option<usize> {
    let longest = word.chars().count().max(candidate.chars().count());
    // A slip of the finger every three letters is a typo, more is another word.
    let allowed = (longest / 3).max(1);
    let distance = strsim::damerau_levenshtein(word, candidate);
    if distance <= allowed && distance < longest {
        return Some(distance);
    }
    // `header` for `headers`, `max_connections` for `connections`.
    let (short, long) =
        if word.len() < candidate.len() { (word, candidate) } else { (candidate, word) };
    (short.chars().count() >= 4 && (long.starts_with(short) || long.ends_with(short)))
        .then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    const WORDS: &[&str] = &["timeout", "time", "connections", "bind", "p2c"];

    #[test]
    fn typos_find_their_word() {
        let found = |word| nearest(word, WORDS.iter().copied());
        assert_eq!(found("tiemout"), Some("timeout"));
        assert_eq!(found("TimeOut"), Some("timeout"));
        assert_eq!(found("max-connections"), Some("connections"));
        assert_eq!(found("bnd"), Some("bind"));
        assert_eq!(found("p2"), Some("p2c"));
    }

    #[test]
    fn strangers_find_nothing() {
        for word in ["upstream", "x", "", "zzzzzzz"] {
            assert_eq!(nearest(word, WORDS.iter().copied()), None, "{word}");
        }
    }
}
