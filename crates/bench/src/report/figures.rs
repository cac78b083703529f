//! Formats numbers: few digits, one unit per kind of figure, the same everywhere.

/// CPU per request: `5.93`, `41.2`, `329`.
pub(crate) fn us(us: f64) -> String {
    digits(us)
}

/// A latency: `0.084`, `1.27`, `20.4`.
pub(crate) fn ms(ms: f64) -> String {
    if ms > 0.0 && ms < 1.0 { format!("{ms:.3}") } else { digits(ms) }
}

/// Three digits or more, and no more behind the point than that takes.
fn digits(value: f64) -> String {
    match value {
        value if !value.is_finite() => "–".to_owned(),
        value if value < 10.0 => format!("{value:.2}"),
        value if value < 100.0 => format!("{value:.1}"),
        value => grouped(value),
    }
}

/// A whole number in groups of three: `125 370`. The space does not break.
pub(crate) fn grouped(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "-" } else { "" });
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{a0}');
        }
        out.push(digit);
    }
    out
}

/// A share: `3.1 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}\u{a0}%", share * 100.0)
}

/// A ratio: `0.873`.
pub(crate) fn ratio(ratio: f64) -> String {
    if ratio.is_finite() { format!("{ratio:.3}") } else { "–".to_owned() }
}

/// Memory or throughput, in the unit that leaves one to four digits: `12.4 MiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let places = usize::from(unit > 0 && value < 100.0);
    format!("{value:.places$}\u{a0}{}", UNITS[unit])
}

/// A duration: `48 s`, `4 min 10 s`.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 60, whole % 60) {
        (0, seconds) => format!("{seconds}\u{a0}s"),
        (minutes, 0) => format!("{minutes}\u{a0}min"),
        (minutes, seconds) => format!("{minutes}\u{a0}min {seconds}\u{a0}s"),
    }
}

/// `1 request`, `2 requests`.
pub(crate) fn count(number: u64, one: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{}\u{a0}{one}{ending}", grouped(number as f64))
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, grouped, ms, percent, span, us};

    fn plain(text: String) -> String {
        text.replace('\u{a0}', " ")
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!([us(5.934), us(41.25), us(328.7)], ["5.93", "41.2", "329"]);
        assert_eq!([ms(0.0842), ms(1.267), ms(1043.3)].map(plain), ["0.084", "1.27", "1 043"]);
        assert_eq!(us(f64::NAN), "–");
    }

    #[test]
    fn whole_numbers_stand_in_groups() {
        let written = [0.0, 999.0, 1000.0, 125_370.4, 1_234_567.0].map(|n| plain(grouped(n)));
        assert_eq!(written, ["0", "999", "1 000", "125 370", "1 234 567"]);
        assert_eq!(plain(count(1, "error")), "1 error");
        assert_eq!(plain(count(2000, "error")), "2 000 errors");
    }

    #[test]
    fn units_are_chosen() {
        let written = [512.0, 1536.0, 13_002_342.0, 110.0 * 1024.0 * 1024.0];
        assert_eq!(written.map(|n| plain(bytes(n))), ["512 B", "1.5 KiB", "12.4 MiB", "110 MiB"]);
        assert_eq!([12.4, 60.0, 250.0].map(|n| plain(span(n))), ["12 s", "1 min", "4 min 10 s"]);
        assert_eq!(plain(percent(0.0312)), "3.1 %");
    }
}
