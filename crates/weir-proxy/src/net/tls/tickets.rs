//! Stateless session tickets for all workers and listeners: AES-256-GCM with rotating keys. It
//! stores no session; the ticket that the client sends back contains the session.
//!
//! rustls has a ticketer of its own, behind a lock that all workers share. Here the keys are an
//! immutable pair behind `arc-swap`, so that a handshake takes no lock and the keys outlive a
//! reload.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use zeroize::Zeroizing;

use super::error::TlsError;

/// The time for which a key makes tickets. For the same time after that it only opens them.
const ROTATION_SECONDS: u64 = 6 * 60 * 60;
const NAME_LEN: usize = 8;
const SECRET_LEN: usize = 32;
/// The size of a saved key.
const SAVED_LEN: usize = NAME_LEN + SECRET_LEN;

/// Makes and opens tickets. One instance is to be shared by all configurations of the same
/// operator.
///
/// ```text
/// key:  makes and opens tickets ──6 h──▶ opens tickets ──6 h──▶ erased
/// ```
pub struct Tickets {
    keys: ArcSwap<Keys>,
    rotating: AtomicBool,
}

struct Keys {
    current: Arc<Key>,
    previous: Option<Arc<Key>>,
    rotate_at: u64,
}

struct Key {
    name: [u8; NAME_LEN],
    /// The key material of the cipher, for a successor.
    secret: Zeroizing<[u8; SECRET_LEN]>,
    cipher: RandomizedNonceKey,
}

impl Tickets {
    /// Creates a ticketer with a fresh random key.
    ///
    /// # Errors
    /// If the system provides no randomness.
    pub fn new() -> Result<Arc<Self>, TlsError> {
        Self::starting_at(now()).map(Arc::new)
    }

    fn starting_at(now: u64) -> Result<Self, TlsError> {
        let current = Key::random().ok_or_else(|| TlsError::Library {
            reason: "no randomness for ticket keys".to_owned(),
        })?;
        let keys =
            Keys { current, previous: None, rotate_at: now.saturating_add(ROTATION_SECONDS) };
        Ok(Self { keys: ArcSwap::from_pointee(keys), rotating: AtomicBool::new(false) })
    }

    /// The keys, for a process that has to open this one's tickets. They are secret.
    pub fn save(&self) -> Zeroizing<Vec<u8>> {
        let keys = self.keys.load();
        let rotate_at = keys.rotate_at.to_le_bytes();
        // The capacity is exact: growing would leave a copy of the secrets in the old buffer.
        let mut saved = Zeroizing::new(Vec::with_capacity(rotate_at.len() + 2 * SAVED_LEN));
        saved.extend_from_slice(&rotate_at);
        keys.current.save(&mut saved);
        if let Some(previous) = &keys.previous {
            previous.save(&mut saved);
        }
        saved
    }

    /// Continues with keys that another process saved. Malformed input changes nothing.
    pub fn restore(&self, saved: &[u8]) {
        if let Some(keys) = Keys::restored(saved) {
            self.keys.store(Arc::new(keys));
        }
    }

    fn seal(&self, now: u64, plain: &[u8]) -> Option<Vec<u8>> {
        self.rotate_when_due(now);
        let keys = self.keys.load();
        let mut sealed = plain.to_vec();
        let nonce = keys
            .current
            .cipher
            .seal_in_place_append_tag(Aad::from(keys.current.name), &mut sealed)
            .ok()?;
        let mut ticket = Vec::with_capacity(NAME_LEN + NONCE_LEN + sealed.len());
        ticket.extend_from_slice(&keys.current.name);
        ticket.extend_from_slice(nonce.as_ref());
        ticket.extend_from_slice(&sealed);
        Some(ticket)
    }

    fn open(&self, now: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        self.rotate_when_due(now);
        let (name, rest) = ticket.split_first_chunk::<NAME_LEN>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.keys.load();
        let key = [Some(&keys.current), keys.previous.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| key.name == *name)?;
        let mut plain = sealed.to_vec();
        let len =
            key.cipher.open_in_place(Nonce::from(nonce), Aad::from(*name), &mut plain).ok()?.len();
        plain.truncate(len);
        Some(plain)
    }

    /// The first thread that finds the key too old replaces it; others continue with the old one
    /// meanwhile. Without randomness the old key stays, and the next handshake tries again.
    fn rotate_when_due(&self, now: u64) {
        let due = |keys: &Keys| now >= keys.rotate_at;
        if !due(&self.keys.load()) || self.rotating.swap(true, Ordering::Acquire) {
            return;
        }
        let keys = self.keys.load();
        if due(&keys)
            && let Some(current) = Key::random()
        {
            // If the old key was unused for a whole further period, its tickets are past their
            // lifetime.
            let is_stale = now >= keys.rotate_at.saturating_add(ROTATION_SECONDS);
            let previous = (!is_stale).then(|| Arc::clone(&keys.current));
            let rotate_at = now.saturating_add(ROTATION_SECONDS);
            self.keys.store(Arc::new(Keys { current, previous, rotate_at }));
        }
        self.rotating.store(false, Ordering::Release);
    }
}

