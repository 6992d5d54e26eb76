//! What stands in a cell.

use crate::perfdata::private::LinkState;
use crate::render::escape::escape;
use crate::replay::programs::Program;
use crate::units::Nanos;

/// How many attachments stand in a cell.
const MAX_ATTACHMENTS: usize = 2;

/// A share in percent.
pub(super) fn percent(share: f64) -> String {
    format!("{share:.2}%")
}

/// The share of one CPU's time that the kernel counted for `program` in `elapsed_ns`.
pub(super) fn cpu(program: &Program<'_>, elapsed_ns: u64) -> Option<String> {
    let run_time_ns = program.cost?.run_time_ns;
    (elapsed_ns != 0).then(|| percent(100.0 * run_time_ns as f64 / elapsed_ns as f64))
}

/// A short time with three digits and the unit that fits: `310ns`, `1.24us`, `20.5ms`.
pub(super) fn duration(ns: f64) -> String {
    let mut value = ns;
    let mut unit = "ns";
    for larger in ["us", "ms", "s"] {
        if value < 999.5 {
            break;
        }
        value /= 1000.0;
        unit = larger;
    }
    let digits = match value {
        _ if unit == "ns" => 0,
        it if it < 9.995 => 2,
        it if it < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{unit}")
}

/// A time of the recording, as `script` prints it.
pub(super) fn time(Nanos(ns): Nanos) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

/// Whose a program is: `NAME[PID]` of a process and how many more hold it, else the path that does.
pub(super) fn owner(program: &Program<'_>) -> Option<String> {
    let Some(owner) = program.owner() else {
        let state = &program.state;
        let pin = state.pins.iter().chain(state.links.iter().flat_map(|it| &it.pins)).next();
        return pin.map(|it| escape(it.as_bytes()).into_owned());
    };
    let more = program.state.holders.iter().filter(|it| it.pid != owner.pid.0);
    let mut more: Vec<i32> = more.map(|it| it.pid).collect();
    more.sort_unstable();
    more.dedup();
    let more = if more.is_empty() { String::new() } else { format!(" +{}", more.len()) };
    Some(format!("{}[{}]{more}", escape(&owner.comm), owner.pid))
}

/// What a program is attached to.
pub(super) fn attached(program: &Program<'_>) -> Option<String> {
    let mut list: Vec<String> = Vec::new();
    for link in &program.state.links {
        list.push(self::link(link));
    }
    // What is attached without a link stands here alone.
    for attachment in &program.state.attachments {
        let of_link = |it: &LinkState| {
            let target = it.target.as_deref().unwrap_or_default();
            !target.is_empty() && attachment.event.ends_with(target)
        };
        if !program.state.links.iter().any(of_link) {
            let text = format!("{} {}", attachment.how, attachment.event);
            list.push(escape(text.as_bytes()).into_owned());
        }
    }
    list.dedup();
    let more = list.len().saturating_sub(MAX_ATTACHMENTS);
    list.truncate(MAX_ATTACHMENTS);
    let more = if more == 0 { String::new() } else { format!(" +{more}") };
    (!list.is_empty()).then(|| format!("{}{more}", list.join(", ")))
}

/// How a link attaches, and to what.
pub(super) fn link(link: &LinkState) -> String {
    let LinkState { kind, attach_type, target, .. } = link;
    let how = attach_type.as_ref().unwrap_or(kind);
    let text = match target {
        Some(target) => format!("{how} {target}"),
        None => how.clone(),
    };
    escape(text.as_bytes()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_three_digits_and_a_unit_that_fits() {
        let cases = [
            (0.0, "0ns"),
            (310.4, "310ns"),
            (999.4, "999ns"),
            (999.6, "1.00us"),
            (1_240.0, "1.24us"),
            (12_340.0, "12.3us"),
            (123_400.0, "123us"),
            (20_500_000.0, "20.5ms"),
            (3e12, "3000s"),
        ];
        for (ns, want) in cases {
            assert_eq!(duration(ns), want);
        }
    }
}
