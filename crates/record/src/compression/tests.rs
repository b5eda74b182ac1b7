use super::*;
use proptest::prelude::*;

const LIMIT_BYTES: usize = 64 * 1024 * 1024;
const CODECS: [Compression; 4] = [
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

fn compressed(codec: impl Into<Codec>, input: &[u8]) -> Vec<u8> {
    let mut output = Vec::new();
    Compressor::new().compress(codec.into(), input, &mut output);
    output
}

fn decompressed(codec: Compression, input: &[u8]) -> Result<Vec<u8>, DecompressError> {
    let mut output = Vec::new();
    Decompressor::new().decompress(codec, input, LIMIT_BYTES, &mut output)?;
    Ok(output)
}

fn check_corrupt(codec: Compression, input: &[u8], expected_reason: &str) {
    match decompressed(codec, input) {
        Err(DecompressError::Corrupt {
            codec: named,
            reason,
        }) => {
            assert_eq!((named, reason), (codec, expected_reason));
        }
        other => panic!("expected `{expected_reason}`, got {other:?}"),
    }
}

/// Bytes that compress somewhat: words over a small alphabet.
fn text(size_bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..size_bytes)
        .map(|_| b"kafka stream "[usize::from(next()) % 13])
        .collect()
}

#[test]
fn contexts_are_reused_across_streams_of_all_sizes() {
    let mut compressor = Compressor::new();
    let mut decompressor = Decompressor::new();
    let (mut packed, mut unpacked) = (Vec::new(), Vec::new());
    for size_bytes in [
        0,
        1,
        100,
        32 * 1024,
        32 * 1024 + 1,
        64 * 1024,
        200_000,
        1_000_000,
        3,
    ] {
        let input = text(size_bytes);
        for codec in Compression::ALL {
            packed.clear();
            unpacked.clear();
            compressor.compress(codec.into(), &input, &mut packed);
            decompressor
                .decompress(codec, &packed, LIMIT_BYTES, &mut unpacked)
                .unwrap();
            assert!(unpacked == input, "{} of {size_bytes} bytes", codec.name());
        }
    }
}

#[test]
fn every_level_is_readable() {
    let input = text(3000);
    for level in [-1, 0, 1, 6, 9, 17, 22] {
        for compression in CODECS {
            let packed = compressed(Codec { compression, level }, &input);
            assert_eq!(decompressed(compression, &packed).unwrap(), input);
        }
    }
}

#[test]
fn levels_of_lz4_take_effect() {
    let input = text(200_000);
    let size_at = |level| {
        let compression = Compression::Lz4;
        compressed(Codec { compression, level }, &input).len()
    };
    assert!(size_at(12) < size_at(9), "9, the default, is the fast one");
}

#[test]
fn appending_keeps_what_the_buffer_held() {
    for codec in CODECS {
        let mut packed = b"before".to_vec();
        Compressor::new().compress(codec.into(), b"input", &mut packed);
        let mut unpacked = b"first ".to_vec();
        Decompressor::new()
            .decompress(codec, &packed[6..], LIMIT_BYTES, &mut unpacked)
            .unwrap();
        assert_eq!(
            (&packed[..6], &unpacked[..]),
            (&b"before"[..], &b"first input"[..])
        );
    }
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let zeros = vec![0; 2 * 1024 * 1024];
    for codec in CODECS {
        let packed = compressed(codec, &zeros);
        let mut output = Vec::new();
        let result = Decompressor::new().decompress(codec, &packed, 100_000, &mut output);
        assert_eq!(
            result,
            Err(DecompressError::TooLarge {
                limit_bytes: 100_000
            })
        );
        assert!(
            output.capacity() < 500_000,
            "{}: {}",
            codec.name(),
            output.capacity()
        );
    }
}

#[test]
fn every_cut_of_a_stream_is_an_error_or_its_beginning() {
    let input = text(70_000);
    for codec in CODECS {
        let packed = compressed(codec, &input);
        for cut in (0..packed.len())
            .step_by(997)
            .chain(packed.len() - 12..packed.len())
        {
            if let Ok(output) = decompressed(codec, &packed[..cut]) {
                assert!(input.starts_with(&output), "{} cut at {cut}", codec.name());
                assert!(codec == Compression::Snappy || codec == Compression::Zstd && cut == 0);
            }
        }
    }
}

#[test]
fn gzip_members_are_concatenated_and_garbage_after_them_is_ignored() {
    let mut packed = compressed(Compression::Gzip, b"one, ");
    packed.extend(compressed(Compression::Gzip, b"two"));
    packed.extend(b"something else");
    assert_eq!(
        decompressed(Compression::Gzip, &packed).unwrap(),
        b"one, two"
    );
}

