//! Room for the connections of one admin address, by their standing. A new connection is never
//! refused because of unproven ones: the oldest of these is closed instead. Connections with a
//! token, a certificate or, at a Unix socket, a known user have room of their own. It does not
//! check credentials.
//!
//! ```text
//! accepted ─▶ unproven ──request or command line──▶ anonymous (no credentials asked for)
//!                │  └───────token, certificate────▶ known
//!                └─ oldest of too many, or late: closed
//! ```

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// The largest number of connections that have not made a request yet.
const UNPROVEN: usize = 32;
/// The largest number of connections that have made a request without credentials.
const ANONYMOUS: usize = 64;
/// The largest number of connections with credentials.
const KNOWN: usize = 64;

/// The longest time for the first request's head or the first command line, including the TLS
/// handshake.
pub(crate) const PROOF_PATIENCE: Duration = Duration::from_secs(10);

/// The credentials of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallerStanding {
    /// No request yet.
    Unproven,
    /// A request, at an address that asks for no credentials.
    Anonymous,
    /// Valid credentials.
    Known,
}

impl CallerStanding {
    fn most(self) -> usize {
        match self {
            Self::Unproven => UNPROVEN,
            Self::Anonymous => ANONYMOUS,
            Self::Known => KNOWN,
        }
    }
}

/// The numbers of connections that were closed or refused, over all addresses.
#[derive(Debug, Default)]
pub(crate) struct SeatCounts {
    /// Closed to make room for others.
    pub(crate) closed: AtomicU64,
    /// Closed because they made no request in time.
    pub(crate) late: AtomicU64,
    /// Refused because there was no room.
    pub(crate) refused: AtomicU64,
}

/// The connections of one address.
pub(crate) struct Seats {
    taken: RefCell<Vec<TakenSeat>>,
    counts: Arc<SeatCounts>,
}

struct TakenSeat {
    number: u64,
    standing: CallerStanding,
    /// Set while a request is being answered.
    is_busy: bool,
    end: Rc<Notify>,
}

/// The error if there is no room: every connection of this standing has a request in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Seats {
    pub(crate) fn new(counts: Arc<SeatCounts>) -> Rc<Self> {
        Rc::new(Self { taken: RefCell::default(), counts })
    }

    /// Takes a seat for a new connection; if there is no room, the oldest unproven connection is
    /// closed.
    pub(crate) fn enter(self: &Rc<Self>) -> AdminSeat {
        let _ = self.make_room(CallerStanding::Unproven, None);
        let mut taken = self.taken.borrow_mut();
        let number = taken.last().map_or(0, |last| last.number + 1);
        let end = Rc::new(Notify::new());
        let (standing, is_busy) = (CallerStanding::Unproven, false);
        taken.push(TakenSeat { number, standing, is_busy, end: end.clone() });
        AdminSeat { seats: Rc::clone(self), number, end }
    }

    /// Makes room for one connection of this standing; `own` is the seat it may have already.
    fn make_room(&self, standing: CallerStanding, own: Option<u64>) -> Result<(), Full> {
        let mut taken = self.taken.borrow_mut();
        let others = |one: &&TakenSeat| one.standing == standing && Some(one.number) != own;
        if taken.iter().filter(others).count() < standing.most() {
            return Ok(());
        }
        // Seats are in the order of arrival.
        let idle = taken.iter().position(|one| others(&one) && !one.is_busy);
        let Some(index) = idle else {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(Full);
        };
        taken.remove(index).end.notify_one();
        self.counts.closed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// The seat of a connection. Dropping it makes room.
pub(crate) struct AdminSeat {
    seats: Rc<Seats>,
    number: u64,
    end: Rc<Notify>,
}

impl AdminSeat {
    /// Records the connection's standing, which never decreases.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn show(&self, standing: CallerStanding) -> Result<(), Full> {
        if self.standing().is_none_or(|own| own == standing || own == CallerStanding::Known) {
            return Ok(());
        }
        self.seats.make_room(standing, Some(self.number))?;
        self.with(|own| own.standing = standing);
        Ok(())
    }

    /// Records that a request is being answered, or no longer.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.with(|own| own.is_busy = is_busy);
    }

    /// Completes when the connection has to give way, or has made no request in time.
    pub(crate) async fn lost(&self) {
        let late = async {
            tokio::time::sleep(PROOF_PATIENCE).await;
            if self.standing() != Some(CallerStanding::Unproven) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = self.end.notified() => {}
            () = late => { self.seats.counts.late.fetch_add(1, Ordering::Relaxed); }
        }
    }

    /// The standing; `None` if the seat was given to another connection.
    fn standing(&self) -> Option<CallerStanding> {
        let taken = self.seats.taken.borrow();
        taken.iter().find(|one| one.number == self.number).map(|own| own.standing)
    }

    fn with(&self, change: impl FnOnce(&mut TakenSeat)) {
        let mut taken = self.seats.taken.borrow_mut();
        if let Some(own) = taken.iter_mut().find(|one| one.number == self.number) {
            change(own);
        }
    }
}

