//! A position in the log.

use crate::limits::PURGE_POSITION_BYTES_MAX;

/// Everything up to an entry was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// The log: positions in different ones cannot be compared.
    pub log: String,
    /// The number of the entry.
    pub number: u64,
    /// What distinguishes the entry from another one that gets its number after the log was lost;
    /// empty if a log is never lost.
    pub mark: String,
}

impl LogPosition {
    /// The line in the file next to a cache on disk.
    pub fn encode(&self) -> String {
        format!("{} {} {}\n", self.log, self.number, self.mark)
    }

    /// Reads the line. A file of which the end is missing gives `None`.
    pub fn decode(text: &[u8]) -> Option<LogPosition> {
        if text.len() > PURGE_POSITION_BYTES_MAX {
            return None;
        }
        let line = std::str::from_utf8(text).ok()?.strip_suffix('\n')?;
        let mut words = line.split(' ');
        let (log, number, mark) = (words.next()?, words.next()?, words.next()?);
        let is_word = |word: &str| !word.contains(char::is_whitespace);
        if words.next().is_some() || log.is_empty() || !is_word(log) || !is_word(mark) {
            return None;
        }
        let read: u64 = number.parse().ok()?;
        // No second spelling of a number: "+7", "007".
        (read.to_string() == number).then(|| LogPosition {
            log: log.to_owned(),
            number: read,
            mark: mark.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::LogPosition;

    #[test]
    fn a_position_reads_back() {
        for (log, number, mark) in [("etcd:7/shop", u64::MAX, ""), ("redis:shop", 0, "a1")] {
            let (log, mark) = (log.to_owned(), mark.to_owned());
            let position = LogPosition { log, number, mark };
            assert_eq!(LogPosition::decode(position.encode().as_bytes()), Some(position));
        }
        let long = format!("{} 1 x\n", "l".repeat(2000));
        for text in ["", "\n", "a 1 b", "a 1\n", " 1 \n", "a 01 \n", "a -1 \n", "a 1 b c\n", &long]
        {
            assert_eq!(LogPosition::decode(text.as_bytes()), None, "{text:?}");
        }
    }
}
