//! Options that descriptors have no field for: those that are extensions.

use super::options::{
    Known, OF_ENUM, OF_ENUM_VALUE, OF_FIELD, OF_FILE, OF_MESSAGE, OF_METHOD, OF_SERVICE,
    OptionValue,
};
use super::{Enum, FieldDeclaration, Message, SourceFile, TypeDeclaration};

/// A step from a descriptor to one within it: a repeated field, and an index that counts from 0.
pub type DescriptorStep = (&'static str, usize);

/// An option that a descriptor has no field for.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomOption<'a> {
    /// From the descriptor of the file to the one that the option is of.
    pub path: Vec<DescriptorStep>,
    /// The name without parentheses.
    pub name: String,
    pub value: &'a OptionValue,
}

impl SourceFile {
    /// The custom options of the file and of all that it declares.
    pub fn custom_options(&self) -> Vec<CustomOption<'_>> {
        let mut collector = Collector { path: Vec::new(), found: Vec::new() };
        collector.options(&self.options, OF_FILE);
        collector.declarations(&self.types, ("message_type", "enum_type"));
        collector.fields("extension", &self.extensions);
        for (index, service) in self.services.iter().enumerate() {
            collector.within(("service", index), |collector| {
                collector.options(&service.options, OF_SERVICE);
                for (index, method) in service.methods.iter().enumerate() {
                    collector.within(("method", index), |collector| {
                        collector.options(&method.options, OF_METHOD);
                    });
                }
            });
        }
        collector.found
    }
}

struct Collector<'a> {
    path: Vec<DescriptorStep>,
    found: Vec<CustomOption<'a>>,
}

impl<'a> Collector<'a> {
    fn within(&mut self, step: DescriptorStep, collect: impl FnOnce(&mut Self)) {
        self.path.push(step);
        collect(self);
        self.path.pop();
    }

    fn options(&mut self, given: &'a [(String, OptionValue)], known: &[Known]) {
        for (name, value) in given {
            if known.iter().all(|known| known.0 != name) {
                let name = name.replace(['(', ')'], "");
                self.found.push(CustomOption { path: self.path.clone(), name, value });
            }
        }
    }

    /// Messages and enums, which are in lists of these two names.
    fn declarations(&mut self, types: &'a [TypeDeclaration], names: (&'static str, &'static str)) {
        let (mut messages, mut enums) = (0, 0);
        for declared in types {
            match declared {
                TypeDeclaration::Message(message) => {
                    self.within((names.0, messages), |collector| collector.message(message));
                    messages += 1;
                }
                TypeDeclaration::Enum(declared) => {
                    self.within((names.1, enums), |collector| collector.enumeration(declared));
                    enums += 1;
                }
            }
        }
    }

    fn message(&mut self, message: &'a Message) {
        self.options(&message.options, OF_MESSAGE);
        self.fields("field", &message.fields);
        self.fields("extension", &message.extensions);
        self.declarations(&message.types, ("nested_type", "enum_type"));
    }

    fn enumeration(&mut self, declared: &'a Enum) {
        self.options(&declared.options, OF_ENUM);
        for (index, value) in declared.values.iter().enumerate() {
            self.within(("value", index), |collector| {
                collector.options(&value.options, OF_ENUM_VALUE);
            });
        }
    }

    fn fields(&mut self, list: &'static str, fields: &'a [FieldDeclaration]) {
        for (index, field) in fields.iter().enumerate() {
            // Descriptors have these two next to the options.
            let given =
                field.options.iter().filter(|(name, _)| name != "default" && name != "json_name");
            self.within((list, index), |collector| {
                for option in given {
                    collector.options(std::slice::from_ref(option), OF_FIELD);
                }
            });
        }
    }
}
