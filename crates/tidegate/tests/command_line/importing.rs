//! `tidegate import pike`: what comes out, and that it is right.
//!
//! `UPDATE_GOLDENS=1 cargo test -p tidegate --test command_line importing` writes what comes out
//! again; read the difference.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::process::{ended, run_in, tidegate};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pike")
}

/// What comes of a file, checked.
fn imported(name: &str, directory: &Path) -> String {
    let file = fixtures().join(name);
    let run = |arguments: &[&str]| {
        let mut command = tidegate(directory, arguments);
        command.env("SHOP_TOKEN", "a-token");
        ended(command.output().expect("the binary"))
    };
    let text = run(&["import", "pike", file.to_str().expect("a name of letters")]).printed();
    std::fs::write(directory.join("tidegate.yaml"), &text).unwrap();
    let checked = run(&["check"]).printed();
    assert!(checked.contains("ok: "), "{checked}");
    text
}

#[test]
fn what_comes_out_is_what_it_was() {
    let directory = TempDir::new().unwrap();
    for name in ["small", "everything"] {
        let found = imported(&format!("{name}.yml"), directory.path());
        let golden = fixtures().join(format!("{name}.yaml"));
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            std::fs::write(&golden, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, expected, "{name}");
    }
}

/// Each field of Pike is either in what comes out or in a note.
#[test]
fn no_field_is_lost_without_a_word() {
    let directory = TempDir::new().unwrap();
    let text = imported("everything.yml", directory.path());
    let notes: Vec<&str> = text.split("note: ").skip(1).collect();
    for field in [
        "version",
        "admin.user",
        "admin.remark",
        "size",
        "store",
        "redis",
        "policy: first",
        "policy: hash",
        "enableH2C",
        "lz4",
        "/base",
        "queryStrings",
        "proxyTimeout",
        "logFormat",
        "compressContentTypeFilter",
        "hitForPass",
        "compress:",
        "concurrency",
        "forgotten",
        "unused",
        "nobody",
        "lost",
        "missing",
        "compresses.bestCompression",
    ] {
        assert!(notes.iter().any(|note| note.contains(field)), "no note of {field}:\n{text}");
    }
    for text_of in ["the two of us", "the large one", "the shop itself", "what people buy"] {
        assert!(text.contains(text_of), "a remark is lost: {text_of}");
    }
    assert!(!text.contains("secret-password"));
}

#[test]
fn what_cannot_be_read_is_reported() {
    let directory = TempDir::new().unwrap();
    let failed = |text: &str| {
        std::fs::write(directory.path().join("pike.yml"), text).unwrap();
        run_in(directory.path(), &["import", "pike", "pike.yml"]).failed(2)
    };
    assert!(failed("routes: []").contains("pike.yml has no servers"));
    assert!(failed("a: [").contains("pike.yml:1"));
    assert!(failed("servers: [{ addr: nowhere }]").contains("\"nowhere\""));
    let missing = run_in(directory.path(), &["import", "pike", "none.yml"]).failed(2);
    assert!(missing.contains("none.yml"), "{missing}");
    for other in ["- a", "a text", "", "paths: {}", "swagger: '2.0'"] {
        std::fs::write(directory.path().join("api.yaml"), other).unwrap();
        let failed = run_in(directory.path(), &["import", "openapi", "api.yaml"]).failed(2);
        assert!(failed.contains("api.yaml is not an OpenAPI document"), "{other:?}: {failed}");
    }
}

/// What comes of a file by another command, which checks it.
fn imported_by(kind: &str, text: &str) -> String {
    let directory = TempDir::new().unwrap();
    std::fs::write(directory.path().join("source"), text).unwrap();
    let output = tidegate(directory.path(), &["import", kind, "source"]).output();
    ended(output.expect("the binary")).printed()
}

#[test]
fn nginx_is_read_with_what_it_includes() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let file = directory.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    };
    write("nginx.conf", "http {\n  include sites/*;\n  include none/*;\n}\n");
    write("sites/a", "server { listen 80; location / { include snippets/app; } }\n");
    write("sites/.hidden", "server { listen 81; return 204; }\n");
    write("snippets/app", "proxy_pass http://127.0.0.1:3000;\n");
    for file in ["nginx.conf", "sites/a"] {
        let text = run_in(directory.path(), &["import", "nginx", file]).printed();
        assert!(text.contains("handler: { upstream: n127-0-0-1-3000 }"), "{file}: {text}");
        assert!(!text.contains("81"), "{file}: {text}");
    }
    let text = run_in(directory.path(), &["import", "nginx", "nginx.conf"]).printed();
    assert!(text.contains("note: line 3: include none/* is not converted"), "{text}");
}

#[test]
fn nginx_and_openapi_become_configurations() {
    let nginx = "upstream app { server 10.0.0.1:8000; }\n\
                 server { listen 80; location /api/ { proxy_pass http://app/v1/; } }\n\
                 server { listen 8080; return 301 https://$host$request_uri; }\n";
    let text = imported_by("nginx", nginx);
    assert!(text.contains("handler: { upstream: app }"), "{text}");
    assert!(text.contains("{ respond: { status: 404 } }"), "{text}");
    let openapi = r##"{ "openapi": "3.0.3", "paths": { "/a/{id}": { "post": {
        "parameters": [{ "name": "id", "in": "path", "schema": { "type": "integer" } }],
        "requestBody": { "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/A" } } } } } } },
        "components": { "schemas": { "A": { "type": "string", "pattern": "^${a}$" } } } }"##;
    let openapi = openapi.replace("${a}", "[a-z]");
    let text = imported_by("openapi", &openapi);
    assert!(text.contains(r##"body: {"$ref":"#/$defs/A""##), "{text}");
    // `${` stands for no environment variable here.
    let titled = openapi.replace("\"paths\"", r#""info": { "title": "from ${1" }, "paths""#);
    let text = imported_by("openapi", &titled);
    assert!(text.contains("(from ${1)"), "{text}");
}
