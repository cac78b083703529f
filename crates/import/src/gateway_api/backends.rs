//! Backends of routes: each port of a service becomes an upstream.

use serde_json::{Value, json};

use super::super::pike::name_of;
use super::super::writer::{Writer, literal, quoted};
use super::model::{Object, Objects, Reference, SERVICE, list, note_others, port, text};

/// What a rule asks of its backends.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    /// HTTP/2 for gRPC.
    pub(super) grpc: bool,
    /// The longest time until the head of a response.
    pub(super) response_ms: Option<u64>,
    /// Connections instead of requests.
    pub(super) raw: bool,
}

pub(super) struct Backends<'o, 'm> {
    objects: &'o Objects<'m>,
    upstreams: Vec<Upstream>,
    pub(super) notes: Vec<String>,
}

/// Namespace, name and port.
type Service = (String, String, u16);

struct Upstream {
    name: String,
    services: Vec<Service>,
    settings: Value,
}

/// A backend of a rule, and its share.
struct Share {
    weight: u64,
    /// An upstream, or why there is none.
    upstream: Result<String, String>,
}

impl<'o, 'm> Backends<'o, 'm> {
    pub(super) fn new(objects: &'o Objects<'m>) -> Backends<'o, 'm> {
        Backends { objects, upstreams: Vec::new(), notes: Vec::new() }
    }

    /// The filters and the handler that send requests to the backends of a rule. What goes to a
    /// backend that does not exist gets 500, as the specification says.
    pub(super) fn handler(
        &mut self,
        route: &Object<'_>,
        place: &str,
        backends: &[Value],
        wanted: Wanted,
    ) -> (Vec<Value>, Value) {
        let mut shares = Vec::new();
        for backend in backends {
            let known = ["group", "kind", "name", "namespace", "port", "weight"];
            note_others(backend, &known, &format!("{place} backendRefs"), &mut self.notes);
            let weight = backend["weight"].as_u64().unwrap_or(1).min(1_000_000);
            if weight > 0 {
                let upstream = self.upstream(route, backend, wanted);
                if let Err(why) = &upstream {
                    self.notes.push(format!("{place}: {why}: its requests get 500"));
                }
                shares.push(Share { weight, upstream });
            }
        }
        let handler = |share: &Share| match &share.upstream {
            Ok(name) => json!({ "upstream": name }),
            Err(_) => json!({ "respond": { "status": 500 } }),
        };
        match &shares[..] {
            [] => {
                self.notes.push(format!("{place}: it has no backend: its requests get 500"));
                (Vec::new(), json!({ "respond": { "status": 500 } }))
            }
            [one] => (Vec::new(), handler(one)),
            [first, ..] => {
                let variant = |(at, share): (usize, &Share)| {
                    let name = share.upstream.clone().unwrap_or_else(|_| "missing".to_owned());
                    let name = match shares[..at]
                        .iter()
                        .any(|other| other.upstream.as_ref().ok() == share.upstream.as_ref().ok())
                    {
                        true => format!("{name}-{at}"),
                        false => name,
                    };
                    json!({ "name": name, "weight": share.weight, "handler": handler(share) })
                };
                let variants: Vec<Value> = shares.iter().enumerate().map(variant).collect();
                (vec![json!({ "split": { "variants": variants } })], handler(first))
            }
        }
    }

    /// The name of the upstream of a backend.
    pub(super) fn upstream(
        &mut self,
        route: &Object<'_>,
        backend: &Value,
        wanted: Wanted,
    ) -> Result<String, String> {
        let (service, settings) = self.resolve(route, backend, wanted)?;
        Ok(self.add(vec![service], settings, None))
    }

