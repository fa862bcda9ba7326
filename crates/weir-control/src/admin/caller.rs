//! The other end of an admin connection, and what it may do: by its user at a Unix socket, by a token or a client certificate over TCP.

use std::sync::Arc;

use weir_config::model::Role;

use super::seats::Standing;
use super::token::Token;

/// What a request needs, and what somebody may do; each holds those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Right {
    /// Look.
    Read,
    /// Change orders, weights and limits, and give such changes up.
    Operate,
    /// Everything else: add and remove servers, reload, upgrade, stop.
    Admin,
}

impl Right {
    /// Its word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl From<Role> for Right {
    fn from(role: Role) -> Self {
        match role {
            Role::Read => Self::Read,
            Role::Operate => Self::Operate,
            Role::Admin => Self::Admin,
        }
    }
}

/// The other end of a connection, before a request shows more of it.
pub(crate) struct Visitor {
    /// For the audit log: `uid 0 (pid 77) over unix:/run/weir/admin.sock`.
    pub(crate) who: String,
    /// The user at the other end of a Unix socket.
    pub(crate) uid: Option<u32>,
    /// What it may do without a token; `None`: nothing.
    pub(crate) right: Option<Right>,
    /// What the connection itself has shown: its user, or a certificate.
    pub(crate) standing: Standing,
    /// The tokens that give more, and what they give.
    pub(crate) tokens: Arc<[(Right, Token)]>,
    /// Host names that the address answers to.
    pub(crate) names: Arc<[String]>,
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// As [`Visitor::who`], with what was shown.
    pub(crate) who: String,
    pub(crate) uid: Option<u32>,
    pub(crate) right: Right,
    pub(crate) standing: Standing,
}

impl Visitor {
    /// Who makes a request with this `Authorization` header; `None`: somebody who may do nothing here.
    pub(crate) fn caller(&self, authorization: Option<&[u8]>) -> Option<Caller> {
        let uid = self.uid;
        let brought = self.tokens.iter().filter(|(_, token)| token.is_in(authorization));
        if let Some(right) = brought.map(|(right, _)| *right).max() {
            let right = self.right.map_or(right, |own| own.max(right));
            let who = format!("the token from {}", self.who);
            return Some(Caller { who, uid, right, standing: Standing::Known });
        }
        if authorization.is_some() && !self.tokens.is_empty() {
            // A wrong token is not taken for none.
            return None;
        }
        let standing = match self.standing {
            Standing::Unproven => Standing::Anonymous,
            shown => shown,
        };
        Some(Caller { who: self.who.clone(), uid, right: self.right?, standing })
    }

    /// Whether a token would help.
    pub(crate) fn may_bring_token(&self) -> bool {
        !self.tokens.is_empty()
    }
}

impl Caller {
    /// Whether he might as well start programs as the user whom this process runs as.
    pub(crate) fn is_owner(&self) -> bool {
        is_owner(self.uid)
    }
}

/// Whether a user might as well be the one whom this process runs as.
pub(crate) fn is_owner(uid: Option<u32>) -> bool {
    let own = rustix::process::geteuid().as_raw();
    uid.is_some_and(|uid| uid == 0 || uid == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(right: Option<Right>, tokens: Vec<(Right, Token)>) -> Visitor {
        Visitor {
            who: "127.0.0.1:1".to_owned(),
            uid: None,
            right,
            standing: Standing::Unproven,
            tokens: tokens.into(),
            names: Arc::new([]),
        }
    }

    #[test]
    fn the_token_says_what_may_be_done() {
        let tokens = || {
            vec![
                (Right::Read, Token::of("a-token-to-look")),
                (Right::Admin, Token::of("a-token-for-all")),
            ]
        };
        let check = |open: Option<Right>, header: Option<&str>, expected: Option<Right>| {
            let visitor = visitor(open, tokens());
            let caller = visitor.caller(header.map(str::as_bytes));
            assert_eq!(caller.map(|caller| caller.right), expected, "{open:?} {header:?}");
        };
        check(None, None, None);
        check(None, Some("Bearer a-token-to-look"), Some(Right::Read));
        check(None, Some("Bearer a-token-for-all"), Some(Right::Admin));
        check(None, Some("Bearer another"), None);
        check(Some(Right::Read), None, Some(Right::Read));
        check(Some(Right::Read), Some("Bearer a-token-for-all"), Some(Right::Admin));
        check(Some(Right::Operate), Some("Bearer a-token-to-look"), Some(Right::Operate));
        check(Some(Right::Read), Some("Bearer another"), None);
        // Where there is no token, the header is for somebody else: a proxy in front may have wanted it.
        let open = visitor(Some(Right::Read), Vec::new());
        assert_eq!(open.caller(Some(b"Bearer x")).unwrap().right, Right::Read);
    }
}
