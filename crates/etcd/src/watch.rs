//! A watch that survives the loss of its member.
//!
//! Promises that every event is delivered once and in order; that the events of one revision arrive
//! together; that a stream on which nothing arrives is checked, and replaced if it is dead; and
//! that a watch whose next revision was compacted ends, because events are lost. A watch whose
//! consumer does not call `next` receives no more than the window of its stream.

use std::mem;
use std::rc::Rc;

use message::LocalFuture;
use net::clock::{self, Moment};
use net::timer;
use wire::grpc::Code;

use crate::call;
use crate::client::Etcd;
use crate::error::{EtcdError, is_about_token};
use crate::grpc_stream::{GrpcStream, Outbound, decoded};
use crate::limits::PAUSE_MAX;
use crate::messages::{
    Event, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchRequestKind, WatchResponse,
};

/// The end of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// The next revision does not exist any more; this is the oldest one that does.
    Compacted(i64),
    /// etcd refuses the watch.
    Refused(EtcdError),
}

/// Called when the stream is lost, and with `None` when there is one.
type Observer = Box<dyn Fn(Option<&EtcdError>)>;

/// A stream of events.
pub struct Watch {
    etcd: Rc<Etcd>,
    /// Names the revision that is delivered next, once that is known.
    request: WatchCreateRequest,
    stream: Option<WatchStream>,
    /// Stored, so that waits shorter than a connection takes get there too.
    opening: Option<LocalFuture<'static, Result<WatchStream, EtcdError>>>,
    /// Streams that ended since the last message arrived.
    failures: u32,
    /// True if a token was rejected and no message has arrived since.
    has_renewed: bool,
    /// The beginning of a set of events that arrives in several messages.
    partial: Vec<Event>,
    partial_bytes: usize,
    observer: Option<Observer>,
}

struct WatchStream {
    messages: GrpcStream,
    outbound: Rc<Outbound>,
    member: usize,
    token: Option<Rc<str>>,
    is_created: bool,
    /// True if a sign of life was requested.
    is_checked: bool,
    /// When the last message arrived, or a sign of life was requested.
    quiet_since: Moment,
}

/// What a message means for the watch.
enum WatchStep {
    Deliver(WatchResponse),
    Continue,
    /// The stream is replaced.
    Lost(EtcdError),
    End(WatchError),
}

impl Watch {
    /// Watches from `request.start_revision` on, or from the time the watch is first polled.
    pub fn new(etcd: Rc<Etcd>, request: WatchCreateRequest) -> Watch {
        let request = WatchCreateRequest { watch_id: 0, fragment: true, ..request };
        Watch {
            etcd,
            request,
            stream: None,
            opening: None,
            failures: 0,
            has_renewed: false,
            partial: Vec::new(),
            partial_bytes: 0,
            observer: None,
        }
    }

    /// Calls `observer` with the error when the stream is lost, and with `None` when there is one.
    #[must_use]
    pub fn with_observer(self, observer: impl Fn(Option<&EtcdError>) + 'static) -> Watch {
        Watch { observer: Some(Box::new(observer)), ..self }
    }

    /// The first revision that was not delivered; 0 before the watch was created.
    pub fn next_revision(&self) -> i64 {
        self.request.start_revision
    }

    /// Waits until etcd has created the watch: later events are delivered.
    pub async fn created(&mut self) -> Result<(), WatchError> {
        while !self.stream.as_ref().is_some_and(|stream| stream.is_created) {
            // Nothing is delivered before the watch is created.
            self.step().await?;
        }
        Ok(())
    }

    /// The next events, or a revision without any if `progress_notify` is set. After an error the
    /// watch is over. Dropping the future loses no event.
    pub async fn next(&mut self) -> Result<WatchResponse, WatchError> {
        loop {
            if let Some(response) = self.step().await? {
                return Ok(response);
            }
        }
    }

    async fn step(&mut self) -> Result<Option<WatchResponse>, WatchError> {
        let step = match &self.stream {
            Some(_) => self.receive().await,
            None => match self.connect().await {
                Ok(()) => WatchStep::Continue,
                Err(error) => WatchStep::Lost(error),
            },
        };
        match step {
            WatchStep::Deliver(response) => Ok(Some(response)),
            WatchStep::Continue => Ok(None),
            WatchStep::Lost(error) => self.lost(error).map(|()| None),
            WatchStep::End(error) => {
                self.stream = None;
                Err(error)
            }
        }
    }

    /// Opens a stream that has not created the watch yet.
    async fn connect(&mut self) -> Result<(), EtcdError> {
        let opening = self.opening.get_or_insert_with(|| {
            Box::pin(open(self.etcd.clone(), self.request.clone(), self.failures))
        });
        let opened = opening.await;
        self.opening = None;
        self.stream = Some(opened?);
        Ok(())
    }

