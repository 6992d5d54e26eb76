//! What samples are to know of their callers.

use crate::events::CallChains;

use super::super::message::Failure;

/// What was typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct ChainOptions {
    /// Record call chains.
    #[arg(short = 'g')]
    call_chains: bool,
    /// Record call chains by this method: `fp` follows frame pointers, `dwarf` copies registers and
    /// so many bytes of the stack, `lbr` takes the hardware's record of branches.
    #[arg(long, value_name = "fp|dwarf[,BYTES]|lbr|no")]
    pub(super) call_graph: Option<String>,
}

impl ChainOptions {
    /// What is meant by them.
    pub(super) fn call_chains(&self) -> Result<CallChains, Failure> {
        Ok(match self.call_graph.as_deref() {
            Some(method) => call_chains(method)?,
            None if self.call_chains => CallChains::FramePointers,
            None => CallChains::None,
        })
    }
}

/// `fp`, `dwarf`, `dwarf,4096`, `lbr` or `no`.
fn call_chains(text: &str) -> Result<CallChains, Failure> {
    let (method, bytes) = text.split_once(',').map_or((text, None), |it| (it.0, Some(it.1)));
    let bad = || Failure::new(format!("`{text}` is no way to record call chains"));
    match (CallChains::parse(method).ok_or_else(bad)?, bytes) {
        (CallChains::Dwarf { .. }, Some(bytes)) => {
            let stack_bytes = CallChains::stack_bytes(bytes).ok_or_else(|| {
                bad().cause(format!("`{bytes}` is no size of a stack, 1 to 65528 bytes"))
            })?;
            Ok(CallChains::Dwarf { stack_bytes })
        }
        (_, Some(_)) => Err(bad().cause(format!("`{method}` has no size"))),
        (method, None) => Ok(method),
    }
}
