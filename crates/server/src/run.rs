//! The phases of the process: start, serve, drain.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::{Refusal, ServerState};
use config::{Loaded, ServerPlan, Source};
use otlp::MetricsText;
use settings::Report;
use telemetry::log::{self, Level};
use telemetry::{Telemetry, event};

use crate::admin_listener::AdminListener;
use crate::api::Api;
use crate::app_processes::LogOptions;
use crate::application::lifecycle::{PreparedApplication, RunningApplication};
use crate::certificates;
use crate::config_source::load;
use crate::control::{Control, StartContext};
use crate::etcd_sync::EtcdSync;
use crate::logs::Events;
use crate::options::{Bound, Failure, Options};
use crate::signals::{SignalAction, Signals};
use crate::watch::Watch;

/// Time-out for the reads and writes of other threads at the end of the process.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Serves until a signal or the API stops the server and every connection has ended, or until the
/// drain time-out.
pub fn run(source: Arc<dyn Source>, options: Options) -> Result<(), Failure> {
    run_with(source, options, None)
}

/// Runs a server, or the supervisor of an application, whose processes then serve.
pub(crate) fn run_with(
    source: Arc<dyn Source>,
    mut options: Options,
    program: Option<PreparedApplication>,
) -> Result<(), Failure> {
    net::raise_descriptor_limit();
    let loaded = load_first(&*source)?;
    // Else the next blocks would be spread over pages that reading the configuration has used.
    net::release_free_memory();
    configure_log(&loaded.plan, &options);
    let telemetry = Arc::new(Telemetry::new());
    let events = Events::start(&telemetry)
        .map_err(|error| Failure::Start(format!("the log cannot be started: {error}")))?;
    let runtime = net::worker::runtime()
        .map_err(|error| Failure::Start(format!("the event loop cannot be started: {error}")))?;
    let served = runtime.block_on(async {
        tokio::task::spawn_local(net::timer::drive());
        // Before a socket listens: a signal sent once the server accepts must not kill the process.
        let signals = Signals::new(program.is_some())
            .map_err(|error| Failure::Start(format!("signals: {error}")))?;
        let start_context = StartContext::own(&events)?;
        let control = Control::start(source, loaded, telemetry, &options, start_context).await?;
        let program = program.map(|program| program.begin(&control.apps)).transpose()?;
        let etcd = options.etcd.take().map(|source| EtcdSync::start(&control, &source));
        let etcd = etcd.transpose().map_err(Failure::Start)?;
        let served = serve(&control, options, signals, &events, program).await;
        if let Some(etcd) = etcd {
            etcd.end().await;
        }
        control.apps.kill();
        control.apps.stop().await;
        control.worker_threads.end().await;
        served
    });
    // A disk that does not respond does not delay the exit.
    runtime.shutdown_timeout(END_WITHIN);
    served
}

/// Loads the configuration, or the one that was in use last if the source has a copy of it.
fn load_first(source: &dyn Source) -> Result<Loaded, Failure> {
    let failed = |report: Report| Failure::Configuration(report.render());
    match load(source) {
        Err(report) if source.fall_back() => {
            let message = "configuration rejected, starting with the last one that was in use";
            event!(Level::Error, message, errors = report.render());
            load(source).map_err(failed)
        }
        loaded => loaded.map_err(failed),
    }
}

/// Sets level and format of the log: the command line takes precedence over the configuration.
pub(crate) fn configure_log(plan: &ServerPlan, options: &Options) {
    let typed = (options.log_level, options.log_format);
    let log_options = LogOptions::of(&plan.log, typed);
    log::set_level(log_options.level);
    log::set_format(log_options.format);
}

/// Returns when the process is to end.
async fn until_stopped(control: &Control, signals: &mut Signals) {
    loop {
        tokio::select! {
            asked = signals.next() => {
                if matches!(asked, SignalAction::Drain | SignalAction::Interrupt) {
                    return;
                }
            }
            () = control.drain_requested.notified() => return,
        }
    }
}

