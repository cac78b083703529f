//! A request to an AI model: its model, its provider and the tokens that it used.

use std::cell::Cell;
use std::rc::Rc;

/// A request's call of an AI model.
#[derive(Debug)]
pub struct AiCall {
    /// The client's name for the model.
    pub model: Rc<str>,
    /// The provider that responded, or failed last.
    pub provider: Rc<str>,
    tokens: Cell<Option<AiTokens>>,
}

/// The tokens of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AiTokens {
    pub input: u32,
    pub output: u32,
    /// True if the provider has not reported them.
    pub is_estimate: bool,
}

impl AiCall {
    pub fn new(model: Rc<str>, provider: Rc<str>) -> AiCall {
        AiCall { model, provider, tokens: Cell::new(None) }
    }

    /// The tokens, once they are known: of a stream at its end.
    pub fn tokens(&self) -> Option<AiTokens> {
        self.tokens.get()
    }

    pub fn set_tokens(&self, tokens: AiTokens) {
        self.tokens.set(Some(tokens));
    }
}
