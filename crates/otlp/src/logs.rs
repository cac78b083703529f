//! Sends log lines to a collector, on the control thread.
//!
//! The lines are those of the event log and of the access log, in the format they are written in.
//! Objects of JSON become records with attributes; another line is the body of its record.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use message::ExportQueue;
use net::task::JoinHandle;
use prost::Message;
use serde_json::Value as Json;
use telemetry::log::Level;
use telemetry::timestamp::now_ms;
use telemetry::{LineReceiver, SharedCounter, Telemetry, families};

use crate::collector::{Batch, Collector, Signal};
use crate::proto::logs::{ExportLogsServiceRequest, LogRecord, ResourceLogs, ScopeLogs};
use crate::proto::{KeyValue, Resource, Scope, Value};
use crate::settings::ExportPlan;

/// The time between two exports unless configured.
const INTERVAL: Duration = Duration::from_secs(1);
/// Lines that wait to be sent, and their bytes, before further ones are dropped.
const QUEUE_LINES: usize = 8192;
const QUEUE_BYTES: usize = 16 * 1024 * 1024;
/// Lines in one request, and the bytes from which on it takes no further line: collectors accept
/// 4 MiB by gRPC unless configured.
const BATCH_LINES: usize = 512;
const BATCH_BYTES: usize = 1024 * 1024;

/// The log that a line is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    Events,
    Access,
}

/// A line, without its end. Its bytes count as queued until it is dropped.
struct LogLine {
    source: LogSource,
    text: Box<[u8]>,
    queued_bytes: Arc<AtomicUsize>,
}

impl LogLine {
    fn new(source: LogSource, text: &[u8], queued_bytes: &Arc<AtomicUsize>) -> LogLine {
        queued_bytes.fetch_add(text.len(), Ordering::Relaxed);
        LogLine { source, text: text.into(), queued_bytes: queued_bytes.clone() }
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        self.queued_bytes.fetch_sub(self.text.len(), Ordering::Relaxed);
    }
}

/// The lines that wait to be sent, bounded in number and in bytes.
struct LineQueue {
    lines: Arc<ExportQueue<LogLine>>,
    bytes: Arc<AtomicUsize>,
}

impl LineQueue {
    fn new() -> Arc<LineQueue> {
        let lines = ExportQueue::new(QUEUE_LINES, BATCH_LINES);
        Arc::new(LineQueue { lines, bytes: Arc::default() })
    }

    /// Queues a line, or drops and counts it.
    fn push(&self, source: LogSource, text: &[u8]) {
        if self.bytes.load(Ordering::Relaxed) + text.len() > QUEUE_BYTES {
            self.lines.refuse();
        } else if self.lines.admits() {
            self.lines.push(LogLine::new(source, text, &self.bytes));
        }
    }

    /// Takes the lines of one request.
    fn take_batch(&self) -> Vec<LogLine> {
        let (mut taken, mut bytes) = (Vec::new(), 0);
        while taken.len() < BATCH_LINES && bytes < BATCH_BYTES {
            let Some(line) = self.lines.pop() else { break };
            bytes += line.text.len();
            taken.push(line);
        }
        taken
    }
}

/// The exporter of the current plan.
pub struct LogExporter {
    telemetry: Arc<Telemetry>,
    running: RefCell<Option<Running>>,
}

struct Running {
    plan: Arc<ExportPlan>,
    sender: Rc<Sender>,
    task: JoinHandle<()>,
}

impl LogExporter {
    pub fn new(telemetry: &Arc<Telemetry>) -> LogExporter {
        LogExporter { telemetry: telemetry.clone(), running: RefCell::default() }
    }

    /// Exports for this plan from now on. What another plan's queue holds is still sent.
    pub fn follow(&self, plan: Option<&Arc<ExportPlan>>) {
        let mut running = self.running.borrow_mut();
        if running.as_ref().map(|running| &running.plan) == plan {
            return;
        }
        *running = plan.map(|plan| {
            let sender = Rc::new(Sender {
                collector: Collector::new(Signal::Logs, &plan.collector, &self.telemetry),
                interval: plan.interval().unwrap_or(INTERVAL),
                queue: LineQueue::new(),
                dropped: self.telemetry.counter(&families::OTLP_RECORDS, &["logs", "dropped"]),
                resource: Resource::new(plan.resource()),
            });
            let task = net::task::spawn_local(sender.clone().run());
            Running { plan: plan.clone(), sender, task }
        });
    }

