//! `-u` by a filter: everyone is sampled, and who is somebody else is dropped in the kernel.
//!
//! So whoever begins later is recorded too, as with perf since 6.16: `parse_uid_filter()` in
//! `tools/perf/util/bpf-filter.c`.

use crate::events;
use crate::events::Event;
use crate::events::Filters;
use crate::events::sample_filter::Expr;
use crate::events::sample_filter::Operator;
use crate::events::sample_filter::Term;
use crate::events::sample_filter::Test;
use crate::host::privilege::Capability;
use crate::host::privilege::Privilege;
use crate::record::Events;
use crate::record::Target;

/// Makes a filter of a user, where all events can have one and `privilege` is enough to load it and
/// to sample everyone.
pub(super) fn take(target: Target, events: &mut Events, privilege: Privilege) -> Target {
    let may = [Capability::PERFMON, Capability::BPF].into_iter().all(|it| privilege.has(it));
    let Target::User(user) = target else { return target };
    let all_can = match events {
        Events::Default { .. } => true,
        Events::Named(events) => events.iter().all(can_have_filter),
    };
    if !may || !all_can {
        return target;
    }
    let (term, operator, value) = (Term::Uid, Operator::Equal, u64::from(user.0));
    let is_theirs = Expr::Test(Test::Number { term, operator, value });
    let give = |filters: &mut Filters| filters.samples.insert(0, is_theirs.clone());
    match events {
        Events::Default { filters, .. } => give(filters),
        Events::Named(events) => events.iter_mut().for_each(|it| give(&mut it.filters)),
    }
    Target::AllCpus
}

fn can_have_filter(event: &Event) -> bool {
    event.attr.kind != events::KIND_TRACEPOINT
        && !events::is_bpf_output(&event.attr)
        && event.object.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::Attr;
    use crate::units::UserId;

    const ALL: Privilege = Privilege { capabilities: u64::MAX, is_filtered: false };

    fn named(kinds: &[u32]) -> Events {
        let event = |&kind: &u32| {
            let attr = Attr { kind, ..Attr::default() };
            Event::new("x", attr, events::Precision::Exact)
        };
        Events::Named(kinds.iter().map(event).collect())
    }

    #[track_caller]
    fn check(mut events: Events, privilege: Privilege, want: &Target) {
        assert_eq!(&take(Target::User(UserId(7)), &mut events, privilege), want);
        let filters: Vec<_> = match events {
            Events::Default { filters, .. } => vec![filters],
            Events::Named(events) => events.into_iter().map(|it| it.filters).collect(),
        };
        let n_filters = usize::from(*want == Target::AllCpus);
        assert!(filters.iter().all(|it| it.samples.len() == n_filters));
    }

    #[test]
    fn a_user_is_a_filter_where_all_events_can_have_one_and_it_is_allowed() {
        let user = Target::User(UserId(7));
        let usual = || Events::Default { cgroup: None, filters: Filters::default() };
        check(usual(), ALL, &Target::AllCpus);
        check(named(&[events::KIND_SOFTWARE, events::KIND_HARDWARE]), ALL, &Target::AllCpus);
        check(named(&[events::KIND_SOFTWARE, events::KIND_TRACEPOINT]), ALL, &user);
        check(usual(), Privilege::default(), &user);
        assert_eq!(take(Target::Workload, &mut usual(), ALL), Target::Workload);
    }
}
