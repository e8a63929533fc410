//! `arc_swap::ArcSwap`, as far as it is used: each load and each swap is a choice of who goes on.

use std::ops::Deref;
use std::sync::Arc;

use super::RwLock;

/// `arc_swap::ArcSwap`.
#[derive(Debug)]
pub struct ArcSwap<T>(RwLock<Arc<T>>);

impl<T> ArcSwap<T> {
    pub fn new(value: Arc<T>) -> ArcSwap<T> {
        ArcSwap(RwLock::new(value))
    }

    pub fn load(&self) -> ArcGuard<T> {
        ArcGuard(self.load_full())
    }

    pub fn load_full(&self) -> Arc<T> {
        Arc::clone(&self.0.read())
    }

    pub fn swap(&self, value: Arc<T>) -> Arc<T> {
        std::mem::replace(&mut *self.0.write(), value)
    }
}

/// `arc_swap::Guard`.
#[derive(Debug)]
pub struct ArcGuard<T>(Arc<T>);

impl<T> Deref for ArcGuard<T> {
    type Target = Arc<T>;

    fn deref(&self) -> &Arc<T> {
        &self.0
    }
}
