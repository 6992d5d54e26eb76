//! Events that begin the next file of a recording when they happen. They are in no file themselves.

use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;

use nix::poll::PollFd;
use nix::poll::PollFlags;
use nix::poll::PollTimeout;
use nix::poll::poll;

use crate::perfdata::AttrFlags;
use crate::perfdata::SampleType;
use crate::sys::perf_event::EventFd;
use crate::sys::ring::Ring;
use crate::sys::ring::page_len;

use super::Error;
use super::config::Config;
use super::config::Contents;
use super::config::FollowBpf;
use super::open;
use super::plan;
use super::plan::Request;
use super::plan::Role;

/// The open events, each with a ring that tells of it.
#[derive(Debug, Default)]
pub(super) struct Triggers(Vec<(EventFd, Ring)>);

impl Triggers {
    /// Opens what `config` says on whom `request` watches.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub(super) fn open(config: &Config, request: &Request) -> Result<Self, Error> {
        let events = config.parts.as_ref().map(|it| it.triggers.clone()).unwrap_or_default();
        if events.is_empty() {
            return Ok(Self::default());
        }
        let (contents, bpf) = (Contents::default(), FollowBpf::No);
        let outputs = Vec::new();
        let mut plan = plan::plan(&Request { events, contents, bpf, outputs, ..request.clone() });
        plan.retain(|it| it.role == Role::Sampling);
        for it in &mut plan {
            // One by one, and from the start on unless that is the command's exec.
            it.attr.wakeup = 1;
            it.attr.sample_type = SampleType::TID;
            it.attr.flags.remove(AttrFlags::WATERMARK | plan::OF_TASKS | plan::OF_PROGRAMS);
            if !it.attr.flags.contains(AttrFlags::ENABLE_ON_EXEC) {
                it.attr.flags.remove(AttrFlags::DISABLED);
            }
        }
        let opened = open::open_all(&mut open::Kernel, plan, None, &mut Vec::new())?;
        let mut triggers = Vec::new();
        for (_, event) in opened.into_iter().flat_map(|it| it.instances) {
            let ring = Ring::map(&event, page_len())?;
            triggers.push((event, ring));
        }
        Ok(Self(triggers))
    }

    /// What to poll.
    pub(super) fn poll_at(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(|(event, _)| event.as_fd())
    }

    /// Whether one of them has happened since this was asked last.
    pub(super) fn take(&mut self) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let mut has_come = false;
        for (_, ring) in &mut self.0 {
            let (first, second) = ring.unread();
            let len = first.len() + second.len();
            ring.consume(len);
            has_come |= len != 0;
        }
        self.forget_ended();
        has_come
    }

    /// Forgets those whose task is gone: they would have something to say for ever.
    fn forget_ended(&mut self) {
        let events = self.0.iter().map(|(event, _)| PollFd::new(event.as_fd(), PollFlags::POLLIN));
        let mut fds: Vec<_> = events.collect();
        if let Err(errno) = poll(&mut fds, PollTimeout::ZERO) {
            tracing::debug!(%errno, "poll what begins the next file");
            return;
        }
        let ends = PollFlags::POLLHUP | PollFlags::POLLERR;
        let has_ended = |it: &PollFd<'_>| it.revents().is_some_and(|it| it.intersects(ends));
        let mut ended = fds.iter().map(has_ended).collect::<Vec<_>>().into_iter();
        self.0.retain(|_| !ended.next().unwrap_or(false));
    }
}
