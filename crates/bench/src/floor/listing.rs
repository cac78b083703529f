//! A JSON document like the repository listing of the published caching benchmark: long repeated
//! names and addresses, compressible to about a tenth.

use std::fmt::Write as _;

/// The document of exactly that many bytes, the same everywhere; white space fills it up.
pub fn listing(bytes: usize) -> Vec<u8> {
    let mut text = "[".to_owned();
    for number in 0.. {
        let entry = entry(number);
        if text.len() + entry.len() + 2 > bytes {
            break;
        }
        if number > 0 {
            text.push(',');
        }
        text += &entry;
    }
    text.push(']');
    text.extend(std::iter::repeat_n(' ', bytes.saturating_sub(text.len())));
    text.into_bytes()
}

/// Numbers that look random, so that it does not compress to nothing.
fn entry(number: u64) -> String {
    let id = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34;
    let name = format!("repository-{}", id % 9973);
    let base = format!("https://api.example.com/repos/tide/{name}");
    let mut entry = format!(
        r#"{{"id":{id},"node_id":"{:016x}","name":"{name}","full_name":"tide/{name}","#,
        id.wrapping_mul(0xd1b5_4a32_d192_ed03)
    );
    for part in ["forks", "keys", "teams", "hooks", "events", "branches", "tags", "languages"] {
        let _ = write!(entry, r#""{part}_url":"{base}/{part}","#);
    }
    let _ = write!(
        entry,
        r#""private":false,"fork":{},"size":{},"watchers_count":{},"default_branch":"main"}}"#,
        id.is_multiple_of(3),
        id % 100_003,
        id % 7919
    );
    entry
}

#[cfg(test)]
mod tests {
    use super::listing;

    #[test]
    fn it_is_json_of_that_length() {
        for bytes in [1024, 140_000] {
            let text = listing(bytes);
            assert_eq!(text.len(), bytes);
            let parsed: serde_json::Value = serde_json::from_slice(&text).unwrap();
            assert!(!parsed.as_array().unwrap().is_empty());
        }
    }
}
