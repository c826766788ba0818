//! Who has no key: it is not answered, and what it records, plays or invents changes nothing.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use super::cluster::{Files, address, dropped, logged, start, three};
use crate::support::{self, Agent, wait_for};

#[test]
fn who_has_no_key_or_another_one_is_not_answered_and_both_sides_learn_why() {
    let files = Files::new();
    let [a, _b, _c] = three(&files);
    let other = files.generate("other.key");
    // Both are seeds themselves, and found no cluster beside the one that there is.
    let homes = [support::own_address(), support::own_address()].map(|home| home.replace(":0", ":7117"));
    let seeds = homes.each_ref().map(|home| [home.as_str(), &a.gossip]);
    let stranger = start("stranger", &seeds[0], &other, &["--bind", &homes[0]]);
    let clear = Agent::start("clear", &seeds[1], &["--bind", &homes[1]]);
    for (outsider, why) in [(&stranger, "it has other keys than this node"), (&clear, "it takes sealed packets alone")]
    {
        logged(outsider, &format!("{} does not open what this node sends: {why}", a.gossip));
    }
    // Longer than a seed waits for others.
    std::thread::sleep(Duration::from_secs(5));
    for outsider in [&stranger, &clear] {
        let ready = outsider.get("/readyz");
        assert!(ready.contains(" 503 ") && ready.ends_with("joining"), "the reason is not for everybody: {ready}");
        let info = outsider.get("/v1/info");
        assert!(info.contains(&format!("\"joining\":\"{} does not open", a.gossip)), "{info}");
        assert_eq!(outsider.members(), [(outsider.name.clone(), "joining".to_owned())]);
    }
    logged(&a, "that is not sealed, which this node requires");
    logged(&a, "which this node lacks");
    assert!(dropped(&a, "unsealed") > 0.0 && dropped(&a, "sealed_unknown_key") > 0.0);
    assert!(dropped(&stranger, "sealed_unknown_key") < 1.0, "nobody answered it");
    assert!(dropped(&clear, "sealed_unknown_key") < 1.0, "nobody answered it");
    a.wait_for_up(&["a", "b", "c"]);
}

#[test]
fn nothing_that_is_not_sealed_is_answered_by_datagram_and_over_tcp_the_reason_alone_is_told() {
    let files = Files::new();
    let [a, ..] = three(&files);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    // An unknown version, a packet of nobody, a datagram that claims to be sealed, and noise.
    let mut question = b"HC\x01\0".to_vec();
    question.extend([0; 252]);
    for bytes in
        [&b"HC\x09\0aaaabbbbbbbb\x01cccccccc"[..], &question, &[b"HC\x01\x01", &[7; 96][..]].concat(), &[0; 300]]
    {
        socket.send_to(bytes, address(&a)).expect("sent");
    }
    assert!(socket.recv(&mut [0; 2_048]).is_err(), "no datagram is answered");
    let mut stream = TcpStream::connect(address(&a)).expect("listening");
    // Half the time in which whoever opens a connection must greet.
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("set");
    stream.write_all(b"\0\0\0\x19HC\x01\0aaaabbbbbbbb\x01ccccccccd").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("closed at once, and not when its time is over");
    assert_eq!(answer, b"\0\0\0\x05HC\x01\x04\0");
    wait_for("the count of both", || (dropped(&a, "unsealed") >= 4.0).then_some(()));
}

#[test]
fn recorded_packets_do_nothing_when_they_are_played_again_from_elsewhere() {
    let files = Files::new();
    let key = files.generate("cluster.key");
    let a = start("a", &[], &key, &[]);
    // A seed that only records what newcomers send.
    let recorder = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = recorder.local_addr().expect("bound").to_string();
    let _b = start("b", &[&at, &a.gossip], &key, &[]);
    let (mut packets, mut buffer) = (Vec::new(), [0; 2_048]);
    while packets.is_empty() {
        let length = recorder.recv(&mut buffer).expect("a newcomer asks all its seeds");
        packets.push(buffer[..length].to_vec());
    }
    a.wait_for_up(&["a", "b"]);
    // Each time from a socket of its own, to which no late answer of the time before comes.
    let play = |times: usize| {
        let elsewhere = UdpSocket::bind("127.0.0.1:0").expect("a port");
        elsewhere.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
        for _ in 0..times {
            for packet in &packets {
                elsewhere.send_to(packet, address(&a)).expect("sent");
            }
        }
        std::iter::from_fn(|| elsewhere.recv(&mut [0; 2_048]).ok()).collect::<Vec<usize>>()
    };
    // These never reached the agent: each may be answered once, with no more bytes, and leads nowhere.
    let first = play(1);
    assert!(first.len() <= packets.len(), "{first:?}");
    let (longest, all) = (packets.iter().map(Vec::len).max(), packets.iter().map(Vec::len).sum::<usize>());
    assert!(first.iter().max().copied() <= longest && first.iter().sum::<usize>() <= all, "{first:?} bytes for {all}");
    let before = dropped(&a, "sealed_replayed");
    assert_eq!(play(5), [0; 0], "what was seen is not answered");
    wait_for("all of them are counted", || {
        let counted = dropped(&a, "sealed_replayed") - before;
        (counted >= 5.0 * packets.len() as f64).then_some(())
    });
    a.wait_for_up(&["a", "b"]);
}
