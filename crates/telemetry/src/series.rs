//! The label sets of one family and their cells.
//!
//! A series is one label set; its value is the sum of its cells: one shared cell and one per
//! worker. The number of series is bounded: at the limit, series without a handle are removed; if
//! there are none, new ones add up under "other" until the metrics are read.

use crate::cell::{CachePadded, Counter, Gauge, SharedCounter, SharedGauge};
use crate::escape::cut;
use crate::histogram::{Histogram, Snapshot};
use crate::limits::{LABEL_BYTES, OTHER, SERIES_PER_FAMILY};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One label set of a family and its value, added up over all workers.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// In the order of the family's label names.
    pub labels: Vec<String>,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Counter(u64),
    Gauge(i64),
    /// A value that is not a whole number.
    Float(f64),
    Histogram(Box<Snapshot>),
}

/// The owner of a cell: `None` for the one that all threads share, otherwise the worker's number.
pub(crate) type Owner = Option<usize>;

#[derive(Debug)]
pub(crate) enum Cell {
    SharedCounter(Arc<SharedCounter>),
    SharedGauge(Arc<SharedGauge>),
    Counter(Arc<CachePadded<Counter>>),
    Gauge(Arc<CachePadded<Gauge>>),
    Histogram(Arc<Histogram>),
}

impl Cell {
    fn is_referenced(&self) -> bool {
        let holders = match self {
            Self::SharedCounter(cell) => Arc::strong_count(cell),
            Self::SharedGauge(cell) => Arc::strong_count(cell),
            Self::Counter(cell) => Arc::strong_count(cell),
            Self::Gauge(cell) => Arc::strong_count(cell),
            Self::Histogram(cell) => Arc::strong_count(cell),
        };
        holders > 1
    }

    fn is_gauge(&self) -> bool {
        matches!(self, Self::SharedGauge(_) | Self::Gauge(_))
    }
}

/// A type that can be the cell of a series.
pub(crate) trait Stored: Default {
    fn into_cell(this: Arc<Self>) -> Cell;
    fn from_cell(cell: &Cell) -> Option<Arc<Self>>;
}

macro_rules! stored {
    ($($type:ty => $variant:ident),*) => {
        $(impl Stored for $type {
            fn into_cell(this: Arc<Self>) -> Cell {
                Cell::$variant(this)
            }

            fn from_cell(cell: &Cell) -> Option<Arc<Self>> {
                match cell {
                    Cell::$variant(cell) => Some(Arc::clone(cell)),
                    _ => None,
                }
            }
        })*
    };
}

stored!(
    SharedCounter => SharedCounter,
    SharedGauge => SharedGauge,
    CachePadded<Counter> => Counter,
    CachePadded<Gauge> => Gauge,
    Histogram => Histogram
);

#[derive(Debug, Default)]
pub(crate) struct SeriesSet {
    series: BTreeMap<Vec<String>, BTreeMap<Owner, Cell>>,
    /// True if a search at the limit found only series with a handle, until the metrics are read.
    is_full: bool,
}

impl SeriesSet {
    /// Returns the cell of a label set, created on first use.
    pub(crate) fn cell<T: Stored>(&mut self, labels: &[&str], owner: Owner) -> Arc<T> {
        let mut key: Vec<String> =
            labels.iter().map(|value| cut(value, LABEL_BYTES).to_owned()).collect();
        if !labels.is_empty() && !self.series.contains_key(&key) {
            if self.series.len() >= SERIES_PER_FAMILY && !self.is_full {
                self.drop_unreferenced();
                self.is_full = self.series.len() >= SERIES_PER_FAMILY;
            }
            if self.series.len() >= SERIES_PER_FAMILY {
                key = vec![OTHER.to_owned(); labels.len()];
            }
        }
        let cells = self.series.entry(key).or_default();
        if let Some(known) = cells.get(&owner).and_then(T::from_cell) {
            return known;
        }
        let fresh = Arc::new(T::default());
        cells.insert(owner, T::into_cell(Arc::clone(&fresh)));
        fresh
    }

    fn drop_unreferenced(&mut self) {
        self.series.retain(|labels, cells| {
            labels.iter().all(|value| value == OTHER) || cells.values().any(Cell::is_referenced)
        });
    }

