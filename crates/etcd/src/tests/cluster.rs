//! Real members, each with a directory of its own, ended with the test.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use claimed_port::ClaimedPort;
use tempfile::TempDir;

/// A cluster on this machine.
pub(super) struct Cluster {
    pub(super) directory: TempDir,
    members: Vec<Member>,
}

struct Member {
    command: Command,
    child: Option<Child>,
    url: String,
}

/// Whether there is a server to test with; says so if not.
pub(super) fn is_installed() -> bool {
    let found = Command::new("etcd").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: etcd is not installed");
    }
    found
}

fn free_port() -> u16 {
    ClaimedPort::for_this_process().unwrap()
}

/// True if all threads of a process are stopped: the state follows the name in parentheses.
fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

impl Cluster {
    /// Starts members with these further arguments, in which `DIR` stands for the directory of the
    /// cluster.
    pub(super) fn start(count: usize, arguments: &[&str]) -> Cluster {
        Cluster::prepare(TempDir::new().unwrap(), count, arguments)
    }

    /// As `start`, in a directory that has the files that the arguments name.
    pub(super) fn prepare(directory: TempDir, count: usize, arguments: &[&str]) -> Cluster {
        let ports: Vec<[u16; 2]> = (0..count).map(|_| [free_port(), free_port()]).collect();
        let peers: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(index, [_, peer])| format!("m{index}=http://127.0.0.1:{peer}"))
            .collect();
        let peers = peers.join(",");
        let has_tls = arguments.iter().any(|argument| argument.starts_with("--cert-file"));
        let scheme = if has_tls { "https" } else { "http" };
        let members = ports.iter().enumerate().map(|(index, [client, peer])| {
            let url = format!("{scheme}://127.0.0.1:{client}");
            let mut command = Command::new("etcd");
            command.arg(format!("--name=m{index}"));
            command.arg(format!("--data-dir={}/m{index}", directory.path().display()));
            command.args([
                format!("--listen-client-urls={url}"),
                format!("--advertise-client-urls={url}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-cluster={peers}"),
            ]);
            command.args(["--heartbeat-interval=50", "--election-timeout=500"]);
            let path = directory.path().display().to_string();
            command.args(arguments.iter().map(|argument| argument.replace("DIR", &path)));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = Some(command.spawn().unwrap());
            Member { command, child, url }
        });
        let members = members.collect();
        Cluster { directory, members }
    }

    pub(super) fn urls(&self) -> impl Iterator<Item = String> {
        self.members.iter().map(|member| member.url.clone())
    }

    pub(super) fn kill(&mut self, index: usize) {
        if let Some(mut child) = self.members[index].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(super) fn restart(&mut self, index: usize) {
        self.kill(index);
        let member = &mut self.members[index];
        member.child = Some(member.command.spawn().unwrap());
    }

    /// Sends a signal, such as `STOP`.
    pub(super) fn signal(&self, index: usize, signal: &str) {
        let child = self.members[index].child.as_ref().expect("a running member");
        let mut command = Command::new("kill");
        command.args([format!("-{signal}"), child.id().to_string()]);
        assert!(command.status().unwrap().success());
        // Each thread stops by itself, after `kill` has returned.
        while signal == "STOP" && !is_stopped(child.id()) {
            std::thread::yield_now();
        }
    }

    /// Runs `etcdctl` with these arguments.
    pub(super) fn control(&self, arguments: &[&str]) {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.members[0].url));
        command.args(["--dial-timeout=60s", "--command-timeout=60s"]);
        let output = command.args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            if let Some(child) = &mut member.child {
                // Also ends a stopped one.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}
