//! The resource that limits a rate.

use std::fmt;

use super::run::LabRun;

/// A role that uses a larger share of its cores is the limit.
const FULL: f64 = 0.93;
/// A machine that is busier is a limit as a whole.
const FULL_MACHINE: f64 = 0.95;

/// A network with a larger share of its speed in use is the limit: frames have heads, too.
const FULL_NETWORK: f64 = 0.9;

/// The limit of the rate of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingConstraint {
    /// The proxy's cores are busy.
    ProxyCpu,
    /// The generator's cores are busy.
    Generator,
    /// The servers' cores are busy.
    Origin,
    /// Roles share cores, and together they use all of them.
    SharedCores,
    /// A network's bandwidth is used up.
    Network,
    /// The host took CPU time.
    Steal,
    /// None of them.
    NoneSeen,
}

impl fmt::Display for BindingConstraint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ProxyCpu => "the proxy's CPU",
            Self::Generator => "the generator's CPU",
            Self::Origin => "the origin's CPU",
            Self::SharedCores => "the cores that generator and origin share",
            Self::Network => "the network",
            Self::Steal => "CPU time that the host took",
            Self::NoneSeen => "none seen",
        })
    }
}

/// The limit of a run.
pub fn binding_constraint(run: &LabRun) -> BindingConstraint {
    let share = |role: Option<super::RoleUsage>| role.map_or(0.0, |role| role.share);
    if share(run.proxy) >= FULL {
        return BindingConstraint::ProxyCpu;
    }
    if run.network_share.unwrap_or(0.0) >= FULL_NETWORK {
        return BindingConstraint::Network;
    }
    let (client, origin) = (share(run.client), share(run.origin));
    if client >= FULL {
        return BindingConstraint::Generator;
    }
    if origin >= FULL {
        return BindingConstraint::Origin;
    }
    let shares_cores = run.raw["cores"]["client"] == run.raw["cores"]["origin"];
    if (shares_cores && client + origin >= FULL) || run.busy.unwrap_or(0.0) >= FULL_MACHINE {
        return BindingConstraint::SharedCores;
    }
    if run.steal.unwrap_or(0.0) > 0.05 {
        return BindingConstraint::Steal;
    }
    BindingConstraint::NoneSeen
}

#[cfg(test)]
mod tests {
    use super::{BindingConstraint, binding_constraint};
    use crate::experiment::LoadLevel;
    use crate::findings::tests::even;
    use crate::findings::{LabRun, RoleUsage};

    #[test]
    fn the_limit_is_the_role_whose_cores_are_busy() {
        let check = |proxy: f64, client: f64, origin: f64, expected: BindingConstraint| {
            let mut run = even("a", LoadLevel::Rate(100.0), 0, 1_000_000);
            let usage = |share| Some(RoleUsage { share, ..RoleUsage::default() });
            (run.proxy, run.client, run.origin) = (usage(proxy), usage(client), usage(origin));
            assert_eq!(binding_constraint(&run), expected, "{proxy} {client} {origin}");
            run.raw["cores"]["client"] = 5.into();
            let apart = if expected == BindingConstraint::SharedCores {
                BindingConstraint::NoneSeen
            } else {
                expected
            };
            assert_eq!(binding_constraint(&run), apart, "{proxy} {client} {origin} apart");
        };
        check(0.99, 0.5, 0.3, BindingConstraint::ProxyCpu);
        check(0.5, 0.97, 0.0, BindingConstraint::Generator);
        check(0.5, 0.1, 0.98, BindingConstraint::Origin);
        check(0.5, 0.6, 0.39, BindingConstraint::SharedCores);
        check(0.5, 0.4, 0.3, BindingConstraint::NoneSeen);
    }

    /// 720 requests of 100 KB per second are 590 Mbit/s: the limit of the published knee was the
    /// network of its machines, not their CPU.
    #[test]
    fn a_network_is_the_limit_when_its_bandwidth_is_used() {
        let run = even("a", LoadLevel::Rate(720.0), 0, 1_000_000);
        let with = |bits: f64, share: Option<f64>| {
            let mut raw = run.raw.clone();
            raw["bench"]["bytes"] = (720.0 * 102_400.0).into();
            raw["network_bits"] = bits.into();
            raw["bench"]["machine"]["network_share"] = share.into();
            binding_constraint(&LabRun::of(raw).unwrap())
        };
        assert_eq!(with(600e6, None), BindingConstraint::Network);
        assert_eq!(with(10e9, None), BindingConstraint::NoneSeen);
        assert_eq!(with(10e9, Some(0.95)), BindingConstraint::Network);
        assert_eq!(BindingConstraint::Network.to_string(), "the network");
    }
}
