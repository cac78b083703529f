//! The certificates of listeners: how long they are valid, as a metric and as warnings, and
//! those that are obtained from certificate authorities.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use config::ServerPlan;
use net::tls::CertificateDetails;
use telemetry::log::Level;
use telemetry::{FamilySamples, Sample, Value, event, families};

use crate::control::Control;

/// A certificate that is valid for less is warned of.
const WARNING_SECS: i64 = 14 * DAY_SECS;
const DAY_SECS: i64 = 24 * 60 * 60;

/// The certificates of a plan, each with the name of its listener or stream.
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

/// What a certificate is called: its subject, or its first name where that is empty.
fn title(certificate: &CertificateDetails) -> &str {
    let first = || certificate.names.first().map_or("", |name| name.as_str());
    if certificate.subject.is_empty() { first() } else { &certificate.subject }
}

fn left_secs(certificate: &CertificateDetails) -> i64 {
    certificate.not_after as i64 - net::clock::wall_secs() as i64
}

/// Time until each certificate expires; of those with one title, the first to expire.
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

/// Obtains the certificates of the plan in use. An issued one is presented after a reload, like any
/// other that has changed.
pub(crate) fn obtain(control: &Rc<Control>) {
    let of_server = Rc::downgrade(control);
    let reload: Rc<dyn Fn()> = Rc::new(move || {
        if let Some(control) = of_server.upgrade() {
            control.reload_requested.notify_one();
        }
    });
    control.acme.follow(control.plan().acme(), &reload);
}

/// Warns now, and repeats it once a day.
pub(crate) async fn warn_daily(control: Rc<Control>) {
    loop {
        warn(&control.plan());
        net::timer::sleep(Duration::from_secs(DAY_SECS as u64)).await;
    }
}

/// Warns of certificates that expire soon or have expired.
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
