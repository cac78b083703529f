//! `report.html`: a run as one shareable page.
//!
//! Owns the page. Promises one file that loads nothing (its policy forbids it) and runs no script,
//! in the reader's light or dark mode, readable on a phone; all text is escaped, and every colour
//! has a label.

mod bars;
#[cfg(test)]
mod browser;
mod chart;
mod curves;
mod rankings;

use std::fmt::Write as _;

use super::bars::{no_verdict, ratio as ratio_of};
use super::data::{Data, FLOOR, OURS, Placement, Record, Scenario};
use super::figures::{ratio, span, us};
use super::results::{self, Room};
use super::table::Table;

/// What the pages of Tidegate have in common, and the rules of this one.
const BASE_STYLE: &str = include_str!("../../../../console/src/base.css");
const STYLE: &str = include_str!("html/style.css");
/// Nothing is loaded; the style is in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
/// The number of connections in the tiles, if it was measured.
const TILE_CONNECTIONS: u32 = 100;
/// The number of colours for peers; further ones have dashed lines.
const COLOURS: usize = 7;

/// The page of a run.
pub fn render(data: &Data) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Tidegate benchmark, {date}</title>\n<style>\n{BASE_STYLE}{STYLE}</style>\n\
         </head>\n<body>\n",
        date = escape(day(data)),
    );
    header(&mut out, data);
    out.push_str("<main>\n");
    notes(&mut out, data);
    tiles(&mut out, data);
    for scenario in measured(data) {
        self::scenario(&mut out, data, scenario);
    }
    out.push_str(METHOD);
    commands(&mut out, data);
    configurations(&mut out, data);
    let (took, said) = (span(data.elapsed_seconds), span(data.planned_seconds));
    let _ = write!(
        out,
        "</main>\n<footer><p>Measured on {}; it took {took} of {said}. The figures are in \
         data.json next to this page.</p></footer>\n</body>\n</html>\n",
        escape(&data.date)
    );
    out
}

/// Escapes text for HTML, also between quotes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

fn day(data: &Data) -> &str {
    data.date.split('T').next().unwrap_or_default()
}

/// The scenarios that have a figure.
fn measured(data: &Data) -> impl Iterator<Item = &Scenario> {
    data.scenarios.iter().filter(|scenario| data.of_scenario(&scenario.name).next().is_some())
}

/// The records that charts show: those of one placement, unpinned if it was measured.
fn charted<'a>(data: &'a Data, scenario: &'a str) -> impl Iterator<Item = &'a Record> {
    let placement = data.of_scenario(scenario).map(|record| record.placement).min();
    data.of_scenario(scenario).filter(move |record| Some(record.placement) == placement)
}

/// The workers that the servers have where scaling is not the question: the fewest.
fn workers_of(data: &Data, scenario: &str) -> u32 {
    data.of_scenario(scenario).map(|record| record.workers).min().unwrap_or(1)
}

/// The numbers of connections of a scenario, rising.
fn connections_of(data: &Data, scenario: &str) -> Vec<u32> {
    let workers = workers_of(data, scenario);
    let records = data.of_scenario(scenario).filter(|record| record.workers == workers);
    let mut connections: Vec<_> = records.map(|record| record.connections).collect();
    connections.sort_unstable();
    connections.dedup();
    connections
}

/// A server's colour and whether its line is dashed: the same in every chart of the page.
fn colour(data: &Data, server: &str) -> (String, bool) {
    if server == OURS {
        return ("--accent".to_owned(), false);
    }
    if server == FLOOR {
        return ("--soft".to_owned(), true);
    }
    let others = data
        .peers
        .iter()
        .filter(|peer| peer.name != OURS && peer.name != FLOOR && peer.missing.is_none());
    let at = others.map(|peer| &peer.name).position(|name| name == server).unwrap_or(0);
    (format!("--series-{}", at % COLOURS), at >= COLOURS)
}

/// `1.22.1` of "nginx version: nginx/1.22.1".
fn short_version(told: &str) -> &str {
    let mut words = told.split([' ', '/', ',', '-']).map(|word| word.trim_start_matches('v'));
    let is_number =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    words.find(is_number).unwrap_or(told)
}

fn header(out: &mut String, data: &Data) {
    let version = |name: &str| {
        let peer = data.peers.iter().find(|peer| peer.name == name)?;
        Some(format!("{name} {}", short_version(peer.version.as_deref()?)))
    };
    let others = data.peers.iter().filter(|peer| peer.name != OURS && peer.name != FLOOR);
    let others: Vec<_> = others.filter_map(|peer| version(&peer.name)).collect();
    let others =
        if others.is_empty() { String::new() } else { format!(" and {}", others.join(", ")) };
    let ours = version(OURS).unwrap_or_else(|| OURS.to_owned());
    let _ = write!(
        out,
        "<header>\n<h1>What a request costs</h1>\n<p>{}{}</p>\n\
         <p class=\"soft small\">{} · {}</p>\n<nav aria-label=\"Sections\">",
        escape(&ours),
        escape(&others),
        escape(day(data)),
        escape(&results::machine(data)),
    );
    for scenario in measured(data) {
        let name = escape(&scenario.name);
        let _ = write!(out, "<a href=\"#{name}\">{name}</a>");
    }
    out.push_str(
        "<a href=\"#method\">method</a><a href=\"#exactly\">exact commands</a></nav>\n</header>\n",
    );
}

