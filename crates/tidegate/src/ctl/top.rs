//! The terminal view of `ctl top`: routes, upstreams and caches, with rates between two samples.
//!
//! Owns what is shown and how keys change it; `commands::ctl::top` owns the terminal. Promises that
//! a server that does not respond leaves the last sample visible, and says so.

use std::collections::BTreeMap;
use std::time::Instant;

use ratatui::Frame;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use serde_json::Value;

use super::Client;
use super::caches::{bytes, sum};
use super::status::{SERVER_HEADS, list, micros, servers, span, text};
use crate::failure::Failure;
use crate::terminal::for_terminal;

const PANELS: usize = 3;
const KEYS: &str = "q quit   tab next table   up/down scroll";

/// The state of a server at one time.
pub(crate) struct TopSample {
    at: Instant,
    status: Value,
    routes: Value,
    upstreams: Value,
    caches: Value,
}

impl TopSample {
    pub(crate) fn take(client: &Client) -> Result<TopSample, Failure> {
        let ask = |target| client.ask("GET", target);
        Ok(TopSample {
            status: ask("/v1/status")?,
            routes: ask("/v1/routes")?,
            upstreams: ask("/v1/upstreams")?,
            caches: ask("/v1/caches")?,
            at: Instant::now(),
        })
    }
}

/// A table of the screen.
struct TopPanel {
    title: &'static str,
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

/// The screen: the latest sample, the one before for rates, and what keys have chosen.
pub(crate) struct TopScreen {
    before: Option<TopSample>,
    latest: TopSample,
    failure: Option<String>,
    panel: usize,
    scrolled: [usize; PANELS],
}

impl TopScreen {
    pub(crate) fn new(first: TopSample) -> TopScreen {
        TopScreen { before: None, latest: first, failure: None, panel: 0, scrolled: [0; PANELS] }
    }

    /// Takes the next sample over, or the reason why there is none.
    pub(crate) fn update(&mut self, sample: Result<TopSample, String>) {
        match sample {
            Ok(sample) => {
                self.before = Some(std::mem::replace(&mut self.latest, sample));
                self.failure = None;
            }
            Err(why) => self.failure = Some(why),
        }
    }

    /// Returns true if the key ends the view.
    pub(crate) fn press(&mut self, key: KeyCode) -> bool {
        let scrolled = &mut self.scrolled[self.panel];
        match key {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Tab | KeyCode::Right => self.panel = (self.panel + 1) % PANELS,
            KeyCode::BackTab | KeyCode::Left => self.panel = (self.panel + PANELS - 1) % PANELS,
            KeyCode::Down | KeyCode::Char('j') => *scrolled = scrolled.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => *scrolled = scrolled.saturating_sub(1),
            KeyCode::PageDown => *scrolled = scrolled.saturating_add(10),
            KeyCode::PageUp => *scrolled = scrolled.saturating_sub(10),
            KeyCode::Home => *scrolled = 0,
            _ => {}
        }
        false
    }

    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>) {
        let [head, routes, upstreams, caches, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(2),
            Constraint::Fill(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.summary()), head);
        for (index, (panel, area)) in
            self.panels().into_iter().zip([routes, upstreams, caches]).enumerate()
        {
            self.draw_panel(frame, index, &panel, area);
        }
        let foot_line = match &self.failure {
            Some(why) => Line::styled(for_terminal(why), Style::new().fg(Color::Red)),
            None => Line::styled(KEYS, Style::new().add_modifier(Modifier::DIM)),
        };
        frame.render_widget(Paragraph::new(foot_line), foot);
    }

    fn draw_panel(&mut self, frame: &mut Frame<'_>, index: usize, panel: &TopPanel, area: Rect) {
        let is_chosen = index == self.panel;
        let style = match is_chosen {
            true => Style::new().add_modifier(Modifier::BOLD),
            false => Style::new(),
        };
        let scrolled = &mut self.scrolled[index];
        *scrolled = (*scrolled).min(panel.rows.len().saturating_sub(1));
        let title = format!(" {} ({}) ", panel.title, panel.rows.len());
        let widths = widths(panel);
        let rows = panel.rows.iter().skip(*scrolled).map(|cells| Row::new(cells.clone()));
        let heads = Row::new(panel.heads.clone()).style(Style::new().add_modifier(Modifier::DIM));
        let table = Table::new(rows, widths)
            .header(heads)
            .column_spacing(2)
            .block(Block::bordered().title(title).border_style(style));
        frame.render_widget(table, area);
    }

