//! The loop of a VM: timers and sockets become events, one turn each.
//!
//! Promises that an event is looked at only after the one before it has been seen through, that a
//! script which is always busy lets the worker's other tasks run, and that the loop sleeps while
//! there is nothing to do. It ends when the script exits; a VM without a loop has no timers.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use net::clock;
use tokio::time::{Instant, Sleep};

use crate::limits::TIMERS_PER_LOOK;
use crate::timers::{self, Due, Session};
use crate::vm::{Turn, Vm};

/// Drives a VM until its program exits; returns the code.
pub async fn drive(vm: Rc<Vm>) -> i32 {
    // Nothing sleeps before it was told until when.
    let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
    let mut until = 0;
    poll_fn(|cx| poll(&vm, cx, sleep.as_mut(), &mut until)).await
}

fn poll(vm: &Vm, cx: &mut Context<'_>, mut sleep: Pin<&mut Sleep>, until: &mut u64) -> Poll<i32> {
    loop {
        let busy = run_timers(vm);
        if let Some(code) = vm.exit_code() {
            return Poll::Ready(code);
        }
        if let Poll::Ready((key, event)) = vm.streams.poll(cx) {
            vm.turn(|turn| turn.streams.event(turn, key, event));
            continue;
        }
        if busy {
            clock::refresh();
            // Comes back after the event loop has looked at the sockets.
            ready!(pin!(tokio::task::yield_now()).poll(cx));
            continue;
        }
        let Some(at) = vm.timers.earliest_ms(cx.waker()) else { return Poll::Pending };
        let now = timers::now_ms();
        if at <= now {
            clock::refresh();
            continue;
        }
        if *until != at {
            *until = at;
            sleep.as_mut().reset(Instant::now() + Duration::from_millis(at - now));
        }
        ready!(sleep.as_mut().poll(cx));
        *until = 0;
        clock::refresh();
    }
}

/// Runs what is due, up to a bound; true if there may be more.
fn run_timers(vm: &Vm) -> bool {
    for _ in 0..TIMERS_PER_LOOK {
        let Some((session, due)) = vm.timers.next_due(clock::now().as_ms()) else { return false };
        if vm.turn(|turn| timer(turn, session, due)).is_none() {
            return false;
        }
    }
    true
}

fn timer(turn: &Turn<'_>, session: Session, due: Due) {
    match due {
        Due::Wake(task) => {
            turn.wake_with(task, |_| 0);
        }
        Due::Call { function, argument } => {
            crate::native::time::call(turn, session, function, argument)
        }
        Due::Read { connection, task } => turn.streams.too_late(turn, connection, task),
        Due::Linger(connection) => turn.streams.give_up(connection),
        Due::Accept(listener) => turn.streams.accept_again(listener),
    }
}
