use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::mpsc;

use super::*;
use crate::host::process::Mapping;
use crate::record::mapped::Mapped;
use crate::record::mapped::Met;
use crate::record::saving::Saving;
use crate::units::Addr;

/// A copy of this very program, mapped by nobody, as it is found.
fn found(path: &Path, inode: u64) -> Found {
    let mapping = Mapping {
        start: Addr(0x1000),
        end: Addr(0x2000),
        offset: 0,
        prot: 5,
        flags: 2,
        device: (8, 1),
        inode,
        path: path.as_os_str().as_bytes().to_vec(),
    };
    let mapped = Mapped { pid: Pid(7), mapping, generation: 3 };
    match File::open(path) {
        Ok(file) => Found::File(mapped, file, None),
        Err(_) => Found::Gone(mapped),
    }
}

fn empty() -> Saver {
    Saver::new(Tables::Names, 1024)
}

fn copied(dir: &Path, name: &str, from: &str) -> PathBuf {
    let path = dir.join(name);
    fs::copy(from, &path).unwrap();
    path
}

fn files(outcome: &Outcome) -> Vec<&SavedFile> {
    let all = outcome.messages.iter();
    all.filter_map(|it| if let Message::File(file) = it { Some(file) } else { None }).collect()
}

#[test]
fn what_is_found_is_left_and_what_goes_is_saved_once() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c] = ["a", "b", "c"].map(|it| copied(dir.path(), it, "/bin/sh"));
    let mut saver = empty();
    for (path, inode) in [(&a, 1), (&b, 2), (&c, 3)] {
        saver.take(found(path, inode));
    }
    assert_eq!((files(&saver.tell()).len(), saver.held.len()), (0, 3));
    fs::remove_file(&a).unwrap();
    // Another program comes in its place.
    fs::remove_file(&b).unwrap();
    copied(dir.path(), "b", "/bin/true");
    let outcome = saver.tell();
    let [file] = files(&outcome)[..] else { panic!("{outcome:?}") };
    assert_eq!(file.facts.path, a.to_str().unwrap());
    let inode = |ino| Inode { maj: 8, min: 1, ino, generation: 3 };
    assert_eq!(file.facts.inodes, [inode(1), inode(2)]);
    assert!(file.facts.build_id().is_some());
    let own = fs::read("/bin/sh").unwrap();
    let content = file.content().unwrap();
    assert_eq!(content, skeleton(&*own, Tables::Names, u64::MAX).unwrap());
    assert_eq!((saver.held.len(), outcome.gaps), (1, FileGaps::default()));
    // Each file of a recording in several has it.
    assert_eq!(files(&saver.tell()).len(), 1);
}

/// Moves the symbols of `program` to the file `debug` beside it.
fn split(program: &Path, debug: &str) {
    let run = |args: &[&str]| {
        let mut objcopy = std::process::Command::new("objcopy");
        objcopy.args(args).arg(program).current_dir(program.parent().unwrap());
        assert!(objcopy.output().unwrap().status.success());
    };
    let copy = program.with_file_name(debug);
    fs::copy(program, &copy).unwrap();
    let mut only = std::process::Command::new("objcopy");
    assert!(only.arg("--only-keep-debug").arg(&copy).output().unwrap().status.success());
    run(&["--strip-all", &format!("--add-gnu-debuglink={debug}")]);
}

