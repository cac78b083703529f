//! A picture of a configuration: listeners, routes with their filters, handlers and servers, as
//! Mermaid or SVG.
//!
//! Promises that names of the configuration are only text in it, and that its size is bounded.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use config::{RoutePlan, ServerPlan};

/// Routes that are drawn: a longer picture cannot be read.
const ROUTES: usize = 500;
/// Lines of a box, and characters of a line.
const LINES: usize = 8;
const COLUMNS: usize = 56;

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum GraphFormat {
    /// For pages that draw Mermaid, such as Markdown on GitHub
    Mermaid,
    /// A picture for browsers, light or dark
    Svg,
}

/// A box: a column, and its position there.
type BoxPosition = (usize, usize);

#[derive(Default)]
struct Graph {
    /// Listeners, routes, handlers, servers. The first line of each is its name.
    columns: [Vec<Vec<String>>; 4],
    lines: Vec<(BoxPosition, BoxPosition)>,
    handlers: HashMap<String, BoxPosition>,
    servers: HashMap<String, BoxPosition>,
}

const LISTENERS: usize = 0;
const ROUTE: usize = 1;
const HANDLERS: usize = 2;
const SERVERS: usize = 3;

/// Draws a configuration.
pub(super) fn draw(plan: &ServerPlan, format: GraphFormat) -> String {
    let graph = Graph::of(plan);
    match format {
        GraphFormat::Mermaid => graph.mermaid(),
        GraphFormat::Svg => graph.svg(),
    }
}

impl Graph {
    fn of(plan: &ServerPlan) -> Graph {
        let mut graph = Graph::default();
        let mut listeners: BTreeMap<&str, BoxPosition> = BTreeMap::new();
        for listener in &plan.listeners {
            let tls = if listener.tls.is_some() { ", TLS" } else { "" };
            let shown = format!("{}{tls}", listener.bind);
            let place = graph.add(LISTENERS, vec![listener.name.clone(), shown]);
            listeners.insert(&listener.name, place);
        }
        let order = plan.router.in_order();
        for id in order.iter().take(ROUTES) {
            let route = plan.route(*id);
            let mut text = vec![route.name.clone(), plan.router.describe(*id)];
            if !route.filters.is_empty() {
                let names: Vec<&str> = route.filters.iter().map(|filter| filter.name()).collect();
                text.push(names.join(", "));
            }
            let place = graph.add(ROUTE, text);
            let wanted = &plan.router.rules()[id.index()].matches.listener;
            for (name, listener) in &listeners {
                if wanted.is_empty() || wanted.iter().any(|one| one.value == **name) {
                    graph.lines.push((*listener, place));
                }
            }
            graph.connect(place, route, plan);
        }
        if order.len() > ROUTES {
            graph.add(ROUTE, vec![format!("and {} more routes", order.len() - ROUTES)]);
        }
        for (listener, stream) in &plan.streams {
            let text = vec![stream.name.clone(), format!("{}, a stream", listener.bind)];
            let place = graph.add(LISTENERS, text);
            for name in stream.upstreams() {
                let to = graph.upstream(name, plan);
                graph.lines.push((place, to));
            }
        }
        graph
    }

    fn add(&mut self, column: usize, text: Vec<String>) -> BoxPosition {
        self.columns[column].push(text);
        (column, self.columns[column].len() - 1)
    }

    /// Draws lines from a route to its handler, and to those among the settings of its filters.
    fn connect(&mut self, place: BoxPosition, route: &RoutePlan, plan: &ServerPlan) {
        for handler in route.handlers() {
            let to = match handler.upstream() {
                Some(name) => self.upstream(&name.value, plan),
                None => {
                    let key = format!("{} {}", handler.name(), handler.describe());
                    match self.handlers.get(&key) {
                        Some(known) => *known,
                        None => {
                            let text = vec![handler.name().to_owned(), handler.describe()];
                            let added = self.add(HANDLERS, text);
                            *self.handlers.entry(key).or_insert(added)
                        }
                    }
                }
            };
            if !self.lines.contains(&(place, to)) {
                self.lines.push((place, to));
            }
        }
    }

