//! Tests of the format: what is written is read again, and documented.

use serde_json::Value;

use super::super::sample;
use super::{Data, Key, Placement};

const PAGE: &str = include_str!("../../../../../docs/reference/bench-data.md");

#[test]
fn older_runs_that_were_pinned_have_pinned_records() {
    let mut data = sample::data();
    data.pinned = Some("servers on core 0, load on core 1".to_owned());
    let mut json: Value = serde_json::from_str(&data.to_json()).unwrap();
    for record in json["records"].as_array_mut().unwrap() {
        record.as_object_mut().unwrap().remove("placement");
    }
    let read = Data::from_json(&json.to_string()).unwrap();
    assert!(read.records.iter().all(|record| record.placement == Placement::Pinned));
}

#[test]
fn a_run_is_read_as_it_was_written() {
    let directory = std::env::temp_dir().join(format!("tidegate-data-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join("data.json");
    sample::data().write(&path).expect("written");
    assert_eq!(Data::read(&path).expect("read").to_json(), sample::data().to_json());
    let names = std::fs::read_dir(&directory).expect("a directory").count();
    std::fs::remove_dir_all(&directory).expect("nothing is left behind");
    assert_eq!(names, 1, "only the file itself");
}

#[test]
fn a_file_that_is_none_is_refused_with_a_sentence() {
    let why = |text: &str| Data::from_json(text).expect_err("refused").to_string();
    assert!(why("{}").starts_with("this is not a data.json of a benchmark: missing field"));
    assert_eq!(why("{\"version\": 9}"), "the file has version 9, this program reads version 1");
    let missing = Data::read("/nowhere/data.json".as_ref()).expect_err("refused");
    assert!(missing.to_string().starts_with("/nowhere/data.json: "), "{missing}");
}

#[test]
fn fields_that_came_later_are_passed_over() {
    let newer = sample::data().to_json().replacen('{', "{\"colour\": 1,", 1);
    assert_eq!(Data::from_json(&newer).expect("read").to_json(), sample::data().to_json());
}

#[test]
fn figures_have_six_digits_and_are_numbers() {
    let mut data = sample::data();
    data.records[0].cpu_us_per_request = 5.123_456_789;
    data.records[0].requests_per_second = f64::NAN;
    let read = Data::from_json(&data.to_json()).expect("read");
    let found = &read.records[0];
    assert_eq!((found.cpu_us_per_request, found.requests_per_second), (5.12346, 0.0));
}

#[test]
fn what_could_not_be_seen_is_null_and_not_free() {
    let mut data = sample::data();
    data.records[0].cpu_us_per_request = f64::NAN;
    data.records[0].rounds[0].cpu_us_per_request = f64::NAN;
    let text = data.to_json();
    assert_eq!(text.matches("\"cpu_us_per_request\": null").count(), 2);
    let read = Data::from_json(&text).expect("read");
    assert!(read.records[0].cpu_us_per_request.is_nan());
    assert!(read.records[0].rounds[0].cpu_us_per_request.is_nan());
}

#[test]
fn a_record_is_found_by_its_key() {
    let data = sample::data();
    let (scenario, placement) = ("gateway", Placement::Unpinned);
    let key = Key { scenario, connections: 512, workers: 1, placement, server: "nginx" };
    assert_eq!(data.find(&key).map(|record| record.cpu_us_per_request), Some(16.1));
    assert!(data.find(&Key { workers: 2, ..key }).is_none());
}

#[test]
fn the_reference_names_every_field() {
    let mut data = sample::data();
    data.records[0].errors_by_kind.insert("timeout".to_owned(), 1);
    let written = serde_json::from_str(&data.to_json()).expect("JSON");
    let mut missing = Vec::new();
    names(&written, &mut |name| {
        if !PAGE.contains(&format!("`{name}`")) {
            missing.push(name.to_owned());
        }
    });
    assert!(missing.is_empty(), "not in docs/reference/bench-data.md: {missing:?}");
}

fn names(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            found(name);
            names(value, found);
        }),
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}
