//! The messages between a process and its successor: a length, JSON, and the bytes already read of
//! requests. Unknown JSON fields are ignored; an invalid message is refused as a whole. It sends
//! nothing itself.
//!
//! ```text
//! 4 bytes, little endian: JSON bytes │ JSON │ bytes read of the first request │ of the second │ …
//! ```

use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use weir_config::model::ListenAddress;
use weir_proxy::migration::{Begun, GlobalSeniority, Moved, WaitingRequest};
use weir_proxy::request_id::RequestId;

use super::in_flight::EndpointLoad;
use super::inherited_state::InheritedState;
use crate::migration::machine_clock::MachineClock;

/// The largest number of bytes of a message. The kernel has room for it unless its default socket
/// buffers were made smaller.
pub(crate) const MESSAGE_BYTES: usize = 192 * 1024;
/// The largest number of connections in one message.
pub(crate) const CONNECTIONS: usize = 64;
/// The bytes of JSON that an offer may need beside the name and addresses of its listener.
const OFFER_BYTES: usize = 1024;
/// The size of the length before the JSON.
const LENGTH: usize = size_of::<u32>();

/// A message.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MigrationMessage {
    /// State that a successor needs before it serves.
    #[serde(rename = "estate")]
    InheritedState(InheritedState),
    /// The first message of a successor.
    Hello { version: u32 },
    /// The counts of exchanges at endpoints that have changed.
    #[serde(rename = "busy")]
    InFlight(Vec<EndpointLoad>),
    /// Connections to take over. Their sockets are attached in the same order.
    Offer(Vec<Offer>),
    /// The decisions on offered connections.
    Verdicts(Vec<PassVerdict>),
}

/// The decision on one connection.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PassVerdict {
    /// The connection's number in the offer.
    pub(crate) number: u64,
    /// The reason that it is not taken over; `None` if it is.
    #[serde(default)]
    pub(crate) refused: Option<String>,
}

/// An offered connection. Times are microseconds of the machine's monotonic clock.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    /// The number by which the verdict refers to it.
    pub(crate) number: u64,
    /// The listener's name.
    pub(crate) listener: String,
    /// The addresses of the listener.
    pub(crate) addresses: Vec<ListenAddress>,
    /// The client's address; `None` on a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    served: u64,
    since_us: u64,
    began_us: u64,
    #[serde(default)]
    begun: Option<OfferedRequest>,
}

/// A request that was read in part.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OfferedRequest {
    bytes: usize,
    first_byte_us: u64,
    #[serde(default)]
    waiting: Option<OfferedWait>,
}

/// A request's place in a queue.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OfferedWait {
    head_end_us: u64,
    request_id: String,
    since_us: u64,
    queue_position: u32,
    arrived_us: u64,
    tie: u16,
}

impl MigrationMessage {
    /// Encodes the message, followed by the bytes already read of requests.
    ///
    /// # Errors
    /// It is longer than a message may be.
    pub(crate) fn encode(&self, requests: &[&[u8]]) -> io::Result<Vec<u8>> {
        let text = serde_json::to_vec(self)?;
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&text);
        for request in requests {
            bytes.extend_from_slice(request);
        }
        if bytes.len() > MESSAGE_BYTES {
            return Err(io::Error::other("a message is too long"));
        }
        Ok(bytes)
    }

    /// Decodes a message; returns it with the bytes that follow it.
    ///
    /// # Errors
    /// The bytes are not a valid message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), String> {
        let (length, rest) = bytes.split_first_chunk::<LENGTH>().ok_or("it has no length")?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, rest) = rest.split_at_checked(length).ok_or("it is cut off")?;
        let message = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        Ok((message, rest))
    }
}

