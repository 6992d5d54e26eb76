//! How BPF programs are compiled that `-e` names the source of.

use std::path::PathBuf;

use crate::bpf::source::Options;

/// What was typed.
#[derive(Debug, Default, clap::Args)]
pub(super) struct SourceOptions {
    /// Compile `-e FILE.bpf.c` with this clang.
    #[arg(long, value_name = "PATH")]
    clang_path: Option<PathBuf>,
    /// Compile `-e FILE.bpf.c` with these arguments, too, such as `-DLIMIT=10`; spaces part them.
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    clang_opt: Vec<String>,
}

impl SourceOptions {
    /// What is meant by them.
    pub(super) fn options(&self) -> Options {
        let args = self.clang_opt.iter().flat_map(|it| it.split_ascii_whitespace());
        Options { clang: self.clang_path.clone(), args: args.map(str::to_owned).collect() }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: SourceOptions,
    }

    #[test]
    fn arguments_of_clang_are_parted_by_spaces() {
        let words =
            ["record", "--clang-opt", "-DA=1  -O1", "--clang-opt=-I x", "--clang-path", "c"];
        let options = Line::try_parse_from(words).unwrap().options.options();
        assert_eq!(options.clang, Some(PathBuf::from("c")));
        assert_eq!(options.args, ["-DA=1", "-O1", "-I", "x"]);
    }
}