#[test]
fn what_was_split_off_a_file_goes_with_it_if_it_is_that() {
    for link_option in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let dir = tempfile::tempdir().unwrap();
        let (inner, path) = (dir.path().join("inner"), dir.path().join("inner/program"));
        fs::create_dir(&inner).unwrap();
        let source = dir.path().join("program.c");
        fs::write(&source, "int work(void) { return 3; } int main(void) { return work(); }")
            .unwrap();
        let mut gcc = std::process::Command::new("gcc");
        gcc.arg(link_option).arg(&source).arg("-o").arg(&path);
        assert!(gcc.output().unwrap().status.success());
        split(&path, "abc");
        let saved = |before: &dyn Fn()| {
            let mut saver = empty();
            let found = found(&path, 5);
            before();
            let Found::File(mut mapped, file, _) = found else { panic!("{found:?}") };
            mapped.mapping.path = b"/container/inner/program (deleted)".to_vec();
            // Two mappings of two numbers, of which one file is made.
            for ino in [5, 6] {
                mapped.mapping.inode = ino;
                let root = Root::at(dir.path());
                saver.take(Found::File(mapped.clone(), file.try_clone().unwrap(), root));
            }
            let outcome = saver.tell();
            let all = files(&outcome);
            let all = all.iter().filter(|it| it.facts.what == FileFacts::ELF_DEBUG);
            all.map(|it| (*it).clone()).collect::<Vec<_>>()
        };
        // Where it is below the container's root.
        fs::create_dir(dir.path().join("container")).unwrap();
        std::os::unix::fs::symlink("/inner", dir.path().join("container/inner")).unwrap();
        let [debug] = &saved(&|| ())[..] else { panic!("{link_option}") };
        let has_id = link_option == "-Wl,--build-id";
        let link = debug.facts.crc.is_some();
        assert_eq!((debug.facts.build_id.is_some(), link), (has_id, true));
        assert_eq!(debug.facts.path, "/container/inner/abc");
        assert_eq!(Identity::of(&debug.content().unwrap()).unwrap().symbols, Symbols::Full);
        // Another one came in its place.
        let other = || _ = fs::copy("/bin/true", inner.join("abc")).unwrap();
        assert_eq!(saved(&other), []);
    }
}

#[test]
fn what_was_written_to_since_it_was_mapped_is_not_saved_as_what_ran() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("a.c");
    fs::write(&source, "int main(void) { return 0; }").unwrap();
    for option in ["-Wl,--build-id", "-Wl,--build-id=none"] {
        let path = dir.path().join("a");
        let mut gcc = std::process::Command::new("gcc");
        gcc.arg(option).arg(&source).arg("-o").arg(&path);
        assert!(gcc.output().unwrap().status.success());
        let rewrite = || {
            let other = fs::read("/bin/true").unwrap();
            let mut file = File::options().write(true).open(&path).unwrap();
            file.write_all(&other).unwrap();
        };
        // While it is held, and then it goes.
        let mut saver = empty();
        saver.take(found(&path, 1));
        rewrite();
        fs::rename(&path, dir.path().join("b")).unwrap();
        let outcome = saver.tell();
        assert_eq!((files(&outcome).len(), outcome.gaps.n_gone), (0, 1), "{option}");
        // When it was saved already: known by a build id it is what had that.
        assert!(gcc.output().unwrap().status.success());
        let mut saver = empty();
        let held = found(&path, 1);
        let Found::File(mut mapped, file, root) = held else { panic!("{held:?}") };
        mapped.mapping.path = b"/nowhere".to_vec();
        saver.take(Found::File(mapped, file, root));
        assert_eq!(files(&saver.tell()).len(), 1);
        rewrite();
        let n_saved = usize::from(option == "-Wl,--build-id");
        assert_eq!(files(&saver.tell()).len(), n_saved, "{option}");
    }
}

#[test]
fn what_was_gone_is_counted_unless_it_is_there_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut saver = empty();
    saver.take(found(&dir.path().join("none"), 5));
    assert_eq!(saver.gaps, FileGaps { n_gone: 1, ..FileGaps::default() });
    let there = copied(dir.path(), "there", "/bin/sh");
    let inode = {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(&there).unwrap().ino()
    };
    let Found::File(mapped, ..) = found(&there, inode) else { unreachable!() };
    saver.take(Found::Gone(mapped));
    assert_eq!(saver.gaps.n_gone, 1);
    // The same file, once more, and then by somebody who is still there.
    saver.take(found(&dir.path().join("none"), 5));
    assert_eq!(saver.gaps.n_gone, 1);
    saver.take(found(&there, 5));
    assert_eq!(saver.gaps.n_gone, 0);
}

