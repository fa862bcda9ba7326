//! One look-up: `/etc/hosts`, then DNS, with hickory-resolver. It caches no answers: the caller
//! decides how long an answer is used.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Query, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::system_conf::parse_resolv_conf;
use hickory_resolver::{Hosts, Resolver, TokioResolver};
use tokio::task::JoinSet;
use tokio::time::timeout;
use weir_config::model::names::{Found, Question, Service};
use weir_config::model::resolver::Resolver as Settings;

/// The time for which an answer of `/etc/hosts` is used.
const HOSTS_TTL: Duration = Duration::from_secs(5);

/// The number of tries at each server within the time of a look-up.
const TRIES: u32 = 3;

/// The largest number of targets of a service that are looked up; the rest are left out.
const MOST_TARGETS: usize = 64;

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// The places found, without duplicates.
    pub(crate) found: Vec<Found>,
    pub(crate) ttl: Duration,
}

/// A client of one set of DNS servers.
pub(crate) struct Dns {
    settings: Settings,
    hosts: PathBuf,
    resolv_conf: PathBuf,
    read: Mutex<Option<Read>>,
}

/// The contents of the system's files.
struct Read {
    stamps: [Option<SystemTime>; 2],
    hosts: Arc<Hosts>,
    resolver: Arc<TokioResolver>,
}

impl Dns {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self::with_files(settings, Path::new("/etc/hosts"), Path::new("/etc/resolv.conf"))
    }

    fn with_files(settings: &Settings, hosts: &Path, resolv_conf: &Path) -> Self {
        Self {
            settings: settings.clone(),
            hosts: hosts.to_owned(),
            resolv_conf: resolv_conf.to_owned(),
            read: Mutex::default(),
        }
    }

    /// Answers a question within the configured time.
    ///
    /// # Errors
    /// One clause for the operator.
    pub(crate) async fn ask(&self, question: &Question) -> Result<Resolution, String> {
        let answer = async {
            match question {
                Question::Host(name) => self.host(name).await,
                Question::Service(name) => self.service(name).await,
            }
        };
        match timeout(self.settings.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn host(&self, name: &str) -> Result<Resolution, String> {
        let (addresses, ttl) = self.addresses(name).await?;
        let found = addresses.into_iter().map(|ip| Found { ip, service: None }).collect();
        Ok(Resolution { found, ttl })
    }

    /// The IPv4 addresses of a name or, if there are none, its IPv6 addresses.
    async fn addresses(&self, name: &str) -> Result<(Vec<IpAddr>, Duration), String> {
        let mut refused = None;
        for (wanted, kind) in
            [(self.settings.ipv4, RecordType::A), (self.settings.ipv6, RecordType::AAAA)]
        {
            if !wanted {
                continue;
            }
            match self.records(name, kind).await {
                Ok((records, ttl)) => {
                    let addresses = usable(&records);
                    if !addresses.is_empty() {
                        return Ok((addresses, ttl));
                    }
                }
                // The name may still have addresses of the other family.
                Err(error) if error.is_no_records_found() => {
                    refused.get_or_insert(error);
                }
                Err(error) => return Err(words(&error)),
            }
        }
        Err(refused.map_or_else(|| "it has no address".to_owned(), |error| words(&error)))
    }

    /// The targets of a service (RFC 2782), each with its addresses. A target without addresses is
    /// left out as long as another has some.
    async fn service(&self, name: &str) -> Result<Resolution, String> {
        let (records, mut ttl) =
            self.records(name, RecordType::SRV).await.map_err(|error| words(&error))?;
        let mut lookups = JoinSet::new();
        for record in records.iter().take(MOST_TARGETS) {
            let Some(service) = service_of(record) else { continue };
            let dns = self.at_hand();
            lookups.spawn(async move {
                let addresses = dns.addresses(&format!("{}.", service.host)).await;
                (service, addresses)
            });
        }
        let mut found = Vec::new();
        let mut refused = None;
        while let Some(Ok((service, addresses))) = lookups.join_next().await {
            match addresses {
                Ok((addresses, own_ttl)) => {
                    ttl = ttl.min(own_ttl);
                    found.extend(
                        addresses
                            .into_iter()
                            .map(|ip| Found { ip, service: Some(service.clone()) }),
                    );
                }
                Err(error) => refused = Some(format!("its target {}: {error}", service.host)),
            }
        }
        found.sort_unstable();
        found.dedup();
        match refused {
            Some(error) if found.is_empty() => Err(error),
            None if found.is_empty() => Err("the service is not offered".to_owned()),
            // A missing target may return before the records' time to live ends.
            Some(_) => Ok(Resolution { found, ttl: self.settings.min_ttl }),
            None => Ok(Resolution { found, ttl }),
        }
    }

    /// A copy for another task.
    fn at_hand(&self) -> Self {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let read = read.as_ref().map(|read| Read {
            stamps: read.stamps,
            hosts: Arc::clone(&read.hosts),
            resolver: Arc::clone(&read.resolver),
        });
        Self {
            settings: self.settings.clone(),
            hosts: self.hosts.clone(),
            resolv_conf: self.resolv_conf.clone(),
            read: Mutex::new(read),
        }
    }

    async fn records(
        &self,
        name: &str,
        kind: RecordType,
    ) -> Result<(Vec<RData>, Duration), NetError> {
        let name = Name::from_ascii(name)?;
        let (hosts, resolver) = self.current()?;
        if self.settings.servers.is_empty()
            && let Some(lookup) = hosts.lookup_static_host(&Query::query(name.clone(), kind))
        {
            let records = lookup.answers().iter().map(|record| record.data.clone()).collect();
            return Ok((records, HOSTS_TTL));
        }
        let lookup = resolver.lookup(name, kind).await?;
        let ttl = lookup.answers().iter().map(|record| record.ttl).min().unwrap_or_default();
        let of_kind = lookup.answers().iter().filter(|record| record.record_type() == kind);
        let records = of_kind.map(|record| record.data.clone()).collect();
        Ok((records, Duration::from_secs(u64::from(ttl))))
    }

    /// The contents of the system's files, which are read again when they change.
    fn current(&self) -> Result<(Arc<Hosts>, Arc<TokioResolver>), NetError> {
        let stamp = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
        let stamps = if self.settings.servers.is_empty() {
            [stamp(&self.hosts), stamp(&self.resolv_conf)]
        } else {
            [None, None]
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = read.as_ref().filter(|read| read.stamps == stamps) {
            return Ok((Arc::clone(&read.hosts), Arc::clone(&read.resolver)));
        }
        let mut hosts = Hosts::default();
        if let Ok(file) = File::open(&self.hosts) {
            // The lines read before an error are used.
            let _ = hosts.read_hosts_conf(file);
        }
        let (hosts, resolver) = (Arc::new(hosts), Arc::new(self.resolver()?));
        *read = Some(Read { stamps, hosts: Arc::clone(&hosts), resolver: Arc::clone(&resolver) });
        Ok((hosts, resolver))
    }

    fn resolver(&self) -> Result<TokioResolver, NetError> {
        let (config, mut options) = if self.settings.servers.is_empty() {
            fs::read(&self.resolv_conf)
                .map_err(NetError::from)
                .and_then(parse_resolv_conf)
                .unwrap_or_else(
                    // The default of the C library if the file names no server.
                    |_| {
                        (
                            servers(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 53))]),
                            ResolverOpts::default(),
                        )
                    },
                )
        } else {
            (servers(&self.settings.servers), ResolverOpts::default())
        };
        options.timeout = options.timeout.min(self.settings.timeout / TRIES);
        options.attempts = TRIES as usize - 1;
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        let mut builder = Resolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        builder.build()
    }
}

