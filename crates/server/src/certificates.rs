//! The certificates of listeners: their expiry and the use of their OCSP responses as metrics and
//! as warnings, and the certificates that are obtained by ACME.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use config::ServerPlan;
use net::tls::{CertificateDetails, CertificateKey, ServerTls};
use telemetry::log::Level;
use telemetry::{FamilySamples, Sample, Value, event, families};

use crate::control::Control;

/// Remaining validity below which a warning is logged.
const WARNING_SECS: i64 = 14 * DAY_SECS;
const DAY_SECS: i64 = 24 * 60 * 60;

/// Returns the TLS of each listener and stream of a plan that has any, with its name.
pub(crate) fn terminating_tls(plan: &ServerPlan) -> impl Iterator<Item = (&str, &ServerTls)> {
    let listeners = plan.listeners.iter().map(|listener| (&*listener.name, &listener.tls));
    let of_http = listeners.chain([("admin", &plan.admin.tls)]);
    let of_http = of_http.map(|(name, tls)| (name, tls.as_ref().map(|tls| &tls.server)));
    let streams = plan.streams.iter().map(|(_, stream)| (&*stream.name, stream.tls.as_ref()));
    of_http.chain(streams).filter_map(|(name, tls)| Some((name, tls?)))
}

/// Returns the certificates of a plan, each with the name of its listener or stream.
fn certificates(plan: &ServerPlan) -> impl Iterator<Item = (&str, &CertificateKey)> {
    terminating_tls(plan).flat_map(|(name, tls)| {
        tls.options().certificates.iter().map(move |certificate| (name, certificate))
    })
}

/// Returns the subject of a certificate, or its first alternative name if the subject is empty.
fn title(certificate: &CertificateDetails) -> &str {
    let first = || certificate.names.first().map_or("", |name| name.as_str());
    if certificate.subject.is_empty() { first() } else { &certificate.subject }
}

fn left_secs(certificate: &CertificateDetails) -> i64 {
    certificate.not_after as i64 - net::clock::wall_secs() as i64
}

/// Exports the time until each certificate expires and whether its OCSP response is sent; of
/// certificates with the same title, the least value.
pub(crate) fn samples(plan: &ServerPlan) -> impl Iterator<Item = FamilySamples> {
    let (mut left, mut stapled) = (BTreeMap::new(), BTreeMap::new());
    let now = net::clock::wall_secs();
    for (listener, certificate) in certificates(plan) {
        let labels = (listener, title(&certificate.details));
        note_least(&mut left, labels, left_secs(&certificate.details));
        if let Some(stapling) = certificate.stapling(now) {
            note_least(&mut stapled, labels, i64::from(stapling.is_ok()));
        }
    }
    let families = [(&families::CERTIFICATE_EXPIRY, left), (&families::OCSP_STAPLED, stapled)];
    let families = families.into_iter().filter(|(_, values)| !values.is_empty());
    families.map(|(family, values)| {
        let samples = values.into_iter().map(|((listener, title), value)| Sample {
            labels: vec![listener.to_owned(), title.to_owned()],
            value: Value::Gauge(value),
        });
        FamilySamples { family, samples: samples.collect() }
    })
}

type Labels<'p> = (&'p str, &'p str);

fn note_least<'p>(values: &mut BTreeMap<Labels<'p>, i64>, labels: Labels<'p>, value: i64) {
    let least = values.entry(labels).or_insert(i64::MAX);
    *least = value.min(*least);
}

/// Starts ACME for the current plan. An issued certificate is presented after a reload, like any
/// other changed certificate.
pub(crate) fn obtain(control: &Rc<Control>) {
    let of_server = Rc::downgrade(control);
    let reload: Rc<dyn Fn()> = Rc::new(move || {
        if let Some(control) = of_server.upgrade() {
            control.reload_requested.notify_one();
        }
    });
    control.acme.follow(control.plan().acme(), &reload);
}

/// Logs warnings now and once a day.
pub(crate) async fn warn_daily(control: Rc<Control>) {
    loop {
        warn(&control.plan());
        net::timer::sleep(Duration::from_secs(DAY_SECS as u64)).await;
    }
}

/// Logs a warning for each certificate that expires soon or has expired, and for each OCSP response
/// that is not sent.
pub(crate) fn warn(plan: &ServerPlan) {
    let now = net::clock::wall_secs();
    for (listener, certificate) in certificates(plan) {
        let details = &certificate.details;
        let left = left_secs(details);
        if left < WARNING_SECS {
            event!(
                Level::Warn,
                "a certificate expires soon: replace its files, they are watched",
                event = "certificate_expires",
                listener = listener,
                certificate = title(details),
                days = left / DAY_SECS
            );
        }
        if let Some(Err(reason)) = certificate.stapling(now) {
            event!(
                Level::Warn,
                "an OCSP response is not sent: replace its file, which is watched",
                event = "ocsp_not_stapled",
                listener = listener,
                certificate = title(details),
                reason = reason
            );
        }
    }
}
