//! The final tables of a run, for the terminal.

use std::fmt::Write as _;

use super::data::Data;
use super::figures::span;
use super::results::{self, Room};

/// Everything a run found, as text.
pub fn render(data: &Data) -> String {
    let mut out = format!("{}\n", results::machine(data));
    for scenario in &data.scenarios {
        let table = results::of_scenario(data, &scenario.name, Room::Terminal);
        if !table.is_empty() {
            let _ = write!(out, "\n{}: {}\n{}", scenario.name, scenario.about, table.text());
        }
    }
    let ratios = results::ratios(data, Room::Terminal);
    if !ratios.is_empty() {
        let _ = write!(
            out,
            "\nCPU of tidegate ÷ CPU of the other (~: no difference seen, ?: no verdict; \
             against: round by round, with the 95 % interval)\n{}",
            ratios.text()
        );
    }
    let bars = results::of_bars(data, Room::Terminal);
    if !bars.is_empty() {
        let _ = write!(
            out,
            "\nBars: CPU of tidegate, the worst of 16, 100 and 512 connections unless a row says \
             so; lower is better\n{}",
            bars.text()
        );
    }
    let notes = results::notes(data);
    if !notes.is_empty() {
        let _ = write!(out, "\n{}\n", notes.join("\n"));
    }
    let (took, said) = (span(data.elapsed_seconds), span(data.planned_seconds));
    let _ = writeln!(out, "\nTook {took} of {said}.");
    out
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::render;

    #[test]
    fn a_run_in_the_terminal() {
        let text = render(&sample::data()).replace('\u{a0}', " ");
        let at = text.find("conn  server    µs CPU").expect("the table of gateway");
        let golden = [
            "conn  server    µs CPU     rounds  × floor   req/s  p50 ms    p99  p99.9      RSS  er",
            "   1  floor       26.9  26.8–27.0     1.00  22 321   0.045  0.085  0.134  9.0 MiB    ",
        ];
        for (line, golden) in text[at..].lines().zip(golden) {
            assert!(line.starts_with(golden), "{text}");
        }
        let expected = "\ngateway    100  1.241  0.863    0.927\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.ends_with("\nTook 3 min 16 s of 3 min 20 s.\n"), "{text}");
    }
}
