//! `run_application` from its start to its end, over its sockets.

use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use net::{Bind, ListenOptions};
use serde_json::{Value, json};

use super::serving::{CONFIG, converse};
use super::{patient, run, settings};
use crate::{APPLICATION, Bound, DevReload, Failure, ListenerSource, RunSpec, run_application};

fn spec(behaviour: &str) -> RunSpec {
    let launch = settings(behaviour, patient()).launch;
    let command = std::iter::once(launch.program.into()).chain(launch.arguments).collect();
    RunSpec {
        command,
        environment: Vec::new(),
        directory: None,
        identity: None,
        preload: false,
        python: json!({ "behaviour": behaviour, "target": "shop:app" }),
        configuration: serde_json::from_str(&CONFIG.replace("test", APPLICATION)).unwrap(),
        listeners: vec![(
            "web".to_owned(),
            ListenerSource::Bind(
                Bind::Tcp("127.0.0.1:0".parse().unwrap()),
                ListenOptions::default(),
            ),
        )],
        workers: 2,
        policy: patient(),
        reload: None,
        admin: Some(Bind::Tcp("127.0.0.1:0".parse().unwrap())),
        log_level: None,
        log_format: None,
        on_ready: None,
        statsd: None,
        error_log: None,
        on_event: None,
    }
}

/// Both tests would have the admin socket of this process.
static ONE: Mutex<()> = Mutex::new(());

#[test]
fn an_application_is_run_inspected_reloaded_and_drained() {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (ready, listens) = channel::<Vec<Bound>>();
    let server = std::thread::spawn(move || {
        let mut spec = spec("serves");
        spec.on_ready = Some(Box::new(move |bound| ready.send(bound.to_vec()).unwrap()));
        run_application(spec)
    });
    let bound = listens.recv().unwrap();
    let at = |name: &str| bound.iter().find(|one| one.name == name).unwrap().address.clone();
    let (web, admin) = (at("web"), at("admin"));
    let socket = format!("{}.sock", std::process::id());
    let control = Bind::Unix(crate::admin_socket_dir().join(socket));
    run(async {
        let (status, process) = converse(&web, "GET", "/any").await;
        assert_eq!(status, 200, "{process}");
        assert_eq!(converse(&admin, "GET", "/readyz").await, (200, "ready\n".to_owned()));
        let apps = || async {
            let (status, body) = converse(&control, "GET", "/v1/apps").await;
            assert_eq!(status, 200, "{body}");
            serde_json::from_str::<Value>(&body).unwrap()["apps"][0].clone()
        };
        while apps().await["ready"] != 2 {
            net::timer::sleep(std::time::Duration::from_millis(4)).await;
        }
        let app = apps().await;
        assert_eq!((&app["name"], &app["target"]), (&json!(APPLICATION), &json!("shop:app")));
        let processes = |app: &Value| -> Vec<u64> {
            let workers = app["workers"].as_array().unwrap();
            workers.iter().filter_map(|worker| worker["process"].as_u64()).collect()
        };
        assert!(processes(&app).contains(&process.parse().unwrap()));
        let (status, metrics) = converse(&admin, "GET", "/metrics").await;
        assert_eq!(status, 200);
        for line in [
            "tidegate_app_ready_workers{app=\"main\"} 2\n",
            "tidegate_app_restarts_total{app=\"main\",worker=\"1\",reason=\"exit\"} 0\n",
            "tidegate_connections_active{worker=\"1\"} ",
            "process_resident_memory_bytes{worker=\"0\"} ",
        ] {
            assert!(metrics.contains(line), "no {line} in {metrics}");
        }
        let (status, reloaded) = converse(&control, "POST", "/v1/reload?wait").await;
        assert_eq!(status, 200, "{reloaded}");
        let after = apps().await;
        assert!(processes(&after).iter().all(|one| !processes(&app).contains(one)), "{after}");
        assert_eq!(after["workers"][0]["restarts"]["reload"], 1);
        assert_eq!(converse(&control, "POST", "/v1/drain").await.0, 202);
    });
    server.join().unwrap().unwrap();
}

#[test]
fn during_development_an_error_can_be_fixed() {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("app.py");
    std::fs::write(&file, "failed").unwrap();
    let (ready, listens) = channel::<Vec<Bound>>();
    let watched = directory.path().to_owned();
    let behaviour = file.to_str().unwrap().to_owned();
    let server = std::thread::spawn(move || {
        let mut spec = spec(&behaviour);
        let include = vec!["*.py".to_owned()];
        spec.reload =
            Some(DevReload { directories: vec![watched], include, ..DevReload::default() });
        spec.on_ready = Some(Box::new(move |bound| ready.send(bound.to_vec()).unwrap()));
        run_application(spec)
    });
    let socket = crate::admin_socket_dir().join(format!("{}.sock", std::process::id()));
    let control = Bind::Unix(socket.clone());
    run(async {
        while net::Stream::connect_unix(&socket).await.is_err() {
            net::timer::sleep(std::time::Duration::from_millis(4)).await;
        }
        while !converse(&control, "GET", "/v1/apps").await.1.contains("no module named") {
            net::timer::sleep(std::time::Duration::from_millis(4)).await;
        }
        assert_eq!(converse(&control, "GET", "/readyz").await.0, 503);
    });
    // Renamed into place: a process that is being started reads one or the other.
    std::fs::write(directory.path().join("next"), "serves").unwrap();
    std::fs::rename(directory.path().join("next"), &file).unwrap();
    let bound = listens.recv().unwrap();
    let web = bound.iter().find(|one| one.name == "web").unwrap().address.clone();
    run(async {
        assert_eq!(converse(&web, "GET", "/any").await.0, 200);
        assert_eq!(converse(&control, "POST", "/v1/drain").await.0, 202);
    });
    server.join().unwrap().unwrap();
}

#[test]
fn a_first_start_that_fails_is_the_end_and_says_why() {
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match run_application(spec("failed")) {
        Err(Failure::Start(why)) => assert_eq!(why, "no module named \"shop\""),
        other => panic!("{other:?}"),
    }
}
