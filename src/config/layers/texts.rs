//! The texts of variables and flags as values: each is read as the type that its key has.
//!
//! Text that cannot be read so stays text, and is refused by the key like any other value of the wrong type. Knows the
//! forms of keys, no single key.

use crate::config::given::{Item, Value};
use crate::config::keys::{Form, Key};
use crate::config::problem::{Problem, Source, printable};

impl Item {
    /// Parses the value of a variable: lists are separated by commas, tags are `k=v,k2=v2`, and an empty text is an
    /// empty list.
    pub(super) fn from_variable(key: &Key, source: Source, text: &str) -> Result<Self, Vec<Problem>> {
        let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
        match key.form() {
            Form::List => Ok(Self::list(source, parts())),
            Form::Table => Self::table(key, source, parts()),
            Form::Tables => Err(Self::of_files(key, source)),
            form => Ok(Self::scalar(form, &source, text)),
        }
    }

    /// Parses the values of a flag: a list has one entry for each time the flag was given; of anything else the last
    /// counts.
    pub(super) fn from_flag(key: &Key, source: Source, values: &[String]) -> Result<Self, Vec<Problem>> {
        match key.form() {
            Form::List => Ok(Self::list(source, values.iter().map(String::as_str))),
            Form::Table => Self::table(key, source, values.iter().map(String::as_str)),
            Form::Tables => Err(Self::of_files(key, source)),
            form => Ok(Self::scalar(form, &source, values.last().map_or("", String::as_str))),
        }
    }

    /// Returns the problem of a value with too many parts for one line.
    fn of_files(key: &Key, source: Source) -> Vec<Problem> {
        let problem = Problem::new(source, "is given in a configuration file alone").key(key.name());
        vec![problem.hint(format!("write {}", key.form().description()))]
    }

    fn scalar(form: Form, source: &Source, text: &str) -> Self {
        let trimmed = text.trim();
        let value = match (form, trimmed) {
            (Form::Switch, "true") => Some(Value::Boolean(true)),
            (Form::Switch, "false") => Some(Value::Boolean(false)),
            (Form::Count, number) => number.parse().ok().map(Value::Integer),
            _ => None,
        };
        value.map_or_else(|| Self::text(source.clone(), text), |value| Self::new(source.clone(), value, trimmed))
    }

    fn list<'a>(source: Source, parts: impl Iterator<Item = &'a str>) -> Self {
        let items: Vec<Item> = parts.map(|part| Self::text(source.clone(), part)).collect();
        let found = items.iter().map(|item| item.found.as_str()).collect::<Vec<_>>().join(", ");
        Self::new(source, Value::List(items), &format!("[{found}]"))
    }

    fn table<'a>(key: &Key, source: Source, parts: impl Iterator<Item = &'a str>) -> Result<Self, Vec<Problem>> {
        let mut table: Vec<(String, Item)> = Vec::new();
        let mut found = Vec::new();
        for part in parts {
            let problem = |reason: &str| {
                let problem = Problem::new(source.clone(), reason).key(key.name());
                vec![problem.found(printable(&format!("\"{part}\""))).allowed("key=value")]
            };
            let (name, value) = part.split_once('=').ok_or_else(|| problem("has no '='"))?;
            if table.iter().any(|(other, _)| other == name) {
                return Err(problem("names a key for the second time"));
            }
            found.push(part);
            table.push((name.to_owned(), Self::text(source.clone(), value)));
        }
        let found = format!("{{{}}}", found.join(", "));
        Ok(Self::new(source, Value::Table(table), &found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys::find;

    fn variable(key: &str, text: &str) -> Result<Value, Vec<Problem>> {
        let key = find(key).expect("a key");
        Item::from_variable(key, Source::Environment(key.variable()), text).map(|item| item.value)
    }

    #[test]
    fn a_variable_becomes_what_its_key_asks_for() {
        assert_eq!(variable("mtu", " 1200 "), Ok(Value::Integer(1200)));
        assert_eq!(variable("mtu", "1k"), Ok(Value::Text("1k".into())));
        assert_eq!(variable("http.insecure", "true"), Ok(Value::Boolean(true)));
        assert_eq!(variable("http.insecure", "yes"), Ok(Value::Text("yes".into())));
        assert_eq!(variable("name", "17"), Ok(Value::Text("17".into())));
        assert_eq!(variable("seeds", ""), Ok(Value::List(Vec::new())));
        let Ok(Value::List(seeds)) = variable("seeds", "a:1, b:2,") else { panic!("a list") };
        assert_eq!(seeds.iter().map(|seed| seed.found.as_str()).collect::<Vec<_>>(), ["\"a:1\"", "\"b:2\""]);
    }

    #[test]
    fn tags_are_pairs_and_each_key_comes_once() {
        let Ok(Value::Table(tags)) = variable("tags", "a=1,b=x=y") else { panic!("a table") };
        assert_eq!(tags.len(), 2);
        assert_eq!(tags[1].1.value, Value::Text("x=y".into()));
        for (bad, reason) in [("a=1,b", "\"b\" has no '='"), ("a=1,a=2", "\"a=2\" names a key for the second time")] {
            let problem = variable("tags", bad).expect_err(bad)[0].to_string();
            assert!(problem.contains(reason) && problem.contains("HEADCOUNT_TAGS"), "{problem}");
        }
    }

    #[test]
    fn a_comma_in_a_flag_belongs_to_the_value() {
        let key = find("tags").expect("a key");
        let item = Item::from_flag(key, Source::Flag("--tag".into()), &["a=1,2".into()]).expect("one tag");
        let Value::Table(tags) = item.value else { panic!("a table") };
        assert_eq!(tags[0].1.value, Value::Text("1,2".into()));
    }
}