fn servers(addresses: &[SocketAddr]) -> ResolverConfig {
    let server = |address: &SocketAddr| {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
        let connections = connections.map(|mut connection| {
            connection.port = address.port();
            connection
        });
        NameServerConfig::new(address.ip(), true, connections.into())
    };
    ResolverConfig::from_parts(None, Vec::new(), addresses.iter().map(server).collect())
}

/// The addresses in these records that a server can have, without duplicates.
pub(crate) fn usable(records: &[RData]) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> =
        records.iter().filter_map(RData::ip_addr).filter(is_usable).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The target that an SRV record names; `None` if the record says that the service is not offered
/// (the root, or port 0).
pub(crate) fn service_of(record: &RData) -> Option<Service> {
    let RData::SRV(target) = record else { return None };
    let host = target.target.to_ascii();
    let host = host.trim_end_matches('.').to_owned();
    if host.is_empty() || target.port == 0 {
        return None;
    }
    let (port, priority, weight) = (target.port, target.priority, target.weight);
    Some(Service { host, port, priority, weight })
}

/// Returns true if the address can be a server's. DNS filters that block a name answer with an
/// unspecified address.
fn is_usable(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !broadcast
}

/// The error as a clause for the operator.
fn words(error: &NetError) -> String {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => "there is no such name (NXDOMAIN)".to_owned(),
            ResponseCode::NoError => "it has no address".to_owned(),
            code => format!("the DNS server answered {}", code_words(code)),
        },
        NetError::Dns(DnsError::ResponseCode(code)) => {
            format!("the DNS server answered {}", code_words(*code))
        }
        NetError::Timeout => "no answer in time".to_owned(),
        NetError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            "no DNS server is there".to_owned()
        }
        other => other.to_string(),
    }
}

fn code_words(code: ResponseCode) -> String {
    match code {
        ResponseCode::ServFail => "SERVFAIL".to_owned(),
        ResponseCode::Refused => "REFUSED".to_owned(),
        ResponseCode::FormErr => "FORMERR".to_owned(),
        ResponseCode::NotImp => "NOTIMP".to_owned(),
        code => code.to_str().to_owned(),
    }
}

#[cfg(test)]
mod tests;