    /// Returns the sum of each series. A labelled gauge without a handle describes something that
    /// is gone (a server removed from the configuration) and is dropped; counters stay.
    pub(crate) fn collect(&mut self) -> Vec<Sample> {
        self.is_full = false;
        self.series.retain(|labels, cells| {
            cells.retain(|_, cell| labels.is_empty() || !cell.is_gauge() || cell.is_referenced());
            !cells.is_empty()
        });
        let samples = self.series.iter();
        samples
            .map(|(labels, cells)| Sample { labels: labels.clone(), value: sum(cells) })
            .collect()
    }
}

fn sum(cells: &BTreeMap<Owner, Cell>) -> Value {
    let (mut count, mut level, mut gauge) = (0_u64, 0_i64, false);
    let mut latency: Option<Snapshot> = None;
    for cell in cells.values() {
        match cell {
            Cell::SharedCounter(cell) => count = count.wrapping_add(cell.get()),
            Cell::Counter(cell) => count = count.wrapping_add(cell.get()),
            Cell::SharedGauge(cell) => (level, gauge) = (level + cell.get(), true),
            Cell::Gauge(cell) => (level, gauge) = (level + cell.get(), true),
            Cell::Histogram(cell) => latency.get_or_insert_default().merge(&cell.snapshot()),
        }
    }
    match latency {
        Some(snapshot) => Value::Histogram(Box::new(snapshot)),
        None if gauge => Value::Gauge(level),
        None => Value::Counter(count),
    }
}

#[cfg(test)]
mod tests {
    use super::{SeriesSet, Value};
    use crate::cell::{CachePadded, Counter, SharedCounter, SharedGauge};
    use crate::limits::SERIES_PER_FAMILY;

    #[test]
    fn shared_and_worker_cells_add_up() {
        let mut set = SeriesSet::default();
        set.cell::<SharedCounter>(&["a"], None).add(1);
        set.cell::<CachePadded<Counter>>(&["a"], Some(0)).add(2);
        set.cell::<CachePadded<Counter>>(&["a"], Some(0)).add(4);
        set.cell::<CachePadded<Counter>>(&["a"], Some(1)).add(8);
        set.cell::<SharedCounter>(&["b"], None).add(100);
        let samples = set.collect();
        assert_eq!(samples.len(), 2);
        assert_eq!(samples[0].labels, ["a"]);
        assert_eq!(samples[0].value, Value::Counter(15));
    }

    #[test]
    fn at_the_limit_referenced_series_stay_and_new_ones_are_other() {
        let mut set = SeriesSet::default();
        let is_referenced: Vec<_> = (0..SERIES_PER_FAMILY)
            .map(|i| set.cell::<SharedCounter>(&[&i.to_string()], None))
            .collect();
        set.cell::<SharedCounter>(&["one too many"], None).add(7);
        set.cell::<SharedCounter>(&["and another"], None).add(5);
        let samples = set.collect();
        assert_eq!(samples.len(), SERIES_PER_FAMILY + 1);
        let other = samples.iter().find(|sample| sample.labels == ["other"]).unwrap();
        assert_eq!(other.value, Value::Counter(12));
        set.cell::<SharedCounter>(&["looked for again"], None).add(1);
        drop(is_referenced);
        set.cell::<SharedCounter>(&["not looked for"], None).add(1);
        let samples = set.collect();
        let other = samples.iter().find(|sample| sample.labels == ["other"]).unwrap();
        assert_eq!(other.value, Value::Counter(14));
        set.cell::<SharedCounter>(&["room again"], None).inc();
        let left: Vec<_> = set.collect().into_iter().map(|sample| sample.labels).collect();
        assert_eq!(left, [["other"], ["room again"]]);
    }

    #[test]
    fn a_gauge_without_a_handle_is_dropped() {
        let mut set = SeriesSet::default();
        let kept = set.cell::<SharedGauge>(&["kept"], None);
        kept.set(3);
        set.cell::<SharedGauge>(&["gone"], None).set(1);
        let samples = set.collect();
        assert_eq!(samples.len(), 1);
        assert_eq!(samples[0].value, Value::Gauge(3));
        let mut plain = SeriesSet::default();
        plain.cell::<SharedGauge>(&[], None).set(1);
        assert_eq!(plain.collect().len(), 1, "a gauge without labels stays");
    }
}
