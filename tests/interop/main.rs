//! Interoperation with programs that others wrote: clients in front of us, servers behind us. A
//! test whose program is not installed says so and passes; without the packages that
//! `scripts/prepare` has to install, some tests fail.

mod ab;
mod browser;
mod cache;
mod cluster;
mod console;
mod curl;
mod etcd;
mod etcd_canary;
mod etcd_configuration;
mod etcd_discovery;
mod etcd_nodes;
mod etcd_tickets;
mod fleet;
mod flood_cost;
mod game_server;
mod grpc;
mod http2;
mod http2_servers;
mod lua_grpc;
mod lua_pb;
mod monitoring;
mod mysql;
mod network_faults;
mod nginx;
mod oidc;
mod openssl;
mod otlp;
mod paths;
mod postgres;
mod pprof;
mod purges;
mod python_server;
mod redis;
mod shared_limits;
mod shared_state;
mod signatures;
mod tokens;
mod tools;
mod translation;
mod websocket;
mod wrk;
