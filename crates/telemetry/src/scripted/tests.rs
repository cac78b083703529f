//! What programs count, as text; what is refused; what is bounded.

use super::{Declared, Scripted};
use crate::families::Kind;
use crate::limits::SERIES_PER_FAMILY;

fn declared(name: &str, kind: Kind, labels: &[&str], bounds: &[f64]) -> Declared {
    Declared {
        name: name.to_owned(),
        kind,
        help: "What\\it\nis.".to_owned(),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        bounds: bounds.to_vec(),
    }
}

#[test]
fn buckets_are_cumulative_and_labels_escaped() {
    let all = Scripted::default();
    all.declare(declared("took", Kind::Histogram, &["who"], &[0.5, 1.0])).unwrap();
    let (cell, own) = all.cell("took", &["a\"b\\\n"]).unwrap();
    assert!(own);
    for number in [0.5, 0.75, 3.0] {
        cell.observe(number);
    }
    all.declare(declared("held", Kind::Gauge, &[], &[])).unwrap();
    all.cell("held", &[]).unwrap().0.set(-1.5);
    let mut text = String::new();
    all.write(&mut text);
    let expected = r#"# HELP held What\\it\nis.
# TYPE held gauge
held -1.5
# HELP took What\\it\nis.
# TYPE took histogram
took_bucket{who="a\"b\\\n",le="0.5"} 1
took_bucket{who="a\"b\\\n",le="1"} 2
took_bucket{who="a\"b\\\n",le="+Inf"} 3
took_sum{who="a\"b\\\n"} 4.25
took_count{who="a\"b\\\n"} 3
"#;
    assert_eq!(text, expected);
}

#[test]
fn what_cannot_be_a_metric_is_refused() {
    let all = Scripted::default();
    let good = declared("a_total", Kind::Counter, &["b"], &[]);
    assert_eq!(all.declare(good.clone()), Ok(()));
    assert_eq!(all.declare(good), Ok(()));
    let table = [
        declared("a_total", Kind::Gauge, &["b"], &[]),
        declared("1a", Kind::Counter, &[], &[]),
        declared("", Kind::Counter, &[], &[]),
        declared("tidegate_x", Kind::Counter, &[], &[]),
        declared("b", Kind::Counter, &["__x"], &[]),
        declared("b", Kind::Counter, &["x", "x"], &[]),
        declared("b", Kind::Counter, &["a-b"], &[]),
        declared("b", Kind::Histogram, &["le"], &[]),
        declared("b", Kind::Histogram, &[], &[1.0, 1.0]),
        declared("b", Kind::Histogram, &[], &[f64::NAN]),
    ];
    for declared in table {
        assert!(all.declare(declared.clone()).is_err(), "{declared:?}");
    }
    assert!(all.cell("a_total", &[]).is_none());
    assert!(all.cell("none", &[]).is_none());
}

#[test]
fn label_sets_are_bounded() {
    let all = Scripted::default();
    all.declare(declared("a", Kind::Counter, &["b"], &[])).unwrap();
    for number in 0..SERIES_PER_FAMILY {
        assert!(all.cell("a", &[&number.to_string()]).unwrap().1);
    }
    for late in ["x", "y"] {
        let (cell, own) = all.cell("a", &[late]).unwrap();
        cell.add(1.0);
        assert!(!own);
    }
    assert!(all.cell("a", &["7"]).unwrap().1);
    let mut text = String::new();
    all.write(&mut text);
    assert!(text.contains("a{b=\"other\"} 2\n"));
}
