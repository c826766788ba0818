//! Tests of the mask: what is shown of an address never holds a piece of a password.

use proptest::prelude::*;

use super::*;

#[test]
fn a_good_address_is_shown_with_all_but_its_password() {
    for (url, shown) in [
        ("sqlite://a b.db", "sqlite://a b.db"),
        ("sqlite:///var/a@b.db", "sqlite:///var/a@b.db"),
        ("leases.db", "leases.db"),
        ("postgres://h/d", "postgres://h/d"),
        ("postgres://u@h1:1,[::1]:2,[::2]/d", "postgres://u@h1:1,[::1]:2,[::2]/d"),
        ("postgres://u:s3cret@h/d", "postgres://u:…@h/d"),
        ("postgres://h/d?user=u&sslmode=disable", "postgres://h/d?user=u&sslmode=disable"),
        ("postgresql://u:s3c@r:e#t@h,i:1/d?sslmode=require", "postgresql://u:…@h,i:1/d?sslmode=require"),
        ("postgres://h/d?user=u&sslmode=disable&password=s3cret", "postgres://h/d?…"),
    ] {
        assert_eq!(without_password(url), shown);
    }
}

#[test]
fn of_an_address_that_is_not_understood_nothing_is_shown_that_may_be_a_password() {
    for (url, shown) in [
        // Nobody knows where this one ends.
        ("postgres://hc:p@s3c/w#ret@127.0.0.1:15499/app", "postgres://…"),
        ("postgres://hc:s3c?ret@h/app", "postgres://…"),
        ("postgres://h/d?password=s3c@ret", "postgres://…"),
        // The host was forgotten.
        ("postgres://hc:s3cret/app", "postgres://hc:…/app"),
        ("postgres://hc:s3c:ret", "postgres://…:…"),
        // A keyword is not known, or is none.
        ("postgres://h/d?pasword=s3cret", "postgres://h/d?…"),
        ("postgres://h/d?Password=s3cret&sslmode=disable", "postgres://h/d?…"),
        ("postgres://h/d?password=s3c&ret", "postgres://h/d?…"),
        ("postgres:/u:s3cret@h", "…"),
        ("u:s3cret@h", "…"),
        ("host=h password=s3cret", "…"),
        ("mysql://u:s3cret@h/d", "mysql://…"),
        ("sqlite://u:s3cret@h/d", "sqlite://…"),
        ("sqlite://h/d?password=s3cret", "sqlite://h/d?…"),
        ("s3cret@\"postgres://", "…"),
    ] {
        assert_eq!(without_password(url), shown);
    }
}

#[test]
fn a_keyword_with_a_slip_is_recognised_and_another_word_is_not() {
    for (slip, meant) in [
        ("pasword", "password"),
        ("passwordd", "password"),
        ("psasword", "password"),
        ("Password", "password"),
        ("passwort", "password"),
        ("sslmod", "sslmode"),
    ] {
        assert_eq!(near(slip), Some(meant), "{slip}");
    }
    for other in ["", "ssl", "schema", "hunter2", "passwords2"] {
        assert_eq!(near(other), None, "{other}");
    }
}

/// Returns passwords of every awkward form; their letters J, X and Z are in no other part of an address.
fn password() -> impl Strategy<Value = String> {
    const MARKS: [&str; 16] = ["/", "@", ":", "?", "#", "&", "=", "%", ",", "[", "]", " ", "://", "%40", "\"", "ü"];
    let piece = prop_oneof![
        4 => "[JXZ]{2,6}",
        4 => prop::sample::select(MARKS.to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(vec!["password=", "sslmode=", "port=", "host="]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 1..8).prop_map(|pieces| pieces.concat())
}

/// Returns addresses without their scheme, in which a password stands where people write it.
pub(crate) fn with_password() -> impl Strategy<Value = String> {
    (password(), 0..5_usize).prop_map(|(password, form)| match form {
        0 => format!("user:{password}@db.internal:5432/app?sslmode=require"),
        1 => format!("user:{password}@db.internal"),
        2 => format!("db.internal/app?pasword={password}"),
        3 => format!("db.internal/app?password={password}&sslmode=require"),
        _ => format!("user:{password}@db.internal/app?password={password}"),
    })
}

/// Returns true if a text holds a piece of a password.
pub(crate) fn tells(text: &str) -> bool {
    text.contains(['J', 'X', 'Z'])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_piece_of_a_password_is_shown_or_named_in_a_reason(rest in with_password()) {
        for scheme in ["postgres", "postgresql", "mysql", "sqlite"] {
            let told = without_password(&format!("{scheme}://{rest}")).into_owned();
            prop_assert!(!tells(&told), "{rest}: {told}");
        }
        let told = Parts::of(&rest).map_or_else(|error| error, |parts| parts.options().err().unwrap_or_default());
        prop_assert!(!tells(&told), "{rest}: {told}");
    }
}