    fn upstream(&mut self, name: &str, plan: &ServerPlan) -> BoxPosition {
        let key = format!("upstream {name}");
        if let Some(known) = self.handlers.get(&key) {
            return *known;
        }
        let place = self.add(HANDLERS, vec![key.clone()]);
        self.handlers.insert(key, place);
        let Some((_, upstream)) = plan.upstreams.iter().find(|(known, _)| known == name) else {
            return place;
        };
        let mut servers: Vec<String> =
            upstream.settings.servers.iter().map(|server| server.address.to_string()).collect();
        if upstream.settings.discover.is_some() {
            servers.push(format!("discovered for {name}"));
        }
        for server in servers {
            let to = match self.servers.get(&server) {
                Some(known) => *known,
                None => {
                    let added = self.add(SERVERS, vec![server.clone()]);
                    *self.servers.entry(server).or_insert(added)
                }
            };
            self.lines.push((place, to));
        }
        place
    }

    fn mermaid(&self) -> String {
        let mut out = String::from("flowchart LR\n");
        let name = |(column, at): BoxPosition| format!("{}{at}", ["l", "r", "h", "s"][column]);
        for (column, boxes) in self.columns.iter().enumerate() {
            for (at, text) in boxes.iter().enumerate() {
                let lines: Vec<String> = wrapped(text).iter().map(|line| entities(line)).collect();
                let _ = writeln!(out, "  {}[\"{}\"]", name((column, at)), lines.join("<br/>"));
            }
        }
        for (from, to) in &self.lines {
            let _ = writeln!(out, "  {} --> {}", name(*from), name(*to));
        }
        out
    }

    fn svg(&self) -> String {
        const LINE: usize = 16;
        const CHARACTER: usize = 8;
        const PADDING: usize = 10;
        const GAP: usize = 12;
        const BETWEEN: usize = 90;
        let mut boxes: Vec<Vec<(usize, usize, Vec<String>)>> = Vec::new();
        let (mut x, mut height) = (GAP, 0);
        let mut columns = Vec::new();
        for column in &self.columns {
            let texts: Vec<Vec<String>> = column.iter().map(|text| wrapped(text)).collect();
            let longest = texts.iter().flatten().map(|line| line.chars().count()).max();
            let width = longest.unwrap_or(0) * CHARACTER + 2 * PADDING;
            let mut y = GAP;
            let placed = texts.into_iter().map(|text| {
                let tall = text.len() * LINE + PADDING;
                let at = y;
                y += tall + GAP;
                (at, tall, text)
            });
            boxes.push(placed.collect());
            height = height.max(y);
            columns.push((x, width));
            if !column.is_empty() {
                x += width + BETWEEN;
            }
        }
        let width = x - BETWEEN + GAP;
        let mut out = String::new();
        let _ = writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>Listeners, routes, \
             handlers and servers of a configuration</title>\n<style>{STYLE}</style>"
        );
        for ((from, at), (to, other)) in &self.lines {
            let ((left, wide), (right, _)) = (columns[*from], columns[*to]);
            let middle = |(y, tall, _): &(usize, usize, Vec<String>)| y + tall / 2;
            let (y1, y2) = (middle(&boxes[*from][*at]), middle(&boxes[*to][*other]));
            let (x1, x2) = (left + wide, right);
            let bend = (x1 + x2) / 2;
            let _ = writeln!(out, "<path d=\"M{x1} {y1}C{bend} {y1} {bend} {y2} {x2} {y2}\"/>");
        }
        for ((x, wide), column) in columns.iter().zip(&boxes) {
            for (y, tall, text) in column {
                let _ = writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{tall}\" rx=\"4\"/>"
                );
                for (at, line) in text.iter().enumerate() {
                    let (x, y) = (x + PADDING, y + (at + 1) * LINE);
                    let class = if at == 0 { " class=\"name\"" } else { "" };
                    let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\"{class}>{}</text>", xml(line));
                }
            }
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Colours of `console/src/base.css`, as numbers: not every program that shows SVG knows names.
const STYLE: &str = "\
text{font:13px ui-monospace,monospace;fill:#51656f}.name{font-weight:bold;fill:#14232b}\
rect{fill:#f6f8f9;stroke:#0b6e83}path{fill:none;stroke:#51656f}\
@media(prefers-color-scheme:dark){svg{background:#0e171c}text{fill:#9bb0ba}.name{fill:#e4edf1}\
rect{fill:#152229;stroke:#58c3d8}path{stroke:#9bb0ba}}";

