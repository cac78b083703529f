//! The promises to leaders and followers.

use net::worker::block_on_local;

use super::*;
use crate::store::{Purge, Store};

fn key(text: &str) -> Key {
    Key::new(text.as_bytes(), text.len())
}

fn token() -> PurgeEpoch {
    Store::new(1 << 20).purge_epoch()
}

fn join_as_leader(single_flight: &Arc<SingleFlight>, text: &str) -> Leader {
    match single_flight.join(&key(text), (token(), false), |_, _| true) {
        Join::Leader(leader) => leader,
        _ => panic!("{text} is in flight"),
    }
}

fn wait(single_flight: &Arc<SingleFlight>, text: &str) -> Follower {
    match single_flight.join(&key(text), (token(), false), |_, _| true) {
        Join::Follower(follower) => follower,
        _ => panic!("{text} is not in flight"),
    }
}

#[test]
fn one_leads_and_the_others_get_its_result_on_every_thread() {
    let single_flight = Arc::new(SingleFlight::default());
    let mut leader = join_as_leader(&single_flight, "a");
    let others: Vec<_> = (0..4)
        .map(|_| {
            let mut follower = wait(&single_flight, "a");
            std::thread::spawn(move || block_on_local(async move { follower.result().await }))
        })
        .collect();
    assert_eq!(single_flight.count(), 1);
    leader.publish_last(FetchResult::Failed(Fault::internal("on purpose")));
    for other in others {
        let result = other.join().unwrap();
        assert!(matches!(result, Some(FetchResult::Failed(fault)) if fault.status == 500));
    }
    // Its last result is published: the next request becomes a leader.
    drop(join_as_leader(&single_flight, "a"));
    drop(leader);
    assert_eq!(single_flight.count(), 0);
}

#[test]
fn an_unshared_fetch_can_be_joined_once_its_key_is_known() {
    let single_flight = Arc::new(SingleFlight::default());
    let mut leader = single_flight.unshared(token());
    drop(join_as_leader(&single_flight, "a"));
    assert!(leader.rekey(&key("a")));
    wait(&single_flight, "a");
}

#[test]
fn a_leader_that_is_dropped_wakes_its_waiters() {
    block_on_local(async {
        let single_flight = Arc::new(SingleFlight::default());
        let leader = join_as_leader(&single_flight, "a");
        let mut follower = wait(&single_flight, "a");
        drop(leader);
        assert!(follower.result().await.is_none());
        assert!(!single_flight.has(&key("a")));
    });
}

#[test]
fn a_follower_that_joins_after_the_result_gets_it() {
    block_on_local(async {
        let single_flight = Arc::new(SingleFlight::default());
        let leader = join_as_leader(&single_flight, "a");
        leader.publish(FetchResult::Unshared);
        assert!(matches!(wait(&single_flight, "a").result().await, Some(FetchResult::Unshared)));
    });
}

#[test]
fn a_leader_knows_when_it_has_no_followers() {
    block_on_local(async {
        let single_flight = Arc::new(SingleFlight::default());
        let leader = join_as_leader(&single_flight, "a");
        let follower = leader.follower();
        let mut abandoned = tokio::spawn(async move { leader.abandoned().await });
        tokio::task::yield_now().await;
        assert!(!abandoned.is_finished());
        drop(follower);
        (&mut abandoned).await.unwrap();
    });
}

#[test]
fn a_flight_that_a_purge_has_overtaken_is_not_joined_and_does_not_take_the_next_one_along() {
    let single_flight = Arc::new(SingleFlight::default());
    let store = Store::new(1 << 20);
    let Join::Leader(old) =
        single_flight.join(&key("a"), (store.purge_epoch(), false), |_, _| true)
    else {
        panic!("there is no other")
    };
    store.purge(&Purge::Url(b"a"), false);
    let now = store.purge_epoch();
    let Join::Leader(new) = single_flight.join(&key("a"), (now, false), |begun, _| begun == now)
    else {
        panic!("joined what was purged")
    };
    assert_eq!((old.begun() < new.begun(), single_flight.count()), (true, 1));
    drop(old);
    assert!(single_flight.has(&key("a")));
    drop(new);
    assert_eq!(single_flight.count(), 0);
}

#[test]
fn a_flight_moves_to_the_variant_it_turned_out_to_be() {
    let single_flight = Arc::new(SingleFlight::default());
    let mut leader = join_as_leader(&single_flight, "a");
    assert!(leader.rekey(&key("a\0en")) && leader.rekey(&key("a\0en")));
    wait(&single_flight, "a\0en");
    // The place of another is not taken.
    let mut other = join_as_leader(&single_flight, "a");
    assert!(!other.rekey(&key("a\0en")));
    drop(other);
    assert!(single_flight.has(&key("a\0en")) && !single_flight.has(&key("a")));
    drop(leader);
    assert_eq!(single_flight.count(), 0);
}

#[test]
fn flights_are_bounded() {
    let single_flight = Arc::new(SingleFlight::default());
    let leads: Vec<Leader> = (0..IN_FLIGHT_MAX)
        .map(|index| join_as_leader(&single_flight, &index.to_string()))
        .collect();
    assert!(matches!(
        single_flight.join(&key("one more"), (token(), false), |_, _| true),
        Join::Full
    ));
    wait(&single_flight, "7");
    drop(leads);
    join_as_leader(&single_flight, "one more");
}
