//! Statements sent one behind the other, without waiting for answers in between.
//!
//! Invariants: statements are sent in order and are unnamed: nothing of them stays in the session, so that a pooler may
//! give the session to another client after each transaction. Their number is bounded by the caller's code, never by
//! data.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

/// A value and its type.
pub(super) type Value<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement with its values.
pub(super) struct Statement<'a> {
    text: &'a str,
    values: Vec<Value<'a>>,
}

impl<'a> Statement<'a> {
    pub(super) fn new(text: &'a str, values: Vec<Value<'a>>) -> Self {
        Self { text, values }
    }
}

/// Sends all statements and awaits all answers: returns the rows of each, or the first error and its place.
pub(super) async fn run(client: &Client, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>, (usize, Error)> {
    let mut answers: Vec<_> = statements
        .iter()
        .map(|statement| (Box::pin(client.query_typed(statement.text, &statement.values)), None))
        .collect();
    // A statement is sent when its future is first polled, so in the order of this loop.
    poll_fn(|context| {
        let mut is_waiting = false;
        for (future, answer) in &mut answers {
            if answer.is_some() {
                continue;
            }
            match Pin::as_mut(future).poll(context) {
                Poll::Ready(result) => *answer = Some(result),
                Poll::Pending => is_waiting = true,
            }
        }
        if is_waiting { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    let mut rows = Vec::with_capacity(answers.len());
    for (place, (_, answer)) in answers.into_iter().enumerate() {
        rows.push(answer.expect("all were awaited").map_err(|error| (place, error))?);
    }
    Ok(rows)
}
