//! What `tidegate demo` serves: free addresses, the configuration, and the page that says what to
//! try.
//!
//! Never does: starting it (that is the command).

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use net::{Bind, ListenOptions, Listening};

use crate::failure::Failure;

const CONFIGURATION: &str = include_str!("demo/tidegate.yaml");
const PAGE: &str = include_str!("demo/page.html");

/// The ports that the demo would like.
pub(crate) const GATEWAY_PORT: u16 = 8080;
const BACKEND_PORT: u16 = 9001;
const ADMIN_PORT: u16 = 9180;

/// Where the demo listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) gateway: SocketAddr,
    pub(crate) backend: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// Addresses that others had, each with what is used instead, in a sentence.
    pub(crate) moved: Vec<String>,
}

impl Addresses {
    /// The ports the demo would like, or free ones where those are taken; free ones all with port
    /// 0.
    pub(crate) fn choose(ip: IpAddr, port: u16) -> Result<Self, Failure> {
        // All are held until the last is found, or the same free port would be found twice.
        let mut held = Vec::new();
        let mut moved = Vec::new();
        let mut next = |name: &str, port: u16| {
            let wanted = SocketAddr::new(ip, port);
            let address = free(wanted, &mut held)?;
            if port != 0 && address != wanted {
                moved.push(format!("{wanted} is taken: {name} is on {address} instead"));
            }
            Ok::<_, Failure>(address)
        };
        let any = port == 0;
        let gateway = next("the gateway", port)?;
        let backend = next("the mock backend", if any { 0 } else { BACKEND_PORT })?;
        let admin = next("the admin API", if any { 0 } else { ADMIN_PORT })?;
        Ok(Addresses { gateway, backend, admin, moved })
    }

    /// The ports the demo would like, whoever has them.
    pub(crate) fn wanted(ip: IpAddr, port: u16) -> Self {
        let at = |port| SocketAddr::new(ip, port);
        let (gateway, backend, admin) = (at(port), at(BACKEND_PORT), at(ADMIN_PORT));
        Addresses { gateway, backend, admin, moved: Vec::new() }
    }

    /// The configuration that the demo serves, with the page in it. `program` is how the reader
    /// starts us.
    pub(crate) fn configuration(&self, program: &str) -> String {
        let page = self.fill(PAGE, program);
        let lines: Vec<_> = page.lines().map(|line| format!("          {line}")).collect();
        self.fill(CONFIGURATION, program).replace("          @PAGE@", &lines.join("\n"))
    }

    fn fill(&self, text: &str, program: &str) -> String {
        text.replace("@GATEWAY@", &self.gateway.to_string())
            .replace("@BACKEND@", &self.backend.to_string())
            .replace("@ADMIN@", &self.admin.to_string())
            .replace("@PROGRAM@", program)
            .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
    }
}

/// This address, or one with a free port when it is taken.
fn free(wanted: SocketAddr, held: &mut Vec<Listening>) -> Result<SocketAddr, Failure> {
    let listen = |address| Listening::bind(&Bind::Tcp(address), 1, &ListenOptions::default());
    let listening = match listen(wanted) {
        Err(error) if error.error.kind() == ErrorKind::AddrInUse => {
            listen(SocketAddr::new(wanted.ip(), 0))
        }
        other => other,
    };
    let listening = listening.map_err(|error| Failure::Failed(error.to_string()))?;
    let Bind::Tcp(address) = *listening.local() else {
        return Err(Failure::Failed(format!("{wanted} became another kind of address")));
    };
    held.push(listening);
    Ok(address)
}

#[cfg(test)]
mod tests {
    use net::{Bind, ListenOptions, Listening};

    use super::{Addresses, free};

    fn addresses() -> Addresses {
        let at = |port: u16| ([127, 0, 0, 1], port).into();
        Addresses { gateway: at(1), backend: at(2), admin: at(3), moved: Vec::new() }
    }

    #[test]
    fn a_taken_address_is_passed_over() {
        let any = "127.0.0.1:0".parse().unwrap();
        let taken = Listening::bind(&Bind::Tcp(any), 1, &ListenOptions::default()).unwrap();
        let Bind::Tcp(wanted) = *taken.local() else { panic!("{taken:?}") };
        let mut held = Vec::new();
        let found = free(wanted, &mut held).unwrap();
        assert_ne!(found, wanted);
        let nowhere = "192.0.2.1:0".parse().unwrap();
        assert!(free(nowhere, &mut held).is_err(), "an address of documentation (RFC 5737)");
    }

    #[test]
    fn the_configuration_is_right_and_shows_the_real_addresses() {
        let text = addresses().configuration("./tidegate");
        assert_eq!(crate::commands::mistakes(&text), "");
        assert!(text.contains("curl -i http://127.0.0.1:1/api/hello"), "{text}");
        assert!(text.contains("./tidegate demo --print-config"));
        let upper = |c: char| c.is_ascii_uppercase();
        let left = text.split('@').find(|word| !word.is_empty() && word.chars().all(upper));
        assert_eq!(left, None, "a placeholder was not filled");
    }
}
