//! Configurations that operators set and unset.

use crate::lab::Lab;
use expect_test::expect;

#[test]
fn configuration_is_set_and_unset() {
    let lab = Lab::new();
    lab.prints(
        &["config", "set", "broker", "1", "log.retention.ms=5000"],
        expect![[""]],
    );
    lab.prints(
        &["config", "get", "broker", "1", "log.retention.ms"],
        expect![[r#"
            KEY               VALUE  SOURCE                 READ-ONLY
            log.retention.ms  5000   DYNAMIC_BROKER_CONFIG  false
        "#]],
    );
    lab.prints(
        &["config", "unset", "broker", "1", "log.retention.ms"],
        expect![[""]],
    );
    lab.prints(
        &["config", "get", "broker", "1", "log.retention.ms"],
        expect![[r#"
            KEY               VALUE  SOURCE          READ-ONLY
            log.retention.ms  -      DEFAULT_CONFIG  false
        "#]],
    );
    lab.fails(
        &["config", "set", "broker", "1", "log.retention.ms=soon"],
        expect![[r#"
            error: broker `1`: INVALID_REQUEST: Invalid value soon for configuration log.retention.ms: Not a number of type LONG
        "#]],
    );
    lab.fails(
        &["config", "get", "topic", "none"],
        expect![[r#"
            error: topic `none` does not exist
        "#]],
    );
}
