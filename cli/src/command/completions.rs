//! `nyala completions`: what a shell needs to complete the command.

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::failure::Exit;
use crate::output::Output;

/// Print completions for a shell, such as: nyala completions bash > ~/.local/share/bash-completion/completions/nyala
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(args: &Args, out: &mut Output) -> Result<Exit> {
    // Written to memory first: the generator panics if it cannot write.
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut crate::args::Args::command(), "nyala", &mut text);
    out.writer().write_all(&text)?;
    Ok(Exit::Done)
}