fn notes(out: &mut String, data: &Data) {
    let notes = results::notes(data);
    if notes.is_empty() {
        return;
    }
    out.push_str("<section class=\"note small\" aria-label=\"Before you read on\"><ul>\n");
    for note in notes {
        let _ = writeln!(out, "<li>{}</li>", escape(&note));
    }
    out.push_str("</ul></section>\n");
}

/// One figure per scenario: ours, and its ratio to the others.
fn tiles(out: &mut String, data: &Data) {
    out.push_str("<div class=\"tiles\">\n");
    for scenario in measured(data) {
        let connections = connections_of(data, &scenario.name);
        let workers = workers_of(data, &scenario.name);
        let at = if connections.contains(&TILE_CONNECTIONS) {
            TILE_CONNECTIONS
        } else {
            connections.last().copied().unwrap_or_default()
        };
        let records = || {
            let all = charted(data, &scenario.name);
            all.filter(move |record| record.connections == at && record.workers == workers)
        };
        let Some(ours) = records().find(|record| record.server == OURS) else { continue };
        let _ = write!(
            out,
            "<div class=\"card tile\"><span class=\"soft\">{}</span><b>{}\u{a0}µs</b>\
             <span class=\"small\">CPU per request, {at} connections; lower is better</span><ul>",
            escape(&scenario.name),
            us(ours.cpu_us_per_request),
        );
        for other in records().filter(|record| record.server != OURS) {
            if let Some(found) = ratio_of(ours, other) {
                let server = escape(&other.server);
                let doubt = no_verdict(ours, other)
                    .map(|why| format!(" <span class=\"soft\">(no verdict: {why})</span>"));
                let doubt = doubt.unwrap_or_default();
                let _ = write!(out, "<li>{} × {server}{doubt}</li>", ratio(found.ratio));
            }
        }
        out.push_str("</ul></div>\n");
    }
    out.push_str("</div>\n");
}

fn scenario(out: &mut String, data: &Data, scenario: &Scenario) {
    let name = escape(&scenario.name);
    let _ = write!(
        out,
        "<section id=\"{name}\">\n<h2>{name}</h2>\n<p class=\"soft\">{}</p>\n",
        escape(&scenario.about)
    );
    let workers = workers_of(data, &scenario.name);
    for connections in connections_of(data, &scenario.name) {
        for placement in Placement::ALL {
            let records = data.of_scenario(&scenario.name);
            let here = records.filter(|it| it.connections == connections && it.workers == workers);
            let here: Vec<_> = here.filter(|it| it.placement == placement).collect();
            bars::draw(out, connections, placement, &here);
        }
    }
    curves::draw(out, data, &scenario.name);
    let table = results::of_scenario(data, &scenario.name, Room::Page);
    let _ = write!(
        out,
        "<details><summary>All figures of {name}</summary>\n{}</details>\n",
        table_html(&table)
    );
    rankings::draw(out, data, scenario);
    out.push_str("</section>\n");
}

