//! The command `headcount`. All of it is in the library, where tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    headcount::cli::main()
}
