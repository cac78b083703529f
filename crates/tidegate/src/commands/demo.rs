//! `tidegate demo`: all parts of the server at once, without a configuration.

use std::net::IpAddr;
use std::path::Path;

use config::FileSource;

use crate::demo::{Addresses, Directory};
use crate::failure::Failure;
use crate::host::Host;
use crate::output::{columns, print_bytes};
use crate::serving::{ServingOptions, serve};

const EXAMPLES: &str = "\
If an address is taken, a free one is used and printed.

Examples:
  tidegate demo
  tidegate demo --port 0          all on free ports
  tidegate demo --print-config    the configuration without its programs, for `up`";

/// Start a demo on local ports: gateway, mock backend, cache, programs, metrics, and a page to try
/// them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind: IpAddr,

    /// The port of the gateway; 0 chooses free ports for all listeners
    #[arg(long, value_name = "PORT", default_value_t = crate::demo::GATEWAY_PORT)]
    port: u16,

    /// Print the configuration and exit
    #[arg(long)]
    print_config: bool,

    #[command(flatten)]
    serving: ServingOptions,
}

impl Demo {
    pub(crate) fn run(self, host: &Host) -> Result<(), Failure> {
        if self.print_config {
            let addresses = Addresses::wanted(self.bind, self.port);
            return print_bytes(addresses.configuration(&program()).as_bytes());
        }
        let addresses = Addresses::choose(self.bind, self.port)?;
        let python = host.python.as_deref().and_then(<[_]>::first).map(Path::new);
        let directory = Directory::create(&addresses, &program(), python)?;
        let greeting = greeting(&addresses, &directory);
        serve(FileSource::new(directory.configuration()), self.serving, move |_| greeting)
    }
}

/// Returns the command that started this process, as a shell takes it.
fn program() -> String {
    let typed = std::env::args().next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match typed.is_empty() || !typed.chars().all(plain) {
        true => "tidegate".to_owned(),
        false => typed,
    }
}

fn greeting(addresses: &Addresses, directory: &Directory) -> String {
    let Addresses { gateway, backend, admin, ping, moved } = addresses;
    let row = |what: &str, url: String, meaning: &str| [what.to_owned(), url, meaning.to_owned()];
    let table = columns(
        &[
            row("start here", format!("http://{gateway}/"), "what is running and what to try"),
            row("gateway", format!("http://{gateway}/api/hello"), "a route to the mock backend"),
            row("mock backend", format!("http://{backend}/"), "2 KiB after 20 ms"),
            row(
                "console",
                format!("http://{admin}/console/#token={}", directory.token()),
                "traffic, routes, health, changes; the link logs in",
            ),
            row("metrics", format!("http://{admin}/metrics"), "for Prometheus"),
            row("PING program", ping.to_string(), "in Lua, for redis-cli"),
            row("files", directory.path().display().to_string(), "change one: it is used at once"),
        ],
        2,
    );
    let mut text = format!("The demo runs until Ctrl-C.\n\n{table}\n");
    for sentence in moved {
        text.push_str(&format!("  {sentence}\n"));
    }
    if !moved.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!(
        "  curl -i http://{gateway}/api/hello\n  \
         curl -i http://{gateway}/private/hello -H 'x-api-key: demo-key'\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::greeting;
    use crate::demo::{Addresses, Directory};

    #[test]
    fn the_greeting_has_every_address_and_every_replacement() {
        let at = |port: u16| ([127, 0, 0, 1], port).into();
        let moved = vec!["127.0.0.1:8080 is taken".to_owned()];
        let (gateway, backend, admin, ping) = (at(1), at(2), at(3), at(4));
        let addresses = Addresses { gateway, backend, admin, ping, moved };
        let directory = Directory::create(&addresses, "tidegate", None).unwrap();
        let text = greeting(&addresses, &directory);
        let path = directory.path().display().to_string();
        let console = format!("127.0.0.1:3/console/#token={}", directory.token());
        let parts = [
            console.as_str(),
            "127.0.0.1:1/",
            "127.0.0.1:2/",
            "127.0.0.1:3/metrics",
            "127.0.0.1:4",
            "8080 is taken",
            &path,
        ];
        for part in parts {
            assert!(text.contains(part), "{text}");
        }
    }
}