impl Drop for AdminSeat {
    fn drop(&mut self) {
        self.seats.taken.borrow_mut().retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_lost(seat: &AdminSeat) -> bool {
        tokio::select! {
            biased;
            () = seat.lost() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_that_has_shown_nothing_gives_way() {
        let seats = Seats::new(Arc::default());
        let known = seats.enter();
        known.show(CallerStanding::Known).unwrap();
        let unproven: Vec<AdminSeat> = (0..UNPROVEN).map(|_| seats.enter()).collect();
        assert!(!is_lost(&unproven[0]).await);
        let newcomer = seats.enter();
        assert!(is_lost(&unproven[0]).await);
        assert!(
            !is_lost(&unproven[1]).await && !is_lost(&known).await && !is_lost(&newcomer).await
        );
        assert_eq!(seats.counts.closed.load(Ordering::Relaxed), 1);
        drop(unproven);
        assert_eq!(seats.taken.borrow().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_known_caller_is_not_closed_for_unknown_ones() {
        let seats = Seats::new(Arc::default());
        let known = seats.enter();
        known.show(CallerStanding::Known).unwrap();
        let anonymous: Vec<AdminSeat> = (0..3 * ANONYMOUS)
            .map(|_| {
                let seat = seats.enter();
                seat.show(CallerStanding::Anonymous).unwrap();
                seat
            })
            .collect();
        assert!(!is_lost(&known).await);
        assert!(is_lost(&anonymous[0]).await && !is_lost(&anonymous[3 * ANONYMOUS - 1]).await);
        assert_eq!(seats.taken.borrow().len(), 1 + ANONYMOUS);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_answered_is_not_closed() {
        let seats = Seats::new(Arc::default());
        let busy: Vec<AdminSeat> = (0..KNOWN)
            .map(|_| {
                let seat = seats.enter();
                seat.show(CallerStanding::Known).unwrap();
                seat.set_busy(true);
                seat
            })
            .collect();
        let newcomer = seats.enter();
        assert_eq!(newcomer.show(CallerStanding::Known), Err(Full));
        assert_eq!(seats.counts.refused.load(Ordering::Relaxed), 1);
        busy[7].set_busy(false);
        newcomer.show(CallerStanding::Known).unwrap();
        assert!(is_lost(&busy[7]).await);
        // A standing is kept for the rest of the connection.
        newcomer.show(CallerStanding::Anonymous).unwrap();
        assert_eq!(newcomer.standing(), Some(CallerStanding::Known));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_shows_nothing_in_time_is_closed() {
        let seats = Seats::new(Arc::default());
        let (silent, asked) = (seats.enter(), seats.enter());
        asked.show(CallerStanding::Anonymous).unwrap();
        let began = tokio::time::Instant::now();
        silent.lost().await;
        assert_eq!(began.elapsed(), PROOF_PATIENCE);
        let long = tokio::time::timeout(10 * PROOF_PATIENCE, asked.lost()).await;
        assert!(long.is_err(), "one that has made a request is closed by other clocks");
        assert_eq!(seats.counts.late.load(Ordering::Relaxed), 1);
    }
}
