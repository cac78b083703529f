//! The figures of five published pages, and the conditions of each.
//!
//! Facts only. An absolute figure is not comparable between machines, so these figures are shown
//! next to the measured ones under the label `LABEL`, and no value is computed from both.

/// Stands above every one of these tables.
pub const LABEL: &str = "their machine, their figure";

/// One ranking of one page.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// The scenario that replays it, as in `data::Scenario::replays`.
    pub scenario: &'static str,
    pub title: &'static str,
    /// Tool, run and machine, as the page names them.
    pub setting: &'static str,
    /// What its set-up hides or favours.
    pub trap: &'static str,
    pub columns: &'static [&'static str],
    pub rows: &'static [&'static [&'static str]],
}

/// The tables of a scenario.
pub fn of(scenario: &str) -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(move |table| table.scenario == scenario)
}

pub const TABLES: &[Table] = &[
    Table {
        scenario: "ping",
        title: "Silly: redis-benchmark against a Lua program",
        setting: "redis-benchmark -t ping -c 100 -n 100000; i7-10700, 2.9 GHz",
        trap: "A run of 0.4 s, and a client with one thread near its own ceiling: differences \
               between servers are compressed.",
        columns: &["server", "kind", "req/s", "avg ms", "p50", "p95", "p99", "max"],
        rows: &[
            &["Silly", "inline", "235 849", "0.230", "0.223", "0.279", "0.367", "1.527"],
            &["Silly", "multi-bulk", "224 719", "0.241", "0.231", "0.335", "0.479", "0.887"],
        ],
    },
    Table {
        scenario: "ping",
        title: "Z.Haskell: redis-benchmark against small servers",
        setting: "redis-benchmark -t ping; machine not named",
        trap: "These servers answer once per newline, so that one multi-bulk request is counted \
               as three replies.",
        columns: &["server", "inline req/s", "multi-bulk req/s"],
        rows: &[
            &["Rust mio, one loop", "111 732", "112 613"],
            &["C libuv, one loop", "109 170", "105 374"],
            &["Z-IO, 4 threads", "99 800", "102 459"],
            &["Go standard library", "98 717", "101 523"],
            &["Haskell network, 4 threads", "88 106", "87 873"],
        ],
    },
    Table {
        scenario: "json",
        title: "Z.Haskell: Z-Data against aeson",
        setting: "the usual documents, typed and untyped; a laptop of 2020",
        trap: "Ratios over one other library of the same language: 94–249 MB/s in all.",
        columns: &["direction", "times aeson"],
        rows: &[&["encode", "1.4–1.9"], &["decode", "2.7–3.3"]],
    },
    Table {
        scenario: "hello",
        title: "LiteFS: hello world of Python servers",
        setting: "wrk, 10 s each, 1 and 6 processes, 500 and 1000 connections; i7-1355U, \
                  Python 3.10.9",
        trap: "LiteFS closes the connection after every response, so half of what is measured is \
               connecting.",
        columns: &["server", "processes", "conn", "req/s", "p99 ms"],
        rows: &[
            &["LiteFS native (epoll + greenlet)", "6", "1000", "15 687", "159"],
            &["LiteFS native (epoll + greenlet)", "6", "500", "14 922", "92"],
            &["LiteFS WSGI on gunicorn (gevent)", "6", "500", "14 026", "1 380"],
            &["LiteFS WSGI on gunicorn (gevent)", "6", "1000", "13 239", "1 530"],
            &["LiteFS ASGI on uvicorn", "6", "1000", "11 634", "179"],
            &["FastAPI on uvicorn", "6", "1000", "10 499", "170"],
            &["LiteFS ASGI on uvicorn", "6", "500", "9 589", "75"],
            &["FastAPI on uvicorn", "6", "500", "9 316", "92"],
            &["LiteFS native (epoll + greenlet)", "1", "500", "8 077", "121"],
            &["LiteFS WSGI on gunicorn (gevent)", "1", "1000", "6 839", "1 770"],
            &["LiteFS native (epoll + greenlet)", "1", "1000", "6 669", "304"],
            &["LiteFS WSGI on gunicorn (gevent)", "1", "500", "6 176", "1 460"],
            &["LiteFS ASGI on uvicorn", "1", "1000", "5 023", "250"],
            &["FastAPI on uvicorn", "1", "500", "4 858", "158"],
            &["FastAPI on uvicorn", "1", "1000", "4 804", "265"],
            &["LiteFS ASGI on uvicorn", "1", "500", "4 795", "230"],
        ],
    },
    Table {
        scenario: "gateway",
        title: "Apache ShenYu 2.6.0: a gateway before a mock backend",
        setting: "wrk 4.2.0, 3 minutes each, about 2 KB after 20 ms on average; 4 cores, 8 \
                  threads, 3.0 GHz, 16 GB, backend on another machine; JDK 8",
        trap: "keepAlive is off between gateway and backend: every request reconnects, and that \
               is what the page measures.",
        columns: &["path", "conn", "req/s", "p50 ms", "p90", "p99", "mean", "max"],
        rows: &[
            &["straight to the backend", "–", "28 998", "19.81", "28.26", "41.24", "20.92", "403"],
            &["netty client", "1200", "21 130", "32.45", "52.68", "96.10", "35.06", "1070"],
            &["netty client", "1000", "20 980", "29.21", "47.23", "80.91", "31.20", "861"],
            &["netty client", "800", "20 704", "23.57", "40.11", "77.28", "26.11", "576"],
            &["netty client", "600", "20 473", "19.37", "32.89", "69.92", "22.09", "1043"],
            &["webClient", "1200", "18 965", "22.10", "54.48", "122.31", "28.66", "1075"],
            &["webClient", "1000", "18 929", "19.99", "49.09", "108.84", "25.93", "1040"],
            &["webClient", "800", "18 723", "18.12", "44.96", "95.30", "23.52", "765"],
            &["webClient", "600", "18 640", "15.77", "38.26", "80.31", "20.32", "852"],
        ],
    },
    Table {
        scenario: "cache",
        title: "Pike: a cached document of about 140 KB",
        setting: "wrk -c1000 -t10 -d1m on the same machine, 8 cores, 8 GB",
        trap: "A client that accepts no coding makes Pike gunzip on every hit: 2 105 time-outs.",
        columns: &["client accepts", "req/s", "bytes/s", "p50 ms", "p75", "p90", "p99"],
        rows: &[
            &["br", "74 004", "0.91 GB", "11.69", "15.60", "23.15", "53.68"],
            &["gzip", "73 029", "1.03 GB", "11.77", "15.84", "23.45", "54.41"],
            &["nothing", "5 322", "0.80 GB", "76", "570", "906", "1570"],
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::TABLES;

    #[test]
    fn rows_have_their_columns() {
        for table in TABLES {
            assert!(!table.rows.is_empty(), "{}", table.title);
            for row in table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}: {row:?}", table.title);
            }
        }
    }

    #[test]
    fn figures_are_numbers() {
        let figures = TABLES.iter().flat_map(|table| table.rows).flat_map(|row| row.iter().skip(2));
        for figure in figures {
            assert!(figure.chars().any(|c| c.is_ascii_digit()) || *figure == "–", "{figure}");
        }
    }
}
