//! The queues, driven as a shard drives them.

use super::*;

const KIB: u64 = 1024;

/// Queues of objects with states, as a shard has them.
struct Rig {
    queues: S3Fifo,
    lives: Vec<ObjectState>,
    live: u32,
}

impl Rig {
    /// The same number of objects of one kibibyte each, whose numbers are their hashes.
    fn new(count: u32) -> Rig {
        let mut rig = Rig { queues: S3Fifo::new(), lives: Vec::new(), live: 0 };
        (0..count).for_each(|at| rig.insert(at));
        rig
    }

    fn insert(&mut self, at: u32) {
        self.live += 1;
        self.lives.resize_with(self.lives.len().max(at as usize + 1), ObjectState::default);
        self.lives[at as usize].set_uses(0);
        self.queues.insert(at, u64::from(at), KIB, self.live);
    }

    fn use_it(&self, at: u32, times: u8) {
        (0..times).for_each(|_| self.lives[at as usize].count_use());
    }

    fn evict(&mut self) -> Option<u32> {
        let lives = &self.lives;
        let victim = self.queues.victim(|at| Some(&lives[at as usize]))?;
        if victim.unproven {
            self.queues.remember(u64::from(victim.at), KIB);
        }
        self.queues.remove(victim.at);
        self.live -= 1;
        Some(victim.at)
    }
}

#[test]
fn unused_objects_go_in_the_order_they_came() {
    let mut rig = Rig::new(4);
    let order: Vec<u32> = std::iter::from_fn(|| rig.evict()).collect();
    assert_eq!(order, [0, 1, 2, 3]);
    assert_eq!((rig.queues.weight(), rig.evict()), (0, None));
}

#[test]
fn objects_used_twice_stay_behind_what_came_after_them() {
    let mut rig = Rig::new(4);
    rig.use_it(0, 2);
    rig.use_it(1, 1);
    let order: Vec<u32> = std::iter::from_fn(|| rig.evict()).collect();
    assert_eq!(order, [1, 2, 3, 0]);
}

#[test]
fn a_tenth_of_the_bytes_is_for_what_is_new() {
    let mut rig = Rig::new(100);
    // All but the last ten go to the main queue, and the oldest is evicted.
    (0..90).for_each(|at| rig.use_it(at, 3));
    assert_eq!(rig.evict(), Some(90));
    assert_eq!(rig.evict(), Some(0), "less than a tenth is new");
    (200..210).for_each(|at| rig.insert(at));
    assert_eq!(rig.evict(), Some(91));
}

#[test]
fn what_comes_back_soon_enters_the_main_queue() {
    let mut rig = Rig::new(100);
    (0..80).for_each(|at| rig.use_it(at, 3));
    let removed = rig.evict().unwrap();
    assert_eq!(removed, 80);
    rig.insert(removed);
    // Every new object is evicted before it.
    let order: Vec<u32> = (0..10).filter_map(|_| rig.evict()).collect();
    assert!(!order.contains(&removed) && order.contains(&81), "{order:?}");
}

#[test]
fn weights_change_in_place_and_leave_from_the_middle() {
    let mut rig = Rig::new(3);
    rig.queues.reweigh(1, 10 * KIB);
    assert_eq!(rig.queues.weight(), 12 * KIB);
    rig.queues.remove(1);
    assert_eq!(rig.queues.weight(), 2 * KIB);
    assert_eq!((rig.evict(), rig.evict(), rig.evict()), (Some(0), Some(2), None));
}

#[test]
fn a_choice_looks_at_so_many_objects_and_no_more() {
    let mut rig = Rig::new(1000);
    (0..1000).for_each(|at| rig.use_it(at, 3));
    assert_eq!(rig.evict(), Some(EVICTION_STEPS as u32 - 1));
}

#[test]
fn what_is_of_no_use_goes_whatever_its_uses() {
    let mut rig = Rig::new(2);
    rig.use_it(0, 3);
    let victim = rig.queues.victim(|_| None);
    assert_eq!(victim, Some(Victim { at: 0, unproven: false }));
}

#[test]
fn a_ghost_is_forgotten_once_as_much_has_passed_as_is_kept() {
    let mut ghost = Ghost::default();
    ghost.fit(1000);
    (0..200).for_each(|hash| ghost.put(hash, KIB));
    assert!(ghost.take(199, 100 * KIB));
    assert!(!ghost.take(199, 100 * KIB), "once");
    assert!(!ghost.take(50, 100 * KIB));
    assert!(!ghost.take(5000, u64::MAX));
    ghost.put(300, KIB);
    ghost.fit(100_000);
    assert!(ghost.take(300, KIB), "a larger table remembers");
}
