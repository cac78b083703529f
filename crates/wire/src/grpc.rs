//! gRPC over HTTP: status codes, time-outs, messages of a status, and length-prefixed messages.
//!
//! Owns the syntax of the gRPC protocol (PROTOCOL-HTTP2.md and PROTOCOL-WEB.md) and its tables of
//! statuses. Reads no content of a message: that is protobuf, which the gateway passes through.

mod code;
mod messages;

use std::borrow::Cow;
use std::time::Duration;

pub use code::Code;
pub use messages::{
    COMPRESSED, MessageReader, MessageTooLarge, PREFIX_BYTES, TRAILERS, prefix, trailer_lines,
};

/// The header with the time a client allows for a call.
pub const TIMEOUT: &str = "grpc-timeout";
/// The header with the compression of messages.
pub const ENCODING: &str = "grpc-encoding";
/// The header with the compressions that a peer decodes.
pub const ACCEPT_ENCODING: &str = "grpc-accept-encoding";
/// The trailer with the status of a call.
pub const STATUS: &str = "grpc-status";
/// The trailer with the text of a status.
pub const MESSAGE: &str = "grpc-message";

/// The trailer with a `google.rpc.Status`, in base64.
pub const STATUS_DETAILS: &str = "grpc-status-details-bin";

/// The longest text of a status: what is longer is cut.
const MESSAGE_BYTES: usize = 1024;
/// Digits of a time-out (PROTOCOL-HTTP2.md).
const TIMEOUT_DIGITS: usize = 8;

/// A form of gRPC over HTTP, by the content type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `application/grpc`: trailers are those of HTTP.
    Grpc,
    /// `application/grpc-web`: trailers are the last message.
    Web,
    /// `application/grpc-web-text`: the same in base64.
    WebText,
}

impl Form {
    /// The form of a media type; `None` if it is not gRPC.
    pub fn of(content_type: &[u8]) -> Option<Form> {
        const FORMS: [(&[u8], Form); 3] = [
            (b"application/grpc-web-text", Form::WebText),
            (b"application/grpc-web", Form::Web),
            (b"application/grpc", Form::Grpc),
        ];
        FORMS.iter().find_map(|(name, form)| {
            let (head, rest) = content_type.split_at_checked(name.len())?;
            let is_whole = matches!(rest.first(), None | Some(b'+' | b';' | b' ' | b'\t'));
            (is_whole && head.eq_ignore_ascii_case(name)).then_some(*form)
        })
    }

    /// The media type without the format of messages.
    pub fn media_type(self) -> &'static str {
        match self {
            Form::Grpc => "application/grpc",
            Form::Web => "application/grpc-web",
            Form::WebText => "application/grpc-web-text",
        }
    }
}

/// The format of messages that a content type names: `+proto` of `application/grpc-web+proto`.
pub fn message_format(content_type: &[u8]) -> &[u8] {
    let end = content_type.iter().position(|byte| b"; \t".contains(byte));
    let media_type = &content_type[..end.unwrap_or(content_type.len())];
    let plus = media_type.iter().position(|byte| *byte == b'+');
    plus.map_or(b"", |plus| &media_type[plus..])
}

/// The duration of a `grpc-timeout`: up to eight digits and a unit.
pub fn parse_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > TIMEOUT_DIGITS || !digits.iter().all(u8::is_ascii_digit)
    {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?;
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// A duration as `grpc-timeout`, in the finest unit that holds it. It is rounded down: a server is
/// not given more time than there is.
pub fn timeout_value(span: Duration) -> String {
    const MAX: u128 = 99_999_999;
    let units = [
        (span.as_micros(), 'u'),
        (span.as_millis(), 'm'),
        (u128::from(span.as_secs()), 'S'),
        (u128::from(span.as_secs()) / 60, 'M'),
    ];
    let fitting = units.into_iter().find(|(number, _)| *number <= MAX);
    let (number, unit) = fitting.unwrap_or((u128::from(span.as_secs()) / 3600, 'H'));
    format!("{}{unit}", number.min(MAX))
}

/// A text as `grpc-message`: everything but printable ASCII, and `%`, becomes `%XX`.
pub fn encode_message(text: &str) -> Cow<'_, str> {
    let is_plain = |byte: u8| (0x20..=0x7E).contains(&byte) && byte != b'%';
    let end = text.floor_char_boundary(MESSAGE_BYTES);
    let text = &text[..end];
    if text.bytes().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for byte in text.bytes() {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            const HEX: &[u8; 16] = b"0123456789ABCDEF";
            let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
            out.extend(['%', char::from(high), char::from(low)]);
        }
    }
    Cow::Owned(out)
}

/// The text of a `grpc-message`. An invalid escape stands for itself, and bytes that are not UTF-8
/// are replaced: the message may be all there is to find a failure by.
pub fn decode_message(value: &[u8]) -> String {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [byte, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                out.push((high << 4 | low) as u8);
                rest = &rest[3..];
            }
            None => {
                out.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_a_whole_media_type() {
        for (content_type, form) in [
            ("application/grpc", Some(Form::Grpc)),
            ("application/grpc+proto", Some(Form::Grpc)),
            ("Application/GRPC; charset=utf-8", Some(Form::Grpc)),
            ("application/grpc-web", Some(Form::Web)),
            ("application/grpc-web+proto", Some(Form::Web)),
            ("application/grpc-web-text+proto", Some(Form::WebText)),
            ("application/grpcx", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(Form::of(content_type.as_bytes()), form, "{content_type}");
        }
        assert_eq!(message_format(b"application/grpc-web+json; a=+b"), b"+json");
        assert_eq!(message_format(b"application/grpc; a=+b"), b"");
    }

    #[test]
    fn timeouts_have_up_to_eight_digits_and_a_unit() {
        for (value, span) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("99999999S", Some(Duration::from_secs(99_999_999))),
            ("250m", Some(Duration::from_millis(250))),
            ("7u", Some(Duration::from_micros(7))),
            ("0n", Some(Duration::ZERO)),
            ("", None),
            ("S", None),
            ("1", None),
            ("+1S", None),
            ("-1S", None),
            ("1.5S", None),
            ("100000000m", None),
            ("1s", None),
        ] {
            assert_eq!(parse_timeout(value.as_bytes()), span, "{value}");
        }
    }

    #[test]
    fn a_written_timeout_is_never_longer() {
        for (span, value) in [
            (Duration::from_nanos(1_500), "1u"),
            (Duration::from_millis(20), "20000u"),
            (Duration::from_secs(120), "120000m"),
            (Duration::from_secs(200_000), "200000S"),
            (Duration::from_secs(100_000_000), "1666666M"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(timeout_value(span), value);
            assert!(parse_timeout(value.as_bytes()).unwrap() <= span);
        }
    }

    #[test]
    fn messages_survive_their_escapes() {
        for (text, encoded) in [
            ("plain text", "plain text"),
            ("100 %", "100 %25"),
            ("zwölf\n", "zw%C3%B6lf%0A"),
            ("", ""),
        ] {
            assert_eq!(encode_message(text), encoded);
            assert_eq!(decode_message(encoded.as_bytes()), text);
        }
        assert_eq!(decode_message(b"5%\x20of%zz%4"), "5% of%zz%4");
        assert_eq!(decode_message(b"%FFx"), "\u{fffd}x");
        assert_eq!(encode_message(&"ö".repeat(2000)).len(), 512 * 6);
    }
}
