//! What samples are to know of their callers.

use crate::events::CallChains;
use crate::host::settings::Settings;
use crate::perfdata::AttrFlags;

use super::super::message::Failure;

/// What was typed.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Debug, Default, clap::Args)]
pub(super) struct ChainOptions {
    /// Record call chains.
    #[arg(short = 'g')]
    call_chains: bool,
    /// Record call chains by this method: `fp` follows frame pointers, for so many frames at most,
    /// `dwarf` copies registers and so many bytes of the stack, `lbr` takes the hardware's record of
    /// branches.
    #[arg(long, value_name = "fp[,FRAMES]|dwarf[,BYTES]|lbr|no")]
    pub(super) call_graph: Option<String>,
    /// Taken for the habit of it.
    #[arg(long, hide = true, overrides_with_all = ["call_graph", "call_chains"])]
    no_call_graph: bool,
    /// Leave the kernel's half of call chains out.
    #[arg(long)]
    user_callchains: bool,
    /// Leave the user's half of call chains out.
    #[arg(long)]
    kernel_callchains: bool,
}

impl ChainOptions {
    /// What is meant by them on this machine; what is of no effect goes into `ignored`, in words.
    pub(super) fn chains(
        &self,
        settings: &Settings,
        ignored: &mut Vec<String>,
    ) -> Result<Chains, Failure> {
        let chains = match self.call_graph.as_deref() {
            Some(method) => chains(method, settings, ignored)?,
            None if self.call_chains => CallChains::FramePointers.into(),
            None => CallChains::None.into(),
        };
        Ok(chains)
    }

    /// The halves of call chains that are left out.
    pub(super) fn left_out(&self) -> AttrFlags {
        let mut halves = AttrFlags::empty();
        halves.set(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, self.user_callchains);
        halves.set(AttrFlags::EXCLUDE_CALLCHAIN_USER, self.kernel_callchains);
        halves
    }
}

/// How call chains are found, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chains {
    pub(super) method: CallChains,
    /// The most frames; 0 for the kernel's own limit.
    pub(super) max_stack: u16,
}

impl From<CallChains> for Chains {
    fn from(method: CallChains) -> Self {
        Self { method, max_stack: 0 }
    }
}

/// `fp`, `fp,16`, `fp,defer`, `dwarf`, `dwarf,4096`, `lbr` or `no`.
fn chains(text: &str, settings: &Settings, ignored: &mut Vec<String>) -> Result<Chains, Failure> {
    let (method, rest) = text.split_once(',').map_or((text, None), |it| (it.0, Some(it.1)));
    let bad = || Failure::new(format!("`{text}` is no way to record call chains"));
    match (CallChains::parse(method).ok_or_else(bad)?, rest) {
        (CallChains::Dwarf { .. }, Some(bytes)) => {
            let stack_bytes = CallChains::stack_bytes(bytes).ok_or_else(|| {
                bad().cause(format!("`{bytes}` is no size of a stack, 1 to 65528 bytes"))
            })?;
            Ok(CallChains::Dwarf { stack_bytes }.into())
        }
        (CallChains::FramePointers, Some(rest)) => {
            let mut max_stack = 0;
            for word in rest.split(',') {
                // As with perf: what is no number, and more than the kernel's limit, says nothing.
                let limit = settings.perf_event_max_stack.unwrap_or(u16::MAX);
                let frames = word.parse().ok().filter(|it| (1..=limit).contains(it));
                match frames {
                    Some(frames) => max_stack = frames,
                    None if word == "defer" => ignored.push(NOT_DEFERRED.to_owned()),
                    None => ignored.push(format!("`{word}` says nothing to `--call-graph fp`")),
                }
            }
            Ok(Chains { method: CallChains::FramePointers, max_stack })
        }
        (_, Some(_)) => Err(bad().cause(format!("`{method}` has no size"))),
        (method, None) => Ok(method.into()),
    }
}

/// What becomes of `defer`.
const NOT_DEFERRED: &str =
    "call chains of user space are taken with each sample, not on the way back to it";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: ChainOptions,
    }

    /// The method and the most frames, or the whole error, and how much is ignored.
    #[track_caller]
    fn check(line: &str, want: Result<impl Into<Chains>, &str>, n_ignored: usize) {
        let words = std::iter::once("record").chain(line.split_ascii_whitespace());
        let options = Line::try_parse_from(words).unwrap().options;
        let settings = Settings { perf_event_max_stack: Some(127), ..Settings::default() };
        let mut ignored = Vec::new();
        let chains = options.chains(&settings, &mut ignored).map_err(|it| it.to_string());
        assert_eq!(chains, want.map(Into::into).map_err(str::to_owned), "{line}");
        assert_eq!(ignored.len(), n_ignored, "{ignored:?}");
    }

    #[track_caller]
    fn check_refused(line: &str, want: &str) {
        check(line, Err::<CallChains, _>(want), 0);
    }

    #[test]
    fn call_chains_are_found_by_the_method_that_was_named() {
        check("", Ok(CallChains::None), 0);
        check("-g", Ok(CallChains::FramePointers), 0);
        check("--call-graph fp", Ok(CallChains::FramePointers), 0);
        check("--call-graph=dwarf", Ok(CallChains::Dwarf { stack_bytes: 8192 }), 0);
        check("-g --call-graph dwarf,100", Ok(CallChains::Dwarf { stack_bytes: 104 }), 0);
        check("--call-graph lbr", Ok(CallChains::Lbr), 0);
        check("--call-graph no -g", Ok(CallChains::None), 0);
        check("--call-graph fp --no-call-graph", Ok(CallChains::None), 0);
    }

    #[test]
    fn frame_pointers_may_have_a_limit_and_what_says_nothing_is_told() {
        let limited = |max_stack| Chains { method: CallChains::FramePointers, max_stack };
        check("--call-graph fp,5", Ok(limited(5)), 0);
        check("--call-graph fp,500", Ok(limited(0)), 1);
        check("--call-graph fp,x", Ok(limited(0)), 1);
        check("--call-graph fp,5,defer", Ok(limited(5)), 1);
        check("--call-graph fp,defer", Ok(limited(0)), 1);
    }

    #[test]
    fn what_no_method_understands_is_refused() {
        check_refused(
            "--call-graph lbr,5",
            "error: `lbr,5` is no way to record call chains\n  because: `lbr` has no size",
        );
        check_refused(
            "--call-graph dwarf,0",
            "error: `dwarf,0` is no way to record call chains\n  because: `0` is no size of a \
             stack, 1 to 65528 bytes",
        );
        check_refused("--call-graph x", "error: `x` is no way to record call chains");
    }

    #[test]
    fn each_half_can_be_left_out() {
        let options = ChainOptions { user_callchains: true, ..ChainOptions::default() };
        assert_eq!(options.left_out(), AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
        let options = ChainOptions { kernel_callchains: true, ..ChainOptions::default() };
        assert_eq!(options.left_out(), AttrFlags::EXCLUDE_CALLCHAIN_USER);
    }
}
