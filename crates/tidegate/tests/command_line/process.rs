//! The binary as a child process: run to its end, or kept running and killed when the test is over.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use tempfile::TempDir;

/// How long anything may take; a test that passes never waits for it.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The binary with arguments, in surroundings of its own.
pub(crate) fn tidegate(directory: &Path, arguments: &[&str]) -> Command {
    let another = std::env::var_os("TIDEGATE_BINARY");
    let mut command = Command::new(another.unwrap_or(env!("CARGO_BIN_EXE_tidegate").into()));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    for variable in [
        "TIDEGATE_ADMIN",
        "TIDEGATE_TOKEN",
        "GUNICORN_CMD_ARGS",
        "PORT",
        "FORWARDED_ALLOW_IPS",
        "WEB_CONCURRENCY",
    ] {
        command.env_remove(variable);
    }
    // Admin sockets of other tests would be found otherwise.
    command.env("XDG_RUNTIME_DIR", directory).env("TMPDIR", directory);
    command
}

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Checks the exit code and gives what was said on standard error.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stderr
    }

    /// Checks that it went well and gives what was said on standard output.
    #[track_caller]
    pub(crate) fn printed(self) -> String {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self.stdout
    }
}

pub(crate) fn run_in(directory: &Path, arguments: &[&str]) -> Ended {
    ended(tidegate(directory, arguments).output().expect("the binary starts"))
}

pub(crate) fn ended(output: Output) -> Ended {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("what is printed is UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs in an empty directory.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    run_in(TempDir::new().expect("a temporary directory").path(), arguments)
}

/// A running server.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stderr(Stdio::piped());
        Self::with_stderr(command)
    }

    /// Its standard error is where the command has it, and seen here only if that is a pipe.
    pub(crate) fn with_stderr(mut command: Command) -> Self {
        command.stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let (sender, lines) = mpsc::channel();
        let stdout: ChildStdout = child.stdout.take().expect("stdout is piped");
        if let Some(stderr) = child.stderr.take() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
                lines.try_for_each(|line| sender.send(line))
            });
        }
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|l| sender.send(l))
        });
        Running { child, lines, seen: Vec::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line, on either output, that `pick` makes something of.
    #[track_caller]
    pub(crate) fn line<T>(&mut self, pick: impl Fn(&str) -> Option<T>) -> T {
        if let Some(found) = self.seen.iter().find_map(|line| pick(line)) {
            return found;
        }
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => {
                    let found = pick(&line);
                    self.seen.push(line);
                    if let Some(found) = found {
                        return found;
                    }
                }
                Err(why) => panic!("no such line ({why}); it said:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Where a listener is, as the log says it.
    #[track_caller]
    pub(crate) fn address(&mut self, name: &str) -> SocketAddr {
        let mark = format!("name={name} ");
        self.line(|line| {
            let (_, rest) = line.split_once("listening ")?;
            let rest = rest.contains(&mark).then_some(rest)?;
            let (_, address) = rest.split_once("address=")?;
            address.split_whitespace().next()?.parse().ok()
        })
    }

    pub(crate) fn terminate(&self) {
        let kill = format!("kill -TERM {}", self.id());
        let status = Command::new("sh").args(["-c", &kill]).status().expect("sh starts");
        assert!(status.success());
    }

    /// Waits for its end and gives the exit code and every line it said.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(line) => self.seen.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(why) => panic!("it does not end ({why}):\n{}", self.seen.join("\n")),
            }
        }
        let status = self.child.wait().expect("our own child can be waited for");
        (status.code(), self.seen.join("\n"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request on a connection of its own; the whole answer as text, its head in lower case.
#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it accepts");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time-out can be set");
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).expect("it takes a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers and closes");
    let answer = String::from_utf8_lossy(&answer);
    let head = answer.find("\r\n\r\n").unwrap_or(answer.len());
    answer[..head].to_lowercase() + &answer[head..]
}

/// The status of a response.
pub(crate) fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or(answer)
}

/// Sends requests until one is refused by a rate limit; the number of those before, which passed.
#[track_caller]
pub(crate) fn until_limited(send: impl Fn() -> String) -> usize {
    for allowed in 0..100 {
        let answer = send();
        if status(&answer) == "429" {
            return allowed;
        }
        assert_eq!(status(&answer), "200", "{answer}");
    }
    panic!("nothing limits the requests");
}
