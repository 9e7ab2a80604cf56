//! Which process holds the lock of a file, as the kernel tells it in `/proc/locks`.
//!
//! Promises nothing: the table may be missing, may not show processes of another container, and
//! on some file systems knows a file by another device than `stat` does. Whoever asks has to do
//! without an answer.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use crate::disk::Identity;

/// Where the kernel lists every lock.
const LOCKS: &str = "/proc/locks";

/// Bytes of the list that are read.
const MAX_LIST: u64 = 4 << 20;

/// The process that holds the lock of this file.
pub(super) fn holder_of(file: Identity) -> Option<u32> {
    let list = BufReader::new(File::open(LOCKS).ok()?.take(MAX_LIST));
    list.lines().map_while(Result::ok).find_map(|line| holder_in(&line, file))
}

/// The process in a line such as `7: FLOCK  ADVISORY  WRITE 4711 fe:00:10010929 0 EOF`, if it is
/// about this file and not about one that waits.
fn holder_in(line: &str, file: Identity) -> Option<u32> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if words.next()? != "FLOCK" {
        return None;
    }
    let process = words.nth(2)?;
    let mut place = words.next()?.split(':');
    let major = u64::from_str_radix(place.next()?, 16).ok()?;
    let minor = u64::from_str_radix(place.next()?, 16).ok()?;
    let inode: u64 = place.next()?.parse().ok()?;
    let found = Identity { device: major << 32 | minor, inode };
    // The kernel writes 0 or -1 for a process that this one may not see.
    process.parse().ok().filter(|process| found == file && *process != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_holder_of_its_file_and_of_no_other() {
        let file = Identity { device: 0xfe << 32 | 0x0a, inode: 10_010_929 };
        let line = "3: FLOCK  ADVISORY  WRITE 4711 fe:0a:10010929 0 EOF";
        assert_eq!(holder_in(line, file), Some(4711));
        assert_eq!(holder_in(line, Identity { inode: 7, ..file }), None);
        for other in [
            "3: -> FLOCK  ADVISORY  WRITE 4711 fe:0a:10010929 0 EOF",
            "3: POSIX  ADVISORY  WRITE 4711 fe:0a:10010929 0 EOF",
            "3: FLOCK  ADVISORY  WRITE 0 fe:0a:10010929 0 EOF",
            "3: FLOCK  ADVISORY  WRITE -1 fe:0a:10010929 0 EOF",
            "3: FLOCK  ADVISORY  WRITE 4711 <none>:0 0 EOF",
            "3: FLOCK",
            "",
        ] {
            assert_eq!(holder_in(other, file), None, "{other}");
        }
    }
}
