//! Inheritance: the directives that hold in a block. nginx's rule is that the innermost block that
//! has a directive of a name replaces those of all blocks around it.

use super::statements::{StatementId, Statements};
use super::upstream_protocol::UpstreamProtocol;

/// The blocks around a place, the outermost first.
#[derive(Clone)]
pub(crate) struct InheritanceScope<'s, 't> {
    statements: &'s Statements<'t>,
    blocks: Vec<StatementId>,
    /// The protocol of the servers of the place.
    protocol: UpstreamProtocol,
}

impl<'s, 't> InheritanceScope<'s, 't> {
    pub(crate) fn new(statements: &'s Statements<'t>, block: StatementId) -> Self {
        Self { statements, blocks: vec![block], protocol: UpstreamProtocol::Http }
    }

    /// Returns the scope of a block inside this one.
    pub(crate) fn inner(&self, block: StatementId) -> Self {
        let mut inner = self.clone();
        inner.blocks.push(block);
        inner
    }

    /// Returns the same scope for servers of a protocol: settings of `proxy_pass` are those that
    /// the protocol has under its own names.
    pub(crate) fn with_protocol(&self, protocol: UpstreamProtocol) -> Self {
        Self { protocol, ..self.clone() }
    }

    pub(crate) fn protocol(&self) -> UpstreamProtocol {
        self.protocol
    }

    /// Returns the name that a setting of `proxy_pass` has here.
    pub(crate) fn directive(&self, name: &'static str) -> &'static str {
        self.protocol.name(name).unwrap_or(name)
    }

    /// Returns the innermost block.
    pub(crate) fn innermost(&self) -> Option<StatementId> {
        self.blocks.last().copied()
    }

    /// Returns the server around the place, or the place itself.
    pub(crate) fn server(&self) -> Option<StatementId> {
        let is_server = |block: &&StatementId| self.statements.name(**block) == "server";
        self.blocks.iter().rev().find(is_server).copied()
    }

    /// Returns the innermost location around the place.
    pub(crate) fn location(&self) -> Option<StatementId> {
        let is_location = |block: &&StatementId| self.statements.name(**block) == "location";
        self.blocks.iter().rev().find(is_location).copied()
    }

    /// Returns the directives of that name that hold here.
    pub(crate) fn all(&self, name: &'t str) -> &'s [StatementId] {
        let Some(name) = self.protocol.name(name) else { return &[] };
        // Most directives stand nowhere in a file, which is found out once instead of for each
        // block.
        if !self.statements.has(name) {
            return &[];
        }
        let found = self.blocks.iter().rev().map(|block| self.statements.named(Some(*block), name));
        found.into_iter().find(|list| !list.is_empty()).unwrap_or_default()
    }

    /// Returns the directives of that name that hold here, where another directive says `off` if
    /// the blocks around do not count, or `merge` if they do.
    pub(crate) fn merged(&self, name: &'t str, how: &'t str) -> Vec<StatementId> {
        let (mut held, mut mode) = (Vec::new(), "on");
        for block in &self.blocks {
            if let Some(id) = self.statements.named(Some(*block), how).first() {
                mode = self.statements.word(*id, 0);
            }
            let own = self.statements.named(Some(*block), name);
            held = match mode {
                "merge" => [own, held.as_slice()].concat(),
                "off" => own.to_vec(),
                _ if own.is_empty() => held,
                _ => own.to_vec(),
            };
        }
        held
    }

    /// Returns the directives of two names that hold here and that nginx inherits as one list.
    pub(crate) fn both(&self, names: [&'static str; 2]) -> [&'s [StatementId]; 2] {
        if !names.iter().any(|name| self.statements.has(name)) {
            return Default::default();
        }
        let of = |block: &StatementId| names.map(|name| self.statements.named(Some(*block), name));
        let mut found = self.blocks.iter().rev().map(of);
        found.find(|lists| lists.iter().any(|list| !list.is_empty())).unwrap_or_default()
    }

    /// Returns the first directive of these names in the innermost block that has one, for
    /// directives of which one replaces the other.
    pub(crate) fn nearest(&self, names: [&'static str; 2]) -> Option<StatementId> {
        if !names.iter().any(|name| self.statements.has(name)) {
            return None;
        }
        let of = |block: &StatementId| {
            let found = names.map(|name| self.statements.named(Some(*block), name).first());
            found.into_iter().flatten().min().copied()
        };
        self.blocks.iter().rev().find_map(of)
    }

    /// Returns the directives of that name in the innermost block itself.
    pub(crate) fn own(&self, name: &'static str) -> &'s [StatementId] {
        let Some(name) = self.protocol.name(name) else { return &[] };
        self.blocks.last().map_or(&[], |block| self.statements.named(Some(*block), name))
    }

    /// Returns the directives of the innermost block that lead to servers, in their order.
    pub(crate) fn passes(&self) -> Vec<StatementId> {
        let Some(block) = self.innermost() else { return Vec::new() };
        self.statements.passes(block)
    }
}
