//! Metrics of several processes as those of one server.
//!
//! Works on the text format, so that no other interface has to be shared. Promises that a family
//! stands once, with its lines together, and that the lines of each process have a label of their
//! own.

use std::collections::HashMap;
use std::fmt::Write;

use telemetry::escape::prometheus;

/// The metrics of a process.
pub struct ProcessMetrics {
    /// Labels that each of its samples gets.
    pub labels: Vec<(&'static str, String)>,
    /// Prometheus text format.
    pub text: String,
}

/// A metric family: its description and its samples.
#[derive(Default)]
struct Family {
    head: String,
    samples: String,
}

/// `own` as it is, except for families that the others have as well, unless they are about the
/// process itself; the others' with their labels.
pub(crate) fn merge(own: &str, others: &[ProcessMetrics]) -> String {
    let mut order: Vec<String> = Vec::new();
    let mut families: HashMap<String, Family> = HashMap::new();
    let mut add = |name: &str, head: &str, samples: &str| {
        let family = families.entry(name.to_owned()).or_insert_with(|| {
            order.push(name.to_owned());
            Family { head: head.to_owned(), samples: String::new() }
        });
        family.samples.push_str(samples);
    };
    let theirs: Vec<(String, Vec<Block<'_>>)> =
        others.iter().map(|one| (written(&one.labels), blocks(&one.text))).collect();
    for block in blocks(own) {
        let is_shared =
            theirs.iter().any(|(_, blocks)| blocks.iter().any(|b| b.name == block.name));
        if !is_shared || block.name.starts_with("process_") {
            add(block.name, &block.head, &block.samples.concat());
        }
    }
    for (labels, blocks) in theirs {
        for block in blocks {
            let labelled: String = block.samples.iter().map(|line| label(line, &labels)).collect();
            add(block.name, &block.head, &labelled);
        }
    }
    let mut out = String::new();
    for name in order {
        if let Some(family) = families.get(&name) {
            out.push_str(&family.head);
            out.push_str(&family.samples);
        }
    }
    out
}

struct Block<'t> {
    name: &'t str,
    head: String,
    /// Each with its line end.
    samples: Vec<&'t str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let name = rest.split([' ', '\n']).next().unwrap_or_default();
            blocks.push(Block { name, head: line.to_owned(), samples: Vec::new() });
        } else if let Some(block) = blocks.last_mut() {
            match line.starts_with('#') {
                true => block.head.push_str(line),
                false => block.samples.push(line),
            }
        }
    }
    blocks
}

/// Labels as they stand between braces.
fn written(labels: &[(&'static str, String)]) -> String {
    let mut out = String::new();
    for (name, value) in labels {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        prometheus(&mut out, value, true);
        out.push('"');
    }
    out
}

/// A sample with more labels, in front.
fn label(line: &str, labels: &str) -> String {
    let mut out = String::with_capacity(line.len() + labels.len() + 4);
    let name = line.find(['{', ' ']).unwrap_or(line.len());
    out.push_str(&line[..name]);
    out.push('{');
    out.push_str(labels);
    match line[name..].strip_prefix('{') {
        // A family whose samples may have labels writes empty braces for those without.
        Some(rest) if rest.starts_with('}') => out.push_str(rest),
        Some(rest) => {
            // Writing to a String does not fail.
            let _ = write!(out, ",{rest}");
        }
        None => {
            let _ = write!(out, "}}{}", &line[name..]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{ProcessMetrics, merge};

    fn process(labels: &[(&'static str, &str)], text: &str) -> ProcessMetrics {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        ProcessMetrics { labels, text: text.to_owned() }
    }

    #[test]
    fn families_stand_once_and_every_process_has_its_lines() {
        let own = "# HELP a_total A.\n# TYPE a_total counter\na_total 0\n\
                   # HELP process_x X.\n# TYPE process_x gauge\nprocess_x 1\n\
                   # HELP mine M.\n# TYPE mine gauge\nmine{app=\"main\"} 3\n";
        let one = "# HELP a_total A.\n# TYPE a_total counter\na_total 5\n\
                   # HELP process_x X.\n# TYPE process_x gauge\nprocess_x 2\n";
        let two = "# HELP a_total A.\n# TYPE a_total counter\na_total 6\n\
                   # HELP h H.\n# TYPE h histogram\n\
                   h_bucket{route=\"a b {\",le=\"1\"} 7\nh_count 7\n";
        let merged =
            merge(own, &[process(&[("worker", "0")], one), process(&[("worker", "1")], two)]);
        assert_eq!(
            merged,
            "# HELP process_x X.\n# TYPE process_x gauge\nprocess_x 1\nprocess_x{worker=\"0\"} 2\n\
             # HELP mine M.\n# TYPE mine gauge\nmine{app=\"main\"} 3\n\
             # HELP a_total A.\n# TYPE a_total counter\na_total{worker=\"0\"} 5\n\
             a_total{worker=\"1\"} 6\n\
             # HELP h H.\n# TYPE h histogram\n\
             h_bucket{worker=\"1\",route=\"a b {\",le=\"1\"} 7\nh_count{worker=\"1\"} 7\n"
        );
        assert_eq!(merge(own, &[]), own);
    }

    #[test]
    fn several_labels_are_escaped() {
        let orders = "# HELP orders O.\n# TYPE orders counter\norders{kind=\"a\"} 2\n";
        let merged = merge("", &[process(&[("app", "a\"b"), ("worker", "3")], orders)]);
        assert!(
            merged.ends_with("\norders{app=\"a\\\"b\",worker=\"3\",kind=\"a\"} 2\n"),
            "{merged}"
        );
    }
}
