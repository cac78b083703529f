//! RESP.

use super::{Act, Scripted, consistent, is_something, plan, until};
use crate::load::{
    Command, Errors, LoadOutcome, LoadPlan, Mode, PIPELINE_MAX, Target, Traffic, run,
};

fn traffic(command: Command, pipeline: u32) -> Traffic {
    Traffic::Resp { command, pipeline }
}

fn load(server: &Scripted, command: Command, pipeline: u32) -> LoadOutcome {
    let target =
        Target { address: server.address.clone(), tls: None, traffic: traffic(command, pipeline) };
    until(|| consistent(run(&target, &plan()).unwrap()), is_something)
}

fn says(answer: &'static [u8]) -> Scripted {
    Scripted::tcp(b"PING\r\n", move |_| vec![Act::Send(answer.to_vec())])
}

#[test]
fn both_commands_with_and_without_pipeline() {
    for command in [Command::Inline, Command::MultiBulk] {
        for pipeline in [1, 16] {
            let server = says(b"+PONG\r\n");
            let found = load(&server, command, pipeline);
            assert_eq!(found.errors, Errors::default(), "{command:?} {pipeline}");
            assert!(found.requests > 0, "{command:?} {pipeline}");
            assert!(server.asked() >= found.requests);
        }
    }
}

#[test]
fn a_refusal_is_a_status() {
    let found = load(&says(b"-ERR no\r\n"), Command::Inline, 1);
    assert_eq!(found.requests, 0);
    assert!(found.errors.status > 0);
    assert_eq!(found.errors, Errors { status: found.errors.status, ..Errors::default() });
}

#[test]
fn a_response_too_many_is_framing() {
    let found = load(&says(b"+PONG\r\n+PONG\r\n"), Command::Inline, 1);
    assert!(found.errors.framing > 0);
    assert_eq!(found.errors, Errors { framing: found.errors.framing, ..Errors::default() });
}

#[test]
fn a_response_too_few_is_a_time_out() {
    let server = Scripted::tcp(b"PING\r\n", |number| match number % 4 {
        3 => Vec::new(),
        _ => vec![Act::Send(b"+PONG\r\n".to_vec())],
    });
    let target =
        Target { address: server.address.clone(), tls: None, traffic: traffic(Command::Inline, 4) };
    let timeout = std::time::Duration::from_millis(50);
    let plan = LoadPlan { connections: 1, timeout, ..plan() };
    let load = || consistent(run(&target, &plan).unwrap());
    let found = until(load, |found| found.errors.timeout > 0);
    assert_eq!(found.errors, Errors { timeout: found.errors.timeout, ..Errors::default() });
}

#[test]
fn a_pipeline_has_its_limits() {
    let server = says(b"+PONG\r\n");
    let refused = |pipeline, mode| {
        let traffic = traffic(Command::Inline, pipeline);
        run(
            &Target { address: server.address.clone(), tls: None, traffic },
            &LoadPlan { mode, ..plan() },
        )
        .is_err()
    };
    assert!(refused(0, Mode::Closed));
    assert!(refused(PIPELINE_MAX + 1, Mode::Closed));
    assert!(refused(2, Mode::Open { rate: 10.0 }));
}
