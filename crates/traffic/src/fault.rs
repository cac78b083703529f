//! `fault`: delays and errors on purpose, to test what clients do about them.
//!
//! Which requests are delayed and which fail are two independent decisions, each exact in its
//! share.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration as Span;

use message::{Fault, FaultKind, Request};
use plugin::{
    Condition, Filter, FilterKind, FilterPlan, MaybeFuture, RouteNames, Stage, Step, WorkerContext,
};
use settings::{Duration, Node, Percent, Reader, Setting};
use telemetry::{CachePadded, Counter, families};

use crate::share::{Share, Spread};

pub(crate) const KIND: FilterKind =
    FilterKind { name: "fault", schema: FaultSettings::schema, read };

/// Delays requests or fails them, on purpose: to test how clients cope.
///
/// `fault: { delay: { time: 300ms, share: 10% }, abort: { status: 503, share: 1% } }`
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct FaultSettings {
    /// Delays requests before they continue.
    delay: Option<DelaySettings>,
    /// Responds with an error, after the delay if there is one.
    abort: Option<AbortSettings>,
    /// Only requests for which this holds.
    when: Option<Condition>,
}

/// A delay.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = time)]
struct DelaySettings {
    /// How long.
    #[setting(range = "1ms"..="5m", example = "300ms")]
    time: Duration,
    /// How many of the requests.
    #[setting(default = "100%")]
    share: Percent,
}

/// An error.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = status)]
struct AbortSettings {
    /// The status of the response.
    #[setting(range = 400..=599, example = 503)]
    status: u16,
    /// How many of the requests.
    #[setting(default = "100%")]
    share: Percent,
}

fn check(settings: &FaultSettings, node: &Node, reader: &mut Reader<'_>) {
    if settings.delay.is_none() && settings.abort.is_none() {
        reader.error(node.span, "a fault without effect").help("write delay, abort or both");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(InjectionPlan(Arc::new(FaultSettings::read(node, reader)?))))
}

struct InjectionPlan(Arc<FaultSettings>);

impl FilterPlan for InjectionPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        let counter = |fault| {
            worker.telemetry.worker_counter(
                worker.index,
                &families::FAULTS_INJECTED,
                &[route.shown, fault],
            )
        };
        Stage::Filter(Rc::new(InjectionFilter {
            when: self.0.when.clone(),
            delay: self.0.delay.as_ref().map(|delay| Delay {
                time: delay.time.get(),
                share: Share::new(delay.share),
                points: Spread::new(),
                injected: counter("delay"),
            }),
            abort: self.0.abort.as_ref().map(|abort| Abort {
                status: abort.status,
                share: Share::new(abort.share),
                points: Spread::second(),
                injected: counter("abort"),
            }),
        }))
    }

    fn needs_authentication(&self) -> bool {
        self.0.when.as_ref().is_some_and(Condition::needs_authentication)
    }

    fn describe(&self) -> String {
        let delay =
            self.0.delay.as_ref().map(|delay| format!("delay {} for {}", delay.time, delay.share));
        let abort =
            self.0.abort.as_ref().map(|abort| format!("{} for {}", abort.status, abort.share));
        let both: Vec<String> = delay.into_iter().chain(abort).collect();
        let when = if self.0.when.is_some() { ", under a condition" } else { "" };
        format!("{}{when}", both.join(", "))
    }
}

struct InjectionFilter {
    when: Option<Condition>,
    delay: Option<Delay>,
    abort: Option<Abort>,
}

struct Delay {
    time: Span,
    share: Share,
    points: Spread,
    injected: Arc<CachePadded<Counter>>,
}

struct Abort {
    status: u16,
    share: Share,
    points: Spread,
    injected: Arc<CachePadded<Counter>>,
}

