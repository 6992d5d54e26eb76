//! The demo's own promises, on which other tests stand.

use std::time::Duration;
use std::time::Instant;

use crate::stage::Background;
use crate::stage::Need;
use crate::stage::demo;
use crate::stage::may_run;
use crate::stage::output_of;
use crate::stage::stdout_of;

#[test]
fn the_demo_says_when_its_program_is_in_place() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let said = stdout_of(demo().args(["run", "0.1"]));
    let id = said.strip_prefix("attached demo_sys_enter id ").unwrap().trim_end();
    assert!(id.parse::<u32>().is_ok_and(|id| id != 0), "{said}");
}

#[test]
fn the_demo_passes_on_the_status_of_its_command() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let status = |script| output_of(demo().args(["load-before", "sh", "-c", script])).status.code();
    assert_eq!(status("exit 7"), Some(7));
    assert_eq!(status("kill -9 $$"), Some(137));
}

#[test]
fn the_demo_ends_with_whoever_started_it() {
    if !may_run(&[Need::Root]) {
        return;
    }
    let started = Instant::now();
    let mut background = Background::start(demo().args(["attach-for", "60", "0"]));
    background.let_go();
    assert!(started.elapsed() < Duration::from_secs(20), "took {:?}", started.elapsed());
}

#[test]
fn wrong_arguments_of_the_demo_are_told() {
    let output = output_of(demo().arg("dance"));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("usage: demo run SECONDS"));
}
