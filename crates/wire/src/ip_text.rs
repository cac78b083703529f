//! Addresses as text.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};

/// The longest text: eight groups of four digits, and their separators.
const LENGTH_MAX: usize = 39;

/// The text of an address. It takes no allocation, and for IPv4 no formatter, which costs more than
/// the field or attribute that the text goes into.
pub struct IpText {
    text: [u8; LENGTH_MAX],
    length: usize,
}

impl IpText {
    pub fn new(ip: IpAddr) -> IpText {
        let mut text = [b'.'; LENGTH_MAX];
        let length = match ip {
            IpAddr::V4(ip) => write_ipv4(&mut text, ip),
            IpAddr::V6(ip) => {
                let mut rest = &mut text[..];
                // There is room for every address.
                let _ = write!(rest, "{ip}");
                LENGTH_MAX - rest.len()
            }
        };
        IpText { text, length }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

/// Writes digits between the dots that are there already. Returns the length.
fn write_ipv4(text: &mut [u8; LENGTH_MAX], ip: Ipv4Addr) -> usize {
    let mut end = 0;
    for octet in ip.octets() {
        let (hundreds, tens, ones) = (octet / 100, octet / 10 % 10, octet % 10);
        if octet >= 100 {
            text[end] = b'0' + hundreds;
            end += 1;
        }
        if octet >= 10 {
            text[end] = b'0' + tens;
            end += 1;
        }
        text[end] = b'0' + ones;
        end += 2;
    }
    end - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        for text in [
            "0.0.0.0",
            "127.0.0.1",
            "9.10.99.100",
            "255.255.255.255",
            "::",
            "2001:db8::1",
            "::ffff:255.255.255.255",
            "1111:2222:3333:4444:5555:6666:7777:8888",
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(IpText::new(ip).as_bytes(), ip.to_string().as_bytes());
        }
    }
}
