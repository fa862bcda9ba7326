//! Tests of joined records of a `ClientHello`, and of its limits.

use proptest::prelude::*;

use super::hello::{Fields, block, extension, in_records, with_protocols};
use super::*;
use crate::limits::{
    HELLO_BYTES, HELLO_CODES, HELLO_EXTENSIONS, HELLO_KEYS, HELLO_NAMES, HELLO_RAW_BYTES,
    HELLO_SUITES,
};
use crate::net::tls::client_hello::{ClientHello, Progress};

/// Pushes bytes in pieces of these lengths, the last of which is repeated, until the outcome is
/// known.
fn push(hello: &mut ClientHello, bytes: &[u8], lengths: &[usize]) -> Progress {
    let mut rest = bytes;
    let mut lengths = lengths.iter().copied();
    let mut length = usize::MAX;
    while !rest.is_empty() {
        length = lengths.next().unwrap_or(length).max(1);
        let (piece, later) = rest.split_at(length.min(rest.len()).min(hello.room()));
        rest = later;
        let progress = hello.push(piece);
        if progress != Progress::Partial {
            return progress;
        }
    }
    Progress::Partial
}

fn decided(bytes: &[u8]) -> Progress {
    push(&mut ClientHello::default(), bytes, &[])
}

/// The first record of a usual client.
fn usual() -> Vec<u8> {
    let client = Arc::new(Authority::new().client());
    let name = ServerName::try_from("a.example").unwrap();
    let mut wire = Vec::new();
    ClientConnection::new(client, name).unwrap().write_tls(&mut wire).unwrap();
    wire
}

#[test]
fn a_message_is_whole_at_its_last_byte_in_any_records_and_pieces() {
    let record = usual();
    let message = &record[5..];
    for piece in [1, 2, 5, 100, message.len() - 1, message.len()] {
        let wire = in_records(message, piece);
        for at in 0..wire.len() {
            let mut hello = ClientHello::default();
            assert_eq!(hello.push(&wire[..at]), Progress::Partial, "{at} in records of {piece}");
            assert_eq!(hello.push(&wire[at..]), Progress::Whole, "{at} in records of {piece}");
            assert_eq!(&hello.record()[5..], message);
            assert_eq!(hello.record()[..5], in_records(message, 1 << 14)[..5]);
        }
        let behind = [wire.as_slice(), b"behind it"].concat();
        let mut hello = ClientHello::default();
        assert_eq!(push(&mut hello, &behind, &[]), Progress::Whole);
        assert_eq!((&hello.record()[5..], hello.behind()), (message, &b"behind it"[..]));
        let mut hello = ClientHello::default();
        assert_eq!(push(&mut hello, &wire, &[1]), Progress::Whole);
    }
}

#[test]
fn every_list_of_a_message_is_bounded() {
    type Make = Box<dyn Fn(usize) -> Fields>;
    let list = |kind: u16, item: &'static [u8]| -> Make {
        Box::new(move |count| Fields::new(extension(kind, &block(&item.repeat(count)))))
    };
    let identity = [0, 1, 9, 0, 0, 0, 0];
    let cases: [(&str, usize, Make); 10] = [
        (
            "suites",
            HELLO_SUITES,
            Box::new(|count| Fields { suites: [0x12, 0x34].repeat(count), extensions: Vec::new() }),
        ),
        (
            "extensions",
            HELLO_EXTENSIONS,
            Box::new(|count| {
                Fields::new((0x1000..).take(count).flat_map(|kind| extension(kind, &[])).collect())
            }),
        ),
        ("protocols", HELLO_NAMES, Box::new(with_protocols)),
        ("groups", HELLO_CODES, list(10, &[0x7a, 0x7a])),
        ("signature schemes", HELLO_CODES, list(13, &[0x7a, 0x7a])),
        ("authorities", HELLO_NAMES, list(47, &[0, 1, 9])),
        (
            "responders",
            HELLO_NAMES,
            Box::new(|count| {
                let content = [vec![1], block(&[0, 1, 9].repeat(count)), block(&[])].concat();
                Fields::new(extension(5, &content))
            }),
        ),
        ("key shares", HELLO_KEYS, list(51, &[0x7a, 0x7a, 0, 1, 9])),
        (
            "tickets",
            HELLO_KEYS,
            Box::new(move |count| {
                let content = [block(&identity.repeat(count)), block(&[1, 9])].concat();
                Fields::new(extension(41, &content))
            }),
        ),
        (
            "binders",
            HELLO_KEYS,
            Box::new(move |count| {
                let content = [block(&identity), block(&[1, 9].repeat(count))].concat();
                Fields::new(extension(41, &content))
            }),
        ),
    ];
    for (name, most, make) in cases {
        assert_eq!(decided(&make(most).record()), Progress::Whole, "{name}");
        let over = make(most + 1);
        assert_eq!(decided(&over.record()), Progress::Excessive, "{name}");
        assert_eq!(decided(&in_records(&over.message(), 7)), Progress::Excessive, "{name}");
        // Extensions after a malformed list are checked, too.
        let mut later = over;
        later.extensions = [extension(16, &[9, 9, 9]), later.extensions].concat();
        assert_eq!(decided(&later.record()), Progress::Excessive, "{name} behind another");
    }
}

