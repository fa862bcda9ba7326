//! standin
use std::net::IpAddr; use ipnet::IpNet; use weir_config::model::AccessRule; use crate::route::RequestView;
pub fn client_address(peer: Option<IpAddr>, _trusted: &[IpNet], _view: &RequestView<'_>) -> Option<IpAddr> { peer }
pub fn allowed(_rules: &[AccessRule], _client: Option<IpAddr>) -> bool { true }
