//! When a member that does not know what it may own gives all up to hear it: that costs it all that it has restored.

/// When a member may begin again.
#[derive(Debug, Default)]
pub(super) struct Anew {
    /// How often it has, without a pause of the longest wait.
    count: u32,
    /// Not before.
    next_ms: Option<i64>,
}

impl Anew {
    /// Whether the member begins again at `now_ms`. The first time it does at once, and then after waits that begin
    /// with `interval_ms` and double up to `most_ms`, so that connections that are cut again and again do not keep it
    /// restoring for ever.
    pub(super) fn take(&mut self, now_ms: i64, interval_ms: i64, most_ms: i64) -> bool {
        let late_ms = self.next_ms.map(|next_ms| now_ms.saturating_sub(next_ms));
        match late_ms {
            Some(late_ms) if late_ms < 0 => return false,
            Some(late_ms) if late_ms >= most_ms => self.count = 0,
            _ => {}
        }
        let doubled = 1_i64.checked_shl(self.count.min(20)).unwrap_or(1);
        let wait_ms = interval_ms.saturating_mul(doubled).min(most_ms);
        self.count = self.count.saturating_add(1);
        self.next_ms = Some(now_ms.saturating_add(wait_ms));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_until_there_was_a_pause() {
        let mut anew = Anew::default();
        let check = |anew: &mut Anew, script: &[(i64, bool)]| {
            for (now_ms, expected) in script {
                assert_eq!(anew.take(*now_ms, 10, 100), *expected, "{now_ms}");
            }
        };
        check(&mut anew, &[(0, true), (9, false), (10, true), (29, false)]);
        check(&mut anew, &[(30, true), (69, false), (70, true)]);
        // 100 is the most.
        check(
            &mut anew,
            &[(149, false), (150, true), (249, false), (250, true)],
        );
        // Until 350 it waits, and a pause of 100 follows.
        check(&mut anew, &[(450, true), (459, false), (460, true)]);
    }
}
