//! One exchange of the client: a script's request and its response.
//!
//! A request whose body is complete is sent in one piece with its length; otherwise the body is
//! sent as it is written, chunked unless its content-length is given. Promises that the exchange
//! continues while the script does something else, and that dropping the stream, or closing it,
//! ends the exchange and its connection.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use coding::Coding;
use http_client::{Client, ClientConnection};
use message::{Body, BodyStream, Fault, Frame, Headers, Request};
use net::task::JoinHandle;
use wire::Known;

use super::body_reader::BodyReader;
use super::body_writer::BodyWriter;
use super::faults;
use super::fields;
use super::waker_set::WakerSet;
use lua_vm::errno;

/// The stage of the exchange.
enum ClientStage {
    /// Connected; nothing was sent.
    Fresh(Box<Request>, ClientConnection),
    Sent(JoinHandle<()>),
    Closed,
}

pub(super) struct ClientExchange {
    client: Rc<Client>,
    stage: RefCell<ClientStage>,
    output: Rc<BodyWriter>,
    pub(super) input: Rc<BodyReader>,
    answer: Rc<ResponseHead>,
    pub(super) address: SocketAddr,
    pub(super) is_http2: bool,
}

/// The result of the exchange's task, for the script.
#[derive(Default)]
struct ResponseHead {
    head: RefCell<Option<Result<(u16, Headers), String>>>,
    came: WakerSet,
    here: Cell<bool>,
}

impl ResponseHead {
    fn put(&self, head: Result<(u16, Headers), String>) {
        self.head.borrow_mut().get_or_insert(head);
        self.here.set(true);
        self.came.wake_all();
    }
}

impl ClientExchange {
    pub(super) fn new(
        client: Rc<Client>,
        request: Box<Request>,
        connection: ClientConnection,
    ) -> ClientExchange {
        let output = BodyWriter::default();
        output.declared.set(fields::length(&request.headers));
        ClientExchange {
            address: connection.address(),
            is_http2: connection.is_http2(),
            client,
            stage: RefCell::new(ClientStage::Fresh(request, connection)),
            output: Rc::new(output),
            input: Rc::default(),
            answer: Rc::default(),
        }
    }

    pub(super) fn unsent(&self) -> usize {
        self.output.unsent()
    }

    pub(super) async fn wait_for_room(&self, at_most: usize) -> bool {
        self.output.wait_for_room(at_most).await
    }

    /// Writes a piece of the body.
    pub(super) fn write(&self, data: &[u8]) -> Result<(), &'static str> {
        self.output.push(Bytes::copy_from_slice(data))?;
        self.begin();
        Ok(())
    }

    /// Ends the request; false if it had ended.
    pub(super) fn finish(&self, trailers: Option<Headers>) -> bool {
        let first = !self.output.is_closed();
        self.output.finish(trailers);
        self.begin();
        first
    }

    /// Writes the last piece of the body, or all of it.
    pub(super) fn write_last(&self, data: &[u8]) -> Result<(), &'static str> {
        self.output.push(Bytes::copy_from_slice(data))?;
        self.finish(None);
        Ok(())
    }

    /// A script that waits for the response before it wrote anything has no body.
    pub(super) fn begin_whole(&self) {
        if matches!(*self.stage.borrow(), ClientStage::Fresh(..)) {
            self.output.finish(None);
        }
        self.begin();
    }

    /// Starts the exchange, if it has not begun.
    pub(super) fn begin(&self) {
        let stage = self.stage.replace(ClientStage::Closed);
        let (request, connection) = match stage {
            ClientStage::Fresh(request, connection) => (request, connection),
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
        self.stage.replace(ClientStage::Sent(task));
    }

    /// Waits for the head of the response.
    pub(super) async fn wait_for_head(&self) {
        poll_fn(|cx| {
            if self.answer.here.get() {
                return Poll::Ready(());
            }
            self.answer.came.wait(cx);
            Poll::Pending
        })
        .await;
    }

    /// The head of the response, once it was received.
    pub(super) fn head<R>(
        &self,
        look: impl FnOnce(&Result<(u16, Headers), String>) -> R,
    ) -> Option<R> {
        self.answer.head.borrow().as_ref().map(look)
    }

    pub(super) fn is_open(&self) -> bool {
        !matches!(*self.stage.borrow(), ClientStage::Closed)
    }

    /// Ends the exchange; false if it had ended.
    pub(super) fn close(&self) -> bool {
        let stage = self.stage.replace(ClientStage::Closed);
        let first = !matches!(stage, ClientStage::Closed);
        if let ClientStage::Sent(task) = stage {
            task.abort();
        }
        self.output.abandon();
        self.input.end(Err(errno::CLOSED.to_owned()));
        self.answer.put(Err(errno::CLOSED.to_owned()));
        first
    }
}

impl Drop for ClientExchange {
    fn drop(&mut self) {
        self.close();
    }
}

/// Decompresses a gzipped response as it is read, and adjusts its head.
fn plain(headers: &mut Headers, input: &BodyReader) {
    let coding = headers.get_str(Known::ContentEncoding).and_then(Coding::parse);
    if coding == Some(Coding::Gzip) {
        input.decode(Coding::Gzip);
        headers.remove(Known::ContentEncoding);
        headers.remove(Known::ContentLength);
    }
}

/// The body of a request that is sent as it is written.
struct Written(Rc<BodyWriter>);

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
