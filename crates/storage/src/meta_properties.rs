//! `meta.properties`: which cluster, which node and which directory a log directory is.
//!
//! ```text
//!   #
//!   #Thu Jan 01 00:00:00 UTC 1970
//!   cluster.id=4L6g3nShT-eMCtK--X86sw
//!   directory.id=_2DmZGr4TWi5jnTTYqrCZA
//!   node.id=1
//!   version=1
//! ```
//!
//! The format is Java's properties, of which this reads comments, the three separators, escapes
//! and continued lines. Version 0 is of ZooKeeper's time and refused.

use std::collections::BTreeMap;
use std::path::Path;

use model::{BrokerId, Uuid};

use crate::atomic_file::replace_file;
use crate::disk::Disk;
use crate::error::{Context, FileError, StorageError};

/// Name of the file in a log directory.
pub const META_PROPERTIES: &str = "meta.properties";

/// Content of version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetaProperties {
    /// The cluster; by default a uuid as text, but any text will do.
    pub cluster_id: String,
    /// `node.id` of the process that owns the directory.
    pub node_id: BrokerId,
    /// The directory itself; files of before Kafka 3.7 lack it.
    pub directory_id: Option<Uuid>,
}

/// Reads the file of a log directory; `None` when there is none.
pub fn read_meta_properties<D: Disk>(
    disk: &D,
    directory: &Path,
) -> Result<Option<MetaProperties>, FileError> {
    let path = directory.join(META_PROPERTIES);
    match disk.read(&path, 1 << 16) {
        Ok(bytes) => match parse(&bytes) {
            Ok(properties) => Ok(Some(properties)),
            Err(reason) => Err(FileError::damaged(&path, reason)),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Ok(Err(error).context("read", &path)?),
    }
}

/// Replaces the file of a log directory; it is durable on return.
pub fn write_meta_properties<D: Disk>(
    disk: &D,
    directory: &Path,
    properties: &MetaProperties,
    now_ms: i64,
) -> Result<(), StorageError> {
    let text = to_text(properties, now_ms);
    replace_file(disk, &directory.join(META_PROPERTIES), text.as_bytes())
}

fn to_text(properties: &MetaProperties, now_ms: i64) -> String {
    let mut text = format!("#\n#{}\n", java_date(now_ms));
    text.push_str(&format!("cluster.id={}\n", escaped(&properties.cluster_id)));
    if let Some(id) = properties.directory_id {
        text.push_str(&format!("directory.id={id}\n"));
    }
    text.push_str(&format!("node.id={}\nversion=1\n", properties.node_id));
    text
}

fn parse(bytes: &[u8]) -> Result<MetaProperties, String> {
    let text = str::from_utf8(bytes).map_err(|_| "it is not text".to_owned())?;
    let values = parse_properties(text)?;
    let value = |name: &str| values.get(name).map(String::as_str);
    match value("version").map(str::trim) {
        Some("1") => {}
        Some("0") => {
            return Err("it is of version 0, from a cluster that used ZooKeeper; \
                        migrate it with Apache Kafka 3.9 first"
                .to_owned());
        }
        Some(version) if version.parse::<u32>().is_ok() => {
            return Err(format!(
                "it is of version {version}, of a later release, and this one knows version 1; \
                 start the release that wrote it"
            ));
        }
        Some(version) => return Err(format!("its version is `{version}`, not 1")),
        None => return Err("it has no `version`".to_owned()),
    }
    let node_id = value("node.id").ok_or("it has no `node.id`")?;
    let directory_id = match value("directory.id") {
        None => None,
        Some(id) => Some(
            id.trim()
                .parse()
                .map_err(|_| format!("its directory.id is `{id}`"))?,
        ),
    };
    Ok(MetaProperties {
        cluster_id: value("cluster.id")
            .ok_or("it has no `cluster.id`")?
            .to_owned(),
        node_id: node_id
            .trim()
            .parse()
            .map_err(|_| format!("its node.id is `{node_id}`"))?,
        directory_id,
    })
}

fn parse_properties(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim_start().to_owned();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        // An odd number of backslashes at the end joins the next line.
        while line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1 {
            line.pop();
            line.push_str(lines.next().unwrap_or_default().trim_start());
        }
        let (key, value) = split_property(&line);
        values.insert(unescaped(key)?, unescaped(value)?);
    }
    Ok(values)
}

/// Splits at the first separator that is not escaped: `=`, `:` or white space.
fn split_property(line: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, character) in line.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '=' | ':' | ' ' | '\t' => {
                let (key, rest) = line.split_at(at);
                let rest = rest.trim_start();
                let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
                return (key, value.trim_start());
            }
            _ => {}
        }
    }
    (line, "")
}

