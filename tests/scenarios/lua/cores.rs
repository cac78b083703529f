//! A program on several cores: the same address, VMs of their own, messages between them.

use super::{Program, ask, connect};

const COUNTING: &str = r#"
local tcp, worker, task = require "silly.net.tcp", require "tide.worker", require "silly.task"
local logger = require "silly.logger"
local told = 0
task.fork(function()
    while true do
        local value, from = worker.receive("news")
        told = told + value.amount
    end
end)
local listener = assert(tcp.listen("127.0.0.1:0", function(conn)
    while true do
        local line = conn:read("\n")
        if not line then return conn:close() end
        if line == "tell\n" then conn:write(worker.broadcast("news", { amount = 5 }) .. "\n")
        else conn:write(worker.id .. " " .. worker.count .. " " .. told .. "\n") end
    end
end))
if worker.id == 1 then logger.info("listening " .. listener.addr) else logger.info("joined") end
"#;

#[test]
fn every_vm_serves_and_gets_messages_of_the_others() {
    let (process, address) = Program::new(COUNTING).serve(&["--workers", "2"]);
    process.wait_for_line(|line| line.contains("joined").then_some(())).expect("both listen");
    // The kernel spreads connections; with 64 of them both VMs have some.
    let mut clients: Vec<_> = (0..64).map(|_| connect(address)).collect();
    let mut one_of: [Option<usize>; 2] = [None; 2];
    for (index, client) in clients.iter_mut().enumerate() {
        let told = ask(client, "who\n");
        let id: usize = told.split(' ').next().and_then(|id| id.parse().ok()).expect("a number");
        assert!(told.ends_with(" 2 0\n"), "{told}");
        one_of[id - 1] = Some(index);
    }
    let [Some(first), Some(second)] = one_of else { panic!("one VM got all: {one_of:?}") };
    assert_eq!(ask(&mut clients[first], "tell\n"), "1\n");
    // The message is on its way: the query is repeated until it has arrived, with a deadline.
    scenarios::eventually("the message has arrived", || {
        ask(&mut clients[second], "who\n") == "2 2 5\n"
    });
    assert_eq!(ask(&mut clients[first], "who\n"), "1 2 0\n");
    drop(clients);
    process.signal("TERM");
    assert_eq!(process.wait().code, Some(0));
}

#[test]
fn a_vm_that_does_not_listen_gets_no_connections() {
    let one = COUNTING
        .replace("local listener = ", "if worker.id == 2 then return end local listener = ");
    let (process, address) = Program::new(&one).serve(&["--workers", "2"]);
    // Of 32 some would go to the other VM, and wait there for ever.
    let mut clients: Vec<_> = (0..32).map(|_| connect(address)).collect();
    for client in &mut clients {
        assert_eq!(ask(client, "who\n"), "1 2 0\n");
    }
    drop((clients, process));
}

#[test]
fn an_address_of_another_process_is_in_use() {
    let (process, address) = Program::new(COUNTING).serve(&["--workers", "2"]);
    let text = format!(
        "local _, why = require 'silly.net.tcp'.listen('{address}', print)
        print(why) require 'silly'.exit()"
    );
    let exit = Program::new(&text).run(&[], &[]);
    assert_eq!(exit.stdout, "Address already in use (98)\n");
    drop(process);
}
