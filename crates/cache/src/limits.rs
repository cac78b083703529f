//! Every bound of this crate, by name.

/// Longest key; a request whose key would be longer is not cached.
pub const KEY_BYTES_MAX: usize = 8 * 1024;
/// Query parameters that are sorted or chosen among; a request with more is not cached.
pub const KEY_PARAMS_MAX: usize = 64;
/// Longest stored head.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Shards of a store in memory: many more than workers, so that two insertions seldom meet.
pub const SHARDS_MAX: usize = 64;
/// Memory that makes a shard: with less, what is in it is too few to choose a victim among.
pub const SHARD_MEMORY_MIN: u64 = 512 * 1024;
/// An object weighs at most this part of a store's memory.
pub const OBJECT_PART: u64 = 4;
/// Objects that an eviction looks at before it takes the one in front of it, however much it is
/// used.
pub const EVICTION_STEPS: usize = 128;
/// Objects that an insertion looks at, whether their time is over.
pub const SWEEP_INSERT: usize = 4;
/// Objects looked at under one lock by a sweep, a purge or a listing.
pub const SLICE_OBJECTS: usize = 256;
/// Objects listed at once.
pub const LIST_MAX: usize = 1000;
/// Slices looked through for one page of a list.
pub const LIST_SLICES_MAX: usize = 256;
/// Places for the times of purges, of URLs and of tags: a power of two. Those that share a place
/// cost each other a fetch that is not stored.
pub const PURGE_TIMES: usize = 4096;
/// Prefixes of recent purges that are remembered for fetches that began before them.
pub const PURGE_PREFIXES_MAX: usize = 64;
/// Names that one part of a key may list.
pub const KEY_PARTS_MAX: usize = 64;
/// Languages that one entry may list.
pub const LANGUAGES_MAX: usize = 64;
/// Fetches of one cache that others may join.
pub const IN_FLIGHT_MAX: usize = 16 * 1024;
/// What all fills under way of one cache may store_content in memory: as much as its store, within
/// these.
pub const FILLS_BYTES_MIN: u64 = 16 * 1024 * 1024;
pub const FILLS_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Decoded bytes per coded byte of a body, above the first mebibyte: what gzip can come to.
pub const DECODED_RATIO_MAX: u64 = 1100;
/// Coded bytes that are decoded at once for a client that does not take the coding, and decoded
/// bytes that wait for it.
pub const DECODED_STEP_BYTES: usize = 16 * 1024;
pub const DECODED_AHEAD_BYTES: usize = 64 * 1024;
/// Bytes of a response that is not stored that are read and dropped to reach the part that a client
/// asked for; for a later part the origin is asked a second time.
pub const SKIPPED_BYTES_MAX: u64 = 1024 * 1024;
/// Parts of one response that is too long to be stored whole.
pub const PARTS_MAX: usize = 16;
/// How often a request that waited for others looks again before it goes for itself.
pub const JOIN_ATTEMPTS_MAX: usize = 8;

/// Request fields that one response may vary by.
pub const VARY_FIELDS_MAX: usize = 16;
/// Tags and groups of one response; one with more is not stored, or a purge could miss it.
pub const TAGS_MAX: usize = 1024;
/// How long past any use but this a response is kept that the origin can be asked about.
pub const VALIDATOR_KEEP_S: u32 = 24 * 60 * 60;
/// How long, at most, a failing origin is left alone where something stale can be served.
pub const REST_S: u64 = 2;

/// Objects that a worker has at hand of one store.
pub const WORKER_CACHE_SLOTS: usize = 512;
/// Bytes that it keeps alive for them: this part of the cache's memory, within these.
pub const WORKER_CACHE_FRACTION: u64 = 32;
pub const WORKER_CACHE_BYTES_MIN: u64 = 256 * 1024;
pub const WORKER_CACHE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Longest Accept-Encoding whose choice is remembered with an object at hand.
pub const HOT_ACCEPT_ENCODING_BYTES_MAX: usize = 128;
/// Content up to this is copied for the worker that has it at hand.
pub const HOT_BODY_BYTES_MAX: usize = 1024;
/// Content from this length is held as a file that is memory, to be sent without a copy.
pub const MEMORY_FILE_BYTES_MIN: u64 = 64 * 1024;

/// Longest description (key, facts and head) of an object on disk.
pub const DISK_HEAD_BYTES_MAX: usize = 256 * 1024;
/// What waits to be written to disk is at most this part of the cache's memory, within these; more
/// is not written.
pub const DISK_QUEUE_PART: u64 = 4;
pub const DISK_QUEUE_BYTES_MIN: u64 = 4 * 1024 * 1024;
pub const DISK_QUEUE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a record that are read at once.
pub const DISK_READ_BYTES: usize = 64 * 1024;
/// A tier on disk has about so many segments, within these lengths.
pub const DISK_SEGMENTS: u64 = 16;
pub const DISK_SEGMENT_BYTES_MIN: u64 = 1024 * 1024;
pub const DISK_SEGMENT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Of a segment that is deleted, what was read since it was written is written again, up to this.
pub const DISK_REWRITTEN_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Purges that wait while the folder cannot be opened; with more, all that is in it goes.
pub const DISK_PURGES_WAITING_MAX: usize = 4096;
/// Purged tags and prefixes that what is on disk is compared with.
pub const DISK_PURGED_TAGS_MAX: usize = 64 * 1024;
pub const DISK_PURGED_PREFIXES_MAX: usize = 256;
/// How long a disk that failed is left alone.
pub const DISK_REST_S: u64 = 30;

/// Codings that are made at the same time, per core.
pub const TRANSCODES_PER_CORE: usize = 1;
/// Codings that are being made or wait for their turn, per cache; more are not begun.
pub const TRANSCODES_MAX: usize = 256;
/// A coding of content up to this size is waited for; longer content is given as it is meanwhile.
pub const TRANSCODE_WAIT_BYTES_MAX: u64 = 1024 * 1024;
/// How long it is waited for.
pub const TRANSCODE_WAIT_MS: u64 = 2000;
/// What stays fresh for less is not made again at the best level.
pub const BEST_FRESH_S_MIN: i64 = 60;
