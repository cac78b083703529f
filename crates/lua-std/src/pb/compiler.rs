//! `protoc`: `.proto` files as descriptors. `lua/protoc.lua` loads imports and keeps what is known.

use lua_vm::arguments::function;
use lua_vm::script;
use mlua::{
    Function, IntoLua, IntoLuaMulti, Lua, LuaString, Result, Table, UserData, UserDataMethods,
    Value,
};
use protobuf::source::{self, CustomOption, FoundType, OptionValue, SourceFile, TypeLookup};
use protobuf::{FieldType, well_known};

/// A file that was parsed.
struct Parsed(SourceFile);

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let parse = |lua: &Lua, text: LuaString| {
        let text = text.as_bytes();
        let parsed = match std::str::from_utf8(&text) {
            Ok(text) => source::parse(text).map_err(|error| error.to_string()),
            Err(_) => Err("1:1: the file is not UTF-8".to_owned()),
        };
        match parsed {
            Ok(file) => Parsed(file).into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    };
    raw.set("parse", function(lua, "parse", parse)?)?;
    let known = |_: &Lua, name: String| Ok(well_known(&name));
    raw.set("well_known", lua.create_function(known)?)?;
    raw.set("descriptor", protobuf::DESCRIPTOR)?;
    script::open(lua, "protoc", include_str!("../../../../lua/protoc.lua"), raw)
}

impl UserData for Parsed {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        // The names of the imported files.
        methods.add_method("imports", |_, Parsed(file), ()| {
            let names = file.imports().iter().map(|import| import.name.clone());
            Ok(names.collect::<Vec<String>>())
        });
        // The numbers of the types of what the file declares, by name.
        methods.add_method("declared", |lua, Parsed(file), ()| {
            let found = match file.declared() {
                Ok(found) => found,
                Err(error) => return (Value::Nil, error.to_string()).into_lua_multi(lua),
            };
            let table = lua.create_table()?;
            for (name, kind) in found {
                table.set(name, kind as u8)?;
            }
            table.into_lua_multi(lua)
        });
        // `resolve(known, unknown) → true | nil, reason`
        methods.add_method_mut("resolve", |lua, Parsed(file), functions: (Function, Function)| {
            let (known, unknown) = functions;
            let mut types = KnownTypes { known, unknown, error: None };
            let resolved = file.resolve(&mut types);
            match (types.error, resolved) {
                (Some(error), _) => Err(error),
                (None, Ok(())) => true.into_lua_multi(lua),
                (None, Err(error)) => (Value::Nil, error.to_string()).into_lua_multi(lua),
            }
        });
        methods.add_method("descriptor", |lua, Parsed(file), name: String| {
            lua.create_string(file.descriptor(&name))
        });
        // `set_custom_options(descriptor)`: adds the options that the bytes leave out to the table.
        methods.add_method("set_custom_options", |lua, Parsed(file), descriptor: Table| {
            file.custom_options().iter().try_for_each(|option| set_option(lua, &descriptor, option))
        });
    }
}

fn set_option(lua: &Lua, descriptor: &Table, option: &CustomOption<'_>) -> Result<()> {
    let mut of = descriptor.clone();
    for (list, index) in &option.path {
        of = of.get::<Table>(*list)?.get(index + 1)?;
    }
    let options = match of.get::<Option<Table>>("options")? {
        Some(options) => options,
        None => {
            let options = lua.create_table()?;
            of.set("options", &options)?;
            options
        }
    };
    options.set(option.name.as_str(), option_value(lua, option.value)?)
}

/// The value of an option: a text, a number, a boolean, or the name of a value of an enum.
fn option_value(lua: &Lua, value: &OptionValue) -> Result<Value> {
    match value {
        OptionValue::Word(word) => match word.as_str() {
            "true" => Ok(Value::Boolean(true)),
            "false" => Ok(Value::Boolean(false)),
            word => word.into_lua(lua),
        },
        // As in messages, an integer that is too large is cut to 64 bits.
        OptionValue::Integer(number) => Ok(Value::Integer(*number as i64)),
        OptionValue::Float(number) => Ok(Value::Number(*number)),
        OptionValue::Text(text) => lua.create_string(text).map(Value::String),
        OptionValue::Aggregate(text) => text.as_str().into_lua(lua),
    }
}

/// The types that a script knows.
struct KnownTypes {
    known: Function,
    unknown: Function,
    /// The first error that one of the functions raised.
    error: Option<mlua::Error>,
}

impl KnownTypes {
    fn result<T: Default>(&mut self, result: Result<T>) -> T {
        result.unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            T::default()
        })
    }
}

impl TypeLookup for KnownTypes {
    fn known(&mut self, name: &str) -> Option<FieldType> {
        let number = self.known.call::<Option<u64>>(name);
        FieldType::of_number(self.result(number)?)
    }

    fn unknown(&mut self, name: &str) -> Option<FoundType> {
        let found = self.unknown.call::<(Option<String>, Option<String>)>(name);
        let (name, kind) = self.result(found);
        let kind = FieldType::of_name(kind.as_deref().unwrap_or("message"));
        let kind = kind.filter(|kind| matches!(kind, FieldType::Message | FieldType::Enum));
        Some((name?, kind?))
    }
}
