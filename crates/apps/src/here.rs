//! Applications that run in this very process, by name: where their requests are put.
//!
//! Set before a Plan is built, by whoever runs the application. It lives as long as somebody holds
//! it.

use std::sync::{Arc, OnceLock};

use exchange::Shared;
use exchange::offload::RequestQueue;

/// The place of one application.
#[derive(Default)]
pub struct Here(OnceLock<Arc<RequestQueue>>);

impl Here {
    pub fn of(shared: &Shared, app: &str) -> Arc<Here> {
        shared.get(app.to_owned(), Here::default)
    }

    /// It runs here, and takes its requests from this desk.
    pub fn set(&self, desk: Arc<RequestQueue>) {
        // The first desk stays: a process runs an application once.
        let _ = self.0.set(desk);
    }

    /// Where its requests go; none where it runs elsewhere.
    pub fn desk(&self) -> Option<Arc<RequestQueue>> {
        self.0.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_the_name_finds_the_desk() {
        let shared = Shared::default();
        let here = Here::of(&shared, "shop");
        assert!(Here::of(&shared, "shop").desk().is_none());
        here.set(RequestQueue::new(1, || {}));
        assert!(Here::of(&shared, "shop").desk().is_some());
        assert!(Here::of(&shared, "blog").desk().is_none());
    }
}
