//! The suites, in the order in which they run.

use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::program;
use super::program_suite::{client_command, run_program};
use super::run::{Check, Run};
use super::server::FAST_GROUPS;
use super::{
    client_on_kafka, clusters, codec, commands, controller, crash, cross, diff, handover,
    kafka_tests, kgo, mirror, streams_exactly_once, streams_formats, streams_group, streams_run,
    streams_topologies, swap,
};

/// One suite: its name, what it covers and how it runs.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// One program of scenarios against one server with these properties.
    Program {
        command: fn(&mut Run) -> Result<Command>,
        properties: &'static [(&'static str, &'static str)],
    },
    /// Checks that run here, without a server of the suite's own.
    Checks(&'static [Check]),
    /// A module of its own.
    Module {
        list: fn(&mut Run) -> Result<Vec<String>>,
        run: fn(&mut Run) -> Result<()>,
    },
}

/// Every suite.
pub(crate) const SUITES: &[Suite] = &[
    Suite {
        name: "codec",
        about: "the codecs against Kafka's own, both ways",
        kind: Kind::Checks(codec::SCENARIOS),
    },
    Suite {
        name: "streams-formats",
        about: "the bytes of stores and internal topics against Kafka Streams' own, both ways",
        kind: Kind::Checks(streams_formats::SCENARIOS),
    },
    Suite {
        name: "streams-topologies",
        about: "the topologies of Kafka Streams, as `describe()` tells them",
        kind: Kind::Module {
            list: streams_topologies::list,
            run: streams_topologies::run,
        },
    },
    Suite {
        name: "streams-group",
        about: "instances on Kafka Streams and on riverrun in one group",
        kind: Kind::Module {
            list: |_| Ok(streams_group::list()),
            run: streams_group::run,
        },
    },
    Suite {
        name: "streams-run",
        about: "the same streams applications in Java and in Rust, and each with the other's state",
        kind: Kind::Module {
            list: |_| Ok(streams_run::list()),
            run: streams_run::run,
        },
    },
    Suite {
        name: "streams-exactly-once",
        about: "an exactly-once application whose instances are killed and stopped at random",
        kind: Kind::Module {
            list: |_| Ok(streams_exactly_once::list()),
            run: streams_exactly_once::run,
        },
    },
    Suite {
        name: "java",
        about: "Kafka's Java producer, consumer and admin clients",
        kind: Kind::Program {
            command: |run| java_suite(run, "java"),
            properties: FAST_GROUPS,
        },
    },
    Suite {
        name: "tools",
        about: "Kafka's command-line tools",
        kind: Kind::Program {
            command: |run| java_suite(run, "tools"),
            properties: &[],
        },
    },
    Suite {
        name: "confluent",
        about: "librdkafka through confluent-kafka",
        kind: Kind::Program {
            command: |run| Ok(run.python()?.command("confluent.py")),
            properties: &[],
        },
    },
    Suite {
        name: "kafka-python",
        about: "kafka-python",
        kind: Kind::Program {
            command: |run| Ok(run.python()?.command("kafka_python.py")),
            properties: &[],
        },
    },
    Suite {
        name: "go",
        about: "franz-go",
        kind: Kind::Program {
            command: |run| Ok(run.go()?.command()),
            properties: &[],
        },
    },
    Suite {
        name: "client",
        about: "riverrun's own client",
        kind: Kind::Program {
            command: client_command,
            properties: FAST_GROUPS,
        },
    },
    Suite {
        name: "client-on-kafka",
        about: "riverrun's own client against Apache Kafka, whichever server is under test",
        kind: Kind::Module {
            list: |_| Ok(client_on_kafka::list()),
            run: client_on_kafka::run,
        },
    },
    Suite {
        name: "commands",
        about: "riverrun's commands, which print the same whoever serves",
        kind: Kind::Module {
            list: commands::list,
            run: commands::run,
        },
    },
    Suite {
        name: "controller",
        about: "the controller's decisions against those of Apache Kafka's controller",
        kind: Kind::Module {
            list: |_| Ok(controller::list()),
            run: controller::run,
        },
    },
    Suite {
        name: "cross",
        about: "every client reads what every other wrote",
        kind: Kind::Module {
            list: |_| Ok(cross::list()),
            run: cross::run,
        },
    },
    Suite {
        name: "crash",
        about: "a server that stops or is killed under load",
        kind: Kind::Module {
            list: |_| Ok(crash::list()),
            run: crash::run,
        },
    },
    Suite {
        name: "handover",
        about: "one directory opened by Apache Kafka and the server in turn",
        kind: Kind::Module {
            list: |_| Ok(handover::list()),
            run: handover::run,
        },
    },
    Suite {
        name: "swap",
        about: "Apache Kafka and the server swapped under an application that goes on",
        kind: Kind::Module {
            list: |_| Ok(swap::list()),
            run: swap::run,
        },
    },
    Suite {
        name: "cluster",
        about: "clusters whose nodes end, hang, are cut off and are replaced while clients go on",
        kind: Kind::Module {
            list: clusters::list,
            run: clusters::run,
        },
    },
    Suite {
        name: "mirror",
        about: "MirrorMaker 2 from Apache Kafka to the server, group offsets included",
        kind: Kind::Module {
            list: |_| Ok(mirror::list()),
            run: mirror::run,
        },
    },
    Suite {
        name: "diff",
        about: "the same requests to Apache Kafka, answers compared field by field",
        kind: Kind::Module {
            list: |_| Ok(diff::list()),
            run: diff::run,
        },
    },
    Suite {
        name: "kgo",
        about: "franz-go's own tests",
        kind: Kind::Module {
            list: kgo::list,
            run: kgo::run,
        },
    },
    Suite {
        name: "kafka-tests",
        about: "Apache Kafka's own integration tests",
        kind: Kind::Module {
            list: kafka_tests::list,
            run: kafka_tests::run,
        },
    },
];