impl Offer {
    /// Makes an offer of a connection; its request bytes follow the message.
    pub(crate) fn new(
        number: u64,
        listener: &str,
        addresses: &[ListenAddress],
        moved: &Moved,
        clock: &MachineClock,
    ) -> Self {
        let waiting = |waiting: &WaitingRequest| OfferedWait {
            head_end_us: clock.microseconds(waiting.head_end),
            request_id: String::from_utf8_lossy(waiting.request_id.as_bytes()).into_owned(),
            since_us: clock.microseconds(waiting.since),
            queue_position: waiting.queue_position,
            arrived_us: clock.microseconds(waiting.seniority.arrived),
            tie: waiting.seniority.tie,
        };
        let begun = |begun: &Begun| OfferedRequest {
            bytes: begun.bytes.len(),
            first_byte_us: clock.microseconds(begun.first_byte),
            waiting: begun.waiting.as_deref().map(waiting),
        };
        Self {
            number,
            listener: listener.to_owned(),
            addresses: addresses.to_vec(),
            peer: moved.peer,
            served: moved.served,
            since_us: clock.microseconds(moved.since),
            began_us: clock.microseconds(moved.began),
            begun: moved.begun.as_deref().map(begun),
        }
    }

    /// Rebuilds the connection, with its request bytes from the beginning of `rest`.
    ///
    /// # Errors
    /// The offer and the bytes do not match.
    pub(crate) fn moved(&self, rest: &mut &[u8], clock: &MachineClock) -> Result<Moved, String> {
        let (since, began) = (clock.instant(self.since_us), clock.instant(self.began_us));
        let mut moved = Moved::new(self.peer, self.served, since, began);
        let Some(begun) = &self.begun else { return Ok(moved) };
        let (bytes, behind) = rest.split_at_checked(begun.bytes).ok_or("a request is cut off")?;
        *rest = behind;
        let waiting = |waiting: &OfferedWait| {
            let request_id = RequestId::given(waiting.request_id.as_bytes());
            let head_end = clock.instant(waiting.head_end_us);
            let since = clock.instant(waiting.since_us);
            let arrived = clock.instant(waiting.arrived_us);
            let seniority = GlobalSeniority { arrived, tie: waiting.tie };
            let position = waiting.queue_position;
            Some(Box::new(WaitingRequest::new(request_id?, head_end, since, position, seniority)))
        };
        let waiting = match &begun.waiting {
            Some(offered) => Some(waiting(offered).ok_or("a request's id is none")?),
            None => None,
        };
        let first_byte = clock.instant(begun.first_byte_us);
        moved.begun = Some(Box::new(Begun { bytes: bytes.to_vec(), first_byte, waiting }));
        Ok(moved)
    }
}

