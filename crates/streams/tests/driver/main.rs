//! Topologies through the test driver, many of them beside what Apache Kafka 4.3.1's own driver has written. One
//! program: each further one is linked and costs a cold build a second or two.

mod aggregations;
mod cases;
mod cogroup;
mod emit_strategy;
mod examples;
mod messages;
mod mixed;
mod operators;
mod optimization;
mod processors;
mod stateless;
mod stream_joins;
mod suppress;
mod tables;
