//! `std::thread`, as far as it is used.

use std::io;

pub use shuttle::thread::{JoinHandle, Scope, ScopedJoinHandle, current, scope, sleep, spawn, yield_now};

/// `std::thread::Builder`. In a model each thread can be started.
#[derive(Debug, Default)]
pub struct Builder {
    name: Option<String>,
}

impl Builder {
    pub fn new() -> Builder {
        Builder::default()
    }

    #[must_use]
    pub fn name(self, name: String) -> Builder {
        Builder { name: Some(name) }
    }

    pub fn spawn<T: Send + 'static>(
        self,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let builder = shuttle::thread::Builder::new();
        match self.name {
            Some(name) => builder.name(name),
            None => builder,
        }
        .spawn(body)
    }

    /// A thread of a scope has no name there.
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        body: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        Ok(scope.spawn(body))
    }
}