/// The largest number of bytes that an offer takes in a message.
pub(crate) fn room_for(names_bytes: usize, moved: &Moved) -> usize {
    let begun = moved.begun.as_ref().map_or(0, |begun| begun.bytes.len());
    OFFER_BYTES + 2 * names_bytes + begun
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weir_proxy::instant::Instant;

    use super::*;

    fn waiting(now: Instant) -> Moved {
        let ago = |time| now.checked_sub(Duration::from_micros(time)).unwrap();
        let peer = Some("192.0.2.7:4711".parse().unwrap());
        let mut moved = Moved::new(peer, 3, ago(900), ago(5_000_000));
        moved.begun = Some(Box::new(Begun {
            bytes: b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf\xff".to_vec(),
            first_byte: ago(800),
            waiting: Some(Box::new(WaitingRequest::new(
                RequestId::given(b"abc-123").unwrap(),
                ago(700),
                ago(600),
                4,
                GlobalSeniority { arrived: ago(601), tie: 77 },
            ))),
        }));
        moved
    }

    /// An idle connection and one with a waiting request.
    fn offers(clock: &MachineClock) -> (MigrationMessage, Vec<Moved>) {
        let address = ListenAddress::Socket("127.0.0.1:80".parse().unwrap());
        let at = [address, ListenAddress::Unix { path: "/run/a.sock".into(), mode: None }];
        let all = vec![Moved::new(None, 0, clock.instant, clock.instant), waiting(clock.instant)];
        let offer = |(number, moved)| Offer::new(number, ":80", &at, moved, clock);
        (MigrationMessage::Offer((7..).zip(&all).map(offer).collect()), all)
    }

    fn encoded(clock: &MachineClock) -> Vec<u8> {
        let (message, all) = offers(clock);
        let bytes: Vec<&[u8]> =
            all.iter().flat_map(|moved| &moved.begun).map(|begun| &*begun.bytes).collect();
        message.encode(&bytes).unwrap()
    }

    /// A process of another version knows the messages by these names.
    #[test]
    fn messages_keep_their_names() {
        let check = |message: MigrationMessage, expected: &str| {
            let text = serde_json::to_string(&message).unwrap();
            assert!(text.starts_with(&format!("{{\"{expected}\":")), "{text}");
        };
        check(MigrationMessage::InheritedState(InheritedState::default()), "estate");
        check(MigrationMessage::Hello { version: 1 }, "hello");
        check(MigrationMessage::InFlight(Vec::new()), "busy");
        check(MigrationMessage::Offer(Vec::new()), "offer");
        check(MigrationMessage::Verdicts(Vec::new()), "verdicts");
    }

    #[tokio::test]
    async fn a_connection_arrives_as_it_was() {
        let clock = MachineClock::new();
        let bytes = encoded(&clock);
        let (message, mut rest) = MigrationMessage::decode(&bytes).unwrap();
        assert_eq!(message, offers(&clock).0);
        let MigrationMessage::Offer(offers) = message else { panic!("no offer") };
        // The clock of another process has another origin.
        let other = MachineClock {
            instant: clock.instant + Duration::from_millis(5),
            microseconds: clock.microseconds + 5000,
        };
        let moved: Vec<Moved> =
            offers.iter().map(|offer| offer.moved(&mut rest, &other).unwrap()).collect();
        assert!(rest.is_empty());
        let expected = self::offers(&clock).1;
        assert_eq!(format!("{moved:?}"), format!("{expected:?}"));
    }

    #[tokio::test]
    async fn a_message_that_is_cut_off_anywhere_is_none() {
        let clock = MachineClock::new();
        let bytes = encoded(&clock);
        for length in 0..bytes.len() {
            let Ok((MigrationMessage::Offer(offers), mut rest)) =
                MigrationMessage::decode(&bytes[..length])
            else {
                continue;
            };
            let moved: Result<Vec<Moved>, String> =
                offers.iter().map(|offer| offer.moved(&mut rest, &clock)).collect();
            assert!(moved.is_err(), "{length} of {}", bytes.len());
        }
    }

    #[tokio::test]
    async fn garbage_is_refused_and_breaks_nothing() {
        let clock = MachineClock::new();
        let bytes = encoded(&clock);
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let mut wrong = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..wrong.len());
                wrong[at] = random.u8(..);
            }
            if let Ok((MigrationMessage::Offer(offers), mut rest)) =
                MigrationMessage::decode(&wrong)
            {
                for offer in offers {
                    let _ = offer.moved(&mut rest, &clock);
                }
            }
        }
        for text in ["", "{", "7", "{\"offer\":7}", "{\"farewell\":{}}", "{\"offer\":[{}]}"] {
            let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
            bytes.extend_from_slice(text.as_bytes());
            assert!(MigrationMessage::decode(&bytes).is_err(), "{text}");
        }
    }

    #[test]
    fn words_of_a_later_version_are_passed_over() {
        let text = r#"{"verdicts":[{"number":3,"mood":"good"},{"number":4,"refused":"full"}]}"#;
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        let verdicts = [(3, None), (4, Some("full".to_owned()))];
        let verdicts = verdicts.map(|(number, refused)| PassVerdict { number, refused });
        assert_eq!(
            MigrationMessage::decode(&bytes),
            Ok((MigrationMessage::Verdicts(verdicts.into()), &[][..]))
        );
    }
}
