//! A browser under test: Chromium without a window, driven by `chromedriver` in the words of the WebDriver protocol.
//!
//! The protocol is a handful of JSON calls, for which the client that the binary has anyway is enough.
//!
//! Invariants:
//! - Nothing leaves this machine: the browser resolves no name and asks no proxy.
//! - Nothing stays behind: driver, browser and profile are gone with this process, however it ends.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::support::{PATIENCE, skip};

/// The names under which distributions install the browser.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const DRIVER: &str = "chromedriver";
/// The largest answer of the driver: a picture of a large window is far below.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// The greatest number of tries to click an element that the page replaces meanwhile.
const CLICKS: usize = 10;
/// The directory for pictures of pages.
const PICTURES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/dashboard");

/// Waits for the end of standard input, which comes with the end of this process; then ends a group of processes, and
/// removes a directory.
const KEEPER: &str = "read -r line; kill -s TERM -- -$1; tries=0; \
    while kill -s 0 -- -$1 2>/dev/null && [ $tries -lt 100 ]; do sleep 0.05; tries=$((tries + 1)); done; \
    kill -s KILL -- -$1 2>/dev/null; rm -rf \"$2\"";

/// Keys as the protocol writes them.
pub(crate) mod key {
    pub(crate) const TAB: &str = "\u{e004}";
    pub(crate) const ENTER: &str = "\u{e007}";
    pub(crate) const ESCAPE: &str = "\u{e00c}";
    pub(crate) const DOWN: &str = "\u{e015}";
}

/// A browser with one page.
pub(crate) struct Browser {
    /// Leads the group of processes that the browser belongs to.
    driver: Child,
    keeper: Child,
    http: ureq::Agent,
    /// The address of the session, below which all calls are.
    session: String,
}

