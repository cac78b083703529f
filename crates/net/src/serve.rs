//! Raw TCP and Unix connections, each served by an async handler: the simple API of this crate.
//!
//! Owns the workers it starts, their listeners and one task per connection. Guarantees: an accept
//! error never ends a listener, connections above the limit are closed at once, and
//! [`Serving::stop`] serves the connections the kernel had queued. Knows no protocol and reads
//! nothing: a handler that waits for a peer sets its own time-out and wraps the wait in
//! [`until_stopping`].

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use slab::Slab;
use tokio::sync::watch;

use crate::listener::{
    Accepted, Bind, BoundSocket, ListenOptions, Listener, Listening, is_exhausted,
};
use crate::stream::{Peer, Stream};
use crate::{task, timer, worker};

/// How long a listener pauses when no descriptor or memory is left for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// Options of [`serve`].
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Worker threads; by default one for each core this process may use.
    pub workers: usize,
    /// Pins each worker to a core of its own.
    pub cpu_affinity: bool,
    pub listen: ListenOptions,
    /// Open connections over all workers.
    pub connections: usize,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            workers: worker::allowed_cores().len().max(1),
            cpu_affinity: false,
            listen: ListenOptions::default(),
            connections: 65_536,
        }
    }
}

/// Listens on every address and serves each connection with `handler`, which is cloned for each
/// worker. Returns once all workers accept.
pub fn serve<H, F>(binds: &[Bind], options: &ServeOptions, handler: H) -> io::Result<Serving>
where
    H: Fn(Stream, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let mut listening = Vec::with_capacity(binds.len());
    for bind in binds {
        let bound = Listening::bind(bind, options.workers, &options.listen)
            .map_err(|error| io::Error::new(error.error.kind(), error.to_string()))?;
        listening.push(bound);
    }
    let files = listening.iter().filter_map(|listening| match listening.local() {
        Bind::Unix(path) => Some(path.clone()),
        Bind::Tcp(_) => None,
    });
    let files = files.collect();
    let mut serving = serve_on(listening, options, handler)?;
    serving.files = files;
    Ok(serving)
}

/// Like [`serve`], on sockets that are listening already, such as inherited ones.
pub fn serve_on<H, F>(
    listening: Vec<Listening>,
    options: &ServeOptions,
    handler: H,
) -> io::Result<Serving>
where
    H: Fn(Stream, Peer) -> F + Clone + Send + 'static,
    F: Future<Output = ()> + 'static,
{
    let workers = options.workers.max(1);
    let local = listening.iter().map(|listening| listening.local().clone()).collect();
    let mut shares: Vec<Vec<BoundSocket>> = (0..workers).map(|_| Vec::new()).collect();
    for listening in listening {
        for (index, socket) in listening.into_sockets().into_iter().enumerate() {
            shares[index % workers].push(socket);
        }
    }
    let cores = if options.cpu_affinity { worker::allowed_cores() } else { Vec::new() };
    let (stop, stopped) = watch::channel(None);
    let (started, starts) = mpsc::channel();
    let aborted = Arc::new(AtomicUsize::new(0));
    let limiter =
        Arc::new(ConnectionLimiter { open: AtomicUsize::new(0), limit: options.connections });
    let mut serving =
        Serving { local, threads: Vec::new(), stop, aborted: aborted.clone(), files: Vec::new() };
    for (index, sockets) in shares.into_iter().enumerate() {
        let core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
        let (handler, started, stopped) = (handler.clone(), started.clone(), stopped.clone());
        let (limiter, aborted) = (limiter.clone(), aborted.clone());
        let main = move || run_worker(sockets, handler, limiter, started, stopped, aborted);
        serving.threads.push(worker::spawn(format!("worker-{index}"), core, main)?);
    }
    drop(started);
    for _ in 0..workers {
        starts.recv().map_err(|_| io::Error::other("a worker could not start"))??;
    }
    Ok(serving)
}

/// A running service; dropping it stops it at once.
#[derive(Debug)]
pub struct Serving {
    local: Vec<Bind>,
    threads: Vec<JoinHandle<()>>,
    /// The grace period of a stop, once one is requested.
    stop: watch::Sender<Option<Duration>>,
    aborted: Arc<AtomicUsize>,
    /// Unix socket files of this service.
    files: Vec<PathBuf>,
}

impl Serving {
    /// Returns the addresses that are actually bound, in the order given.
    pub fn local(&self) -> &[Bind] {
        &self.local
    }

    /// Stops: serves the connections the kernel has queued, closes the listeners, notifies every
    /// handler (see [`until_stopping`]) and waits until they end, at most `grace`. Blocks; returns
    /// how many connections were aborted at the end.
    pub fn stop(mut self, grace: Duration) -> usize {
        self.end(grace);
        self.aborted.load(Ordering::Acquire)
    }

