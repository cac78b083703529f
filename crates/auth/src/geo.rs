//! The section `geo`: the file that maps addresses to countries.
//!
//! Owns the MaxMind DB format. Promises that a file is read as a whole, so that replacing it cannot
//! change what is in use, and that a look-up allocates nothing.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use maxminddb::{PathElement, Reader as Database};
use message::CountryDatabase;
use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

use crate::credential::{Sha256Digest, digest};

/// The largest file: those of cities are smaller, too.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The database in which the countries of clients are looked up.
#[derive(Clone, Debug, Default, PartialEq, Setting)]
pub struct GeoSettings {
    /// A file in the MaxMind DB format with countries, such as `GeoLite2-Country.mmdb`, for the
    /// variable `{country}`, the condition `country` and the `countries` of `allow` and `deny`.
    /// A changed file is read again.
    pub country: Option<CountryFile>,
}

/// A file of countries; cloning it copies nothing.
#[derive(Clone)]
pub struct CountryFile(Arc<CountryTable>);

struct CountryTable {
    database: Database<Vec<u8>>,
    digest: Sha256Digest,
}

impl fmt::Debug for CountryFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CountryFile").field(&self.0.database.metadata().database_type).finish()
    }
}

impl PartialEq for CountryFile {
    fn eq(&self, other: &CountryFile) -> bool {
        self.0.digest == other.0.digest
    }
}

impl CountryDatabase for CountryFile {
    /// A record that cannot be decoded has no country, like one that is missing. An IPv6 address
    /// has none in a file of IPv4 addresses.
    fn country(&self, address: IpAddr) -> Option<&str> {
        const COUNTRY: [PathElement<'static>; 2] =
            [PathElement::Key("country"), PathElement::Key("iso_code")];
        let record = self.0.database.lookup(address.to_canonical()).ok()?;
        let code: Option<&str> = record.decode_path(&COUNTRY).ok()?;
        code.filter(|code| code.len() == 2 && code.bytes().all(|byte| byte.is_ascii_uppercase()))
    }
}

impl Setting for CountryFile {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("path")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let path = String::read(node, reader)?;
        let content = reader.read_file_up_to(FILE_BYTES_MAX, node.span, Path::new(&path))?;
        let digest = digest(&content);
        match Database::from_source(content) {
            Ok(database) => Some(CountryFile(Arc::new(CountryTable { database, digest }))),
            Err(why) => {
                reader
                    .error(node.span, format!("{path} is not a MaxMind DB file: {why}"))
                    .help("GeoLite2-Country.mmdb and files of its format are accepted");
                None
            }
        }
    }
}
