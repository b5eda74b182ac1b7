//! The one binary `riverrun`: parse, match, run.

fn main() {}
