//! A folder of schema files, as build scripts and tests read them.

use std::path::Path;

use crate::{Schema, parse};

/// Parses all `*.txt` files of a folder, in the order of their names.
///
/// # Errors
/// A message that names the file, and the line for text that is not a schema.
pub fn parse_folder(folder: &Path) -> Result<Schema, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    let mut all = Schema::default();
    for path in paths {
        let text =
            std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut one = parse(&text).map_err(|e| format!("{}:{e}", path.display()))?;
        all.apis.append(&mut one.apis);
        all.messages.append(&mut one.messages);
    }
    all.apis.sort_by_key(|api| api.key);
    Ok(all)
}
