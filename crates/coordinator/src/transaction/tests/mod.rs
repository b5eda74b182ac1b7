//! Tests of the transaction coordinator: scripts with their expected answers, the table of the
//! documentation, the bytes of records, and random clients against modelled partitions.

mod clients;
mod ends;
mod expiration;
mod model;
mod overview;
mod producers;
mod records;
mod script;
mod table;
mod worlds;
