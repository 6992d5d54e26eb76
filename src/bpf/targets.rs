//! What links are attached to, in words.
//!
//! Numbers of functions, control groups and maps are looked up once each, those of interfaces and PMUs
//! once a look, since they can be renamed. What cannot
//! be looked up stays a number with its unit: nothing is guessed.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::path::Path;

use super::links::Target;
use super::maps::Maps;
use super::mounts;
use crate::btf::Btf;
use crate::perfdata::Attr;
use crate::sys::bpf;
use crate::sys::bpf_counters;
use crate::sys::kernfs;

/// Where the kernel shows its own BTF and that of its modules.
const KERNEL_BTF: &str = "/sys/kernel/btf/";

/// What has been looked up so far.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// BTF objects by id.
    btfs: HashMap<u32, Object>,
    cgroups: HashMap<u64, Option<String>>,
    /// What the numbers of interfaces and PMUs are called, as of this look.
    interfaces: OnceCell<HashMap<u32, String>>,
    pmus: OnceCell<HashMap<u32, String>>,
    /// Where version 2 of the control groups is mounted, once it was looked for.
    cgroup_mount: OnceCell<Option<File>>,
}

/// Which BTF objects may describe what a program is attached to.
#[derive(Clone, Copy)]
pub(super) struct BtfIds<'a> {
    /// The one that it was loaded for; 0 if there is none.
    pub(super) attach: u32,
    /// That of a program, by the program's id; 0 if it has none.
    pub(super) of_program: &'a dyn Fn(u32) -> u32,
}

/// A BTF object with functions that programs are attached to.
#[derive(Debug)]
struct Object {
    btf: Option<Btf>,
    /// `vmlinux` or the module's name; of a program's BTF whatever its loader said.
    name: String,
    is_kernel: bool,
}

impl Targets {
    /// Forgets what may have another name by now.
    pub(super) fn begin_look(&mut self) {
        self.interfaces.take();
        self.pmus.take();
    }

    /// The name of a PMU whose number differs from boot to boot.
    fn pmu(&self, kind: u32) -> Option<&String> {
        let all = || by_number(Path::new("/sys/bus/event_source/devices"), "type");
        (FIRST_DYNAMIC <= kind).then(|| self.pmus.get_or_init(all).get(&kind)).flatten()
    }

    /// An interface's number, with its name where this network namespace has one of that number.
    ///
    /// The kernel does not say in which namespace the link is, so the number stands beside the name.
    fn interface(&self, index: u32) -> String {
        let all = || by_number(Path::new("/sys/class/net"), "ifindex");
        match self.interfaces.get_or_init(all).get(&index) {
            Some(name) => format!("{name} (ifindex {index})"),
            None => format!("ifindex {index}"),
        }
    }

    /// What a link is attached to; `btf_ids` are the objects that may describe it.
    pub(super) fn text(
        &mut self,
        target: &Target,
        btf_ids: BtfIds<'_>,
        maps: &mut Maps,
    ) -> Option<String> {
        Some(match target {
            Target::Unknown => return None,
            &Target::Function { object_id, type_id } => self.function(object_id, type_id, btf_ids),
            Target::Code { name, addr, .. } if name.is_empty() => format!("{addr:#x}"),
            Target::Named(name) | Target::Code { name, offset: 0, .. } => name.clone(),
            Target::Code { name, offset, .. } => format!("{name}+{offset:#x}"),
            Target::Place { path, offset } => format!("{path}+{offset:#x}"),
            Target::Functions { n_functions } => format!("{n_functions} functions"),
            Target::Places { path, n_places } => format!("{path}, {n_places} places"),
            &Target::Event { kind, config } => match self.pmu(kind) {
                Some(pmu) => format!("{pmu}/config={config:#x}/"),
                None => Attr { kind, config, ..Attr::default() }.event_name(),
            },
            &Target::Cgroup { id } => self.cgroup(id).unwrap_or_else(|| format!("cgroup {id}")),
            Target::Namespace { inode } => format!("netns {inode}"),
            &Target::Interface { index } => self.interface(index),
            &Target::Map { id } => {
                maps.get(id).map_or_else(|| format!("map {id}"), |it| it.name.clone())
            }
            &Target::Netfilter { family, hook, priority } => netfilter(family, hook, priority),
        })
    }

    /// The BTF object `id`, the kernel's own included.
    pub(super) fn btf(&mut self, id: u32) -> Option<&Btf> {
        self.object(id).btf.as_ref()
    }

    /// The function `type_id` of the kernel's BTF object `object_id`, or of the program with that
    /// id: the kernel does not say which, but what its program was loaded for does.
    ///
    /// Source: `bpf_trampoline_compute_key()` in `include/linux/bpf_verifier.h`.
    fn function(&mut self, object_id: u32, type_id: u32, btf_ids: BtfIds<'_>) -> String {
        let is_kernel = object_id == btf_ids.attach && self.object(btf_ids.attach).is_kernel;
        let btf_id = if is_kernel { object_id } else { (btf_ids.of_program)(object_id) };
        let object = self.object(btf_id);
        let name = object.btf.as_ref().and_then(|it| it.function_name(type_id));
        let name = name.map_or_else(
            || format!("type {type_id}"),
            |it| String::from_utf8_lossy(it).into_owned(),
        );
        match is_kernel {
            true if object.btf.is_some() => name,
            true => format!("{name} of {}", object.name),
            false => format!("{name} of program {object_id}"),
        }
    }

    fn object(&mut self, id: u32) -> &Object {
        self.btfs.entry(id).or_insert_with(|| Object::fetch(id))
    }

