//! A gateway with a configured application: frames, changes of the plan, the end.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

use config::FileSource;
use net::Bind;
use serde_json::Value;
use tempfile::TempDir;

use super::serving::converse;
use super::{exists, run, settings};
use crate::{Bound, Options};

/// A Python environment whose interpreter is this test program.
fn environment(directory: &Path) {
    let launch = settings("serves", super::patient()).launch;
    let messages: Vec<_> =
        launch.arguments.iter().map(|message| message.to_str().unwrap()).collect();
    let script = format!("#!/bin/sh\nexec {} {}\n", launch.program.display(), messages.join(" "));
    std::fs::create_dir_all(directory.join("venv/bin")).unwrap();
    let python = directory.join("venv/bin/python");
    std::fs::write(&python, script).unwrap();
    std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o700)).unwrap();
}

const CONFIG: &str = "
workers: 1
listeners: { web: { bind: \"127.0.0.1:0\" } }
admin: { bind: \"127.0.0.1:0\", socket: admin.sock }
apps: { shop: { python: \"serves:app\", venv: venv, workers: 2 } }
routes:
  - { match: { path: /quick }, handler: { respond: { body: quick } } }
  - { match: { path: \"/{*rest}\" }, handler: { app: shop } }
";

struct Gateway {
    web: Bind,
    admin: Bind,
    control: Bind,
}

impl Gateway {
    async fn app(&self) -> Value {
        let (status, body) = converse(&self.control, "GET", "/v1/apps").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["apps"][0].clone()
    }

    async fn wait_until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let held = async {
            loop {
                let app = self.app().await;
                if holds(&app) {
                    return app;
                }
                net::timer::sleep(std::time::Duration::from_millis(4)).await;
            }
        };
        net::timer::within(super::TIMEOUT, held).await.unwrap_or_else(|| panic!("never {what}"))
    }
}

fn processes(app: &Value) -> Vec<u32> {
    let workers = app["workers"].as_array().unwrap();
    let ready = workers.iter().filter(|worker| worker["state"] == "ready");
    ready.filter_map(|worker| u32::try_from(worker["process"].as_u64()?).ok()).collect()
}

async fn scene(gateway: &Gateway, directory: &Path) -> Vec<u32> {
    // The first request waits for the first process.
    let (status, first) = converse(&gateway.web, "GET", "/any").await;
    assert_eq!(status, 200, "{first}");
    let app = gateway.wait_until("ready", |app| processes(app).len() == 2).await;
    let before = processes(&app);
    assert!(before.contains(&first.parse().unwrap()));
    assert_eq!(converse(&gateway.web, "GET", "/quick").await, (200, "quick".to_owned()));

    // A plan that changes nothing of the application leaves its processes running.
    let reload = || converse(&gateway.control, "POST", "/v1/reload?wait");
    let other = CONFIG.replace("body: quick", "body: fast");
    std::fs::write(directory.join("tidegate.yaml"), &other).unwrap();
    assert_eq!(reload().await.0, 200);
    assert_eq!(converse(&gateway.web, "GET", "/quick").await, (200, "fast".to_owned()));
    assert_eq!(processes(&gateway.app().await), before);

    // A plan that changes it replaces them without an interruption.
    let changed = other.replace("workers: 2 ", "workers: 2, env: { A: b } ");
    assert_ne!(changed, other);
    std::fs::write(directory.join("tidegate.yaml"), &changed).unwrap();
    assert_eq!(reload().await.0, 200);
    let is_new = |app: &Value| {
        let now = processes(app);
        now.len() == 2 && now.iter().all(|process| !before.contains(process))
    };
    while !is_new(&gateway.app().await) {
        assert_eq!(converse(&gateway.web, "GET", "/").await.0, 200);
    }
    let metrics = converse(&gateway.admin, "GET", "/metrics").await.1;
    for line in [
        "tidegate_app_ready_workers{app=\"shop\"} 2\n",
        "tidegate_app_restarts_total{app=\"shop\",worker=\"0\",reason=\"reload\"} 1\n",
        "tidegate_store_memory_limit_bytes{app=\"shop\"} 67108864\n",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    let reloaded = converse(&gateway.control, "POST", "/v1/apps/shop/reload").await;
    assert_eq!(reloaded.0, 200, "{}", reloaded.1);
    assert_eq!(converse(&gateway.control, "POST", "/v1/apps/none/reload").await.0, 404);
    let last = processes(&gateway.app().await);
    // An application that is no longer named is stopped, and may be added again.
    let without: String =
        changed.lines().filter(|line| !line.contains("shop")).collect::<Vec<_>>().join("\n");
    std::fs::write(directory.join("tidegate.yaml"), without).unwrap();
    assert_eq!(reload().await.0, 200);
    assert_eq!(converse(&gateway.web, "GET", "/any").await.0, 404);
    std::fs::write(directory.join("tidegate.yaml"), &changed).unwrap();
    assert_eq!(reload().await.0, 200);
    assert_eq!(converse(&gateway.web, "GET", "/any").await.0, 200);
    gateway.wait_until("gone", |_| !last.iter().any(|process| exists(*process))).await;
    assert_eq!(converse(&gateway.web, "GET", "/any").await.0, 200);
    let last = processes(&gateway.app().await);
    assert_eq!(converse(&gateway.control, "POST", "/v1/drain").await.0, 202);
    last
}

#[test]
fn applications_of_a_configuration_follow_it() {
    let directory = TempDir::new().unwrap();
    environment(directory.path());
    let file = directory.path().join("tidegate.yaml");
    std::fs::write(&file, CONFIG).unwrap();
    let (ready, listens) = channel::<Vec<Bound>>();
    let server = std::thread::spawn(move || {
        let on_ready = move |bound: &[Bound]| ready.send(bound.to_vec()).unwrap();
        let options = Options { on_ready: Some(Box::new(on_ready)), ..Options::default() };
        crate::run(Arc::new(FileSource::new(file)), options)
    });
    let bound = listens.recv().unwrap();
    let at = |name: &str| bound.iter().find(|one| one.name == name).unwrap().address.clone();
    let control = Bind::Unix(directory.path().join("admin.sock"));
    let gateway = Gateway { web: at("web"), admin: at("admin"), control };
    let mut last = Vec::new();
    run(async { last = scene(&gateway, directory.path()).await });
    server.join().unwrap().unwrap();
    assert!(!last.is_empty() && !last.iter().any(|process| exists(*process)));
}
