//! Quotas, and the users they are for.

use crate::lab::Lab;
use expect_test::expect;

#[test]
fn quotas_and_users() {
    let lab = Lab::new();
    lab.prints(
        &["quota", "set", "--user", "alice", "producer_byte_rate=1024"],
        expect![""],
    );
    lab.prints(
        &["quota", "set", "--default", "user", "request_percentage=50"],
        expect![""],
    );
    lab.prints(
        &["quota", "list", "--user", "alice"],
        expect![[r"
            USER   CLIENT-ID  IP  KEY                 VALUE
            alice  -          -   producer_byte_rate  1024
        "]],
    );
    lab.prints(
        &["quota", "list", "--default", "user", "--output", "json"],
        expect![[r#"
            {"user":"<default>","clientId":null,"ip":null,"key":"request_percentage","value":50}
        "#]],
    );
    lab.prints(
        &["quota", "unset", "--user", "alice", "producer_byte_rate"],
        expect![""],
    );
    lab.prints(&["quota", "list", "--user", "alice"], expect![""]);
    lab.fails(
        &["quota", "set", "producer_byte_rate=1024"],
        expect![[r"
            error: say whom it is for: `--user`, `--client-id`, `--ip` or `--default`
        "]],
    );
    lab.fails(
        &[
            "quota",
            "set",
            "--user",
            "alice",
            "--default",
            "user",
            "request_percentage=50",
        ],
        expect![[r"
            error: `--user` and `--default user` exclude each other
        "]],
    );
    lab.fails(
        &["quota", "list", "--ip", "::1", "--default", "user"],
        expect![[r"
            error: a quota is for an address, or for users and client ids, never for both
        "]],
    );
    lab.prints_from(&["user", "set", "alice"], "secret\n", expect![""]);
    lab.prints(
        &["user", "list"],
        expect![[r"
            USER   MECHANISM      ITERATIONS
            alice  SCRAM-SHA-512  8192
        "]],
    );
    lab.prints(&["user", "delete", "alice"], expect![""]);
    lab.prints(&["user", "list"], expect![""]);
    lab.fails(
        &["user", "set", "alice"],
        expect![[r#"
            error: no password: write it as the first line of standard input, or set RIVERRUN_PASSWORD
        "#]],
    );
}
