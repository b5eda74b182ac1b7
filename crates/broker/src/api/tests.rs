use super::*;
use wire::messages::{ListGroupsResponse, list_groups_response::ListedGroup};

/// What waits for another request of the connection.
const BEFORE: &[u8] = b"the answer before";

fn with_request<R>(call: impl FnOnce(&Request<'_>) -> R) -> R {
    call(&Request {
        api: ApiKey::ListGroups,
        version: 4,
        correlation_id: 7,
        body: &[],
        invalid: &InvalidStrings::default(),
        elements_max: usize::MAX,
        waits_for_room: false,
    })
}

fn buffer() -> ResponseBuffer {
    let mut out = ResponseBuffer::default();
    out.head.extend_from_slice(BEFORE);
    out
}

/// The size that a frame behind [`BEFORE`] says that it has.
fn size_of_frame(out: &ResponseBuffer) -> i32 {
    let size = out.head[BEFORE.len()..].first_chunk();
    i32::from_be_bytes(*size.expect("a frame"))
}

#[test]
fn an_answer_that_is_too_long_is_refused_before_it_takes_memory() {
    let name = "n".repeat(32 * 1024);
    let groups = |count: usize| ListGroupsResponse {
        groups: vec![
            ListedGroup {
                group_id: &name,
                ..ListedGroup::default()
            };
            count
        ]
        .into(),
        ..ListGroupsResponse::default()
    };
    with_request(|request| {
        let mut out = buffer();
        // 2 GiB and more: its size would be below zero.
        for count in [33_000, 66_000, 140_000] {
            request.answer(&groups(count), &mut out);
            assert_eq!(out.head, BEFORE, "the answers before it go out");
            assert!(out.head.capacity() < 1024 * 1024);
            let bytes = out.take_refused().expect("it is refused");
            assert!(bytes > count * name.len());
        }
        request.answer(&groups(2), &mut out);
        assert_eq!(out.take_refused(), None);
        let expected = out.head.len() - BEFORE.len() - 4;
        assert_eq!(size_of_frame(&out), expected as i32);
    });
}

#[test]
fn an_answer_that_has_grown_too_long_is_taken_back() {
    with_request(|request| {
        for (body_bytes, is_refused) in [
            (ANSWER_MAX_BYTES - 100, false),
            (ANSWER_MAX_BYTES + 1, true),
        ] {
            // Memory that nobody has written to is none.
            let mut out = ResponseBuffer::default();
            out.head = vec![0; BEFORE.len() + body_bytes];
            let start = BEFORE.len();
            request.finish_answer(start, &mut out);
            assert_eq!(out.take_refused().is_some(), is_refused);
            assert_eq!(out.head.len() > BEFORE.len(), !is_refused);
        }
    });
}

#[test]
fn records_go_out_if_the_size_of_a_frame_can_say_how_long_they_are() {
    with_request(|request| {
        let mut out = buffer();
        let start = request.begin_answer(&mut out.head);
        let header_bytes = out.head.len() - start - 4;
        let longest = i32::MAX as usize - 4 - header_bytes;
        request.finish_answer_with_records(start, longest, &mut out);
        assert_eq!(out.take_refused(), None);
        assert_eq!(size_of_frame(&out), i32::MAX - 4);
        for file_bytes in [longest + 1, 1 << 32, 1 << 40] {
            let mut out = buffer();
            let start = request.begin_answer(&mut out.head);
            request.finish_answer_with_records(start, file_bytes, &mut out);
            assert!(out.take_refused().is_some());
            assert_eq!(out.head, BEFORE);
        }
    });
}