    fn summary(&self) -> Line<'static> {
        let status = &self.latest.status;
        let (mut rate, mut failed) = (0.0, 0.0);
        for row in self.route_rates().values() {
            rate += row.0;
            failed += row.1;
        }
        let summary = format!(
            "tidegate {} {} as process {} for {}   {rate:.0} requests/s   {failed:.0} failed/s",
            text(status, "build").trim_start_matches("tidegate "),
            text(status, "state"),
            text(status, "pid"),
            span(status["uptime_s"].as_u64().unwrap_or(0)),
        );
        Line::styled(for_terminal(&summary), Style::new().add_modifier(Modifier::BOLD))
    }

    /// Requests and failures a second of each route.
    fn route_rates(&self) -> BTreeMap<String, (f64, f64)> {
        let count = |sample: &TopSample, name: &str| {
            let route = list(&sample.routes, "routes").find(|route| route["name"] == *name);
            let of = |class: &str| {
                route.and_then(|route| route["requests"][class].as_u64()).unwrap_or(0)
            };
            let all = ["1xx", "2xx", "3xx", "4xx", "5xx"].map(of).iter().sum::<u64>();
            (all, of("5xx"))
        };
        let names = list(&self.latest.routes, "routes").map(|route| text(route, "name"));
        let rates = names.map(|name| {
            let Some(before) = &self.before else { return (name, (0.0, 0.0)) };
            let seconds = self.latest.at.duration_since(before.at).as_secs_f64().max(0.001);
            let (earlier, now) = (count(before, &name), count(&self.latest, &name));
            let rate = |earlier: u64, now: u64| now.saturating_sub(earlier) as f64 / seconds;
            (name, (rate(earlier.0, now.0), rate(earlier.1, now.1)))
        });
        rates.collect()
    }

    fn panels(&self) -> [TopPanel; PANELS] {
        [self.routes(), self.upstreams(), self.caches()].map(|mut panel| {
            for cell in panel.rows.iter_mut().flatten() {
                *cell = for_terminal(cell);
            }
            panel
        })
    }

    /// The busiest routes first.
    fn routes(&self) -> TopPanel {
        let rates = self.route_rates();
        let rate = |route: &Value| rates.get(&text(route, "name")).copied().unwrap_or_default();
        let mut routes: Vec<&Value> = list(&self.latest.routes, "routes").collect();
        routes.sort_by(|a, b| rate(b).0.total_cmp(&rate(a).0));
        let rows = routes.into_iter().map(|route| {
            let (requests, failed) = rate(route);
            let latency = &route["latency_below_us"];
            vec![
                text(route, "name"),
                format!("{requests:.0}"),
                format!("{failed:.0}"),
                text(route, "in_flight"),
                micros(&latency["p50"]),
                micros(&latency["p99"]),
                text(route, "match"),
            ]
        });
        TopPanel {
            title: "Routes",
            heads: vec!["ROUTE", "REQ/S", "5xx/S", "IN FLIGHT", "P50", "P99", "MATCH"],
            rows: rows.collect(),
        }
    }

    fn upstreams(&self) -> TopPanel {
        TopPanel {
            title: "Upstreams",
            heads: SERVER_HEADS.to_vec(),
            rows: servers(&self.latest.upstreams).into_iter().map(Vec::from).collect(),
        }
    }

    fn caches(&self) -> TopPanel {
        let rows = list(&self.latest.caches, "caches").map(|cache| {
            let [hits, stale, misses] = ["hits", "stale", "misses"].map(|name| sum(&cache[name]));
            let ratio = match hits + stale + misses {
                0 => "-".to_owned(),
                all => format!("{:.1} %", (hits + stale) as f64 * 100.0 / all as f64),
            };
            vec![
                text(cache, "name"),
                text(cache, "objects"),
                bytes(&cache["bytes"]),
                bytes(&cache["memory_bytes"]),
                ratio,
            ]
        });
        TopPanel {
            title: "Caches",
            heads: vec!["CACHE", "OBJECTS", "MEMORY", "OF", "HIT RATIO"],
            rows: rows.collect(),
        }
    }
}

