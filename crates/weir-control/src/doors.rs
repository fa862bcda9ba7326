//! The listening sockets of a running server, by address. A reload opens new ones before anything is swapped and closes others after
//! it; what stays is never closed, so that nobody who connects notices.

use weir_config::Config;
use weir_config::model::ListenAddress;
use weir_proxy::bind::{BoundSocket, bind, set_mode};
use weir_proxy::shared::{BoundAddress, Snapshot};
use weir_proxy::start::{DataPlane, Door};

use crate::server::{Listening, Purpose};

/// Every socket that is accepted from.
#[derive(Default)]
pub(crate) struct Doors(Vec<Open>);

struct Open {
    /// As configured.
    asked: ListenAddress,
    listening: Listening,
    door: Door,
}

/// Sockets that were opened for a configuration and that nobody accepts from yet.
pub(crate) struct Prepared(Vec<(ListenAddress, BoundSocket)>);

impl Doors {
    /// Opens what a configuration listens on and is not open yet.
    ///
    /// # Errors
    /// One sentence naming the address; nothing stays open then.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Prepared, String> {
        let mut open: Vec<&ListenAddress> = self.0.iter().map(|open| &open.asked).collect();
        let mut prepared = Vec::new();
        for address in config.listeners.iter().flat_map(|listener| &listener.addresses) {
            match open.iter().position(|other| is_same(other, address)) {
                Some(at) => drop(open.swap_remove(at)),
                None => prepared.push((address.clone(), bind(address)?)),
            }
        }
        Ok(Prepared(prepared))
    }

    /// Accepts from what was prepared, and leads all sockets to their listeners; those that are not configured any more are closed.
    ///
    /// # Returns
    /// What is different for clients, a line each.
    pub(crate) async fn follow(
        &mut self,
        Prepared(mut prepared): Prepared,
        config: &Config,
        (plane, snapshot): (&DataPlane, &Snapshot),
    ) -> Vec<String> {
        let mut before = std::mem::take(&mut self.0);
        let mut lines = Vec::new();
        for (model, listener) in config.listeners.iter().zip(&snapshot.listeners) {
            let tls = model.tls.is_some();
            for address in &model.addresses {
                let kept = before.iter().position(|open| is_same(&open.asked, address));
                if let Some(mut open) = kept.map(|at| before.swap_remove(at)) {
                    open.door.lead_to(&listener.gate);
                    lines.extend(change_mode(&open.asked, address));
                    (open.asked, open.listening.tls) = (address.clone(), tls);
                    self.0.push(open);
                    continue;
                }
                let new = prepared.iter().position(|(other, _)| is_same(other, address));
                let Some((asked, socket)) = new.map(|at| prepared.swap_remove(at)) else {
                    continue;
                };
                let at = socket.address.clone();
                let listening = Listening { purpose: Purpose::Traffic, address: at, tls };
                let door = plane.open(socket, &listener.name, &listener.gate);
                lines.push(format!("listening on {listening}"));
                self.0.push(Open { asked, listening, door });
            }
        }
        for Open { listening, door, .. } in before {
            lines.push(format!("not listening on {listening} any more"));
            door.close().await;
            if let BoundAddress::Unix(path) = &listening.address {
                // Nobody is there any more; a new socket would remove it all the same.
                let _ = std::fs::remove_file(path);
            }
        }
        lines
    }

    /// What is listened on, in the configuration's order.
    pub(crate) fn listening(&self) -> Vec<Listening> {
        self.0.iter().map(|open| open.listening.clone()).collect()
    }
}

/// Whether a socket on one serves the other.
fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one, other) {
        (ListenAddress::Socket(one), ListenAddress::Socket(other)) => one == other,
        (ListenAddress::Unix { path: one, .. }, ListenAddress::Unix { path: other, .. }) => {
            one == other
        }
        _ => false,
    }
}

/// Gives a Unix socket other permissions, if others are wanted; a line when that did not work.
fn change_mode(before: &ListenAddress, after: &ListenAddress) -> Option<String> {
    let ListenAddress::Unix { path, mode } = after else { return None };
    if before == after {
        return None;
    }
    let error = set_mode(path, *mode).err()?;
    Some(format!("cannot change the mode of unix:{}: {error}", path.display()))
}
