//! Lua programs as processes: how they end, their cores, their C modules, many and rude peers.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

mod cores;
mod ends;
mod many;
mod native;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use scenarios::{Exit, PATIENCE, Process, tidegate_binary};
use tempfile::TempDir;

/// A program in a directory of its own.
struct Program {
    directory: TempDir,
}

impl Program {
    fn new(text: &str) -> Program {
        let directory = TempDir::new().expect("a directory");
        std::fs::write(directory.path().join("program.lua"), text).expect("a file");
        Program { directory }
    }

    /// `tidegate run OPTIONS program.lua ARGUMENTS`
    fn command(&self, options: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(tidegate_binary());
        command.current_dir(self.directory.path());
        command.arg("run").args(options).arg("program.lua").args(arguments);
        command
    }

    fn run(&self, options: &[&str], arguments: &[&str]) -> Exit {
        Process::run(&mut self.command(options, arguments))
    }

    /// Starts one that logs `listening ADDRESS`.
    fn serve(&self, options: &[&str]) -> (Process, SocketAddr) {
        let process = Process::start(&mut self.command(options, &[]));
        let told = process.wait_for_line(|line| {
            line.split_once("listening ")?.1.split_whitespace().next()?.parse().ok()
        });
        let address = told.unwrap_or_else(|| panic!("it ended: {:?}", process.log()));
        (process, address)
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the program accepts");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
}

/// Sends a line and reads one.
fn ask(stream: &mut TcpStream, line: &str) -> String {
    stream.write_all(line.as_bytes()).expect("the program reads");
    read_line(stream)
}

fn read_line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\n") {
        match stream.read(&mut byte) {
            Ok(1) => line.push(byte[0]),
            Ok(_) => break,
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&line)),
        }
    }
    String::from_utf8_lossy(&line).into_owned()
}

/// An echo of lines that says where it listens.
const ECHO: &str = r#"
local tcp, logger = require "silly.net.tcp", require "silly.logger"
local listener = assert(tcp.listen("127.0.0.1:0", function(conn)
    while true do
        local line = conn:read("\n")
        if not line then return conn:close() end
        conn:write(line)
    end
end))
logger.info("listening " .. listener.addr)
"#;
