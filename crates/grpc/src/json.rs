//! `grpc_json`: HTTP with JSON for gRPC services, by the rules of `google.api.http`.
//!
//! A request that matches a rule becomes a call, its response JSON again. Messages are translated
//! as a whole, one at a time; a stream of them is one line of JSON each.

mod binding;
mod errors;
mod fields;
mod filter;
mod request;
mod response;
mod template;
mod translating;

use std::rc::Rc;
use std::sync::Arc;

use plugin::{FilterKind, FilterPlan, Stage, WorkerContext};
use prost_reflect::{DescriptorPool, SerializeOptions};
use settings::{FilePath, Node, Reader, Setting, Size, Spanned};

use binding::{Binding, Leniency};
use errors::ErrorWriter;
use filter::GrpcJsonFilter;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "grpc_json", schema: GrpcJson::schema, read };

/// Translates HTTP with JSON to gRPC, by the `google.api.http` options of the methods.
///
/// The content of a request is one JSON value, or a line of JSON for each message of a stream;
/// responses likewise. A `google.api.HttpBody` is any content with its type. A failed call gets the
/// HTTP status of its code and a `google.rpc.Status` as JSON. gRPC requests pass unchanged; a
/// request that no rule matches gets 404 or 405.
#[derive(Clone, Debug, PartialEq, Setting)]
struct GrpcJson {
    /// The services as a descriptor file:
    /// `protoc --include_imports --descriptor_set_out=api.pb api.proto`.
    #[setting(example = "api.pb")]
    descriptors: Spanned<FilePath>,
    /// The services to offer, with their packages; unless set, all that have options.
    #[setting(default = [], example = ["shop.v1.Orders"])]
    services: Vec<Spanned<String>>,
    /// Also offers every method under its name: `POST /shop.v1.Orders/Get`.
    #[setting(default = false)]
    by_name: bool,
    /// Largest message, in JSON and in protobuf.
    #[setting(default = "4MiB", range = "1KiB"..="64MiB")]
    message: Size,
    /// What happens to fields that the message does not have, in content and query.
    #[setting(default = "reject")]
    unknown_fields: UnknownFields,
    /// How messages are written as JSON.
    #[setting(default = {})]
    print: PrintSettings,
}

/// What happens to unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Setting)]
enum UnknownFields {
    /// The request is rejected with 400.
    Reject,
    /// They are left out.
    Ignore,
}

/// How messages are written as JSON.
#[derive(Clone, Debug, PartialEq, Setting)]
struct PrintSettings {
    /// Also writes fields that have their default value.
    #[setting(default = false)]
    defaults: bool,
    /// Writes the names of the descriptor file, `order_id`, instead of `orderId`.
    #[setting(default = false)]
    proto_names: bool,
    /// Writes enums as numbers.
    #[setting(default = false)]
    enum_numbers: bool,
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = GrpcJson::read(node, reader)?;
    let file = &settings.descriptors;
    let bytes = reader.read_file(file.span, &file.value)?;
    let mut fail = |why: String| {
        let message = format!("{} cannot be used: {why}", file.value.display());
        reader.error(file.span, message);
    };
    let mut pool = match DescriptorPool::decode(&*bytes) {
        Ok(pool) => pool,
        Err(error) => {
            fail(error.to_string());
            return None;
        }
    };
    let errors = ErrorWriter::new(&mut pool).map_err(&mut fail).ok()?;
    let mut services = Vec::new();
    for service in &settings.services {
        if pool.get_service_by_name(&service.value).is_none() {
            let known: Vec<String> = pool.services().map(|it| it.full_name().to_owned()).collect();
            let known = known.iter().map(String::as_str);
            reader.report().unknown(service.span, "service", &service.value, known);
            return None;
        }
        services.push(service.value.clone());
    }
    let bindings = match binding::bindings(&pool, &services, settings.by_name) {
        Ok(bindings) => bindings,
        Err(why) => {
            let message = format!("{} cannot be used: {why}", file.value.display());
            reader.error(file.span, message);
            return None;
        }
    };
    let print = &settings.print;
    Some(Arc::new(GrpcJsonPlan {
        translation: Arc::new(Translation {
            bindings,
            errors,
            message_max: usize::try_from(settings.message.bytes()).unwrap_or(usize::MAX),
            lenient: Leniency { unknown_fields: settings.unknown_fields == UnknownFields::Ignore },
            print: SerializeOptions::new()
                .skip_default_fields(!print.defaults)
                .use_proto_field_name(print.proto_names)
                .use_enum_numbers(print.enum_numbers),
            proto_names: print.proto_names,
        }),
    }))
}

/// What requests are translated by; shared by all workers.
pub(crate) struct Translation {
    /// The more exact ones first.
    bindings: Vec<Binding>,
    errors: ErrorWriter,
    message_max: usize,
    lenient: Leniency,
    print: SerializeOptions,
    proto_names: bool,
}

struct GrpcJsonPlan {
    translation: Arc<Translation>,
}

impl FilterPlan for GrpcJsonPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(GrpcJsonFilter::new(self.translation.clone())))
    }

    fn describe(&self) -> String {
        format!("{} paths", self.translation.bindings.len())
    }
}

#[cfg(test)]
mod tests;
