//! A response body that passes through a filter's function `body`.
//!
//! Promises that pieces are read only as the client takes them. The function cannot wait.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use lua_vm::calls::{self, RunningVm};
use message::{Body, BodyStream, Fault, FileReader, Frame, Headers, Response};
use mlua::{Function, Lua, Value};
use wire::Known;

use lua_vm::TaskEnd;

/// A body and the function it passes through.
pub(crate) struct FilteredBody {
    body: Body,
    /// A file of the body that is being read.
    file: Option<FileReader>,
    running: Rc<RunningVm>,
    function: Function,
    budget: u64,
    trailers: Option<Headers>,
    ended: bool,
}

impl FilteredBody {
    /// Sends a response's content through the function.
    pub(crate) fn put(
        running: &Rc<RunningVm>,
        function: &Function,
        budget: u64,
        response: &mut Response,
    ) {
        // These describe the content before the function (RFC 9110 8.6, 8.8.3).
        for name in [Known::ContentLength, Known::Etag, Known::AcceptRanges] {
            response.headers.remove(name);
        }
        response.body = Body::stream(FilteredBody {
            body: std::mem::take(&mut response.body),
            file: None,
            running: running.clone(),
            function: function.clone(),
            budget,
            trailers: None,
            ended: false,
        });
    }

    /// Calls the function with a piece; returns its result.
    fn through(&self, piece: Option<&[u8]>) -> Result<Bytes, Fault> {
        let vm = self.running.vm();
        let said: Rc<RefCell<Option<Result<Bytes, Fault>>>> = Rc::default();
        let ended = said.clone();
        let ended = move |_: &Lua, end: TaskEnd| {
            *ended.borrow_mut() = Some(match end {
                TaskEnd::Returned(values) => bytes(values.front()),
                TaskEnd::Failed(_) => Err(calls::failed()),
            });
        };
        let piece = piece.map(|piece| vm.lua().create_string(piece)).transpose();
        let started = piece.and_then(|piece| {
            let outcome = vm.turn(|turn| {
                turn.set_budget(self.budget);
                turn.start(&self.function, piece, Some(Box::new(ended)))
            });
            outcome.unwrap_or(Ok(()))
        });
        self.running.check_memory();
        if started.is_err() {
            return Err(calls::failed());
        }
        let said = said.borrow_mut().take();
        said.unwrap_or_else(|| Err(Fault::internal("the function body of a filter cannot wait")))
    }
}

fn bytes(value: Option<&Value>) -> Result<Bytes, Fault> {
    match value {
        None | Some(Value::Nil) => Ok(Bytes::new()),
        Some(Value::String(text)) => Ok(Bytes::copy_from_slice(&text.as_bytes())),
        Some(_) => Err(Fault::internal("the function body of a filter returns strings")),
    }
}

impl BodyStream for FilteredBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        while !self.ended {
            let next = match &mut self.file {
                None => ready!(self.body.poll_frame(cx)),
                Some(file) => match ready!(file.poll_piece(cx)) {
                    Some(piece) => Some(piece.map(Frame::Data)),
                    None => {
                        self.file = None;
                        continue;
                    }
                },
            };
            let said = match next {
                Some(Ok(Frame::Data(piece))) => self.through(Some(&piece)),
                Some(Ok(Frame::Trailers(trailers))) => {
                    self.trailers = Some(trailers);
                    continue;
                }
                Some(Ok(Frame::File(range))) => {
                    self.file = Some(FileReader::new(range));
                    continue;
                }
                Some(Err(fault)) => Err(fault),
                None => {
                    self.ended = true;
                    self.through(None)
                }
            };
            match said {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Poll::Ready(Some(Ok(Frame::Data(piece)))),
                Err(fault) => {
                    self.ended = true;
                    self.trailers = None;
                    return Poll::Ready(Some(Err(fault)));
                }
            }
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::Trailers(trailers))))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
