//! `tidegate proxy FROM TO`: a reverse proxy in one line, without a configuration.

use config::TextSource;
use serde_json::{Value, json};
use server::Bound;
use settings::{Address, Host, Size};
use upstream::ServerAddress;

use crate::failure::Failure;
use crate::serving::{ServingOptions, TlsOptions, serve, url};

/// The default memory of the cache.
const CACHE_MEMORY: Size = Size::from_bytes(256 << 20);

const EXAMPLES: &str = "\
Requests are forwarded with X-Forwarded-For, -Proto and -Host; WebSocket passes through.
A certificate of an https server is verified against the authorities of the system.
With --cache, responses that the server allows to be stored are stored in memory and served in gzip,
br or zstd as clients prefer; concurrent requests for a missing one cause one request to the server.
Responses without a lifetime are not stored. `tidegate ctl purge pages --all` empties the cache.
For several servers, health checks, routes or filters, write a configuration: see
examples/gateway.yaml.

Examples:
  tidegate proxy :8080 http://127.0.0.1:3000 --cache
  tidegate proxy 127.0.0.1:8080 http://app.internal
  tidegate proxy :8080 https://app.example.com
  tidegate proxy :8080 unix:/run/app.sock
  tidegate proxy :443 http://127.0.0.1:3000 --cert site.pem --key site.key
  tidegate proxy :8443 http://127.0.0.1:3000 --dev-tls";

/// Forward all requests from one address to a server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Proxy {
    /// The address to listen on: 127.0.0.1:8080, :8080 for all addresses, or unix:/path
    #[arg(value_parser = super::address)]
    from: Address,

    /// The server: http://HOST[:PORT], https://HOST[:PORT], HOST:PORT or unix:/path
    #[arg(value_parser = target)]
    to: ServerAddress,

    /// Enable RFC 9111 caching in memory
    #[arg(long)]
    cache: bool,

    /// The memory of the cache [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "cache")]
    cache_memory: Option<Size>,

    #[command(flatten)]
    tls: TlsOptions,

    #[command(flatten)]
    serving: ServingOptions,
}

impl Proxy {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let to = self.to.to_string();
        let memory = self.cache.then(|| self.cache_memory.unwrap_or(CACHE_MEMORY));
        let mut configuration = configuration(&self.from, &self.to, memory);
        self.tls.add_to(&mut configuration["listeners"]["proxy"])?;
        let scheme = self.tls.scheme();
        let told = move |bound: &[Bound]| format!("{} -> {to}\n", url(bound, "proxy", scheme));
        let text = configuration.to_string();
        serve(TextSource::new("tidegate proxy", &text), self.serving, told)
    }
}

/// Parses the size of a cache; the error is a complete sentence.
fn size(typed: &str) -> Result<Size, String> {
    let size: Size = typed.parse().map_err(|why| format!("\"{typed}\" {why}"))?;
    match size.bytes() {
        1_048_576..=17_592_186_044_416 => Ok(size),
        _ => Err(format!("\"{typed}\" is not between 1MiB and 16TiB")),
    }
}

/// Parses a server; the error is a complete sentence.
fn target(typed: &str) -> Result<ServerAddress, String> {
    typed.parse().map_err(|why| format!("\"{typed}\" {why}"))
}

/// Returns the configuration as JSON, which is YAML.
fn configuration(from: &Address, to: &ServerAddress, cache: Option<Size>) -> Value {
    // A server with a name usually serves several, and knows its own. One at a bare address is most
    // often the application itself, which builds its links from what the client said.
    let named =
        matches!(&to.address, Address::Tcp { host: Host::Name(name), .. } if name != "localhost");
    let mut configuration = json!({
        // One open route: there is no protected prefix that an encoded slash could lead around.
        "listeners": { "proxy": { "bind": from.to_string(), "encoded_slashes": "keep" } },
        "upstreams": { "target": {
            "servers": [super::literal(&to.to_string())],
            "host": if named { "server" } else { "preserve" },
        } },
        "routes": [{
            "name": "proxy",
            "match": { "path": "/{*rest}" },
            "handler": { "upstream": "target" },
        }],
    });
    if let Some(memory) = cache {
        configuration["caches"] = json!({ "pages": { "memory": memory.to_string() } });
        // A short outage of an origin goes unnoticed.
        configuration["routes"][0]["filters"] = json!([{ "cache": {
            "store": "pages",
            "stale": { "while_revalidate": "10s", "if_error": "1h" },
        } }]);
    }
    configuration
}

#[cfg(test)]
mod tests {
    use super::{configuration, target};
    use crate::commands::errors;

    #[test]
    fn targets() {
        let reads = |typed: &str| target(typed).map(|address| address.to_string());
        assert_eq!(reads("http://127.0.0.1:3000").as_deref(), Ok("127.0.0.1:3000"));
        assert_eq!(reads("HTTP://App.Internal/").as_deref(), Ok("app.internal:80"));
        assert_eq!(reads("http://[::1]").as_deref(), Ok("[::1]:80"));
        assert_eq!(reads("https://App.Internal/").as_deref(), Ok("https://app.internal"));
        assert_eq!(reads("127.0.0.1:3000").as_deref(), Ok("127.0.0.1:3000"));
        assert_eq!(reads("unix:/run/App.sock").as_deref(), Ok("unix:/run/App.sock"));
        for (typed, why) in [
            ("https://a/api", "more than a host and a port"),
            ("http://me@a", "more than a host and a port"),
            ("http://a:x", "port"),
            ("ftp://a", "scheme"),
            ("a", "no port"),
        ] {
            let error = reads(typed).unwrap_err();
            assert!(error.contains(why), "{typed}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_right() {
        let servers = ["http://127.0.0.1:3000", "https://app.internal", "unix:/run/a b.sock"];
        for to in servers {
            for cache in [None, Some(super::CACHE_MEMORY)] {
                let text = configuration(&":0".parse().unwrap(), &target(to).unwrap(), cache);
                assert_eq!(errors(&text.to_string()), "");
            }
        }
    }
}