    fn cgroup(&mut self, id: u64) -> Option<String> {
        let mount = self.cgroup_mount.get_or_init(|| {
            let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
            File::open(mounts::of_kind(&mounts, "cgroup2").next()?).ok()
        });
        let mount = mount.as_ref()?;
        let look = || {
            let folder = kernfs::folder(mount, id).ok()?;
            let path = fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd())).ok()?;
            Some(path.to_string_lossy().into_owned())
        };
        self.cgroups.entry(id).or_insert_with(look).clone()
    }
}

impl Object {
    fn fetch(id: u32) -> Self {
        let none = Self { btf: None, name: format!("BTF {id}"), is_kernel: false };
        let Ok(fd) = bpf::btf_fd(id) else { return none };
        let Ok(source) = bpf_counters::btf_source(fd.as_fd()) else { return none };
        let name = String::from_utf8_lossy(&source.name).into_owned();
        let is_kernel = source.is_kernel;
        // The kernel's own is some megabytes, which sysfs hands out without a copy in the kernel; a
        // module's stands on it and has no meaning alone.
        let data = match &*name {
            "vmlinux" if is_kernel => fs::read(format!("{KERNEL_BTF}{name}")).ok(),
            _ if is_kernel => None,
            _ => bpf::btf_data(fd.as_fd()).ok(),
        };
        let btf = data.and_then(|it| Btf::parse(it).ok());
        Self { btf, name, is_kernel }
    }
}

/// The first `perf_event_attr.type` that the kernel gives to whoever asks for one: `PERF_TYPE_MAX`.
const FIRST_DYNAMIC: u32 = 6;

/// The names of the folders in `place`, by the number in the file `file` of each.
fn by_number(place: &Path, file: &str) -> HashMap<u32, String> {
    let folders = fs::read_dir(place).into_iter().flatten().flatten();
    let named = folders.filter_map(|it| {
        let number = fs::read_to_string(it.path().join(file)).ok()?.trim().parse().ok()?;
        Some((number, it.file_name().to_string_lossy().into_owned()))
    });
    named.collect()
}

/// Source: `NFPROTO_*` and `NF_INET_*` in `include/uapi/linux/netfilter.h`.
fn netfilter(family: u32, hook: u32, priority: i32) -> String {
    let family = match family {
        2 => "ipv4".to_owned(),
        10 => "ipv6".to_owned(),
        other => format!("family {other}"),
    };
    let hooks = ["prerouting", "input", "forward", "output", "postrouting"];
    let hook = usize::try_from(hook)
        .ok()
        .and_then(|it| hooks.get(it))
        .map_or_else(|| format!("hook {hook}"), |it| (*it).to_owned());
    format!("{family} {hook} priority {priority}")
}

#[cfg(test)]
mod tests {
    use crate::btf::testing::Builder;

    use super::*;

    #[track_caller]
    fn check(target: &Target, want: Option<&str>) {
        let btf_ids = BtfIds { attach: 0, of_program: &|_| 0 };
        let text = Targets::default().text(target, btf_ids, &mut Maps::default());
        assert_eq!(text.as_deref(), want);
    }

    #[test]
    fn a_function_is_the_kernels_or_a_programs_by_whose_types_it_has() {
        let mut btf = Builder::little();
        let function = btf.add("vfs_read", 12 << 24, 0, &[]);
        let object = |name: &str, is_kernel, btf| Object { btf, name: name.to_owned(), is_kernel };
        let mut targets = Targets::default();
        targets.btfs.insert(1, object("vmlinux", true, Some(btf.build())));
        targets.btfs.insert(2, object("a_module", true, None));
        targets.btfs.insert(40, object("", false, Some(btf.build())));
        targets.btfs.insert(41, object("", false, None));
        targets.btfs.insert(7, object("", false, None));
        let mut text = |object_id, attach, type_id| {
            let target = Target::Function { object_id, type_id };
            let btf_ids = BtfIds { attach, of_program: &|id| if id == 7 { 40 } else { 41 } };
            targets.text(&target, btf_ids, &mut Maps::default()).unwrap()
        };
        assert_eq!(text(1, 1, function), "vfs_read");
        assert_eq!(text(1, 1, 99), "type 99");
        assert_eq!(text(2, 2, 100_000), "type 100000 of a_module");
        assert_eq!(text(7, 40, function), "vfs_read of program 7");
        // A link can lead to another program than its own was loaded for.
        assert_eq!(text(7, 41, function), "vfs_read of program 7");
        assert_eq!(text(8, 40, function), "type 1 of program 8");
        assert_eq!(text(7, 7, 99), "type 99 of program 7");
    }

    #[test]
    fn targets_are_words_and_what_has_no_name_a_number_with_its_unit() {
        let name = |it: &str| it.to_owned();
        check(&Target::Unknown, None);
        check(&Target::Named(name("sched_switch")), Some("sched_switch"));
        check(&Target::Code { name: name("f"), offset: 0, addr: 9 }, Some("f"));
        check(&Target::Code { name: name("f"), offset: 16, addr: 9 }, Some("f+0x10"));
        check(&Target::Code { name: name(""), offset: 0, addr: 0x90 }, Some("0x90"));
        check(&Target::Place { path: name("/a"), offset: 16 }, Some("/a+0x10"));
        check(&Target::Functions { n_functions: 3 }, Some("3 functions"));
        check(&Target::Places { path: name("/a"), n_places: 2 }, Some("/a, 2 places"));
        check(&Target::Event { kind: 1, config: 0 }, Some("cpu-clock"));
        check(&Target::Namespace { inode: 7 }, Some("netns 7"));
        let hook = Target::Netfilter { family: 2, hook: 3, priority: -5 };
        check(&hook, Some("ipv4 output priority -5"));
        let hook = Target::Netfilter { family: 7, hook: 30, priority: 0 };
        check(&hook, Some("family 7 hook 30 priority 0"));
    }
}
