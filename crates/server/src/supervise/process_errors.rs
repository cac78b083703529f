//! Why a process could not be started, or has ended: sentences for the operator.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use net::ChildCommand;

/// The Python module of a worker.
const MODULE: [&str; 2] = ["-m", "tidegate"];
/// A Python program that checks whether tidegate is installed; its exit code is the result.
const PROBE: &str =
    "import importlib.util, sys; sys.exit(0 if importlib.util.find_spec('tidegate') else 3)";
const NOT_FOUND: i32 = 3;

/// Describes why a program could not be started.
pub(super) fn start_error(launch: &ChildCommand, error: &std::io::Error) -> String {
    let program = launch.program.display();
    match &launch.directory {
        // The system reports the same error for both.
        Some(directory) if !directory.is_dir() => {
            format!("there is no directory {}", directory.display())
        }
        _ if error.kind() == std::io::ErrorKind::NotFound => format!(
            "there is no {program}; `python3 -m venv` makes an environment: set `venv` to it"
        ),
        _ => format!("{program} cannot be started: {error}"),
    }
}

/// Explains why a process has not become ready. `why` is what it reported, or, if it has reported
/// nothing, how it ended: then tidegate may not be installed there.
pub(super) async fn explain(why: String, has_reported: bool, launch: &ChildCommand) -> String {
    match has_reported {
        true => why,
        false => missing_tidegate(launch.clone()).await.unwrap_or(why),
    }
}

/// What to do if a program has no tidegate.
async fn missing_tidegate(launch: ChildCommand) -> Option<String> {
    if !launch.arguments.iter().map(|message| message.as_os_str()).eq(MODULE) {
        return None;
    }
    let program = launch.program.clone();
    let is_missing = net::blocking(move || {
        let mut probe = std::process::Command::new(launch.program);
        probe.args(["-c", PROBE]);
        if let Some(directory) = &launch.directory {
            probe.current_dir(directory);
        }
        probe.status().is_ok_and(|status| status.code() == Some(NOT_FOUND))
    });
    if !is_missing.await.unwrap_or(false) {
        return None;
    }
    let (program, version) = (program.display(), env!("CARGO_PKG_VERSION"));
    Some(format!(
        "{program} has no tidegate: `{program} -m pip install tidegate=={version}` installs it"
    ))
}

/// Describes an exit status, in a sentence without its subject.
pub(super) fn describe_exit(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it ended with exit code {code}"),
        (None, Some(signal)) => format!("it was ended by signal {signal}"),
        (None, None) => "it ended".to_owned(),
    }
}