/// Carries out a signal. Returns whether a reload is wanted; `Break` ends the server.
fn obey(control: &Control, asked: SignalAction) -> ControlFlow<(), bool> {
    let group = control.apps.running();
    match asked {
        SignalAction::Drain => return ControlFlow::Break(()),
        SignalAction::Interrupt => {
            group.iter().for_each(|group| group.interrupt());
            return ControlFlow::Break(());
        }
        SignalAction::ReopenLogs => {
            control.reopen_logs();
            group.iter().for_each(|group| group.reopen_logs());
        }
        SignalAction::Reload => control.reopen_logs(),
        SignalAction::More => group.iter().for_each(|group| group.add_workers(1)),
        SignalAction::Fewer => group.iter().for_each(|group| group.add_workers(-1)),
    }
    ControlFlow::Continue(asked == SignalAction::Reload)
}

async fn serve(
    control: &Rc<Control>,
    mut options: Options,
    mut signals: Signals,
    events: &Events,
    mut program: Option<RunningApplication>,
) -> Result<(), Failure> {
    let admin_listener = AdminListener::new(control.clone());
    control.metrics_export.read_from(metrics_text(control));
    let admin = admin_listener.follow(&control.plan()).map_err(Failure::Start)?;
    let mut bound = control.bound();
    bound.extend(admin);
    // Before the listeners are announced: a change made in response must not be missed.
    let mut watch = Watch::new().unwrap_or_else(|error| {
        event!(Level::Warn, "files cannot be watched, SIGHUP reloads", error = error);
        Watch::detecting_nothing()
    });
    let mut plans = control.plan_changed.subscribe();
    follow_files(&mut watch, control).await;
    net::task::spawn_local(certificates::warn_daily(control.clone()));
    certificates::obtain(control);
    if let Some(program) = &mut program {
        tokio::select! {
            first = program.first() => bound.extend(first?),
            () = until_stopped(control, &mut signals) => return Ok(()),
        }
    }
    log_start(control, &bound);
    events.flush();
    if let Some(on_ready) = options.on_ready.take() {
        on_ready(&bound);
    }
    net::release_startup_memory();
    loop {
        let reload = tokio::select! {
            asked = signals.next() => match obey(control, asked) {
                ControlFlow::Break(()) => break,
                ControlFlow::Continue(true) => true,
                ControlFlow::Continue(false) => continue,
            },
            () = RunningApplication::changed(&mut program) => true,
            () = watch.changed() => true,
            () = control.reload_requested.notified() => true,
            Ok(()) = plans.changed() => {
                // The admin API has applied another plan.
                follow(&admin_listener, &options, &mut watch, control, &mut bound).await;
                continue;
            }
            () = control.drain_requested.notified() => break,
        };
        if reload && program.is_some() {
            // The processes start slowly: signals are handled in the meantime.
            let control = control.clone();
            net::task::spawn_local(async move { reload_now(&control).await });
        } else if reload {
            reload_now(control).await;
            plans.mark_unchanged();
            follow(&admin_listener, &options, &mut watch, control, &mut bound).await;
        }
    }
    drain(control, &mut signals, program).await;
    control.upstream_tasks.take();
    send_the_rest(control).await;
    Ok(())
}

/// Returns the metrics of the server and of its processes for the exporter.
fn metrics_text(control: &Rc<Control>) -> MetricsText {
    let control = Rc::downgrade(control);
    Rc::new(move || {
        let control = control.upgrade();
        Box::pin(async move {
            match control {
                Some(control) => admin::all_metrics(&Api(control)).await,
                None => String::new(),
            }
        })
    })
}

/// Sends what collectors and Redis have not received, and leaves the servers that share purges.
async fn send_the_rest(control: &Control) {
    let (traces, settlement) = (control.traces.finish(), control.settlement.finish());
    let (metrics, logs) = (control.metrics_export.finish(), control.log_export.finish());
    let sent = async { tokio::join!(traces, settlement, control.purges.finish(), metrics, logs) };
    net::timer::within(END_WITHIN, sent).await;
}

/// Reloads; the result is logged and shown by the admin API. A change in progress may have read an
/// older state of the source, so this reload comes after it.
async fn reload_now(control: &Control) {
    while let Err(Refusal::Busy) = control.reload_now().await {}
}

