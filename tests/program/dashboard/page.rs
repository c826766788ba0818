//! The dashboard as a visitor meets it.

use std::ops::Deref;

use serde_json::{Value, json};

use super::browser::Browser;
use crate::support::wait_for;

/// A browser that shows the dashboard of an agent.
pub(crate) struct Page {
    browser: Browser,
}

impl Deref for Page {
    type Target = Browser;

    fn deref(&self) -> &Browser {
        &self.browser
    }
}

impl Page {
    /// Opens the dashboard of an agent, and waits until it tells something; `fragment` is what stands behind `#` in its
    /// address.
    pub(crate) fn open(browser: Browser, http: &str, fragment: &str) -> Self {
        let page = Self::of(browser);
        page.visit(&format!("http://{http}/dashboard#{fragment}"));
        page.until_live();
        page
    }

    /// Takes the page that a browser shows.
    pub(crate) fn of(browser: Browser) -> Self {
        Self { browser }
    }

    /// Waits until the page follows its agent and has said who leads.
    pub(crate) fn until_live(&self) {
        self.until("the page is live", "document.documentElement.dataset.link === 'live'");
        self.until("members are listed", "document.querySelector('#member-rows [data-id]')");
        self.until("the leader is known", "document.getElementById('leader-value').textContent !== 'unknown'");
    }

    /// Waits until an expression of JavaScript is true.
    pub(crate) fn until(&self, what: &str, expression: &str) {
        wait_for(&format!("{what}: {expression}"), || self.is(expression).then_some(()));
    }

    /// Returns true if an expression of JavaScript is.
    pub(crate) fn is(&self, expression: &str) -> bool {
        self.value(&format!("Boolean({expression})")) == true
    }

    /// Returns the value of an expression of JavaScript.
    pub(crate) fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"), &[])
    }

    /// Returns the text of an element as it is read; empty, if it is hidden or missing.
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", &[json!(selector)]);
        text.as_str().expect("a text").to_owned()
    }

    /// Waits until the text of an element has this part.
    pub(crate) fn until_text(&self, selector: &str, part: &str) {
        wait_for(&format!("{part:?} in {selector}"), || self.text(selector).contains(part).then_some(()));
    }

    /// Returns true if an element is to be seen.
    pub(crate) fn shows(&self, selector: &str) -> bool {
        self.run("return document.querySelector(arguments[0])?.checkVisibility() ?? false", &[json!(selector)]) == true
    }

    pub(crate) fn until_shown(&self, selector: &str, shown: bool) {
        wait_for(&format!("{selector} is {}", if shown { "shown" } else { "hidden" }), || {
            (self.shows(selector) == shown).then_some(())
        });
    }

    /// Chooses a value of a list to choose from, by its id.
    pub(crate) fn choose(&self, id: &str, value: &str) {
        let script = "const list = document.getElementById(arguments[0]); list.value = arguments[1]; \
            list.dispatchEvent(new Event('change', { bubbles: true }))";
        self.run(script, &[json!(id), json!(value)]);
    }

    /// Returns the members listed, as `name status`, in the order of the page.
    pub(crate) fn members(&self) -> Vec<String> {
        self.list("#member-rows [data-id]", "`${node.dataset.id} ${node.dataset.status}`")
    }

    /// Returns what an expression says of each `node` that a selector finds.
    pub(crate) fn list(&self, selector: &str, expression: &str) -> Vec<String> {
        let script = format!("return [...document.querySelectorAll(arguments[0])].map((node) => {expression})");
        serde_json::from_value(self.run(&script, &[json!(selector)])).expect("texts")
    }

    /// Waits until these members are listed, in this order.
    pub(crate) fn until_members(&self, wanted: &[&str]) {
        wait_for(&format!("{wanted:?} listed"), || (self.members() == wanted).then_some(()));
    }

    /// Fails if anything was written to the console.
    pub(crate) fn assert_quiet(&self) {
        let console = self.console();
        assert!(console.is_empty(), "the console has {console:#?}");
    }
}
