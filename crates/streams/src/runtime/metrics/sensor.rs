//! Values over time: in two samples of 30 s, of which the older one is given up for a new one. Pure: who records brings
//! the time.

/// How long values are collected in a sample.
const SAMPLE_MS: i64 = 30_000;

/// Values of the last 30 to 60 s, and their sum since the beginning.
#[derive(Debug, Clone, Default)]
pub(super) struct Sensor {
    /// The older one first.
    samples: [Option<Sample>; 2],
    /// How many values there were since the beginning.
    pub(super) count: f64,
    /// Their sum.
    pub(super) total: f64,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    start_ms: i64,
    count: f64,
    sum: f64,
    max: f64,
    min: f64,
}

impl Sensor {
    /// A value.
    pub(super) fn record(&mut self, now_ms: i64, value: f64) {
        self.record_several(now_ms, (1.0, value), value);
    }

    /// Several values: how many they are, their sum, and the greatest.
    pub(super) fn record_several(&mut self, now_ms: i64, (count, sum): (f64, f64), max: f64) {
        self.count += count;
        self.total += sum;
        let [_, newest] = &mut self.samples;
        let is_over = newest
            .as_ref()
            .is_none_or(|newest| now_ms.saturating_sub(newest.start_ms) >= SAMPLE_MS);
        if is_over {
            let new = Sample {
                start_ms: now_ms,
                count: 0.0,
                sum: 0.0,
                max: f64::NEG_INFINITY,
                min: f64::INFINITY,
            };
            self.samples = [*newest, Some(new)];
        }
        if let [_, Some(newest)] = &mut self.samples {
            newest.count += count;
            newest.sum += sum;
            newest.max = newest.max.max(max);
            newest.min = newest.min.min(sum);
        }
    }

    /// The samples that are not too old.
    fn current(&self, now_ms: i64) -> impl Iterator<Item = &Sample> {
        let samples = self.samples.iter().flatten();
        samples.filter(move |sample| now_ms.saturating_sub(sample.start_ms) < 2 * SAMPLE_MS)
    }

    /// The average value; NaN of none, as in Kafka.
    pub(super) fn average(&self, now_ms: i64) -> f64 {
        let (count, sum) = self.current(now_ms).fold((0.0, 0.0), |(count, sum), one| {
            (count + one.count, sum + one.sum)
        });
        sum / count
    }

    /// The greatest value; NaN of none.
    pub(super) fn max(&self, now_ms: i64) -> f64 {
        let all = self.current(now_ms).map(|sample| sample.max);
        all.fold(f64::NAN, f64::max)
    }

    /// The least value; NaN of none. Several that were recorded at once count as their sum.
    pub(super) fn min(&self, now_ms: i64) -> f64 {
        let all = self.current(now_ms).map(|sample| sample.min);
        all.fold(f64::NAN, f64::min)
    }

    /// The sum of the values.
    pub(super) fn sum(&self, now_ms: i64) -> f64 {
        self.current(now_ms).map(|sample| sample.sum).sum()
    }

    /// The sum of the values per second.
    pub(super) fn rate(&self, now_ms: i64) -> f64 {
        self.sum(now_ms) / self.elapsed_s(now_ms)
    }

    /// How many values per second.
    pub(super) fn count_rate(&self, now_ms: i64) -> f64 {
        let count: f64 = self.current(now_ms).map(|sample| sample.count).sum();
        count / self.elapsed_s(now_ms)
    }

    /// Since the oldest sample began; a beginner is taken to have had one sample before.
    fn elapsed_s(&self, now_ms: i64) -> f64 {
        let oldest = self.current(now_ms).map(|sample| sample.start_ms).min();
        let elapsed_ms = now_ms.saturating_sub(oldest.unwrap_or(now_ms));
        let elapsed_ms = match elapsed_ms < SAMPLE_MS {
            true => elapsed_ms + SAMPLE_MS,
            false => elapsed_ms,
        };
        elapsed_ms as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp, reason = "small whole numbers are exact")]
    fn old_values_go_and_totals_stay() {
        let mut sensor = Sensor::default();
        assert!(sensor.average(0).is_nan() && sensor.max(0).is_nan());
        assert_eq!(sensor.rate(0), 0.0);
        sensor.record(1_000, 30.0);
        sensor.record(2_000, 60.0);
        // One second and a sample before.
        assert_eq!(sensor.rate(1_000), 3.0);
        assert_eq!((sensor.average(2_000), sensor.max(2_000)), (45.0, 60.0));
        sensor.record(31_000, 3.0);
        assert_eq!((sensor.average(31_000), sensor.max(31_000)), (31.0, 60.0));
        assert_eq!(sensor.rate(31_000), 3.1);
        // The first sample is a minute old.
        assert_eq!((sensor.average(61_000), sensor.max(61_000)), (3.0, 3.0));
        assert_eq!((sensor.count, sensor.total), (3.0, 93.0));
        assert!(sensor.average(200_000).is_nan());
    }
}
