//! The client commands about keys: a new one, who holds which, and a rotation.
//!
//! Invariant: a key is printed by `generate` alone; everything else names keys by their ids.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _, Write};
use std::path::Path;

use zeroize::Zeroizing;

use super::args::{AddKeyArgs, ChangeKeyArgs, Format, GenerateArgs, KeysCommand, TargetArgs};
use super::client::connect;
use super::commands::json_line;
use super::failure::{Exit, Failure};
use super::human::{NOTHING, plain};
use super::table;
use crate::client::Client;
use crate::config::read_key_file;
use crate::json::Keys;
use crate::seal::{Key, KeyFile, KeyId, KeyRing};

/// The size in bytes above which standard input or a file holds no key.
const MAX_INPUT_BYTES: u64 = 64 * 1024;

/// A thing to try where not everybody seals with a key.
const USE_HINT: &str = "where a member lacks the key, copy another one's key file there and send SIGHUP (or start it then); once \
    all hold it, run the same command again; `headcount keys list` shows who holds what";
/// A thing to try where a key is not removed everywhere: a member that seals with it cannot be asked any more.
const REMOVE_HINT: &str = "copy the key file of a member that removed it there, and send SIGHUP (or start it then); `headcount \
    keys list` shows who holds what";

pub(super) fn run(command: &KeysCommand, out: &mut impl Write) -> Result<Exit, Failure> {
    match command {
        KeysCommand::Generate(args) => generate(args, out),
        KeysCommand::List(target) => list(target, out),
        KeysCommand::Add(args) => add(args, out),
        KeysCommand::Use(args) => change(args, true, out),
        KeysCommand::Remove(args) => change(args, false, out),
    }
}

fn new_key() -> Result<Key, Failure> {
    Key::generate().map_err(|error| Failure::failed(format!("the system gave no random numbers: {error}")))
}

fn generate(args: &GenerateArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let key = new_key()?;
    let line = Zeroizing::new(format!("{}\n", key.to_base64().as_str()));
    let Some(path) = &args.file else {
        out.write_all(line.as_bytes())?;
        return Ok(Exit::DONE);
    };
    let created = create(path, &line);
    if args.if_missing && created.as_ref().is_err_and(|error| error.kind() == ErrorKind::AlreadyExists) {
        writeln!(out, "{} is there, with key {}", path.display(), sealing_id(path)?)?;
        return Ok(Exit::DONE);
    }
    created.map_err(|error| {
        let (raw, elsewhere) = (error.to_string(), "name a file in a directory that this user may write to");
        let (why, hint) = match error.kind() {
            ErrorKind::AlreadyExists => ("it is there", "it is not replaced: it may be the only copy of a key"),
            ErrorKind::NotFound => ("its directory is not there", "make the directory, or name another file"),
            ErrorKind::PermissionDenied => ("this user may not write there", elsewhere),
            _ => (raw.as_str(), elsewhere),
        };
        Failure::failed(format!("cannot create {}: {why}", path.display())).hint(hint)
    })?;
    writeln!(out, "key {} is in {}: copy the file to every node, and to nobody else", key.id(), path.display())?;
    Ok(Exit::DONE)
}

/// Returns the id of the first key in a file: one that holds none is no key file, and nobody would start with it.
fn sealing_id(path: &Path) -> Result<KeyId, Failure> {
    let read = read_key_file(path).map_err(|error| Failure::failed(format!("{} {error}", path.display())))?;
    Ok(read.ring.sealing().id())
}

fn create(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn list(target: &TargetArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let keys = connect(&target.agent)?.keys()?;
    show(&keys, target.format, out)?;
    Ok(Exit::DONE)
}

fn add(args: &AddKeyArgs, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.target.agent)?;
    let (id, keys) = match (&args.file, held_id(args.file.as_deref())) {
        (_, Some(id)) => (id, client.add_key_again(id)?),
        (Some(path), None) => add_new(&client, &read_key(path)?)?,
        (None, None) => add_new(&client, &new_key()?)?,
    };
    let hint = format!("run `headcount keys add {id}` once they are back; `headcount keys list` shows who holds what");
    done(&format!("key {id} is accepted"), &hint, &keys, args.target.format, out)
}

fn add_new(client: &Client, key: &Key) -> Result<(KeyId, Keys), Failure> {
    Ok((key.id(), client.add_key(key)?))
}

