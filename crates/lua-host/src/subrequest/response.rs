//! The response to a subrequest, until its content is read, forwarded or dropped.
//!
//! Promises that a small response is received at once, which frees its connection; that a larger
//! one is received as it is read or forwarded; that reading is limited, also after decompression;
//! and that content that was read can still be forwarded as it was received.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use coding::{Coding, Decode, decode_all};
use message::{Body, Frame, HandlerResult, Headers, Response};
use mlua::{Error, IntoLuaMulti, Lua, MultiValue, Result, Table, UserData, UserDataRef, Value};
use net::FileRange;
use wire::Known;

use crate::limits::{DECODED_HERE_BYTES, SUBREQUEST_RATIO, SUBREQUEST_WHOLE_BYTES};
use lua_std::http::{fields, reason};
use lua_vm::limits::BODY_BYTES;

const TOO_LARGE: &str = "body too large";

/// The userdata of a response.
#[derive(Clone)]
pub(crate) struct SubrequestResponse(Rc<StoredResponse>);

struct StoredResponse {
    status: u16,
    headers: Headers,
    stage: RefCell<BodyStage>,
}

/// The stage of the content.
enum BodyStage {
    Unread(Body),
    Reading,
    Whole(Bytes),
    Lost(String),
}

/// The result of sending a subrequest, or of reading its response.
pub(crate) enum SubrequestResult {
    Response(SubrequestResponse),
    /// The content of a response.
    Content(Bytes),
    /// The reason of the failure, and its status; 0 if it has none.
    Failed(String, u16),
}

impl IntoLuaMulti for SubrequestResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self {
            SubrequestResult::Response(response) => {
                let headers = fields::to_table(lua, &response.0.headers)?;
                (response.0.status, headers, response).into_lua_multi(lua)
            }
            SubrequestResult::Content(bytes) => lua.create_string(&bytes)?.into_lua_multi(lua),
            SubrequestResult::Failed(reason, 0) => (Value::Nil, reason).into_lua_multi(lua),
            SubrequestResult::Failed(reason, status) => {
                (Value::Nil, reason, status).into_lua_multi(lua)
            }
        }
    }
}

impl UserData for SubrequestResponse {}

/// Converts an outcome to a result for the script.
pub(crate) async fn of(outcome: HandlerResult) -> SubrequestResult {
    let response = match outcome {
        Ok(response) => response,
        Err(fault) => return SubrequestResult::Failed(reason(&fault), fault.status),
    };
    let small = response.body.length().is_some_and(|length| length <= SUBREQUEST_WHOLE_BYTES);
    let stage = if small {
        match collect(response.body, SUBREQUEST_WHOLE_BYTES).await {
            Ok(bytes) => BodyStage::Whole(bytes),
            Err(reason) => BodyStage::Lost(reason),
        }
    } else {
        BodyStage::Unread(response.body)
    };
    let stage = RefCell::new(stage);
    let Response { status, headers, .. } = response;
    SubrequestResult::Response(SubrequestResponse(Rc::new(StoredResponse {
        status,
        headers,
        stage,
    })))
}

impl SubrequestResponse {
    /// The response as it was received, for forwarding.
    pub(crate) fn response(&self) -> std::result::Result<Response, String> {
        let mut stage = self.0.stage.borrow_mut();
        let body = match &mut *stage {
            BodyStage::Whole(bytes) => Body::from(bytes.clone()),
            BodyStage::Reading => return Err("the response is being read".to_owned()),
            BodyStage::Lost(reason) => {
                return Err(format!("the response is not available: {reason}"));
            }
            BodyStage::Unread(body) => {
                let body = std::mem::take(body);
                *stage = BodyStage::Lost("it was forwarded".to_owned());
                body
            }
        };
        let mut response = Response::new(self.0.status);
        response.headers = self.0.headers.clone();
        response.body = body;
        Ok(response)
    }

