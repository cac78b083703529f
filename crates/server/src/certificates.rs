//! The certificates of listeners: their expiry as a metric and as warnings, and the certificates
//! that are obtained by ACME.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use config::ServerPlan;
use net::tls::CertificateDetails;
use telemetry::log::Level;
use telemetry::{FamilySamples, Sample, Value, event, families};

use crate::control::Control;

/// Remaining validity below which a warning is logged.
const WARNING_SECS: i64 = 14 * DAY_SECS;
const DAY_SECS: i64 = 24 * 60 * 60;

/// Returns the certificates of a plan, each with the name of its listener or stream.
fn certificates(plan: &ServerPlan) -> impl Iterator<Item = (&str, &CertificateDetails)> {
    let listeners = plan.listeners.iter().map(|listener| (&*listener.name, &listener.tls));
    let of_http = listeners.chain([("admin", &plan.admin.tls)]);
    let of_http = of_http.map(|(name, tls)| (name, tls.as_ref().map(|tls| &tls.server)));
    let streams = plan.streams.iter().map(|(_, stream)| (&*stream.name, stream.tls.as_ref()));
    of_http.chain(streams).flat_map(|(name, tls)| {
        let certificates = tls.into_iter().flat_map(|tls| &tls.options().certificates);
        certificates.map(move |certificate| (name, &certificate.details))
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

/// Exports the time until each certificate expires; of certificates with the same title, the
/// earliest.
pub(crate) fn samples(plan: &ServerPlan) -> Option<FamilySamples> {
    let mut left = BTreeMap::new();
    for (listener, certificate) in certificates(plan) {
        let left: &mut i64 = left.entry((listener, title(certificate))).or_insert(i64::MAX);
        *left = left_secs(certificate).min(*left);
    }
    let samples = left.into_iter().map(|((listener, title), left)| Sample {
        labels: vec![listener.to_owned(), title.to_owned()],
        value: Value::Gauge(left),
    });
    let samples: Vec<Sample> = samples.collect();
    (!samples.is_empty())
        .then_some(FamilySamples { family: &families::CERTIFICATE_EXPIRY, samples })
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

/// Logs a warning for each certificate that expires soon or has expired.
pub(crate) fn warn(plan: &ServerPlan) {
    for (listener, certificate) in certificates(plan) {
        let left = left_secs(certificate);
        if left < WARNING_SECS {
            event!(
                Level::Warn,
                "a certificate expires soon: replace its files, they are watched",
                event = "certificate_expires",
                listener = listener,
                certificate = title(certificate),
                days = left / DAY_SECS
            );
        }
    }
}
