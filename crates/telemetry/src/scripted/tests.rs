//! Metrics of programs: formatting, rejected declarations, limits.

use super::{MetricDeclaration, Scripted};
use crate::families::Kind;
use crate::limits::SERIES_PER_FAMILY;

fn declaration(name: &str, kind: Kind, labels: &[&str], bounds: &[f64]) -> MetricDeclaration {
    MetricDeclaration {
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
    all.declare(declaration("took", Kind::Histogram, &["method"], &[0.5, 1.0])).unwrap();
    let (cell, own) = all.cell("took", &["a\"b\\\n"]).unwrap();
    assert!(own);
    for number in [0.5, 0.75, 3.0] {
        cell.observe(number);
    }
    all.declare(declaration("held", Kind::Gauge, &[], &[])).unwrap();
    all.cell("held", &[]).unwrap().0.set(-1.5);
    let mut text = String::new();
    all.write(&mut text);
    let expected = r#"# HELP held What\\it\nis.
# TYPE held gauge
held -1.5
# HELP took What\\it\nis.
# TYPE took histogram
took_bucket{method="a\"b\\\n",le="0.5"} 1
took_bucket{method="a\"b\\\n",le="1"} 2
took_bucket{method="a\"b\\\n",le="+Inf"} 3
took_sum{method="a\"b\\\n"} 4.25
took_count{method="a\"b\\\n"} 3
"#;
    assert_eq!(text, expected);
}

#[test]
fn invalid_declarations_are_rejected() {
    let all = Scripted::default();
    let good = declaration("a_total", Kind::Counter, &["b"], &[]);
    assert_eq!(all.declare(good.clone()), Ok(()));
    assert_eq!(all.declare(good), Ok(()));
    let table = [
        declaration("a_total", Kind::Gauge, &["b"], &[]),
        declaration("1a", Kind::Counter, &[], &[]),
        declaration("", Kind::Counter, &[], &[]),
        declaration("tidegate_x", Kind::Counter, &[], &[]),
        declaration("b", Kind::Counter, &["__x"], &[]),
        declaration("b", Kind::Counter, &["x", "x"], &[]),
        declaration("b", Kind::Counter, &["a-b"], &[]),
        declaration("b", Kind::Histogram, &["le"], &[]),
        declaration("b", Kind::Histogram, &[], &[1.0, 1.0]),
        declaration("b", Kind::Histogram, &[], &[f64::NAN]),
    ];
    for declaration in table {
        assert!(all.declare(declaration.clone()).is_err(), "{declaration:?}");
    }
    assert!(all.cell("a_total", &[]).is_none());
    assert!(all.cell("none", &[]).is_none());
}

#[test]
fn label_sets_are_bounded() {
    let all = Scripted::default();
    all.declare(declaration("a", Kind::Counter, &["b"], &[])).unwrap();
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
