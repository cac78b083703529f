//! The result of a TLS handshake, as bytes. The server's certificate is not included: it is the
//! same for all connections, and the process of the application does not terminate TLS.

use net::tls::{AlternativeName, CertificateDetails, PeerCertificate, TlsInfo};

use super::{Reader, Unreadable, put_bytes, put_length, put_optional};

pub(super) fn put(out: &mut Vec<u8>, tls: &TlsInfo) {
    out.extend_from_slice(&tls.version.to_le_bytes());
    out.extend_from_slice(&tls.cipher.to_le_bytes());
    put_optional(out, tls.protocol.as_deref().map(str::as_bytes));
    put_optional(out, tls.server_name.as_deref().map(str::as_bytes));
    out.push(u8::from(tls.is_resumed));
    out.push(u8::from(tls.peer.is_some()));
    let Some(peer) = &tls.peer else { return };
    put_bytes(out, peer.details.subject.as_bytes());
    put_bytes(out, peer.details.fingerprint.as_bytes());
    out.extend_from_slice(&peer.details.not_before.to_le_bytes());
    out.extend_from_slice(&peer.details.not_after.to_le_bytes());
    put_length(out, peer.details.names.len());
    for name in &peer.details.names {
        out.push(match name {
            AlternativeName::Dns(_) => 0,
            AlternativeName::Ip(_) => 1,
            AlternativeName::Email(_) => 2,
            AlternativeName::Uri(_) => 3,
        });
        put_bytes(out, name.as_str().as_bytes());
    }
    put_length(out, peer.chain.len());
    for certificate in &peer.chain {
        put_bytes(out, certificate);
    }
}

/// Reads what [`put`] wrote.
pub(super) fn read(from: &mut Reader<'_>) -> Result<TlsInfo, Unreadable> {
    Ok(TlsInfo {
        version: from.u16()?,
        cipher: from.u16()?,
        protocol: from.optional_text()?.map(Box::from),
        server_name: from.optional_text()?.map(Box::from),
        is_resumed: from.flag()?,
        peer: if from.flag()? { Some(Box::new(peer(from)?)) } else { None },
        presented: None,
    })
}

fn peer(from: &mut Reader<'_>) -> Result<PeerCertificate, Unreadable> {
    let (subject, fingerprint) = (from.text()?.into(), from.text()?.into());
    let (not_before, not_after) = (from.u64()?, from.u64()?);
    let mut names = Vec::new();
    for _ in 0..from.length()? {
        let kind = from.u8()?;
        let name = from.text()?.into();
        names.push(match kind {
            0 => AlternativeName::Dns(name),
            1 => AlternativeName::Ip(name),
            2 => AlternativeName::Email(name),
            3 => AlternativeName::Uri(name),
            _ => return Err(Unreadable),
        });
    }
    let mut chain = Vec::new();
    for _ in 0..from.length()? {
        chain.push(from.bytes()?.into());
    }
    let details = CertificateDetails { subject, names, fingerprint, not_before, not_after };
    Ok(PeerCertificate { details, chain })
}
