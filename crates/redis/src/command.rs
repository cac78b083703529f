//! Commands as bytes, and scripts that servers run.

use std::fmt::Write as _;
use std::ops::Range;

use sha1::{Digest as _, Sha1};
use wire::resp;

/// A Lua script that a server runs as one step. Connections load it before it is called.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) text: &'static str,
    /// Its SHA-1 in hexadecimal digits, by which it is called.
    name: String,
}

impl Script {
    pub fn new(text: &'static str) -> Script {
        let mut name = String::with_capacity(40);
        for byte in Sha1::digest(text.as_bytes()) {
            // Writing to a text does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        Script { text, name }
    }
}

/// A command about one key, which decides the node of a Cluster that gets it.
#[derive(Clone, Debug)]
pub struct RedisCommand {
    pub(crate) bytes: Vec<u8>,
    key: Range<usize>,
}

impl RedisCommand {
    /// Runs a script with one key.
    pub fn script(script: &Script, key: &[u8], arguments: &[&[u8]]) -> RedisCommand {
        RedisCommand::script_of(script, &[key], arguments)
    }

    /// Runs a script with some keys, which a Cluster has in one slot.
    pub fn script_of(script: &Script, keys: &[&[u8]], arguments: &[&[u8]]) -> RedisCommand {
        let count = keys.len().to_string();
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", script.name.as_bytes(), count.as_bytes()];
        words.extend(keys);
        words.extend(arguments);
        RedisCommand::of(&words, 3)
    }

    /// Any command; the word at `key_at` is its key.
    pub fn of(words: &[&[u8]], key_at: usize) -> RedisCommand {
        let (mut bytes, mut key) = (Vec::new(), 0..0);
        resp::array_head(words.len(), &mut bytes);
        for (at, word) in words.iter().enumerate() {
            resp::bulk(word, &mut bytes);
            if at == key_at {
                let end = bytes.len() - 2;
                key = end - word.len()..end;
            }
        }
        RedisCommand { bytes, key }
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.bytes[self.key.clone()]
    }
}

/// A command without a key.
pub(crate) fn plain(words: &[&[u8]]) -> Vec<u8> {
    RedisCommand::of(words, usize::MAX).bytes
}

#[cfg(test)]
mod tests {
    use super::{RedisCommand, Script};

    #[test]
    fn a_script_is_called_by_its_digest() {
        let script = Script::new("return 1");
        let command = RedisCommand::script(&script, b"k\r\n", &[b"x"]);
        let text = String::from_utf8(command.bytes.clone()).unwrap();
        assert_eq!(command.key(), b"k\r\n");
        let head = "*5\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n";
        assert_eq!(text, format!("{head}$1\r\n1\r\n$3\r\nk\r\n\r\n$1\r\nx\r\n"));
    }
}