    /// One upstream of several services, for a stream: the servers of each with its weight.
    pub(super) fn joined(
        &mut self,
        route: &Object<'_>,
        place: &str,
        backends: &[Value],
    ) -> Option<String> {
        let wanted = Wanted { grpc: false, response_ms: None, raw: true };
        let (mut services, mut parts) = (Vec::new(), Vec::new());
        for backend in backends {
            let weight = backend["weight"].as_u64().unwrap_or(1);
            match self.resolve(route, backend, wanted) {
                Ok((service, settings)) if weight > 0 => {
                    services.push(service);
                    parts.push((settings, weight));
                }
                Ok(_) => {}
                Err(why) => self.notes.push(format!("{place}: {why}: it is left out")),
            }
        }
        if parts.len() < 2 {
            let (settings, _) = parts.pop()?;
            return Some(self.add(services, settings, None));
        }
        let mut servers = Vec::new();
        for (settings, weight) in parts {
            let own = list(&settings["servers"]);
            // The share of a service is divided among its servers.
            let each = (weight.saturating_mul(10) / own.len().max(1) as u64).clamp(1, 1000);
            servers.extend(own.iter().map(|one| json!({ "address": one, "weight": each })));
        }
        let name = name_of(&format!("{}-{}", route.namespace, route.name));
        Some(self.add(services, json!({ "servers": servers }), Some(name)))
    }

    /// The service of a backend, and the settings of an upstream for it.
    fn resolve(
        &mut self,
        route: &Object<'_>,
        backend: &Value,
        wanted: Wanted,
    ) -> Result<(Service, Value), String> {
        let to = Reference::read(backend, SERVICE, route.namespace);
        let shown = format!("{}/{}", to.namespace, to.name);
        if (to.group, to.kind) != SERVICE {
            return Err(format!("a backend of the kind {} has no counterpart", to.kind));
        }
        if !self.objects.permits(route, &to) {
            return Err(format!("no ReferenceGrant permits the backend {shown}"));
        }
        let port = port(&backend["port"]).ok_or(format!("the backend {shown} has no port"))?;
        let settings = self.settings(to.namespace, to.name, port, wanted)?;
        Ok(((to.namespace.to_owned(), to.name.to_owned(), port), settings))
    }

    /// The name of the upstream of services, which is added if there is none.
    fn add(&mut self, services: Vec<Service>, settings: Value, name: Option<String>) -> String {
        let same = |one: &&Upstream| one.services == services && one.settings == settings;
        if let Some(known) = self.upstreams.iter().find(same) {
            return known.name.clone();
        }
        let of_service = |(namespace, name, port): &Service| format!("{namespace}-{name}-{port}");
        let first = services.first().map(of_service).unwrap_or_default();
        let name = name.unwrap_or_else(|| name_of(&first));
        let mut free = name.clone();
        for number in 2.. {
            if !self.upstreams.iter().any(|one| one.name == free) {
                break;
            }
            free = format!("{name}-{number}");
        }
        self.upstreams.push(Upstream { name: free.clone(), services, settings });
        free
    }

    fn settings(
        &mut self,
        namespace: &str,
        name: &str,
        port: u16,
        wanted: Wanted,
    ) -> Result<Value, String> {
        let service = self.objects.find("Service", namespace, name);
        let ports = service.map(|service| list(&service.spec()["ports"])).unwrap_or_default();
        let of_service = ports.iter().find(|one| one["port"] == port);
        if service.is_some() && of_service.is_none() {
            return Err(format!("the Service {namespace}/{name} has no port {port}"));
        }
        let port_name = of_service.map(|one| text(&one["name"])).unwrap_or_default();
        let protocol = of_service.map(|one| text(&one["appProtocol"])).unwrap_or_default();
        let mut settings = json!({ "servers": [] });
        let tls = !wanted.raw && self.tls(namespace, name, port_name, &mut settings);
        let scheme = match protocol {
            _ if wanted.raw => "",
            "https" | "kubernetes.io/wss" => "https://",
            _ if tls => "https://",
            "kubernetes.io/h2c" => "h2c://",
            _ if wanted.grpc => "h2c://",
            _ => "",
        };
        if scheme == "https://" && wanted.grpc {
            settings["protocols"] = json!(["h2"]);
        }
        if let Some(ms) = wanted.response_ms {
            settings["timeouts"] = json!({ "response": format!("{ms}ms") });
        }
        let mut servers = self.endpoints(namespace, name, port_name);
        if servers.is_empty() {
            servers.push(format!("{name}.{namespace}.svc.cluster.local:{port}"));
        }
        let mut valid = Vec::new();
        for server in servers {
            let server = format!("{scheme}{server}");
            match super::super::server_address(&server) {
                Ok(_) => valid.push(server),
                Err(why) => return Err(format!("the server {server} {why}")),
            }
        }
        settings["servers"] = json!(valid);
        Ok(settings)
    }

