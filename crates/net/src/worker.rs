//! A worker: one thread, one event loop, one core if asked for.
//!
//! Owns the runtime of a worker thread and what every worker has: the cached clock and the timer
//! wheel. Promises that tasks of a worker never leave its thread, so what they share needs no lock.

use std::io;
use std::panic::resume_unwind;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::task::{self, JoinError};
use crate::{clock, platform, timer};

/// Polls between two looks at the sockets. Tokio's default of 61 makes a loaded loop ask the kernel
/// more often than the kernel has news; every task of a batch is one poll, so 256 covers a full
/// one.
pub(crate) const POLLS_PER_TURN: u32 = 256;

/// Threads that may block on a worker's behalf (cold file reads, large compressions).
const BLOCKING_THREADS: usize = 8;

/// The stack that a thread has (std's default).
const STACK_BYTES: u64 = 2 * 1024 * 1024;
/// What a worker allocates before anybody asks for anything, at most.
const HEAP_BYTES: u64 = 2 * 1024 * 1024;
/// Threads of a server beside its workers (control, logs, watching, names), and what they allocate.
const OTHERS_BYTES: u64 = 4 * STACK_BYTES + 4 * 1024 * 1024;

/// Addresses that a server with so many workers needs in addition to what it has at its start.
pub fn addresses_of(workers: usize) -> u64 {
    let threads = 1 + BLOCKING_THREADS as u64;
    OTHERS_BYTES + workers as u64 * (threads * STACK_BYTES + HEAP_BYTES)
}

/// Builds the runtime of one worker.
pub fn runtime() -> io::Result<LocalRuntime> {
    clock::refresh();
    Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .event_interval(POLLS_PER_TURN)
        .max_blocking_threads(BLOCKING_THREADS)
        .thread_name("tidegate-block")
        .on_thread_unpark(clock::refresh)
        .build_local(LocalOptions::default())
}

/// Starts a worker thread that runs `main` to its end.
///
/// `main` is built on the new thread, so it may hold what is not `Send`.
pub fn spawn<M, F>(name: String, core: Option<usize>, main: M) -> io::Result<JoinHandle<()>>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    std::thread::Builder::new().name(name).spawn(move || {
        if let Some(core) = core {
            platform::pin_to_core(core);
        }
        match runtime() {
            Ok(runtime) => runtime.block_on(async {
                tokio::task::spawn_local(timer::drive());
                // Among the tasks, so that what wakes it and them is seen in one order.
                if let Err(JoinError::Panicked) = task::spawn_local(main()).await {
                    resume_unwind(Box::new("the main task of a worker panicked"));
                }
            }),
            Err(error) => {
                // Without an event loop there is no server; the supervisor sees the thread end.
                eprintln!("tidegate: a worker cannot start its event loop: {error}");
            }
        }
    })
}

/// Runs a future on a fresh worker loop of this thread: tests and small programs.
pub fn block_on_local<F: Future>(future: F) -> F::Output {
    let runtime = runtime().expect("an event loop can be built");
    runtime.block_on(async {
        tokio::task::spawn_local(timer::drive());
        future.await
    })
}

/// Cores this process may run on, in order.
pub fn allowed_cores() -> Vec<usize> {
    platform::allowed_cores()
}