fn unescaped(text: &str) -> Result<String, String> {
    // As in Java: escapes stand for units of UTF-16, two of them for a rare character.
    let mut units = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let plain = match character {
            '\\' => match characters.next() {
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some('u') => {
                    let digits: String = characters.by_ref().take(4).collect();
                    let unit = u16::from_str_radix(&digits, 16);
                    units.push(unit.map_err(|_| format!("it has the escape `\\u{digits}`"))?);
                    continue;
                }
                Some(other) => other,
                None => break,
            },
            plain => plain,
        };
        units.extend_from_slice(plain.encode_utf16(&mut [0; 2]));
    }
    String::from_utf16(&units).map_err(|_| "it has half a character".to_owned())
}

fn escaped(value: &str) -> String {
    let mut result = String::with_capacity(value.len());
    for (at, character) in value.char_indices() {
        match character {
            '\\' | '=' | ':' | '#' | '!' => result.extend(['\\', character]),
            ' ' if at == 0 => result.push_str("\\ "),
            '\t' => result.push_str("\\t"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\u{c}' => result.push_str("\\f"),
            ' '..='~' => result.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    result.push_str(&format!("\\u{unit:04X}"));
                }
            }
        }
    }
    result
}

/// A date as Java writes it into such a file: `Thu Jan 01 00:00:00 UTC 1970`.
fn java_date(now_ms: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let seconds = now_ms.max(0) / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that start in March put the leap day last, so months follow from the day by division.
    let shifted = days + 719_468;
    let era_day = shifted % 146_097;
    let era_year = (era_day - era_day / 1460 + era_day / 36_524 - era_day / 146_096) / 365;
    let year_day = era_day - (365 * era_year + era_year / 4 - era_year / 100);
    let march_month = (5 * year_day + 2) / 153;
    let day = year_day - (153 * march_month + 2) / 5 + 1;
    let month = (march_month + 2) % 12;
    let year = era_year + shifted / 146_097 * 400 + i64::from(month < 2);
    format!(
        "{} {} {day:02} {:02}:{:02}:{:02} UTC {year}",
        WEEKDAYS[(days % 7) as usize],
        MONTHS[month as usize],
        second / 3600,
        second / 60 % 60,
        second % 60,
    )
}

/// Takes any bytes for the file: what it accepts must come back from its own text.
pub fn fuzz_meta_properties(bytes: &[u8]) {
    if let Ok(properties) = parse(bytes) {
        assert_eq!(parse(to_text(&properties, 0).as_bytes()), Ok(properties));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read() {
        let disk = SimDisk::default();
        let directory = Path::new("/");
        assert_eq!(read_meta_properties(&disk, directory).unwrap(), None);
        let properties = MetaProperties {
            cluster_id: " odd=one: é🍎\\".to_owned(),
            node_id: BrokerId(7),
            directory_id: Some(Uuid::METADATA_TOPIC),
        };
        write_meta_properties(&disk, directory, &properties, 0).unwrap();
        let found = read_meta_properties(&disk, directory).unwrap();
        assert_eq!(found, Some(properties));
    }

    #[test]
    fn javas_text_is_understood() {
        let text = "#\n! note\n#Fri Feb 02 11:41:10 UTC 2024\nnode.id = 1\n\
                    directory.id:AAAAAAAAAAAAAAAAAAAAAQ\nversion 1\n\
                    cluster.id=a\\\n   b\\u0041\\:c\n";
        let expected = MetaProperties {
            cluster_id: "abA:c".to_owned(),
            node_id: BrokerId(1),
            directory_id: Some(Uuid::METADATA_TOPIC),
        };
        assert_eq!(parse(text.as_bytes()), Ok(expected));
    }

    #[test]
    fn other_versions_and_gaps_are_refused() {
        let check = |text: &str, reason: &str| {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        check("version=0\nbroker.id=1\ncluster.id=x\n", "ZooKeeper");
        check("version=2\n", "of a later release");
        check("", "no `version`");
        check("version=1\ncluster.id=x\n", "no `node.id`");
        check("version=1\nnode.id=1\n", "no `cluster.id`");
        check("version=1\nnode.id=a\ncluster.id=x\n", "node.id is `a`");
    }

    #[test]
    fn dates_are_javas() {
        let check = |now_ms, text: &str| assert_eq!(java_date(now_ms), text);
        check(0, "Thu Jan 01 00:00:00 UTC 1970");
        check(951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000");
        check(1_706_874_070_000, "Fri Feb 02 11:41:10 UTC 2024");
        check(1_735_689_599_999, "Tue Dec 31 23:59:59 UTC 2024");
    }

    proptest! {
        #![proptest_config(trials::property(200))]
        #[test]
        fn any_bytes_are_taken(text in "(version=1\nnode.id=1\n)?(cluster.id=)?(\\PC|\\\\|\n){0,20}") {
            fuzz_meta_properties(text.as_bytes());
        }
    }
}
