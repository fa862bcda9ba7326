//! `show servers state` and `show servers conn`. Server state is not read back from these formats.

use std::fmt::Write;

use weir_config::Config;
use weir_config::model::names::is_place_of;
use weir_config::model::{AdminState, EndpointAddress, EndpointCheck};

use super::stat::{FIRST_PROXY, age, check_health, check_number};
use crate::status::{EndpointStatus, OperationalState, PoolStatus, Status};

/// The header of `show servers state`.
const STATE_HEADER: &str = "# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight srv_iweight \
    srv_time_since_last_change srv_check_status srv_check_result srv_check_health srv_check_state srv_agent_state \
    bk_f_forced_id srv_f_forced_id srv_fqdn srv_port srvrecord srv_use_ssl srv_check_port srv_check_addr srv_agent_addr \
    srv_agent_port";

/// Pools with their numbers: all, or the named one; `None` if there is no pool of that name.
fn pools<'status>(
    status: &'status Status,
    name: Option<&str>,
) -> Option<Vec<(u64, &'status PoolStatus)>> {
    let first = FIRST_PROXY + status.listeners.len() as u64;
    let mut pools: Vec<(u64, &PoolStatus)> = (first..).zip(&status.pools).collect();
    if let Some(name) = name {
        pools.retain(|(_, pool)| pool.name == name);
        if pools.is_empty() {
            return None;
        }
    }
    Some(pools)
}

/// `show servers state [POOL]`.
pub(super) fn servers_state(status: &Status, file: &Config, name: Option<&str>) -> Option<String> {
    let mut text = format!("1\n{STATE_HEADER}\n");
    for (number, pool) in pools(status, name)? {
        for (server, endpoint) in (1..).zip(&pool.endpoints) {
            let (address, port, host) = place(endpoint);
            let own = configured(file, pool, endpoint);
            // 0 stopped, 1 starting, 2 running, 3 stopping.
            let operating = match endpoint.state {
                OperationalState::Up | OperationalState::Stalled => 2,
                OperationalState::Draining => 3,
                OperationalState::Maintenance
                | OperationalState::Down
                | OperationalState::Ejected
                | OperationalState::Unresolved => 0,
            };
            // Bits: 1 forced maintenance, 4 maintenance by the configuration, 8 forced drain, 32 no
            // address.
            let in_file = own.as_ref().is_some_and(|own| own.order == AdminState::Maintenance);
            let ordered = match endpoint.order.as_str() {
                "maintenance" if in_file => 5,
                "maintenance" => 1,
                "draining" => 8,
                _ if endpoint.state == OperationalState::Unresolved => 32,
                _ => 0,
            };
            // The latest check and its result (2 failed, 3 passed); 6 means configured and running.
            let check = match (&endpoint.probe, endpoint.health.as_str()) {
                (Some(probe), _) => {
                    let (number, result) = (check_number(probe), if probe.passed { 3 } else { 2 });
                    format!("{number} {result} {} 6", check_health(endpoint))
                }
                (None, "unchecked") => "1 0 0 0".to_owned(),
                (None, _) => "1 0 0 6".to_owned(),
            };
            let Own { weight, tls, record, check_at, .. } = own.unwrap_or_default();
            let (check_port, check_address) = check_at;
            let _ = writeln!(
                text,
                "{number} {} {server} {} {address} {operating} {ordered} {} {} {} {check} 0 0 0 {host} {port} {record} {} \
                 {check_port} {check_address} - 0",
                pool.name,
                endpoint.name,
                // A drain by weight and one by order look the same here.
                endpoint.weight,
                weight.unwrap_or(endpoint.weight),
                age(status, endpoint),
                u8::from(tls),
            );
        }
    }
    Some(text)
}

/// A server's settings in the configuration file.
struct Own {
    weight: Option<u32>,
    order: AdminState,
    tls: bool,
    /// The name of its service's records.
    record: String,
    /// The port and address of its probe, if they are not its own.
    check_at: (u16, String),
}

impl Default for Own {
    fn default() -> Self {
        let (weight, order, tls) = (None, AdminState::Ready, false);
        Self { weight, order, tls, record: "-".to_owned(), check_at: (0, "-".to_owned()) }
    }
}

fn configured(file: &Config, pool: &PoolStatus, endpoint: &EndpointStatus) -> Option<Own> {
    let pool = file.pools.iter().find(|own| own.name == pool.name)?;
    let exact = pool.endpoints.iter().find(|own| own.name == endpoint.name);
    let of_name = || pool.endpoints.iter().find(|own| is_place_of(&endpoint.name, &own.name));
    let own = exact.or_else(of_name)?;
    let check_at = match &own.check {
        EndpointCheck::At(EndpointAddress::Socket(address)) => {
            (address.port(), address.ip().to_string())
        }
        EndpointCheck::At(EndpointAddress::Name(name, port)) => (*port, name.clone()),
        EndpointCheck::At(_) | EndpointCheck::Own | EndpointCheck::Off => (0, "-".to_owned()),
    };
    let record = match &own.address {
        EndpointAddress::Service(name) => name.clone(),
        EndpointAddress::Socket(_) | EndpointAddress::Name(..) | EndpointAddress::Unix(_) => {
            "-".to_owned()
        }
    };
    let tls = pool.tls.is_some();
    Some(Own { weight: Some(own.weight), order: own.order, tls, record, check_at })
}

/// `show servers conn [POOL]`.
pub(super) fn servers_conn(status: &Status, name: Option<&str>) -> Option<String> {
    let mut text = "# bkname/svname bkid/svid addr port - purge_delay used_cur used_max need_est unsafe_nb safe_nb idle_lim \
                    idle_cur idle_per_thr[1]\n"
        .to_owned();
    for (number, pool) in pools(status, name)? {
        for (server, endpoint) in (1..).zip(&pool.endpoints) {
            let (address, port, _) = place(endpoint);
            let idle = endpoint.idle_connections;
            let _ = writeln!(
                text,
                "{}/{} {number}/{server} {address} {port} - 0 {used} {} {used} 0 {idle} {} {idle} {idle}",
                pool.name,
                endpoint.name,
                endpoint.most_in_flight,
                endpoint.max_idle,
                used = endpoint.in_flight,
            );
        }
    }
    Some(text)
}

/// The address, port and name; `-` if there is none.
fn place(endpoint: &EndpointStatus) -> (String, String, String) {
    let address = endpoint.resolved.as_deref().unwrap_or(&endpoint.address);
    let named = endpoint.address.parse::<std::net::SocketAddr>().is_err();
    let host = if named && !endpoint.address.starts_with("unix:") {
        endpoint.address.rsplit_once(':').map_or("-", |(host, _)| host)
    } else {
        "-"
    };
    match address.parse::<std::net::SocketAddr>() {
        Ok(address) => (address.ip().to_string(), address.port().to_string(), host.to_owned()),
        Err(_) if address.starts_with("unix:") => {
            (address.to_owned(), "0".to_owned(), "-".to_owned())
        }
        Err(_) => {
            let port = address.rsplit_once(':').map_or("0", |(_, port)| port);
            ("-".to_owned(), port.to_owned(), host.to_owned())
        }
    }
}
