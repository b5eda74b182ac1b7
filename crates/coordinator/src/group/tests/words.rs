//! The words of a script's command.

/// The words of a command: plain ones and `key=value` ones.
pub(super) struct Words<'a> {
    pub(super) plain: Vec<&'a str>,
    pub(super) pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    pub(super) fn of(command: &'a str) -> Self {
        let (pairs, plain): (Vec<_>, Vec<_>) = command
            .split_whitespace()
            .partition(|word| word.contains('='));
        let pairs = pairs.into_iter().filter_map(|pair| pair.split_once('='));
        Self {
            plain,
            pairs: pairs.collect(),
        }
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        self.pairs
            .iter()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| *value)
    }

    pub(super) fn number<N: std::str::FromStr>(&self, key: &str, default: N) -> N {
        self.value(key)
            .map_or(default, |value| value.parse().ok().expect("a number"))
    }

    pub(super) fn flag(&self, word: &str) -> bool {
        self.plain.contains(&word)
    }

    /// `topic-0=5` as topic, partition, value.
    pub(super) fn partition_values(&self) -> Vec<(&'a str, i32, i64)> {
        let values = self.pairs.iter().filter_map(|(key, value)| {
            let (topic, partition) = partition_of(key)?;
            Some((topic, partition, value.parse().expect("an offset")))
        });
        values.collect()
    }

    /// `topic-0` as topic and partition.
    pub(super) fn partitions(&self) -> Vec<(&'a str, i32)> {
        self.plain
            .iter()
            .skip(2)
            .filter_map(|word| partition_of(word))
            .collect()
    }
}

fn partition_of(text: &str) -> Option<(&str, i32)> {
    let (topic, partition) = text.rsplit_once('-')?;
    Some((topic, partition.parse().ok()?))
}
