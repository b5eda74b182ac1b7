//! Keys and values that are no text, on their way in and out.

use crate::lab::Lab;
use expect_test::expect;

#[test]
fn lines_are_read_as_the_format_says() {
    let lab = Lab::new();
    let produced = lab.run(&["topic", "create", "t"], "");
    assert!(produced.status.success());
    let format = ["produce", "t", "-f", "%k{i64} %d %v{hex}"];
    let produced = lab.run(&format, "7 1700000000000 00ff\n-1 1700000000001 41\n");
    assert!(produced.status.success(), "{produced:?}");
    lab.prints(
        &["consume", "t", "-e", "-f", "%K %k{i64} %d %v{base64}\\n"],
        expect![[r#"
            8 7 1700000000000 AP8=
            8 -1 1700000000001 QQ==
        "#]],
    );
    lab.prints(
        &[
            "consume",
            "t",
            "-e",
            "--output",
            "json",
            "--key-encoding",
            "i64",
            "--value-encoding",
            "hex",
        ],
        expect![[r#"
            {"topic":"t","partition":0,"offset":0,"timestamp":1700000000000,"leaderEpoch":0,"key":7,"value":"00ff","headers":[]}
            {"topic":"t","partition":0,"offset":1,"timestamp":1700000000001,"leaderEpoch":0,"key":-1,"value":"41","headers":[]}
        "#]],
    );
    lab.fails(
        &["consume", "t", "-e", "--key-encoding", "i32", "-f", "%k\\n"],
        expect![[r#"
            error: t-0 at offset 0: 8 bytes are not a valid i32, which has 4; use another encoding
        "#]],
    );
    lab.fails(&["produce", "t", "-f", "records.txt"], expect![[r#"
        error: invalid value 'records.txt' for '--format <FORMAT>': `records.txt` has no field, such as %v; to read a file, use `--file records.txt`

        For more information, try '--help'.
    "#]]);
    lab.fails(
        &["produce", "t", "--value-encoding", "avro"],
        expect![[r#"
            error: invalid value 'avro' for '--value-encoding <ENCODING>': `avro` is none of raw, utf8, hex, base64, json, i8, i16, i32, i64, u8, u16, u32, u64, f32, f64

            For more information, try '--help'.
        "#]],
    );
}

#[test]
fn the_key_of_every_record_is_written_as_keys_are() {
    let lab = Lab::new();
    let arguments = ["produce", "t", "--key-encoding", "i32", "--key", "7"];
    let produced = lab.run(&arguments, "value\n");
    assert!(produced.status.success(), "{produced:?}");
    lab.prints(
        &["consume", "t", "-e", "-f", "%k{hex} %v\\n"],
        expect![[r#"
            00000007 value
        "#]],
    );
    lab.fails(
        &["produce", "t", "--key-encoding", "i32", "--key", "a"],
        expect![[r#"
            error: `--key`: `a` is not a valid i32
        "#]],
    );
}

#[test]
fn numbers_survive_a_copy_as_json() {
    let lab = Lab::new();
    let encodings = ["--key-encoding", "i32", "--value-encoding", "f64"];
    let arguments = |more: &[&'static str]| [more, &encodings[..]].concat();
    let produced = lab.run(&arguments(&["produce", "a", "-K", ":"]), "1:2.5\n2:-3\n");
    assert!(produced.status.success(), "{produced:?}");
    let read = lab.run(&arguments(&["consume", "a", "-e", "--output", "json"]), "");
    let read = String::from_utf8(read.stdout).unwrap();
    let copied = lab.run(&arguments(&["produce", "b", "-i", "json"]), &read);
    assert!(copied.status.success(), "{copied:?}");
    lab.prints(
        &["consume", "b", "-e", "-f", "%k{hex} %v{hex}\\n"],
        expect![[r#"
            00000001 4004000000000000
            00000002 c008000000000000
        "#]],
    );
    let wrong = lab.run(&arguments(&["produce", "b", "-K", ":"]), "x:1\n");
    let wrong = String::from_utf8(wrong.stderr).unwrap();
    expect![[r#"
        0 records written to b
        error: line 1 `x` is not a valid i32
    "#]]
    .assert_eq(&wrong);
}
