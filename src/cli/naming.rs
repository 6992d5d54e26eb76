//! How addresses get their names: what was typed of it, alike for all commands that show names.

use std::path::PathBuf;

use crate::host::files::Disk;
use crate::replay::Demangling;
use crate::replay::Index;
use crate::replay::LocalKernel;
use crate::symbols;
use crate::symbols::Files as _;
use crate::symbols::Identity;
use crate::symbols::Kallsyms;

use super::message;
use super::message::Failure;

/// What was typed of names.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Show names as the programmer wrote them (the default).
    #[arg(long, overrides_with = "no_demangle")]
    demangle: bool,

    /// Show names as they stand in the files.
    #[arg(long, overrides_with = "demangle")]
    no_demangle: bool,

    /// Show names of the kernel as the programmer wrote them, too.
    #[arg(long)]
    demangle_kernel: bool,

    /// Name addresses of the kernel by this `vmlinux`, if its build id is the recorded one.
    #[arg(short = 'k', long, value_name = "FILE")]
    vmlinux: Option<PathBuf>,

    /// Name addresses of the kernel by this copy of `/proc/kallsyms`.
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
}

impl Args {
    /// Which names are shown as the programmer wrote them.
    pub(super) fn demangling(&self) -> Demangling {
        Demangling { user: !self.no_demangle, kernel: self.demangle_kernel }
    }

    /// The kernel that was named, if it can be the one that `index` is of; a warning tells why not.
    pub(super) fn kernel(&self, index: &Index) -> Result<Option<LocalKernel>, Failure> {
        let (path, kernel) = match (&self.kallsyms, &self.vmlinux) {
            // A file of the kernel's own can be read, and not mapped.
            (Some(path), _) => (path, std::fs::read(path).map(|text| of_kallsyms(&text))),
            (None, Some(path)) => (path, Disk.open(path).map(|it| of_vmlinux(&it.bytes))),
            (None, None) => return Ok(None),
        };
        let kernel = kernel.map_err(|error| {
            Failure::because(format!("cannot read `{}`", path.display()), &error)
        })?;
        let kernel = kernel.map_err(|error| (error.to_string(), hint(&error)));
        let kernel = kernel.and_then(|it| match (it.build_id, index.kernel_build_id()) {
            (Some(found), Some(recorded)) if found != recorded => {
                Err((format!("it has build id {found}, the recorded kernel {recorded}"), ""))
            }
            _ => Ok(it),
        });
        match kernel {
            Ok(kernel) => Ok(Some(kernel)),
            Err((reason, hint)) => {
                message::warn(&format!(
                    "`{}` names no address of the kernel: {reason}{hint}",
                    path.display()
                ));
                Ok(None)
            }
        }
    }
}

/// What to do about a file that has no symbols of a kernel.
fn hint(error: &symbols::Error) -> &'static str {
    match error {
        symbols::Error::HiddenAddresses { .. } => {
            "; `kernel.kptr_restrict` hid them from whoever copied it: copy it as root"
        }
        _ => "",
    }
}

fn of_kallsyms(text: &[u8]) -> Result<LocalKernel, symbols::Error> {
    let kallsyms = Kallsyms::parse(text)?;
    Ok(LocalKernel { build_id: None, release: None, kallsyms: kallsyms.into(), is_chosen: true })
}

fn of_vmlinux(bytes: &[u8]) -> Result<LocalKernel, symbols::Error> {
    let kallsyms = Kallsyms::of_vmlinux(bytes)?.into();
    let build_id = Identity::of(bytes)?.build_id;
    Ok(LocalKernel { build_id, release: None, kallsyms, is_chosen: true })
}
