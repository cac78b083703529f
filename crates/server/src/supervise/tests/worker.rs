//! The worker processes of these tests: the test program itself, started to run one test.

use std::sync::Arc;
use std::time::Duration;

use telemetry::ErrorRecord;

use super::super::control_channel::{ControlChannel, SupervisorCommand, WorkerMessage};
use super::super::stats::Stats;
use super::super::{WorkerGroup, WorkerSockets};
use crate::spec::WorkerSpec;

/// A worker process if started as one; otherwise this test does nothing.
#[test]
fn worker() {
    let Some(spec) = WorkerSpec::from_environment() else { return };
    let mut spec = spec.expect("a spec of ours");
    // The configuration only selects the behaviour by the application's name: `serves:app`.
    let target = spec.python["target"].as_str().and_then(|target| target.split(':').next());
    let mut behaviour =
        spec.python["behaviour"].as_str().or(target).expect("a behaviour").to_owned();
    if behaviour.starts_with('/') {
        behaviour = std::fs::read_to_string(behaviour).expect("a file with the behaviour");
    }
    let code = match behaviour.as_str() {
        "exits" => 3,
        "serves" => super::serving::serve(&spec),
        "other version" => {
            spec.version = "0.0.1".to_owned();
            super::serving::serve(&spec)
        }
        _ => net::worker::block_on_local(act(&spec, &behaviour)),
    };
    // Skips the output of the test harness.
    std::process::exit(code);
}

/// Speaks the control protocol by hand, with the requested errors.
async fn act(spec: &WorkerSpec, behaviour: &str) -> i32 {
    let channel = ControlChannel::new(
        net::inherited_stream(spec.control, "control").expect("a control socket"),
    );
    match behaviour {
        "failed" => {
            channel
                .send_message(&WorkerMessage::Failed("no module named \"shop\"".to_owned()))
                .await
                .unwrap();
            return 1;
        }
        "never ready" => forever().await,
        "supervises" => return supervise(spec, &channel).await,
        _ => channel.send_message(&WorkerMessage::Ready).await.unwrap(),
    }
    match behaviour {
        "ends after ready" => return 0,
        "silent" => forever().await,
        "drains itself once" if spec.generation == 1 => {
            channel.send_message(&WorkerMessage::Draining(0)).await.unwrap();
        }
        _ => {}
    }
    let mut stats = Stats::default();
    loop {
        if behaviour == "leaks" {
            stats.requests += 10;
            stats.rss_bytes += 200 << 20;
            let message = "KeyError: 'shop'".to_owned();
            let raised = ErrorRecord { times: 1, message, ..ErrorRecord::default() };
            let _ = channel.send_message(&WorkerMessage::Errors(vec![raised])).await;
        }
        if behaviour == "stuck" {
            stats.loop_lag_ms = 3_600_000;
        }
        if channel.send_message(&WorkerMessage::Stats(Box::new(stats.clone()))).await.is_err() {
            return 0;
        }
        match net::timer::within(Duration::from_millis(20), channel.next_command()).await {
            Some(Ok(Some(SupervisorCommand::Drain(_)))) if behaviour == "stays" => {}
            Some(Ok(Some(SupervisorCommand::Dump))) => {
                channel
                    .send_message(&WorkerMessage::Stalled("File \"shop.py\", line 3\n".to_owned()))
                    .await
                    .unwrap();
            }
            Some(Ok(Some(SupervisorCommand::Metrics))) => {
                channel
                    .send_message(&WorkerMessage::Metrics("# nothing\n".to_owned()))
                    .await
                    .unwrap();
            }
            None => {}
            Some(_) => return 0,
        }
    }
}

/// Starts a worker of its own, reports its process id, and waits to be killed.
async fn supervise(spec: &WorkerSpec, channel: &ControlChannel) -> i32 {
    let directory = spec.python["directory"].as_str().expect("a directory").into();
    let settings = super::settings("serves", super::patient());
    let sockets = WorkerSockets::Own(directory);
    let group = WorkerGroup::start("inner", settings, sockets, 1, &Arc::default(), |_| {});
    group.first().await.expect("a worker");
    let worker = group.slots()[0].current.borrow().as_ref().map(|worker| worker.id());
    let stats = Stats { requests: worker.map_or(0, u64::from), ..Stats::default() };
    channel.send_message(&WorkerMessage::Ready).await.unwrap();
    channel.send_message(&WorkerMessage::Stats(Box::new(stats))).await.unwrap();
    forever().await;
    0
}

async fn forever() {
    std::future::pending().await
}
