//! The objects of the manifests, and how they refer to one another.

use serde_json::Value;

use super::Manifest;

const GROUP: &str = "gateway.networking.k8s.io";
/// Kinds that are read, with the group of their `apiVersion`.
const KINDS: [(&str, &str); 10] = [
    ("Gateway", GROUP),
    ("HTTPRoute", GROUP),
    ("GRPCRoute", GROUP),
    ("TLSRoute", GROUP),
    ("TCPRoute", GROUP),
    ("UDPRoute", GROUP),
    ("ReferenceGrant", GROUP),
    ("BackendTLSPolicy", GROUP),
    ("Service", ""),
    ("EndpointSlice", "discovery.k8s.io"),
];
/// Kinds that mean nothing without a cluster.
const PASSED_OVER: [&str; 3] = ["GatewayClass", "Namespace", "CustomResourceDefinition"];
/// How deep a `List` may be in a `List`.
const DEPTH: usize = 4;

/// One object of a manifest.
pub(super) struct Object<'m> {
    pub(super) kind: &'m str,
    pub(super) namespace: &'m str,
    pub(super) name: &'m str,
    pub(super) value: &'m Value,
    /// `FILE:LINE KIND NAMESPACE/NAME`, for notes.
    pub(super) place: String,
}

impl<'m> Object<'m> {
    pub(super) fn spec(&self) -> &'m Value {
        &self.value["spec"]
    }

    /// Routes of the same rank: the older one comes first, then that with the lesser name.
    pub(super) fn age(&self) -> (bool, &'m str, &'m str, &'m str) {
        let created = text(&self.value["metadata"]["creationTimestamp"]);
        (created.is_empty(), created, self.namespace, self.name)
    }
}

/// All objects of the manifests.
pub(super) struct Objects<'m> {
    objects: Vec<Object<'m>>,
}

/// A reference from an object to another one.
pub(super) struct Reference<'m> {
    pub(super) group: &'m str,
    pub(super) kind: &'m str,
    pub(super) namespace: &'m str,
    pub(super) name: &'m str,
}

impl<'m> Reference<'m> {
    /// Reads a reference whose kind, group and namespace may be left out.
    pub(super) fn read(
        value: &'m Value,
        (group, kind): (&'m str, &'m str),
        namespace: &'m str,
    ) -> Reference<'m> {
        let or = |field: &str, missing| value[field].as_str().unwrap_or(missing);
        Reference {
            group: or("group", group),
            kind: or("kind", kind),
            namespace: or("namespace", namespace),
            name: text(&value["name"]),
        }
    }
}

impl<'m> Objects<'m> {
    pub(super) fn new(manifests: &'m [Manifest], notes: &mut Vec<String>) -> Objects<'m> {
        let mut objects = Objects { objects: Vec::new() };
        for manifest in manifests {
            objects.add(&manifest.value, &manifest.place, 0, notes);
        }
        objects
    }

    fn add(&mut self, value: &'m Value, place: &str, depth: usize, notes: &mut Vec<String>) {
        let kind = text(&value["kind"]);
        let items = list(&value["items"]);
        if kind.ends_with("List") && depth < DEPTH {
            items.iter().for_each(|item| self.add(item, place, depth + 1, notes));
            return;
        }
        let version = text(&value["apiVersion"]);
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        let name = text(&value["metadata"]["name"]);
        let namespace = value["metadata"]["namespace"].as_str().unwrap_or("default");
        let place = format!("{place} {kind} {namespace}/{name}");
        if PASSED_OVER.contains(&kind) {
            return;
        }
        if !KINDS.contains(&(kind, group)) {
            notes.push(format!("{place} ({version}) is not converted"));
            return;
        }
        if self.find(kind, namespace, name).is_some() {
            notes.push(format!("{place} is there twice: the first one is used"));
            return;
        }
        self.objects.push(Object { kind, namespace, name, value, place });
    }

    pub(super) fn of(&self, kind: &str) -> impl Iterator<Item = &Object<'m>> {
        self.objects.iter().filter(move |object| object.kind == kind)
    }

    pub(super) fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Object<'m>> {
        self.of(kind).find(|object| object.namespace == namespace && object.name == name)
    }

    /// True if an object may refer to one in another namespace: that one has a grant for it.
    pub(super) fn permits(&self, from: &Object<'_>, to: &Reference<'_>) -> bool {
        let is = |value: &Value, what: &str| text(value) == what;
        from.namespace == to.namespace
            || self.of("ReferenceGrant").filter(|grant| grant.namespace == to.namespace).any(
                |grant| {
                    list(&grant.spec()["from"]).iter().any(|allowed| {
                        is(&allowed["group"], GROUP)
                            && is(&allowed["kind"], from.kind)
                            && is(&allowed["namespace"], from.namespace)
                    }) && list(&grant.spec()["to"]).iter().any(|allowed| {
                        is(&allowed["group"], to.group)
                            && is(&allowed["kind"], to.kind)
                            && allowed["name"].as_str().is_none_or(|name| name == to.name)
                    })
                },
            )
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A port; `None` if it is none.
pub(super) fn port(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// Notes the fields of an object that are not converted.
pub(super) fn note_others(value: &Value, known: &[&str], place: &str, notes: &mut Vec<String>) {
    for (field, _) in value.as_object().into_iter().flatten() {
        if !known.contains(&field.as_str()) {
            notes.push(format!("{place}: {field} is not carried over"));
        }
    }
}

/// The reference group and kind of a `Service`.
pub(super) const SERVICE: (&str, &str) = ("", "Service");
/// Those of a `Gateway`.
pub(super) const GATEWAY: (&str, &str) = (GROUP, "Gateway");