    /// Sets TLS to the servers, if a policy says so.
    fn tls(&mut self, namespace: &str, name: &str, port: &str, settings: &mut Value) -> bool {
        let is_for = |policy: &&Object<'_>| {
            policy.namespace == namespace
                && list(&policy.spec()["targetRefs"]).iter().any(|target| {
                    text(&target["kind"]) == "Service"
                        && text(&target["name"]) == name
                        && target["sectionName"].as_str().is_none_or(|section| section == port)
                })
        };
        let Some(policy) = self.objects.of("BackendTLSPolicy").find(is_for) else { return false };
        let validation = &policy.spec()["validation"];
        note_others(policy.spec(), &["targetRefs", "validation"], &policy.place, &mut self.notes);
        let known = ["hostname", "caCertificateRefs", "wellKnownCACertificates"];
        note_others(validation, &known, &policy.place, &mut self.notes);
        let mut tls = json!({});
        match validation["hostname"].as_str() {
            Some(host) if host.parse::<router::HostPattern>().is_ok() => {
                tls["server_name"] = json!(host);
            }
            _ => self.notes.push(format!("{}: its hostname is not a name", policy.place)),
        }
        if let [authorities, others @ ..] = list(&validation["caCertificateRefs"]) {
            let file = name_of(&format!("{namespace}-{}", text(&authorities["name"])));
            let file = format!("{}.crt", file.replace('/', "-"));
            self.notes.push(format!(
                "{}: write ca.crt of {} to {file}",
                policy.place,
                text(&authorities["name"])
            ));
            if !others.is_empty() {
                self.notes.push(format!("{}: append the others to {file}", policy.place));
            }
            tls["ca"] = json!(file);
        }
        settings["tls"] = tls;
        true
    }

    /// The addresses of a service, if its endpoints are among the manifests.
    fn endpoints(&self, namespace: &str, name: &str, port_name: &str) -> Vec<String> {
        let mut servers = Vec::new();
        for slice in self.objects.of("EndpointSlice") {
            let of = text(&slice.value["metadata"]["labels"]["kubernetes.io/service-name"]);
            if slice.namespace != namespace || of != name {
                continue;
            }
            let ports = list(&slice.value["ports"]);
            let named = ports.iter().find(|one| text(&one["name"]) == port_name);
            let Some(number) = named.and_then(|one| port(&one["port"])) else { continue };
            for endpoint in list(&slice.value["endpoints"]) {
                if endpoint["conditions"]["ready"] == false {
                    continue;
                }
                let host = list(&endpoint["addresses"]).first().map(text).unwrap_or_default();
                let server = match host.contains(':') {
                    true => format!("[{host}]:{number}"),
                    false => format!("{host}:{number}"),
                };
                if !servers.contains(&server) {
                    servers.push(server);
                }
            }
        }
        servers
    }

    pub(super) fn write(&self, out: &mut Writer) {
        if self.upstreams.is_empty() {
            return;
        }
        out.line(0, "upstreams:");
        for upstream in &self.upstreams {
            let settings = literal(&upstream.settings);
            out.line(2, &format!("{}: {settings}", quoted(&upstream.name)));
        }
        out.empty_line();
    }
}
