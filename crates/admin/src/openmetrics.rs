//! The metrics as OpenMetrics 1.0: our text format with the names of counters, the numbers of
//! bounds and the end that the other demands, and with traces as exemplars.

use std::borrow::Cow;
use std::fmt::Write;

use message::Request;
use telemetry::{BucketExemplars, Exemplars};
use wire::Known;

pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const MEDIA_TYPE: &str = "application/openmetrics-text";
/// What the lines of the histogram with exemplars begin with.
const DURATIONS: &str = "tidegate_request_duration_seconds_bucket{route=\"";

/// True if the client prefers OpenMetrics to the text format.
pub(crate) fn is_wanted(request: &Request) -> bool {
    let accepted = request.headers.get_str(Known::Accept).unwrap_or_default();
    let weight = |media_type: &str| {
        let weights = accepted.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            if !parts.next()?.eq_ignore_ascii_case(media_type) {
                return None;
            }
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            Some(weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0)))
        });
        weights.fold(0.0, f32::max)
    };
    let wanted = weight(MEDIA_TYPE);
    wanted > 0.0 && wanted >= weight("text/plain")
}

/// Converts the text format.
pub(crate) fn of_text(text: &str, exemplars: &Exemplars) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut help = None;
    // The name of a counter's samples where it lacks their suffix.
    let mut renamed = None;
    let mut examples = RouteExamples { exemplars, latest: None };
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let family = match kind {
                "counter" => name.strip_suffix("_total").unwrap_or(name),
                _ => name,
            };
            renamed = (kind == "counter" && family == name).then_some(name);
            // Writing to a String does not fail.
            if let Some((_, help)) = help.take() {
                let _ = writeln!(out, "# HELP {family} {}", help.replace('"', "\\\""));
            }
            // OpenMetrics has another word for it.
            let kind = if kind == "untyped" { "unknown" } else { kind };
            let _ = writeln!(out, "# TYPE {family} {kind}");
        } else {
            let line = with_float_bound(line);
            match renamed.and_then(|name| line.strip_prefix(name)) {
                Some(rest) => {
                    let _ = write!(out, "{}_total{rest}", renamed.unwrap_or_default());
                }
                None => out.push_str(&line),
            }
            examples.add(&line, &mut out);
            out.push('\n');
        }
    }
    out.push_str("# EOF\n");
    out
}

/// A line whose bound `le` is written as a floating point number.
fn with_float_bound(line: &str) -> Cow<'_, str> {
    let Some((before, after)) = line.rsplit_once("le=\"") else { return Cow::Borrowed(line) };
    let is_label = before.ends_with(['{', ',']);
    match after.split_once('"') {
        Some((bound, rest)) if is_label && bound.bytes().all(|byte| byte.is_ascii_digit()) => {
            Cow::Owned(format!("{before}le=\"{bound}.0\"{rest}"))
        }
        _ => Cow::Borrowed(line),
    }
}

/// Looks up the exemplars of one route after the other.
struct RouteExamples<'a> {
    exemplars: &'a Exemplars,
    /// The latest route as the text has it, and the number of buckets so far.
    latest: Option<(String, usize, Option<BucketExemplars>)>,
}

impl RouteExamples<'_> {
    /// Appends the exemplar of a bucket to its line.
    fn add(&mut self, line: &str, out: &mut String) {
        let Some(rest) = line.strip_prefix(DURATIONS) else { return };
        // Lines of worker processes have another label between the two.
        let Some((route, _)) = rest.split_once("\",le=\"") else { return };
        if self.latest.as_ref().is_none_or(|(latest, ..)| latest != route) {
            let found = self.exemplars.of_route(&unescaped(route));
            self.latest = Some((route.to_owned(), 0, found));
        }
        let Some((_, bucket, found)) = &mut self.latest else { return };
        let exemplar = found.and_then(|found| found.get(*bucket).copied().flatten());
        *bucket += 1;
        if let Some(exemplar) = exemplar {
            let hex = |bytes: &[u8]| -> String {
                bytes.iter().map(|byte| format!("{byte:02x}")).collect()
            };
            let _ = write!(
                out,
                " # {{trace_id=\"{}\",span_id=\"{}\"}} {} {}.{:03}",
                hex(&exemplar.trace_id),
                hex(&exemplar.span_id),
                exemplar.value_us as f64 / 1e6,
                exemplar.unix_ms / 1000,
                exemplar.unix_ms % 1000
            );
        }
    }
}

/// The value of a label without its escapes.
fn unescaped(label: &str) -> String {
    let mut out = String::with_capacity(label.len());
    let mut characters = label.chars();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => break,
            },
            other => other,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{is_wanted, of_text};
    use crate::prometheus::metrics_text;
    use message::{Headers, Request, Target};
    use telemetry::{Exemplar, Exemplars, Telemetry, families};
    use wire::{Known, Method};

    #[test]
    fn the_client_chooses() {
        for (accept, wanted) in [
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3",
                true,
            ),
            ("application/openmetrics-text", true),
            ("text/plain, application/openmetrics-text;q=0.9", false),
            ("application/openmetrics-text;q=0", false),
            ("*/*", false),
            ("", false),
        ] {
            let mut headers = Headers::new();
            headers.append(Known::Accept, accept);
            let request = Request::made_up(Method::Get, Target::asterisk(), headers);
            assert_eq!(is_wanted(&request), wanted, "{accept}");
        }
    }

    #[test]
    fn a_type_that_openmetrics_does_not_know_is_unknown() {
        let text = of_text("# HELP a A.\n# TYPE a untyped\na 1\n", &Exemplars::default());
        assert_eq!(text, "# HELP a A.\n# TYPE a unknown\na 1\n# EOF\n");
    }

    #[test]
    fn counters_bounds_exemplars_and_the_end_are_as_demanded() {
        let telemetry = Telemetry::new();
        telemetry.route(0, "a \"b\"").finished(200, 1_500);
        telemetry.route(0, "a \"b\"").finished(200, 90_000_000);
        telemetry.counter(&families::CONFIG_RELOADS, &[]).inc();
        let exemplar =
            Exemplar { trace_id: [0xab; 16], span_id: [1; 8], value_us: 1_500, unix_ms: 12_034 };
        telemetry.exemplars().record("a \"b\"", exemplar);
        let text = of_text(&metrics_text(&telemetry), telemetry.exemplars());
        for expected in [
            "# TYPE tidegate_requests counter\n",
            "tidegate_requests_total{route=\"a \\\"b\\\"\",class=\"2xx\"} 2\n",
            ",le=\"0.001\"} 0\n",
            &format!(
                ",le=\"0.002\"}} 1 # {{trace_id=\"{}\",span_id=\"{}\"}} 0.0015 12.034\n",
                "ab".repeat(16),
                "01".repeat(8)
            ),
            ",le=\"10.0\"} 1\n",
            ",le=\"+Inf\"} 2\n",
        ] {
            assert!(text.contains(expected), "no {expected:?} in\n{text}");
        }
        assert!(text.ends_with("\n# EOF\n") && text.matches(" # {").count() == 1);
    }

    #[test]
    fn the_counters_of_programs_get_their_suffix() {
        let text = "# HELP jobs Says \"done\".\n# TYPE jobs counter\njobs{a=\"jobs\"} 1\njobs 2\n";
        let expected = "# HELP jobs Says \\\"done\\\".\n# TYPE jobs counter\n\
                        jobs_total{a=\"jobs\"} 1\njobs_total 2\n# EOF\n";
        assert_eq!(of_text(text, &Default::default()), expected);
    }
}
