//! Formats the stacks that `faulthandler` writes as one line for the log.
//!
//! `handler (app.py:12) < __call__ (starlette/routing.py:66)`: innermost first, without the frames
//! of the event loop and of the worker itself.

/// Maximum number of frames per thread.
const FRAMES_MAX: usize = 20;
/// Files of the code that calls applications. Their frames are the outermost ones.
const RUNNERS: [&str; 6] = [
    "tidegate/_worker.py",
    "tidegate/__main__.py",
    "asyncio/base_events.py",
    "asyncio/events.py",
    "asyncio/runners.py",
    "<frozen runpy>",
];

/// Returns the stack of the event loop's thread, which is the main thread and the last of the dump;
/// or the stacks of all threads.
pub(crate) fn readable(dump: &str, all_threads: bool) -> String {
    let mut threads: Vec<Vec<(&str, &str, &str)>> = Vec::new();
    for line in dump.lines() {
        match frame(line) {
            Some(frame) => threads.last_mut().into_iter().for_each(|thread| thread.push(frame)),
            None if line.contains("hread 0x") => threads.push(Vec::new()),
            None => {}
        }
    }
    if !all_threads {
        threads.drain(..threads.len().saturating_sub(1));
    }
    let stacks = threads.into_iter().filter_map(|mut frames| {
        while frames.last().is_some_and(|(file, ..)| is_runner(file)) {
            frames.pop();
        }
        let hidden = frames.len().saturating_sub(FRAMES_MAX);
        frames.truncate(FRAMES_MAX);
        let mut words: Vec<String> = frames
            .iter()
            .map(|(file, line, name)| format!("{name} ({}:{line})", short(file)))
            .collect();
        if hidden > 0 {
            words.push(format!("{hidden} more"));
        }
        (!words.is_empty()).then(|| words.join(" < "))
    });
    stacks.collect::<Vec<_>>().join(" | ")
}

/// True if frames of this file belong to the event loop or the worker, not to a callback.
pub(crate) fn is_runner(file: &str) -> bool {
    RUNNERS.iter().any(|runner| file.ends_with(runner))
}

/// Parses file, line and function of `  File "app.py", line 12 in handler`.
fn frame(line: &str) -> Option<(&str, &str, &str)> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.split_once("\", line ")?;
    let (number, name) = rest.split_once(" in ")?;
    Some((file, number, name))
}

/// Strips the prefix that all paths of an installation share.
fn short(file: &str) -> &str {
    if let Some((_, package)) = file.rsplit_once("/site-packages/") {
        return package;
    }
    let library = file.rfind("/lib/python3.").map(|at| &file[at + "/lib/".len()..]);
    library.and_then(|path| path.split_once('/')).map_or(file, |(_, module)| module)
}
