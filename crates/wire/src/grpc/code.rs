//! The status codes of gRPC, and what they are in HTTP.

macro_rules! codes {
    ($($number:literal $variant:ident = $slug:literal $http:literal;)*) => {
        /// How a call ended (statuscodes.md).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Code { $($variant = $number,)* }

        impl Code {
            /// Every code, in the order of its number.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];
            /// The words of all codes, in the same order.
            pub const SLUGS: &'static [&'static str] = &[$($slug,)*];

            /// The word for settings, logs and metrics.
            pub const fn slug(self) -> &'static str {
                match self { $(Code::$variant => $slug,)* }
            }

            /// The HTTP status of the same meaning (google/rpc/code.proto).
            pub const fn http_status(self) -> u16 {
                match self { $(Code::$variant => $http,)* }
            }
        }
    };
}

codes! {
    0 Ok = "ok" 200;
    1 Cancelled = "cancelled" 499;
    2 Unknown = "unknown" 500;
    3 InvalidArgument = "invalid_argument" 400;
    4 DeadlineExceeded = "deadline_exceeded" 504;
    5 NotFound = "not_found" 404;
    6 AlreadyExists = "already_exists" 409;
    7 PermissionDenied = "permission_denied" 403;
    8 ResourceExhausted = "resource_exhausted" 429;
    9 FailedPrecondition = "failed_precondition" 400;
    10 Aborted = "aborted" 409;
    11 OutOfRange = "out_of_range" 400;
    12 Unimplemented = "unimplemented" 501;
    13 Internal = "internal" 500;
    14 Unavailable = "unavailable" 503;
    15 DataLoss = "data_loss" 500;
    16 Unauthenticated = "unauthenticated" 401;
}

impl Code {
    pub const COUNT: usize = Self::ALL.len();

    /// The value of a `grpc-status`. What is not a known code is [`Code::Unknown`]
    /// (statuscodes.md).
    pub fn parse(value: &[u8]) -> Code {
        let number = crate::token::decimal(value).and_then(|number| usize::try_from(number).ok());
        number.and_then(|number| Code::ALL.get(number).copied()).unwrap_or(Code::Unknown)
    }

    /// The code of this word.
    pub fn from_slug(slug: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.slug() == slug)
    }

    /// The value of a `grpc-status`.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code of a response without a `grpc-status` (http-grpc-status-mapping.md).
    pub const fn of_http(status: u16) -> Code {
        match status {
            400 => Code::Internal,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::Unimplemented,
            429 | 502..=504 => Code::Unavailable,
            _ => Code::Unknown,
        }
    }

    /// True if the server is at fault, not the call.
    pub const fn is_server_error(self) -> bool {
        matches!(
            self,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn numbers_and_words_name_the_same_code() {
        for (number, code) in Code::ALL.iter().enumerate() {
            assert_eq!(usize::from(code.number()), number);
            assert_eq!(Code::parse(number.to_string().as_bytes()), *code);
            assert_eq!(Code::from_slug(code.slug()), Some(*code));
            assert_eq!(Code::SLUGS[number], code.slug());
        }
        for unknown in ["17", "-1", "", "x", "99999999999999999999"] {
            assert_eq!(Code::parse(unknown.as_bytes()), Code::Unknown, "{unknown}");
        }
    }

    #[test]
    fn responses_without_a_status_have_one() {
        // All of http-grpc-status-mapping.md; what it does not list is unknown.
        let listed = [
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
        ];
        for status in 100..=599 {
            let found = listed.iter().find(|(listed, _)| *listed == status);
            let code = found.map_or(Code::Unknown, |(_, code)| *code);
            assert_eq!(Code::of_http(status), code, "{status}");
        }
    }

    #[test]
    fn codes_have_the_status_of_google_rpc_code() {
        // All of google/rpc/code.proto, in the order of the numbers.
        let statuses =
            [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];
        assert!(Code::ALL.iter().map(|code| code.http_status()).eq(statuses));
        let server_errors = Code::ALL.iter().filter(|code| code.is_server_error());
        let slugs: Vec<_> = server_errors.map(|code| code.slug()).collect();
        let expected = ["unknown", "deadline_exceeded", "internal", "unavailable", "data_loss"];
        assert_eq!(slugs, expected);
    }
}