    /// Returns what takes the lines of a log for the current plan; `None` if logs are not exported.
    /// It never blocks: a full queue drops lines and counts them.
    pub fn receiver(&self, source: LogSource) -> Option<LineReceiver> {
        let queue = self.running.borrow().as_ref()?.sender.queue.clone();
        Some(LineReceiver(Arc::new(move |lines: &[u8]| {
            for text in lines.split(|byte| *byte == b'\n').filter(|text| !text.is_empty()) {
                queue.push(source, text);
            }
        })))
    }

    /// Sends what is queued at the end of the process.
    pub async fn finish(&self) {
        let Some(running) = self.running.borrow_mut().take() else { return };
        running.task.abort();
        running.sender.flush().await;
    }
}

struct Sender {
    collector: Collector,
    interval: Duration,
    queue: Arc<LineQueue>,
    dropped: Arc<SharedCounter>,
    resource: Resource,
}

impl Sender {
    async fn run(self: Rc<Self>) {
        // The exporter and this task hold the sender; receivers of the logs hold the queue. After
        // all of them are gone, nothing more can arrive.
        let is_used = || Rc::strong_count(&self) > 1 || Arc::strong_count(&self.queue) > 1;
        while is_used() || !self.queue.lines.is_empty() {
            net::timer::within(self.interval, self.queue.lines.batch()).await;
            while let Some(batch) = self.take_batch() {
                self.collector.deliver(batch).await;
            }
        }
    }

    /// Sends the batch that was being sent, and what is queued, each batch once.
    async fn flush(&self) {
        let mut unsent = self.collector.take_unsent();
        while let Some(batch) = unsent.take().or_else(|| self.take_batch()) {
            if !self.collector.deliver_once(&batch).await {
                return;
            }
        }
    }

    fn take_batch(&self) -> Option<Batch> {
        self.dropped.add(self.queue.lines.take_dropped());
        let now_ns = now_ms() * 1_000_000;
        let lines = self.queue.take_batch();
        let log_records: Vec<LogRecord> = lines.iter().map(|line| record(line, now_ns)).collect();
        if log_records.is_empty() {
            return None;
        }
        let items = log_records.len() as u64;
        let scope_logs = vec![ScopeLogs { scope: Some(Scope::own()), log_records }];
        let resource = Some(self.resource.clone());
        let request =
            ExportLogsServiceRequest { resource_logs: vec![ResourceLogs { resource, scope_logs }] };
        Some(Batch { message: request.encode_to_vec().into(), items })
    }
}

/// The number of a level in OpenTelemetry's model of logs.
fn severity(level: Level) -> i32 {
    match level {
        Level::Error => 17,
        Level::Warn => 13,
        Level::Info => 9,
        Level::Debug => 5,
    }
}

fn record(line: &LogLine, now_ns: u64) -> LogRecord {
    let text = String::from_utf8_lossy(&line.text);
    let source = match line.source {
        LogSource::Events => "events",
        LogSource::Access => "access",
    };
    let mut record = LogRecord {
        time_unix_nano: now_ns,
        observed_time_unix_nano: now_ns,
        attributes: vec![KeyValue::text("tidegate.log", source)],
        ..LogRecord::default()
    };
    let mut level = Level::Info;
    match serde_json::from_str(&text) {
        Ok(Json::Object(members)) => {
            for (name, value) in members {
                member(&mut record, &mut level, name, value);
            }
        }
        _ if line.source == LogSource::Events => {
            let mut rest = &*text;
            if let Some((time, after)) = text.split_once(' ')
                && let Some(time_ns) = unix_ns(time)
            {
                record.time_unix_nano = time_ns;
                rest = after;
            }
            if let Some((word, after)) = rest.split_once(' ')
                && let Some(known) = Level::parse(&word.to_ascii_lowercase())
            {
                level = known;
                rest = after;
            }
            record.body = Some(Value::text(rest.to_owned()).into());
        }
        _ => record.body = Some(Value::text(text.into_owned()).into()),
    }
    record.severity_number = severity(level);
    record.severity_text = level.slug().to_ascii_uppercase();
    record
}

