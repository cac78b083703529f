//! Metrics defined by programs, in addition to those of the table.
//!
//! Owns their names, label sets and values and, because their names are not in the table, their
//! formatting in the Prometheus text format 0.0.4. Guarantees: families and label sets are bounded
//! (the excess adds up under "other"), buckets are cumulative, label values are escaped, and
//! counting takes no lock. All threads share a value; a gauge has the value set last.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::escape::{cut, prometheus};
use crate::families::Kind;
use crate::limits::{
    HELP_BYTES, LABEL_BYTES, OTHER, SCRIPTED_BUCKETS, SCRIPTED_FAMILIES, SCRIPTED_LABELS,
    SERIES_PER_FAMILY,
};

/// The declaration of a metric family by a program.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricDeclaration {
    pub name: String,
    pub kind: Kind,
    pub help: String,
    pub labels: Vec<String>,
    /// Upper bounds of a histogram's buckets, ascending.
    pub bounds: Vec<f64>,
}

/// One value, or the buckets of a histogram.
#[derive(Debug)]
pub struct ScriptedCell {
    /// The value; the sum of a histogram.
    number: AtomicU64,
    bounds: Arc<[f64]>,
    /// Counts per bucket, not cumulative; the last is above all bounds.
    buckets: Box<[AtomicU64]>,
}

impl ScriptedCell {
    fn new(bounds: Arc<[f64]>) -> ScriptedCell {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        ScriptedCell { number: AtomicU64::new(0f64.to_bits()), bounds, buckets }
    }

    pub fn add(&self, number: f64) {
        let more = |bits| Some((f64::from_bits(bits) + number).to_bits());
        let _ = self.number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }

    pub fn set(&self, number: f64) {
        self.number.store(number.to_bits(), Ordering::Relaxed);
    }

    pub fn get(&self) -> f64 {
        f64::from_bits(self.number.load(Ordering::Relaxed))
    }

    /// The counts of a histogram's buckets, not cumulative; the last is above all bounds.
    pub fn bucket_counts(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed))
    }

    pub fn observe(&self, number: f64) {
        // NaN is above all bounds.
        let at = self.bounds.iter().position(|bound| number <= *bound);
        self.buckets[at.unwrap_or(self.bounds.len())].fetch_add(1, Ordering::Relaxed);
        self.add(number);
    }
}

#[derive(Debug)]
struct ScriptedFamily {
    declaration: MetricDeclaration,
    bounds: Arc<[f64]>,
    series: BTreeMap<Vec<String>, Arc<ScriptedCell>>,
}

/// The families of all programs of a process, or of one registry.
#[derive(Debug, Default)]
pub struct Scripted {
    families: Mutex<BTreeMap<String, ScriptedFamily>>,
}

impl Scripted {
    fn families(&self) -> MutexGuard<'_, BTreeMap<String, ScriptedFamily>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Declares a family; another worker may repeat the same declaration.
    pub fn declare(&self, mut declaration: MetricDeclaration) -> Result<(), String> {
        declaration.help = cut(&declaration.help, HELP_BYTES).to_owned();
        check(&declaration)?;
        let mut families = self.families();
        if let Some(known) = families.get(&declaration.name) {
            let same = known.declaration == declaration;
            return same
                .then_some(())
                .ok_or_else(|| format!("'{}' is already declared differently", declaration.name));
        }
        if families.len() == SCRIPTED_FAMILIES {
            return Err(format!("the limit of {SCRIPTED_FAMILIES} metrics is reached"));
        }
        let bounds = declaration.bounds.clone().into();
        let name = declaration.name.clone();
        families.insert(name, ScriptedFamily { declaration, bounds, series: BTreeMap::new() });
        Ok(())
    }

    /// Returns the cell of a label set, and whether it is that set's own: above the limit it is
    /// that of "other". `None` if the family is unknown or has other labels.
    pub fn cell(&self, name: &str, labels: &[&str]) -> Option<(Arc<ScriptedCell>, bool)> {
        let mut families = self.families();
        let family = families.get_mut(name)?;
        if labels.len() != family.declaration.labels.len() {
            return None;
        }
        let cut = |label: &&str| cut(label, LABEL_BYTES).to_owned();
        let mut key: Vec<String> = labels.iter().map(cut).collect();
        let own = family.series.contains_key(&key) || family.series.len() < SERIES_PER_FAMILY;
        if !own {
            key.fill(OTHER.to_owned());
        }
        let bounds = &family.bounds;
        let cell = family.series.entry(key);
        let cell = cell.or_insert_with(|| Arc::new(ScriptedCell::new(bounds.clone())));
        Some((cell.clone(), own))
    }

