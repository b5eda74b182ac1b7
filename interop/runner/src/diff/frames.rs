//! Frames that are not requests: cut off, too long, of unknown APIs and versions, with damaged
//! headers. A server must close the connection or answer with an error, and go on.

use std::time::Duration;

use interpreter::{Random, Value};
use wire::ApiKey;

use super::body::body;
use super::lab::Request;
use super::produce;
use super::session::{MarkedFrame, Session, Stop};
use super::topics::{Topic, create};

/// How long to wait for an answer that may not come: the frame may say that it goes on.
const LIMIT: Duration = Duration::from_millis(300);

/// Damaged frames, and a whole request after each.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 1, &[])?;
    for _ in 0..8 {
        let request = harmless(session, &topic)?;
        let seed = session.random.bits();
        let damaged = |(frame, _): MarkedFrame| damage(frame, &mut Random::new(seed));
        session.raw(&request, request.version, &damaged, LIMIT)?;
        session.call(
            ApiKey::Metadata,
            &body!({ Topics: [{ Name: (&topic.name) }] }),
        )?;
    }
    versions(session)
}

/// A request that changes nothing even when some of its bytes change.
fn harmless(session: &mut Session<'_>, topic: &Topic) -> Result<Request, Stop> {
    let group = session.new_name("group");
    let (api, body) = match session.random.below(6) {
        0 => (
            ApiKey::ApiVersions,
            body!({ ClientSoftwareName: "diff", ClientSoftwareVersion: "1" }),
        ),
        1 => (
            ApiKey::Metadata,
            body!({ Topics: [{ Name: (&topic.name) }] }),
        ),
        2 => (
            ApiKey::FindCoordinator,
            body!({ Key: (&group), CoordinatorKeys: [(&group)] }),
        ),
        3 => (ApiKey::DescribeGroups, body!({ Groups: [(&group)] })),
        4 => (
            ApiKey::Heartbeat,
            body!({ GroupId: (&group), MemberId: "nobody", GenerationId: 1 }),
        ),
        _ => {
            let request = produce::request(topic, 0, 1, Value::Bytes(vec![0; 70]));
            (ApiKey::Produce, request)
        }
    };
    session.request(api, (0, i16::MAX), &body)
}

/// Damages a frame; its size stays right but in two cases.
fn damage(frame: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let mut body = frame[4..].to_vec();
    match random.below(9) {
        0 => body.truncate(random.below(body.len())),
        1 => body.extend_from_slice(&[0, 1, 2][..1 + random.below(3)]),
        2 => body[..2].copy_from_slice(&random.choice(&[4i16, 7, 93, -1, 999]).to_be_bytes()),
        3 => body[2..4].copy_from_slice(&random.choice(&[99i16, -1, 0x7fff]).to_be_bytes()),
        4 => body[8..10].copy_from_slice(&random.choice(&[0x7fffi16, -2, 200]).to_be_bytes()),
        5 => body.clear(),
        6 => {
            let mut negative = frame;
            negative[..4].copy_from_slice(&random.choice(&[-1i32, i32::MIN]).to_be_bytes());
            return negative;
        }
        7 => {
            let mut huge = frame;
            huge[..4].copy_from_slice(&random.choice(&[i32::MAX, 200_000_000]).to_be_bytes());
            return huge;
        }
        _ => {
            // Behind the header, whose client id is four letters. A length becomes wild, a string
            // stays UTF-8: Kafka puts another character for what is not.
            let at = 14 + random.below((body.len() - 14).max(1));
            let wild = [0x7f, 0x7f, 0x7f, 0x7f];
            for (byte, wild) in body.iter_mut().skip(at).zip(wild) {
                *byte = wild;
            }
        }
    }
    let size = u32::try_from(body.len()).expect("a request is short");
    let mut damaged = size.to_be_bytes().to_vec();
    damaged.extend(body);
    damaged
}

/// ApiVersions is answered in every version, in the lowest form when it is too new.
fn versions(session: &mut Session<'_>) -> Result<(), Stop> {
    // Newer versions have the header of version 3.
    let mut request = session.request(ApiKey::ApiVersions, (3, 3), &body!({}))?;
    for version in [5i16, 100, i16::MAX] {
        let newer = |(mut frame, _): MarkedFrame| {
            frame[6..8].copy_from_slice(&version.to_be_bytes());
            frame
        };
        request.correlation_id += 1;
        session.raw(&request, 0, &newer, LIMIT)?;
    }
    let names = ["", "-", "ok", "with space", "trailing-"];
    let name = *session.random.choice(&names);
    let odd = body!({ ClientSoftwareName: name, ClientSoftwareVersion: "1.0" });
    session.call_within(ApiKey::ApiVersions, (3, 4), &odd)?;
    Ok(())
}
