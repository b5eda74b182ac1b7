//! Produce as fast as the server answers.

use anyhow::{Result, bail};
use serde_json::{Value, json};
use wire::ApiKey;

use super::client::{PRODUCE_VERSION, body_of, produce_error};
use super::closed_loop::{self, Cycle};
use super::frames::{self, Frames};
use super::{Batching, Target};

/// Runs the load and reports on its window.
pub(super) fn run(target: &Target, batching: &Batching, in_flight: usize) -> Result<Value> {
    let frames = frames::build(target, batching)?;
    let cycles = frames.into_iter().map(|one| (one.leader, cycle(one)));
    let mut result = closed_loop::run(target, cycles.collect(), in_flight)?;
    result["load"] = json!("produce");
    Ok(result)
}

fn cycle(frames: Frames) -> Cycle {
    let work = (0..frames.requests.len()).map(|number| frames.work_of(number));
    Cycle {
        work: work.collect(),
        frames: frames
            .requests
            .into_iter()
            .map(|(frame, _)| frame)
            .collect(),
        check: |_, answer| {
            let body = body_of(answer, ApiKey::Produce, PRODUCE_VERSION)?;
            match produce_error(body)? {
                Some(error) => bail!("a batch was refused: {error}"),
                None => Ok(true),
            }
        },
    }
}
