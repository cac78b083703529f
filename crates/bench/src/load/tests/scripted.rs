//! A server that follows a test's script, with a thread per connection.
//!
//! Promises that the server and its threads have ended when it is dropped.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::load::Address;

/// What is done for one request.
#[derive(Clone)]
pub(in crate::load) enum Act {
    Send(Vec<u8>),
    Wait(Duration),
    /// Waits until the test is over.
    Hang,
    Close,
}

/// Says what to do for a request from its number, counted over all connections, and its bytes up
/// to its end.
type Script = Arc<dyn Fn(usize, &[u8]) -> Vec<Act> + Send + Sync>;

trait Stream: Read + Write + Send {
    fn shut(&self);
}

impl Stream for TcpStream {
    fn shut(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Stream for UnixStream {
    fn shut(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

pub(in crate::load) struct Scripted {
    pub(in crate::load) address: Address,
    pub(in crate::load) accepted: Arc<AtomicUsize>,
    pub(in crate::load) asked: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Scripted {
    /// `end` is what a request ends with.
    pub(in crate::load) fn tcp(
        end: &'static [u8],
        script: impl Fn(usize) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        Self::on_tcp(end, Arc::new(move |number, _| script(number)))
    }

    /// Does something for every line.
    pub(in crate::load) fn lines(
        script: impl Fn(&[u8]) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        Self::on_tcp(b"\r\n", Arc::new(move |_, line| script(line)))
    }

    /// Does something for what is sent, without its end.
    pub(in crate::load) fn with_bytes(
        end: &'static [u8],
        script: impl Fn(&[u8]) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        Self::on_tcp(end, Arc::new(move |_, bytes| script(bytes)))
    }

    fn on_tcp(end: &'static [u8], script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let accept = move || {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(false)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_millis(20)))?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        };
        Self::start(address, end, script, accept)
    }

    pub(in crate::load) fn unix(
        path: PathBuf,
        end: &'static [u8],
        script: impl Fn(usize) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let accept = move || {
            let (stream, _) = listener.accept()?;
            stream.set_nonblocking(false)?;
            stream.set_read_timeout(Some(Duration::from_millis(20)))?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        };
        Self::start(Address::Unix(path), end, Arc::new(move |number, _| script(number)), accept)
    }

    fn start(
        address: Address,
        end: &'static [u8],
        script: Script,
        accept: impl Fn() -> std::io::Result<Box<dyn Stream>> + Send + 'static,
    ) -> Self {
        let (accepted, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let over = Arc::new(AtomicBool::new(false));
        let (counted, number, ended) = (accepted.clone(), asked.clone(), over.clone());
        let accepting = thread::spawn(move || {
            let serving = Mutex::new(Vec::new());
            while !ended.load(Ordering::Relaxed) {
                match accept() {
                    Ok(stream) => {
                        counted.fetch_add(1, Ordering::Relaxed);
                        let (script, number, ended) =
                            (script.clone(), number.clone(), ended.clone());
                        let one =
                            thread::spawn(move || serve(stream, end, &script, &number, &ended));
                        serving.lock().unwrap().push(one);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    Err(error) => panic!("accept: {error}"),
                }
            }
            for one in serving.into_inner().unwrap() {
                one.join().unwrap();
            }
        });
        Self { address, accepted, asked, over, threads: vec![accepting] }
    }

    pub(in crate::load) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed) as u64
    }

    pub(in crate::load) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed) as u64
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn serve(
    mut stream: Box<dyn Stream>,
    end: &[u8],
    script: &Script,
    number: &AtomicUsize,
    over: &AtomicBool,
) {
    let mut received = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while !over.load(Ordering::Relaxed) {
        let count = match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => return,
        };
        let mut from = received.len().saturating_sub(end.len() - 1);
        received.extend_from_slice(&buffer[..count]);
        while let Some(at) = received[from..].windows(end.len()).position(|bytes| bytes == end) {
            let request: Vec<u8> = received.drain(..from + at + end.len()).collect();
            from = 0;
            let request = &request[..request.len() - end.len()];
            for act in script(number.fetch_add(1, Ordering::Relaxed), request) {
                match act {
                    // The client may have gone: the next read tells.
                    Act::Send(bytes) => drop(stream.write_all(&bytes)),
                    Act::Wait(time) => thread::sleep(time),
                    Act::Hang => {
                        while !over.load(Ordering::Relaxed) {
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                    Act::Close => return stream.shut(),
                }
            }
        }
    }
}
