//! Why a message is rejected: one variant per reason, one row per variant.
//!
//! Owns the status of the response, the slug that identifies the reason in metrics (bounded: it
//! comes from this table) and the text for the log. A rejected message is responded to and its
//! connection closed; nothing is guessed. A client that parses a response turns any of these into
//! its own 502.

macro_rules! rejects {
    ($($variant:ident = $status:literal $slug:literal $text:literal,)*) => {
        /// A reason to reject a message.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Reject { $($variant,)* }

        impl Reject {
            /// Every reason, in the order of its number.
            pub const ALL: &'static [Reject] = &[$(Reject::$variant,)*];
            /// Number of reasons: the size of a table of counters indexed by `index()`.
            pub const COUNT: usize = Self::ALL.len();
        }

        const TABLE: [(u16, &str, &str); Reject::COUNT] = [$(($status, $slug, $text),)*];
    };
}

rejects! {
    // The start line.
    EmptyLine = 400 "empty_line" "more than one empty line before the message",
    InvalidMethod = 400 "invalid_method" "the method is not a token",
    MethodTooLong = 501 "method_too_long" "the method is longer than any known one",
    MethodCase = 501 "method_case" "the method is a registered one in other letter case",
    InvalidRequestLine = 400 "invalid_request_line" "the request line lacks a part",
    InvalidTarget = 400 "invalid_target" "the request target is malformed",
    UserInfoInTarget = 400 "userinfo_in_target" "the request target carries user information",
    UnsupportedScheme = 400 "unsupported_scheme" "the target is neither http nor https",
    RequestLineTooLong = 414 "request_line_too_long" "the request line is longer than the limit",
    InvalidVersion = 400 "invalid_version" "the protocol version is malformed",
    UnsupportedVersion = 505 "unsupported_version" "the major protocol version is not 1",
    InvalidStatusLine = 400 "invalid_status_line" "the status line is malformed",
    InvalidStatus = 400 "invalid_status" "the status is not between 100 and 599",
    StatusLineTooLong = 431 "status_line_too_long" "the status line is longer than the limit",
    // Lines.
    BareLf = 400 "bare_lf" "a line ends with LF without CR",
    BareCr = 400 "bare_cr" "a CR is not followed by LF",
    ObsoleteFolding = 400 "obsolete_folding" "a field line is folded",
    SpaceBeforeFirstField = 400 "space_before_first_field" "white space follows the start line",
    SpaceInFieldName = 400 "space_in_field_name" "white space in a field name or before its colon",
    EmptyFieldName = 400 "empty_field_name" "a field has no name",
    InvalidFieldName = 400 "invalid_field_name" "a field name is not a token",
    FieldNameTooLong = 431 "field_name_too_long" "a field name is longer than 65535 bytes",
    InvalidFieldValue = 400 "invalid_field_value" "a field value holds a control character",
    HeadersTooLarge = 431 "headers_too_large" "the header section is larger than the limit",
    TooManyFields = 431 "too_many_fields" "there are more fields than the limit",
    // Host.
    MissingHost = 400 "missing_host" "an HTTP/1.1 request has no Host",
    RepeatedHost = 400 "repeated_host" "there is more than one Host",
    InvalidHost = 400 "invalid_host" "Host is not host[:port]",
    // Framing.
    InvalidContentLength = 400 "invalid_content_length" "Content-Length is not a decimal number",
    RepeatedContentLength = 400 "repeated_content_length" "there is more than one Content-Length",
    LengthAndCoding = 400 "length_and_coding" "both Content-Length and Transfer-Encoding",
    UnknownTransferCoding = 400 "unknown_transfer_coding" "Transfer-Encoding is not just chunked",
    UnsupportedTransferCoding =
        501 "unsupported_transfer_coding" "a transfer coding other than chunked",
    AliasOfFramingField =
        400 "alias_of_framing_field" "a field name is another spelling of one that frames messages",
    RepeatedTransferCoding = 400 "repeated_transfer_coding" "more than one Transfer-Encoding",
    TransferCodingInHttp10 = 400 "transfer_coding_in_http10" "Transfer-Encoding in HTTP/1.0",
    ForbiddenBody = 400 "forbidden_body" "a response that has no body announces one",
    // Expectations.
    UnknownExpectation = 417 "unknown_expectation" "Expect asks for more than 100-continue",
    // Field sections of HTTP/2 (RFC 9113 8).
    UppercaseFieldName = 400 "uppercase_field_name" "a field name has an upper-case letter",
    ConnectionSpecificField =
        400 "connection_specific_field" "a field describes a connection of HTTP/1.1",
    InvalidTe = 400 "invalid_te" "TE holds anything but trailers",
    UnknownPseudoHeader = 400 "unknown_pseudo_header" "a pseudo-header field is not defined here",
    RepeatedPseudoHeader = 400 "repeated_pseudo_header" "a pseudo-header field is repeated",
    LatePseudoHeader = 400 "late_pseudo_header" "a pseudo-header field follows a field",
    MissingPseudoHeader = 400 "missing_pseudo_header" "a required pseudo-header field is missing",
    ForbiddenPseudoHeader =
        400 "forbidden_pseudo_header" "a pseudo-header field that the method forbids",
    AuthorityDiffersFromHost =
        400 "authority_differs_from_host" ":authority and Host have different values",
    LengthMismatch = 400 "length_mismatch" "Content-Length differs from the length of the data",
    UnexpectedHeaders = 400 "unexpected_headers" "a field section where none may be",
    // Chunked bodies.
    InvalidChunkSize = 400 "invalid_chunk_size" "a chunk size is not a hexadecimal number",
    ChunkTooLarge = 400 "chunk_too_large" "a chunk size overflows",
    InvalidChunkExtension = 400 "invalid_chunk_extension" "a chunk extension is malformed",
    ChunkExtensionsTooLong = 400 "chunk_extensions_too_long" "chunk extensions above the limit",
    InvalidChunkEnd = 400 "invalid_chunk_end" "chunk data is not followed by CRLF",
    TrailersTooLarge = 431 "trailers_too_large" "the trailer section is larger than the limit",
    // Decided by the reader of the body; listed here to keep one table.
    BodyTooLarge = 413 "body_too_large" "the body is larger than the limit",
}

impl Reject {
    /// The status of the response.
    #[inline]
    pub fn status(self) -> u16 {
        TABLE[self as usize].0
    }

    /// The reason as a metrics label.
    #[inline]
    pub fn slug(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// The reason as a phrase for the log.
    #[inline]
    pub fn text(self) -> &'static str {
        TABLE[self as usize].2
    }

    /// The number of the reason, below `COUNT`.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for Reject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Reject {}

#[cfg(test)]
mod tests {
    use super::Reject;
    use std::collections::HashSet;

    #[test]
    fn rows_are_complete_and_slugs_are_labels() {
        let mut seen = HashSet::new();
        for &reject in Reject::ALL {
            assert!((400..600).contains(&reject.status()), "{reject:?}");
            assert!(seen.insert(reject.slug()), "{reject:?}: slug used twice");
            assert!(
                reject
                    .slug()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
            assert!(!reject.text().is_empty());
        }
    }
}
