//! One exchange of the client: what a script writes and what it reads of the answer.
//!
//! A request whose body is there when it is sent leaves in one piece with its length; one that is
//! written to leaves as it is written, chunked unless its content-length is given. Promises that
//! the exchange goes on while the script does something else, and that dropping the stream, or
//! closing it, ends the exchange and its connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use coding::Coding;
use exchange::client::{Lease, Pool};
use exchange::{Body, BodyStream, Fault, Frame, Headers, Request};
use net::task::JoinHandle;
use wire::Known;

use super::bell::EventFd;
use super::client::Client;
use super::faults;
use super::feed::Feed;
use super::fields;
use super::input::Input;
use lua_vm::errno;

/// Where the answer stands.
enum Stage {
    /// Connected, and nothing was sent.
    Fresh(Box<Request>, (Lease, Rc<Pool>)),
    Sent(JoinHandle<()>),
    Closed,
}

pub(super) struct Outbound {
    client: Rc<Client>,
    stage: RefCell<Stage>,
    output: Rc<Feed>,
    pub(super) input: Rc<Input>,
    answer: Rc<Answer>,
}

/// What the task of the exchange leaves for the script.
#[derive(Default)]
struct Answer {
    head: RefCell<Option<Result<(u16, Headers), String>>>,
    came: EventFd,
    here: Cell<bool>,
}

impl Answer {
    fn put(&self, head: Result<(u16, Headers), String>) {
        self.head.borrow_mut().get_or_insert(head);
        self.here.set(true);
        self.came.ring();
    }
}

impl Outbound {
    pub(super) fn new(
        client: Rc<Client>,
        request: Box<Request>,
        connection: (Lease, Rc<Pool>),
    ) -> Outbound {
        let output = Feed::default();
        output.declared.set(fields::length(&request.headers));
        Outbound {
            client,
            stage: RefCell::new(Stage::Fresh(request, connection)),
            output: Rc::new(output),
            input: Rc::default(),
            answer: Rc::default(),
        }
    }

    pub(super) fn unsent(&self) -> usize {
        self.output.unsent()
    }

    pub(super) async fn room(&self, at_most: usize) -> bool {
        self.output.room(at_most).await
    }

    /// Writes a piece of the body.
    pub(super) fn write(&self, data: &[u8]) -> Result<(), &'static str> {
        self.output.push(Bytes::copy_from_slice(data))?;
        self.begin();
        Ok(())
    }

    /// The request is whole; false if it was.
    pub(super) fn finish(&self, trailers: Option<Headers>) -> bool {
        let first = !self.output.is_closed();
        self.output.finish(trailers);
        self.begin();
        first
    }

    /// The last piece of the body, or all of it.
    pub(super) fn whole(&self, data: &[u8]) -> Result<(), &'static str> {
        self.output.push(Bytes::copy_from_slice(data))?;
        self.finish(None);
        Ok(())
    }

    /// Who looks for the answer before anything was written has nothing to write.
    pub(super) fn begin_whole(&self) {
        if matches!(*self.stage.borrow(), Stage::Fresh(..)) {
            self.output.finish(None);
        }
        self.begin();
    }

    /// Sends what there is, if that has not begun.
    pub(super) fn begin(&self) {
        let stage = self.stage.replace(Stage::Closed);
        let (request, connection) = match stage {
            Stage::Fresh(request, connection) => (request, connection),
            begun => {
                self.stage.replace(begun);
                return;
            }
        };
        let body = match self.output.take_whole() {
            Some(body) => body,
            None => Body::stream(Written(self.output.clone())),
        };
        let (client, answer, input) =
            (self.client.clone(), self.answer.clone(), self.input.clone());
        let task = net::task::spawn_local(async move {
            match client.send(connection, &request, body).await {
                Err(fault) => {
                    input.end(Err(faults::reason(&fault)));
                    answer.put(Err(faults::reason(&fault)));
                }
                Ok(mut response) => {
                    if !response.body.is_empty() {
                        plain(&mut response.headers, &input);
                    }
                    input.put(response.body);
                    answer.put(Ok((response.status, response.headers)));
                }
            }
        });
        self.stage.replace(Stage::Sent(task));
    }

    /// Waits for the head of the answer.
    pub(super) async fn answered(&self) {
        poll_fn(|cx| {
            if self.answer.here.get() {
                return Poll::Ready(());
            }
            self.answer.came.wait(cx);
            Poll::Pending
        })
        .await;
    }

    /// The head of the answer, once it is there.
    pub(super) fn head<R>(
        &self,
        look: impl FnOnce(&Result<(u16, Headers), String>) -> R,
    ) -> Option<R> {
        self.answer.head.borrow().as_ref().map(look)
    }

    /// Ends the exchange; false if it was ended.
    pub(super) fn close(&self) -> bool {
        let stage = self.stage.replace(Stage::Closed);
        let first = !matches!(stage, Stage::Closed);
        if let Stage::Sent(task) = stage {
            task.abort();
        }
        self.output.abandon();
        self.input.end(Err(errno::CLOSED.to_owned()));
        self.answer.put(Err(errno::CLOSED.to_owned()));
        first
    }
}

impl Drop for Outbound {
    fn drop(&mut self) {
        self.close();
    }
}

/// Has a gzipped answer inflated as it is read, and the head say what will be read.
fn plain(headers: &mut Headers, input: &Input) {
    let coding = headers.get_str(Known::ContentEncoding).and_then(Coding::parse);
    if coding == Some(Coding::Gzip) {
        input.decode(Coding::Gzip);
        headers.remove(Known::ContentEncoding);
        headers.remove(Known::ContentLength);
    }
}

/// The body of a request that is sent as it is written.
struct Written(Rc<Feed>);

impl BodyStream for Written {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        self.0.poll_frame(cx)
    }

    fn length(&self) -> Option<u64> {
        self.0.declared.get()
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
