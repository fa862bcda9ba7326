//! `track BACKEND/SERVER`: the server is probed for itself, at the address and with the check of
//! the server that it tracks.

use super::convert::{HaproxyConverter, TOO_LARGE};
use super::sections::{LineId, SectionId};
use super::servers::ServerOptions;
use super::values;

/// The difference to HAProxy.
const PROBED: &str = "the server is probed for itself, at the address and with the check of the one that it tracks; orders to that one are not followed";

impl HaproxyConverter<'_> {
    /// Gives servers that track others the checks of those. Returns the backend whose check it is.
    pub(super) fn tracked(
        &mut self,
        id: SectionId,
        all: &mut [(ServerOptions, LineId)],
    ) -> Option<SectionId> {
        let mut found: Option<SectionId> = None;
        for (options, line) in all.iter_mut() {
            let Some(text) = options.track.clone() else { continue };
            let line = *line;
            let done = self.tracked_server(id, &text).and_then(|(backend, tracked, address)| {
                if options.checked {
                    return Err("`check` and `track` exclude each other, as in HAProxy".to_owned());
                }
                if found.is_some_and(|before| before != backend) {
                    return Err("the servers of a backend track those of one other: write a backend for each".to_owned());
                }
                options.follow(&tracked, &address)?;
                found = Some(backend);
                Ok(())
            });
            match done {
                Ok(()) => self.outcomes.differs(line, PROBED),
                Err(reason) => self.outcomes.refuse(line, reason),
            }
        }
        let backend = found?;
        let own = |(options, _): &&mut (ServerOptions, LineId)| {
            options.checked && options.track.is_none()
        };
        if let Some((_, line)) = all.iter_mut().find(own).filter(|_| backend != id) {
            self.outcomes.refuse(*line, "Weir has one check for all servers of a backend: let all of them track others, or none");
        }
        Some(backend)
    }

    /// Returns the backend of a tracked server, its options and its address.
    fn tracked_server(
        &mut self,
        id: SectionId,
        text: &str,
    ) -> Result<(SectionId, ServerOptions, String), String> {
        let (backend, name) = match text.split_once('/') {
            Some((backend, name)) => {
                let found = self.backends.get(backend).copied();
                (found.ok_or_else(|| format!("there is no backend `{backend}`"))?, name)
            }
            None => (id, text),
        };
        let lines = self.sections.count_of(backend, &["default-server", "server"]);
        if !self.room_for_reading(lines + 1) {
            return Err(TOO_LARGE.to_owned());
        }
        let line = self.sections.own(backend, "server").iter().copied();
        let line = line.into_iter().find(|line| self.sections.word(*line, 0) == name);
        let line = line.ok_or_else(|| format!("there is no server `{text}`"))?;
        let address = values::server_address(self.sections.word(line, 1), None)?;
        let options = self.server_options(backend, line);
        Ok((backend, options, address.text))
    }
}
