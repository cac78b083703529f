//! A configuration that is a set of documents.

use serde_json::json;
use wire::Known;

use super::Bench;

#[test]
fn a_set_of_documents_is_read_and_replaced_as_one() {
    let bench = Bench::new();
    let json = ("content-type", "application/json");
    let put = |fields: &[(&str, &str)], body| {
        bench.send_request("PUT /v1/config?documents", fields, body)
    };
    let any = [json, ("if-match", "*")];
    assert_eq!(bench.send_request("GET /v1/config?documents", &[], "").status, 409, "a file");
    assert_eq!(put(&[json], "{}").status, 428);
    let yaml = put(&[("content-type", "application/yaml"), ("if-match", "*")], "a.yaml: b\n");
    assert_eq!(yaml.status, 415, "{}", yaml.body);
    let body = r#"{"a.yaml": "workers: 2\n", "routes/b.yaml": "token: hidden\n"}"#;
    let done = put(&any, body);
    assert_eq!((done.status, done.field(Known::Etag)), (200, "\"v2\""));
    let shown = bench.send_request("GET /v1/config?documents", &[], "");
    assert_eq!((shown.status, shown.field(Known::Etag)), (200, "\"v2\""));
    assert_eq!(shown.field(Known::ContentType), "application/json");
    let expected = json!({ "a.yaml": "workers: 2\n", "routes/b.yaml": "token: ***\n" });
    assert_eq!(shown.json(), expected);
    let refused = bench.send_request("GET /v1/config?documents&secrets", &[], "");
    assert_eq!(refused.status, 403);
    assert_eq!(put(&[json, ("if-match", "\"v1\"")], body).status, 412);
    for (body, what) in [
        ("[]", "must be a JSON object"),
        ("{}", "no documents"),
        ("{", "not JSON"),
        (r#"{"a.yaml": {"workers": 2}}"#, "a.yaml"),
        (r#"{"a/.b.yaml": ""}"#, "a/.b.yaml"),
        (r#"{"a//b.yaml": "", "/c": "", "d": ""}"#, "2 of the documents"),
    ] {
        let wrong = put(&any, body);
        assert!(wrong.status == 422 && wrong.body.contains(what), "{body}: {}", wrong.body);
        let check = bench.send_request("POST /v1/config/check?documents", &[json], body);
        assert_eq!(check.status, 422, "{body}");
    }
    assert_eq!(bench.server.version.get(), 2);
    let check = bench.send_request("POST /v1/config/check?documents", &[json], body);
    assert_eq!((check.status, bench.server.version.get()), (200, 2));
}
