//! The page of faults names tests that are there.

use std::path::Path;

fn sources(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&std::fs::read_to_string(&path).expect("text"));
        }
    }
}

#[test]
fn each_row_of_the_page_of_faults_names_a_test_that_is_there() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = String::new();
    sources(core, &mut all);
    sources(&core.join("../../tests/campaign"), &mut all);
    let rows: Vec<&str> = include_str!("../faults.md").lines().filter(|line| line.ends_with("` |")).collect();
    assert!(rows.len() > 40, "{} rows", rows.len());
    for row in rows {
        let test = row.trim_end_matches("` |").rsplit('`').next().expect("a last column");
        assert!(all.contains(&format!("fn {test}()")), "{row}");
    }
}
