//! Records are read back, or nothing is.

use super::*;
use crate::store::Store;
use crate::store::tests::{MIB, sample};

/// An object with something in each of its parts.
pub(in crate::store::disk) fn full() -> Object {
    let mut object = sample("http://a/x?q=1").object(&Store::new(MIB));
    if let ObjectKind::Response(response) = &mut object.kind {
        let mut head = Headers::new();
        head.append("content-type", "text/plain");
        head.append("x-odd", &b"\x80\xff"[..]);
        response.head = SharedHeaders::from(&head);
        let mut hidden = Headers::new();
        hidden.append("surrogate-key", "a b");
        response.hidden = Some(Box::new(SharedHeaders::from(&hidden)));
        response.coding = Some(Coding::Br);
        response.tags = Box::from([1, u64::MAX]);
        response.meta.flags = Flags::IMMUTABLE.with(Flags::VALIDATOR);
        response.meta.lifetime_s = 77;
        response.content = Content::Memory(Bytes::from_static(b"content"));
    }
    object
}

#[test]
fn an_object_reads_back() {
    let object = full();
    let (form, head) = encode(&object).unwrap();
    assert_eq!(key(&head).as_ref(), Some(&object.key));
    let content = Content::Memory(Bytes::from_static(b"content"));
    let back = decode(form, &head, content).unwrap();
    let (was, is) = (object.response().unwrap(), back.response().unwrap());
    assert_eq!((&back.key, is.version, &is.meta), (&object.key, was.version, &was.meta));
    assert_eq!((is.coding, &is.tags), (was.coding, &was.tags));
    let fields = |kept: &SharedHeaders| {
        let headers = kept.headers();
        headers.iter().map(|f| (f.name.to_vec(), f.value.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(fields(&is.head), fields(&was.head));
    assert_eq!(fields(is.hidden.as_ref().unwrap()), fields(was.hidden.as_ref().unwrap()));
    for kind in [
        ObjectKind::Varies(Vary { fields: Box::from([Box::from(&b"accept"[..])]) }),
        ObjectKind::NoVarySearch(SearchRule { key_order: true, params: Box::from([]), all: true }),
    ] {
        let object = Object { key: object.key.clone(), kind, state: Default::default() };
        let (form, head) = encode(&object).unwrap();
        let back = decode(form, &head, Content::Memory(Bytes::new())).unwrap();
        match (&back.kind, &object.kind) {
            (ObjectKind::Varies(is), ObjectKind::Varies(was)) => assert_eq!(is, was),
            (ObjectKind::NoVarySearch(is), ObjectKind::NoVarySearch(was)) => assert_eq!(is, was),
            _ => panic!("another kind"),
        }
    }
}

#[test]
fn what_was_changed_or_cut_off_is_not_taken() {
    let (form, head) = encode(&full()).unwrap();
    let header = RecordHeader::new(form, 5, &head, (7, 99));
    let parsed = RecordHeader::parse(&header.bytes()).unwrap();
    assert!(parsed == header && parsed.fits(&head));
    let endless = RecordHeader::new(form, 5, &head, (u64::MAX, 99));
    assert_eq!((endless.record_len(), endless.record_len_max()), (u64::MAX, u64::MAX));
    // Short content has no gap before it, wherever it is; long content begins a page.
    assert_eq!(header.placed(77, &head), header);
    let long = RecordHeader::new(form, 5, &head, (MEMORY_FILE_BYTES_MIN, 99));
    for offset in [0, 77, DISK_PAGE_BYTES - 1, 3 * DISK_PAGE_BYTES] {
        let placed = long.placed(offset, &head);
        assert_eq!((offset + placed.content_at() as u64) % DISK_PAGE_BYTES, 0);
        assert!(placed.record_len() <= long.record_len_max());
        let parsed = RecordHeader::parse(&placed.bytes()).unwrap();
        assert!(parsed == placed && parsed.fits(&head));
        assert_eq!(placed.placed(0, &head), long.placed(0, &head));
    }
    for at in 0..HEADER_BYTES {
        let mut bytes = header.bytes();
        bytes[at] ^= 1;
        let taken = RecordHeader::parse(&bytes).is_some_and(|header| header.fits(&head));
        assert!(!taken, "byte {at} of the header");
    }
    for at in 0..head.len() {
        let mut changed = head.clone();
        changed[at] ^= 0x80;
        assert!(!header.fits(&changed), "byte {at} of the description");
        assert!(!header.fits(&head[..at]));
    }
}

#[test]
fn invalid_bytes_are_not_a_description() {
    let (form, head) = encode(&full()).unwrap();
    let none = || Content::Memory(Bytes::new());
    for length in 0..head.len() {
        assert!(decode(form, &head[..length], none()).is_none(), "{length}");
    }
    // Counts that promise more than there is.
    for at in 0..head.len().saturating_sub(4) {
        let mut changed = head.clone();
        changed[at..at + 4].copy_from_slice(&[0xff; 4]);
        let _ = decode(form, &changed, none());
    }
}
