//! The reference pages that are generated from tables: metrics, reasons, endpoints.

use crate::endpoints::ENDPOINTS;
use std::fmt::Write;
use telemetry::histogram::BOUNDS_US;
use telemetry::limits::{ROUTES, SERIES_PER_FAMILY};
use telemetry::{CloseReason, LimitHit, families};

/// The page of all metrics, as Markdown.
pub fn metrics_markdown() -> String {
    let mut out = format!(
        "# Metrics\n\nEverything `/metrics` exports, in the order it stands there. Counters start \
         at 0 with the process; a series appears once there is something to count. A family has at \
         most {SERIES_PER_FAMILY} label sets, and requests are counted for at most {ROUTES} \
         routes; what comes past that is added up under `other`.\n\n\
         | name | type | unit | labels | meaning |\n|---|---|---|---|---|\n",
    );
    for family in families::ALL {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, unit) = (family.name, family.kind.token(), family.unit.token());
        row(&mut out, &[&format!("`{name}`"), kind, unit, &labels.join(", "), family.help]);
    }
    let bounds: Vec<String> = BOUNDS_US.iter().map(|us| human(*us)).collect();
    out.push_str("\nHistograms have buckets up to ");
    out.push_str(&bounds.join(", "));
    out.push_str(
        ".\n\n## Why connections end\n\n`reason` and `fault` of \
         `tidegate_connections_closed_total`.\n\n\
         | reason | fault | meaning |\n|---|---|---|\n",
    );
    for reason in CloseReason::ALL {
        let slug = format!("`{}`", reason.slug());
        row(&mut out, &[&slug, reason.severity().slug(), reason.text()]);
    }
    out.push_str(
        "\n## Limits\n\n`limit` of `tidegate_limits_hit_total`.\n\n\
         | limit | meaning |\n|---|---|\n",
    );
    for limit in LimitHit::ALL {
        row(&mut out, &[&format!("`{}`", limit.slug()), limit.text()]);
    }
    out
}

/// The page of all endpoints, as Markdown.
pub fn endpoints_markdown() -> String {
    let mut out = String::from(
        "# Admin API\n\nServed on `admin.bind` and on the Unix socket of the running server. \
         Errors are `application/problem+json`: `detail` says what is wrong, `advice` what to \
         do.\n\n\
         The access is the role that a token needs, see \
         [`admin.tokens`](configuration.md#admin): `write` includes `read` and `purge`, and `all` \
         includes everything. `admin.token` and the Unix socket have the role `all`. Each change \
         is logged as `event=admin_change` with the name of the token.\n\n\
         | endpoint | access | meaning |\n|---|---|---|\n",
    );
    for endpoint in ENDPOINTS {
        let access = endpoint.guard.text();
        let mut name = format!("`{} {}", endpoint.method, endpoint.path);
        for parameter in endpoint.query {
            // Writing to a String does not fail.
            let _ = write!(name, "[?{parameter}]");
        }
        name.push('`');
        row(&mut out, &[&name, access, endpoint.text]);
    }
    out
}

fn row(out: &mut String, cells: &[&str]) {
    for cell in cells {
        out.push_str("| ");
        out.push_str(&cell.replace('|', "\\|"));
        out.push(' ');
    }
    out.push_str("|\n");
}

fn human(us: u64) -> String {
    match us {
        1_000_000.. => format!("{} s", us / 1_000_000),
        1_000.. => format!("{} ms", us / 1_000),
        _ => format!("{us} µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::{endpoints_markdown, metrics_markdown};
    use telemetry::{CloseReason, families};

    #[test]
    fn every_family_and_reason_has_its_row() {
        let page = metrics_markdown();
        for family in families::ALL {
            assert!(page.contains(&format!("| `{}` |", family.name)));
        }
        for reason in CloseReason::ALL {
            assert!(page.contains(&format!("| `{}` |", reason.slug())));
        }
        assert!(page.contains("100 µs, 200 µs, 500 µs, 1 ms"));
    }

    #[test]
    fn tables_are_well_formed() {
        for page in [metrics_markdown(), endpoints_markdown()] {
            let mut columns = None;
            for line in page.lines() {
                if !line.starts_with('|') {
                    columns = None;
                    continue;
                }
                let found = line.replace("\\|", "").matches('|').count();
                assert_eq!(found, *columns.get_or_insert(found), "{line}");
            }
        }
        assert!(endpoints_markdown().contains("`POST /v1/reload[?wait]`"));
    }
}