impl Keys {
    fn restored(saved: &[u8]) -> Option<Self> {
        let (rotate_at, saved) = saved.split_first_chunk::<8>()?;
        let (current, previous) = saved.split_at_checked(SAVED_LEN)?;
        let previous = match previous {
            [] => None,
            previous => Some(Key::restored(previous)?),
        };
        let rotate_at = u64::from_le_bytes(*rotate_at);
        Some(Self { current: Key::restored(current)?, previous, rotate_at })
    }
}

impl Key {
    fn random() -> Option<Arc<Self>> {
        let mut name = [0; NAME_LEN];
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        rand::fill(&mut name).ok()?;
        rand::fill(&mut *secret).ok()?;
        Self::new(name, secret)
    }

    fn new(name: [u8; NAME_LEN], secret: Zeroizing<[u8; SECRET_LEN]>) -> Option<Arc<Self>> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, &*secret).ok()?;
        Some(Arc::new(Self { name, secret, cipher }))
    }

    fn save(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name);
        out.extend_from_slice(&*self.secret);
    }

    fn restored(saved: &[u8]) -> Option<Arc<Self>> {
        let (name, secret) = saved.split_first_chunk::<NAME_LEN>()?;
        let mut own = Zeroizing::new([0; SECRET_LEN]);
        own.copy_from_slice(secret.get(..SECRET_LEN).filter(|own| own.len() == secret.len())?);
        Self::new(*name, own)
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        ROTATION_SECONDS as u32
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(now(), plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.open(now(), cipher)
    }
}

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tickets").finish_non_exhaustive()
    }
}

fn now() -> u64 {
    UnixTime::now().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unchanged_ticket_of_an_own_key_is_opened() {
        let tickets = Tickets::starting_at(0).unwrap();
        let ticket = tickets.seal(0, b"a session").unwrap();
        assert_eq!(tickets.open(0, &ticket).unwrap(), b"a session");
        for at in 0..ticket.len() {
            let mut damaged = ticket.clone();
            damaged[at] ^= 1;
            assert_eq!(tickets.open(0, &damaged), None, "byte {at}");
            assert_eq!(tickets.open(0, &ticket[..at]), None, "cut at {at}");
        }
        let other = Tickets::starting_at(0).unwrap();
        assert_eq!(other.open(0, &ticket), None);
    }

    #[test]
    fn another_process_continues_with_the_saved_keys() {
        let old = Tickets::starting_at(0).unwrap();
        let first = old.seal(0, b"first").unwrap();
        let second = old.seal(ROTATION_SECONDS, b"second").unwrap();
        let saved = old.save();
        let new = Tickets::starting_at(0).unwrap();
        let own = new.seal(0, b"own").unwrap();
        for length in (0..saved.len()).filter(|length| *length != 8 + SAVED_LEN) {
            new.restore(&saved[..length]);
            assert_eq!(new.open(0, &own).unwrap(), b"own", "cut at {length}");
        }
        new.restore(&saved);
        let now = ROTATION_SECONDS + 1;
        assert_eq!(new.open(now, &first).unwrap(), b"first");
        assert_eq!(new.open(now, &second).unwrap(), b"second");
        assert_eq!(old.open(now, &new.seal(now, b"third").unwrap()).unwrap(), b"third");
        assert_eq!(new.open(2 * ROTATION_SECONDS, &first), None, "it rotates as it would have");
    }

    #[test]
    fn two_tickets_of_one_session_differ() {
        let tickets = Tickets::starting_at(0).unwrap();
        assert_ne!(tickets.seal(0, b"same").unwrap(), tickets.seal(0, b"same").unwrap());
    }

    #[test]
    fn a_ticket_survives_one_rotation_and_not_two() {
        let tickets = Tickets::starting_at(0).unwrap();
        let last_second = ROTATION_SECONDS - 1;
        let ticket = tickets.seal(last_second, b"x").unwrap();
        let name = ticket[..NAME_LEN].to_vec();
        assert_ne!(tickets.seal(ROTATION_SECONDS, b"x").unwrap()[..NAME_LEN], name);
        assert_eq!(tickets.open(2 * ROTATION_SECONDS - 1, &ticket).unwrap(), b"x");
        assert_eq!(tickets.open(2 * ROTATION_SECONDS, &ticket), None);
    }

    #[test]
    fn an_idle_key_is_erased_with_its_lifetime() {
        let tickets = Tickets::starting_at(0).unwrap();
        let ticket = tickets.seal(0, b"x").unwrap();
        assert_eq!(tickets.open(2 * ROTATION_SECONDS, &ticket), None);
    }

    #[test]
    fn threads_that_find_the_key_too_old_agree_on_one_successor() {
        let tickets = Tickets::starting_at(0).unwrap();
        let made: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| tickets.seal(ROTATION_SECONDS, b"x").unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for ticket in made {
            assert_eq!(tickets.open(ROTATION_SECONDS, &ticket).unwrap(), b"x");
        }
    }
}
