//! A worker: one thread, one event loop, optionally pinned to a core.
//!
//! Owns the runtime of a worker thread, its cached clock and its timer queue. Tasks of a worker
//! never leave its thread, so what they share needs no lock.

use std::io;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::thread::JoinHandle;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

use crate::task::{self, JoinError};
use crate::{clock, platform, timer};

/// Task polls between two polls of the sockets. Tokio's default of 61 asks a loaded kernel more
/// often than it has events; every task of a batch is one poll, so 256 covers a full batch.
pub(crate) const POLLS_PER_TURN: u32 = 256;

/// Threads that may block on a worker's behalf (cold file reads, large compressions).
const BLOCKING_THREADS: usize = 8;

/// Stack size of a thread (std's default).
const STACK_BYTES: u64 = 2 * 1024 * 1024;
/// Stack size of a worker. Lua allows 200 nested calls of functions that are not Lua's, each of
/// which takes some 11 KiB if it is unoptimised and calls back.
const WORKER_STACK_BYTES: u64 = 4 * 1024 * 1024;
/// Most memory a worker allocates before it serves anything.
const HEAP_BYTES: u64 = 2 * 1024 * 1024;
/// Threads of a server other than its workers (control, logs, file watching, name resolution), and
/// what they allocate.
const OTHERS_BYTES: u64 = 4 * STACK_BYTES + 4 * 1024 * 1024;

/// Returns the address space that a server with this many workers needs beyond what it has at its
/// start.
pub fn addresses_of(workers: usize) -> u64 {
    let stacks = WORKER_STACK_BYTES + BLOCKING_THREADS as u64 * STACK_BYTES;
    OTHERS_BYTES + workers as u64 * (stacks + HEAP_BYTES)
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
/// `main` is called on the new thread, so its future need not be `Send`.
pub fn spawn<M, F>(name: String, core: Option<usize>, main: M) -> io::Result<JoinHandle<()>>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let thread = std::thread::Builder::new().name(name).stack_size(WORKER_STACK_BYTES as usize);
    thread.spawn(move || {
        if let Some(core) = core {
            platform::pin_to_core(core);
        }
        match runtime() {
            Ok(runtime) => runtime.block_on(async {
                tokio::task::spawn_local(timer::drive());
                // As a task, so that wake-ups of it and of other tasks keep their order.
                if let Err(JoinError::Panicked) = task::spawn_local(main()).await {
                    resume_unwind(Box::new("the main task of a worker panicked"));
                }
            }),
            Err(error) => {
                // Without an event loop nothing can be served; the supervisor notices that the
                // thread ended.
                eprintln!("tidegate: cannot create the event loop of a worker: {error}");
            }
        }
    })
}

/// Runs a future on a new worker loop of this thread: tests and small programs.
pub fn block_on_local<F: Future>(future: F) -> F::Output {
    let runtime = runtime().expect("an event loop can be built");
    run_to_end(&runtime, async {
        tokio::task::spawn_local(timer::drive());
        future.await
    })
}

/// Runs a future as an object, so that tokio's loop is compiled once and not for each caller:
/// tests have hundreds.
pub(crate) fn run_to_end<F: Future>(runtime: &LocalRuntime, future: F) -> F::Output {
    let mut output = None;
    let running: Pin<Box<dyn Future<Output = ()> + '_>> =
        Box::pin(async { output = Some(future.await) });
    runtime.block_on(running);
    output.expect("`block_on` returns when the future has ended")
}

/// Returns the cores this process may run on, in order.
pub fn allowed_cores() -> Vec<usize> {
    platform::allowed_cores()
}
