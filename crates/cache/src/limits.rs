//! Every bound of this crate, by name.

/// Longest key; a request with a longer key is not cached.
pub const KEY_BYTES_MAX: usize = 8 * 1024;
/// Query parameters that are sorted or selected; a request with more is not cached.
pub const KEY_PARAMS_MAX: usize = 64;
/// Longest stored response head.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Shards of a store in memory: many more than workers, so that insertions seldom contend.
pub const SHARDS_MAX: usize = 64;
/// Memory per shard: with less, a shard has too few objects to choose a victim from.
pub const SHARD_MEMORY_MIN: u64 = 512 * 1024;
/// The largest object is this fraction of a store's memory.
pub const OBJECT_PART: u64 = 4;
/// Objects that an eviction considers before it takes the first, however often that is used.
pub const EVICTION_STEPS: usize = 128;
/// Objects that an insertion checks for expiry.
pub const SWEEP_INSERT: usize = 4;
/// Objects visited under one lock by a sweep, a purge or a listing.
pub const SLICE_OBJECTS: usize = 256;
/// Objects in one page of a list.
pub const LIST_MAX: usize = 1000;
/// Objects in a list of those with the most hits or memory.
pub const TOP_MAX: usize = 100;
/// Objects that the preview of a purge names.
pub const PREVIEW_MAX: usize = 100;
/// Slices visited for one page of a list.
pub const LIST_SLICES_MAX: usize = 256;
/// Entries for the epochs of purged URLs and of purged tags: a power of two. A collision only keeps
/// a fetched response from being stored.
pub const PURGE_TIMES: usize = 4096;
/// Prefixes of recent purges that are compared with responses whose fetch began before them.
pub const PURGE_PREFIXES_MAX: usize = 64;
/// Most tags or groups that one purge may name.
pub const PURGE_NAMES_MAX: usize = 1000;
/// Longest text of a purge that other servers are sent.
pub const PURGE_ENTRY_BYTES_MAX: usize = 24 * 1024;
/// Purges by the method PURGE that wait to be shared.
pub const PURGES_OUTGOING_MAX: usize = 256;
/// Longest text of a position in the log of purges.
pub const PURGE_POSITION_BYTES_MAX: usize = 1024;
/// Names in one list of `key:`.
pub const KEY_PARTS_MAX: usize = 64;
/// Languages of one entry.
pub const LANGUAGES_MAX: usize = 64;
/// Fetches of one cache that other requests may join.
pub const IN_FLIGHT_MAX: usize = 16 * 1024;
/// Memory of all fetches in flight of one cache: as much as its store has, within these.
pub const FILLS_BYTES_MIN: u64 = 16 * 1024 * 1024;
pub const FILLS_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Stored responses of one URL, whatever their keys: each insertion compares them.
pub const URL_RESPONSES_MAX: usize = 1024;
/// Decoded bytes per encoded byte of a body, above the first mebibyte: the maximum of gzip.
pub const DECODED_RATIO_MAX: u64 = 1100;
/// Encoded bytes that are decoded in one step for a client that does not accept the coding, and
/// decoded bytes that wait for it.
pub const DECODED_STEP_BYTES: usize = 16 * 1024;
pub const DECODED_AHEAD_BYTES: usize = 64 * 1024;
/// Bytes of a response that are read and dropped to reach a range; for a later range the origin is
/// requested again.
pub const SKIPPED_BYTES_MAX: u64 = 1024 * 1024;
/// Parts of one response that is too long to be stored whole.
pub const PARTS_MAX: usize = 16;
/// How often a request looks up and joins a fetch before it is forwarded by itself.
pub const JOIN_ATTEMPTS_MAX: usize = 8;

/// Fields in the Vary of one response.
pub const VARY_FIELDS_MAX: usize = 16;
/// Tags and groups of one response; one with more is not stored, because a purge could miss it.
pub const TAGS_MAX: usize = 1024;
/// How long a stale response with a validator is stored for revalidation.
pub const VALIDATOR_KEEP_S: u32 = 24 * 60 * 60;
/// How long the origin is not requested again after a failed revalidation.
pub const REST_S: u64 = 2;

/// Objects in a worker's table.
pub const WORKER_CACHE_SLOTS: usize = 512;
/// Bytes that the table keeps alive: this fraction of the cache's memory, within these.
pub const WORKER_CACHE_FRACTION: u64 = 32;
pub const WORKER_CACHE_BYTES_MIN: u64 = 256 * 1024;
pub const WORKER_CACHE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Hits that a worker adds to a hot object at once, after as many that it adds one by one.
pub const HOT_HITS_STEP: u32 = 64;
/// Longest Accept-Encoding whose choice is remembered with a hot entry.
pub const HOT_ACCEPT_ENCODING_BYTES_MAX: usize = 128;
/// Content up to this length is copied into a hot entry.
pub const HOT_BODY_BYTES_MAX: usize = 1024;
/// Content from this length on is stored in an anonymous file, to be sent without a copy.
pub const MEMORY_FILE_BYTES_MIN: u64 = 64 * 1024;

/// Longest description (key, facts and headers) of an object on disk.
pub const DISK_HEAD_BYTES_MAX: usize = 256 * 1024;
/// Data waiting to be written to disk: at most this fraction of the cache's memory, within these;
/// more is not written.
pub const DISK_QUEUE_PART: u64 = 4;
pub const DISK_QUEUE_BYTES_MIN: u64 = 4 * 1024 * 1024;
pub const DISK_QUEUE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a record that are read at once.
pub const DISK_READ_BYTES: usize = 64 * 1024;
/// Long content on disk begins at a multiple of this, a page of the kernel's.
pub const DISK_PAGE_BYTES: u64 = 4096;
/// The approximate number of segments of a disk tier, whose lengths are within these.
pub const DISK_SEGMENTS: u64 = 16;
pub const DISK_SEGMENT_BYTES_MIN: u64 = 1024 * 1024;
pub const DISK_SEGMENT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of a deleted segment that are written again because they were read.
pub const DISK_REWRITTEN_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Purges that wait while the directory cannot be opened; with more, all records are deleted.
pub const DISK_PURGES_WAITING_MAX: usize = 4096;
/// Purged tags, softly purged URLs, and purged prefixes that records on disk are compared with.
pub const DISK_PURGED_TAGS_MAX: usize = 64 * 1024;
pub const DISK_PURGED_PREFIXES_MAX: usize = 256;
/// How long a disk is not used after an error.
pub const DISK_REST_S: u64 = 30;

/// Transcodes at the same time, per core.
pub const TRANSCODES_PER_CORE: usize = 1;
/// Transcodes of one cache that run or wait; more are rejected.
pub const TRANSCODES_MAX: usize = 256;
/// Requests wait for a transcode of content up to this length; longer content is sent as it is.
pub const TRANSCODE_WAIT_BYTES_MAX: u64 = 1024 * 1024;
/// How long they wait.
pub const TRANSCODE_WAIT_MS: u64 = 2000;
/// A response that is fresh for less is not transcoded again at the best level.
pub const BEST_FRESH_S_MIN: i64 = 60;

/// Shortest secret that the servers of a fleet share.
pub const OWNER_SECRET_BYTES_MIN: usize = 16;
/// What the age of another server's response may be wrong by: it is given in whole seconds, which
/// the server has rounded twice.
pub const OWNER_AGE_ERROR_MS: u64 = 2000;
/// What the clocks of two servers of a fleet may differ by: the time within which a request to an
/// owner that was recorded on the network can be repeated.
pub const OWNER_CLOCK_ERROR_S: u64 = 60;
