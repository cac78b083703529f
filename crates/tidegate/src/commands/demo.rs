//! `tidegate demo`: everything at once, without a file.

use std::net::IpAddr;

use config::TextSource;

use crate::demo::Addresses;
use crate::failure::Failure;
use crate::output::{columns, print};
use crate::serving::{ServingOptions, serve};

const EXAMPLES: &str = "\
Where an address is taken a free one is used, and said so.

Examples:
  tidegate demo
  tidegate demo --port 0          all on free ports
  tidegate demo --print-config    the configuration of the demo, to change and serve with `up`";

/// Start everything at once on local ports, without any file, and say what to try
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// The address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind: IpAddr,

    /// The port of the gateway; 0 takes free ones for everything
    #[arg(long, value_name = "PORT", default_value_t = crate::demo::GATEWAY_PORT)]
    port: u16,

    /// Print the configuration and end
    #[arg(long)]
    print_config: bool,

    #[command(flatten)]
    serving: ServingOptions,
}

impl Demo {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.print_config {
            return print(&Addresses::wanted(self.bind, self.port).configuration(&program()));
        }
        let addresses = Addresses::choose(self.bind, self.port)?;
        let text = addresses.configuration(&program());
        serve(TextSource::new("tidegate demo", &text), self.serving, move |_| greeting(&addresses))
    }
}

/// How the reader started us, to be typed again in a shell.
fn program() -> String {
    let typed = std::env::args().next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match typed.is_empty() || !typed.chars().all(plain) {
        true => "tidegate".to_owned(),
        false => typed,
    }
}

fn greeting(addresses: &Addresses) -> String {
    let Addresses { gateway, backend, admin, moved } = addresses;
    let row = |what: &str, url: String, meaning: &str| [what.to_owned(), url, meaning.to_owned()];
    let table = columns(
        &[
            row("start here", format!("http://{gateway}/"), "what is running and what to try"),
            row("gateway", format!("http://{gateway}/api/hello"), "a route to the mock backend"),
            row("mock backend", format!("http://{backend}/"), "2 KiB after 20 ms"),
            row("metrics", format!("http://{admin}/metrics"), "for Prometheus"),
        ],
        2,
    );
    let mut said = format!("The demo runs until Ctrl-C.\n\n{table}\n");
    for sentence in moved {
        said.push_str(&format!("  {sentence}\n"));
    }
    if !moved.is_empty() {
        said.push('\n');
    }
    said.push_str(&format!(
        "  curl -i http://{gateway}/api/hello\n  \
         curl -i http://{gateway}/private/hello -H 'x-api-key: demo-key'\n"
    ));
    said
}

#[cfg(test)]
mod tests {
    use super::greeting;
    use crate::demo::Addresses;

    #[test]
    fn the_greeting_has_every_address_and_what_was_moved() {
        let at = |port: u16| ([127, 0, 0, 1], port).into();
        let moved = vec!["127.0.0.1:8080 is taken".to_owned()];
        let said = greeting(&Addresses { gateway: at(1), backend: at(2), admin: at(3), moved });
        for part in ["127.0.0.1:1/", "127.0.0.1:2/", "127.0.0.1:3/metrics", "8080 is taken"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
