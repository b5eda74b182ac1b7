//! Four error codes from the wire become errors.

use crate::Operation;
use model::ErrorCode;
use std::hint::black_box;

pub(super) struct ErrorLookup {
    codes: [i16; 4],
}

impl ErrorLookup {
    pub(super) fn new() -> Self {
        Self {
            codes: [0, 1, 6, 87],
        }
    }
}

impl Operation for ErrorLookup {
    fn evidence(&mut self) -> Vec<u8> {
        let names = self.codes.map(|code| ErrorCode::from_code(code).name());
        names.map(|name| format!("{name} ")).concat().into_bytes()
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            for &code in black_box(&self.codes) {
                black_box(ErrorCode::from_code(code));
            }
        }
    }
}
