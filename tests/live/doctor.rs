//! `doctor` on this machine, whatever it lacks.

use std::process::Command;

fn doctor(args: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_bpfperf"))
        .arg("doctor")
        .args(args)
        .output()
        .expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (String::from_utf8(output.stdout).expect("it is text"), output.status.code())
}

#[test]
fn text_json_and_status_say_the_same() {
    let (text, status) = doctor(&[]);
    let (json, json_status) = doctor(&["--json"]);
    assert_eq!(status, json_status);
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["version"], 1);
    let checks = json["checks"].as_array().expect("it lists the checks");
    let lacking = checks.iter().filter(|it| it["state"] != "yes").count();
    assert_eq!(json["is_complete"], lacking == 0);
    assert_eq!(status, Some(i32::from(lacking != 0)));
    for check in checks {
        let what = check["what"].as_str().expect("each has a text");
        assert!(text.contains(what), "{what}\n{text}");
    }
}
