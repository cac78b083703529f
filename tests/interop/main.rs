//! Interoperation with programs that others wrote: clients in front of us, servers behind us. A
//! test whose program is not installed says so and passes.

mod ab;
mod browser;
mod cache;
mod cluster;
mod console;
mod curl;
mod etcd;
mod etcd_configuration;
mod etcd_discovery;
mod flood_cost;
mod grpc;
mod http2;
mod http2_servers;
mod lua_grpc;
mod lua_pb;
mod mysql;
mod nginx;
mod oidc;
mod openssl;
mod paths;
mod postgres;
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
