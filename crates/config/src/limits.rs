//! Limits of a configuration's size. A larger document is an error and cannot exhaust the machine.

/// Bytes of one document.
pub const DOCUMENT_BYTES: usize = 32 << 20;
/// Nodes of one document after aliases were replaced: a million stand for about 100 000 routes.
pub const NODES: usize = 2_000_000;
/// Maximum nesting of maps and lists.
pub const DEPTH: usize = 64;
/// Files that `include` may name in all.
pub const INCLUDED_FILES: usize = 10_000;
/// Bytes of one text after `${NAME}` was replaced.
pub const EXPANDED_BYTES: usize = 1 << 20;
/// Tokens of the admin API: each is compared with that of a request.
pub const ADMIN_TOKENS: usize = 64;
/// Maximum size of an error page.
pub const ERROR_PAGE_BYTES: usize = 1 << 20;
