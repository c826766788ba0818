//! Text from elsewhere, made safe to show: on one line, unambiguous, not endless.
//!
//! Invariants: what is shown holds no control character and no character that is invisible or changes how its neighbours
//! are shown (bidirectional overrides, zero-width characters, private use): each stands as `\u{…}`. Text that a person
//! wrote in any script stays as it is. Must not know where a text came from or where it goes.

/// The longest text of others that a message repeats, in characters.
pub(crate) const MAX_SHOWN: usize = 80;

/// Returns a text with every character written out that is invisible or changes how its neighbours are shown, cut where it
/// gets longer than `most` characters.
pub(crate) fn visible(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len().min(most));
    let mut room = most;
    for character in text.chars() {
        let width = if is_visible(character) { 1 } else { character.escape_debug().count() };
        if width > room {
            shown.push('…');
            break;
        }
        room -= width;
        if width == 1 { shown.push(character) } else { shown.extend(character.escape_debug()) }
    }
    shown
}

/// Returns true if a character shows as itself. The standard library knows for `Debug` which characters are not printable: those
/// of the categories control, format, surrogate, private use, unassigned, and all separators but the space. Behind a
/// letter, since it writes out a combining accent where one stands alone.
fn is_visible(character: char) -> bool {
    let behind_a_letter = || ['a', character].iter().collect::<String>().escape_debug().count() == 2;
    matches!(character, ' '..='~') || behind_a_letter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_script_stays_as_it_is() {
        for text in ["a \"b\" 'c' \\", "Zürich", "東京", "שלום", "e\u{301}", "नमस्ते", "…→×"] {
            assert_eq!(visible(text, usize::MAX), text);
        }
    }

    #[test]
    fn what_is_invisible_or_reorders_its_neighbours_is_written_out() {
        let liars = [
            '\u{0}',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202b}',
            '\u{202c}',
            '\u{202d}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2067}',
            '\u{2068}',
            '\u{2069}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e0001}',
            '\u{e007f}',
        ];
        for liar in liars {
            let shown = visible(&format!("a{liar}b"), usize::MAX);
            assert!(shown.is_ascii() && shown.starts_with("a\\") && shown.ends_with('b'), "{shown:?}");
        }
        assert_eq!(visible("a\u{1b}[31mb\nä\u{202e}", usize::MAX), "a\\u{1b}[31mb\\nä\\u{202e}");
    }

    #[test]
    fn long_text_is_cut() {
        assert_eq!(visible("abc", 3), "abc");
        assert_eq!(visible("äbcd", 3), "äbc…");
        assert_eq!(visible("a\n\n", 4), "a\\n…");
        assert_eq!(visible("", 0), "");
    }
}