#[test]
fn there_is_room_for_so_much_and_no_more() {
    let facts = |pid| FileFacts { pid, ..FileFacts::default() };
    let file = |pid, len| SavedFile { facts: facts(pid), compressed: vec![0; len] };
    let mut saver = empty();
    assert_eq!(saver.add(file(1, MOST_OF_FILE + 1)), None);
    for pid in 0..8 {
        assert!(saver.add(file(pid, MOST_OF_FILE)).is_some());
    }
    assert_eq!(saver.add(file(9, 1)), None);
    let outcome = saver.tell();
    assert_eq!((files(&outcome).len(), outcome.gaps.n_too_long), (8, 2));
}

#[test]
fn what_is_not_watched_and_what_is_lost_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut saver = Saver::new(Tables::Names, 4);
    for n in 0..7 {
        let path = copied(dir.path(), &format!("f{n}"), "/bin/true");
        let ino = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
        saver.take(found(&path, ino));
        saver.take(found(&copied(dir.path(), &format!("jit-{n}.dump"), "/bin/true"), 10 + n));
    }
    let own = || Sight::of(Pid(std::process::id().cast_signed())).unwrap();
    saver.take(Found::Maker(Pid(1), own()));
    saver.take(Found::Maker(Pid(2), own()));
    saver.take(Found::Lost(5));
    // A dump that has become longer than is kept.
    let dump = File::options().write(true).open(dir.path().join("jit-0.dump")).unwrap();
    dump.set_len((64 << 20) + 1).unwrap();
    fs::remove_file(dir.path().join("jit-0.dump")).unwrap();
    // It goes while nobody holds it.
    fs::remove_file(dir.path().join("f6")).unwrap();
    let want = FileGaps { n_unwatched: 1 + 6 + 1, n_lost: 5, n_too_long: 1, ..FileGaps::default() };
    assert_eq!(saver.tell().gaps, want);
}

#[test]
fn a_thread_that_never_answers_is_not_waited_for() {
    let (turns, _nobody_listens) = mpsc::sync_channel(1);
    let saving = Saving { turns, listener: None, met: Met::default(), n_unheard: 0 };
    assert!(saving.send(Turn::Found(Found::Lost(1)), Instant::now()));
    assert!(!saving.send(Turn::Found(Found::Lost(1)), Instant::now()));
}

#[test]
fn a_dump_of_another_user_is_saved_though_it_is_found() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jit-7.dump");
    fs::write(&path, "some").unwrap();
    let mut saver = empty();
    saver.take(found(&path, 5));
    assert!(files(&saver.tell()).is_empty());
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    assert_eq!(files(&saver.tell()).len(), 1);
}

#[test]
fn a_dump_is_as_it_was_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jit-7.dump");
    fs::write(&path, "some").unwrap();
    let mut saver = empty();
    saver.take(found(&path, 5));
    assert!(files(&saver.tell()).is_empty());
    fs::write(&path, "some more").unwrap();
    fs::remove_file(&path).unwrap();
    let outcome = saver.tell();
    let [file] = files(&outcome)[..] else { panic!("{outcome:?}") };
    assert_eq!((&*file.facts.what, file.facts.pid), (FileFacts::JITDUMP, 7));
    assert_eq!(file.content().unwrap(), b"some more");
}

#[test]
fn a_map_is_saved_when_its_process_ends() {
    let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
    let pid = Pid(child.id().cast_signed());
    let sight = Sight::of(pid).unwrap();
    let path = PathBuf::from(sight.perf_map_path());
    let mut saver = empty();
    saver.take(Found::Maker(pid, sight));
    assert!(files(&saver.tell()).is_empty());
    fs::write(&path, "7f00 40 work\n").unwrap();
    saver.look();
    // Some clear up behind themselves.
    fs::remove_file(&path).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let outcome = saver.tell();
    assert!(saver.makers.is_empty());
    let [file] = files(&outcome)[..] else { panic!("{outcome:?}") };
    assert_eq!(file.content().unwrap(), b"7f00 40 work\n");
    assert_eq!(file.facts.path, path.to_str().unwrap());
}
