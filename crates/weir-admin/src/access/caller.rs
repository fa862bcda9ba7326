//! The other end of an admin connection, and its rights: by its user at a Unix socket, by a token
//! or a client certificate over TCP. It reads no credentials from files.

use std::sync::Arc;

use weir_control::admin_port::{TokenDigest, is_owner};

use super::seats::CallerStanding;
pub(crate) use weir_control::admin_port::Right;

/// The other end of a connection, before a request shows credentials.
pub(crate) struct Visitor {
    /// The text for the audit log: `uid 0 (pid 77) over unix:/run/weir/admin.sock`.
    pub(crate) who: String,
    /// The user at the other end of a Unix socket.
    pub(crate) uid: Option<u32>,
    /// The right without a token; `None` if there is none.
    pub(crate) right: Option<Right>,
    /// The standing that the connection itself gives: by its user or a certificate.
    pub(crate) standing: CallerStanding,
    /// The tokens, with the right that each gives.
    pub(crate) tokens: Arc<[(Right, TokenDigest)]>,
    /// The host names that the address answers to.
    pub(crate) names: Arc<[String]>,
}

/// The author of a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// As [`Visitor::who`], with the kind of credentials.
    pub(crate) who: String,
    pub(crate) uid: Option<u32>,
    pub(crate) right: Right,
    pub(crate) standing: CallerStanding,
}

impl Visitor {
    /// The caller of a request with this `Authorization` header; `None` if it has no rights here.
    pub(crate) fn caller(&self, authorization: Option<&[u8]>) -> Option<Caller> {
        let brought = self.tokens.iter().filter(|(_, token)| token.is_in(authorization));
        if let Some(right) = brought.map(|(right, _)| *right).max() {
            let right = self.right.map_or(right, |own| own.max(right));
            let who = format!("the token from {}", self.who);
            // The user is not the author: a route may lead here, and then it is Weir's own.
            return Some(Caller { who, uid: None, right, standing: CallerStanding::Known });
        }
        if authorization.is_some() && !self.tokens.is_empty() {
            // A request with a wrong token is refused, even if one without a token is not.
            return None;
        }
        let standing = match self.standing {
            CallerStanding::Unproven => CallerStanding::Anonymous,
            shown => shown,
        };
        Some(Caller { who: self.who.clone(), uid: self.uid, right: self.right?, standing })
    }

    /// Returns true if a token could give more rights.
    pub(crate) fn may_bring_token(&self) -> bool {
        !self.tokens.is_empty()
    }
}

impl Caller {
    /// Returns true if the caller is root or the user of this process, and could start programs as
    /// that user anyway.
    pub(crate) fn is_owner(&self) -> bool {
        is_owner(self.uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(right: Option<Right>, tokens: Vec<(Right, TokenDigest)>) -> Visitor {
        Visitor {
            who: "127.0.0.1:1".to_owned(),
            uid: None,
            right,
            standing: CallerStanding::Unproven,
            tokens: tokens.into(),
            names: Arc::new([]),
        }
    }

    #[test]
    fn the_token_says_what_may_be_done() {
        let tokens = || {
            vec![
                (Right::Read, TokenDigest::of("a-token-to-look")),
                (Right::Admin, TokenDigest::of("a-token-for-all")),
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
        // Requests with a token may come from anywhere through a route, from Weir's user.
        let local = Visitor { uid: Some(0), ..visitor(None, tokens()) };
        assert!(!local.caller(Some(b"Bearer a-token-for-all")).unwrap().is_owner());
        let owner = Visitor { uid: Some(0), ..visitor(Some(Right::Admin), tokens()) };
        assert!(owner.caller(None).unwrap().is_owner());
        // Without configured tokens the header is ignored: it may be meant for a proxy in front.
        let open = visitor(Some(Right::Read), Vec::new());
        assert_eq!(open.caller(Some(b"Bearer x")).unwrap().right, Right::Read);
    }
}