/// Logs where the server listens, and once what runs: the first question about a log is which
/// server wrote it.
fn log_start(control: &Control, bound: &[Bound]) {
    bound.iter().for_each(log_listening);
    let source = control.source.source();
    let configuration = match source.file() {
        Some(file) => file.display().to_string(),
        None => source.main().map(|document| document.name.clone()).unwrap_or_default(),
    };
    let addresses: Vec<String> =
        bound.iter().map(|one| format!("{}={}", one.name, one.address)).collect();
    event!(
        Level::Info,
        "serving",
        version = env!("CARGO_PKG_VERSION"),
        configuration = configuration,
        workers = control.worker_threads.len(),
        addresses = addresses.join(",")
    );
}

fn log_listening(bound: &Bound) {
    event!(Level::Info, "listening", name = bound.name, address = bound.address);
}

/// Applies the current plan to everything except the workers, and announces new addresses.
async fn follow(
    admin_listener: &AdminListener,
    options: &Options,
    watch: &mut Watch,
    control: &Rc<Control>,
    before: &mut Vec<Bound>,
) {
    let plan = control.plan();
    configure_log(&plan, options);
    let mut bound = control.bound();
    match admin_listener.follow(&plan) {
        Ok(admin) => bound.extend(admin),
        Err(error) => {
            event!(Level::Error, "the admin API keeps its addresses", error = error);
            bound.extend(before.iter().filter(|one| one.name == "admin").cloned());
        }
    }
    for one in bound.iter().filter(|one| !before.contains(one)) {
        log_listening(one);
    }
    *before = bound;
    certificates::warn(&plan);
    certificates::obtain(control);
    follow_files(watch, control).await;
}

/// Watches the files of the plan; reads those again that changed before they were watched.
async fn follow_files(watch: &mut Watch, control: &Control) {
    let is_wider = watch.set(&control.source.watched());
    if is_wider && control.source.has_changed().await {
        control.reload_requested.notify_one();
    }
}

/// Stops the applications, which get no more requests. Returns the number of connections that were
/// cut off, or `None` if a second interrupt ended the wait.
async fn stop_apps(control: &Control, signals: &mut Signals) -> Option<u64> {
    let stopped = control.apps.stop();
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            cut_off = &mut stopped => return Some(cut_off),
            asked = signals.next() => if asked == SignalAction::Interrupt {
                return None;
            },
        }
    }
}

/// Drains: listening sockets are closed after `timeouts.drain_delay`, requests in flight are
/// finished, idle connections are closed, and after `timeouts.drain` the remaining ones are cut
/// off. A second interrupt cuts them off at once.
async fn drain(control: &Rc<Control>, signals: &mut Signals, program: Option<RunningApplication>) {
    control.state.set(ServerState::Draining);
    let timeouts = control.plan().timeouts.clone();
    let began_ms = net::clock::now().as_ms();
    let open = || control.server_limiter.open() as u64 + control.apps.connections();
    event!(Level::Info, "draining", connections = open(), within = timeouts.drain);
    let finished = async {
        // Still accepting: load balancers need time to notice that /readyz has changed.
        net::timer::sleep(timeouts.drain_delay.get()).await;
        control.remove_socket_files();
        // Removes the files of its sockets as well.
        drop(program);
        control.apps.stop_listening();
        net::timer::within(timeouts.drain.get(), control.worker_threads.drain()).await.is_some()
    };
    tokio::pin!(finished);
    let whole = loop {
        tokio::select! {
            whole = &mut finished => break whole,
            asked = signals.next() => {
                if asked == SignalAction::Interrupt {
                    break false;
                }
            }
        }
    };
    let cut_off = match whole {
        true => stop_apps(control, signals).await.unwrap_or_else(open),
        false => open(),
    };
    let took_ms = net::clock::now().as_ms().saturating_sub(began_ms);
    if whole && cut_off == 0 {
        event!(Level::Info, "drained", took_ms = took_ms);
    } else {
        let message = "connections were cut off";
        event!(Level::Warn, message, connections = cut_off, took_ms = took_ms);
    }
}
