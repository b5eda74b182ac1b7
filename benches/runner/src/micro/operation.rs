//! The table of operations: what is measured, by which class of Kafka's side, and the goal.
//!
//! A further operation is an entry here, a file in `benches/micro/src/operations` and a class in
//! `benches/java`.

/// Something both sides can do.
#[derive(Debug)]
pub(super) struct Operation {
    /// Its name on both sides and in reports.
    pub(super) name: &'static str,
    /// What it is, for people.
    pub(super) about: &'static str,
    /// The class of package `riverrun.bench` whose method `run` JMH measures.
    pub(super) class: &'static str,
    /// The value of that class's parameter `partitions`, where it has one.
    pub(super) partitions: Option<u32>,
    /// The most nanoseconds that riverrun should take.
    pub(super) goal_ns: f64,
    /// How many times longer Kafka should take; 0 for no goal.
    pub(super) goal_ratio: f64,
}

/// Messages are to be this many times faster than on the virtual machine.
const MESSAGE_RATIO: f64 = 10.0;

/// Every operation, in the order of the report.
///
/// A goal is 1.5 times what a sketch of the function alone, written before the real one, has taken
/// on a machine of two cores.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "error-lookup",
        about: "four error codes looked up",
        class: "ErrorLookup",
        partitions: None,
        goal_ns: 1.5 * 2.2,
        goal_ratio: 0.0,
    },
    Operation {
        name: "varint-size",
        about: "size of a varint, one at a time",
        class: "VarintSize",
        partitions: None,
        goal_ns: 1.5 * 0.55,
        goal_ratio: 0.0,
    },
    Operation {
        name: "varint-size-bulk",
        about: "size of a varint, in bulk",
        class: "VarintSizeBulk",
        partitions: None,
        goal_ns: 1.5 * 0.06,
        goal_ratio: 0.0,
    },
    produce_response("produce-response/1", 1, 6.0),
    produce_response("produce-response/16", 16, 46.0),
    produce_response("produce-response/128", 128, 349.0),
    produce_request("produce-request/1", 1, 6.0),
    produce_request("produce-request/16", 16, 48.0),
    produce_request("produce-request/128", 128, 370.0),
    fetch_response("fetch-response/1", 1, 3.4),
    fetch_response("fetch-response/16", 16, 27.0),
    fetch_response("fetch-response/128", 128, 203.0),
];

const fn produce_response(name: &'static str, partitions: u32, sketch_ns: f64) -> Operation {
    Operation {
        name,
        about: "produce response built and encoded",
        class: "ProduceResponseEncode",
        partitions: Some(partitions),
        goal_ns: 1.5 * sketch_ns,
        goal_ratio: MESSAGE_RATIO,
    }
}

const fn produce_request(name: &'static str, partitions: u32, sketch_ns: f64) -> Operation {
    Operation {
        name,
        about: "produce request decoded",
        class: "ProduceRequestDecode",
        partitions: Some(partitions),
        goal_ns: 1.5 * sketch_ns,
        goal_ratio: MESSAGE_RATIO,
    }
}

const fn fetch_response(name: &'static str, partitions: u32, sketch_ns: f64) -> Operation {
    Operation {
        name,
        about: "fetch response encoded",
        class: "FetchResponseEncode",
        partitions: Some(partitions),
        goal_ns: 1.5 * sketch_ns,
        goal_ratio: MESSAGE_RATIO,
    }
}
