//! What the server's processes have cost: CPU time and memory as `/proc/PID` tells them.

use std::fs;
use std::num::ParseIntError;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, Result};

/// Kernels report CPU time in hundredths of a second, whatever their own tick is.
const TICK: Duration = Duration::from_millis(10);

/// The processes to watch, one for each broker; without any everything is unknown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(Vec<u32>);

impl Processes {
    /// CPU time of all threads of all of them, user and system, since they began.
    pub(crate) fn cpu_time(&self) -> Result<Option<Duration>> {
        let times = self.0.iter().map(|pid| -> Result<Duration> {
            let path = format!("/proc/{pid}/stat");
            let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
            cpu_time_of(&stat).with_context(|| format!("{path} is not understood"))
        });
        let sum = times.sum::<Result<Duration>>()?;
        Ok((!self.0.is_empty()).then_some(sum))
    }

    /// Resident memory of all of them, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<Option<u64>> {
        let sizes = self.0.iter().map(|pid| -> Result<u64> {
            let path = format!("/proc/{pid}/status");
            let status = fs::read_to_string(&path).with_context(|| path.clone())?;
            resident_bytes_of(&status).with_context(|| format!("{path} has no VmRSS"))
        });
        let sum = sizes.sum::<Result<u64>>()?;
        Ok((!self.0.is_empty()).then_some(sum))
    }
}

/// Ids with commas between them.
impl FromStr for Processes {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        let ids = text.split(',').map(str::parse);
        Ok(Self(ids.collect::<Result<_, _>>()?))
    }
}

/// User and system time are the 14th and 15th field; the second, a name in parentheses, may hold
/// anything.
fn cpu_time_of(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user: u32 = fields.next()?.parse().ok()?;
    let system: u32 = fields.next()?.parse().ok()?;
    Some(TICK * (user + system))
}

fn resident_bytes_of(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_the_end_of_the_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 120 30 0 0 20 0";
        assert_eq!(cpu_time_of(stat), Some(Duration::from_millis(1500)));
        assert_eq!(cpu_time_of("7 (a) S 1"), None);
    }

    #[test]
    fn several_processes_are_summed_up() {
        let own = std::process::id();
        let bytes = |text: &str| text.parse::<Processes>().unwrap().resident_bytes().unwrap();
        let (once, twice) = (bytes(&own.to_string()), bytes(&format!("{own},{own}")));
        assert!(twice > once && once.is_some());
        assert_eq!(Processes::default().resident_bytes().unwrap(), None);
        assert!("1,".parse::<Processes>().is_err());
    }

    #[test]
    fn resident_memory_is_in_kib() {
        let status = "Name:\tx\nVmRSS:\t    2048 kB\nVmSwap: 0 kB\n";
        assert_eq!(resident_bytes_of(status), Some(2 << 20));
    }
}
