//! A running `tidegate up` with a configuration of its own, in a directory of its own, or another
//! command that serves.
//!
//! Relies on two promises of the server: for every listener (the admin API is `admin`) it says
//! `listening name=NAME address=ADDRESS` on standard error once connections are accepted there,
//! in the log format it was told to use; and it serves `/metrics` on the admin listener.

use crate::{Connection, Exit, HttpResponse, Metrics, Process, eventually, tidegate_binary};
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// What is decided before the server starts: files next to the configuration, arguments.
pub struct Launch {
    binary: Option<PathBuf>,
    directory: TempDir,
    command: Vec<String>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    descriptors: Option<u32>,
    addresses: Option<u64>,
}

impl Launch {
    pub fn new(config: &str) -> Self {
        let directory = temporary_directory();
        fs::write(directory.path().join("tidegate.yaml"), config).expect("a writable directory");
        Self {
            binary: None,
            directory,
            command: vec!["up".to_owned(), "tidegate.yaml".to_owned()],
            arguments: Vec::new(),
            environment: Vec::new(),
            descriptors: None,
            addresses: None,
        }
    }

    /// Writes a file next to the configuration, whose paths are relative to it.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        write(self.directory.path(), name, content.as_ref());
        self
    }

    /// Starts this command in place of `up`.
    pub fn command(mut self, words: &[&str]) -> Self {
        self.command = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Starts this binary in place of the one under test.
    pub fn binary(mut self, path: PathBuf) -> Self {
        self.binary = Some(path);
        self
    }

    /// Where a file of the directory is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Adds an argument of the command.
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets the server have no more open descriptors than these, whatever it asks for.
    pub fn descriptors(mut self, most: u32) -> Self {
        self.descriptors = Some(most);
        self
    }

    /// Lets the server have no more than so many kilobytes of addresses (RLIMIT_AS).
    pub fn addresses(mut self, kilobytes: u64) -> Self {
        self.addresses = Some(kilobytes);
        self
    }

    /// Runs another command of the binary to its end, in the directory of the configuration.
    pub fn run(&self, arguments: &[&str]) -> Exit {
        let mut command = Command::new(tidegate_binary());
        command.args(arguments).envs(self.environment.iter().map(|(name, value)| (name, value)));
        Process::run(command.current_dir(self.directory.path()))
    }

    /// Starts the server without waiting for anything.
    pub fn start(self) -> Tidegate {
        let limits = [("n", self.descriptors.map(u64::from)), ("v", self.addresses)];
        let limits = limits.iter().filter_map(|(name, most)| Some((name, (*most)?)));
        let limits: String =
            limits.map(|(name, most)| format!("ulimit -{name} {most}; ")).collect();
        let mut command = Command::new("sh");
        let binary = self.binary.unwrap_or_else(tidegate_binary);
        command.args(["-c", &format!("{limits}exec \"$0\" \"$@\"")]).arg(binary);
        command.args(&self.command).args(&self.arguments);
        // Its admin socket goes with the directory, however the server ends.
        command.env("XDG_RUNTIME_DIR", self.directory.path());
        command.envs(self.environment).current_dir(self.directory.path());
        Tidegate { process: Process::start(&mut command), directory: self.directory }
    }
}

pub struct Tidegate {
    // Dropped in this order: the process must be gone before its directory.
    process: Process,
    directory: TempDir,
}

impl Tidegate {
    pub fn start(config: &str) -> Self {
        Launch::new(config).start()
    }

    /// Runs the binary with `arguments` to its end, for the commands that do not serve.
    pub fn run(arguments: &[&str]) -> Exit {
        Process::run(Command::new(tidegate_binary()).args(arguments))
    }

    /// Where the listener `name` accepts connections. Waits until it does.
    pub fn address(&self, name: &str) -> SocketAddr {
        let text = self.address_text(name);
        text.parse().unwrap_or_else(|error| panic!("listener {name} at {text}: {error}"))
    }

    /// The same as the server says it, for a listener on a Unix socket.
    pub fn address_text(&self, name: &str) -> String {
        self.process.wait_for_line(|line| announced(line, name)).unwrap_or_else(|| {
            panic!("the server ended before {name} listened:\n{}", self.log().join("\n"))
        })
    }

    pub fn connect(&self, name: &str) -> Connection {
        Connection::to(self.address(name))
    }