    /// Receives one message, or notices that there is none.
    async fn receive(&mut self) -> WatchStep {
        let Some(stream) = &mut self.stream else { return WatchStep::Continue };
        let settings = &self.etcd.settings;
        let longest = if stream.is_created { settings.silence } else { settings.timeout };
        // Counted over all calls: a caller may wait for less each time.
        let left = stream.quiet_since.after(longest).since(clock::now());
        let message = match timer::within(left, stream.messages.next()).await {
            None if stream.is_checked || !stream.is_created => {
                return WatchStep::Lost(EtcdError::new(Code::DeadlineExceeded, "no sign of life"));
            }
            None => {
                (stream.is_checked, stream.quiet_since) = (true, clock::now());
                let progress = WatchRequestKind::Progress(WatchProgressRequest {});
                stream.outbound.send(&WatchRequest { request: Some(progress) });
                return WatchStep::Continue;
            }
            Some(Ok(Some(message))) => message,
            Some(Ok(None)) => {
                return WatchStep::Lost(EtcdError::new(Code::Unavailable, "the watch was ended"));
            }
            Some(Err(error)) => return WatchStep::Lost(error),
        };
        (stream.is_checked, stream.quiet_since) = (false, clock::now());
        let length = message.len();
        match decoded::<WatchResponse>(message) {
            Ok(response) => self.handle(response, length),
            Err(error) => WatchStep::Lost(error),
        }
    }

    fn handle(&mut self, mut response: WatchResponse, length: usize) -> WatchStep {
        if response.canceled {
            return self.canceled(&response);
        }
        let revision = response.header.map_or(0, |header| header.revision);
        if response.created {
            if let Some(stream) = &mut self.stream {
                stream.is_created = true;
            }
            (self.failures, self.has_renewed) = (0, false);
            if self.request.start_revision == 0 {
                self.request.start_revision = revision + 1;
            }
            self.observe(None);
            return WatchStep::Continue;
        }
        self.partial_bytes += length;
        if self.partial_bytes > self.etcd.settings.message_bytes {
            let why = "the events of a revision are larger than the limit of a message";
            return WatchStep::End(WatchError::Refused(EtcdError::new(
                Code::ResourceExhausted,
                why,
            )));
        }
        self.partial.append(&mut response.events);
        if response.fragment {
            return WatchStep::Continue;
        }
        self.partial_bytes = 0;
        response.events = mem::take(&mut self.partial);
        self.delivered(response, revision)
    }

    fn delivered(&mut self, response: WatchResponse, revision: i64) -> WatchStep {
        let last = response.events.iter().filter_map(|event| event.kv.as_ref()).last();
        match last {
            Some(kv) => self.request.start_revision = kv.mod_revision + 1,
            // The response to a request for a sign of life is for the stream, not for this watch.
            // Before 3.4.25 it could be ahead of the events.
            None if response.watch_id != 0 || !self.request.progress_notify => {
                return WatchStep::Continue;
            }
            None => {
                let next = self.request.start_revision.max(revision + 1);
                self.request.start_revision = next;
            }
        }
        WatchStep::Deliver(response)
    }

    fn canceled(&self, response: &WatchResponse) -> WatchStep {
        if response.compact_revision > 0 {
            return WatchStep::End(WatchError::Compacted(response.compact_revision));
        }
        let reason = &response.cancel_reason;
        // A revoked permission is reported without a reason.
        let (code, reason) = match reason.as_str() {
            "" => (Code::PermissionDenied, "permission denied"),
            reason if is_about_token(reason) => (Code::Unauthenticated, reason),
            reason if reason.contains("permission denied") => (Code::PermissionDenied, reason),
            reason => (Code::Unavailable, reason),
        };
        let error = EtcdError::new(code, reason);
        if code == Code::PermissionDenied {
            return WatchStep::End(WatchError::Refused(error));
        }
        WatchStep::Lost(error)
    }

    /// Gives the stream up; an error ends the watch.
    fn lost(&mut self, error: EtcdError) -> Result<(), WatchError> {
        self.partial.clear();
        self.partial_bytes = 0;
        let stream = self.stream.take();
        self.observe(Some(&error));
        if error.wants_token() && !self.has_renewed && self.etcd.settings.credentials.is_some() {
            self.has_renewed = true;
            self.etcd.forget_token(stream.and_then(|stream| stream.token).as_deref());
            return Ok(());
        }
        let refused = matches!(
            error.code,
            Code::Unauthenticated
                | Code::PermissionDenied
                | Code::InvalidArgument
                | Code::ResourceExhausted
        );
        if refused {
            return Err(WatchError::Refused(error));
        }
        if let Some(stream) = stream {
            self.etcd.members.leave(stream.member);
        }
        self.failures = self.failures.saturating_add(1);
        Ok(())
    }

    fn observe(&self, error: Option<&EtcdError>) {
        if let Some(observer) = &self.observer {
            observer(error);
        }
    }
}

/// Opens a stream and requests a watch, after a pause if others have failed.
async fn open(
    etcd: Rc<Etcd>,
    request: WatchCreateRequest,
    failures: u32,
) -> Result<WatchStream, EtcdError> {
    if failures > 0 {
        timer::sleep(timer::pause(etcd.settings.pause, PAUSE_MAX, failures - 1)).await;
    }
    let timeout = etcd.settings.timeout;
    let token = etcd.token(clock::now().after(timeout)).await?;
    let member = etcd.members.current();
    let outbound = Rc::new(Outbound::default());
    outbound.send(&WatchRequest { request: Some(WatchRequestKind::Create(request)) });
    let url = &etcd.settings.endpoints[member];
    let begin = etcd.begin(url, call::WATCH, outbound.body(), token.as_deref(), None);
    let begun = timer::within(timeout, begin).await.unwrap_or_else(|| Err(EtcdError::late()));
    let messages = begun.inspect_err(|_| etcd.members.leave(member))?;
    Ok(WatchStream {
        messages,
        outbound,
        member,
        token,
        is_created: false,
        is_checked: false,
        quiet_since: clock::now(),
    })
}
