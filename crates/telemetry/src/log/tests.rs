//! Format of event lines, levels, and the rate limit of call sites.

use super::{CallSite, Event, Format, Level, enabled, install, set_format, set_level};
use crate::limits::EVENT_BYTES;
use crate::registry::Telemetry;
use crate::writer::{LogWriter, Sink};
use std::fs;

fn line(format: Format, fill: impl Fn(&mut Event)) -> String {
    let mut event = Event::at(1_000, format, Level::Warn, "it happened");
    fill(&mut event);
    String::from_utf8(event.finish()).unwrap()
}

#[test]
fn text_and_json_lines() {
    let fill = |event: &mut Event| {
        event.text("name", &"two words\n");
        event.bare("count", &3);
    };
    assert_eq!(
        line(Format::Text, fill),
        "1970-01-01T00:00:01.000Z WARN it happened name=\"two words\\n\" count=3"
    );
    assert_eq!(
        line(Format::Json, fill),
        "{\"time\":\"1970-01-01T00:00:01.000Z\",\"level\":\"warn\",\"message\":\"it happened\",\
         \"name\":\"two words\\n\",\"count\":3}"
    );
}

#[test]
fn a_field_without_a_value_is_left_out() {
    use super::{Bare as _, Field, Quoted as _};
    let (known, unknown) = (Some("4bf9"), None::<String>);
    let shown = line(Format::Text, |event| {
        Field(&known).put("trace_id", event);
        Field(&unknown).put("trace_id", event);
        (&Field(&"x")).put("other", event);
    });
    assert_eq!(shown, "1970-01-01T00:00:01.000Z WARN it happened trace_id=4bf9 other=x");
}

#[test]
fn a_long_value_is_cut() {
    let long = "é".repeat(EVENT_BYTES);
    let text = line(Format::Text, |event| {
        event.text("a", &long);
        event.text("b", &long);
    });
    assert!(text.len() < EVENT_BYTES * 2, "{}", text.len());
    assert!(text.ends_with("b=\"\""));
}

#[test]
fn levels_parse_and_order() {
    for level in Level::ALL {
        assert_eq!(Level::parse(level.slug()), Some(level));
    }
    assert_eq!(Level::parse("loud"), None);
    assert!(Level::Error < Level::Debug);
}

#[test]
fn a_call_site_suppresses_and_reports_the_number() {
    let site = CallSite::new();
    assert_eq!(site.admit_at(7, 2), Some(0));
    assert_eq!(site.admit_at(7, 2), Some(0));
    for _ in 0..5 {
        assert_eq!(site.admit_at(7, 2), None);
    }
    assert_eq!(site.admit_at(8, 2), Some(5));
    assert_eq!(site.admit_at(8, 2), Some(0));
    assert_eq!(site.admit_at(8, 2), None);
}

/// Level, format and ring are process-wide: one test covers them all.
#[test]
fn events_go_through_the_installed_ring() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.log");
    let writer = LogWriter::start("events", Sink::File(path.clone()), &Telemetry::new()).unwrap();
    install(Some(writer.ring()));
    set_format(Format::Json);
    let address: std::net::SocketAddr = "127.0.0.1:80".parse().unwrap();
    let name = String::from("web");
    crate::event!(
        Level::Info,
        "listening",
        name = name,
        address = address,
        port = 80_u16,
        on = true
    );
    assert!(!enabled(Level::Debug));
    let evaluated = std::cell::Cell::new(0);
    let touch = || {
        evaluated.set(evaluated.get() + 1);
        "touched"
    };
    crate::event!(Level::Debug, "unseen", why = touch());
    set_level(Level::Debug);
    crate::event!(Level::Debug, "seen", why = touch());
    for _ in 0..2 {
        crate::event_limited!(1_000, Level::Warn, "noisy");
    }
    tracing::warn!(name: "x", target: "resolver", server = "::1", tries = 3, "no reply");
    tracing::info!(target: "resolver", "unseen");
    set_level(Level::Info);
    set_format(Format::Text);
    install(None);
    drop(writer);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    let tail = "\"message\":\"listening\",\"name\":\"web\",\"address\":\"127.0.0.1:80\",\
                \"port\":80,\"on\":true}";
    assert!(lines[0].ends_with(tail), "{}", lines[0]);
    assert!(lines[1].contains("\"message\":\"seen\",\"why\":\"touched\""));
    assert_eq!(evaluated.get(), 1);
    assert!(lines[3].contains("\"noisy\""));
    let foreign = "\"level\":\"warn\",\"message\":\"no reply\",\"target\":\"resolver\",\
                   \"server\":\"::1\",\"tries\":3}";
    assert!(lines[4].ends_with(foreign), "{}", lines[4]);
}