fn java_suite(run: &mut Run, name: &str) -> Result<Command> {
    let mut command = run.java()?.command("riverrun.interop.Main");
    command.arg(name);
    Ok(command)
}

impl Suite {
    /// The names of the suite's scenarios.
    pub(crate) fn list(&self, run: &mut Run) -> Result<Vec<String>> {
        match &self.kind {
            Kind::Checks(checks) => Ok(checks.iter().map(|(name, _)| (*name).into()).collect()),
            Kind::Program { command, .. } => {
                let scenarios = program::list(command(run)?)?;
                let names = scenarios.into_iter().map(|scenario| scenario.name);
                Ok(names
                    .chain(["stop".to_owned(), "disk".to_owned()])
                    .collect())
            }
            Kind::Module { list, .. } => list(run),
        }
    }

    /// Runs what is asked for of the suite.
    pub(crate) fn run(&self, run: &mut Run) -> Result<()> {
        match &self.kind {
            Kind::Checks(checks) => {
                run_checks(run, self.name, checks);
                Ok(())
            }
            Kind::Program {
                command,
                properties,
            } => run_program(run, self.name, *command, properties, |_| true),
            Kind::Module {
                run: run_module, ..
            } => run_module(run),
        }
    }
}

fn run_checks(run: &mut Run, suite: &str, checks: &[Check]) {
    for (scenario, check) in checks {
        run.scenario(suite, scenario, check);
    }
}

/// Runs every suite that is asked for.
pub(crate) fn run_all(run: &mut Run) {
    for suite in SUITES {
        if !run.options.selects_suite(suite.name) {
            continue;
        }
        println!("\n{}: {}", suite.name, suite.about);
        let started = Instant::now();
        let failed_before = run.report.failed_count();
        if let Err(error) = suite.run(run) {
            run.report
                .failed(suite.name, started.elapsed(), &format!("{error:#}"));
        }
        let dir = run.suite_dir(suite.name);
        if run.report.failed_count() > failed_before {
            println!("    logs: {}", dir.display());
        } else if dir.join("data").exists()
            && let Err(error) = std::fs::remove_dir_all(dir.join("data"))
        {
            println!("    {error}");
        }
    }
}
