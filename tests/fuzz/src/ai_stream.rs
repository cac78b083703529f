//! Responses of AI models, as `ai_proxy` reads them while they pass: server-sent events and the
//! usage in JSON.

use ai::{EventStream, Usage, UsageScanner};
use bytes::Bytes;
use json_filters::tree;
use serde_json::Value;

use crate::{FuzzTarget, cuts};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: ai_stream,
    seeds,
    dictionary: &[
        "data:",
        "data: ",
        "\n\n",
        "\r\n\r\n",
        "[DONE]",
        "\"usage\":{",
        "\"response\":{",
        "\"prompt_tokens\":1",
        "\"output_tokens\":2",
        "\"choices\":[]",
        "}",
        "]",
        ",",
        "\\\"",
        "null",
    ],
    cases: 550,
};

fn seeds() -> Vec<Vec<u8>> {
    crate::owned(&[
        r#"{"choices":[{"message":{"content":"\"usage\":{}"}}],"usage":{"prompt_tokens":1}}"#,
        r#"{"response":{"usage":{"input_tokens":1,"output_tokens":2}}}"#,
        r#"{"a":[{"usage":{}}],"usage":null,"b":{"usage":{"prompt_tokens":1}}}"#,
        "data: {\"choices\":[{}],\"usage\":null}\n\n\
         data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7}}\n\ndata: [DONE]\n\n",
        ": ping\r\n\r\nevent: a\r\ndata:{\"choices\":[],\r\n\
         data:\"usage\":{\"input_tokens\":1}}\r\n\r\n",
        "data: {\"usage\":{\"prompt_tokens\":99999999999999999999}}\n\n\n\ndata",
    ])
}

/// The division of a stream changes neither what passes, nor the usage, nor the number of events.
/// Only events with a usage are removed. Of JSON that another parser accepts, both find the same
/// usage.
fn ai_stream(input: &[u8]) {
    let kept = pass(&[input], false);
    assert_eq!(kept.0, input, "a stream of which nothing is removed has changed");
    let removed = pass(&[input], true);
    assert_eq!((removed.1, removed.2), (kept.1, kept.2));
    assert!(kept.1.is_some() || removed.0 == input, "an event without usage is missing");
    assert!(removed.0.len() <= input.len());
    let scanned = scan(&[input]);
    for cut in cuts(input.len()) {
        let (first, second) = input.split_at(cut);
        assert_eq!(pass(&[first, second], true), removed, "cut at {cut}");
        assert_eq!(pass(&[first, second], false), kept, "cut at {cut}");
        assert_eq!(scan(&[first, second]), scanned, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    assert_eq!(pass(&bytes, true), removed, "bytewise");
    if let Some(expected) = usage_of(input) {
        assert_eq!(scanned, expected);
    }
}

fn pass(pieces: &[&[u8]], removes: bool) -> (Vec<u8>, Option<Usage>, u32) {
    let mut stream = EventStream::new(removes);
    let mut passed = Vec::new();
    for piece in pieces {
        passed.extend_from_slice(&stream.pass(Bytes::copy_from_slice(piece)));
    }
    passed.extend_from_slice(&stream.finish());
    (passed, stream.usage(), stream.events())
}

fn scan(pieces: &[&[u8]]) -> Option<Usage> {
    let mut scanner = UsageScanner::default();
    pieces.iter().for_each(|piece| scanner.feed(piece));
    scanner.usage()
}

/// The usage by another parser; `None` if the input is not a document in which there is one way to
/// find it.
fn usage_of(input: &[u8]) -> Option<Option<Usage>> {
    let document: Value = serde_json::from_slice(input).ok()?;
    tree::parse(input).ok()?;
    // Names with escapes are not decoded, and a long usage is not read.
    if input.contains(&b'\\') || input.len() > 4096 {
        return None;
    }
    let found = [document.get("usage"), document.get("response").and_then(|r| r.get("usage"))];
    let mut objects = found.into_iter().flatten().filter(|usage| usage.is_object());
    let Some(usage) = objects.next() else { return Some(None) };
    if objects.next().is_some() {
        return None;
    }
    let tokens = |names: [&str; 2]| {
        let number = names.iter().find_map(|name| usage.get(name))?.as_u64()?;
        Some(u32::try_from(number).unwrap_or(u32::MAX))
    };
    let input = tokens(["prompt_tokens", "input_tokens"]);
    let output = tokens(["completion_tokens", "output_tokens"]);
    let is_usage = input.or(output).is_some();
    Some(is_usage.then(|| Usage { input: input.unwrap_or(0), output: output.unwrap_or(0) }))
}
