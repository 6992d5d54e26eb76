//! Whether a recording was made on this machine, since it booted: only then do numbers of processes mean
//! the same, and what was written under them is of those that were recorded.

use crate::host::kernel;
use crate::host::kernel::release;
use crate::host::process;
use crate::replay::Provenance;
use crate::symbols::build_id_from_notes;
use crate::units::Addr;
use crate::units::BuildId;

/// This machine as it is now.
struct Here<'m> {
    boot_id: Option<String>,
    pid_namespace: Option<u64>,
    host_name: Option<String>,
    release: Option<String>,
    kernel_build_id: Option<BuildId>,
    /// Where a symbol of the kernel is, unless that is hidden.
    kernel_text: &'m dyn Fn(&str) -> Option<Addr>,
}

/// Whether the recording of `provenance` was made here since this machine booted.
pub(super) fn is_here(provenance: &Provenance) -> bool {
    let host_name = nix::sys::utsname::uname().ok();
    let host_name = host_name.and_then(|it| Some(it.nodename().to_str()?.to_owned()));
    is_at(
        provenance,
        &Here {
            boot_id: kernel::boot_id(),
            pid_namespace: process::pid_namespace(),
            host_name,
            release: release(),
            kernel_build_id: kernel_build_id(),
            kernel_text: &kernel_text,
        },
    )
}

/// Whether the kernel that was recorded is known to be built as the one that runs is.
pub(super) fn is_this_kernel(provenance: &Provenance) -> bool {
    let is_boot = provenance.boot_id.is_some() && provenance.boot_id == kernel::boot_id();
    is_boot
        || provenance.kernel_build_id.is_some() && provenance.kernel_build_id == kernel_build_id()
}

/// The build id of the kernel that runs.
pub(super) fn kernel_build_id() -> Option<BuildId> {
    build_id_from_notes(&std::fs::read("/sys/kernel/notes").ok()?)
}

fn kernel_text(symbol: &str) -> Option<Addr> {
    let symbols = kernel::Symbols::open().ok()?;
    let text = symbols.text()?;
    (text.symbol == symbol && text.start != Addr(0)).then_some(text.start)
}

/// A recording that does not tell the boot was made here if it tells the name of the machine, and nothing
/// that both sides know speaks against it: the kernel, and where it was loaded, above all.
fn is_at(provenance: &Provenance, here: &Here<'_>) -> bool {
    fn is_same<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> Option<bool> {
        Some(one? == other?)
    }
    let is_namespace = is_same(provenance.pid_namespace.as_ref(), here.pid_namespace.as_ref());
    if provenance.boot_id.is_some() {
        return provenance.boot_id == here.boot_id && is_namespace != Some(false);
    }
    let needed = [
        is_same(provenance.host_name.as_ref(), here.host_name.as_ref()),
        is_same(provenance.release.as_ref(), here.release.as_ref()),
    ];
    let may_be = |it: Option<bool>| it != Some(false);
    let is_text = || {
        let (symbol, start) = provenance.kernel_text.as_ref()?;
        Some((here.kernel_text)(symbol)? == *start)
    };
    needed.iter().all(|it| *it == Some(true))
        && may_be(is_same(provenance.kernel_build_id.as_ref(), here.kernel_build_id.as_ref()))
        && may_be(is_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDR: Addr = Addr(0xffff_ffff_8100_0000);

    fn here() -> Here<'static> {
        Here {
            boot_id: Some("b".to_owned()),
            pid_namespace: Some(5),
            host_name: Some("h".to_owned()),
            release: Some("r".to_owned()),
            kernel_build_id: BuildId::new(&[1; 20]),
            kernel_text: &|symbol| (symbol == "_text").then_some(ADDR),
        }
    }

    #[track_caller]
    fn check(provenance: &Provenance, want: bool) {
        assert_eq!(is_at(provenance, &here()), want, "{provenance:?}");
    }

    #[test]
    fn the_boot_decides_where_it_is_told() {
        let boot = |it: &str| Provenance { boot_id: Some(it.to_owned()), ..Provenance::default() };
        check(&boot("b"), true);
        check(&boot("c"), false);
        check(&Provenance { pid_namespace: Some(5), ..boot("b") }, true);
        check(&Provenance { pid_namespace: Some(6), ..boot("b") }, false);
    }

    #[test]
    fn else_the_name_must_be_told_and_nothing_may_speak_against_it() {
        let text = |it: &str| Some(it.to_owned());
        let like = Provenance { host_name: text("h"), release: text("r"), ..Provenance::default() };
        check(&Provenance::default(), false);
        check(&like, true);
        check(&Provenance { host_name: None, ..like.clone() }, false);
        check(&Provenance { host_name: text("other"), ..like.clone() }, false);
        check(&Provenance { release: None, ..like.clone() }, false);
        for (id, start, want) in [(1, ADDR, true), (2, ADDR, false), (1, Addr(1), false)] {
            let kernel_build_id = BuildId::new(&[id; 20]);
            let kernel_text = Some(("_text".to_owned(), start));
            check(&Provenance { kernel_build_id, kernel_text, ..like.clone() }, want);
        }
        check(&Provenance { kernel_text: Some(("_stext".to_owned(), Addr(1))), ..like }, true);
    }
}
