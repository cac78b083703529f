//! Role `http`: the process serves its own configuration on inherited listeners.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::ServerState;
use apps::InProcess;
use config::TextSource;
use net::{Inherited, SharedCounts};
use offload::RequestQueue;
use plugin::Shared;
use telemetry::Telemetry;

use super::commands::LeaveMode;
use super::watchdog::{report_cut_off, report_draining};
use super::{Process, ReadinessReceiver};
use crate::balance::Balance;
use crate::config_source::load;
use crate::control::{Control, StartContext};
use crate::logs::Events;
use crate::options::{Failure, Options};
use crate::spec::WorkerSpec;
use crate::supervise::WorkerMessage;

/// Interval at which the number of connections is published to the other processes.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

/// Serves until the process is told to stop and its connections have ended.
pub(super) async fn serve(
    spec: &WorkerSpec,
    process: &Rc<Process>,
    queue: Arc<RequestQueue>,
    readiness: ReadinessReceiver,
) -> Result<(), String> {
    // In a program that serves by itself they must not outlive a failure.
    let inherited = inherited(spec)?;
    let text = spec.config.as_deref().ok_or("role http has no configuration")?;
    let source = TextSource::new("worker", text);
    let loaded = load(&source).map_err(|report| report.render())?;
    crate::run::configure_log(&loaded.plan, &Options::default());
    let telemetry = Arc::new(Telemetry::new());
    let events = Events::start(&telemetry).map_err(|error| format!("the log: {error}"))?;
    let shared = Arc::new(Shared::default());
    // Kept while the process serves: the shared state holds only a weak reference.
    let in_process = InProcess::of(&shared, &spec.app);
    in_process.set(queue);
    let balance = match spec.counts {
        None => None,
        Some(number) => {
            let counts = SharedCounts::inherited(number).map_err(|error| error.to_string())?;
            Some(Arc::new(Balance::new(counts, spec.slot)))
        }
    };
    let start_context = StartContext {
        shared,
        inherited,
        is_worker_process: true,
        balance: balance.clone(),
        events: events.clone(),
    };
    let options = Options { workers: Some(config::Workers::Count(1)), ..Options::default() };
    let started =
        Control::start(Arc::new(source), loaded, telemetry.clone(), &options, start_context).await;
    let control = started.map_err(|failure| match failure {
        Failure::Configuration(why) | Failure::Start(why) => why,
    })?;
    process.commands.show_metrics(move || admin::metrics_text(&telemetry));
    let told = process.channel.send_message(&WorkerMessage::Ready).await;
    let leave = match told {
        Ok(()) => tokio::select! {
            leave = process.until_leaving(readiness) => leave,
            () = reopen_logs(process, &control) => LeaveMode::Now,
            () = publish(balance.as_deref(), &control) => LeaveMode::Now,
        },
        Err(_) => LeaveMode::Now,
    };
    control.state.set(ServerState::Draining);
    report_draining(process, control.server_limiter.open()).await;
    if let LeaveMode::Within(within) = leave {
        process.application.begin_draining(within);
        tokio::select! {
            drained = net::timer::within(within, control.worker_threads.drain()) => {
                if drained.is_none() {
                    report_cut_off(process, control.server_limiter.open()).await;
                }
            }
            () = process.commands.at_once() => {}
        }
    }
    control.worker_threads.end().await;
    events.flush();
    drop(in_process);
    Ok(())
}

/// Publishes the number of connections, also when some end.
async fn publish(balance: Option<&Balance>, control: &Control) {
    let Some(balance) = balance else { return std::future::pending().await };
    loop {
        balance.publish(control.server_limiter.open());
        net::timer::sleep(PUBLISH_EVERY).await;
    }
}

/// Reopens log files on command.
async fn reopen_logs(process: &Process, control: &Control) {
    loop {
        process.commands.reopen_logs.notified().await;
        control.reopen_logs();
    }
}

/// The inherited listeners, under their names in the configuration.
pub(super) fn inherited(spec: &WorkerSpec) -> Result<Vec<Inherited>, String> {
    let take = |one: &crate::spec::PassedDescriptor| {
        net::inherited_listener(one.descriptor, &one.name).map_err(|error| error.to_string())
    };
    spec.listen.iter().map(take).collect()
}
