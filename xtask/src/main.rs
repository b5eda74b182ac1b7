//! The project's automation: `cargo xtask tidy|interop|compat`.

fn main() -> anyhow::Result<()> {
    Ok(())
}