/// A table that scrolls by itself where the page is narrow.
fn table_html(table: &Table) -> String {
    let mut out = String::from("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>");
    let class = |column| if table.is_figure(column) { " class=\"n\"" } else { "" };
    for (column, title) in table.titles().iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(column), escape(title));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        let ours = row.iter().any(|cell| cell.split(',').next() == Some(OURS));
        out.push_str(if ours { "<tr class=\"ours\">" } else { "<tr>" });
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(column), escape(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn commands(out: &mut String, data: &Data) {
    out.push_str(
        "<section id=\"exactly\">\n<h2>Exact commands and configurations</h2>\n\
         <pre tabindex=\"0\">",
    );
    for command in &data.commands {
        let _ = writeln!(out, "# {}\n{}", escape(&command.what), escape(&command.line));
    }
    out.push_str("</pre>\n");
}

fn configurations(out: &mut String, data: &Data) {
    for peer in data.peers.iter().filter(|peer| !peer.configs.is_empty()) {
        let version = peer.version.as_deref().unwrap_or_default();
        let _ =
            writeln!(out, "<details><summary>{} {}</summary>", escape(&peer.name), escape(version));
        for config in &peer.configs {
            let _ = writeln!(
                out,
                "<h3>{}</h3><pre tabindex=\"0\">{}",
                escape(&config.scenario),
                escape(&config.command)
            );
            if !config.text.is_empty() {
                let _ = write!(out, "\n{}", escape(&config.text));
            }
            out.push_str("</pre>\n");
        }
        out.push_str("</details>\n");
    }
    out.push_str("</section>\n");
}

const METHOD: &str = "\
<section id=\"method\">
<h2>How this was measured</h2>
<p><b>CPU per request</b> is the run time of every task of the server's process tree over the
responses, with client and server on one machine. Requests per second on few cores depend mostly on
the load of the client; the CPU time of a request does not. Lower is better. A figure is marked as
disturbed if the hypervisor or another program took CPU time from it.</p>
<p>Every server has one worker unless stated otherwise, keep-alive, and no access log. All run at
the same time and are loaded in turn, forwards and backwards (A B B A), after a round that is
discarded. A figure is the median of its rounds; the mark on a bar reaches from the lowest round to
the highest. Status, length and framing of every response are checked.</p>
<p><b>The floor</b> is a minimal epoll server that reads once, writes once and checks nothing: no
server on epoll can cost less. A ratio below 1 means that Tidegate costs less.</p>
</section>
";

/// Returns the label of a record, with the number of workers if it matters.
fn record_label(record: &Record) -> String {
    format!("{} at {} connections", record.server, record.connections)
}

#[cfg(test)]
mod tests {
    use super::super::data::{Data, Record};
    use super::super::sample;
    use super::{escape, render, short_version};

    #[test]
    fn the_page_fetches_nothing_and_runs_nothing() {
        let page = render(&sample::data());
        for way_out in
            ["src=", "<link", "url(", "@import", "<script", "<iframe", "http://", "onload"]
        {
            assert!(!page.contains(way_out), "{way_out}");
        }
        assert!(page.contains("default-src 'none'"));
        assert!(page.contains("--accent: light-dark("), "the style of all pages is missing");
    }

    #[test]
    fn texts_of_a_run_are_escaped() {
        assert_eq!(escape("<a b='&\">"), "&lt;a b=&#39;&amp;&quot;&gt;");
        let evil = "<b onclick=\"x\">&amp;</b>";
        let mut data = sample::data();
        data.date = evil.to_owned();
        data.machine.cpu = evil.to_owned();
        data.commands[0].line = evil.to_owned();
        data.scenarios[0].about = evil.to_owned();
        for peer in &mut data.peers {
            peer.missing = peer.missing.take().map(|_| evil.to_owned());
            peer.configs.iter_mut().for_each(|config| config.text = evil.to_owned());
        }
        for record in data.records.iter_mut().filter(|record| record.server == "nginx") {
            record.server = evil.to_owned();
            record.disturbed = Some(evil.to_owned());
        }
        let page = render(&data);
        assert!(!page.contains("<b onclick"));
        assert!(page.matches("&lt;b onclick=&quot;x&quot;&gt;").count() > 10);
    }

    #[test]
    fn the_page_has_everything_once() {
        let page = render(&sample::data());
        let count = |part: &str| page.matches(part).count();
        assert_eq!(count("<section id=\"hello\">"), 1);
        assert_eq!(count("<div class=\"bar "), 2 * 3 * 4, "scenarios × connections × servers");
        // Two scenarios: three latency curves, throughput and CPU; and one scaling.
        assert_eq!(count("<svg "), 2 * 5 + 1);
        assert_eq!(count("their machine, their figure"), 2);
        assert!(page.contains("varnish: not installed: apt-get install varnish"));
        assert!(page.contains("ngx_http_log_module.html#access_log"));
    }

    #[test]
    fn a_server_that_failed_is_not_a_cheap_one() {
        let mut data = sample::data();
        let of =
            |name| move |record: &&mut Record| (&*record.server, record.connections) == (name, 1);
        for record in data.records.iter_mut().filter(of("nginx")) {
            record.errors = 12;
        }
        for record in data.records.iter_mut().filter(of("haproxy")) {
            record.cpu_us_per_request = f64::NAN;
            record.errors = 3;
        }
        let page = render(&data).replace('\u{a0}', " ");
        assert_eq!(page.matches("<span class=\"small\">12 errors</span>").count(), 2);
        assert_eq!(page.matches("<div class=\"bar ").count(), 2 * 3 * 4 - 2);
        assert!(!page.contains("NaN"), "a figure that is none");
    }

    #[test]
    fn versions_are_found_in_what_programs_say() {
        let told = ["nginx version: nginx/1.22.1", "HAProxy version 2.6.12-1+deb12u2 2024/01/01"];
        assert_eq!(told.map(short_version), ["1.22.1", "2.6.12"]);
        let told = ["v2.6.2 h1:abc", "of this program, 0.1.0", "unknown"];
        assert_eq!(told.map(short_version), ["2.6.2", "0.1.0", "unknown"]);
    }

    #[test]
    fn an_empty_run_is_a_page() {
        let data = Data { records: Vec::new(), peers: Vec::new(), ..sample::data() };
        let page = render(&data);
        assert!(page.ends_with("</html>\n") && !page.contains("<svg "));
        let mut data = sample::data();
        for record in &mut data.records {
            record.rounds.clear();
            record.latency_curve.clear();
            let is_target = record.server == "nginx";
            record.cpu_us_per_request = if is_target { f64::NAN } else { 0.0 };
            record.requests_per_second = 0.0;
        }
        let page = render(&data);
        assert!(!page.contains("NaN") && !page.contains("inf"), "figures that are none");
    }
}