    /// Appends all families, by name.
    pub fn write(&self, out: &mut String) {
        for (name, family) in self.families().iter() {
            let MetricDeclaration { kind, help, labels, .. } = &family.declaration;
            out.push_str("# HELP ");
            out.push_str(name);
            out.push(' ');
            prometheus(out, help, false);
            // Writing to a String does not fail.
            let _ = write!(out, "\n# TYPE {name} {}\n", kind.token());
            for (values, cell) in &family.series {
                let mut line = Line { out, name, labels, values };
                match kind {
                    Kind::Histogram => line.histogram(cell),
                    Kind::Counter | Kind::Gauge => line.write("", None, cell.get()),
                }
            }
        }
    }
}

struct Line<'a> {
    out: &'a mut String,
    name: &'a str,
    labels: &'a [String],
    values: &'a [String],
}

impl Line<'_> {
    fn histogram(&mut self, cell: &ScriptedCell) {
        let mut below = 0;
        for (at, bucket) in cell.buckets.iter().enumerate() {
            below += bucket.load(Ordering::Relaxed);
            let bound = cell.bounds.get(at).map_or_else(|| "+Inf".to_owned(), f64::to_string);
            self.write("_bucket", Some(&bound), below as f64);
        }
        self.write("_sum", None, cell.get());
        self.write("_count", None, below as f64);
    }

    fn write(&mut self, suffix: &str, le: Option<&str>, value: f64) {
        self.out.push_str(self.name);
        self.out.push_str(suffix);
        let mut separator = '{';
        let labels = self.labels.iter().zip(self.values).map(|(l, v)| (l.as_str(), v.as_str()));
        for (label, value) in labels.chain(le.map(|le| ("le", le))) {
            self.out.push(separator);
            separator = ',';
            self.out.push_str(label);
            self.out.push_str("=\"");
            prometheus(self.out, value, true);
            self.out.push('"');
        }
        if separator == ',' {
            self.out.push('}');
        }
        let _ = match value {
            f64::INFINITY => writeln!(self.out, " +Inf"),
            f64::NEG_INFINITY => writeln!(self.out, " -Inf"),
            value => writeln!(self.out, " {value}"),
        };
    }
}

fn check(declaration: &MetricDeclaration) -> Result<(), String> {
    let MetricDeclaration { name, kind, labels, bounds, .. } = declaration;
    if !is_name(name, true) {
        return Err(format!("'{name}' is not a metric name"));
    }
    if ["tidegate_", "process_"].iter().any(|ours| name.starts_with(ours)) {
        return Err(format!("'{name}' has a prefix reserved for the server's metrics"));
    }
    if labels.len() > SCRIPTED_LABELS {
        return Err(format!("more than {SCRIPTED_LABELS} labels"));
    }
    for (at, label) in labels.iter().enumerate() {
        let taken = label.starts_with("__") || *kind == Kind::Histogram && label == "le";
        if !is_name(label, false) || taken || labels[..at].contains(label) {
            return Err(format!("'{label}' is not allowed as a label"));
        }
    }
    let ascending = bounds.iter().zip(bounds.iter().skip(1)).all(|(a, b)| a < b);
    if bounds.len() > SCRIPTED_BUCKETS || !ascending || !bounds.iter().all(|b| b.is_finite()) {
        return Err(format!("buckets must be at most {SCRIPTED_BUCKETS} ascending numbers"));
    }
    Ok(())
}

/// Matches [a-zA-Z_][a-zA-Z0-9_]*, plus colons in the name of a metric.
fn is_name(name: &str, colons: bool) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || colons && b == b':';
    !name.is_empty()
        && name.len() <= LABEL_BYTES
        && !name.as_bytes()[0].is_ascii_digit()
        && name.bytes().all(good)
}

#[cfg(test)]
mod tests;
