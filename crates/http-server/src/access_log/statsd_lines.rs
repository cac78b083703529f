//! Metrics of each exchange for a StatsD server, with gunicorn's names.

use std::io::Write;
use std::sync::Arc;

use telemetry::LogRing;

/// One worker's end of the metrics.
pub struct StatsdLines {
    ring: Arc<LogRing>,
    /// What names begin with: empty, or with a dot at the end.
    prefix: String,
    /// What each metric ends with.
    tags: String,
}

impl StatsdLines {
    pub fn new(ring: Arc<LogRing>, prefix: &str, tags: &str) -> StatsdLines {
        StatsdLines { ring, prefix: written_prefix(prefix), tags: written_tags(tags) }
    }

    pub(super) fn ring(&self) -> Arc<LogRing> {
        self.ring.clone()
    }

    pub(super) fn answered(&self, status: u16, duration_us: u64) {
        let StatsdLines { ring, prefix, tags } = self;
        let mut lines = ring.buffer();
        let (ms, us) = (duration_us / 1000, duration_us % 1000);
        // Writing into memory does not fail.
        let _ = write!(
            lines,
            "{prefix}gunicorn.request.duration:{ms}.{us:03}|ms{tags}\n\
             {prefix}gunicorn.requests:1|c|@1.0{tags}\n\
             {prefix}gunicorn.request.status.{status}:1|c|@1.0{tags}"
        );
        ring.push(lines);
    }
}

/// Returns the line that sets a gauge.
pub fn statsd_gauge(name: &str, value: usize, prefix: &str, tags: &str) -> String {
    format!("{}{name}:{value}|g{}", written_prefix(prefix), written_tags(tags))
}

/// Returns a prefix as gunicorn writes it: with exactly one dot at its end.
fn written_prefix(prefix: &str) -> String {
    match prefix.trim_end_matches('.') {
        "" => String::new(),
        name => format!("{name}."),
    }
}

fn written_tags(tags: &str) -> String {
    if tags.is_empty() { String::new() } else { format!("|#{tags}") }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use telemetry::{LineReceiver, LogWriter, Sink, Telemetry};

    use super::{StatsdLines, statsd_gauge};
    use crate::AccessLog;

    #[test]
    fn metrics_have_the_names_and_forms_of_gunicorn() {
        for (prefix, tags, expected) in [
            (
                "",
                "",
                "gunicorn.request.duration:12.045|ms\ngunicorn.requests:1|c|@1.0\n\
                 gunicorn.request.status.404:1|c|@1.0\n",
            ),
            (
                "shop..",
                "env:prod",
                "shop.gunicorn.request.duration:12.045|ms|#env:prod\n\
                 shop.gunicorn.requests:1|c|@1.0|#env:prod\n\
                 shop.gunicorn.request.status.404:1|c|@1.0|#env:prod\n",
            ),
        ] {
            let (sender, received) = channel();
            let take = move |lines: &[u8]| {
                let _ = sender.send(String::from_utf8_lossy(lines).into_owned());
            };
            let sink = Sink::Lines(LineReceiver(std::sync::Arc::new(take)));
            let writer = LogWriter::start("statsd", sink, &Telemetry::default()).unwrap();
            let log = AccessLog::without_lines(StatsdLines::new(writer.ring(), prefix, tags));
            assert!(!log.is_drawn(500, None));
            log.statsd.as_ref().unwrap().answered(404, 12_045);
            drop((log, writer));
            assert_eq!(received.iter().collect::<String>(), expected);
        }
        assert_eq!(statsd_gauge("gunicorn.workers", 4, "a", "b:c"), "a.gunicorn.workers:4|g|#b:c");
    }
}
