//! The choice, the transcodes and the fields, each for itself; together they are in
//! `tests/filling/codings.rs`.

use bytes::Bytes;
use coding::{Decode, decode_all, encode_all};
use message::{Headers, SharedHeaders};
use settings::{node, read};
use wire::Known;

use super::convert::{TranscodeError, convert, read_content};
use super::*;
use crate::rules::Meta;

const AS_IS: CodingChoice = CodingChoice::Canonical;

fn settings() -> CodingSettings {
    read::<crate::FilterSettings>(&node!("pages")).unwrap().codings
}

fn text(length: usize) -> Vec<u8> {
    (0..length).map(|at| b"all kinds of words, again and again "[at * at % 7 + at % 29]).collect()
}

/// A response with that content in that coding.
fn response(content: &[u8], coding: Option<Coding>) -> StoredResponse {
    let bytes = match coding {
        Some(coding) => encode_all(coding, 5, content).unwrap(),
        None => content.to_vec(),
    };
    let mut head = Headers::new();
    head.append("Content-Type", "text/plain");
    head.append("ETag", "W/\"a\"");
    head.append("Content-Digest", "sha-256=:AAAA:");
    if let Some(coding) = coding {
        head.append("Content-Encoding", coding.token());
    }
    StoredResponse {
        version: 1,
        meta: Meta {
            status: 200,
            flags: Flags::CODABLE,
            received_secs: 1,
            initial_age_s: 0,
            lifetime_s: 60,
            while_revalidate_s: 0,
            if_error_s: 0,
        },
        head: SharedHeaders::from(&head),
        hidden: None,
        content: Content::Memory(Bytes::from(bytes)),
        coding,
        derived: false,
        hits: Default::default(),
        tags: Box::default(),
    }
}

fn coded(target: TargetCoding) -> CodingChoice {
    CodingChoice::Coded { target, acceptable: true }
}

fn only(target: TargetCoding) -> CodingChoice {
    CodingChoice::Coded { target, acceptable: false }
}

#[test]
fn s12_5_3_the_clients_weights_decide_then_our_order() {
    let plain = response(&text(5000), None);
    let gzip = response(&text(5000), Some(Coding::Gzip));
    let (gz, br, zstd) = (Some(Coding::Gzip), Some(Coding::Br), Some(Coding::Zstd));
    let table = [
        // What is asked for, what of plain content, what of gzip.
        (None, AS_IS, only(None)),
        (Some(""), AS_IS, only(None)),
        (Some("gzip, deflate, br, zstd"), coded(zstd), coded(zstd)),
        (Some("gzip, br"), coded(br), coded(br)),
        (Some("gzip"), coded(gz), AS_IS),
        (Some("gzip;q=1.0, br;q=0.5"), coded(gz), AS_IS),
        (Some("gzip;q=0.5, br"), coded(br), coded(br)),
        (Some("gzip;q=0, br"), coded(br), only(br)),
        (Some("gzip;q=0"), AS_IS, only(None)),
        (Some("*"), coded(zstd), coded(zstd)),
        (Some("*;q=0"), AS_IS, only(None)),
        (Some("zstd;q=0, *"), coded(br), coded(br)),
        (Some("identity"), AS_IS, only(None)),
        (Some("identity, gzip;q=0.5"), AS_IS, coded(None)),
        (Some("identity;q=0.5, gzip"), coded(gz), AS_IS),
        (Some("identity;q=0, br"), coded(br), only(br)),
        (Some("identity;q=0, gzip"), coded(gz), AS_IS),
        (Some("deflate"), AS_IS, only(None)),
        (Some("x-gzip"), coded(gz), AS_IS),
    ];
    for (accept, of_plain, of_gzip) in table {
        let choose = |response| {
            choose(response, &ObjectState::default(), accept.map(str::as_bytes), &settings())
        };
        assert_eq!(choose(&plain), of_plain, "{accept:?} of plain content");
        assert_eq!(choose(&gzip), of_gzip, "{accept:?} of gzip");
    }
}

