//! Conditions and ranges: which part of a file is sent.

use super::*;

#[test]
fn conditions_decide_before_the_content() {
    let dir = directory(&[("a.txt", "hello")]);
    let day = Duration::from_secs(86_400);
    let modified = std::time::UNIX_EPOCH + 10_000 * day;
    fs::File::open(dir.path().join("a.txt")).unwrap().set_modified(modified).unwrap();
    run(async {
        let handler = handler(&at(&dir));
        let etag = get(&handler, "/a.txt", &[]).await.field("etag").to_owned();
        let weak = format!("W/{etag}");
        let list = format!("\"x\", {etag}");
        let same = "Sat, 19 May 1997 00:00:00 GMT";
        let (before, after) = ("Fri, 18 May 1996 00:00:00 GMT", "Wed, 20 May 1998 00:00:00 GMT");
        assert_eq!(
            get(&handler, "/a.txt", &[]).await.field("last-modified"),
            "Mon, 19 May 1997 00:00:00 GMT"
        );
        let table: &[(&[(&str, &str)], u16)] = &[
            (&[("if-none-match", &etag)], 304),
            (&[("if-none-match", &weak)], 304),
            (&[("if-none-match", &list)], 304),
            (&[("if-none-match", "\"x\""), ("if-none-match", &etag)], 304),
            (&[("if-none-match", "*")], 304),
            (&[("if-none-match", "\"x\"")], 200),
            (&[("if-none-match", "\"x\""), ("if-modified-since", after)], 200),
            (&[("if-modified-since", same)], 304),
            (&[("if-modified-since", after)], 304),
            (&[("if-modified-since", before)], 200),
            (&[("if-modified-since", "yesterday")], 200),
            (&[("if-match", &etag)], 200),
            (&[("if-match", &weak)], 412),
            (&[("if-match", "\"x\"")], 412),
            (&[("if-match", "*")], 200),
            (&[("if-match", &etag), ("if-unmodified-since", before)], 200),
            (&[("if-unmodified-since", same)], 200),
            (&[("if-unmodified-since", before)], 412),
            (&[("if-match", &etag), ("if-none-match", &etag)], 304),
            (&[("if-none-match", &etag), ("range", "bytes=0-1")], 304),
        ];
        for (headers, status) in table {
            let response = get(&handler, "/a.txt", headers).await;
            assert_eq!(response.status, *status, "{headers:?}");
            if *status == 304 {
                assert_eq!((response.field("etag"), response.text()), (&*etag, ""));
                assert_eq!(response.field("content-type"), "");
            }
        }
    });
}

#[test]
fn ranges_of_memory_and_of_files() {
    let text: String = ('a'..='z').collect();
    let large = text.repeat(SMALL_FILE_BYTES as usize / 26 + 1);
    let dir = directory(&[("small", &text), ("large", &large), ("empty", "")]);
    run(async {
        let handler = handler(&at(&dir));
        for (path, content) in [("/small", &text), ("/large", &large)] {
            let length = content.len();
            let table: &[(&str, u16, &str, String)] = &[
                ("bytes=0-0", 206, &content[..1], format!("bytes 0-0/{length}")),
                ("bytes=3-5", 206, &content[3..6], format!("bytes 3-5/{length}")),
                ("bytes=20-", 206, &content[20..], format!("bytes 20-{}/{length}", length - 1)),
                (
                    "bytes=-2",
                    206,
                    &content[length - 2..],
                    format!("bytes {}-{}/{length}", length - 2, length - 1),
                ),
                ("bytes=5-3", 200, content, String::new()),
                ("lines=0-1", 200, content, String::new()),
                ("bytes=x", 200, content, String::new()),
                (
                    "bytes=99999999-",
                    416,
                    "416 Range Not Satisfiable\n",
                    format!("bytes */{length}"),
                ),
            ];
            for (range, status, body, content_range) in table {
                let response = get(&handler, path, &[("range", range)]).await;
                assert_eq!((response.status, response.text()), (*status, *body), "{path} {range}");
                assert_eq!(response.field("content-range"), content_range, "{path} {range}");
            }
        }
        assert_eq!(get(&handler, "/empty", &[("range", "bytes=0-")]).await.status, 416);
    });
}

#[test]
fn several_ranges_come_in_parts() {
    let content = "0123456789".repeat(30_000);
    let dir = directory(&[("a.txt", &content)]);
    run(async {
        let handler = handler(&at(&dir));
        let requested = "bytes=0-4, 200000-200002, -3";
        let response = get(&handler, "/a.txt", &[("range", requested)]).await;
        assert_eq!(response.status, 206);
        let kind = response.field("content-type");
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let part = |range: &str, body: &str| {
            format!(
                "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
                 Content-Range: bytes {range}/300000\r\n\r\n{body}\r\n"
            )
        };
        let wanted = [
            part("0-4", "01234"),
            part("200000-200002", "012"),
            part("299997-299999", "789"),
            format!("--{boundary}--\r\n"),
        ];
        assert_eq!(response.text(), wanted.concat());
        assert_eq!(response.field("content-range"), "");
        let other = get(&handler, "/a.txt", &[("range", requested)]).await;
        assert_ne!(other.field("content-type"), kind, "it is unpredictable");
        // Too many ranges get the whole file, ranges that touch are merged into one.
        let many = format!("bytes={}", "0-0,".repeat(100));
        assert_eq!(get(&handler, "/a.txt", &[("range", &many)]).await.status, 200);
        let joined = get(&handler, "/a.txt", &[("range", "bytes=0-4,3-9")]).await;
        assert_eq!((joined.status, joined.text()), (206, "0123456789"));
    });
}

#[test]
fn a_range_is_ignored_when_the_file_is_another_one() {
    let dir = directory(&[("a.txt", "hello")]);
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(dir.path().join("a.txt")).unwrap().set_modified(old).unwrap();
    run(async {
        let handler = handler(&at(&dir));
        let whole = get(&handler, "/a.txt", &[]).await;
        let (etag, modified) = (whole.field("etag"), whole.field("last-modified"));
        let weak = format!("W/{etag}");
        for (if_range, status) in [
            (etag, 206),
            (modified, 206),
            (&weak, 200),
            ("\"x\"", 200),
            ("Mon, 19 May 1997 00:00:00 GMT", 200),
        ] {
            let headers = [("range", "bytes=1-2"), ("if-range", if_range)];
            assert_eq!(get(&handler, "/a.txt", &headers).await.status, status, "{if_range}");
        }
    });
}