impl Filter for InjectionFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        self.delay.is_none()
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if self.when.as_ref().is_some_and(|when| !when.holds(request)) {
            return Step::Continue.into();
        }
        let delay = self.delay.as_ref().filter(|delay| delay.share.contains(delay.points.next()));
        let abort = self.abort.as_ref().filter(|abort| abort.share.contains(abort.points.next()));
        match delay {
            None => end(abort).into(),
            Some(delay) => {
                delay.injected.inc();
                MaybeFuture::of(async move {
                    net::timer::sleep_precisely(delay.time).await;
                    end(abort)
                })
            }
        }
    }
}

fn end(abort: Option<&Abort>) -> Step {
    let Some(abort) = abort else { return Step::Continue };
    abort.injected.inc();
    let detail = "the filter fault failed it on purpose";
    Step::Fail(Fault::new(FaultKind::FaultInjected, detail).with_status(abort.status))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    use net::manual_time;
    use plugin::testing::{context, errors, filter, filter_in, get, passed, plan};
    use plugin::{MaybeFuture, Step};
    use settings::node;
    use telemetry::families;

    use super::KIND;

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<super::FaultSettings>().unwrap();
    }

    #[test]
    fn aborts_have_their_status_and_an_exact_share() {
        let context = context();
        let settings = node!({ "abort": { "status": 503, "share": "5%" } });
        let fault = filter_in(&KIND, &settings, &context);
        assert!(fault.is_instant());
        let fails = |_: &i32| match passed(fault.on_request(&mut get("/", &[]))) {
            Ok(()) => false,
            Err(fault) => (fault.status, fault.slug()) == (503, "fault_injected"),
        };
        let failed = (0..100_000).filter(fails).count();
        assert!((4_950..=5_050).contains(&failed), "{failed}");
        let counted =
            context.telemetry.worker_counter(0, &families::FAULTS_INJECTED, &["", "abort"]);
        assert_eq!(counted.get(), failed as u64);
    }

    #[test]
    fn a_delay_lasts_as_long_as_set_and_may_end_in_an_error() {
        manual_time::block_on(async {
            let fault = filter(&KIND, &node!({ "delay": "300ms", "abort": 500 }));
            assert!(!fault.is_instant());
            let ended = Rc::new(Cell::new(0));
            let status = ended.clone();
            net::task::spawn_local(async move {
                let mut request = get("/", &[]);
                match fault.on_request(&mut request) {
                    MaybeFuture::Ready(_) => panic!("does not wait"),
                    MaybeFuture::Future(step) => match step.await {
                        Step::Fail(fault) => status.set(fault.status),
                        _ => panic!("does not fail"),
                    },
                }
            });
            manual_time::advance(Duration::from_millis(299)).await;
            assert_eq!(ended.get(), 0);
            manual_time::advance(Duration::from_millis(1)).await;
            assert_eq!(ended.get(), 500);
        });
    }

    #[test]
    fn only_requests_under_the_condition() {
        let fault = filter(&KIND, &node!({ "abort": 500, "when": { "header": "x-test" } }));
        passed(fault.on_request(&mut get("/", &[]))).unwrap();
        assert!(passed(fault.on_request(&mut get("/", &[("x-test", "1")]))).is_err());
    }

    #[test]
    fn errors_are_named() {
        for (settings, why) in [
            (node!({}), "a fault without effect"),
            (node!({ "abort": 200 }), "between 400 and 599"),
            (node!({ "delay": "10m" }), "between 1ms and 5m"),
            (node!({ "abort": { "status": 500, "shar": "5%" } }), "did you mean \"share\"?"),
            (node!({ "abort": { "status": 500, "share": "500%" } }), "500%"),
        ] {
            let report = errors(&KIND, &settings);
            assert!(report.contains(why), "{report}\nwanted {why}");
        }
        let shown = node!({ "delay": { "time": "1s", "share": "5%" }, "abort": 503 });
        assert_eq!(plan(&KIND, &shown).unwrap().describe(), "delay 1s for 5%, 503 for 100%");
    }
}