#[test]
fn what_is_not_to_be_coded_is_given_as_it_is() {
    let all = Some(&b"gzip, br, zstd"[..]);
    let settings = settings();
    let choice = |response: &StoredResponse, accept: Option<&[u8]>| {
        choose(response, &ObjectState::default(), accept, &settings)
    };
    let mut other = response(&text(5000), None);
    other.meta.flags = Flags::default();
    assert_eq!(choice(&other, all), AS_IS);
    assert!(has_single_coding(&other, &settings));
    assert_eq!(choice(&response(&text(900), None), all), AS_IS, "too short");
    assert_eq!(choice(&response(&vec![b'x'; 17 << 20], None), all), AS_IS, "too long");

    // What received coded is coded no other way, but may be undone.
    let mut gzip = response(&text(5000), Some(Coding::Gzip));
    gzip.meta.flags = Flags::default();
    assert_eq!(choice(&gzip, Some(b"br, gzip;q=0.1")), AS_IS);
    assert_eq!(choice(&gzip, Some(b"br")), only(None));
    // RFC 9110 7.7: it is for the client to refuse it.
    gzip.meta.flags = Flags::NO_TRANSFORM;
    assert_eq!(choice(&gzip, Some(b"identity, gzip;q=0.1")), AS_IS);
}

#[test]
fn what_was_tried_in_vain_is_not_offered_again() {
    let plain = response(&text(5000), None);
    let life = ObjectState::default();
    assert!(!life.mark_tried(index(Some(Coding::Br))) && life.mark_tried(index(Some(Coding::Br))));
    let choice = |accept: &[u8]| choose(&plain, &life, Some(accept), &settings());
    assert_eq!(choice(b"br"), AS_IS);
    assert_eq!(choice(b"br, gzip"), coded(Some(Coding::Gzip)));

    let gzip = response(&text(5000), Some(Coding::Gzip));
    life.mark_tried(index(None));
    let choice = choose(&gzip, &life, Some(b"identity, gzip;q=0.1"), &settings());
    assert_eq!(choice, AS_IS, "it accepts gzip with a lower quality");
}

#[test]
fn every_coding_is_made_of_every_other_one() {
    let whole = text(100_000);
    for from in TARGETS {
        let canonical = response(&whole, from);
        for target in TARGETS.into_iter().filter(|target| *target != from) {
            let made = convert(&canonical, target, 4, 1 << 20, None).unwrap();
            let bytes = read_content(&made).unwrap();
            let plain = match target {
                None => bytes.to_vec(),
                Some(coding) => {
                    let allowed = Decode { output_bytes: 1 << 20, ratio: 1 << 10 };
                    decode_all(coding, &bytes, allowed).unwrap()
                }
            };
            assert!(plain == whole, "{from:?} to {target:?}");
        }
    }
}

#[test]
fn a_bomb_damage_and_what_is_no_shorter_make_nothing() {
    let bomb = response(&vec![0; 1 << 20], Some(Coding::Gzip));
    for target in [None, Some(Coding::Br)] {
        let made = convert(&bomb, target, 4, (1 << 20) - 1, None);
        assert_eq!(made.err(), Some(TranscodeError::TooLong));
    }
    assert!(convert(&bomb, None, 4, 1 << 20, None).is_ok());

    let mut damaged = response(&text(5000), Some(Coding::Gzip));
    let Content::Memory(bytes) = &damaged.content else { unreachable!() };
    damaged.content = Content::Memory(bytes.slice(..bytes.len() / 2));
    assert_eq!(convert(&damaged, None, 4, 1 << 20, None).err(), Some(TranscodeError::Damaged));

    let zstd = encode_all(Coding::Zstd, 9, &text(5000)).unwrap();
    let dense = response(&zstd, None);
    assert_eq!(
        convert(&dense, Some(Coding::Gzip), 9, 1 << 20, None).err(),
        Some(TranscodeError::NotShorter)
    );
    let plain = response(&text(5000), None);
    let first = convert(&plain, Some(Coding::Gzip), 5, 1 << 20, None).unwrap();
    let again = convert(&plain, Some(Coding::Gzip), 5, 1 << 20, Some(first.len()));
    assert_eq!(again.err(), Some(TranscodeError::NotShorter), "no better than what there is");
}

#[test]
fn s8_8_3_3_a_coding_has_a_tag_of_its_own_and_says_that_there_are_others() {
    let gzip = response(&text(5000), Some(Coding::Gzip));
    for (target, tag, coding) in
        [(Some(Coding::Br), "W/\"a-br\"", Some("br")), (None, "W/\"a-identity\"", None)]
    {
        let fields = headers::of(&gzip.head.headers(), target).headers();
        assert_eq!(fields.get_str(Known::Etag), Some(tag));
        assert_eq!(fields.get_str(Known::ContentEncoding), coding);
        assert_eq!(fields.get_str(Known::Vary), Some("Accept-Encoding"));
        assert!(!fields.contains("content-digest"), "of other bytes");
        assert!(fields.contains(Known::ContentType));
    }
}
