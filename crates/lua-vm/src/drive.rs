//! The event loop of a VM: each timer and socket event is one turn.
//!
//! Promises that an event is handled only after the turn of the one before it has ended, that a
//! busy script lets the worker's other tasks run, and that the loop sleeps while there is nothing
//! to do. It ends when the script exits; a VM without a loop has no timers.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use net::clock::{self, Moment};
use net::timer::Timer;

use crate::limits::TIMERS_PER_LOOK;
use crate::timers::{TimerAction, TimerId};
use crate::vm::{Turn, Vm};

/// Drives a VM until its program exits; returns the code.
pub async fn drive(vm: Rc<Vm>) -> i32 {
    let timer = Timer::new();
    poll_fn(|cx| poll(&vm, cx, &timer)).await
}

fn poll(vm: &Vm, cx: &mut Context<'_>, timer: &Timer) -> Poll<i32> {
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
            // Continues after the worker's event loop has polled the sockets.
            ready!(pin!(tokio::task::yield_now()).poll(cx));
            continue;
        }
        let Some(at) = vm.timers.earliest_ms(cx.waker()) else { return Poll::Pending };
        if vm.timers.is_stopped() {
            return Poll::Pending;
        }
        clock::refresh();
        timer.set_precise_at(Moment::from_ms(at));
        ready!(timer.poll(cx));
    }
}

/// Runs due timers, up to a limit; true if there may be more.
fn run_timers(vm: &Vm) -> bool {
    for _ in 0..TIMERS_PER_LOOK {
        let Some((session, due)) = vm.timers.next_due(vm.timers.turn_ms()) else { return false };
        if vm.turn(|turn| timer(turn, session, due)).is_none() {
            return false;
        }
    }
    true
}

fn timer(turn: &Turn<'_>, session: TimerId, due: TimerAction) {
    match due {
        TimerAction::Wake(task) => {
            turn.wake_with(task, |_| 0);
        }
        TimerAction::Call { function, argument } => {
            crate::native::time::call(turn, session, function, argument)
        }
        TimerAction::Read { connection } => turn.streams.time_out_read(turn, connection, session),
        TimerAction::Linger(connection) => turn.streams.drop_lingering(connection),
        TimerAction::Accept(listener) => turn.streams.accept_again(listener),
    }
}
