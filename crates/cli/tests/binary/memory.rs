//! What peers send or announce does not decide how much memory the server takes.
#![cfg(target_os = "linux")]

use crate::process::Process;
use record::{BatchBuilder, BatchHeader, Codec, Compression, Compressor};
use testkit::{Client, now_ms};

const MEBIBYTE: u64 = 1024 * 1024;

#[test]
fn announced_frames_cost_what_was_sent() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let (peak, resident) = (
        process.memory_bytes("VmPeak"),
        process.memory_bytes("VmHWM"),
    );
    let mut liars: Vec<Client> = Vec::new();
    for _ in 0..100 {
        let mut liar = Client::connect(process.address());
        liar.send_bytes(&(100 * 1024 * 1024i32).to_be_bytes());
        liar.send_bytes(&[0; 1000]);
        liars.push(liar);
    }
    // Counts, too, that are beyond all bytes.
    for count in [i32::MAX, 1_000_000_000] {
        let mut liar = Client::connect(process.address());
        let frame = liar.frame_of(3, 1, false, &count.to_be_bytes());
        liar.send_bytes(&frame);
        liar.assert_closed();
    }
    process.connect().brokers();
    assert!(process.memory_bytes("VmPeak") < peak + 1024 * MEBIBYTE);
    assert!(process.memory_bytes("VmHWM") < resident + 32 * MEBIBYTE);
    process.stop();
}

#[test]
fn compressed_batches_are_read_without_being_held() {
    let directory = trials::directory();
    let process = Process::start(directory.path(), &[]);
    let mut client = process.connect();
    client.create_topic("topic", 1, &[]);
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.append(now_ms(), None, Some(&vec![0; 60 * 1024 * 1024]), &[]);
    for compression in [Compression::Gzip, Compression::Lz4, Compression::Zstd] {
        let mut bytes = Vec::new();
        builder.build(
            Codec::from(compression),
            &mut Compressor::default(),
            &mut bytes,
        );
        let before = process.memory_bytes("VmHWM");
        client.produce("topic", 0, &bytes).assert_accepted();
        let after = process.memory_bytes("VmHWM");
        let grown = after - before;
        assert!(grown < 24 * MEBIBYTE, "{compression:?}: {grown} bytes");
    }
    process.stop();
}
