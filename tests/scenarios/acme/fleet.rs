//! Servers whose configuration is in etcd share accounts, certificates and challenges there.

use std::net::TcpStream;
use std::process::Command;

use scenarios::{
    Authority, Launch, Process, Tidegate, command_exists, eventually, free_port, tidegate_binary,
};

use super::{ISSUED, ORDERS, Site, first_certificate, pebble, presented, stored};

/// etcd with the configuration of a site.
struct Etcd {
    _process: Process,
    url: String,
}

impl Etcd {
    fn start(site: &Site) -> Etcd {
        let (port, peer) = (free_port(), free_port());
        let client = format!("http://127.0.0.1:{port}");
        let peer = format!("http://127.0.0.1:{peer}");
        let mut command = Command::new("etcd");
        command.args(["--name=one", "--log-level=error"]);
        command.arg(format!("--data-dir={}", site.path("etcd").display()));
        command.arg(format!("--listen-client-urls={client}"));
        command.arg(format!("--advertise-client-urls={client}"));
        command.arg(format!("--listen-peer-urls={peer}"));
        command.arg(format!("--initial-advertise-peer-urls={peer}"));
        command.arg(format!("--initial-cluster=one={peer}"));
        let _process = Process::start(&mut command);
        eventually("etcd accepts connections", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Etcd { _process, url: format!("etcd://127.0.0.1:{port}/shop") }
    }

    fn apply(&self, site: &Site) {
        let config = format!(
            r#"
workers: 1
listeners:
  plain: {{ bind: "127.0.0.1:${{PLAIN}}" }}
  secure:
    bind: "127.0.0.1:0"
    tls:
      acme:
        {{ domains: [a.test], email: ops@a.test, directory: "https://127.0.0.1:{}/dir",
          ca: "${{CA}}", storage: "${{STORAGE}}", challenge: http-01 }}
admin: {{ bind: "127.0.0.1:0" }}
routes: [{{ handler: {{ respond: {{ body: hello }} }} }}]
"#,
            site.ports["ca"]
        );
        std::fs::write(site.path("site.yaml"), config).expect("a file");
        // etcd accepts connections before it responds to requests.
        eventually("the configuration is applied", || {
            let mut command = Command::new(tidegate_binary());
            command.args(["ctl", "apply"]).arg(site.path("site.yaml")).args(["--etcd", &self.url]);
            Process::run(&mut command).code == Some(0)
        });
    }

    /// Starts a server with an empty storage, which trusts this authority.
    fn node(&self, name: &str, plain: u16, authority: &Authority) -> Tidegate {
        let launch = Launch::new("").command(&["up", &self.url]).file("ca.pem", authority.pem());
        let path = |name: &str| launch.path(name).display().to_string();
        let (ca, storage, state) = (path("ca.pem"), path("state"), path("copy"));
        launch
            .argument(&format!("--node={name}"))
            .argument(&format!("--state-dir={state}"))
            .environment("PLAIN", &plain.to_string())
            .environment("CA", &ca)
            .environment("STORAGE", &storage)
            .start()
    }
}

fn orders(server: &Tidegate) -> f64 {
    server.metrics().sum(ORDERS, &ISSUED)
}

#[test]
fn servers_with_one_etcd_share_a_certificate_and_its_challenges() {
    let Some(program) = pebble() else { return };
    if !command_exists("etcd") {
        return;
    }
    let site = Site::new();
    let authority = site.pebble(&program, 60 * 60 * 24 * 90);
    let etcd = Etcd::start(&site);
    etcd.apply(&site);
    // The first one is where the authority looks, and cannot order anything: it trusts another CA.
    let stranger = Authority::new();
    let first = etcd.node("n1", site.ports["http"], &stranger);
    first.wait_for_log("event=acme_failed");
    // So the second one orders, and the first one proves its name.
    let second = etcd.node("n2", free_port(), &site.authority);
    let issued = first_certificate(&second);
    first.wait_for_log("event=acme_received");
    eventually("the same certificate is presented", || {
        presented(&first, "a.test").as_ref() == Some(&issued)
    });
    assert_eq!((orders(&first), orders(&second)), (0.0, 1.0));
    // A new server needs no authority.
    drop(authority);
    let third = etcd.node("n3", free_port(), &site.authority);
    eventually("a new server presents it", || {
        presented(&third, "a.test").as_ref() == Some(&issued)
    });
    assert_eq!(orders(&third), 0.0);
    assert_eq!(stored(&third).len(), 2, "the account and the certificate");
}