/// Adds a member of a line's object to its record.
fn member(record: &mut LogRecord, level: &mut Level, name: String, value: Json) {
    let text = value.as_str().unwrap_or_default();
    match &*name {
        "time" if let Some(time_ns) = unix_ns(text) => record.time_unix_nano = time_ns,
        "level" if let Some(known) = Level::parse(text) => *level = known,
        "message" => record.body = Some(Value::text(text.to_owned()).into()),
        "trace_id" if let Some(id) = hex(text, 16) => record.trace_id = id,
        "span_id" if let Some(id) = hex(text, 8) => record.span_id = id,
        _ => {
            // A failed request is an error in the access log, which has no levels.
            if name == "status" && value.as_u64().is_some_and(|status| status >= 500) {
                *level = Level::Error;
            }
            let value = match value {
                Json::Bool(value) => Value::Bool(value),
                Json::String(text) => Value::text(text),
                Json::Number(number) => match number.as_i64() {
                    Some(number) => Value::Number(number),
                    None => Value::Double(number.as_f64().unwrap_or_default()),
                },
                other => Value::text(other.to_string()),
            };
            record.attributes.push(KeyValue::new(name, value));
        }
    }
}

/// Reads a time of our logs.
fn unix_ns(text: &str) -> Option<u64> {
    let time: Timestamp = text.parse().ok()?;
    u64::try_from(time.as_nanosecond()).ok()
}

/// Reads an identity of so many bytes.
fn hex(text: &str, bytes: usize) -> Option<Vec<u8>> {
    if text.len() != 2 * bytes || !text.is_ascii() {
        return None;
    }
    let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..bytes).map(|index| byte(2 * index)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: LogSource, text: &str) -> LogRecord {
        record(&LogLine::new(source, text.as_bytes(), &Arc::default()), 5)
    }

    fn text(record: &LogRecord) -> Option<String> {
        match record.body.clone()?.value? {
            Value::Text(text) => String::from_utf8(text.into()).ok(),
            _ => None,
        }
    }

    #[test]
    fn lines_are_bounded_in_number_and_in_bytes() {
        let queue = LineQueue::new();
        let queued = || queue.bytes.load(Ordering::Relaxed);
        // Bytes: the last that fits is queued, and no further one.
        let large = vec![b'x'; QUEUE_BYTES / 64];
        (0..70).for_each(|_| queue.push(LogSource::Access, &large));
        assert_eq!((queued(), queue.lines.take_dropped()), (QUEUE_BYTES, 6));
        // A request has fewer lines if they are long.
        let batch = queue.take_batch();
        assert_eq!(batch.len(), BATCH_BYTES / large.len());
        drop(batch);
        assert_eq!(queued(), QUEUE_BYTES - BATCH_BYTES);
        queue.push(LogSource::Access, &large);
        assert_eq!(queue.lines.take_dropped(), 0);
        while !queue.take_batch().is_empty() {}
        assert_eq!(queued(), 0);
        // Number.
        (0..QUEUE_LINES + 3).for_each(|_| queue.push(LogSource::Events, b"x"));
        assert_eq!((queued(), queue.lines.take_dropped()), (QUEUE_LINES, 3));
        assert_eq!(queue.take_batch().len(), BATCH_LINES);
    }

    #[test]
    fn an_object_becomes_a_record_with_attributes() {
        let line = r#"{"time":"2026-11-20T10:21:00.123Z","level":"warn","message":"a b","n":3,
            "trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7","x":[1]}"#;
        let record = read(LogSource::Events, line);
        assert_eq!(record.time_unix_nano, 1_795_170_060_123_000_000);
        assert_eq!((record.severity_number, &*record.severity_text), (13, "WARN"));
        assert_eq!(text(&record).as_deref(), Some("a b"));
        assert_eq!((record.trace_id[0], record.span_id.len()), (0x4b, 8));
        assert_eq!(
            record.attributes[1..],
            [KeyValue::new("n", Value::Number(3)), KeyValue::text("x", "[1]")]
        );
    }

    #[test]
    fn other_lines_are_bodies() {
        let event = read(LogSource::Events, "2026-11-20T10:21:00.123Z ERROR no room left=0");
        assert_eq!((event.severity_number, text(&event).as_deref()), (17, Some("no room left=0")));
        assert_eq!(event.time_unix_nano, 1_795_170_060_123_000_000);
        let access = read(LogSource::Access, "10.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 1");
        assert_eq!(text(&access).unwrap(), "10.0.0.1 - - [x] \"GET / HTTP/1.1\" 200 1");
        assert_eq!((access.time_unix_nano, access.severity_number), (5, 9));
        assert_eq!(read(LogSource::Access, r#"{"status":502}"#).severity_number, 17);
        let record = read(LogSource::Events, r#"{"trace_id":"zz","time":"x"}"#);
        assert!(record.trace_id.is_empty() && record.attributes.len() == 3);
        assert_eq!(hex("0é", 2), None);
    }
}