/// The width of each column; the last one gets the rest.
fn widths(panel: &TopPanel) -> Vec<Constraint> {
    let last = panel.heads.len().saturating_sub(1);
    let width = |column: usize| {
        let cells = panel.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars());
        let widest = cells.map(Iterator::count).max().unwrap_or(0);
        let width = widest.max(panel.heads[column].len()).min(40);
        Constraint::Length(u16::try_from(width).unwrap_or(40))
    };
    let columns = 0..panel.heads.len();
    columns.map(|at| if at == last { Constraint::Fill(1) } else { width(at) }).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::*;

    fn sample(at: Instant, shop: u64, failed: u64) -> TopSample {
        TopSample {
            at,
            status: json!({ "build": "0.1.0", "state": "serving", "pid": 7, "uptime_s": 61 }),
            routes: json!({ "routes": [
                { "name": "idle", "match": "anything", "requests": {}, "in_flight": 0 },
                { "name": "shop", "match": "path /a", "in_flight": 3,
                  "requests": { "2xx": shop, "5xx": failed },
                  "latency_below_us": { "p50": 900, "p99": 12_300 } },
            ] }),
            upstreams: json!({ "upstreams": [{ "name": "app", "servers": [
                { "address": "127.0.0.1:1", "state": "healthy", "weight": 1, "in_flight": 2,
                  "connections": 4, "latency_us": 1300, "last_error": "a\u{1b}[2Jb" },
            ] }] }),
            caches: json!({ "caches": [
                { "name": "pages", "objects": 3, "bytes": 1536, "memory_bytes": 67_108_864,
                  "hits": 6, "stale": { "error": 1 }, "misses": { "uri-miss": 3 } },
            ] }),
        }
    }

    fn shown(screen: &mut TopScreen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(100, 24)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn screen() -> TopScreen {
        let began = Instant::now();
        let mut screen = TopScreen::new(sample(began, 1000, 5));
        screen.update(Ok(sample(began + Duration::from_secs(2), 1200, 25)));
        screen
    }

    #[test]
    fn rates_are_those_between_two_samples() {
        let page = shown(&mut screen());
        assert!(page.contains("serving as process 7 for 1m 1s   110 requests/s   10 failed/s"));
        let shop = page.find("shop").expect("a route");
        assert!(shop < page.find("idle").expect("a route"), "the busiest is first: {page}");
        assert!(page.contains("110") && page.contains("12.3ms") && page.contains("path /a"));
        assert!(page.contains("127.0.0.1:1") && page.contains("1.3ms") && page.contains("70.0 %"));
        assert!(!page.contains('\u{1b}') && page.contains("a\\u{1b}[2Jb"), "{page}");
    }

    #[test]
    fn keys_choose_and_scroll() {
        let mut screen = screen();
        assert!(!screen.press(KeyCode::Down) && !screen.press(KeyCode::Tab));
        let page = shown(&mut screen);
        assert!(!page.contains("shop") && page.contains("idle"), "scrolled by one: {page}");
        screen.press(KeyCode::PageDown);
        assert!(shown(&mut screen).contains("127.0.0.1:1"), "the last row stays");
        assert!(screen.press(KeyCode::Char('q')));
    }

    #[test]
    fn a_server_that_does_not_respond_leaves_the_last_sample() {
        let mut screen = screen();
        screen.update(Err("no server listens at a:1".to_owned()));
        let page = shown(&mut screen);
        assert!(page.contains("no server listens at a:1") && page.contains("shop"), "{page}");
        screen.update(Ok(sample(Instant::now(), 1, 1)));
        assert!(!shown(&mut screen).contains("no server listens"), "it responds again");
    }

    #[test]
    fn a_small_terminal_shows_what_fits() {
        let mut screen = screen();
        for (width, height) in [(1, 1), (10, 3), (40, 8)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            terminal.draw(|frame| screen.draw(frame)).unwrap();
        }
    }
}