/// The lines of a box: none is too long, and there are not too many.
fn wrapped(text: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.iter().filter(|part| !part.is_empty()) {
        let mut line = String::new();
        for word in part.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.extend(word.chars().take(COLUMNS));
            if word.chars().nth(COLUMNS).is_some() {
                line.push('…');
            }
        }
        lines.push(line);
    }
    if lines.len() > LINES {
        lines.truncate(LINES - 1);
        lines.push("…".to_owned());
    }
    lines
}

/// A text for Mermaid: what may mean something there is a number.
fn entities(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c.is_alphanumeric() || " ._/:,*-".contains(c) {
            true => out.push(c),
            false => {
                let _ = write!(out, "#{};", u32::from(c));
            }
        }
    }
    out
}

/// A text for XML, which has no control characters.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(text: &str) -> Graph {
        let source = config::TextSource::new("t", text);
        let loaded = config::load(&source, &|_| None, &config::Kinds::all());
        Graph::of(&loaded.unwrap_or_else(|report| panic!("{}", report.render())).plan)
    }

    const SITE: &str = r#"
listeners: { web: { bind: ":80" }, inner: { bind: "127.0.0.1:81" } }
upstreams: { app: { servers: ["10.0.0.1:1", "10.0.0.2:2"] }, next: { servers: ["10.0.0.1:1"] } }
streams: [{ name: db, bind: ":5432", upstream: app }]
routes:
  - match: { listener: web, path: "/a/{*rest}" }
    filters:
      - request_id: {}
      - split: { variants: [{ name: n, handler: { upstream: next } }, { name: o }] }
    handler: { upstream: app }
  - name: "<script>alert(\"x\")</script>"
    handler: { respond: { body: "a" } }
"#;

    #[test]
    fn listeners_lead_to_routes_and_these_to_handlers_and_servers() {
        let text = graph(SITE).mermaid();
        for line in [
            "l0[\"web<br/>",
            "r0[\"/a/#123;*rest#125;<br/>listener web#59; path /a/#123;*rest#125;<br/>\
             request_id, split\"]",
            "h0[\"upstream app\"]",
            "h1[\"upstream next\"]",
            "s0[\"10.0.0.1:1\"]",
            "l0 --> r0\n",
            "l0 --> r1\n",
            "l1 --> r1\n",
            "r0 --> h0\n",
            "r0 --> h1\n",
            "h1 --> s0\n",
            "l2 --> h0\n",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert!(!text.contains("l1 --> r0"), "{text}");
    }

    #[test]
    fn names_are_text_only() {
        let graph = graph(SITE);
        assert!(!graph.mermaid().contains("script>") && !graph.mermaid().contains("\"x\""));
        let svg = graph.svg();
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;alert(&quot;x&quot;)"));
        assert_eq!(xml("a\u{0}\u{1b}&\u{ffff}"), "a\u{fffd}\u{fffd}&amp;\u{fffd}");
    }

    #[test]
    fn a_picture_is_bounded() {
        let long = "x".repeat(1000);
        let words = "word ".repeat(1000);
        let lines = wrapped(&[long, words, String::new()]);
        assert_eq!(lines.len(), LINES);
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS + 1), "{lines:?}");
        let mut text = "listeners: { web: { bind: ':80' } }\nroutes:\n".to_owned();
        for at in 0..ROUTES + 7 {
            let _ = writeln!(text, "  - {{ match: /{at}, handler: {{ respond: {{}} }} }}");
        }
        let graph = graph(&text);
        assert_eq!(graph.columns[ROUTE].len(), ROUTES + 1);
        assert_eq!(graph.columns[HANDLERS].len(), 1);
        assert!(graph.mermaid().contains("and 7 more routes"));
    }
}
