//! Pages of the documentation as a reader has them: blocks of commands, and commands named in prose.

use std::path::Path;

use super::HEADCOUNT;
use super::terminal::program;

/// A fenced block of a page.
#[derive(Debug)]
pub struct Block {
    pub heading: &'static str,
    pub language: &'static str,
    pub lines: Vec<&'static str>,
    /// True if nothing but an empty line stands between this block and the one before it.
    pub is_right_below: bool,
}

pub fn blocks(page: &'static str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut heading, mut is_inside, mut is_right_below) = ("", false, false);
    for line in page.lines() {
        match (is_inside, line.strip_prefix("```")) {
            (false, Some(language)) => {
                blocks.push(Block { heading, language, lines: Vec::new(), is_right_below });
                is_inside = true;
            }
            (true, Some(_)) => (is_inside, is_right_below) = (false, true),
            (true, None) => blocks.last_mut().expect("a block is open").lines.push(line),
            (false, None) => {
                is_right_below &= line.is_empty();
                if line.starts_with('#') {
                    heading = line;
                }
            }
        }
    }
    assert!(!is_inside, "the last block has an end");
    blocks
}

/// Returns what stands in backticks between the blocks of a page.
pub fn named_in_prose(page: &str) -> Vec<String> {
    let is_fence = |line: &&str| line.starts_with("```");
    let mut is_prose = true;
    let prose: Vec<&str> = page
        .lines()
        .filter(|line| {
            is_prose ^= is_fence(line);
            is_prose && !is_fence(line)
        })
        .collect();
    prose.join(" ").split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Fails if the program knows no such command, or not with these arguments. Nothing is done.
pub fn assert_is_understood(command: &str) {
    let mut words = vec![HEADCOUNT];
    words.extend(command.split_whitespace().skip(1));
    words.push("--help");
    let output = program(&[], &words, Path::new(".")).output().expect("it runs");
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}
