//! The process's allocator: mimalloc, called the short way.
//!
//! The crate `mimalloc` sends every allocation through `mi_malloc_aligned`. That takes 25
//! instructions more than `mi_malloc` for a small block and 120 more where it cannot know that the
//! block is aligned and allocates a larger one: above a kilobyte, and all that Lua asks for.
//! `mi_malloc` promises blocks aligned to a word, and to two where they have room for two. It lives
//! here because `unsafe` does; the binary installs it.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// Every block of mimalloc is aligned to a word, and one of more than a word to two
/// (`MI_MAX_ALIGN_SIZE`).
const WORD: usize = size_of::<usize>();

/// Whether any block of this size is aligned enough.
#[inline]
fn is_plain(size: usize, align: usize) -> bool {
    align <= WORD || (align == 2 * WORD && size > WORD)
}

/// Short-lived allocations of many sizes on a few threads: what mimalloc is good at.
#[derive(Debug)]
pub struct Allocator;

// SAFETY: each call gives a block of mimalloc that is as large as the layout says and aligned as it
// asks, or null; blocks are freed and resized by the allocator that gave them; nothing unwinds.
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
    // SAFETY: the caller promises a block that one of the others gave.
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: every block is mimalloc's, whichever call gave it.
        unsafe { mi_free(block.cast()) }
    }

    #[inline]
    // SAFETY: the caller promises a block that one of the others gave, with its layout.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: every block is mimalloc's; its alignment is what the layout says.
        unsafe {
            if is_plain(size, layout.align()) {
                mi_realloc(block.cast(), size).cast()
            } else {
                mi_realloc_aligned(block.cast(), size, layout.align()).cast()
            }
        }
    }
}

// The crate has these only among much that we do not need.
unsafe extern "C" {
    fn mi_collect(force: bool);
    #[cfg(target_os = "linux")]
    fn mi_option_set(option: std::ffi::c_int, value: std::ffi::c_long);
}

/// Addresses that the process must have so that the allocators may reserve them in advance:
/// mimalloc reserves 1 GiB, or 128 MiB where it cannot, and glibc's malloc 64 MiB for each thread.
#[cfg(target_os = "linux")]
const RESERVED_FROM_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// Runs before `main`, and so before the first block is allocated.
#[cfg(target_os = "linux")]
#[used]
// SAFETY: the section holds pointers to functions of this kind; the function needs nothing that is
// not there before `main`.
#[unsafe(link_section = ".init_array")]
static RESERVE_NOTHING_UNDER_A_LIMIT: extern "C" fn() = reserve_nothing_under_a_limit;

/// Under a limit on addresses, what the allocators reserve is missing for the threads' stacks: a
/// server with enough memory would not start.
#[cfg(target_os = "linux")]
extern "C" fn reserve_nothing_under_a_limit() {
    /// `mi_option_arena_reserve`.
    const ARENA_RESERVE: std::ffi::c_int = 23;
    if crate::address_space_limit().is_some_and(|limit| limit < RESERVED_FROM_BYTES) {
        // SAFETY: both set a number in an allocator that nothing has been asked of.
        unsafe {
            mi_option_set(ARENA_RESERVE, 0);
            #[cfg(target_env = "gnu")]
            libc::mallopt(libc::M_ARENA_MAX, 1);
        }
    }
}

/// Gives back what this thread has ready for blocks to come.
///
/// What is freed on another thread than the one that allocated it waits until that one allocates
/// its like again. Who allocates much for others to free, and then perhaps nothing for long, calls
/// this when it is done. It looks through all pages of the thread and gives free ones back to the
/// kernel: not for the way of a request.
pub fn release_free_memory() {
    // SAFETY: the function may be called at any time, and touches no block that is in use.
    unsafe { mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One block says little: the next of its page lies elsewhere.
    const BLOCKS: usize = 40;

    #[test]
    fn blocks_are_aligned_and_keep_their_bytes_when_they_grow() {
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
