//! The wheel: the `tidegate` command line inside the Python interpreter that called it.
//!
//! Owns the extension module `tidegate._tidegate` and the allocator of its Rust code. Promises that
//! the GIL is not held while a command runs. Contains no logic of its own.

mod worker;

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::{Py, PyAny, Python, pyfunction, pymodule};
use server::GroupEvent;
use tidegate::Host;

// Only for Rust's memory: Python's objects stay with Python's allocator. See docs/design/wheel.md.
#[global_allocator]
static ALLOCATOR: net::Allocator = net::Allocator;

/// Runs a command line, the program's name first, and returns the exit code. `command` starts
/// another process of this interpreter; `configured` has the options of a file with its name;
/// `on_ready` is called once an application is served, `on_event` with what happens to its workers:
/// a word and two numbers. With `aborts_first`, a worker that does not respond gets SIGABRT before
/// it is killed.
#[pyfunction]
#[pyo3(signature = (
    arguments, command, configured=None, on_ready=None, on_event=None, aborts_first=false,
))]
fn main(
    py: Python<'_>,
    arguments: Vec<OsString>,
    command: Vec<OsString>,
    configured: Option<(String, Vec<String>)>,
    on_ready: Option<Py<PyAny>>,
    on_event: Option<Py<PyAny>>,
    aborts_first: bool,
) -> u8 {
    let on_ready = on_ready.map(|called| {
        Arc::new(move || {
            Python::attach(|py| {
                if let Err(error) = called.call0(py) {
                    error.print(py);
                }
            });
        }) as Arc<dyn Fn() + Send + Sync>
    });
    let on_event = on_event.map(|called| {
        Arc::new(move |event: GroupEvent| {
            Python::attach(|py| {
                if let Err(error) = called.call1(py, words_of(event)) {
                    error.print(py);
                }
            });
        }) as Arc<dyn Fn(GroupEvent) + Send + Sync>
    });
    let host = Host { python: Some(command), configured, on_ready, on_event, aborts_first };
    py.detach(|| tidegate::run(arguments, &host))
}

/// An event as arguments of a function: its name and its numbers.
fn words_of(event: GroupEvent) -> (&'static str, usize, Option<usize>) {
    match event {
        GroupEvent::Starting { worker } => ("starting", worker, None),
        GroupEvent::Ended { worker, process } => ("ended", worker, usize::try_from(process).ok()),
        GroupEvent::Workers { now, before } => ("workers", now, before),
        GroupEvent::Reloading => ("reloading", 0, None),
    }
}

/// Shows a title instead of the command line in lists of processes.
#[pyfunction]
fn set_title(title: &str) -> std::io::Result<()> {
    net::set_title(title)
}

/// Returns why a supervisor of this version cannot start processes of this one.
#[pyfunction]
fn version_error(supervisor: &str) -> Option<String> {
    server::check_version(supervisor).err()
}

// The state of the crate `python` is protected by the GIL (`python::gil`).
#[pymodule(gil_used = true)]
mod _tidegate {
    use pyo3::prelude::{Bound, PyModule, PyModuleMethods, PyResult};

    #[pymodule_export]
    use super::worker::{Worker, embedded, worker};
    #[pymodule_export]
    use super::{main, set_title, version_error};
    #[pymodule_export]
    use python::asgi::Server;
    #[pymodule_export]
    use python::store_client::{Calls, ChannelSubscription, Store, cron_times, redis_options};
    #[pymodule_export]
    use python::wsgi::{GreenletRequest, GreenletServer};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        module.add("StoreError", py.get_type::<python::store_client::StoreError>())?;
        module.add("SlowSubscriber", py.get_type::<python::store_client::SlowSubscriber>())?;
        module.add("LostMessages", py.get_type::<python::store_client::LostMessages>())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
