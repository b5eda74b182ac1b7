//! The id by which a group knows a process. It outlives the process in the state directory, in Kafka Streams' own file
//! (`{"processId":"<uuid>"}`), so that tasks stay where their state is.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The name of the file in the directory of an application.
const FILE: &str = "kafka-streams-process-metadata";

/// The id of a process, shown as Java shows a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId(pub(super) [u8; 16]);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl ProcessId {
    /// The id that is kept in a directory, or `new` from now on, if nothing can be read there.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(directory: &Path, new: [u8; 16]) -> io::Result<Self> {
        let path = directory.join(FILE);
        let kept = std::fs::read_to_string(&path);
        if let Some(kept) = kept.ok().and_then(|text| of_file(&text)) {
            return Ok(kept);
        }
        // A random UUID (RFC 9562, version 4).
        let mut id = Self(new);
        id.0[6] = (id.0[6] & 0x0f) | 0x40;
        id.0[8] = (id.0[8] & 0x3f) | 0x80;
        let written = directory.join(format!("{FILE}.tmp"));
        let mut file = File::create(&written)?;
        write!(file, "{{\"processId\":\"{id}\"}}")?;
        file.sync_all()?;
        std::fs::rename(written, path)?;
        Ok(id)
    }

    /// Reads what `Display` writes.
    fn of_text(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let is_uuid = text.len() == 36 && digits.len() == 32;
        let mut id = [0; 16];
        for (byte, digits) in id.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        is_uuid.then_some(Self(id))
    }
}

/// The id in the text of the file; what else is in it does not count.
fn of_file(text: &str) -> Option<ProcessId> {
    let (_, rest) = text.split_once("\"processId\"")?;
    let rest = rest.trim_start().strip_prefix(':')?;
    let (id, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    ProcessId::of_text(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Error = Box<dyn std::error::Error>;

    #[test]
    fn an_id_outlives_its_process() -> Result<(), Error> {
        let directory = trials::directory();
        let id = ProcessId::keep(directory.path(), [0xff; 16])?;
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let file = directory.path().join(FILE);
        assert_eq!(
            std::fs::read_to_string(&file)?,
            "{\"processId\":\"ffffffff-ffff-4fff-bfff-ffffffffffff\"}"
        );
        assert_eq!(ProcessId::keep(directory.path(), [0; 16])?, id);
        Ok(())
    }

    #[test]
    fn a_file_of_java_is_read_and_a_damaged_one_replaced() -> Result<(), Error> {
        let directory = trials::directory();
        let file = directory.path().join(FILE);
        let uuid = "2f1c8a5e-0b7d-4c3a-9e21-00112233aabb";
        let check = |text: &str, is_kept: bool| {
            std::fs::write(&file, text)?;
            let id = ProcessId::keep(directory.path(), [7; 16])?.to_string();
            assert_eq!(id == uuid, is_kept, "{text}");
            assert!(std::fs::read_to_string(&file)?.contains(&id));
            Ok::<_, Error>(())
        };
        check(&format!("{{\"processId\":\"{uuid}\"}}"), true)?;
        let spaced = format!("{{ \"other\": [1],\n \"processId\" : \"{uuid}\", \"more\": {{}} }}");
        check(&spaced, true)?;
        check("", false)?;
        check("{\"processId\":\"\"}", false)?;
        check(&format!("{{\"processId\":\"{}\"}}", &uuid[1..]), false)?;
        check(&format!("{{\"processId\":\"x{}\"}}", &uuid[1..]), false)?;
        check("{\"processId\":12}", false)
    }
}
