//! Programs from their source.

use std::path::Path;
use std::path::PathBuf;

use libbpf_rs::ObjectBuilder;

use crate::stage::Need;
use crate::stage::example;
use crate::stage::may_run;
use crate::stage::object;
use crate::stage::object_with;

/// The programs of an object, sorted, if libbpf can open it; its complaint is its own.
fn programs(path: &Path) -> Option<Vec<String>> {
    let object = ObjectBuilder::default().open_file(path).ok()?;
    let mut names: Vec<String> =
        object.progs().map(|it| it.name().to_string_lossy().into_owned()).collect();
    names.sort();
    Some(names)
}

#[test]
fn the_objects_that_tests_play_with_are_what_they_say() {
    let scratch = tempfile::tempdir().unwrap();
    let open = |name| programs(&object(name, scratch.path()));
    let names = |names: &[&str]| Some(names.iter().map(|&it| it.to_owned()).collect::<Vec<_>>());
    assert_eq!(open("kinds"), names(&["on_call", "on_clock", "on_function", "on_raw"]));
    assert_eq!(open("kprobe"), names(&["on_sleep", "on_slept"]));
    assert_eq!(open("fentry"), names(&["on_sleep", "on_slept"]));
    assert_eq!(open("no_programs"), names(&[]));
    assert_eq!(open("unknown_section"), names(&["on_moon"]));
    assert_eq!(open("settings"), names(&["on_clock"]));
    assert_eq!(open("refused"), names(&["unchecked"]));
    assert_eq!(open("exits"), names(&["exits"]));
    assert_eq!(programs(&example("slow_reads")), names(&["read_begins", "slow_read"]));
    assert_eq!(programs(&example("run_queue")), names(&["switches", "wakes", "wakes_first"]));
    let foreign = object_with("kinds", &["-target", "bpfeb"], scratch.path());
    assert_eq!(std::fs::read(&foreign).unwrap().get(5), Some(&2), "the byte order in an ELF");
}

#[test]
fn the_kernel_takes_the_objects_of_tests_that_are_sound() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let load = |path: PathBuf| ObjectBuilder::default().open_file(path).unwrap().load().is_ok();
    assert!(load(object("kinds", scratch.path())));
    assert!(load(object("settings", scratch.path())));
    assert!(load(object("exits", scratch.path())));
    assert!(load(example("slow_reads")));
    assert!(load(example("run_queue")));
    assert!(!load(object("refused", scratch.path())));
}
