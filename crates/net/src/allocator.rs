//! The process's allocator: mimalloc, called directly.
//!
//! The crate `mimalloc` sends every allocation through `mi_malloc_aligned`. That costs 25
//! instructions more than `mi_malloc` for a small block, and 120 more for a larger one (above a
//! kilobyte, and all allocations of Lua), because it cannot know that the block is already aligned.
//! `mi_malloc` guarantees alignment to a word, and to two words for blocks of at least two. It
//! lives here because this crate may use `unsafe`; the binary installs it.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// Every block of mimalloc is aligned to a word, and one of more than a word to two
/// (`MI_MAX_ALIGN_SIZE`).
const WORD: usize = size_of::<usize>();

/// True if every block of this size is sufficiently aligned.
#[inline]
fn is_plain(size: usize, align: usize) -> bool {
    align <= WORD || (align == 2 * WORD && size > WORD)
}

/// mimalloc: suited to short-lived allocations of many sizes on a few threads.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: each call returns a block of mimalloc that has the size and alignment of the layout, or
// null; blocks are freed and resized by the allocator that returned them; nothing unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    // SAFETY: the contract of `GlobalAlloc`, whose caller promises a size above zero.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: mimalloc takes any size, and any power of two as an alignment.
        unsafe {
            if is_plain(layout.size(), layout.align()) {
                mi_malloc(layout.size()).cast()
            } else {
                mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    // SAFETY: as above.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            if is_plain(layout.size(), layout.align()) {
                mi_zalloc(layout.size()).cast()
            } else {
                mi_zalloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline]
    // SAFETY: the caller promises a block that one of the other functions returned.
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: every block is mimalloc's, whichever function returned it.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    // SAFETY: the caller promises a block that one of the other functions returned, with its
    // layout.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: every block is mimalloc's; its alignment is that of the layout.
        unsafe {
            if is_plain(size, layout.align()) {
                mi_realloc(block.cast(), size).cast()
            } else {
                mi_realloc_aligned(block.cast(), size, layout.align()).cast()
            }
        }
    }
}

// `libmimalloc-sys` declares these only behind its feature `extended`, with much that is not
// needed.
unsafe extern "C" {
    fn mi_collect(force: bool);
    #[cfg(target_os = "linux")]
    fn mi_option_set(option: std::ffi::c_int, value: std::ffi::c_long);
    #[cfg(target_os = "linux")]
    fn mi_process_init();
    #[cfg(target_os = "linux")]
    fn mi_reserve_os_memory(size: usize, commit: bool, allow_large: bool) -> std::ffi::c_int;
}

/// Address space from which the allocators may reserve in advance: mimalloc reserves 1 GiB, or 128
/// MiB if it cannot, and glibc's malloc 64 MiB per thread.
#[cfg(target_os = "linux")]
const RESERVED_FROM_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// What mimalloc reserves has huge pages, except for these first bytes: an idle server would take
/// 15 MiB more, as it uses a few small pages of each of nine huge ones.
#[cfg(target_os = "linux")]
const SMALL_PAGES_BYTES: usize = 64 * 1024 * 1024;

/// Runs before `main`, and so before the first block is allocated.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds pointers to functions of this type, and the function depends on nothing
// that is initialised by `main`.
#[unsafe(link_section = ".init_array")]
static RESERVE: extern "C" fn() = reserve;

/// Lets mimalloc reserve its memory, and sets the size of its first pages.
///
/// Turns reservations off if the address space is limited: what the allocators reserve would be
/// missing for the stacks of the threads, and a server with enough memory would not start.
#[cfg(target_os = "linux")]
extern "C" fn reserve() {
    /// `mi_option_arena_reserve`.
    const ARENA_RESERVE: std::ffi::c_int = 23;
    if crate::address_space_limit().is_some_and(|limit| limit < RESERVED_FROM_BYTES) {
        // SAFETY: both set an option of an allocator that has not been used yet.
        unsafe {
            mi_option_set(ARENA_RESERVE, 0);
            #[cfg(target_env = "gnu")]
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
        return;
    }
    // SAFETY: both may be called at any time. If the second fails, the pages are huge ones.
    unsafe {
        mi_process_init();
        mi_reserve_os_memory(SMALL_PAGES_BYTES, true, false);
    }
}

/// Returns this thread's free pages to the kernel.
///
/// A block that is freed on another thread stays reserved until its own thread allocates the same
/// size again. A thread that allocates much for others to free, and may then allocate nothing for a
/// long time, calls this when it is done. It scans all pages of the thread, so it does not belong
/// on the path of a request.
pub fn release_free_memory() {
    // SAFETY: the function may be called at any time, and touches no block that is in use.
    unsafe { mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Many blocks: the next block of a page has another address.
    const BLOCKS: usize = 40;

    #[test]
    fn blocks_are_aligned_and_keep_their_content_when_resized() {
        for align in [1, 8, 16, 64, 4096] {
            for size in [1, 8, 9, 16, 24, 40, 48, 56, 904, 1025, 1264, 5000, 100_000] {
                let layout = Layout::from_size_align(size, align).unwrap();
                let grown_layout = Layout::from_size_align(size * 3, align).unwrap();
                // SAFETY: sizes are above zero, each block is written within its size, and freed
                // once with the layout it has at that time.
                unsafe {
                    let blocks: Vec<_> = (0..BLOCKS)
                        .map(|_| (Allocator.alloc_zeroed(layout), Allocator.alloc(layout)))
                        .collect();
                    for (zeroed, block) in blocks {
                        assert_eq!(zeroed.addr() % align, 0, "{size} bytes");
                        assert_eq!(block.addr() % align, 0, "{size} bytes");
                        assert!((0..size).all(|at| *zeroed.add(at) == 0));
                        block.write_bytes(7, size);
                        let grown = Allocator.realloc(block, layout, size * 3);
                        assert_eq!(grown.addr() % align, 0, "{size} bytes, grown");
                        assert!((0..size).all(|at| *grown.add(at) == 7));
                        let shrunk = Allocator.realloc(grown, grown_layout, size);
                        assert_eq!(shrunk.addr() % align, 0, "{size} bytes, shrunk");
                        Allocator.dealloc(shrunk, layout);
                        Allocator.dealloc(zeroed, layout);
                    }
                }
            }
        }
    }
}
