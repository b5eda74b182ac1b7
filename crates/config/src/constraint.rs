//! What each constraint demands of a value, and how it says so.

use crate::definition::{ConfigDefinition, Constraint};
use crate::value::{Value, ValueError, trim};

/// Checks `value` against the constraint of its key.
pub(crate) fn check(definition: &ConfigDefinition, value: &Value) -> Result<(), ValueError> {
    let name = definition.name;
    let invalid = |reason: String| Err(ValueError::invalid(name, value.to_string(), reason));
    match (definition.constraint, value) {
        (Constraint::Range { min, max }, _) => match whole_number(value) {
            Some(number) if number < min => invalid(format!("Value must be at least {min}")),
            Some(number) if number > max => invalid(format!("Value must be no more than {max}")),
            _ => Ok(()),
        },
        (Constraint::RealRange { min, max }, Value::Double(number)) => {
            if *number < min {
                invalid(format!("Value must be at least {min}"))
            } else if *number > max {
                invalid(format!("Value must be no more than {max}"))
            } else {
                Ok(())
            }
        }
        (Constraint::OneOf(allowed), Value::Text(text)) if !allowed.contains(&text.as_str()) => {
            invalid(format!("String must be one of: {}", allowed.join(", ")))
        }
        (Constraint::OneOfAnyCase(allowed), Value::Text(text))
            if !allowed.iter().any(|word| word.eq_ignore_ascii_case(text)) =>
        {
            let words = allowed.join(", ");
            invalid(format!("String must be one of (case insensitive): {words}"))
        }
        (
            Constraint::ListOf {
                allowed,
                empty_allowed,
            },
            Value::List(elements),
        ) => check_list(name, elements, allowed, empty_allowed),
        (Constraint::NonEmpty, Value::Text(text)) if text.is_empty() => {
            invalid("String must be non-empty".to_owned())
        }
        (Constraint::GzipLevel, Value::Int(level)) if !matches!(level, -1 | 1..=9) => {
            invalid("Value must be between 1 and 9 or equal to -1".to_owned())
        }
        (Constraint::QuorumVoters, Value::List(voters)) => {
            check_each(name, voters, "id@host:port", |voter| {
                quorum_voter(voter).is_some()
            })
        }
        (Constraint::BootstrapServers, Value::List(servers)) => {
            check_each(name, servers, "host:port", |server| {
                host_and_port(server).is_some()
            })
        }
        (Constraint::ThrottledReplicas, Value::List(replicas)) => {
            check_throttled_replicas(name, replicas)
        }
        (Constraint::ShareOffsetReset, Value::Text(text)) if !is_share_offset_reset(text) => {
            invalid(
                "Value must be earliest, latest or by_duration:<PnDTnHnMn.nS> with a duration \
                 that is not negative"
                    .to_owned(),
            )
        }
        _ => Ok(()),
    }
}

fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(i64::from(*number)),
        Value::Short(number) => Some(i64::from(*number)),
        Value::Long(number) => Some(*number),
        _ => None,
    }
}

fn check_list(
    name: &str,
    elements: &[String],
    allowed: &[&str],
    empty_allowed: bool,
) -> Result<(), ValueError> {
    if elements.is_empty() && !empty_allowed {
        let allowed = if allowed.is_empty() {
            "any non-empty value".to_owned()
        } else {
            format!("[{}]", allowed.join(", "))
        };
        return Err(ValueError::EmptyList {
            name: name.to_owned(),
            allowed,
        });
    }
    if elements.iter().any(|element| trim(element).is_empty()) {
        return Err(ValueError::EmptyElement {
            name: name.to_owned(),
        });
    }
    let stranger = elements
        .iter()
        .find(|element| !allowed.contains(&element.as_str()));
    match stranger {
        Some(element) if !allowed.is_empty() => Err(ValueError::invalid(
            name,
            element,
            format!("String must be one of: {}", allowed.join(", ")),
        )),
        _ => Ok(()),
    }
}

fn check_each(
    name: &str,
    elements: &[String],
    form: &str,
    is_valid: impl Fn(&str) -> bool,
) -> Result<(), ValueError> {
    match elements.iter().find(|element| !is_valid(element)) {
        Some(element) => Err(ValueError::invalid(
            name,
            element,
            format!("Each entry must have the form {form}"),
        )),
        None => Ok(()),
    }
}

/// `id@host:port` taken apart.
pub(crate) fn quorum_voter(text: &str) -> Option<(i32, &str, u16)> {
    let (id, address) = text.split_once('@')?;
    let (host, port) = host_and_port(address)?;
    Some((trim(id).parse().ok()?, host, port))
}

/// `host:port` or `[host]:port` taken apart; the host is not empty.
pub(crate) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']')?,
        None => host,
    };
    (!host.is_empty() && host.chars().all(is_host_character)).then_some((host, port))
}

pub(crate) fn is_host_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '%' | '.' | '_' | ':')
}

fn check_throttled_replicas(name: &str, replicas: &[String]) -> Result<(), ValueError> {
    let is_pair = |replica: &String| {
        replica.split_once(':').is_some_and(|(partition, broker)| {
            [partition, broker].iter().all(|number| {
                !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
            })
        })
    };
    let all = matches!(replicas, [only] if only == "*");
    if all || replicas.iter().all(is_pair) {
        return Ok(());
    }
    Err(ValueError::invalid(
        name,
        format!("[{}]", replicas.join(", ")),
        format!("{name} must be '*' or a list of [partitionId]:[brokerId] pairs"),
    ))
}

fn is_share_offset_reset(text: &str) -> bool {
    match text {
        "earliest" | "latest" => true,
        _ => text
            .strip_prefix("by_duration:")
            .is_some_and(|duration| duration_ms(duration).is_some()),
    }
}

/// Milliseconds of an ISO 8601 duration of days, hours, minutes and seconds, such as `P1DT2H3.5S`.
/// Negative and empty durations are refused.
pub(crate) fn duration_ms(text: &str) -> Option<i64> {
    let mut rest = strip_prefix_any_case(text, 'P')?;
    let mut total_ms: i64 = 0;
    let mut units: &[(char, i64)] = &[('D', 86_400_000)];
    let mut in_time = false;
    let mut found = false;
    while !rest.is_empty() {
        if !in_time && let Some(time) = strip_prefix_any_case(rest, 'T') {
            in_time = true;
            units = &[('H', 3_600_000), ('M', 60_000), ('S', 1000)];
            rest = time;
            found = false;
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, after) = rest.split_at(end);
        let unit = after.chars().next()?.to_ascii_uppercase();
        let position = units.iter().position(|(name, _)| *name == unit)?;
        let (_, unit_ms) = units.get(position)?;
        total_ms = total_ms.checked_add(scaled_ms(number, *unit_ms)?)?;
        units = units.get(position + 1..)?;
        rest = after.get(1..)?;
        found = true;
    }
    found.then_some(total_ms)
}

fn strip_prefix_any_case(text: &str, prefix: char) -> Option<&str> {
    text.strip_prefix([prefix, prefix.to_ascii_lowercase()])
}

/// `number` times `unit_ms`; only seconds may have a fraction, of at most nine digits.
fn scaled_ms(number: &str, unit_ms: i64) -> Option<i64> {
    let number = number.strip_prefix('+').unwrap_or(number);
    let is_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    let (whole, fraction) = match number.split_once(['.', ',']) {
        Some((whole, fraction)) if unit_ms == 1000 => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole_ms = whole.parse::<i64>().ok()?.checked_mul(unit_ms)?;
    let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
    whole_ms.checked_add(thousandths.parse().ok()?)
}

#[cfg(test)]
mod tests;
