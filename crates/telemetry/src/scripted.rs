//! Metrics that programs make up, beside those of the table.
//!
//! Owns their names, label sets and values, and, as their names are not in the table, the way they
//! are written in the Prometheus text format 0.0.4. Promises that families and label sets are
//! bounded (what is too much adds up under "other"), that buckets are cumulative, that label values
//! are escaped, and that counting takes no lock. All threads share a value: a gauge is what was
//! set last.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::escape::{cut, prometheus};
use crate::families::Kind;
use crate::limits::SERIES_PER_FAMILY;
use crate::limits::{
    HELP_BYTES, LABEL_BYTES, SCRIPTED_BUCKETS, SCRIPTED_FAMILIES, SCRIPTED_LABELS,
};
use crate::series::OTHER;

/// What a program says of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
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
    /// The number; the sum of a histogram.
    number: AtomicU64,
    bounds: Arc<[f64]>,
    /// What lies in each bucket and in no lower one; the last is beyond all bounds.
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

    pub fn observe(&self, number: f64) {
        // A value that is no number lies beyond all bounds.
        let at = self.bounds.iter().position(|bound| number <= *bound);
        self.buckets[at.unwrap_or(self.bounds.len())].fetch_add(1, Ordering::Relaxed);
        self.add(number);
    }
}

#[derive(Debug)]
struct Scripts {
    declared: Declared,
    bounds: Arc<[f64]>,
    series: BTreeMap<Vec<String>, Arc<ScriptedCell>>,
}

/// The families of all programs of a process, or of one registry.
#[derive(Debug, Default)]
pub struct Scripted {
    families: Mutex<BTreeMap<String, Scripts>>,
}

impl Scripted {
    fn families(&self) -> MutexGuard<'_, BTreeMap<String, Scripts>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a family known; the same declaration may come again, from another worker.
    pub fn declare(&self, mut declared: Declared) -> Result<(), String> {
        declared.help = cut(&declared.help, HELP_BYTES).to_owned();
        check(&declared)?;
        let mut families = self.families();
        if let Some(known) = families.get(&declared.name) {
            let same = known.declared == declared;
            return same
                .then_some(())
                .ok_or_else(|| format!("'{}' is something else already", declared.name));
        }
        if families.len() == SCRIPTED_FAMILIES {
            return Err(format!("there are {SCRIPTED_FAMILIES} metrics already"));
        }
        let bounds = declared.bounds.clone().into();
        let name = declared.name.clone();
        families.insert(name, Scripts { declared, bounds, series: BTreeMap::new() });
        Ok(())
    }

    /// The cell of a label set, and whether it is that set's own: past the bound it is "other"'s.
    /// None for a family that is not known or has other labels.
    pub fn cell(&self, name: &str, labels: &[&str]) -> Option<(Arc<ScriptedCell>, bool)> {
        let mut families = self.families();
        let family = families.get_mut(name)?;
        if labels.len() != family.declared.labels.len() {
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

    /// Appends everything, by name.
    pub fn write(&self, out: &mut String) {
        for (name, family) in self.families().iter() {
            let Declared { kind, help, labels, .. } = &family.declared;
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

fn check(declared: &Declared) -> Result<(), String> {
    let Declared { name, kind, labels, bounds, .. } = declared;
    if !is_name(name, true) {
        return Err(format!("'{name}' is no name of a metric"));
    }
    if ["tidegate_", "process_"].iter().any(|ours| name.starts_with(ours)) {
        return Err(format!("'{name}' begins like the metrics of the server"));
    }
    if labels.len() > SCRIPTED_LABELS {
        return Err(format!("more than {SCRIPTED_LABELS} labels"));
    }
    for (at, label) in labels.iter().enumerate() {
        let taken = label.starts_with("__") || *kind == Kind::Histogram && label == "le";
        if !is_name(label, false) || taken || labels[..at].contains(label) {
            return Err(format!("'{label}' cannot be a label here"));
        }
    }
    let ascending = bounds.iter().zip(bounds.iter().skip(1)).all(|(a, b)| a < b);
    if bounds.len() > SCRIPTED_BUCKETS || !ascending || !bounds.iter().all(|b| b.is_finite()) {
        return Err(format!("buckets are at most {SCRIPTED_BUCKETS} numbers, ascending"));
    }
    Ok(())
}

/// [a-zA-Z_][a-zA-Z0-9_]*, where a metric's name may have colons too.
fn is_name(name: &str, colons: bool) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || colons && b == b':';
    !name.is_empty()
        && name.len() <= LABEL_BYTES
        && !name.as_bytes()[0].is_ascii_digit()
        && name.bytes().all(good)
}

#[cfg(test)]
mod tests;