    /// Blocks until the workers end, for a program that does nothing else.
    pub fn join(mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // the panic was reported on stderr
        }
    }

    fn end(&mut self, grace: Duration) {
        // Before the listeners close: a successor that finds no file binds its own, which stays.
        for file in self.files.drain(..) {
            let _ = std::fs::remove_file(file);
        }
        self.stop.send_replace(Some(grace));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Waits for `future`, or returns `None` once the service that runs this handler is stopping. The
/// progress of the future is not undone: [`Stream::receive`] loses nothing.
///
/// Works in the handler's own task, not in tasks it spawns.
pub async fn until_stopping<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if STOPPING.get() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

thread_local! {
    /// True if the service of this worker thread is stopping.
    static STOPPING: Cell<bool> = const { Cell::new(false) };
    /// The tasks of this worker: listeners and connections.
    static TASKS: RefCell<TaskRegistry> = const { RefCell::new(TaskRegistry::new()) };
}

struct TaskRegistry {
    wakers: Slab<Option<Waker>>,
    /// Woken when no task is left.
    emptied: Option<Waker>,
}

impl TaskRegistry {
    const fn new() -> TaskRegistry {
        TaskRegistry { wakers: Slab::new(), emptied: None }
    }
}

/// A task's registration in [`TASKS`], from before it first runs until it is dropped.
struct Registration(usize);

impl Registration {
    fn new() -> Registration {
        Registration(TASKS.with_borrow_mut(|tasks| tasks.wakers.insert(None)))
    }

    /// Registers the waker of the calling task: a task has one waker, so once is enough.
    async fn register_waker(&self) {
        poll_fn(|cx| {
            let waker = cx.waker().clone();
            TASKS.with_borrow_mut(|tasks| tasks.wakers[self.0] = Some(waker));
            Poll::Ready(())
        })
        .await;
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let emptied = TASKS.with_borrow_mut(|tasks| {
            tasks.wakers.remove(self.0);
            if tasks.wakers.is_empty() { tasks.emptied.take() } else { None }
        });
        if let Some(emptied) = emptied {
            emptied.wake();
        }
    }
}

async fn all_tasks_ended() {
    poll_fn(|cx| {
        TASKS.with_borrow_mut(|tasks| {
            tasks.emptied = Some(cx.waker().clone());
            if tasks.wakers.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
    })
    .await;
}

/// Counts the connections of all workers; updated when one begins and ends.
struct ConnectionLimiter {
    open: AtomicUsize,
    limit: usize,
}

struct ConnectionPermit(Arc<ConnectionLimiter>);

impl ConnectionLimiter {
    fn take(self: &Arc<Self>) -> Option<ConnectionPermit> {
        let permit = ConnectionPermit(self.clone());
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        (before < self.limit).then_some(permit) // over the limit: dropping the permit releases it
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs one worker.
async fn run_worker<H, F>(
    sockets: Vec<BoundSocket>,
    handler: H,
    limiter: Arc<ConnectionLimiter>,
    started: mpsc::Sender<io::Result<()>>,
    mut stopped: watch::Receiver<Option<Duration>>,
    aborted: Arc<AtomicUsize>,
) where
    H: Fn(Stream, Peer) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    let adopted: io::Result<Vec<Listener>> = sockets.into_iter().map(BoundSocket::adopt).collect();
    let handler = Rc::new(handler);
    match adopted {
        Ok(listeners) => {
            for listener in listeners {
                let service = Service { handler: handler.clone(), limiter: limiter.clone() };
                task::spawn_local(service.run(listener, Registration::new()));
            }
            let _ = started.send(Ok(()));
        }
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    }
    drop(started);
    let Ok(grace) = stopped.wait_for(Option::is_some).await.map(|grace| *grace) else { return };
    STOPPING.set(true);
    let wakers = TASKS.with_borrow(|tasks| {
        tasks.wakers.iter().filter_map(|(_, waker)| waker.clone()).collect::<Vec<_>>()
    });
    wakers.into_iter().for_each(Waker::wake);
    if timer::within(grace.unwrap_or_default(), all_tasks_ended()).await.is_none() {
        // They are dropped with this worker's event loop.
        let left = TASKS.with_borrow(|tasks| tasks.wakers.len());
        aborted.fetch_add(left, Ordering::Release);
    }
}

/// What one listener needs to serve connections.
struct Service<H> {
    handler: Rc<H>,
    limiter: Arc<ConnectionLimiter>,
}

impl<H, F> Service<H>
where
    H: Fn(Stream, Peer) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    async fn run(self, listener: Listener, registration: Registration) {
        registration.register_waker().await;
        let mut failed_before = false;
        while let Some(accepted) = until_stopping(listener.accept()).await {
            match accepted {
                Ok(accepted) => {
                    failed_before = false;
                    self.admit(accepted);
                }
                // One error concerns that connection; a second in a row would spin.
                Err(error) if is_exhausted(&error) || failed_before => {
                    until_stopping(timer::sleep(EXHAUSTED_PAUSE)).await;
                }
                Err(_) => failed_before = true,
            }
        }
        if let Ok(queued) = listener.drain() {
            queued.into_iter().for_each(|accepted| self.admit(accepted));
        }
    }

    fn admit(&self, accepted: Accepted) {
        let Some(permit) = self.limiter.take() else { return };
        let (handler, registration) = (self.handler.clone(), Registration::new());
        task::spawn_local(async move {
            registration.register_waker().await;
            handler(accepted.stream, accepted.peer).await;
            drop((permit, registration));
        });
    }
}

#[cfg(test)]
mod tests;