    /// Receives the unread content and decompresses it.
    pub(super) async fn read(&self, limit: u64) -> std::result::Result<Bytes, String> {
        let stage = self.0.stage.replace(BodyStage::Reading);
        let whole = match stage {
            BodyStage::Unread(body) => collect(body, limit).await,
            BodyStage::Whole(bytes) => Ok(bytes),
            BodyStage::Reading => Err("the response is being read".to_owned()),
            BodyStage::Lost(reason) => Err(reason),
        };
        *self.0.stage.borrow_mut() = match &whole {
            Ok(bytes) => BodyStage::Whole(bytes.clone()),
            Err(reason) => BodyStage::Lost(reason.clone()),
        };
        let whole = whole?;
        let Some(coding) = self.coding() else { return Ok(whole) };
        if whole.len() <= DECODED_HERE_BYTES {
            return decoded(coding, &whole, limit);
        }
        let work = net::blocking(move || decoded(coding, &whole, limit));
        work.await.map_err(|error| error.to_string())?
    }

    /// The content coding, if there is one only and it is supported.
    fn coding(&self) -> Option<Coding> {
        let mut codings = self.0.headers.get_all(Known::ContentEncoding);
        let first = codings.next().and_then(|value| std::str::from_utf8(value).ok());
        first.filter(|_| codings.next().is_none()).and_then(|token| Coding::parse(token.trim()))
    }
}

/// All of a body, at most `limit` bytes.
async fn collect(mut body: Body, limit: u64) -> std::result::Result<Bytes, String> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let data = match frame.map_err(|fault| reason(&fault))? {
            Frame::Trailers(_) => continue,
            Frame::Data(data) => data,
            Frame::File(range) if range.length > limit => return Err(TOO_LARGE.to_owned()),
            Frame::File(range) => of_file(range).await?,
        };
        if (whole.len() + data.len()) as u64 > limit {
            return Err(TOO_LARGE.to_owned());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

async fn of_file(range: FileRange) -> std::result::Result<Bytes, String> {
    let read = net::blocking(move || {
        use std::os::unix::fs::FileExt;
        let mut bytes = vec![0; usize::try_from(range.length).unwrap_or(usize::MAX)];
        range.file.read_exact_at(&mut bytes, range.offset).map(|()| bytes)
    });
    let outcome = read.await.and_then(|read| read);
    outcome.map(Bytes::from).map_err(|error| lua_vm::errno::of_error(&error))
}

fn decoded(coding: Coding, encoded: &[u8], limit: u64) -> std::result::Result<Bytes, String> {
    let allowed = Decode { output_bytes: limit, ratio: SUBREQUEST_RATIO };
    decode_all(coding, encoded, allowed).map(Bytes::from).map_err(|error| error.to_string())
}

pub(super) fn limit_of(limit: Option<i64>) -> Result<u64> {
    let limit = limit.unwrap_or(BODY_BYTES as i64);
    let wrong = || Error::runtime("bad argument #1 to 'read' (a number of bytes expected)");
    u64::try_from(limit).map_err(|_| wrong())
}

/// Adds `take` and `close`.
pub(crate) fn add(lua: &Lua, raw: &Table) -> Result<()> {
    raw.set("take", lua.create_function(take)?)?;
    let close = |_: &Lua, content: UserDataRef<SubrequestResponse>| {
        let mut stage = content.0.stage.borrow_mut();
        let open = matches!(*stage, BodyStage::Unread(_));
        if open {
            *stage = BodyStage::Lost("it was closed".to_owned());
        }
        Ok(open)
    };
    raw.set("close", lua.create_function(close)?)
}

/// `take(content, limit) → text | nil, err`, or nothing if the caller has to wait.
fn take(
    lua: &Lua,
    (content, limit): (UserDataRef<SubrequestResponse>, Option<i64>),
) -> Result<MultiValue> {
    let limit = limit_of(limit)?;
    let refuse = |reason: &str| (Value::Nil, reason).into_lua_multi(lua);
    let whole = match &*content.0.stage.borrow() {
        BodyStage::Unread(_) => return Ok(MultiValue::new()),
        BodyStage::Reading => return refuse("the response is being read"),
        BodyStage::Lost(reason) => return refuse(reason),
        BodyStage::Whole(bytes) => bytes.clone(),
    };
    let plain = match content.coding() {
        Some(_) if whole.len() > DECODED_HERE_BYTES => return Ok(MultiValue::new()),
        Some(coding) => decoded(coding, &whole, limit),
        None if whole.len() as u64 > limit => Err(TOO_LARGE.to_owned()),
        None => Ok(whole),
    };
    match plain {
        Ok(bytes) => lua.create_string(&bytes)?.into_lua_multi(lua),
        Err(reason) => refuse(&reason),
    }
}
