//! Scheduler domains, from the text of `/proc/schedstat`.

use crate::perfdata::feature::CpuDomain;
use crate::perfdata::feature::CpuDomains;
use crate::perfdata::feature::SchedDomain;
use crate::perfdata::feature::Text;
use crate::units::Cpu;

/// Takes the domains out of `/proc/schedstat`; lines that are of another form are passed over.
///
/// Source: `Documentation/scheduler/sched-stats.rst`.
pub(super) fn parse(text: &str) -> CpuDomains {
    let mut this = CpuDomains::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if first == "version" {
            this.schedstat_version = words.next().and_then(|it| it.parse().ok()).unwrap_or(0);
        } else if let Some(cpu) = numbered(first, "cpu") {
            this.cpus.push(CpuDomain { cpu: Cpu(cpu), domains: Vec::new() });
        } else if let Some(domain) = numbered(first, "domain") {
            let is_named = this.schedstat_version >= CpuDomains::NAMED_SINCE;
            let name = if is_named { words.next().map(Text::from) } else { None };
            let (Some(mask), Some(cpu)) = (words.next(), this.cpus.last_mut()) else { continue };
            let list = Text::from(list_of_mask(mask));
            cpu.domains.push(SchedDomain { domain, name, mask: Text::from(mask), list });
            this.max_domains = this.max_domains.max(domain.saturating_add(1));
        }
    }
    // perf counts one domain even where there is none.
    this.max_domains = this.max_domains.max(1);
    this
}

fn numbered(word: &str, prefix: &str) -> Option<u32> {
    word.strip_prefix(prefix)?.parse().ok()
}

/// `1-2,4` of `16`: a mask is hexadecimal, the lowest CPU last, with a comma after each 32 bits.
fn list_of_mask(mask: &str) -> String {
    let digits = mask.chars().rev().filter(|it| *it != ',');
    let digits = digits.map(|it| it.to_digit(16).unwrap_or(0));
    let bits = digits.flat_map(|digit| (0..4).map(move |bit| digit >> bit & 1 == 1));
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (cpu, _) in bits.enumerate().filter(|(_, is_set)| *is_set) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let ranges = ranges.iter().map(|(first, last)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(domain: u32, name: Option<&str>, mask: &str, list: &str) -> SchedDomain {
        SchedDomain { domain, name: name.map(Text::from), mask: mask.into(), list: list.into() }
    }

    #[test]
    fn version_17_names_domains() {
        let text = "version 17\ntimestamp 4294\ncpu0 0 0 0\ndomain0 SMT 00000003 0 0\n\
            domain1 PKG 0000000f 0 0\ncpu1 0 0 0\ndomain0 SMT 00000003 1 1\n";
        let smt = domain(0, Some("SMT"), "00000003", "0-1");
        let pkg = domain(1, Some("PKG"), "0000000f", "0-3");
        let want = CpuDomains {
            schedstat_version: 17,
            max_domains: 2,
            cpus: vec![
                CpuDomain { cpu: Cpu(0), domains: vec![smt.clone(), pkg] },
                CpuDomain { cpu: Cpu(1), domains: vec![smt] },
            ],
        };
        assert_eq!(parse(text), want);
    }

    #[test]
    fn version_15_does_not() {
        let got = parse("version 15\ncpu3 0\ndomain0 8 0 0 0\n");
        assert_eq!(got.cpus[0].domains, [domain(0, None, "8", "3")]);
    }

    #[test]
    fn a_mask_is_read_from_its_end() {
        assert_eq!(list_of_mask("16"), "1-2,4");
        assert_eq!(list_of_mask("00000001,80000000"), "31-32");
        assert_eq!(list_of_mask("0"), "");
    }
}
