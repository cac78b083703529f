//! gzip, br and zstd, which `coding` owns.

use super::{
    Format, NewCompressor, NewDecompressor, StreamCompressor, StreamDecompressor, StreamResult,
};
use coding::{Coding, Decode, Decoder, Encoder};

pub(super) fn family(coding: Coding) -> Format {
    let (pack, unpack): (NewCompressor, NewDecompressor) = match coding {
        Coding::Gzip => (|level| pack(Coding::Gzip, level), |limit| unpack(Coding::Gzip, limit)),
        Coding::Br => (|level| pack(Coding::Br, level), |limit| unpack(Coding::Br, limit)),
        Coding::Zstd => (|level| pack(Coding::Zstd, level), |limit| unpack(Coding::Zstd, limit)),
    };
    Format { levels: coding.levels(), level: coding.default_level(), pack, unpack, whole: None }
}

fn pack(coding: Coding, level: u32) -> Result<Box<dyn StreamCompressor>, String> {
    let encoder = Encoder::new(coding, level).map_err(|error| error.to_string())?;
    Ok(Box::new(encoder))
}

fn unpack(coding: Coding, limit: usize) -> Result<Box<dyn StreamDecompressor>, String> {
    // The script's limit bounds the output; a limit on the ratio as well would be unexpected.
    let allowed = Decode { output_bytes: limit as u64, ratio: u64::MAX };
    let decoder = Decoder::new(coding, allowed).map_err(|error| error.to_string())?;
    Ok(Box::new(decoder))
}

impl StreamCompressor for Encoder {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult {
        self.encode(input, out).map_err(|error| error.to_string())
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> StreamResult {
        Encoder::flush(self, out).map_err(|error| error.to_string())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> StreamResult {
        Encoder::finish(self, out).map_err(|error| error.to_string())
    }
}

impl StreamDecompressor for Decoder {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult {
        self.decode(input, out).map_err(describe)
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> StreamResult {
        Decoder::finish(self).map_err(describe)
    }
}

/// Texts of `coding` mention bodies; here there are none.
fn describe(error: coding::DecodeError) -> String {
    match error {
        coding::DecodeError::TooLarge | coding::DecodeError::TooDense => super::too_large(),
        coding::DecodeError::Corrupt => "the packed data is damaged".to_owned(),
        coding::DecodeError::Truncated => "the packed data ends too early".to_owned(),
    }
}
