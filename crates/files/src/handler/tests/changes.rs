//! Files that change, are truncated or are large while they are served.

use super::*;

/// Requests a file after it has not been requested for `times` times the freshness.
async fn later(handler: &FilesHandler, target: &str, times: u32) -> TestResponse {
    let request = request(Method::Get, target, &[]);
    let now = net::clock::now().after(FRESH * times + Duration::from_millis(10));
    read(handler.respond_at(&request, now).await, false).await
}

#[test]
fn a_change_is_seen_after_a_second_and_a_response_stays_whole() {
    let large = "x".repeat(100_000);
    let dir = directory(&[("small", "one"), ("large", &large), ("gone", "gone")]);
    let write = |name: &str, content: &str| {
        // As careful tools replace a file: a new file under the old name.
        fs::write(dir.path().join("new"), content).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join(name)).unwrap();
    };
    run(async {
        let handler = handler(&at(&dir));
        for path in ["/small", "/large", "/gone"] {
            assert_eq!(get(&handler, path, &[]).await.status, 200);
        }
        let mut requested = request(Method::Get, "/large", &[]);
        let MaybeFuture::Ready(Ok(sending)) = handler.handle(&mut requested) else {
            panic!("waits")
        };
        write("small", "two!");
        write("large", &"y".repeat(90_000));
        fs::remove_file(dir.path().join("gone")).unwrap();
        let Body::File(range) = sending.body else { panic!("{:?}", sending.body) };
        let mut old = Vec::new();
        read_range(&range, &mut old);
        assert!(old == large.as_bytes(), "the old file is sent to its end");
        assert_eq!(later(&handler, "/small", 1).await.text(), "two!");
        assert_eq!(later(&handler, "/large", 1).await.body, "y".repeat(90_000).into_bytes());
        assert_eq!(later(&handler, "/gone", 1).await.status, 404);
        fs::write(dir.path().join("small.gz"), "zipped").unwrap();
        assert_eq!(later(&handler, "/small", 2).await.field("vary"), "Accept-Encoding");
        let now = net::clock::now().after(FRESH * 2 + Duration::from_millis(10));
        assert!(handler.cache.fresh("/small", now).is_some(), "it is known again");
    });
}

#[test]
fn a_large_file_comes_in_windows() {
    let content: Vec<u8> = (0..2 * WINDOW_BYTES + 777).map(|at| (at % 251) as u8).collect();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("large"), &content).unwrap();
    run(async {
        let handler = handler(&at(&dir));
        let mut requested = request(Method::Get, "/large", &[]);
        let mut body = handler.handle(&mut requested).resolve().await.unwrap().body;
        let mut windows = Vec::new();
        while let Some(frame) = body.frame().await {
            let Frame::File(range) = frame.unwrap() else { panic!("not a file") };
            windows.push((range.offset, range.length));
        }
        assert_eq!(
            windows,
            [(0, WINDOW_BYTES), (WINDOW_BYTES, WINDOW_BYTES), (2 * WINDOW_BYTES, 777)]
        );
        assert!(get(&handler, "/large", &[]).await.body == content);
        let range = format!("bytes={}-{}", WINDOW_BYTES - 5, WINDOW_BYTES + 4);
        let part = get(&handler, "/large", &[("range", &range)]).await;
        let from = WINDOW_BYTES as usize - 5;
        assert!(part.body == content[from..from + 10]);
    });
}

#[test]
fn a_truncated_file_ends_in_an_error_and_not_in_another_one() {
    let dir = directory(&[("large", &"x".repeat(100_000))]);
    run(async {
        let handler = handler(&at(&dir));
        let mut requested = request(Method::Get, "/large", &[]);
        let body = handler.handle(&mut requested).resolve().await.unwrap().body;
        fs::OpenOptions::new()
            .write(true)
            .open(dir.path().join("large"))
            .unwrap()
            .set_len(10)
            .unwrap();
        // The length was announced: `net` fails to send the rest and closes (tested there).
        assert_eq!(body.length(), Some(100_000));
        assert_eq!(later(&handler, "/large", 1).await.body, b"x".repeat(10));
    });
}