impl Browser {
    /// Starts a browser; `None`, with a reason printed, where there is none.
    pub(crate) fn start() -> Option<Self> {
        let Some(browser) = BROWSERS.iter().find_map(|name| program(name)) else {
            skip("no Chromium is installed (Debian: chromium)");
            return None;
        };
        let Some(driver) = program(DRIVER) else {
            skip("chromedriver is not installed (Debian: chromium-driver)");
            return None;
        };
        let place = tempfile::Builder::new().prefix("headcount-browser-").tempdir().expect("a directory").keep();
        let mut command = Command::new(driver);
        for variable in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(variable, &place);
        }
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.process_group(0);
        // Another program may take its port between its two looks for one that is free.
        let tries = std::iter::repeat_with(|| {
            let mut driver = command.spawn().expect("the driver starts");
            port(&mut driver).map(|port| (driver, port))
        });
        let mut said = String::new();
        let started = tries.take(5).find_map(|tried| tried.map_err(|reason| said = reason).ok());
        let (driver, port) = started.unwrap_or_else(|| panic!("chromedriver does not start: {said}"));
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER, "keeper", &driver.id().to_string()]).arg(&place).process_group(0);
        let keeper = keeper.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell");
        let http = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).proxy(None);
        let mut started =
            Self { driver, keeper, http: http.build().new_agent(), session: format!("http://127.0.0.1:{port}") };
        match started.try_post("/session", &capabilities(&browser)) {
            Ok(session) => started.session = format!("{}/session/{}", started.session, text(&session["sessionId"])),
            Err(reason) => {
                skip(&format!("Chromium does not start: {reason}"));
                return None;
            }
        }
        Some(started)
    }

    fn try_post(&self, path: &str, body: &Value) -> Result<Value, String> {
        answered(path, self.http.post(format!("{}{path}", self.session)).send_json(body))
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.try_post(path, body).unwrap_or_else(|reason| panic!("{reason}"))
    }

    fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}{path}", self.session)).call();
        answered(path, answer).unwrap_or_else(|reason| panic!("{reason}"))
    }

    /// Opens a page, and waits until it is loaded.
    pub(crate) fn visit(&self, address: &str) {
        self.post("/url", &json!({ "url": address }));
    }

    /// Loads the page again.
    pub(crate) fn reload(&self) {
        self.post("/refresh", &json!({}));
    }

    /// Runs the body of a function in the page, with these `arguments`; what it returns.
    pub(crate) fn run(&self, script: &str, arguments: &[Value]) -> Value {
        self.post("/execute/sync", &json!({ "script": script, "args": arguments }))
    }

    /// Presses keys one after the other.
    pub(crate) fn press(&self, keys: &str) {
        let strokes =
            keys.chars().flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })));
        let strokes: Vec<_> = strokes.collect();
        self.post("/actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": strokes }] }));
    }

    /// Clicks an element as a mouse does: it must be in sight, and nothing may lie over it. One that the page replaces
    /// between the search and the click is looked for again, as the driver knows elements and a mouse knows places.
    pub(crate) fn click(&self, selector: &str) {
        for _ in 0..CLICKS {
            let element = self.post("/element", &json!({ "using": "css selector", "value": selector }));
            let id = element.as_object().and_then(|object| object.values().next()).and_then(Value::as_str);
            match self.try_post(&format!("/element/{}/click", id.expect("an element")), &json!({})) {
                Err(reason) if reason.contains("stale element reference") => {}
                clicked => return drop(clicked.unwrap_or_else(|reason| panic!("{reason}"))),
            }
        }
        panic!("{selector} is replaced faster than it can be clicked");
    }

    /// Gives a command of the browser's own protocol.
    pub(crate) fn command(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Gives the page so many pixels.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.command("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Has the browser prefer `light` or `dark` pages.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.command("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Takes what was written to the console since this was asked last: errors of scripts, refused sources, failed
    /// loads, and what the page says itself.
    pub(crate) fn console(&self) -> Vec<String> {
        let log = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = log.as_array().expect("a list").iter();
        entries.map(|entry| format!("{} {}", text(&entry["level"]), text(&entry["message"]))).collect()
    }

    /// Keeps a picture of what is in sight; its path.
    pub(crate) fn picture(&self, name: &str) -> PathBuf {
        let picture = self.get("/screenshot");
        let bytes = base64::prelude::BASE64_STANDARD.decode(text(&picture)).expect("a picture");
        std::fs::create_dir_all(PICTURES).expect("a directory");
        let path = Path::new(PICTURES).join(format!("{name}.png"));
        std::fs::write(&path, bytes).expect("written");
        path
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The session itself may be what failed.
            let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let name = std::thread::current().name().unwrap_or("failed").replace("::", "-");
                eprintln!("the page at the end: {}", self.picture(&name).display());
                self.console().iter().for_each(|line| eprintln!("console: {line}"));
            }));
            drop(seen);
        }
        let ended = self.http.delete(&self.session).config().timeout_global(Some(Duration::from_secs(5))).build();
        let _ = ended.call();
        drop(self.keeper.stdin.take());
        let _ = self.driver.wait();
        let _ = self.keeper.wait();
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns what an answer of the driver holds, or what it refuses.
fn answered(call: &str, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value, String> {
    let mut answer = answer.map_err(|error| format!("{call}: the driver does not answer: {error}"))?;
    let body = answer.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_json::<Value>();
    let body = body.map_err(|error| format!("{call}: {error}"))?;
    if answer.status().is_success() {
        Ok(body["value"].clone())
    } else {
        Err(format!("{call}: {}", text(&body["value"]["message"])))
    }
}

fn capabilities(browser: &Path) -> Value {
    let mut arguments = vec![
        "--headless=new",
        "--window-size=1280,900",
        "--force-device-scale-factor=1",
        "--lang=en-GB",
        // Containers have little shared memory.
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-extensions",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--no-proxy-server",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.*",
    ];
    if nix::unistd::getuid().is_root() {
        // Chromium refuses to be root in its sandbox; the only pages that it sees here are our own.
        arguments.push("--no-sandbox");
    }
    json!({ "capabilities": { "alwaysMatch": {
        "goog:chromeOptions": { "binary": browser, "args": arguments },
        "goog:loggingPrefs": { "browser": "ALL" },
    } } })
}

/// Reads the port that the driver has chosen, or what it says in place of that.
fn port(driver: &mut Child) -> Result<u16, String> {
    let mut said = String::new();
    for line in BufReader::new(driver.stdout.take().expect("piped")).lines().map_while(Result::ok) {
        if let Some((_, rest)) = line.split_once("successfully on port ") {
            return Ok(rest.trim_end_matches('.').parse().expect("a port"));
        }
        said.push_str(&line);
        said.push('\n');
    }
    _ = driver.wait();
    Err(said)
}

fn program(name: &str) -> Option<PathBuf> {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).map(|place| place.join(name)).find(|path| path.is_file())
}
