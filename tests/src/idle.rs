//! Whether threads have anything left to do, as the scheduler knows it.
//!
//! A busy machine cannot make this wrong: a thread that waits for a core counts as running.

use crate::eventually;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Looks in a row that must find every thread asleep: together longer than the kernel delays an
/// acknowledgement (40 ms), which lets a sender continue, and much shorter than the intervals at
/// which an idle server does something (half a second and more).
const LOOKS: u32 = 10;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Names the calling thread for `wait_until_idle`.
pub fn current_thread() -> PathBuf {
    fs::canonicalize("/proc/thread-self").expect("Linux names threads")
}

/// Waits until the process `id` and these threads of our own are asleep and none has run between
/// two looks: what they do has come to a standstill.
pub(crate) fn wait_until_idle(id: u32, threads: &[&Path]) {
    eventually("every thread is asleep", || {
        let first = times_asleep(id, threads);
        first.is_some()
            && (0..LOOKS).all(|_| {
                std::thread::sleep(LOOK_EVERY);
                times_asleep(id, threads) == first
            })
    });
}

/// [`time_asleep`] of each thread, if all are asleep.
fn times_asleep(id: u32, threads: &[&Path]) -> Option<Vec<String>> {
    let own = fs::read_dir(format!("/proc/{id}/task")).expect("the process runs").flatten();
    let own: Vec<PathBuf> = own.map(|entry| entry.path()).collect();
    own.iter().map(PathBuf::as_path).chain(threads.iter().copied()).map(time_asleep).collect()
}

/// How long and how often a thread has run (`schedstat` of proc(5)), if it is asleep or has ended.
fn time_asleep(thread: &Path) -> Option<String> {
    let Ok(stat) = fs::read_to_string(thread.join("stat")) else { return Some(String::new()) };
    let (_, fields) = stat.rsplit_once(") ")?;
    let asleep = fields.starts_with(['S', 'Z', 'X']);
    asleep.then(|| fs::read_to_string(thread.join("schedstat")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{current_thread, time_asleep};
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_that_waits_is_asleep_and_one_that_looks_is_not() {
        assert_eq!(time_asleep(&current_thread()), None);
        let (tells, told) = channel();
        let (ends, end) = channel::<()>();
        let waiting = std::thread::spawn(move || {
            tells.send(current_thread()).unwrap();
            let _ = end.recv();
        });
        let thread = told.recv().unwrap();
        crate::eventually("the thread waits", || time_asleep(&thread).is_some());
        drop(ends);
        waiting.join().unwrap();
    }
}
