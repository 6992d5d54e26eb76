//! Lists of names, which may stand in files.

use std::fs;

use super::message::Failure;

/// What a name begins with that is that of a file of names, one a line.
const FILE: &str = "file://";

/// The names of `list`, with those of the files that are named in it.
pub(super) fn read(list: &[String]) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for name in list {
        let Some(path) = name.strip_prefix(FILE) else {
            names.push(name.clone());
            continue;
        };
        let text = fs::read_to_string(path).map_err(|error| {
            Failure::because(format!("cannot read the names in `{path}`"), &error)
        })?;
        names.extend(text.lines().filter(|it| !it.is_empty()).map(str::to_owned));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_a_line_and_each_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("names");
        fs::write(&path, "sh\n\na b\n").unwrap();
        let list = ["zsh".to_owned(), format!("file://{}", path.display()), "sh".to_owned()];
        assert_eq!(read(&list).unwrap(), ["a b", "sh", "zsh"]);
        let missing = format!("file://{}/none", dir.path().display());
        assert!(read(&[missing]).unwrap_err().to_string().contains("cannot read the names"));
    }
}
