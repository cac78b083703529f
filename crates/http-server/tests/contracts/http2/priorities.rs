//! The order in which the content of several responses is sent (RFC 9218).

use message::{Request, Response};
use net::worker::block_on_local;
use wire::h2::StreamKey;

use super::client::{Http2Client, field, frame, send_raw};
use crate::client::{Answers, serve};

/// Several frames, and less than any window.
const LENGTH: usize = 60_000;

/// Sends requests, each with a value of `Priority` and with that of its response, and perhaps a
/// PRIORITY_UPDATE for one of them ahead; returns the order of the DATA frames as indices.
async fn order(priorities: &[(&str, &str)], update: Option<(usize, &str)>) -> Vec<usize> {
    let handler = Answers(|request: &mut Request| {
        let mut response = Response::text(200, "x".repeat(LENGTH));
        let own = &request.target.path()[1..];
        if !own.is_empty() {
            response.headers.append("priority", own.replace('_', ", "));
        }
        Ok(response)
    });
    let mut client = Http2Client::connect(serve(Vec::new(), handler)).await;
    // The windows of the settings apply once the server has them.
    let first = client.open("GET", "/", true);
    client.response(first).await;
    client.order.clear();
    let updated = |(index, value): (usize, &str)| {
        let id = first.id + 2 + 2 * u32::try_from(index).unwrap();
        frame(0x10, 0, 0, &[&id.to_be_bytes(), value.as_bytes()].concat())
    };
    if let Some(update) = update {
        send_raw(&client.stream, updated(update)).await;
    }
    let open = |&(asked, own): &(&str, &str)| {
        let path = format!("/{own}");
        let fields = [field("priority", asked)];
        client.open_with("GET", &path, if asked.is_empty() { &[] } else { &fields }, true)
    };
    let streams: Vec<StreamKey> = priorities.iter().map(open).collect();
    for stream in &streams {
        client.response(*stream).await;
    }
    let index = |stream: &StreamKey| streams.iter().position(|known| known == stream).unwrap();
    let mut order: Vec<usize> = client.order.iter().map(index).collect();
    order.dedup();
    order
}

#[test]
fn content_is_sent_in_the_order_of_its_priority() {
    block_on_local(async {
        // Without a priority: one after the other.
        assert_eq!(order(&[("", ""), ("", ""), ("", "")], None).await, [0, 1, 2]);
        assert_eq!(order(&[("u=7", ""), ("", ""), ("u=0", "")], None).await, [2, 1, 0]);
        // What a response states counts more.
        assert_eq!(order(&[("u=0", "u=6"), ("u=5", "")], None).await, [1, 0]);
        // And an update more than the field of the request.
        assert_eq!(order(&[("", ""), ("u=7", "")], Some((1, "u=1"))).await, [1, 0]);
        let shared = order(&[("i", ""), ("i", "")], None).await;
        assert!(shared.len() > 3 && shared.starts_with(&[0, 1, 0, 1]), "{shared:?}");
        let shared = order(&[("", "u=3_i"), ("", "u=3_i")], None).await;
        assert!(shared.starts_with(&[0, 1, 0, 1]), "{shared:?}");
    });
}
