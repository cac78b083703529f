//! The figures of a published page and those measured here: two tables of the same kind of work.

use std::fmt::Write as _;

use super::super::data::{Data, Record, Scenario};
use super::super::figures::{grouped, ms, us};
use super::super::published::{self, LABEL};
use super::super::table::Table;
use super::{escape, table_html};

pub(super) fn draw(out: &mut String, data: &Data, scenario: &Scenario) {
    let Some(replayed) = scenario.replays.as_deref() else { return };
    let mut tables = published::of(replayed).peekable();
    if tables.peek().is_none() {
        return;
    }
    let _ = write!(
        out,
        "<h3>What others have published</h3>\n<p class=\"small soft\">Absolute figures do not \
         carry from one machine to another: compare within a table, never across.</p>\n\
         <div class=\"columns\">\n\
         <div><p><span class=\"tag\">this machine, this run</span></p>{}</div>\n",
        table_html(&ours(data, &scenario.name))
    );
    for table in tables {
        let mut theirs = Table::new(table.columns);
        for row in table.rows {
            theirs.row(row.iter().map(|&cell| cell.to_owned()));
        }
        let _ = writeln!(
            out,
            "<div><p><span class=\"tag theirs\">{LABEL}</span></p>\
             <p class=\"small\"><b>{}</b><br>{}</p>{}\
             <p class=\"small soft\">{}</p></div>",
            escape(table.title),
            escape(table.setting),
            table_html(&theirs),
            escape(table.trap),
        );
    }
    out.push_str("</div>\n");
}

/// Most requests first, as those pages rank.
fn ours(data: &Data, scenario: &str) -> Table {
    let mut records: Vec<&Record> = data.of_scenario(scenario).collect();
    records.sort_by(|a, b| b.requests_per_second.total_cmp(&a.requests_per_second));
    let mut table = Table::new(&["server", "conn", "req/s", "p50 ms", "p99", "µs CPU"]);
    for record in records {
        table.row([
            match record.workers {
                1 => record.server.clone(),
                workers => format!("{}, {workers} workers", record.server),
            },
            record.connections.to_string(),
            grouped(record.requests_per_second),
            ms(record.latency_ms.p50),
            ms(record.latency_ms.p99),
            us(record.cpu_us_per_request),
        ]);
    }
    table
}