#[test]
fn gzip_headers_may_hold_optional_fields() {
    let plain = compressed(Compression::Gzip, b"body");
    let mut packed = plain[..10].to_vec();
    packed[3] = 0b1_1110;
    packed.extend(b"\x03\x00xyz");
    packed.extend(b"name\0comment\0");
    packed.extend(b"\x12\x34");
    packed.extend(&plain[10..]);
    assert_eq!(decompressed(Compression::Gzip, &packed).unwrap(), b"body");
    packed[3] |= 0x20;
    check_corrupt(Compression::Gzip, &packed, "bad gzip header");
}

#[test]
fn gzip_trailers_are_verified() {
    let mut packed = compressed(Compression::Gzip, b"body");
    let crc_at = packed.len() - 8;
    packed[crc_at] ^= 1;
    check_corrupt(Compression::Gzip, &packed, "gzip checksum or size mismatch");
}

#[test]
fn snappy_reads_a_bare_block() {
    let input = text(100_000);
    let packed = snap::raw::Encoder::new().compress_vec(&input).unwrap();
    assert_eq!(decompressed(Compression::Snappy, &packed).unwrap(), input);
}

#[test]
fn snappy_reads_concatenated_streams() {
    let mut packed = compressed(Compression::Snappy, b"one, ");
    packed.extend(compressed(Compression::Snappy, b"two"));
    assert_eq!(
        decompressed(Compression::Snappy, &packed).unwrap(),
        b"one, two"
    );
}

