//! Finds the types that a file refers to.

use super::{FieldDeclaration, Message, SourceError, SourceFile, TypeDeclaration};
use crate::FieldType;

/// A name that was found, and whether it is a message or an enum.
pub type FoundType = (String, FieldType);

/// Looks up types that the file does not declare.
pub trait TypeLookup {
    /// The type with this full name, which begins with a dot.
    fn known(&mut self, name: &str) -> Option<FieldType>;

    /// What to take for a name that was not found.
    fn unknown(&mut self, name: &str) -> Option<FoundType>;
}

/// A reference that is to be resolved.
struct Scope<'a, L> {
    lookup: &'a mut L,
    /// The declarations of the file by full name.
    declared: &'a [FoundType],
}

impl<L: TypeLookup> Scope<'_, L> {
    fn known(&mut self, name: &str) -> Option<FieldType> {
        let at = self.declared.binary_search_by(|found| found.0.as_str().cmp(name));
        at.ok().map(|at| self.declared[at].1).or_else(|| self.lookup.known(name))
    }

    /// Searches from the inner scope outwards.
    fn find(&mut self, scope: &str, name: &str) -> Option<FoundType> {
        if name.starts_with('.') {
            let kind = self.known(name);
            return kind.map(|kind| (name.to_owned(), kind)).or_else(|| self.lookup.unknown(name));
        }
        let mut scope = scope;
        loop {
            let candidate = format!("{scope}.{name}");
            if let Some(kind) = self.known(&candidate) {
                return Some((candidate, kind));
            }
            if scope.is_empty() {
                return self.lookup.unknown(name);
            }
            scope = scope.rfind('.').map_or("", |dot| &scope[..dot]);
        }
    }
}

/// A type that was not found, and where it is named.
type Missing = (usize, String);

impl SourceFile {
    /// The full names of the messages and enums that the file declares, sorted; an error if two are
    /// the same.
    pub fn declared(&self) -> Result<Vec<FoundType>, SourceError> {
        fn collect(
            types: &[TypeDeclaration],
            scope: &str,
            found: &mut Vec<(String, FieldType, usize)>,
        ) {
            for declared in types {
                match declared {
                    TypeDeclaration::Message(message) => {
                        let name = format!("{scope}.{}", message.name);
                        collect(&message.types, &name, found);
                        found.push((name, FieldType::Message, message.position));
                    }
                    TypeDeclaration::Enum(declared) => {
                        let name = format!("{scope}.{}", declared.name);
                        found.push((name, FieldType::Enum, declared.position));
                    }
                }
            }
        }
        let mut found = Vec::new();
        collect(&self.types, &self.scope(), &mut found);
        found.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.cmp(&b.2)));
        if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let message = format!("the type '{}' is declared already", pair[1].0);
            return Err(self.error(pair[1].2, message));
        }
        Ok(found.into_iter().map(|(name, kind, _)| (name, kind)).collect())
    }

    /// Replaces the names of types by full names.
    pub fn resolve(&mut self, lookup: &mut impl TypeLookup) -> Result<(), SourceError> {
        let declared = self.declared()?;
        let mut scope = Scope { lookup, declared: &declared };
        let package = self.scope();
        let resolved = resolve_types(&mut self.types, &package, &mut scope)
            .and_then(|()| resolve_fields(&mut self.extensions, &package, &mut scope))
            .and_then(|()| self.resolve_methods(&package, &mut scope));
        resolved.map_err(|(position, name)| {
            self.error(position, format!("unknown type '{name}'; is its file imported?"))
        })
    }

    fn resolve_methods<L: TypeLookup>(
        &mut self,
        package: &str,
        scope: &mut Scope<'_, L>,
    ) -> Result<(), Missing> {
        for method in self.services.iter_mut().flat_map(|service| &mut service.methods) {
            let position = method.position;
            for name in [&mut method.input, &mut method.output] {
                match scope.find(package, name) {
                    Some((full, FieldType::Message)) => *name = full,
                    _ => return Err((position, name.clone())),
                }
            }
        }
        Ok(())
    }
}

fn resolve_types<L: TypeLookup>(
    types: &mut [TypeDeclaration],
    package: &str,
    scope: &mut Scope<'_, L>,
) -> Result<(), Missing> {
    for declared in types {
        if let TypeDeclaration::Message(message) = declared {
            resolve_message(message, package, scope)?;
        }
    }
    Ok(())
}

fn resolve_message<L: TypeLookup>(
    message: &mut Message,
    outer: &str,
    scope: &mut Scope<'_, L>,
) -> Result<(), Missing> {
    let inner = format!("{outer}.{}", message.name);
    resolve_fields(&mut message.fields, &inner, scope)?;
    resolve_fields(&mut message.extensions, &inner, scope)?;
    resolve_types(&mut message.types, &inner, scope)
}

fn resolve_fields<L: TypeLookup>(
    fields: &mut [FieldDeclaration],
    inner: &str,
    scope: &mut Scope<'_, L>,
) -> Result<(), Missing> {
    for field in fields {
        if !field.extendee.is_empty() {
            let found = scope.find(inner, &field.extendee);
            let found = found.ok_or_else(|| (field.position, field.extendee.clone()))?;
            field.extendee = found.0;
        }
        if field.type_name.is_empty() {
            continue;
        }
        let found = scope.find(inner, &field.type_name);
        let (name, kind) = found.ok_or_else(|| (field.position, field.type_name.clone()))?;
        field.type_name = name;
        // A group has its type from the parser.
        field.kind = field.kind.or(Some(kind));
    }
    Ok(())
}
