//! The names that TLS asks servers for: `sni`, `verifyhost`, `check-sni` and `sni-auto`. One that
//! requests decide is the `tls name=` of the pool, others are the `host=` of their servers.

/// The names of one server, as its line says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AskedNames {
    /// The name of `sni str(…)`.
    pub(super) fixed: Option<String>,
    /// The expression of the name that a request decides.
    pub(super) by_request: Option<String>,
    /// The name that the certificate must have.
    pub(super) verified: Option<String>,
    /// The name that checks ask for.
    check: Option<String>,
    /// `sni-auto` or `no-sni-auto`; `None` for the default of the version.
    pub(super) automatic: Option<bool>,
}

impl AskedNames {
    /// Takes an option with a value; returns false if it is none of these.
    pub(super) fn take(&mut self, word: &str, value: &str) -> bool {
        match word {
            "verifyhost" => self.verified = Some(value.to_owned()),
            "check-sni" => self.check = Some(value.to_owned()),
            "sni" => {
                let name = value.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')'));
                let name = name.filter(|rest| !rest.contains(')'));
                self.by_request = name.is_none().then(|| value.to_owned());
                self.fixed = name.map(|name| name.trim_matches('"').to_owned());
            }
            _ => return false,
        }
        true
    }

    /// Takes an option without a value; returns false if it is none of these.
    pub(super) fn take_lone(&mut self, word: &str) -> bool {
        match word {
            "sni-auto" => self.automatic = Some(true),
            "no-sni-auto" => self.automatic = Some(false),
            "no-verifyhost" => self.verified = None,
            _ => return false,
        }
        true
    }

    /// Returns true if requests decide the names of both servers in the same way.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        self.by_request == other.by_request
    }

    /// Returns the name of the server where no request decides it.
    ///
    /// # Errors
    /// The reason for names that have no conversion.
    pub(super) fn own(&self) -> Result<Option<&String>, String> {
        match (&self.fixed, &self.verified) {
            (Some(asked), Some(verified)) if asked != verified => Err(format!(
                "Weir verifies the name that it asks for: write `sni str({verified})`, or leave `verifyhost` out"
            )),
            (_, Some(_)) if self.by_request.is_some() => Err(
                "`verifyhost` beside a name of the request: Weir verifies the name that it asks for"
                    .to_owned(),
            ),
            (None, None) if self.by_request.is_some() => Ok(self.check.as_ref()),
            (asked, verified) => Ok(asked.as_ref().or(verified.as_ref())),
        }
    }

    /// Returns the name that checks ask for where they alone use TLS.
    pub(super) fn of_checks(&self) -> Option<&String> {
        self.check.as_ref().or(self.fixed.as_ref()).or(self.verified.as_ref())
    }
}
