//! Converts configurations of other products.
//!
//! Promises that the result passes `check`, and that each setting without a counterpart is named in
//! a comment at its position.

pub mod gateway_api;
pub mod nginx;
pub mod openapi;
pub mod pike;
pub mod shenyu;
mod writer;

/// Parses the address of an upstream's server; the error continues a sentence that begins with it.
fn server_address(text: &str) -> Result<upstream::ServerAddress, String> {
    let address: upstream::ServerAddress = text.parse()?;
    match address.is_connectable() {
        true => Ok(address),
        false => Err("is not an address to connect to".to_owned()),
    }
}
