//! What a process that hangs is waiting for, as the kernel sees it: the cause of a test that fails
//! once in a thousand runs has to be in its report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The threads of a process, and its TCP sockets with the bytes that wait in them. Empty for a
/// process that has ended.
pub(crate) fn describe(process: u32) -> String {
    let directory = PathBuf::from(format!("/proc/{process}"));
    let mut lines: Vec<String> = entries(&directory.join("task")).map(thread).collect();
    lines.extend(sockets(&directory));
    lines.join("\n")
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn text(file: PathBuf) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// Its name, state and system call (proc_pid_syscall(5)), and where it waits in the kernel.
fn thread(directory: PathBuf) -> String {
    let stat = text(directory.join("stat"));
    let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next().unwrap_or('?');
    let [name, waits, call] = ["comm", "wchan", "syscall"].map(|file| text(directory.join(file)));
    format!("thread {}: {state} {waits} {}", name.trim(), call.trim())
}

/// Lines of proc_pid_net(5): local and remote address, state, bytes to send and to receive.
fn sockets(directory: &Path) -> Vec<String> {
    let inode = |file: PathBuf| {
        let target = fs::read_link(file).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(inode.to_owned())
    };
    let own: BTreeSet<String> = entries(&directory.join("fd")).filter_map(inode).collect();
    let tables = ["tcp", "tcp6"].map(|table| text(directory.join("net").join(table)));
    let lines = tables.iter().flat_map(|table| table.lines());
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, remote, state, queues, _, _, _, _, inode, ..] = fields.as_slice() else {
            return None;
        };
        own.contains(*inode).then(|| format!("socket {local} {remote}: {state} {queues}"))
    };
    lines.filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::describe;
    use std::net::TcpListener;

    #[test]
    fn threads_and_sockets_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("socket 0100007F:{:04X} ", listener.local_addr().unwrap().port());
        let text = describe(std::process::id());
        assert!(text.contains(&address) && text.contains("thread "), "{text}");
        assert_eq!(describe(u32::MAX), "");
    }
}
