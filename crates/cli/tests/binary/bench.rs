//! Loads that are measured, and their settings.

use crate::lab::Lab;

#[test]
fn loads_are_measured_and_drawn() {
    let lab = Lab::new();
    let plot = lab.directory.path().join("plot.svg");
    let plot = plot.to_str().unwrap();
    for command in [
        &["bench", "produce", "-n", "2000", "-p", "2", "--size", "100"][..],
        &["bench", "consume"],
        &["bench", "latency", "-n", "50", "--rate", "1000"],
        // Settings of a producer and of a consumer.
        &[
            "bench",
            "latency",
            "-n",
            "50",
            "--rate",
            "1000",
            "-X",
            "linger.ms=1",
            "-X",
            "fetch.max.wait.ms=100",
        ],
    ] {
        let mut arguments = command.to_vec();
        arguments.extend(["--output", "json", "--plot", plot]);
        let output = lab.run(&arguments, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{command:?}: {error}");
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["bench"], command[1]);
        let expected = if command[1] == "latency" { 50 } else { 2000 };
        assert_eq!(report["records"], expected);
        let latency = |name: &str| report["latency"][name].as_f64().unwrap();
        assert!(latency("p50") <= latency("p99") && latency("p99") <= latency("max"));
        let svg = std::fs::read_to_string(plot).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}

#[test]
fn settings_that_contradict_each_other_or_are_nobodys_are_named() {
    let lab = Lab::new();
    let refused = |settings: &[&str], expected: &str| {
        let mut arguments = vec!["bench", "latency", "-n", "1"];
        arguments.extend(settings.iter().flat_map(|setting| ["-X", *setting]));
        let output = lab.run(&arguments, "");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{settings:?}");
        assert!(error.contains(expected), "{settings:?}: {error}");
    };
    refused(&["lingr.ms=1"], "`lingr.ms`");
    refused(
        &["linger.ms=200", "delivery.timeout.ms=30100"],
        "`delivery.timeout.ms` = `30100`: must be at least 30200: `linger.ms` = 200 and \
         `request.timeout.ms` = 30000",
    );
    // The time of `--timeout` comes after that of `linger.ms`.
    let output = lab.run(&["produce", "lingering", "-X", "linger.ms=20000"], "one\n");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{error}");
}
