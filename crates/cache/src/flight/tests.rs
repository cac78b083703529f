//! What those who lead and those who wait are promised.

use net::worker::block_on_local;

use super::*;
use crate::store::{Purge, Store};

fn key(text: &str) -> Key {
    Key::new(text.as_bytes(), text.len())
}

fn token() -> Token {
    Store::new(1 << 20).token()
}

fn lead(flights: &Arc<Flights>, text: &str) -> Lead {
    match flights.board(&key(text), token(), |_, _| true) {
        Boarding::Lead(lead) => lead,
        _ => panic!("{text} is under way"),
    }
}

fn wait(flights: &Arc<Flights>, text: &str) -> Waiter {
    match flights.board(&key(text), token(), |_, _| true) {
        Boarding::Wait(waiter) => waiter,
        _ => panic!("{text} is not under way"),
    }
}

#[test]
fn one_leads_and_the_others_hear_what_became_of_it_on_whichever_thread() {
    let flights = Arc::new(Flights::default());
    let mut leader = lead(&flights, "a");
    let others: Vec<_> = (0..4)
        .map(|_| {
            let mut waiter = wait(&flights, "a");
            std::thread::spawn(move || block_on_local(async move { waiter.landing().await }))
        })
        .collect();
    assert_eq!(flights.count(), 1);
    leader.land_last(Landing::Failed(Fault::internal("on purpose")));
    for other in others {
        let landing = other.join().unwrap();
        assert!(matches!(landing, Some(Landing::Failed(fault)) if fault.status == 500));
    }
    // It has landed for the last time: the next one leads anew.
    drop(lead(&flights, "a"));
    drop(leader);
    assert_eq!(flights.count(), 0);
}

#[test]
fn one_that_nobody_could_join_opens_when_it_knows_more() {
    let flights = Arc::new(Flights::default());
    let mut leader = flights.alone(token());
    drop(lead(&flights, "a"));
    assert!(leader.move_to(&key("a")));
    wait(&flights, "a");
}

#[test]
fn a_leader_that_is_dropped_sets_its_waiters_free() {
    block_on_local(async {
        let flights = Arc::new(Flights::default());
        let leader = lead(&flights, "a");
        let mut waiter = wait(&flights, "a");
        drop(leader);
        assert!(waiter.landing().await.is_none());
        assert!(!flights.has(&key("a")));
    });
}

#[test]
fn who_joins_after_the_news_has_them() {
    block_on_local(async {
        let flights = Arc::new(Flights::default());
        let leader = lead(&flights, "a");
        leader.land(Landing::Alone);
        assert!(matches!(wait(&flights, "a").landing().await, Some(Landing::Alone)));
    });
}

#[test]
fn a_leader_knows_when_nobody_waits() {
    block_on_local(async {
        let flights = Arc::new(Flights::default());
        let leader = lead(&flights, "a");
        let waiter = leader.waiter();
        let mut unwanted = tokio::spawn(async move { leader.unwanted().await });
        tokio::task::yield_now().await;
        assert!(!unwanted.is_finished());
        drop(waiter);
        (&mut unwanted).await.unwrap();
    });
}

#[test]
fn a_flight_that_a_purge_has_overtaken_is_not_joined_and_does_not_take_the_next_one_along() {
    let flights = Arc::new(Flights::default());
    let store = Store::new(1 << 20);
    let Boarding::Lead(old) = flights.board(&key("a"), store.token(), |_, _| true) else {
        panic!("there is no other")
    };
    store.purge(&Purge::Url(b"a"), false);
    let now = store.token();
    let Boarding::Lead(new) = flights.board(&key("a"), now, |begun, _| begun == now) else {
        panic!("joined what was purged")
    };
    assert_eq!((old.begun() < new.begun(), flights.count()), (true, 1));
    drop(old);
    assert!(flights.has(&key("a")));
    drop(new);
    assert_eq!(flights.count(), 0);
}

#[test]
fn a_flight_moves_to_the_variant_it_turned_out_to_be() {
    let flights = Arc::new(Flights::default());
    let mut leader = lead(&flights, "a");
    assert!(leader.move_to(&key("a\0en")) && leader.move_to(&key("a\0en")));
    wait(&flights, "a\0en");
    // The place of another is not taken.
    let mut other = lead(&flights, "a");
    assert!(!other.move_to(&key("a\0en")));
    drop(other);
    assert!(flights.has(&key("a\0en")) && !flights.has(&key("a")));
    drop(leader);
    assert_eq!(flights.count(), 0);
}

#[test]
fn flights_are_bounded() {
    let flights = Arc::new(Flights::default());
    let leads: Vec<Lead> =
        (0..FLIGHTS_MAX).map(|index| lead(&flights, &index.to_string())).collect();
    assert!(matches!(flights.board(&key("one more"), token(), |_, _| true), Boarding::Full));
    wait(&flights, "7");
    drop(leads);
    lead(&flights, "one more");
}