/// Returns the id of a key that stands in the place of a file, unless there is a file of that name.
fn held_id(path: Option<&Path>) -> Option<KeyId> {
    let path = path.filter(|path| !path.exists())?;
    path.to_str()?.parse().ok()
}

/// Reads the one key in a file, or on standard input if that is `-`.
fn read_key(path: &Path) -> Result<Key, Failure> {
    let mut text = Zeroizing::new(String::new());
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_INPUT_BYTES + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_INPUT_BYTES + 1).read_to_string(&mut text))
    };
    let bytes = read.map_err(|error| Failure::failed(format!("cannot read {}: {error}", path.display())))?;
    if bytes as u64 > MAX_INPUT_BYTES {
        let (path, most) = (path.display(), MAX_INPUT_BYTES / 1024);
        return Err(Failure::failed(format!("{path} holds no key: it is larger than {most} KiB"))
            .hint("leave the file out to have a new key made"));
    }
    let ring = KeyFile::parse(&text).and_then(|file| Ok(file.ring()?));
    match ring.as_ref().map(KeyRing::keys) {
        Ok([key]) => Ok(key.clone()),
        Ok(keys) => {
            Err(Failure::failed(format!("{} holds {} keys, and one is added at a time", path.display(), keys.len())))
        }
        Err(error) => Err(Failure::failed(format!("{} holds no key: {error}", path.display()))
            .hint("leave the file out to have a new key made")),
    }
}

fn change(args: &ChangeKeyArgs, is_use: bool, out: &mut impl Write) -> Result<Exit, Failure> {
    let client = connect(&args.target.agent)?;
    let (keys, what, hint) = if is_use {
        (client.use_key(args.id, args.force)?, "seals", USE_HINT)
    } else {
        (client.remove_key(args.id, args.force)?, "is removed", REMOVE_HINT)
    };
    done(&format!("key {} {what}", args.id), hint, &keys, args.target.format, out)
}

/// Shows the keys after a change; fails if it was not made everywhere.
fn done(what: &str, hint: &str, keys: &Keys, format: Format, out: &mut impl Write) -> Result<Exit, Failure> {
    show(keys, format, out)?;
    let failed: Vec<String> = keys
        .members
        .iter()
        .filter_map(|member| member.error.as_ref().map(|error| format!("{} {}", plain(&member.node), plain(error))))
        .collect();
    if failed.is_empty() {
        if format == Format::Table {
            writeln!(out, "{what} everywhere")?;
        }
        return Ok(Exit::DONE);
    }
    Err(Failure::failed(format!("{what}, but not everywhere: {}", failed.join(", "))).hint(hint))
}

fn show(keys: &Keys, format: Format, out: &mut impl Write) -> Result<(), Failure> {
    if format == Format::Json {
        return json_line(out, keys);
    }
    let names = |names: &[String]| match names {
        [] => NOTHING.to_owned(),
        names => names.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", "),
    };
    let row =
        |key: &crate::json::KeyUse| [plain(&key.id), names(&key.sealing), names(&key.held_by), names(&key.lacked_by)];
    table::write(out, ["KEY", "SEALS AT", "HELD BY", "LACKED BY"], keys.keys.iter().map(row))?;
    for member in &keys.members {
        match (&member.error, member.mode.as_deref()) {
            (Some(error), _) => writeln!(out, "{} {}", plain(&member.node), plain(error))?,
            (None, Some(mode)) if mode != "require" => {
                writeln!(out, "{} takes clear packets (seal.mode = {})", plain(&member.node), plain(mode))?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_a_file_up_to_its_bound_and_from_no_larger_one() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("key");
        let key = new_key().expect("a key");
        let line = format!("{}\n#", *key.to_base64());
        for (bytes, is_read) in [(MAX_INPUT_BYTES as usize, true), (MAX_INPUT_BYTES as usize + 1, false)] {
            std::fs::write(&path, format!("{line}{}", "x".repeat(bytes - line.len()))).expect("written");
            match read_key(&path) {
                Ok(read) => assert!(is_read && read.id() == key.id()),
                Err(failure) => {
                    let told = failure.to_string();
                    assert!(!is_read && told.contains("larger than 64 KiB"), "{told}");
                }
            }
        }
    }
}
