//! Where the text and the spans of a header section lie, used again and again by their worker.
//!
//! A section lives for one exchange, so a worker needs only as many rooms as it has exchanges under
//! way: taking one and giving it back costs less than two allocations. Promises that a room that
//! has grown large is given back to the allocator, and that only so many are kept.

use std::cell::RefCell;

use wire::h1::FieldSpan;

/// Rooms a worker keeps for the next sections.
const ROOMS_MAX: usize = 64;
/// What a room holds when it is new: most heads fit.
const TEXT_BYTES: usize = 1024;
const FIELDS: usize = 16;
/// A room that has grown beyond this is not kept.
const TEXT_BYTES_MAX: usize = 8 * 1024;
const FIELDS_MAX: usize = 128;

/// Text, and spans into it.
pub(super) struct Room {
    pub(super) text: Vec<u8>,
    pub(super) fields: Vec<FieldSpan>,
}

thread_local! {
    #[allow(clippy::vec_box)] // a pointer goes in and out, the room stays where it is
    static ROOMS: RefCell<Vec<Box<Room>>> = const { RefCell::new(Vec::new()) };
}

impl Room {
    /// An empty room with space in it.
    #[inline]
    pub(super) fn take() -> Box<Room> {
        // While its thread ends there is none.
        let kept = ROOMS.try_with(|rooms| rooms.borrow_mut().pop());
        kept.ok().flatten().unwrap_or_else(|| {
            let (text, fields) = (Vec::with_capacity(TEXT_BYTES), Vec::with_capacity(FIELDS));
            Box::new(Room { text, fields })
        })
    }

    /// Leaves it to the next section.
    #[inline]
    pub(super) fn leave(mut self: Box<Self>) {
        if self.text.capacity() > TEXT_BYTES_MAX || self.fields.capacity() > FIELDS_MAX {
            return;
        }
        self.text.clear();
        self.fields.clear();
        // While its thread ends no section follows.
        let _ = ROOMS.try_with(|rooms| {
            let mut rooms = rooms.borrow_mut();
            if rooms.len() < ROOMS_MAX {
                rooms.push(self);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_used_again_unless_it_has_grown_large() {
        let mut room = Room::take();
        room.text.extend_from_slice(b"text");
        let at = room.text.as_ptr();
        room.leave();
        let mut room = Room::take();
        assert!(room.text.is_empty() && room.text.as_ptr() == at);
        room.text.reserve(TEXT_BYTES_MAX + 1);
        room.leave();
        assert!(Room::take().text.capacity() <= TEXT_BYTES_MAX);
    }
}
