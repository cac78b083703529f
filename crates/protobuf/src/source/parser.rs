//! The grammar: tokens to declarations.

use super::lexer::{Lexer, Token};
use super::{
    Enum, EnumValue, Import, Message, Method, Service, SourceError, SourceFile, TypeDeclaration,
};
use crate::{DEPTH_MAX, FIELD_NUMBER_MAX};

pub(super) type Parsed<T> = Result<T, SourceError>;

pub(super) struct Parser<'a> {
    pub(super) lexer: Lexer<'a>,
    pub(super) token: Token<'a>,
    /// Where the token begins.
    pub(super) at: usize,
    /// Once it is declared.
    pub(super) syntax: Option<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Parser<'a> {
        Parser { lexer: Lexer { text, at: 0 }, token: Token::End, at: 0, syntax: None }
    }

    pub(super) fn advance(&mut self) -> Parsed<Token<'a>> {
        let (token, at) = self.lexer.token()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, token))
    }

    pub(super) fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(self.lexer.error(self.at, message))
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        self.error(format!("{what} expected, got {}", self.token.describe()))
    }

    pub(super) fn is_symbol(&self, symbol: char) -> bool {
        self.token == Token::Symbol(symbol)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.token == Token::Word(word)
    }

    pub(super) fn eat(&mut self, symbol: char) -> Parsed<bool> {
        let is_there = self.is_symbol(symbol);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    pub(super) fn eat_word(&mut self, word: &str) -> Parsed<bool> {
        let is_there = self.is_word(word);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    pub(super) fn expect(&mut self, symbol: char) -> Parsed<()> {
        if self.eat(symbol)? { Ok(()) } else { self.expected(&format!("'{symbol}'")) }
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<String> {
        let Token::Word(word) = self.token else { return self.expected(what) };
        self.advance()?;
        Ok(word.to_owned())
    }

    /// Words with dots between them; also before them if `may_be_absolute`.
    pub(super) fn full_name(&mut self, what: &str, may_be_absolute: bool) -> Parsed<String> {
        let mut name = String::new();
        if may_be_absolute && self.eat('.')? {
            name.push('.');
        }
        loop {
            name.push_str(&self.word(what)?);
            if !self.eat('.')? {
                return Ok(name);
            }
            name.push('.');
        }
    }

    /// A number with or without a sign, within bounds.
    pub(super) fn integer(&mut self, what: &str, least: i64, most: i64) -> Parsed<i64> {
        let (at, is_negative) = (self.at, self.eat('-')?);
        let Token::Integer(number) = self.token else { return self.expected(what) };
        let number = i64::try_from(number).map(|number| if is_negative { -number } else { number });
        match number {
            Ok(number) if (least..=most).contains(&number) => {
                self.advance()?;
                Ok(number)
            }
            _ => {
                let message = format!("{what} is not between {least} and {most}");
                Err(self.lexer.error(at, message))
            }
        }
    }

    /// One string, or several that belong together.
    pub(super) fn text(&mut self) -> Parsed<Vec<u8>> {
        let Token::Text(mut all) = self.token.clone() else { return self.expected("a string") };
        self.advance()?;
        while let Token::Text(next) = &self.token {
            all.extend_from_slice(next);
            self.advance()?;
        }
        Ok(all)
    }

    pub(super) fn name_text(&mut self) -> Parsed<String> {
        let at = self.at;
        let text = self.text()?;
        String::from_utf8(text).map_err(|_| self.lexer.error(at, "a string that is not UTF-8"))
    }

    /// The end of a statement; its semicolon may be missing.
    pub(super) fn end(&mut self) -> Parsed<()> {
        while self.eat(';')? {}
        Ok(())
    }

    pub(super) fn file(mut self) -> Parsed<SourceFile> {
        let mut file = SourceFile::default();
        let line_ends = self.lexer.text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        file.line_ends = line_ends.map(|(at, _)| at).collect();
        self.advance()?;
        self.end()?;
        while self.token != Token::End {
            self.declaration(&mut file)?;
            self.end()?;
        }
        file.syntax = self.syntax;
        Ok(file)
    }

    fn declaration(&mut self, file: &mut SourceFile) -> Parsed<()> {
        let Token::Word(word) = self.token else { return self.expected("a declaration") };
        match word {
            "syntax" => self.syntax()?,
            "edition" => return self.error("editions are not supported: proto2 and proto3 are"),
            "package" => {
                self.advance()?;
                if !file.package.is_empty() {
                    return self.error("the file has a package already");
                }
                file.package = self.full_name("a package name", false)?;
            }
            "import" => file.imports.push(self.import()?),
            "option" => file.options.push(self.option()?),
            "message" => file.types.push(TypeDeclaration::Message(self.message(DEPTH_MAX)?)),
            "enum" => file.types.push(TypeDeclaration::Enum(self.enumeration()?)),
            "extend" => {
                let (fields, groups) = self.extend(DEPTH_MAX)?;
                file.extensions.extend(fields);
                file.types.extend(groups.into_iter().map(TypeDeclaration::Message));
            }
            "service" => file.services.push(self.service()?),
            _ => return self.expected("message, enum, service, extend, import, package or option"),
        }
        Ok(())
    }

    fn syntax(&mut self) -> Parsed<()> {
        self.advance()?;
        self.expect('=')?;
        let at = self.at;
        let syntax = self.name_text()?;
        if syntax != "proto2" && syntax != "proto3" {
            let message = format!("unknown syntax '{syntax}': 'proto2' or 'proto3' expected");
            return Err(self.lexer.error(at, message));
        }
        self.syntax = Some(syntax);
        Ok(())
    }

    fn import(&mut self) -> Parsed<Import> {
        self.advance()?;
        let is_weak = self.eat_word("weak")?;
        let is_public = self.eat_word("public")?;
        Ok(Import { name: self.name_text()?, is_public, is_weak })
    }

    pub(super) fn message(&mut self, depth: usize) -> Parsed<Message> {
        self.advance()?;
        let position = self.at;
        let name = self.word("a message name")?;
        self.message_body(name, position, depth)
    }

    pub(super) fn message_body(
        &mut self,
        name: String,
        position: usize,
        depth: usize,
    ) -> Parsed<Message> {
        let Some(depth) = depth.checked_sub(1) else {
            return self.error("messages are nested too deep");
        };
        let mut message = Message { name, position, ..Message::default() };
        self.expect('{')?;
        self.end()?;
        while !self.eat('}')? {
            self.member(&mut message, depth)?;
            self.end()?;
        }
        self.check_fields(&message)?;
        Ok(message)
    }

    fn member(&mut self, message: &mut Message, depth: usize) -> Parsed<()> {
        let Token::Word(word) = self.token else {
            return if self.is_symbol('.') {
                self.field(message, None, depth)
            } else {
                self.expected("a field")
            };
        };
        match word {
            "message" => message.types.push(TypeDeclaration::Message(self.message(depth)?)),
            "enum" => message.types.push(TypeDeclaration::Enum(self.enumeration()?)),
            "extend" => {
                let (fields, groups) = self.extend(depth)?;
                message.extensions.extend(fields);
                message.types.extend(groups.into_iter().map(TypeDeclaration::Message));
            }
            "option" => message.options.push(self.option()?),
            "oneof" => self.oneof(message, depth)?,
            "extensions" => {
                self.advance()?;
                self.ranges(&mut message.extension_ranges, 1, FIELD_NUMBER_MAX)?;
                self.bracketed_options()?;
            }
            "reserved" => {
                let bounds = (1, FIELD_NUMBER_MAX);
                self.reserved(&mut message.reserved_ranges, &mut message.reserved_names, bounds)?;
            }
            _ => self.field(message, None, depth)?,
        }
        Ok(())
    }

    fn oneof(&mut self, message: &mut Message, depth: usize) -> Parsed<()> {
        self.advance()?;
        let name = self.word("a oneof name")?;
        let index = message.oneofs.len();
        message.oneofs.push(name);
        self.expect('{')?;
        self.end()?;
        while !self.eat('}')? {
            if self.is_word("option") {
                self.option()?;
            } else {
                self.field(message, Some(index), depth)?;
            }
            self.end()?;
        }
        Ok(())
    }

    /// `reserved 1, 3 to 5` or `reserved "a", b`
    fn reserved(
        &mut self,
        ranges: &mut Vec<(i64, i64)>,
        names: &mut Vec<String>,
        (least, most): (i64, i64),
    ) -> Parsed<()> {
        self.advance()?;
        if matches!(self.token, Token::Integer(_) | Token::Symbol('-')) {
            return self.ranges(ranges, least, most);
        }
        loop {
            names.push(match self.token {
                Token::Text(_) => self.name_text()?,
                _ => self.word("a name or a number")?,
            });
            if !self.eat(',')? {
                return Ok(());
            }
        }
    }

    /// `1, 3 to 5, 7 to max`
    fn ranges(&mut self, ranges: &mut Vec<(i64, i64)>, least: i64, most: i64) -> Parsed<()> {
        loop {
            let first = self.integer("a number", least, most)?;
            let last = if !self.eat_word("to")? {
                first
            } else if self.eat_word("max")? {
                most
            } else {
                self.integer("a number", first, most)?
            };
            ranges.push((first, last));
            if !self.eat(',')? {
                return Ok(());
            }
        }
    }

    pub(super) fn enumeration(&mut self) -> Parsed<Enum> {
        self.advance()?;
        let position = self.at;
        let mut found = Enum { name: self.word("an enum name")?, position, ..Enum::default() };
        let bounds = (i64::from(i32::MIN), i64::from(i32::MAX));
        self.expect('{')?;
        self.end()?;
        while !self.eat('}')? {
            let is_value = |parser: &Parser<'_>| {
                let mut ahead = parser.lexer.clone();
                ahead.token().is_ok_and(|(token, _)| token == Token::Symbol('='))
            };
            if self.is_word("option") && !is_value(self) {
                let option = self.option()?;
                found.options.push(option);
            } else if self.is_word("reserved") && !is_value(self) {
                self.reserved(&mut found.reserved_ranges, &mut found.reserved_names, bounds)?;
            } else {
                let name = self.word("a value's name")?;
                self.expect('=')?;
                let number = self.integer("the number of a value", bounds.0, bounds.1)?;
                let options = self.bracketed_options()?;
                found.values.push(EnumValue { name, number, options });
            }
            self.end()?;
        }
        Ok(found)
    }

    fn service(&mut self) -> Parsed<Service> {
        self.advance()?;
        let name = self.word("a service name")?;
        let (mut methods, mut options) = (Vec::new(), Vec::new());
        self.expect('{')?;
        self.end()?;
        while !self.eat('}')? {
            if self.is_word("option") {
                options.push(self.option()?);
            } else if self.is_word("rpc") {
                methods.push(self.method()?);
            } else {
                return self.expected("rpc or option");
            }
            self.end()?;
        }
        Ok(Service { name, methods, options })
    }

    fn method(&mut self) -> Parsed<Method> {
        self.advance()?;
        let position = self.at;
        let name = self.word("a method name")?;
        let (input, is_client_streaming) = self.message_of_method()?;
        if !self.eat_word("returns")? {
            return self.expected("'returns'");
        }
        let (output, is_server_streaming) = self.message_of_method()?;
        let mut options = Vec::new();
        if self.eat('{')? {
            self.end()?;
            while !self.eat('}')? {
                if !self.is_word("option") {
                    return self.expected("option or '}'");
                }
                options.push(self.option()?);
                self.end()?;
            }
        }
        Ok(Method {
            name,
            input,
            output,
            is_client_streaming,
            is_server_streaming,
            options,
            position,
        })
    }

    fn message_of_method(&mut self) -> Parsed<(String, bool)> {
        self.expect('(')?;
        let mut is_stream = self.eat_word("stream")?;
        let name = if is_stream && self.is_symbol(')') {
            // A message that is called stream.
            is_stream = false;
            "stream".to_owned()
        } else {
            self.full_name("a message name", true)?
        };
        self.expect(')')?;
        Ok((name, is_stream))
    }
}
