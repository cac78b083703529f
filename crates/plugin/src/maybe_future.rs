//! The result of a hook, which may have to be waited for.

use message::LocalFuture;

/// A result, or a future of it where it has to be waited for.
pub enum MaybeFuture<'a, T> {
    Ready(T),
    Future(LocalFuture<'a, T>),
}

impl<'a, T> MaybeFuture<'a, T> {
    /// Boxes a future.
    pub fn of(future: impl Future<Output = T> + 'a) -> MaybeFuture<'a, T> {
        MaybeFuture::Future(Box::pin(future))
    }

    /// Waits for the result, unless it is there.
    #[inline]
    pub async fn resolve(self) -> T {
        match self {
            MaybeFuture::Ready(value) => value,
            MaybeFuture::Future(future) => future.await,
        }
    }
}

impl<T> From<T> for MaybeFuture<'_, T> {
    #[inline]
    fn from(value: T) -> Self {
        MaybeFuture::Ready(value)
    }
}
