//! Compares the map with a simple model, and tests the order of eviction.

use std::collections::HashMap;

use bytes::Bytes;

use super::{ENTRY_BYTES, ExpiringMap, NEVER, Removals, TooLarge};
use crate::value::Value;

fn bytes(length: usize) -> Value {
    Value::Bytes(Bytes::from(vec![b'x'; length]))
}

/// A map with room for this many entries whose keys and values have one byte.
fn room_for(entries: usize) -> ExpiringMap {
    ExpiringMap::new(entries * (ENTRY_BYTES + 2))
}

fn present(map: &mut ExpiringMap, keys: &str) -> String {
    keys.chars().filter(|key| map.get(key.to_string().as_bytes(), 0).is_some()).collect()
}

#[test]
fn entries_expire() {
    let mut map = room_for(8);
    map.set(b"a", bytes(1), 10, 0).unwrap();
    map.set(b"b", bytes(1), 20, 0).unwrap();
    map.set(b"c", bytes(1), NEVER, 0).unwrap();
    assert_eq!(map.get(b"a", 9).map(|(_, until)| until), Some(10));
    assert!(map.get(b"a", 10).is_none());
    assert!(map.set_deadline(b"b", 30, 15) && !map.set_deadline(b"a", 30, 15));
    map.expire(8, 29);
    assert_eq!(map.len(), 2);
    assert!(map.set_deadline(b"b", NEVER, 29));
    map.expire(8, 1 << 40);
    assert_eq!(map.len(), 2);
    assert!(map.remove(b"b", 0) && !map.remove(b"b", 0));
    assert_eq!(map.take_removals(), Removals { evicted: 0, expired: 1 });
}

#[test]
fn expired_entries_are_removed_first() {
    let mut map = room_for(3);
    map.set(b"a", bytes(1), NEVER, 0).unwrap();
    map.set(b"b", bytes(1), 5, 0).unwrap();
    map.set(b"c", bytes(1), NEVER, 0).unwrap();
    map.set(b"d", bytes(1), NEVER, 5).unwrap();
    assert_eq!(present(&mut map, "abcd"), "acd");
    assert_eq!(map.take_removals(), Removals { evicted: 0, expired: 1 });
}

#[test]
fn used_entries_are_not_evicted() {
    let mut map = room_for(4);
    for key in [b"a", b"b", b"c", b"d"] {
        map.set(key, bytes(1), NEVER, 0).unwrap();
    }
    assert_eq!(present(&mut map, "ac"), "ac");
    // The hand passes over a, removes b, passes over c, removes d, and reaches the new ones.
    map.set(b"e", bytes(1), NEVER, 0).unwrap();
    map.set(b"f", bytes(1), NEVER, 0).unwrap();
    assert_eq!(present(&mut map, "abcdef"), "acef");
}

#[test]
fn a_smaller_limit_keeps_used_entries() {
    let mut map = room_for(4);
    for key in [b"a", b"b", b"c", b"d"] {
        map.set(key, bytes(1), NEVER, 0).unwrap();
    }
    assert_eq!(present(&mut map, "bd"), "bd");
    map.resize(2 * (ENTRY_BYTES + 2), 0);
    assert_eq!((present(&mut map, "abcd"), map.take_removals().evicted), ("bd".to_owned(), 2));
    map.resize(room_for(4).limit(), 0);
    map.set(b"e", bytes(1), NEVER, 0).unwrap();
    assert_eq!(present(&mut map, "abcde"), "bde");
}

#[test]
fn a_growing_value_evicts_others_and_not_itself() {
    let mut map = room_for(4);
    for key in [b"a", b"b", b"c", b"d"] {
        map.set(key, bytes(1), NEVER, 0).unwrap();
    }
    assert_eq!(present(&mut map, "abcd"), "abcd");
    map.set(b"a", bytes(1 + ENTRY_BYTES), NEVER, 0).unwrap();
    assert!(map.bytes() <= map.limit());
    assert_eq!(map.len(), 3, "less room than an entry is missing");
    assert!(map.get(b"a", 0).is_some());
    let all = map.limit() - ENTRY_BYTES - 1;
    map.set(b"a", bytes(all), NEVER, 0).unwrap();
    assert_eq!((present(&mut map, "abcd"), map.bytes()), ("a".to_owned(), map.limit()));
    assert_eq!(map.set(b"a", bytes(all + 1), NEVER, 0), Err(TooLarge));
    assert_eq!(present(&mut map, "a"), "a", "a rejected value changes nothing");
}

#[test]
fn a_scan_shows_entries_that_exist_throughout() {
    let mut map = ExpiringMap::new(1 << 20);
    for number in 0..100 {
        map.set(format!("k{number}").as_bytes(), bytes(1), NEVER, 0).unwrap();
    }
    let (mut cursor, mut seen, mut step) = (0, Vec::new(), 0);
    loop {
        cursor = map.scan(cursor, 7, 0, |key| seen.push(String::from_utf8_lossy(key).into_owned()));
        map.remove(format!("k{}", 2 * step).as_bytes(), 0);
        map.set(format!("new{step}").as_bytes(), bytes(1), NEVER, 0).unwrap();
        step += 1;
        if cursor == 0 {
            break;
        }
    }
    for number in 2 * step..100 {
        let key = format!("k{number}");
        assert_eq!(seen.iter().filter(|found| **found == key).count(), 1, "{key}");
    }
}

/// A small generator of a fixed sequence.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn random_operations_agree_with_a_model() {
    let mut state = 7;
    for limit in [1 << 20, 4000] {
        let mut map = ExpiringMap::new(limit);
        let mut plain: HashMap<Vec<u8>, (Value, u64)> = HashMap::new();
        let mut now = 0;
        for _ in 0..20_000 {
            now += next(&mut state) % 3;
            let key = format!("{}", next(&mut state) % 40).into_bytes();
            let until = if next(&mut state).is_multiple_of(3) { NEVER } else { now + 20 };
            match next(&mut state) % 8 {
                0..=2 => {
                    let value = bytes((next(&mut state) % 50) as usize);
                    map.set(&key, value.clone(), until, now).unwrap();
                    plain.insert(key, (value, until));
                }
                3 => {
                    let known = plain.remove(&key).is_some_and(|(_, until)| until > now);
                    let found = map.remove(&key, now);
                    // The bounded map may have evicted it, and neither invents entries.
                    assert!(if limit > 4000 { found == known } else { known || !found });
                }
                4 => {
                    if map.set_deadline(&key, until, now)
                        && let Some((_, deadline)) = plain.get_mut(&key)
                    {
                        *deadline = until;
                    }
                }
                5 => map.expire(3, now),
                _ => match map.get(&key, now) {
                    Some((value, until)) => {
                        assert_eq!(plain.get(&key), Some(&(value.clone(), until)));
                    }
                    None if limit > 4000 => {
                        assert!(plain.get(&key).is_none_or(|(_, until)| *until <= now));
                    }
                    None => {}
                },
            }
            assert!(map.bytes() <= limit);
        }
        let weight: usize = map.entries.iter().map(|(_, entry)| entry.weight()).sum();
        assert_eq!((weight, map.len()), (map.bytes(), map.table.len()));
    }
}
