//! Bars of CPU per request, the cheapest first, with a line at the cost of the floor.

use std::fmt::Write as _;

use super::super::data::{FLOOR, OURS, Placement, Record};
use super::super::figures::{count, us};
use super::{escape, record_label};

/// The length of the longest bar, or of its highest round, in percent of the track.
const REACH: f64 = 97.0;

/// One group: every server at one number of connections.
pub(super) fn draw(out: &mut String, connections: u32, placement: Placement, records: &[&Record]) {
    let mut records: Vec<_> =
        records.iter().copied().filter(|it| it.cpu_us_per_request.is_finite()).collect();
    records.sort_by(|a, b| a.cpu_us_per_request.total_cmp(&b.cpu_us_per_request));
    let highest = records.iter().map(|record| record.cpu_range().1).fold(0.0, f64::max);
    if highest <= 0.0 {
        return;
    }
    let floor = records.iter().find(|record| record.server == FLOOR);
    let floor = floor.map(|record| record.cpu_us_per_request).filter(|floor| *floor > 0.0);
    let plural = if connections == 1 { "" } else { "s" };
    let pinned = if placement == Placement::Pinned { ", pinned" } else { "" };
    let _ = writeln!(
        out,
        "<h3>CPU per request, {connections} connection{plural}{pinned} <span class=soft>lower is \
         better</span></h3>\n<div role=\"list\">"
    );
    for record in records {
        bar(out, record, floor, REACH / highest);
    }
    out.push_str("</div>\n");
}

/// `scale` makes percent of the track out of microseconds.
fn bar(out: &mut String, record: &Record, floor: Option<f64>, scale: f64) {
    let class = match record.server.as_str() {
        OURS => "ours",
        FLOOR => "floor",
        _ => "peer",
    };
    let cost = record.cpu_us_per_request;
    let (low, high) = record.cpu_range();
    let line = floor.map(|floor| {
        format!("<span class=\"line\" style=\"--floor-at:{:.2}%\"></span>", floor * scale)
    });
    let times = floor
        .filter(|_| record.server != FLOOR)
        .map(|floor| format!(" <span class=\"soft small\">{:.2} × floor</span>", cost / floor));
    // A server that fails is not a cheap one.
    let disturbed = record.disturbed.as_ref().map(|why| {
        format!(" <span class=\"tag theirs\" title=\"{}\">disturbed</span>", escape(why))
    });
    let failed = (record.errors > 0).then(|| {
        format!(" <span class=\"small\">{}</span>", escape(&count(record.errors, "error")))
    });
    let _ = writeln!(
        out,
        "<div class=\"bar {class}\" role=\"listitem\" title=\"{}: rounds from {} to {} µs\">\
         <span class=\"name\">{}</span><span class=\"track\">\
         <span class=\"fill\" style=\"--w:{:.2}%\"></span>{}\
         <span class=\"range\" style=\"--low:{:.2}%;--high:{:.2}%\"></span></span>\
         <span class=\"value\"><b>{}</b>\u{a0}µs{}{}{}</span></div>",
        escape(&record_label(record)),
        us(low),
        us(high),
        escape(&record.server),
        cost * scale,
        line.unwrap_or_default(),
        low * scale,
        high * scale,
        us(cost),
        times.unwrap_or_default(),
        failed.unwrap_or_default(),
        disturbed.unwrap_or_default(),
    );
}
