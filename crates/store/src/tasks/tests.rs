//! Jobs from being queued to their end, with a clock of the test.

use super::{AfterFailure, Cancelled, NewJob, Now, Period, QueueFull};
use super::{Taken, TaskCounts, TaskLoad, TaskQueues};
use bytes::Bytes;

const MAX: usize = 1 << 20;
/// 2026-11-22 10:00 UTC, when the clock of a test shows 0.
const EPOCH_MS: u64 = 1_795_341_600_000;

fn at(ms: u64) -> Now {
    Now { ms, wall_ms: EPOCH_MS + ms }
}

fn job(name: &'static str) -> NewJob {
    NewJob { name: Bytes::from_static(name.as_bytes()), ..NewJob::default() }
}

fn names(names: &[&'static str]) -> Vec<Bytes> {
    names.iter().map(|name| Bytes::from_static(name.as_bytes())).collect()
}

fn add(queues: &mut TaskQueues, new: NewJob) -> u64 {
    queues.add(new, MAX, MAX).unwrap().unwrap()
}

/// The id of the job that begins, or the time to wait.
fn take(queues: &mut TaskQueues, wanted: &[&'static str], now_ms: u64) -> Result<u64, Option<u64>> {
    match queues.take(&names(wanted), 1, at(now_ms)) {
        Taken::Job(begun) => Ok(begun.id),
        Taken::Wait(wait_ms) => Err(wait_ms),
    }
}

/// Nothing is left behind when every job has ended.
fn assert_empty(queues: &TaskQueues) {
    assert_eq!(queues.total(), TaskLoad::default());
    assert!(queues.waiting.is_empty() && queues.expiring.is_empty() && queues.keys.is_empty());
    assert_eq!(queues.bytes, 0);
}

#[test]
fn jobs_begin_in_the_order_in_which_they_are_due() {
    let mut queues = TaskQueues::default();
    let late = add(&mut queues, NewJob { due_ms: 50, ..job("a") });
    let first = add(&mut queues, job("a"));
    let other = add(&mut queues, job("b"));
    assert_eq!(take(&mut queues, &["c"], 0), Err(None));
    assert_eq!(take(&mut queues, &["a", "b"], 0), Ok(first));
    assert_eq!(take(&mut queues, &["a"], 10), Err(Some(40)));
    assert_eq!(take(&mut queues, &["a", "b"], 10), Ok(other));
    assert_eq!(take(&mut queues, &["a", "b"], 50), Ok(late));
    assert_eq!(queues.total(), TaskLoad { waiting: 0, running: 3 });
    assert!([first, other, late].into_iter().all(|id| queues.done(id, 1)));
    assert!(!queues.done(first, 1));
    assert_eq!(queues.counts.done, 3);
    assert_empty(&queues);
}

#[test]
fn failures_are_retried_with_a_pause_that_doubles() {
    let mut queues = TaskQueues::default();
    let id = add(&mut queues, NewJob { retries: 2, backoff_ms: 100, ..job("a") });
    for (now_ms, pause_ms) in [(0, 100), (100, 200)] {
        assert_eq!(take(&mut queues, &["a"], now_ms), Ok(id));
        assert_eq!(queues.fail(id, 1, now_ms), Some(AfterFailure::RetryIn(pause_ms)));
        assert_eq!(take(&mut queues, &["a"], now_ms), Err(Some(pause_ms)));
    }
    assert_eq!(queues.find(id), Some((false, 2)));
    assert_eq!(take(&mut queues, &["a"], 300), Ok(id));
    assert_eq!(queues.fail(id, 2, 300), None);
    assert_eq!(queues.fail(id, 1, 300), Some(AfterFailure::Failed));
    assert_eq!((queues.counts.retried, queues.counts.failed), (2, 1));
    assert_empty(&queues);
    let id = add(&mut queues, NewJob { retries: 99, backoff_ms: u64::MAX, ..job("a") });
    assert_eq!(take(&mut queues, &["a"], 0), Ok(id));
    let hour = AfterFailure::RetryIn(crate::limits::TASK_BACKOFF_MS);
    assert_eq!(queues.fail(id, 1, 0), Some(hour));
}

#[test]
fn a_job_of_an_owner_that_is_gone_runs_again_while_attempts_are_left() {
    let mut queues = TaskQueues::default();
    let once = add(&mut queues, job("a"));
    let twice = add(&mut queues, NewJob { retries: 1, ..job("a") });
    assert_eq!((take(&mut queues, &["a"], 0), take(&mut queues, &["a"], 0)), (Ok(once), Ok(twice)));
    assert!(!queues.leave(2, 0));
    assert!(queues.leave(1, 0));
    assert!(!queues.done(twice, 1));
    assert_eq!((queues.counts.lost, queues.counts.failed), (2, 1));
    assert_eq!(take(&mut queues, &["a"], 0), Ok(twice));
    // An owner that stops by itself takes no attempt from the job.
    for _ in 0..3 {
        assert!(queues.put_back(twice, 1, 0));
        assert_eq!(take(&mut queues, &["a"], 0), Ok(twice));
    }
    assert!(queues.done(twice, 1));
    assert_empty(&queues);
}

#[test]
fn the_queue_is_bounded_and_evicts_nothing() {
    let mut queues = TaskQueues::default();
    assert!(queues.add(job("a"), 2, MAX).unwrap().is_some());
    let large = NewJob { payload: Bytes::from(vec![0; 1000]), ..job("a") };
    assert_eq!(queues.add(large.clone(), 2, 1000), Err(QueueFull));
    assert!(queues.add(large, 2, MAX).unwrap().is_some());
    assert_eq!(queues.add(job("a"), 2, MAX), Err(QueueFull));
    assert_eq!((queues.total().waiting, queues.counts.rejected), (2, 2));
    assert_eq!((queues.clear(Some(b"b")), queues.clear(None)), (0, 2));
    assert_empty(&queues);
}

#[test]
fn one_job_for_each_key() {
    let mut queues = TaskQueues::default();
    let keyed = || NewJob { key: Some(Bytes::from_static(b"k")), ..job("a") };
    let id = add(&mut queues, keyed());
    assert_eq!(queues.add(keyed(), MAX, MAX), Ok(None));
    assert_eq!(take(&mut queues, &["a"], 0), Ok(id));
    assert_eq!(queues.add(keyed(), MAX, MAX), Ok(None));
    assert!(queues.done(id, 1));
    assert!(queues.add(keyed(), MAX, MAX).unwrap().is_some());
}

#[test]
fn a_job_that_was_not_begun_in_time_is_dropped() {
    let mut queues = TaskQueues::default();
    add(&mut queues, NewJob { expires_ms: Some(10), ..job("a") });
    let begun = add(&mut queues, NewJob { expires_ms: Some(20), ..job("b") });
    assert_eq!(take(&mut queues, &["b"], 5), Ok(begun));
    queues.expire(64, 9);
    assert_eq!(queues.counts.expired, 0);
    queues.expire(64, 30);
    assert_eq!((queues.counts.expired, queues.total().running), (1, 1));
    assert_eq!(take(&mut queues, &["a"], 30), Err(None));
    assert!(queues.done(begun, 1));
    assert_empty(&queues);
}

#[test]
fn an_expired_job_does_not_begin_although_no_command_has_removed_it() {
    let mut queues = TaskQueues::default();
    (0..200).for_each(|_| _ = add(&mut queues, NewJob { expires_ms: Some(10), ..job("a") }));
    let valid = add(&mut queues, NewJob { expires_ms: Some(11), ..job("a") });
    assert_eq!(take(&mut queues, &["a"], 10), Ok(valid));
    assert_eq!(queues.counts.expired, 200);
    assert!(queues.done(valid, 1));
    assert_empty(&queues);
}

#[test]
fn a_cancelled_job_does_not_run_again() {
    let mut queues = TaskQueues::default();
    let waits = add(&mut queues, job("a"));
    assert_eq!(queues.cancel(waits), Some(Cancelled::Removed));
    assert_eq!(queues.cancel(waits), None);
    let runs = add(&mut queues, NewJob { retries: 5, ..job("a") });
    assert_eq!(take(&mut queues, &["a"], 0), Ok(runs));
    assert_eq!(queues.cancel(runs), Some(Cancelled::Running));
    assert_eq!(queues.fail(runs, 1, 0), Some(AfterFailure::Cancelled));
    let lost = add(&mut queues, NewJob { retries: 5, ..job("a") });
    assert_eq!(take(&mut queues, &["a"], 0), Ok(lost));
    queues.cancel(lost);
    assert!(!queues.leave(1, 0));
    assert_eq!(queues.counts.cancelled, 3);
    assert_empty(&queues);
}

#[test]
fn a_periodic_task_runs_once_in_each_period_and_not_twice_at_a_time() {
    let mut queues = TaskQueues::default();
    let name = Bytes::from_static(b"p");
    let every = Period::Every(100);
    assert!(queues.schedule(&name, every, 1, at(0)) && queues.schedule(&name, every, 2, at(30)));
    assert_eq!(take(&mut queues, &["p"], 40), Err(Some(60)));
    let first = take(&mut queues, &["p"], 100).unwrap();
    // It still runs: the next period waits.
    assert_eq!(take(&mut queues, &["p"], 350), Err(Some(1000)));
    assert!(queues.done(first, 1));
    // Three periods were missed; one job makes up for them.
    let second = take(&mut queues, &["p"], 350).unwrap();
    assert!(queues.done(second, 1));
    assert_eq!(take(&mut queues, &["p"], 350), Err(Some(50)));
    // The schedule outlives one of its owners, not all of them.
    assert!(!queues.leave(1, 350));
    assert_eq!(take(&mut queues, &["p"], 350), Err(Some(50)));
    queues.leave(2, 350);
    assert_eq!(take(&mut queues, &["p"], 1000), Err(None));
    assert_empty(&queues);
}

#[test]
fn a_periodic_job_that_outlives_its_owners_is_not_joined_by_another() {
    let mut queues = TaskQueues::default();
    let name = Bytes::from_static(b"p");
    assert!(queues.schedule(&name, Period::Every(100), 1, at(0)));
    let first = take(&mut queues, &["p"], 100).unwrap();
    // The worker ends before its job, and is the only one.
    assert!(queues.put_back(first, 1, 150));
    queues.leave(1, 150);
    assert!(queues.schedule(&name, Period::Every(100), 2, at(160)));
    let again = queues.take(&names(&["p"]), 2, at(160));
    assert!(matches!(again, Taken::Job(begun) if begun.id == first));
    assert_eq!(take(&mut queues, &["p"], 300), Err(Some(1000)));
    assert!(queues.done(first, 2));
    assert!(take(&mut queues, &["p"], 300).is_ok());
    // A job without a schedule leaves none behind.
    queues.leave(2, 300);
    queues.leave(1, 300);
    assert!(queues.schedules.is_empty());
    assert_empty(&queues);
}

#[test]
fn schedules_are_bounded() {
    let (mut queues, every) = (TaskQueues::default(), Period::Every(1000));
    for number in 0..crate::limits::SCHEDULES {
        assert!(queues.schedule(&Bytes::from(number.to_string()), every, 1, at(0)));
    }
    assert!(!queues.schedule(&Bytes::from_static(b"more"), every, 1, at(0)));
    assert!(queues.schedule(&Bytes::from_static(b"0"), every, 2, at(0)));
}

#[test]
fn a_task_with_a_cron_expression_follows_the_clock_on_the_wall() {
    let mut queues = TaskQueues::default();
    let name = Bytes::from_static(b"c");
    let minute = 60_000;
    let quarters = Period::Cron("*/15 * * * *".parse().unwrap());
    assert!(queues.schedule(&name, quarters, 1, at(0)));
    // The clock may be set: the wait is a minute at most.
    assert_eq!(take(&mut queues, &["c"], 0), Err(Some(minute)));
    assert_eq!(take(&mut queues, &["c"], 15 * minute - 10), Err(Some(10)));
    let set_back = |ms| Now { ms, wall_ms: EPOCH_MS + ms - 5000 };
    let job = take(&mut queues, &["c"], 15 * minute).unwrap();
    assert!(queues.done(job, 1));
    // A clock that is set back does not repeat the run.
    let again = queues.take(&names(&["c"]), 1, set_back(15 * minute + 5000));
    assert_eq!(again, Taken::Wait(Some(minute)));
    // It is set forward by hours: one run makes up for all that were missed.
    let later = Now { ms: 16 * minute, wall_ms: EPOCH_MS + 200 * minute };
    assert!(matches!(queues.take(&names(&["c"]), 1, later), Taken::Job(_)));
    assert_eq!(queues.take(&names(&["c"]), 2, later), Taken::Wait(Some(10 * minute)));
}

#[test]
fn the_numbers_of_a_queue_elsewhere_replace_its_own() {
    let mut queues = TaskQueues::default();
    add(&mut queues, job("a"));
    assert_eq!(queues.summary().0, TaskLoad { waiting: 1, running: 0 });
    let elsewhere = (TaskLoad { waiting: 7, running: 2 }, TaskCounts { done: 5, ..queues.counts });
    queues.report(elsewhere.0, elsewhere.1);
    assert_eq!(queues.summary(), elsewhere);
}
