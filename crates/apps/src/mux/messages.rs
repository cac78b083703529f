//! Encodes response heads, interim responses and faults.

use message::{Fault, FaultKind, Headers, Retry};
use offload::encoding::{Reader, Unreadable, put_bytes, put_fields, put_optional};
use wire::frames::{self, Malformed};

/// A response head; without a length if only the end of the body determines it.
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) reason: Option<Box<[u8]>>,
    pub(crate) length: Option<u64>,
    pub(crate) headers: Headers,
}

pub(crate) fn write_response_head(
    out: &mut Vec<u8>,
    status: u16,
    reason: Option<&[u8]>,
    length: Option<u64>,
    headers: &Headers,
) {
    out.extend_from_slice(&status.to_le_bytes());
    put_optional(out, reason);
    out.push(u8::from(length.is_some()));
    if let Some(length) = length {
        out.extend_from_slice(&length.to_le_bytes());
    }
    put_fields(out, headers);
}

pub(crate) fn read_response_head(bytes: &[u8]) -> Result<ResponseHead, Malformed> {
    let read = || {
        let mut from = Reader::new(bytes);
        let status = from.u16()?;
        let reason = if from.flag()? { Some(from.bytes()?.into()) } else { None };
        let length = if from.flag()? { Some(from.u64()?) } else { None };
        let headers = from.fields()?;
        from.end()?;
        Ok(ResponseHead { status, reason, length, headers })
    };
    read().map_err(|Unreadable| Malformed::Payload)
}

/// Decodes the status and headers of an interim response.
pub(crate) fn read_interim(bytes: &[u8]) -> Result<(u16, Headers), Malformed> {
    read_response_head(bytes).map(|answer| (answer.status, answer.headers))
}

/// Decodes trailers.
pub(crate) fn read_trailers(bytes: &[u8]) -> Result<Headers, Malformed> {
    let mut from = Reader::new(bytes);
    let fields = from.fields();
    let whole = fields.and_then(|fields| from.end().map(|()| fields));
    whole.map_err(|Unreadable| Malformed::Payload)
}

pub(crate) fn write_fault(out: &mut Vec<u8>, stream: u32, fault: &Fault) {
    let mut payload = Vec::with_capacity(64 + fault.detail.len());
    let retry = match fault.retry {
        Retry::Never => 0,
        Retry::Unsent => 1,
        Retry::IfIdempotent => 2,
    };
    payload.extend_from_slice(&[retry, u8::from(fault.close)]);
    payload.extend_from_slice(&fault.status.to_le_bytes());
    put_bytes(&mut payload, fault.slug().as_bytes());
    // The rest of a frame has enough room for the other fields.
    let end = fault.detail.floor_char_boundary(frames::FAULT_BYTES_MAX / 4);
    put_bytes(&mut payload, &fault.detail.as_bytes()[..end]);
    put_optional(&mut payload, fault.allow.as_deref().map(str::as_bytes));
    payload.push(u8::from(fault.retry_after_s.is_some()));
    payload.extend_from_slice(&fault.retry_after_s.unwrap_or(0).to_le_bytes());
    put_optional(&mut payload, fault.next_hop.as_deref().map(str::as_bytes));
    let without_fields = payload.len();
    payload.push(u8::from(fault.fields.is_some()));
    if let Some(fields) = &fault.fields {
        put_fields(&mut payload, fields);
    }
    if payload.len() > frames::FAULT_BYTES_MAX {
        payload.truncate(without_fields);
        payload.push(0);
    }
    frames::fault(out, stream, &payload);
}

pub(crate) fn read_fault(bytes: &[u8]) -> Result<Fault, Malformed> {
    let read = || {
        let mut from = Reader::new(bytes);
        let retry = match from.u8()? {
            0 => Retry::Never,
            1 => Retry::Unsent,
            2 => Retry::IfIdempotent,
            _ => return Err(Unreadable),
        };
        let close = from.flag()?;
        let status = from.u16()?;
        let name = from.text()?;
        let kind = FaultKind::from_slug(name).unwrap_or(FaultKind::AppFailed);
        let detail = from.text()?.to_owned();
        let allow = from.optional_text()?.map(Box::from);
        let retry_after_s = (from.flag()?, from.u32()?);
        let retry_after_s = retry_after_s.0.then_some(retry_after_s.1);
        let next_hop = from.optional_text()?.map(Box::from);
        let fields = if from.flag()? { Some(Box::new(from.fields()?)) } else { None };
        from.end()?;
        let fault = Fault { retry, close, allow, ..Fault::new(kind, detail).with_status(status) };
        Ok(Fault { retry_after_s, next_hop, fields, ..fault })
    };
    read().map_err(|Unreadable| Malformed::Payload)
}

#[cfg(test)]
mod tests {
    use message::Side;
    use wire::frames::FRAME_HEAD_BYTES;

    use super::*;

    fn round_trip(fault: &Fault) -> Fault {
        let mut out = Vec::new();
        write_fault(&mut out, 1, fault);
        let payload = &out[FRAME_HEAD_BYTES..];
        let cuts = (0..payload.len()).step_by(1 + payload.len() / 256);
        cuts.for_each(|end| assert!(read_fault(&payload[..end]).is_err()));
        read_fault(payload).unwrap()
    }

    #[test]
    fn a_fault_survives_a_round_trip_and_an_unknown_slug_is_app_failed() {
        let fault = Fault {
            retry: Retry::Unsent,
            allow: Some("GET".into()),
            retry_after_s: Some(7),
            next_hop: Some("app".into()),
            ..Fault::body_too_large().with_field("x-why", "because")
        };
        assert_eq!(format!("{:?}", round_trip(&fault)), format!("{fault:?}"));
        let rejected = round_trip(&Fault::rejected(wire::Reject::BareLf));
        assert_eq!((rejected.slug(), rejected.side()), ("bare_lf", Side::Client));
        let mut out = Vec::new();
        write_fault(&mut out, 1, &rejected);
        let at = out.windows(7).position(|text| text == b"bare_lf").unwrap();
        out[at..at + 7].copy_from_slice(b"bare_xx");
        assert_eq!(read_fault(&out[FRAME_HEAD_BYTES..]).unwrap().slug(), "app_failed");
        let long = round_trip(&Fault::internal("ä".repeat(frames::FAULT_BYTES_MAX)));
        assert_eq!(long.detail.len(), frames::FAULT_BYTES_MAX / 4);
        let wide = Fault::not_found().with_field("x", "v".repeat(frames::FAULT_BYTES_MAX));
        assert!(round_trip(&wide).fields.is_none());
    }

    #[test]
    fn a_response_head_survives_a_round_trip() {
        let mut headers = Headers::new();
        headers.append("set-cookie", "a=1");
        for length in [None, Some(0), Some(u64::MAX)] {
            let mut out = Vec::new();
            write_response_head(&mut out, 201, Some(b"Made"), length, &headers);
            let answer = read_response_head(&out).unwrap();
            assert_eq!(answer.reason.as_deref(), Some(&b"Made"[..]));
            assert_eq!((answer.status, answer.length, answer.headers.len()), (201, length, 1));
            out.push(0);
            assert!(read_response_head(&out).is_err());
        }
    }
}
