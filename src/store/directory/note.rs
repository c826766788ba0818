//! The note in the lock file: the sequence of the newest state that was written beside it.
//!
//! It is written in place, so that every hard link to the lock file has it, and always after the state: if it is lost,
//! or an older one is back after a crash, it still does not make a legitimate state look old. So it is not synced, and
//! no error is reported: the only loss is that an old state is not recognised by it.
//!
//! ```text
//! "hcnote1\n"  sequence u64  XXH3-64 of that u64      integers little-endian
//! ```
//!
//! Anything else counts as no note.
//!
//! Must not know: when it is written.

use std::fs::File;

const MAGIC: [u8; 8] = *b"hcnote1\n";
const BYTES: usize = 24;

fn to_bytes(sequence: u64) -> [u8; BYTES] {
    let sequence = sequence.to_le_bytes();
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&sequence);
    bytes[16..].copy_from_slice(&xxhash_rust::xxh3::xxh3_64(&sequence).to_le_bytes());
    bytes
}

fn from_bytes(bytes: [u8; BYTES]) -> Option<u64> {
    let sequence = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    (bytes == to_bytes(sequence)).then_some(sequence)
}

#[cfg(unix)]
pub(super) fn read(lock: &File) -> Option<u64> {
    let mut bytes = [0; BYTES];
    std::os::unix::fs::FileExt::read_exact_at(lock, &mut bytes, 0).ok()?;
    from_bytes(bytes)
}

#[cfg(unix)]
pub(super) fn write(lock: &File, sequence: u64) {
    let _ = std::os::unix::fs::FileExt::write_all_at(lock, &to_bytes(sequence), 0);
}

/// Returns no note: here a lock keeps others from reading the file, and hard links are rare.
#[cfg(not(unix))]
pub(super) fn read(_: &File) -> Option<u64> {
    None
}

#[cfg(not(unix))]
pub(super) fn write(_: &File, _: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_its_sequence_and_bytes_that_are_none_say_nothing() {
        for sequence in [0, 1, 300, u64::MAX] {
            let bytes = to_bytes(sequence);
            assert_eq!(from_bytes(bytes), Some(sequence));
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(from_bytes(bytes), None, "bit {bit}");
            }
        }
        assert_eq!(from_bytes([0; BYTES]), None);
    }
}