#[test]
fn a_message_is_no_longer_than_one_record() {
    let filled = |size: usize| {
        let empty = Fields::new(extension(0xfafa, &[])).message().len();
        Fields::new(extension(0xfafa, &vec![0; size - empty])).message()
    };
    let largest = filled(HELLO_BYTES);
    assert_eq!(largest.len(), HELLO_BYTES);
    assert_eq!(decided(&in_records(&largest, HELLO_BYTES)), Progress::Whole);
    assert_eq!(decided(&in_records(&largest, HELLO_BYTES / 100)), Progress::Whole);
    let larger = filled(HELLO_BYTES + 1);
    assert_eq!(decided(&in_records(&larger, HELLO_BYTES)), Progress::Excessive);
    // Its length is known from the first record.
    assert_eq!(decided(&in_records(&larger, 10)[..15]), Progress::Excessive);
    // The headers of records count.
    let headers = in_records(&filled(HELLO_BYTES / 2), 3);
    assert!(headers.len() > HELLO_RAW_BYTES);
    let mut hello = ClientHello::default();
    assert_eq!(push(&mut hello, &headers, &[1000]), Progress::Excessive);
    assert_eq!(hello.room(), 0);
}

#[test]
fn bytes_that_are_no_client_hello_are_left_to_rustls() {
    let usual = usual();
    let (record, message) = (usual.as_slice(), &usual[5..]);
    let cut = in_records(&message[..20], 20);
    let other = [&[22, 3, 1, 0, 4], &[2, 0, 0, 0][..]].concat();
    let cases: [(&str, &[&[u8]], usize); 9] = [
        ("HTTP", &[b"GET / HTTP/1.1\r\n\r\n"], 7),
        ("SSL 2", &[&[0x80, 0x2e, 1, 0, 2, 0, 5]], 7),
        ("a foreign version", &[&[22, 9, 9, 0, 9, 1]], 6),
        ("an empty record", &[&[22, 3, 1, 0, 0], record], 7),
        ("a record that is too long", &[&[22, 3, 1, 0x40, 1, 1]], 6),
        ("another message", &[&other], 7),
        ("an alert in front", &[&[21, 3, 3, 0, 2, 1, 90], record], 7),
        ("an alert within", &[&cut, &[21, 3, 3, 0, 2, 1, 90]], 0),
        ("a message behind it", &[&in_records(&[message, &[1]].concat(), 1 << 14)], 0),
    ];
    for (name, parts, shown) in cases {
        let bytes = parts.concat();
        let mut hello = ClientHello::default();
        assert_eq!(push(&mut hello, &bytes, &[]), Progress::Foreign, "{name}");
        assert_eq!(hello.foreign(), &bytes[..shown], "{name}");
        assert_eq!(push(&mut ClientHello::default(), &bytes, &[1]), Progress::Foreign, "{name}");
    }
}

#[test]
fn a_change_cipher_spec_record_may_precede_the_second_message() {
    let change = [20, 3, 3, 0, 1, 1];
    let record = usual();
    let wire = [&change[..], &record].concat();
    for lengths in [&[][..], &[1], &[6], &[7, 1]] {
        let mut hello = ClientHello::after_retry();
        assert_eq!(push(&mut hello, &wire, lengths), Progress::Whole);
        assert_eq!(hello.record(), record);
    }
    assert_eq!(push(&mut ClientHello::after_retry(), &record, &[1]), Progress::Whole);
    assert_eq!(decided(&wire), Progress::Foreign);
    for wrong in [[&change[..], &wire].concat(), [20, 3, 3, 0, 1, 2].to_vec()] {
        assert_eq!(push(&mut ClientHello::after_retry(), &wrong, &[1]), Progress::Foreign);
    }
}

/// Random bytes, or a message in which some bytes were changed.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let protocols = with_protocols(20).message();
    let changes = prop::collection::vec((0..protocols.len(), any::<u8>()), 0..8);
    let message = (changes, 1..80_usize).prop_map(move |(changes, piece)| {
        let mut message = protocols.clone();
        for (at, byte) in changes {
            message[at] = byte;
        }
        in_records(&message, piece)
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..300), message]
}

proptest! {
    #[test]
    fn any_bytes_have_the_same_result_in_any_pieces(
        bytes in bytes(),
        lengths in prop::collection::vec(1..40_usize, 0..20),
        retry in any::<bool>(),
    ) {
        let new = || if retry { ClientHello::after_retry() } else { ClientHello::default() };
        let (mut whole, mut pieces) = (new(), new());
        let decided = push(&mut whole, &bytes, &[]);
        prop_assert_eq!(push(&mut pieces, &bytes, &lengths), decided);
        if decided == Progress::Whole {
            prop_assert_eq!(pieces.record(), whole.record());
        }
    }
}
