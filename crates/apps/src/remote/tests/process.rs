//! A process simulated by a thread that accepts frames and has an application.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use message::{Fault, FaultKind, Frame, Headers};
use net::{Bind, FileRange, ListenOptions, Listening};
use offload::{Arrival, OffloadedRequest, wait};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::sessions::ws_session;
use super::*;
use crate::frames::serve;

static NUMBER: AtomicU64 = AtomicU64::new(0);

enum TestCommand {
    Drain,
    Die,
}

pub(super) struct Process {
    path: PathBuf,
    number: u64,
    commands: UnboundedSender<TestCommand>,
    loops: Option<JoinHandle<()>>,
    seen: Arc<AtomicUsize>,
    said: RefCell<UnboundedReceiver<&'static str>>,
}

impl Process {
    pub(super) fn start() -> Process {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate-frames-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listening = Listening::bind(&Bind::Unix(path.clone()), 1, &ListenOptions::default());
        let (says, said) = unbounded_channel();
        let talk_says = says.clone();
        let (queue, exchanges) = mpsc::channel::<OffloadedRequest>();
        std::thread::spawn(move || Application { says, gathered: Vec::new() }.answer(exchanges));
        let seen = Arc::new(AtomicUsize::new(0));
        let (commands, mut ordered) = unbounded_channel();
        let (counted, socket) = (seen.clone(), listening.unwrap().into_sockets().remove(0));
        let main = move || async move {
            let sink = move |arrival| {
                counted.fetch_add(1, Ordering::SeqCst);
                match arrival {
                    Arrival::Exchange(handed) => queue.send(*handed).map_err(|_| OfferError::Full),
                    Arrival::Session(handed) => {
                        let says = talk_says.clone();
                        std::thread::spawn(move || ws_session(*handed, &says));
                        Ok(())
                    }
                }
            };
            let serving = serve(socket.adopt().unwrap(), sink, LIMITS);
            match ordered.recv().await {
                Some(TestCommand::Drain) => serving.drain().await,
                Some(TestCommand::Die) | None => {}
            }
        };
        let loops = net::worker::spawn(format!("process-{number}"), None, main).unwrap();
        Process { path, number, commands, loops: Some(loops), seen, said: RefCell::new(said) }
    }

    pub(super) fn slot(&self) -> LiveWorker {
        LiveWorker { slot: self.number as u32, generation: 1, path: self.path.clone() }
    }

    /// Number of received exchanges.
    pub(super) fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// The next event of the application.
    pub(super) async fn said(&self) -> &'static str {
        let next = std::future::poll_fn(|cx| self.said.borrow_mut().poll_recv(cx));
        net::timer::within(Duration::from_secs(30), next).await.flatten().unwrap()
    }

    /// Closes all connections.
    pub(super) fn die(&mut self) {
        let _ = self.commands.send(TestCommand::Die);
        self.join();
    }

    pub(super) fn begin_to_drain(&self) {
        let _ = self.commands.send(TestCommand::Drain);
    }

    /// True if it has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.loops.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Pending for the end of it.
    fn join(&mut self) {
        if let Some(thread) = self.loops.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.die();
        let _ = std::fs::remove_file(&self.path);
    }
}

struct Application {
    says: UnboundedSender<&'static str>,
    gathered: Vec<(OffloadedRequest, Vec<u8>)>,
}

impl Application {
    fn answer(mut self, exchanges: Receiver<OffloadedRequest>) {
        for handed in exchanges {
            let path = handed.head.target.path().to_owned();
            if let Some(many) = path.strip_prefix("/buffer/") {
                self.buffer(handed, many.parse().unwrap());
            } else {
                let says = self.says.clone();
                // A waiting one must not delay the others.
                std::thread::spawn(move || one(&path, handed, &says));
            }
        }
    }

    /// Responds to this many together, in reverse order.
    fn buffer(&mut self, mut handed: OffloadedRequest, many: usize) {
        let body = read(&mut handed);
        self.gathered.push((handed, body));
        if self.gathered.len() == many {
            for (handed, body) in self.gathered.drain(..).rev() {
                handed.answer.respond(200, Headers::new(), body);
            }
        }
    }
}

/// The content of a file of this length.
pub(super) fn content(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn read(handed: &mut OffloadedRequest) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(Ok(frame)) = wait(handed.body.frame()) {
        if let Frame::Data(data) = frame {
            body.extend_from_slice(&data);
        }
    }
    body
}

fn one(path: &str, mut handed: OffloadedRequest, says: &UnboundedSender<&'static str>) {
    let mut headers = Headers::new();
    headers.append("x-host", handed.head.headers.get("host").unwrap());
    match path {
        "/echo" => {
            let body = read(&mut handed);
            handed.answer.set_reason(Some(b"Fine".as_slice().into()));
            handed.answer.respond(200, headers, body);
        }
        "/strict" => {
            let next = wait(handed.body.frame()).unwrap();
            handed.answer.fail(next.err().unwrap());
        }
        "/ignore" => handed.answer.respond(202, headers, ""),
        "/early" => {
            handed.answer.inform(103, headers);
            handed.answer.respond(204, Headers::new(), "");
        }
        "/fail" => {
            let fault = Fault::new(FaultKind::AppFull, "on purpose");
            handed.answer.fail(Fault { retry_after_s: Some(3), ..fault });
        }
        "/break" => {
            let mut sending = handed.answer.stream(200, headers, Some(10));
            wait(sending.send("half")).unwrap();
        }
        "/stream" | "/trailers" => {
            let mut sending = handed.answer.stream(200, headers, None);
            while let Some(frame) = wait(handed.body.frame()) {
                wait(std::future::poll_fn(|cx| sending.poll_ready(cx))).unwrap();
                sending.push(frame.unwrap());
            }
            let mut trailers = Headers::new();
            trailers.append("x-sum", "1");
            sending.finish((path == "/trailers").then_some(trailers));
        }
        "/file" => {
            // The query has the length of the file, and what is wrong with it.
            let query = String::from_utf8(handed.head.target.query().unwrap().to_vec()).unwrap();
            let (length, wrong) = query.split_once(',').unwrap();
            let length: u64 = length.parse().unwrap();
            let mut file = net::anonymous_file(&std::env::temp_dir()).unwrap();
            let there = if wrong == "truncated" { length - 1 } else { length };
            std::io::Write::write_all(&mut file, &content(there)).unwrap();
            if wrong == "device" {
                file = std::fs::File::open("/dev/zero").unwrap();
            }
            let mut sending = handed.answer.stream(200, headers, None);
            wait(sending.send("head")).unwrap();
            let range = FileRange { file: file.into(), offset: 1, length: length - 1 };
            sending.push(Frame::File(range));
            wait(sending.send("tail")).unwrap_or_default();
            sending.finish(None);
        }
        "/hold" => {
            says.send("held").unwrap();
            wait(handed.answer.unwanted());
            says.send("unwanted").unwrap();
        }
        "/hold-streaming" => {
            let mut sending = handed.answer.stream(200, headers, None);
            wait(std::future::poll_fn(|cx| sending.poll_unwanted(cx)));
            says.send("unwanted").unwrap();
        }
        "/endless" => {
            let mut sending = handed.answer.stream(200, headers, None);
            while wait(sending.send(vec![b'x'; 1000])).is_ok() {}
            says.send("unwanted").unwrap();
        }
        _ => drop(handed),
    }
}
