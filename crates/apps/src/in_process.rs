//! Applications that run in this process, by name: the queue of their requests.
//!
//! Set before a plan is built, by the code that runs the application, and alive as long as it is
//! referenced.

use std::sync::{Arc, OnceLock};

use offload::RequestQueue;
use plugin::Shared;

/// The queue of one application.
#[derive(Default)]
pub struct InProcess(OnceLock<Arc<RequestQueue>>);

impl InProcess {
    pub fn of(shared: &Shared, app: &str) -> Arc<InProcess> {
        shared.get(app.to_owned(), InProcess::default)
    }

    /// Sets the queue from which the application takes its requests.
    pub fn set(&self, queue: Arc<RequestQueue>) {
        // The first queue stays: a process runs an application once.
        let _ = self.0.set(queue);
    }

    /// The queue of its requests; none if it runs in another process.
    pub fn queue(&self) -> Option<Arc<RequestQueue>> {
        self.0.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_found_by_name() {
        let shared = Shared::default();
        let in_process = InProcess::of(&shared, "shop");
        assert!(InProcess::of(&shared, "shop").queue().is_none());
        in_process.set(RequestQueue::new(1, || {}));
        assert!(InProcess::of(&shared, "shop").queue().is_some());
        assert!(InProcess::of(&shared, "blog").queue().is_none());
    }
}
