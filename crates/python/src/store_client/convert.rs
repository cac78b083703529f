//! Converts Python values to commands and replies to Python values.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyList, PyString, PyTuple};
use store::{CallResult, Message, QueueClosed, Reply, Request, StoreError as ClientError};

create_exception!(tidegate, StoreError, PyException, "The shared store did not reply.");
create_exception!(
    tidegate,
    SlowSubscriber,
    StoreError,
    "The queue of a subscriber was full: it was dropped."
);
create_exception!(
    tidegate,
    LostMessages,
    StoreError,
    "The connection to the shared store broke: messages may have been missed."
);

/// Encodes commands, each a tuple of `bytes`, `str` and `int`.
pub(super) fn request(commands: &Bound<'_, PyTuple>) -> PyResult<Request> {
    let mut request = Request::default();
    for command in commands.iter_borrowed() {
        let arguments = command.cast::<PyTuple>()?;
        request.begin(arguments.len());
        for argument in arguments.iter_borrowed() {
            if let Ok(text) = argument.cast::<PyString>() {
                request.argument(text.to_str()?.as_bytes());
            } else if let Ok(bytes) = argument.cast::<PyBytes>() {
                request.argument(bytes.as_bytes());
            } else if let Ok(id) = argument.cast::<PyInt>() {
                let id: i64 = id.extract()?;
                request.argument(id.to_string().as_bytes());
            } else {
                let name = argument.get_type().name()?;
                return Err(PyTypeError::new_err(format!(
                    "{name} is not a valid argument of a command"
                )));
            }
        }
    }
    Ok(request)
}

/// Returns a list of replies, or raises the first error.
pub(super) fn replies<'py>(py: Python<'py>, result: CallResult) -> PyResult<Bound<'py, PyList>> {
    let replies = result.map_err(failure)?;
    let list = PyList::empty(py);
    for reply in replies {
        list.append(reply_value(py, reply)?)?;
    }
    Ok(list)
}

fn reply_value(py: Python<'_>, reply: Reply) -> PyResult<Bound<'_, PyAny>> {
    Ok(match reply {
        Reply::Nothing => py.None().into_bound(py),
        Reply::Ok => PyBool::new(py, true).to_owned().into_any(),
        Reply::Integer(id) => PyInt::new(py, id).into_any(),
        Reply::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Reply::Text(text) => string(py, &text).into_any(),
        Reply::Refused(why) => {
            let why = why.strip_prefix("ERR ").unwrap_or(&why).to_owned();
            return Err(PyValueError::new_err(why));
        }
        Reply::List(replies) => list_of_replies(py, replies)?.into_any(),
        Reply::Push(_) => return Err(PyRuntimeError::new_err("unexpected out-of-band reply")),
    })
}

fn list_of_replies(py: Python<'_>, replies: Vec<Reply>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for reply in replies {
        list.append(reply_value(py, reply)?)?;
    }
    Ok(list)
}

/// Tidegate's store checks that text is UTF-8; another server may not.
fn string<'py>(py: Python<'py>, text: &[u8]) -> Bound<'py, PyString> {
    PyString::new(py, &String::from_utf8_lossy(text))
}

/// Returns the channel and the payload.
pub(super) fn message(py: Python<'_>, message: Message) -> PyResult<Bound<'_, PyTuple>> {
    let channel = String::from_utf8_lossy(&message.channel);
    let payload = if message.text {
        string(py, &message.payload).into_any()
    } else {
        PyBytes::new(py, &message.payload).into_any()
    };
    PyTuple::new(py, [PyString::new(py, &channel).into_any(), payload])
}

pub(super) fn failure(failure: ClientError) -> PyErr {
    match failure {
        ClientError::Refused(why) => PyValueError::new_err(why),
        failure => StoreError::new_err(failure.to_string()),
    }
}

/// The exception for a closed queue; `None` if the subscriber closed it itself.
pub(super) fn queue_closed(why: QueueClosed) -> Option<PyErr> {
    match why {
        QueueClosed::Left => None,
        QueueClosed::TooSlow => Some(SlowSubscriber::new_err(
            "this subscriber was too slow: more than 4 MiB of messages waited, so it was dropped",
        )),
        QueueClosed::Lost => Some(LostMessages::new_err(
            "the connection to the shared store was lost: messages may have been missed",
        )),
    }
}
