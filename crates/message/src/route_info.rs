//! What an exchange knows of its route: name, bounds, log and metrics, without the filters.

use std::sync::Arc;
use std::time::Duration;

use settings::LogTemplate;
use telemetry::RouteMetrics;

/// The facts of a route that outlive its run: for limits, log and metrics.
#[derive(Debug, Default)]
pub struct RouteInfo {
    pub name: Box<str>,
    /// `None` if the bounds of the listener apply.
    pub bounds: Option<Box<RouteBounds>>,
    pub metrics: Arc<RouteMetrics>,
    /// How its requests are logged, where that differs from the access log's settings.
    pub log: Option<Arc<RouteLog>>,
}

/// The lines of one route in the access log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouteLog {
    /// Replaces the format of the log.
    pub format: Option<LineFormat>,
    /// Replaces the share of requests that is logged, from 0 to 1.
    pub sample: Option<f64>,
    /// Further members of lines in JSON, with their names.
    pub fields: Vec<(String, Arc<LogTemplate>)>,
}

/// The shape of a line of the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineFormat {
    Json,
    Combined,
    Template(Arc<LogTemplate>),
}

/// Bounds of one exchange: its listener's, unless its route has its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Longest request body in bytes.
    pub body: u64,
    /// How slowly a request body may arrive.
    pub body_timeout: TransferTimeout,
    /// Longest time from the end of a request's head to the end of its body.
    pub body_total: Option<Duration>,
    /// How slowly a response may be taken.
    pub write_timeout: TransferTimeout,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            body: 64 * 1024 * 1024,
            body_timeout: TransferTimeout { pause: Duration::from_secs(30), rate: 240 },
            body_total: None,
            write_timeout: TransferTimeout { pause: Duration::from_secs(30), rate: 240 },
        }
    }
}

/// Bounds of a route that replace those of its listener.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RouteBounds {
    pub body: Option<u64>,
    pub body_pause: Option<Duration>,
    pub body_rate: Option<u64>,
    pub body_total: Option<Duration>,
    pub write_pause: Option<Duration>,
    pub write_rate: Option<u64>,
    /// Longest time of a gRPC call.
    pub call: Option<Duration>,
}

impl RouteBounds {
    /// The bounds as a route has them: `None` if all are those of its listener, as of most routes.
    pub fn boxed(self) -> Option<Box<RouteBounds>> {
        (self != RouteBounds::default()).then(|| Box::new(self))
    }

    /// The bounds of an exchange on this route.
    pub fn over(self, listener: Bounds) -> Bounds {
        Bounds {
            body: self.body.unwrap_or(listener.body),
            body_timeout: listener.body_timeout.with(self.body_pause, self.body_rate),
            body_total: self.body_total.or(listener.body_total),
            write_timeout: listener.write_timeout.with(self.write_pause, self.write_rate),
        }
    }
}

/// How slow a client may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferTimeout {
    /// Longest pause.
    pub pause: Duration,
    /// Bytes a second, on average over the longest pause; 0 means no minimum.
    pub rate: u64,
}

impl TransferTimeout {
    /// This time-out with the values that are given.
    fn with(self, pause: Option<Duration>, rate: Option<u64>) -> TransferTimeout {
        TransferTimeout { pause: pause.unwrap_or(self.pause), rate: rate.unwrap_or(self.rate) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bounds_of_its_own_are_stored_with_a_route() {
        assert_eq!(RouteBounds::default().boxed(), None);
        let own = RouteBounds { body: Some(3), ..RouteBounds::default() };
        let listener = Bounds::default();
        let bounds = own.boxed().map(|bounds| bounds.over(listener));
        assert_eq!(bounds, Some(Bounds { body: 3, ..listener }));
    }
}
