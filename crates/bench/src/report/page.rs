//! docs/benchmarks.md: a run as a page of the documentation.
//!
//! Owns the page except for the part between its two marks, which is written by hand: why a bar is
//! missed, and the next step. Promises to preserve that part.

use std::fmt::Write as _;

use super::data::Data;
use super::figures::span;
use super::results::{self, Room};

const NOTES_BEGIN: &str = "<!-- written by hand, kept by `make bench-report`: begin -->";
const NOTES_END: &str = "<!-- written by hand: end -->";
const NOTES_EMPTY: &str = "Nothing has been written about this run yet.";

/// The page. What stood between the marks of `before`, the page of an earlier run, stays; the
/// directory `root` is left out of what names files, so that the page does not depend on the
/// machine.
pub fn render(data: &Data, before: Option<&str>, root: &str) -> String {
    let mut out = format!(
        "# Benchmarks\n\nWritten by `make bench-report`. Absolute figures belong to this machine; \
         what carries further is the ratio of two servers in one run.\n\
         [Benchmarking](guide/benchmarking.md) says how to repeat it, \
         [Measuring](design/measuring.md) why it is done so.\n\n\
         - Date: {}\n- Machine: {}\n- Took: {} (announced: {})\n",
        data.date,
        results::machine(data),
        span(data.elapsed_seconds),
        span(data.planned_seconds),
    );
    let versions = data.peers.iter().filter_map(|peer| {
        Some(format!("{}: {}", peer.name, peer.version.as_deref()?.replace('\n', " ")))
    });
    let _ = writeln!(out, "- Versions: {}", versions.collect::<Vec<_>>().join("; "));
    let notes = results::notes(data);
    if !notes.is_empty() {
        out.push_str("\nBefore you read on:\n\n");
        for note in notes {
            let _ = writeln!(out, "- {note}");
        }
    }
    let _ = write!(
        out,
        "\n## Bars\n\nCPU per request of tidegate over that of the reference in this run, at 16, \
         100 and 512 connections of which the worst counts, one worker each, unless a row says \
         otherwise. A bar is met or missed \
         only when the whole interval lies on one side of it. Lower is better.\n\n{}\n\
         {NOTES_BEGIN}\n\n{}\n\n{NOTES_END}\n",
        results::of_bars(data, Room::Page).markdown(),
        before.and_then(notes_of).unwrap_or(NOTES_EMPTY),
    );
    out.push_str(
        "\n## Results\n\n`× floor` is the cost over that of a bare epoll loop; `rounds` the \
                  lowest and the highest round.\n",
    );
    for scenario in &data.scenarios {
        let table = results::of_scenario(data, &scenario.name, Room::Page);
        if !table.is_empty() {
            let (name, about) = (&scenario.name, &scenario.about);
            let _ = write!(out, "\n### {name}\n\n{about}\n\n{}", table.markdown());
        }
    }
    let ratios = results::ratios(data, Room::Page);
    if !ratios.is_empty() {
        let _ = write!(
            out,
            "\n## Tidegate and others\n\nCPU per request of tidegate over that of the other, with \
             the interval that holds it in 95 of 100 runs. `~`: no difference is seen; `?`: no \
             verdict, because rounds are too few or were disturbed. Lower is better.\n\n{}",
            ratios.markdown()
        );
    }
    out.push_str("\n## Commands\n\n```\n");
    for command in &data.commands {
        let line = command.line.replace(&format!("{}/", root.trim_end_matches('/')), "");
        let _ = writeln!(out, "# {}\n{line}", command.what);
    }
    out.push_str("```\n");
    out.push_str(
        "\nThe exact configuration of each server, with the page of its documentation next to each \
         setting: `tidegate bench --print-config NAME`, and `report.html` of the run.\n",
    );
    out
}

fn notes_of(page: &str) -> Option<&str> {
    let (_, after) = page.split_once(NOTES_BEGIN)?;
    let (notes, _) = after.split_once(NOTES_END)?;
    Some(notes.trim())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::{NOTES_BEGIN, NOTES_EMPTY, render};

    #[test]
    fn what_people_wrote_is_kept() {
        let data = sample::data();
        let first = render(&data, None, "/somewhere");
        assert!(first.contains(NOTES_EMPTY), "{first}");
        let edited = first.replace(NOTES_EMPTY, "## Why\n\nBecause of HAProxy.");
        let again = render(&data, Some(&edited), "/somewhere");
        assert_eq!(again, edited);
        assert_eq!(again.matches(NOTES_BEGIN).count(), 1);
    }

    #[test]
    fn the_page_says_where_when_and_how() {
        let mut data = sample::data();
        data.commands[0].line = "/somewhere/target/tidegate bench hello".to_owned();
        let page = render(&data, None, "/somewhere");
        let bar = "| gateway | haproxy | ≤ 0.65 | 0.927 |";
        for part in ["2026-11-20", "EPYC", "nginx: 1.22.1", "\ntarget/tidegate bench", bar] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
