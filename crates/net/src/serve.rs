//! Raw TCP and Unix connections, each served by an async handler: the small door to this room.
//!
//! Owns the workers it starts, their listeners and one task per connection. Promises that an accept
//! error never ends a listener, that connections above the limit are closed at once and not left to
//! wait, and that [`Serving::stop`] serves what the kernel had queued. Knows no protocol and reads
//! nothing: a handler that waits for a peer says how long, and wraps the wait in
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

/// How long a listener rests when there are no descriptors or no memory for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Worker threads; by default one for each core this process may use.
    pub workers: usize,
    /// Whether each worker keeps to a core of its own.
    pub cpu_affinity: bool,
    pub listen: ListenOptions,
    /// Connections open at a time, over all workers.
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

/// [`serve`] on sockets that listen already, such as inherited ones.
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
    let cut = Arc::new(AtomicUsize::new(0));
    let seats = Arc::new(Seats { taken: AtomicUsize::new(0), limit: options.connections });
    let mut serving =
        Serving { local, threads: Vec::new(), stop, cut: cut.clone(), files: Vec::new() };
    for (index, sockets) in shares.into_iter().enumerate() {
        let core = (!cores.is_empty()).then(|| cores[index % cores.len()]);
        let (handler, started, stopped) = (handler.clone(), started.clone(), stopped.clone());
        let (seats, cut) = (seats.clone(), cut.clone());
        let main = move || work(sockets, handler, seats, started, stopped, cut);
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
    /// Time given to connections, once it is set.
    stop: watch::Sender<Option<Duration>>,
    cut: Arc<AtomicUsize>,
    /// Unix sockets that go with this service.
    files: Vec<PathBuf>,
}

impl Serving {
    /// The addresses that are really bound, in the order given.
    pub fn local(&self) -> &[Bind] {
        &self.local
    }

    /// Stops: serves what the kernel has queued, closes the listeners, tells every handler (see
    /// [`until_stopping`]) and waits until they end, at most `grace`. Blocks meanwhile; returns how
    /// many connections were cut at the end.
    pub fn stop(mut self, grace: Duration) -> usize {
        self.end(grace);
        self.cut.load(Ordering::Acquire)
    }

    /// Blocks as long as the workers live, for a program that does nothing else.
    pub fn join(mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panicked worker has said so on stderr
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

/// Waits for `future`, or gives up with `None` when the service that runs this handler is stopping.
/// What the future has already done stands: [`Stream::receive`] loses nothing.
///
/// Heard in the task of the handler itself, not in tasks it spawns.
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
    /// Whether the service of this worker thread is stopping.
    static STOPPING: Cell<bool> = const { Cell::new(false) };
    /// The tasks of this worker: listeners and connections.
    static TASKS: RefCell<Tasks> = const { RefCell::new(Tasks::new()) };
}

struct Tasks {
    wakers: Slab<Option<Waker>>,
    /// Woken when there are none.
    emptied: Option<Waker>,
}

impl Tasks {
    const fn new() -> Tasks {
        Tasks { wakers: Slab::new(), emptied: None }
    }
}

/// A task's place in [`TASKS`], from before it first runs until it is gone.
struct Enrolled(usize);

impl Enrolled {
    fn new() -> Enrolled {
        Enrolled(TASKS.with_borrow_mut(|tasks| tasks.wakers.insert(None)))
    }

    /// Leaves the waker of the task that awaits this: one task has one waker, so once is enough.
    async fn wakeable(&self) {
        poll_fn(|cx| {
            let waker = cx.waker().clone();
            TASKS.with_borrow_mut(|tasks| tasks.wakers[self.0] = Some(waker));
            Poll::Ready(())
        })
        .await;
    }
}

impl Drop for Enrolled {
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

async fn all_gone() {
    poll_fn(|cx| {
        TASKS.with_borrow_mut(|tasks| {
            tasks.emptied = Some(cx.waker().clone());
            if tasks.wakers.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
    })
    .await;
}

/// Connections of all workers; touched when one begins and ends.
struct Seats {
    taken: AtomicUsize,
    limit: usize,
}

struct Seat(Arc<Seats>);

impl Seats {
    fn take(self: &Arc<Self>) -> Option<Seat> {
        let seat = Seat(self.clone());
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        (before < self.limit).then_some(seat) // refused: the seat is given back as it drops
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The life of one worker.
async fn work<H, F>(
    sockets: Vec<BoundSocket>,
    handler: H,
    seats: Arc<Seats>,
    started: mpsc::Sender<io::Result<()>>,
    mut stopped: watch::Receiver<Option<Duration>>,
    cut: Arc<AtomicUsize>,
) where
    H: Fn(Stream, Peer) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    let adopted: io::Result<Vec<Listener>> = sockets.into_iter().map(BoundSocket::adopt).collect();
    let handler = Rc::new(handler);
    match adopted {
        Ok(listeners) => {
            for listener in listeners {
                let service = Service { handler: handler.clone(), seats: seats.clone() };
                task::spawn_local(service.run(listener, Enrolled::new()));
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
    if timer::within(grace.unwrap_or_default(), all_gone()).await.is_none() {
        // They end with this worker's event loop.
        let left = TASKS.with_borrow(|tasks| tasks.wakers.len());
        cut.fetch_add(left, Ordering::Release);
    }
}

/// What one listener needs to serve.
struct Service<H> {
    handler: Rc<H>,
    seats: Arc<Seats>,
}

impl<H, F> Service<H>
where
    H: Fn(Stream, Peer) -> F + 'static,
    F: Future<Output = ()> + 'static,
{
    async fn run(self, listener: Listener, enrolled: Enrolled) {
        enrolled.wakeable().await;
        let mut failed_before = false;
        while let Some(accepted) = until_stopping(listener.accept()).await {
            match accepted {
                Ok(accepted) => {
                    failed_before = false;
                    self.admit(accepted);
                }
                // One error is that connection's; a second in a row would spin.
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
        let Some(seat) = self.seats.take() else { return };
        let (handler, enrolled) = (self.handler.clone(), Enrolled::new());
        task::spawn_local(async move {
            enrolled.wakeable().await;
            handler(accepted.stream, accepted.peer).await;
            drop((seat, enrolled));
        });
    }
}

#[cfg(test)]
mod tests;
