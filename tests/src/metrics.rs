//! The Prometheus text format, as far as a scenario asks: sums over the series of a name.

/// One scrape.
pub struct Metrics {
    series: Vec<Series>,
}

struct Series {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
}

impl Metrics {
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |line: &str| {
            parse_series(line).unwrap_or_else(|| panic!("not a series of Prometheus: {line:?}"))
        };
        Self { series: lines.map(parse).collect() }
    }

    /// The sum over every series of `name` that has all of `labels`; 0 when there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |series: &Series, (label, value): &(&str, &str)| {
            series.labels.iter().any(|(l, v)| l == label && v == value)
        };
        let matching = self.series.iter().filter(|series| series.name == name);
        matching
            .filter(|series| labels.iter().all(|label| has(series, label)))
            .map(|series| series.value)
            .sum()
    }

    /// Whether `name` is exported at all.
    pub fn has(&self, name: &str) -> bool {
        self.series.iter().any(|series| series.name == name)
    }
}

fn parse_series(line: &str) -> Option<Series> {
    let (head, value) = match line.rfind('}') {
        Some(end) => (&line[..=end], line[end + 1..].split_whitespace().next()?),
        None => line.split_once(' ')?,
    };
    let value = value.split_whitespace().next()?.parse().ok()?;
    let Some((name, labels)) = head.split_once('{') else {
        return Some(Series { name: head.to_owned(), labels: Vec::new(), value });
    };
    let labels = parse_labels(labels.strip_suffix('}')?)?;
    Some(Series { name: name.to_owned(), labels, value })
}

/// `a="x",b="y"`, where a value escapes backslash, quote and line feed.
fn parse_labels(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut labels = Vec::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next()? {
                (at, '"') => break at,
                (_, '\\') => match characters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        text = rest[end + 1..].trim_start_matches(',');
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    fn series_are_summed_by_labels() {
        let metrics = Metrics::parse(
            "# TYPE a counter\na{x=\"1\",y=\"q\\\"}\"} 2\na{x=\"1\",y=\"r\"} 3 1700000000\nb 1e2\n",
        );
        assert_eq!(metrics.sum("a", &[("x", "1")]), 5.0);
        assert_eq!(metrics.sum("a", &[("y", "q\"}")]), 2.0);
        assert_eq!(metrics.sum("b", &[]), 100.0);
        assert_eq!(metrics.sum("c", &[]), 0.0);
        assert!(metrics.has("b") && !metrics.has("c"));
    }
}
