//! The hit ratio for requests by Zipf's law.

use super::*;

const OBJECTS: usize = 40_000;
const REQUESTS: usize = 240_000;

/// The hit ratio after a warm-up, with memory for this fraction of all objects.
fn hit_percent(part: usize) -> f64 {
    let urls: Vec<String> = (0..OBJECTS).map(|n| format!("http://a/{n}")).collect();
    let mut sum = 0.0;
    let weights: Vec<f64> = (1..=OBJECTS)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(7);
    let mut pick = || {
        let at = (random.u64(..1 << 40)) as f64 / (1u64 << 40) as f64 * sum;
        weights.partition_point(|weight| *weight < at).min(OBJECTS - 1)
    };
    let all = Store::new(MIB * 64);
    for url in &urls {
        sample(url).put(&all).unwrap();
    }
    // The load of hash tables varies by chance: rather too little memory than too much.
    let each = (all.stats().bytes - Store::new(MIB * 64).stats().bytes) / OBJECTS as u64;
    let objects = each * (OBJECTS / part) as u64 * 9 / 10;
    let store = Store::new(objects + Store::new(objects).stats().bytes);
    let mut hits = 0;
    for request in 0..REQUESTS {
        let wanted = sample(&urls[pick()]);
        match wanted.found(&store) {
            Some(_) if request >= REQUESTS / 3 => hits += 1,
            Some(_) => {}
            None => drop(wanted.put(&store)),
        }
    }
    let there = store.stats().objects as usize;
    assert!(there <= OBJECTS / part && there > OBJECTS / part * 3 / 4, "{there}");
    100.0 * f64::from(hits) / (REQUESTS - REQUESTS / 3) as f64
}

#[test]
fn half_of_all_requests_are_found_with_one_object_in_a_hundred() {
    let percent = hit_percent(100);
    assert!(percent >= 50.0, "{percent:.1} %");
}

#[test]
fn three_quarters_are_found_with_one_object_in_ten() {
    let percent = hit_percent(10);
    assert!(percent >= 74.0, "{percent:.1} %");
}
