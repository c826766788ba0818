//! Pages as they are read: their blocks, the steps of a section, and what makes two prints equal.

use super::*;

pub(super) fn blocks() -> Vec<Block> {
    PAGES.into_iter().flat_map(support::page::blocks).collect()
}

/// A step of a reader: what is typed, and what the page says comes of it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) command: &'static str,
    pub(super) printed: Option<Vec<&'static str>>,
}

/// Returns the commands of one section, in order.
pub(super) fn steps(heading: &str) -> Vec<Step> {
    let blocks = blocks();
    let mut steps: Vec<Step> = Vec::new();
    for (index, block) in blocks.iter().enumerate().filter(|(_, block)| block.heading == heading) {
        match block.language {
            "sh" if !is_not_run(block) => {
                let run = block.lines.iter().map(|command| Step { command, printed: None });
                steps.extend(run);
                let below = blocks.get(index + 1).filter(|next| next.language == "text" && next.is_right_below);
                steps.last_mut().expect("a command").printed = below.map(|below| below.lines.clone());
            }
            "console" => {
                for line in &block.lines {
                    match line.strip_prefix("$ ") {
                        Some(command) => steps.push(Step { command, printed: Some(Vec::new()) }),
                        None => steps.last_mut().and_then(|step| step.printed.as_mut()).expect("a command").push(line),
                    }
                }
            }
            _ => {}
        }
    }
    assert!(!steps.is_empty(), "a page has commands under {heading:?}");
    steps
}

pub(super) fn is_not_run(block: &Block) -> bool {
    NOT_RUN.iter().any(|(text, _)| block.lines == [*text])
}

fn is_identity(word: &str) -> bool {
    word.len() == 16 && word.chars().all(|c| "0123456789abcdef".contains(c))
}

/// Returns a line with what differs from run to run made equal: days, times, durations, ports that the system chose,
/// identities, numbers of terms and views, and the voter that leads.
pub(super) fn common(line: &str) -> String {
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    if words.first().is_some_and(|word| word == "leader") {
        words.splice(1.., ["NODE".to_owned()]);
    }
    if words.len() == 7 && is_identity(&words[6]) {
        // The voter that leads, and the times at which the others were heard.
        words.splice(2..6, ["STANDING".to_owned()]);
    }
    for (place, word) in words.iter_mut().enumerate() {
        let is_made_of = |characters: &str| word.chars().all(|c| characters.contains(c));
        let is_time = word.len() == 8 && word.matches(':').count() == 2 && is_made_of("0123456789:");
        let digits = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_duration = digits.len() < word.len() && ["ms", "s", "m", "h"].contains(&digits);
        let port = word.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if is_day(word) {
            "DAY".clone_into(word);
        } else if is_time {
            "TIME".clone_into(word);
        } else if is_duration {
            "DURATION".clone_into(word);
        } else if is_identity(word) {
            "IDENTITY".clone_into(word);
        } else if place < 2 && is_made_of("0123456789") {
            "NUMBER".clone_into(word);
        } else if port.is_some_and(|port| port >= 10_000) {
            let host = word.rsplit_once(':').expect("a port").0;
            *word = format!("{host}:PORT");
        }
    }
    words.join(" ")
}

fn is_day(word: &str) -> bool {
    word.len() == 10 && word.matches('-').count() == 2 && word.chars().all(|c| c.is_ascii_digit() || c == '-')
}

/// Returns true if a line is an event, which comes when it comes.
fn is_event(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(is_day)
}

/// Returns true if this is what README says: the same lines in the same order. Events are a matter of their own: those
/// that it shows come in that order, others may come between them, and none has its place among the other lines.
pub(super) fn agree(printed: &[String], said: &[&str], by: fn(&str) -> String) -> bool {
    let of = |lines: &mut dyn Iterator<Item = &str>, events: bool| -> Vec<String> {
        lines.filter(|line| is_event(line) == events).map(by).collect()
    };
    let printed_lines = || printed.iter().map(String::as_str);
    let lines = of(&mut printed_lines(), false) == of(&mut said.iter().copied(), false);
    let events = of(&mut printed_lines(), true);
    let mut events = events.iter();
    lines && of(&mut said.iter().copied(), true).iter().all(|said| events.any(|event| event == said))
}

pub(super) fn exactly(line: &str) -> String {
    line.trim_end().to_owned()
}