    /// One request on a connection of its own: sends `request`, reads one response.
    pub fn exchange(&self, name: &str, request: impl AsRef<[u8]>) -> HttpResponse {
        let mut connection = self.connect(name);
        connection.send(request);
        connection.read_response()
    }

    /// Every counter as it is now, from the admin listener.
    pub fn metrics(&self) -> Metrics {
        let request = "GET /metrics HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n";
        let response = self.exchange("admin", request);
        assert_eq!(response.status, 200, "/metrics: {response:?}");
        Metrics::parse(&response.text())
    }

    /// Waits until the sum of `name` over all series with these labels is at least `least`.
    /// A counter may move a moment after the bytes that moved it arrived, without a notification.
    pub fn wait_for_metric(&self, name: &str, labels: &[(&str, &str)], least: f64) {
        eventually(&format!("{name} {labels:?} is at least {least}"), || {
            self.metrics().sum(name, labels) >= least
        });
    }

    /// The lines of standard error so far.
    pub fn log(&self) -> Vec<String> {
        self.process.log()
    }

    /// Waits for a line of standard error that contains `text`, and returns it.
    pub fn wait_for_log(&self, text: &str) -> String {
        self.process
            .wait_for_line(|line| line.contains(text).then(|| line.to_owned()))
            .unwrap_or_else(|| panic!("ended without {text:?}:\n{}", self.log().join("\n")))
    }

    /// Replaces the configuration in one step, as an editor does.
    pub fn rewrite_config(&self, config: &str) {
        self.write("tidegate.yaml.new", config);
        fs::rename(self.path("tidegate.yaml.new"), self.path("tidegate.yaml")).expect("a rename");
    }

    /// Writes a file in the server's directory.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        write(self.directory.path(), name, content.as_ref());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Waits until the server has nothing left to do, nor these threads of the test
    /// ([`current_thread`](crate::current_thread)), however busy the machine is.
    pub fn wait_until_idle(&self, threads: &[&Path]) {
        crate::idle::wait_until_idle(self.id(), threads);
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends a signal by its name without SIG.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for the end of the server.
    pub fn wait(self) -> Exit {
        self.process.wait()
    }
}

/// In memory where the machine has such a place: servers wait for the disk when they write a
/// configuration or data, and a busy disk can take longer than our patience.
pub fn temporary_directory() -> TempDir {
    let in_memory = has_room(IN_MEMORY).then(|| TempDir::new_in(IN_MEMORY).ok()).flatten();
    in_memory.or_else(|| TempDir::new().ok()).expect("a temporary directory")
}

/// A directory of the kernel in memory.
const IN_MEMORY: &str = "/dev/shm";

/// False for the 64 MiB that a container gets: etcd alone reserves as much for its log.
fn has_room(directory: &str) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|all| all.f_bavail * all.f_frsize >= 4 << 30)
}

fn write(directory: &Path, name: &str, content: &[u8]) {
    let path = directory.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).expect("a directory in the temporary directory");
    }
    fs::write(path, content).expect("a file in the temporary directory");
}

/// The address in a `listening` line for `name`, in either log format.
fn announced(line: &str, name: &str) -> Option<String> {
    if line.starts_with('{') {
        let fields: Value = serde_json::from_str(line).ok()?;
        let told = ["message", "msg", "event"].iter().any(|key| fields[key] == "listening");
        return (told && fields["name"] == name)
            .then(|| fields["address"].as_str().map(str::to_owned))?;
    }
    let fields = line.split_once("listening ")?.1;
    let field = |key: &str| {
        fields.split_whitespace().find_map(|field| field.strip_prefix(key)?.strip_prefix('='))
    };
    (field("name")? == name).then(|| field("address").map(str::to_owned))?
}

#[cfg(test)]
mod tests {
    use super::announced;

    #[test]
    fn the_address_of_the_named_listener_is_found_in_both_formats() {
        let text = "2026-01-02T03:04:05Z info listening name=web address=127.0.0.1:4321";
        assert_eq!(announced(text, "web").as_deref(), Some("127.0.0.1:4321"));
        assert_eq!(announced(text, "admin"), None);
        assert_eq!(announced("info drained name=web address=x", "web"), None);

        let json = r#"{"message":"listening","name":"web","address":"unix:/a b"}"#;
        assert_eq!(announced(json, "web").as_deref(), Some("unix:/a b"));
        assert_eq!(announced(json, "admin"), None);
    }
}
