//! The store shared by the processes of an application: keys and values with expiry,
//! publish/subscribe channels, and background jobs.
//!
//! Owns the database ([`Database`]), the RESP server on a Unix socket that gives other processes
//! access to it ([`StoreServer`]), and its client ([`Client`]), which offers the same calls for a
//! database in its own process, and calls a Redis server too. Promises bounded memory everywhere,
//! that a publisher never waits for a subscriber, and that a slow command delays only users of the
//! same store: the server has its own thread. Nothing is written to disk; the data is lost when the
//! process that holds it ends.

pub mod client;
mod commands;
mod connection;
mod cron;
mod database;
pub mod limits;
pub mod map;
mod metrics;
pub mod pubsub;
mod redis_address;
mod redis_url;
mod reply_writer;
mod server;
mod session;
pub mod subscriber_queue;
mod task_store_url;
mod tasks;
pub mod value;

pub use client::{CallResult, Client, PendingReply, Reply, Request, StoreError, Subscription};
pub use cron::Cron;
pub use database::Database;
pub use metrics::StoreMetrics;
pub use redis_address::RedisAddress;
pub use redis_url::RedisUrl;
pub use server::StoreServer;
pub use subscriber_queue::{Message, QueueClosed, SubscriberQueue};
pub use task_store_url::TaskStoreUrl;
pub use tasks::{TaskCounts, TaskLoad};
pub use value::Value;
