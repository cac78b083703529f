//! The certificate of all servers of a run: ECDSA P-256, its own issuer.

use crate::load::SERVER_NAME;
use crate::peers::{CERTIFICATE, CERTIFICATE_AND_KEY, PRIVATE_KEY};
use std::fs;
use std::path::Path;

/// Writes it into the directory and returns it as DER.
pub(super) fn write(directory: &Path) -> Result<Vec<u8>, String> {
    // Servers may compare the authority of a request with it.
    let names = [SERVER_NAME, "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).map_err(|why| why.to_string())?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let both = format!("{certificate}{key}");
    fs::create_dir_all(directory)
        .and_then(|()| fs::write(directory.join(CERTIFICATE), certificate))
        .and_then(|()| fs::write(directory.join(PRIVATE_KEY), key))
        .and_then(|()| fs::write(directory.join(CERTIFICATE_AND_KEY), both))
        .map_err(|why| format!("{}: {why}", directory.display()))?;
    Ok(made.cert.der().to_vec())
}
