//! Where a configuration in etcd is: `etcd://HOST[:PORT],…/PREFIX`, or `etcds://` with TLS.

use std::fmt;
use std::str::FromStr;

use etcd::{EtcdSettings, parse_endpoint};

use crate::etcd_canary::Canary;

/// The prefix if the address has none.
const PREFIX: &str = "/tidegate";
/// Bytes of a prefix, and of the name of a node.
const NAME_BYTES: usize = 255;

/// The members of a cluster, and the prefix of all keys of one fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdAddress {
    members: Vec<String>,
    is_secure: bool,
    prefix: String,
}

impl EtcdAddress {
    /// True if an argument of the command line is such an address and not a file.
    pub fn is_one(text: &str) -> bool {
        text.starts_with("etcd://") || text.starts_with("etcds://")
    }

    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Settings of a client, without credentials and TLS.
    pub fn settings(&self) -> Result<EtcdSettings, String> {
        let scheme = if self.is_secure { "https" } else { "http" };
        let parse = |member: &String| parse_endpoint(&format!("{scheme}://{member}"));
        let endpoints: Result<Vec<_>, String> = self.members.iter().map(parse).collect();
        Ok(EtcdSettings::new(endpoints?))
    }

    /// The prefix of the documents' keys, which their names follow.
    pub fn documents(&self) -> String {
        format!("{}/config/", self.prefix)
    }

    /// The key of a canary in progress, next to the documents.
    pub fn canary(&self) -> String {
        format!("{}{}", self.documents(), Canary::NAME)
    }

    /// The prefix of the reports of the nodes.
    pub fn reports(&self) -> String {
        format!("{}/status/", self.prefix)
    }

    /// The prefix of earlier configurations.
    pub fn history(&self) -> String {
        format!("{}/history/", self.prefix)
    }

    /// The prefix of purges.
    pub(crate) fn purges(&self) -> String {
        format!("{}/purges/log/", self.prefix)
    }

    /// The key with the revision of the last purge that was removed from the log.
    pub(crate) fn purge_floor(&self) -> String {
        format!("{}/purges/floor", self.prefix)
    }

    /// The prefix of what each node has applied.
    pub(crate) fn purge_servers(&self) -> String {
        format!("{}/purges/servers/", self.prefix)
    }

    /// The prefix of the accounts, certificates and challenges of ACME.
    pub(crate) fn acme(&self) -> String {
        format!("{}/acme/", self.prefix)
    }

    /// The prefix of the keys of session tickets, and of the lock for their rotation.
    pub(crate) fn tickets(&self) -> String {
        format!("{}/tickets/", self.prefix)
    }

    /// The key that every change by `ctl apply` writes.
    pub fn head(&self) -> String {
        format!("{}/head", self.prefix)
    }
}

impl FromStr for EtcdAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<EtcdAddress, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let is_secure = match scheme {
            "etcd" => false,
            "etcds" => true,
            _ => return Err(format!("\"{text}\" is not etcd://HOST,…/PREFIX")),
        };
        let (members, path) = rest.split_once('/').unwrap_or((rest, ""));
        if members.contains('@') {
            let why = "a user in the address is not sent: use --etcd-user and --etcd-password-file";
            return Err(why.to_owned());
        }
        let members: Vec<String> = members.split(',').map(str::to_owned).collect();
        let path = path.trim_end_matches('/');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        if path.len() > NAME_BYTES || !path.bytes().all(is_plain) {
            return Err(format!("{path:?}: a prefix is letters, digits and -_./"));
        }
        let prefix = if path.is_empty() { PREFIX.to_owned() } else { format!("/{path}") };
        let address = EtcdAddress { members, is_secure, prefix };
        address.settings()?;
        Ok(address)
    }
}

impl fmt::Display for EtcdAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "etcds" } else { "etcd" };
        write!(f, "{scheme}://{}{}", self.members.join(","), self.prefix)
    }
}

/// Checks the name of a node, which is part of a key.
pub fn node_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if text.is_empty() || text.len() > NAME_BYTES || !text.bytes().all(is_plain) {
        return Err(format!("{text:?}: the name of a node is letters, digits and -_."));
    }
    Ok(text.to_owned())
}

/// The name of this machine.
pub fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::{EtcdAddress, node_name};

    #[test]
    fn addresses_have_members_and_a_prefix() {
        for (text, shown, documents) in [
            ("etcd://a", "etcd://a/tidegate", "/tidegate/config/"),
            ("etcd://a:1,b,[::1]:2/x/y/", "etcd://a:1,b,[::1]:2/x/y", "/x/y/config/"),
            ("etcds://a/x", "etcds://a/x", "/x/config/"),
        ] {
            let address: EtcdAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.documents(), documents);
            assert!(
                address
                    .settings()
                    .unwrap()
                    .endpoints
                    .iter()
                    .all(|endpoint| endpoint.is_secure == address.is_secure())
            );
            assert!(EtcdAddress::is_one(text));
        }
        for text in ["a", "http://a", "etcd://", "etcd://a,,b", "etcd://a/x y", "etcd://u@a/x"] {
            assert!(text.parse::<EtcdAddress>().is_err(), "{text}");
        }
        for (text, why) in [
            ("etcd://u:secret@a/x", "--etcd-user and --etcd-password-file"),
            ("etcd://127.0.0.1:99999/x", "\"99999\" is not a port"),
        ] {
            let error = text.parse::<EtcdAddress>().unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
        assert!(!EtcdAddress::is_one("etcd.yaml"));
    }

    #[test]
    fn names_of_nodes_are_one_part_of_a_key() {
        assert!(node_name("web-1.example").is_ok());
        for text in ["", "a/b", "a b", &"x".repeat(256)] {
            assert!(node_name(text).is_err(), "{text}");
        }
    }
}
