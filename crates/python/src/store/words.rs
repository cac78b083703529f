//! Commands from Python's values, and Python's values from answers.

use ::store::{Answer, Failure, Message, Outcome, Request, Shut};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyList, PyString, PyTuple};

create_exception!(tidegate, StoreError, PyException, "The shared store did not answer.");
create_exception!(
    tidegate,
    SlowSubscriber,
    StoreError,
    "More messages waited for a subscriber than there is room for: it was dropped."
);
create_exception!(
    tidegate,
    LostMessages,
    StoreError,
    "The connection to the shared store broke: messages may have been missed."
);

/// Commands, each a tuple of `bytes`, `str` and `int`.
pub(super) fn request(commands: &Bound<'_, PyTuple>) -> PyResult<Request> {
    let mut request = Request::default();
    for command in commands.iter_borrowed() {
        let words = command.cast::<PyTuple>()?;
        request.begin(words.len());
        for word in words.iter_borrowed() {
            if let Ok(text) = word.cast::<PyString>() {
                request.word(text.to_str()?.as_bytes());
            } else if let Ok(bytes) = word.cast::<PyBytes>() {
                request.word(bytes.as_bytes());
            } else if let Ok(number) = word.cast::<PyInt>() {
                let number: i64 = number.extract()?;
                request.word(number.to_string().as_bytes());
            } else {
                let name = word.get_type().name()?;
                return Err(PyTypeError::new_err(format!("{name} is no word of a command")));
            }
        }
    }
    Ok(request)
}

/// A list of answers, or the exception that stands for the first that is none.
pub(super) fn answers<'py>(py: Python<'py>, outcome: Outcome) -> PyResult<Bound<'py, PyList>> {
    let answers = outcome.map_err(failure)?;
    let list = PyList::empty(py);
    for answer in answers {
        list.append(one(py, answer)?)?;
    }
    Ok(list)
}

fn one(py: Python<'_>, answer: Answer) -> PyResult<Bound<'_, PyAny>> {
    Ok(match answer {
        Answer::Nothing => py.None().into_bound(py),
        Answer::Done => PyBool::new(py, true).to_owned().into_any(),
        Answer::Integer(number) => PyInt::new(py, number).into_any(),
        Answer::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Answer::Text(text) => string(py, &text).into_any(),
        Answer::Refused(why) => {
            let why = why.strip_prefix("ERR ").unwrap_or(&why).to_owned();
            return Err(PyValueError::new_err(why));
        }
        Answer::List(answers) => answers_of_one(py, answers)?.into_any(),
        Answer::Push(_) => return Err(PyRuntimeError::new_err("an answer out of turn")),
    })
}

fn answers_of_one(py: Python<'_>, answers: Vec<Answer>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for answer in answers {
        list.append(one(py, answer)?)?;
    }
    Ok(list)
}

/// The store has looked whether it is UTF-8; another one's word is not taken for it.
fn string<'py>(py: Python<'py>, text: &[u8]) -> Bound<'py, PyString> {
    PyString::new(py, &String::from_utf8_lossy(text))
}

/// The channel and what was published.
pub(super) fn message(py: Python<'_>, message: Message) -> PyResult<Bound<'_, PyTuple>> {
    let channel = String::from_utf8_lossy(&message.channel);
    let payload = if message.text {
        string(py, &message.payload).into_any()
    } else {
        PyBytes::new(py, &message.payload).into_any()
    };
    PyTuple::new(py, [PyString::new(py, &channel).into_any(), payload])
}

pub(super) fn failure(failure: Failure) -> PyErr {
    match failure {
        Failure::Refused(why) => PyValueError::new_err(why),
        failure => StoreError::new_err(failure.to_string()),
    }
}

/// Why nothing more is heard; nothing for one that has left by itself.
pub(super) fn shut(why: Shut) -> Option<PyErr> {
    match why {
        Shut::Left => None,
        Shut::TooSlow => Some(SlowSubscriber::new_err(
            "this subscriber was too slow: more than 4 MiB of messages waited, so it was dropped",
        )),
        Shut::Lost => Some(LostMessages::new_err(
            "the connection to the shared store was lost: messages may have been missed",
        )),
    }
}