#[test]
fn snappy_never_allocates_for_a_size_that_cannot_be() {
    let declared_2_gib = [0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
    let reason = "snappy block declares an impossible size";
    check_corrupt(Compression::Snappy, &declared_2_gib, reason);
}

#[test]
fn zstd_frames_are_concatenated() {
    let mut packed = compressed(Compression::Zstd, b"one, ");
    packed.extend(compressed(Compression::Zstd, b"two"));
    assert_eq!(
        decompressed(Compression::Zstd, &packed).unwrap(),
        b"one, two"
    );
    packed.extend(b"garbage");
    check_corrupt(Compression::Zstd, &packed, "bad zstd frame");
}

/// An LZ4 frame with a header checksum that is right whatever the descriptor says.
fn lz4_frame(descriptor: &[u8], blocks: &[u8]) -> Vec<u8> {
    let checksum = (xxhash_rust::xxh32::xxh32(descriptor, 0) >> 8) as u8;
    [&[0x04, 0x22, 0x4d, 0x18], descriptor, &[checksum], blocks].concat()
}

const LZ4_RAW_ABC: &[u8] = &[3, 0, 0, 0x80, b'a', b'b', b'c'];
const LZ4_END: &[u8] = &[0, 0, 0, 0];

#[test]
fn lz4_writes_the_header_that_kafka_writes() {
    let packed = compressed(Compression::Lz4, b"abc");
    let expected = lz4_frame(&[0x60, 0x40], &[LZ4_RAW_ABC, LZ4_END].concat());
    assert_eq!(packed, expected);
    assert_eq!(packed[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
}

#[test]
fn lz4_optional_fields_are_accepted() {
    let content = [LZ4_RAW_ABC, LZ4_END].concat();
    let read = |descriptor: &[u8], blocks: &[u8]| {
        decompressed(Compression::Lz4, &lz4_frame(descriptor, blocks)).unwrap()
    };
    assert_eq!(
        read(&[0x68, 0x40, 3, 0, 0, 0, 0, 0, 0, 0], &content),
        b"abc"
    );
    // The content checksum is not looked at, nor is anything after the end mark.
    assert_eq!(
        read(&[0x64, 0x70], &[&content[..], &[1, 2, 3, 4]].concat()),
        b"abc"
    );
    assert_eq!(read(&[0x64, 0x70], &content), b"abc");
    let checksum = xxhash_rust::xxh32::xxh32(b"abc", 0).to_le_bytes();
    let checked = [LZ4_RAW_ABC, &checksum, LZ4_END].concat();
    assert_eq!(read(&[0x70, 0x50], &checked), b"abc");
}

#[test]
fn lz4_rules_are_enforced() {
    let content = [LZ4_RAW_ABC, LZ4_END].concat();
    let check = |descriptor: &[u8], blocks: &[u8], reason| {
        check_corrupt(Compression::Lz4, &lz4_frame(descriptor, blocks), reason);
    };
    check(
        &[0x40, 0x40],
        &content,
        "dependent lz4 blocks are not supported",
    );
    check(
        &[0x20, 0x40],
        &content,
        "unsupported lz4 frame version or flags",
    );
    check(
        &[0x61, 0x40],
        &content,
        "unsupported lz4 frame version or flags",
    );
    check(
        &[0x62, 0x40],
        &content,
        "unsupported lz4 frame version or flags",
    );
    for block_descriptor in [0x00, 0x30, 0x41, 0x4f, 0x80, 0xc0] {
        check(
            &[0x60, block_descriptor],
            &content,
            "bad lz4 block descriptor",
        );
    }
    check(&[0x60, 0x40], LZ4_RAW_ABC, "truncated lz4 frame");
    let oversized = [&(64 * 1024 + 1u32).to_le_bytes()[..], &[0; 70_000]].concat();
    check(
        &[0x60, 0x40],
        &oversized,
        "lz4 block exceeds the size of the frame's blocks",
    );
    let unchecked = [LZ4_RAW_ABC, &[0; 4], LZ4_END].concat();
    check(&[0x70, 0x40], &unchecked, "lz4 block checksum mismatch");
    let mut frame = lz4_frame(&[0x60, 0x40], &content);
    frame[6] ^= 1;
    check_corrupt(Compression::Lz4, &frame, "lz4 header checksum mismatch");
    check_corrupt(Compression::Lz4, b"\x04\x22\x4d\x19", "bad lz4 magic");
}

#[test]
fn names_and_ids_are_those_of_the_configuration_and_the_attributes() {
    for (id, compression) in Compression::ALL.into_iter().enumerate() {
        assert_eq!(compression.id() as usize, id);
        assert_eq!(Compression::from_id(id as i8), Some(compression));
        assert_eq!(
            Compression::from_name(compression.name()),
            Some(compression)
        );
    }
    assert_eq!(Compression::from_id(5), None);
    assert_eq!(Compression::from_name("LZ4"), None);
}

/// Compresses `input`, piece by piece, with the sizes of the pieces taken in turn.
fn streamed(
    compressor: &mut Compressor,
    codec: impl Into<Codec>,
    input: &[u8],
    piece_sizes: &[usize],
) -> Vec<u8> {
    let mut output = Vec::new();
    let mut stream = compressor.start(codec.into());
    let mut rest = input;
    for size_bytes in piece_sizes.iter().cycle() {
        let (piece, later) = rest.split_at((*size_bytes).min(rest.len()));
        stream.write(piece, &mut output);
        rest = later;
        if rest.is_empty() {
            break;
        }
    }
    stream.finish(&mut output);
    output
}

#[test]
fn a_stream_of_pieces_is_what_all_at_once_would_be() {
    let input = text(2_500_000);
    let block_ends = [32, 64, 1024].map(|kib| kib * 1024);
    let around_ends = block_ends.iter().flat_map(|end| [end - 1, *end, end + 1]);
    let mut compressor = Compressor::new();
    for size_bytes in [0, 1, input.len()].into_iter().chain(around_ends) {
        let input = &input[..size_bytes];
        for codec in Compression::ALL {
            let at_once = compressed(codec, input);
            for piece_sizes in [&[3000, 1, 600][..], &[70_000], &[usize::MAX]] {
                let packed = streamed(&mut compressor, codec, input, piece_sizes);
                let what = format!("{} of {size_bytes} in {piece_sizes:?}", codec.name());
                // A long frame of Zstandard does not declare its size.
                if codec == Compression::Zstd && size_bytes > 1024 * 1024 {
                    assert!(decompressed(codec, &packed).unwrap() == input, "{what}");
                } else {
                    assert!(packed == at_once, "{what}");
                }
            }
        }
    }
}

#[test]
fn a_stream_that_is_not_finished_leaves_nothing_behind() {
    let long = text(1_500_000);
    let mut compressor = Compressor::new();
    for codec in Compression::ALL {
        for long in [&long[..], &long[..10]] {
            let stream = compressor.start(codec.into());
            { stream }.write(long, &mut Vec::new());
            let packed = streamed(&mut compressor, codec, b"input", &[2]);
            assert_eq!(packed, compressed(codec, b"input"), "{}", codec.name());
        }
    }
}

#[test]
fn a_stream_has_every_level() {
    let input = text(200_000);
    for level in [-1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 17, 22] {
        for compression in CODECS {
            let codec = Codec { compression, level };
            let packed = streamed(&mut Compressor::new(), codec, &input, &[3000]);
            let name = compression.name();
            // The fastest deflate ends its blocks where its input does.
            if (compression, level) == (Compression::Gzip, 1) {
                assert!(decompressed(compression, &packed).unwrap() == input);
            } else {
                assert!(packed == compressed(codec, &input), "{name} at {level}");
            }
        }
    }
}

proptest! {
    #![proptest_config(trials::property(40))]

    #[test]
    fn what_is_compressed_comes_back(
        input in prop::collection::vec(prop_oneof![Just(7u8), any::<u8>()], 0..2000),
        piece_count in 1usize..20,
    ) {
        let input = input.repeat(piece_count);
        for codec in CODECS {
            prop_assert!(decompressed(codec, &compressed(codec, &input)).unwrap() == input);
        }
    }

    #[test]
    fn corruption_never_panics(
        input in prop::collection::vec(any::<u8>(), 0..300),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for codec in CODECS {
            let mut packed = compressed(codec, &input.repeat(3));
            for (index, byte) in &flips {
                let index = index.index(packed.len());
                packed[index] ^= byte;
            }
            let _ = decompressed(codec, &packed);
            let _ = decompressed(codec, &input);
        }
        fuzz_lz4(&input);
        fuzz_snappy(&input);
    }
}

/// A frame of zeros that asks for a window of so many bits.
fn with_window(window_log: u32, size_bytes: usize) -> Vec<u8> {
    use ::zstd::zstd_safe::{
        CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective as End,
    };
    let mut context = CCtx::create();
    let set = context.set_parameter(CParameter::WindowLog(window_log));
    set.unwrap();
    let input = vec![0; size_bytes];
    let mut source = InBuffer::around(&input);
    let mut packed = Vec::with_capacity(1024 * 1024);
    let mut target = OutBuffer::around_pos(&mut packed, 0);
    // The frame begins before its size is known.
    for directive in [End::ZSTD_e_continue, End::ZSTD_e_end] {
        let left = context.compress_stream2(&mut target, &mut source, directive);
        left.unwrap();
    }
    packed
}

#[test]
fn a_large_window_is_for_those_who_want_much() {
    let packed = with_window(27, 100_000);
    let mut decompressor = Decompressor::new();
    let mut output = Vec::new();
    let mut read = |limit_bytes| {
        output.clear();
        let read = decompressor.decompress(Compression::Zstd, &packed, limit_bytes, &mut output);
        let size_bytes = decompressor.zstd.size_bytes();
        decompressor.give_back();
        (
            read.map(|()| output.len()),
            size_bytes,
            decompressor.zstd.size_bytes(),
        )
    };
    let limit_bytes = 1_000_000;
    let (refused, size_bytes, _) = read(limit_bytes);
    assert_eq!(refused, Err(DecompressError::TooLarge { limit_bytes }));
    assert!(size_bytes < 1_000_000);
    let (read, size_bytes, kept_bytes) = read(1 << 30);
    assert_eq!(read, Ok(100_000));
    assert!(size_bytes > 1 << 27);
    assert_eq!(kept_bytes, 0);
}

#[test]
fn a_snappy_block_beyond_the_limit_takes_no_memory() {
    let packed = snap::raw::Encoder::new()
        .compress_vec(&vec![0; 10_000_000])
        .unwrap();
    let mut decompressor = Decompressor::new();
    let mut output = Vec::new();
    let limit_bytes = 1_000_000;
    let read = decompressor.decompress(Compression::Snappy, &packed, limit_bytes, &mut output);
    assert_eq!(read, Err(DecompressError::TooLarge { limit_bytes }));
    assert_eq!(output.capacity(), 0);
}

#[test]
fn much_takes_the_memory_of_its_size_and_none_beyond_the_limit() {
    let size_bytes = 20 << 20;
    let packed = compressed(Compression::Zstd, &vec![0; size_bytes]);
    let read = |limit_bytes| {
        let mut output = Vec::new();
        let mut decompressor = Decompressor::new();
        let read = decompressor.decompress(Compression::Zstd, &packed, limit_bytes, &mut output);
        (read.map(|()| output.len()), output.capacity())
    };
    let limit_bytes = size_bytes - 1;
    let (refused, capacity) = read(limit_bytes);
    assert_eq!(refused, Err(DecompressError::TooLarge { limit_bytes }));
    assert_eq!(capacity, 0);
    let (read, capacity) = read(1 << 30);
    assert_eq!(read, Ok(size_bytes));
    assert!(capacity <= size_bytes + ROOM_MAX_BYTES, "{capacity}");
}
