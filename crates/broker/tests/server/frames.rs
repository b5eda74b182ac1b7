//! Frames that are none: whatever arrives, the connection ends and the server goes on.

use testkit::TestServer;

/// A frame of this size, as its size says, with these bytes after it.
fn announced(size: i32, bytes: &[u8]) -> Vec<u8> {
    [&size.to_be_bytes(), bytes].concat()
}

#[test]
fn what_is_no_request_closes_the_connection() {
    let server = TestServer::start(&[]);
    let mut cases: Vec<(&str, Vec<u8>)> = vec![
        ("text", b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n".to_vec()),
        (
            "a TLS hello",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        ),
        ("a negative size", announced(-1, &[])),
        ("the lowest size", announced(i32::MIN, &[])),
        ("an oversized frame", announced(100 * 1024 * 1024 + 1, &[])),
        ("the highest size", announced(i32::MAX, &[0; 100])),
        ("an empty frame", announced(0, &[])),
        ("half a header", announced(4, &[0, 3, 0, 9])),
        (
            "a client id beyond the frame",
            announced(10, &[0, 3, 0, 9, 0, 0, 0, 1, 0x7f, 0xff]),
        ),
        (
            "a client id of -2",
            announced(10, &[0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xfe]),
        ),
        (
            "a client id that is no text",
            announced(11, &[0, 3, 0, 9, 0, 0, 0, 1, 0, 1, 0xff]),
        ),
        (
            "no tagged fields",
            announced(10, &[0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff]),
        ),
        ("zeros", announced(8, &[0; 8])),
    ];
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for length in [1, 17, 300, 5_000] {
        let noise = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        });
        let noise: Vec<u8> = noise.take(length).collect();
        cases.push(("noise in a frame", announced(length as i32, &noise)));
    }
    for (what, bytes) in cases {
        let mut client = server.connect();
        client.send_bytes(&bytes);
        client.finish_sending();
        println!("{what}");
        client.assert_closed();
    }
    server.assert_serves();
}
